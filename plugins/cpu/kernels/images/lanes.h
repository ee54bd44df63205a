/* lanes.h - loops of vision ops, one set for each ISA. */
#ifndef KEEL_CPU_LANES_H
#define KEEL_CPU_LANES_H

#include "cpu.h"

/* Boxes by their corners, and their areas. */
typedef struct cpu_boxes {
  double *y0, *x0, *y1, *x1, *area;
} cpu_boxes;

/* How many boxes one look is at. */
#define CPU_BOXES 32

typedef struct cpu_lanes {
  /* The first block of CPU_BOXES of boxes [from, to) in which one may share more than `low` of
   * what it and `one` (y0, x0, y1, x1, area) cover; `to`: none. */
  int64_t (*meet)(const cpu_boxes *boxes, int64_t from, int64_t to,
                  const double *one, double low);
  /* sum[i] += weight * x[i], or = where it is the first */
  void (*add_f32)(double *sum, const float *x, double weight, int64_t n,
                  bool first);
  void (*add_f64)(double *sum, const double *x, double weight, int64_t n,
                  bool first);
  /* most[i] = the larger of it and the weighted x[i], by `least` where that is negative; NaN is
   * passed over. Where it is the first, of that and minus infinity. */
  void (*most_f32)(double *most, const float *x, double weight, double least,
                   int64_t n, bool first);
  void (*most_f64)(double *most, const double *x, double weight, double least,
                   int64_t n, bool first);
} cpu_lanes;

extern const cpu_lanes cpu_lanes_base, cpu_lanes_avx2, cpu_lanes_avx512;
const cpu_lanes *cpu_lanes_get(void);

#endif /* KEEL_CPU_LANES_H */
