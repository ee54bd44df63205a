/* winograd.h - convolutions of 3 x 3 taps by Winograd's algorithm (winograd.c): their loops. */
#ifndef KEEL_CPU_WINOGRAD_H
#define KEEL_CPU_WINOGRAD_H

#include "cpu.h"

/* A tile makes 2 x 2 elements of the output from 4 x 4 of the input. These become as many
 * sums, the spots; each spot is a matrix product of its own. */
#define WINOGRAD_SPOTS 16

/* Weights of a convolution: [spot][panel][k][filter]; a panel is two blocks of filters, k a
 * channel of the input in a layer of the window. */
typedef struct cpu_winograd_weights {
  float *u;
  /* [panel][k][tap][filter], where some are no numbers; or NULL */
  float *plain;
  int64_t layers, ins, panels; /* ins: with what fills up the last block */
} cpu_winograd_weights;

/* What a tile reads, in blocks of channels: 4 x 4 elements of some layers, from one on that
 * may lie outside of the image, and `gap` apart. */
typedef struct cpu_winograd_source {
  const float *x;           /* the image */
  int64_t size[3];          /* its layers, rows, columns */
  int64_t first[3], gap[3]; /* of the same */
  int64_t layers, ins;      /* that it reads */
} cpu_winograd_source;

/* Where a tile's results go: blocks [first, first + blocks) of filters. */
typedef struct cpu_winograd_out {
  const float *made; /* of spot 0; blocks lie side by side */
  int64_t step;      /* from a spot to the next */
  int64_t first, blocks;
  float *y;                   /* of the first block, where the tile begins */
  int64_t row, column, block; /* elements from one to the next */
  int64_t rows, columns;      /* of the tile that are in the image: at most 2 */
  const float *bias;          /* of the first block, or NULL */
  const float *z;             /* what is added, which lies as y does; or NULL */
  float low, high;
} cpu_winograd_out;

typedef struct cpu_winograd_loops {
  /* One panel's weights from [filters][ins][layers * 9] to u[spot * step + k * panel + filter].
   * False: they are not all such that sums of them are numbers. */
  bool (*pack)(const float *weights, int64_t filters, int64_t ins,
               int64_t layers, float *u, int64_t step);
  /* to[spot * step + k] */
  void (*in)(const cpu_winograd_source *source, float *to, int64_t step);
  /* made[r * pitch + filter] = the sum over k of v[r * width + k] and u, in the order of k */
  void (*product)(const float *v, int64_t width, int64_t rows, const float *u,
                  int64_t depth, int64_t panels, float *made, int64_t pitch);
  /* Results that are no numbers are made anew, from the elements that they see. */
  void (*out)(const cpu_winograd_out *out, const cpu_winograd_source *source,
              const cpu_winograd_weights *weights);
} cpu_winograd_loops;

extern const cpu_winograd_loops cpu_winograd_avx2, cpu_winograd_avx512;

#endif /* KEEL_CPU_WINOGRAD_H */
