/* pool_blocks.c - the loop of pool_blocks.h.
 *
 * Compiled once for each instruction set, with POOL_BLOCKS naming the result. Windows are
 * joined downwards first, then across; a vector is the channels of a block, or part of them, at one place. */
#include "pool_blocks.h"

#include <math.h>

#if defined(__AVX512BW__)
#define BLOCK 16 /* as cpu_block() says */
#define LANES 16
#elif defined(__AVX2__)
#define BLOCK 8
#define LANES 8
#else
#define BLOCK 8
#define LANES 4
#endif

typedef float vec
    __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t bits __attribute__((vector_size(4 * LANES)));

static inline vec at(const float *x, int64_t place) {
  return *(const vec *)(const void *)(x + place * BLOCK);
}

static inline void put(float *x, int64_t place, vec value) {
  *(vec *)(void *)(x + place * BLOCK) = value;
}

static inline vec join(vec most, vec x, bool mean) {
  if (mean) return most + x;
  const vec least = (vec){0} - INFINITY;
  bits larger = (x > most) | ~(x >= least); /* or no number */
  return (vec)(((bits)x & larger) | ((bits)most & ~larger));
}

/* `mean` is a constant where this is put in. */
static inline __attribute__((always_inline)) void pool_row(
    const cpu_pool_plane *p, const float *x, int64_t row, float *room, float *y,
    bool mean) {
  const cpu_pool_span down = p->rows[row];
  const int64_t wide = p->in[1], step = p->dilation[0] * wide;
  for (int64_t c = 0; c < wide; c++) {
    int64_t from = down.at * wide + c;
    vec sum = at(x, from);
    for (int64_t k = 1; k < down.count; k++)
      sum = join(sum, at(x, from + k * step), mean);
    put(room, c, sum);
  }
  for (int64_t c = 0; c < p->out[1]; c++) {
    const cpu_pool_span across = p->columns[c];
    vec sum = at(room, across.at);
    for (int64_t k = 1; k < across.count; k++)
      sum = join(sum, at(room, across.at + k * p->dilation[1]), mean);
    if (mean) sum /= down.size * across.size;
    put(y, row * p->out[1] + c, sum);
  }
}

static void pool(const cpu_pool_plane *plane, const float *x, int64_t row,
                 float *room, float *y) {
  for (int part = 0; part < BLOCK; part += LANES)
    if (plane->mean)
      pool_row(plane, x + part, row, room, y + part, true);
    else
      pool_row(plane, x + part, row, room, y + part, false);
}

const cpu_pool_blocks_fn POOL_BLOCKS = pool;
