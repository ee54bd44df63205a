/* norm.h - norms and softmax by rows (norm_rows.c), one set of bodies for each ISA. */
#ifndef KEEL_CPU_NORM_H
#define KEEL_CPU_NORM_H

#include "cpu.h"
#include "families/lines.h"

typedef struct norm_work {
  const void *x, *scale, *shift; /* of one type; shift may be NULL */
  void *y;
  const kd_tensor *mean, *inverse; /* outputs, or NULL */
  int64_t scales, shifts;          /* how many there are */
  int64_t channels; /* of scale and shift; 0: they are of elements */
  int64_t space;    /* a line is `count` / `space` channels; 0: one */
  double epsilon;
  kd_dtype dtype; /* where it is needed */
  strided kept, gone;
  int64_t count;
  kd_loop_body plain; /* of any line */
} norm_work;

typedef enum soft { SOFT_MAX, SOFT_LOG, SOFT_HARD } soft;

typedef struct soft_work {
  soft how;
  lines all;
  const kd_tensor *x, *y;
} soft_work;

/* All of f32; items are lines, which are packed unless it is said. */
typedef struct cpu_norms {
  kd_loop_body deviation; /* with a scale for each element or channel */
  kd_loop_body squares;   /* by the root of the mean square; a scale each */
  kd_loop_body lengths[2];
  kd_loop_body plain; /* MeanVarianceNormalization, of lines of packed runs */
  void (*scale)(const float *x, const float *scale, const float *shift,
                int64_t n, float *y);
  kd_loop_body soft; /* not SOFT_HARD; along any axis */
} cpu_norms;

extern const cpu_norms cpu_norms_base, cpu_norms_avx2, cpu_norms_avx512;

#endif /* KEEL_CPU_NORM_H */
