/* pool.h - pooling by rows (pool_rows.c), one set of bodies for each ISA. */
#ifndef KEEL_CPU_POOL_H
#define KEEL_CPU_POOL_H

#include "cpu.h"
#include "families/window.h"

typedef struct pool_work {
  window w;
  const void *x;
  void *y;
  int64_t *indices; /* of the maxima, or NULL */
  int64_t ins, outs, p;
  bool count_pad, column_major;

  /* by rows: a tile is `tall` rows of `wide` results; the rest has so many */
  int64_t tall, wide, down, across;
  kd_loop_body plain; /* by elements, where there is no memory */
} pool_work;

enum { POOL_LARGEST, POOL_MEAN, POOL_NORM, POOL_KINDS };

/* Of f16, bf16, f32, f64, and of u8 and i8 the largest; an item is a tile. */
typedef struct cpu_pools {
  kd_loop_body tiles[POOL_KINDS][KD_DTYPE_COUNT];
} cpu_pools;

extern const cpu_pools cpu_pools_base, cpu_pools_avx2, cpu_pools_avx512;

#endif /* KEEL_CPU_POOL_H */
