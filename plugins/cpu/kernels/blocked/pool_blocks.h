/* pool_blocks.h - pooling in the blocked layout, one loop for each ISA. */
#ifndef KEEL_CPU_POOL_BLOCKS_H
#define KEEL_CPU_POOL_BLOCKS_H

#include "cpu.h"

/* One result along a dimension: the first of its taps that is in the image, how many are,
 * one at least, and how many a mean divides by. */
typedef struct cpu_pool_span {
  int64_t at, count;
  float size;
} cpu_pool_span;

typedef struct cpu_pool_plane {
  int64_t in[2], out[2]; /* rows, columns */
  int64_t dilation[2];
  const cpu_pool_span *rows, *columns;
  bool mean;
} cpu_pool_plane;

/* Row `row` of the results of one block; `room` is for a row of the image. A NaN stays. */
typedef void (*cpu_pool_blocks_fn)(const cpu_pool_plane *plane, const float *x,
                                   int64_t row, double *room, float *y);

extern const cpu_pool_blocks_fn cpu_pool_blocks_base, cpu_pool_blocks_avx2,
    cpu_pool_blocks_avx512;

#endif /* KEEL_CPU_POOL_BLOCKS_H */
