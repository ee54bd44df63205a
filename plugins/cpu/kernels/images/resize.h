/* resize.h - Resize by rows (resize_rows.c), one set of bodies for each ISA. */
#ifndef KEEL_CPU_RESIZE_H
#define KEEL_CPU_RESIZE_H

#include "cpu.h"

/* One dimension: output o is the sum of `width` inputs, in the order of their places. */
typedef struct resize_taps {
  int64_t in, out, width;
  const int64_t *index; /* by output: `width` of them */
  const double *weight; /* not of nearest */
} resize_taps;

/* The dimensions from the first that is moved to the last; what is behind them are elements
 * that stay together. */
typedef struct resize_rows {
  resize_taps axes[KD_MAX_RANK];
  int count;
  int64_t outer, tail; /* elements before and behind those dimensions */
  int64_t band, bands; /* outputs of axes[0] in an item; items of all */
  size_t size;         /* of an element */
  const void *x;
  void *y;
  kd_loop_body plain; /* by elements, where there is no memory */
  void *context;      /* of plain */
} resize_rows;

/* Nearest, of any type, and weighted sums, of what doubles hold; an item is a band. */
typedef struct cpu_resizes {
  kd_loop_body nearest, sums[KD_DTYPE_COUNT];
} cpu_resizes;

extern const cpu_resizes cpu_resizes_base, cpu_resizes_avx2, cpu_resizes_avx512;

#endif /* KEEL_CPU_RESIZE_H */
