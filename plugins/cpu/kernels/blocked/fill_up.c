/* fill_up.c - keeps the zeros that fill up the last block of channels. */
#include "blocked.h"

typedef int32_t quad __attribute__((vector_size(16), aligned(4), may_alias));

typedef struct fill {
  float *last; /* the first image's last block */
  int64_t space,
      image; /* positions of an image; elements from one to the next */
  int64_t quads,
      partly; /* of a position; the first that is not channels alone */
  quad keep;  /* of that one */
} fill;

static void fill_positions(void *context, int64_t begin, int64_t end) {
  const fill *f = context;
  for (int64_t left; begin < end; begin += left) {
    int64_t image = begin / f->space, first = begin % f->space;
    left = end - begin < f->space - first ? end - begin : f->space - first;
    quad *at = (quad *)(f->last + image * f->image) + first * f->quads;
    for (int64_t i = 0; i < left; i++, at += f->quads) {
      at[f->partly] &= f->keep;
      for (int64_t q = f->partly + 1; q < f->quads; q++)
        at[q] = (quad){0};
    }
  }
}

void cpu_fill_up(const kd_tensor *tensor) {
  int64_t block = cpu_block();
  if (tensor->layout != BLOCKED || tensor->dims[1] % block == 0) return;
  int64_t used = tensor->dims[1] % block;
  int64_t space = product(tensor->dims, 2, tensor->rank);
  fill f = {.space = space,
            .image = space * cpu_filled(tensor->dims[1]),
            .quads = block / 4,
            .partly = used / 4};
  f.last = (float *)tensor->data + f.image - space * block;
  for (int64_t i = 0; i < used % 4; i++)
    f.keep[i] = -1;
  cpu_host->parallel_for(cpu_host, tensor->dims[0] * space, CPU_GRAIN / 4,
                         fill_positions, &f);
}
