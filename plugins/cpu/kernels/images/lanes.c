/* lanes.c - loops of vision ops.
 *
 * Compiled once for each instruction set, with LANES_SET naming the result; the compiler
 * makes the vectors. */
#include "lanes.h"

static inline double lanes_least(double a, double b) {
  return a < b ? a : b;
}

static inline double most(double a, double b) {
  return a > b ? a : b;
}

/* A product in place of a quotient: the caller leaves some room for its rounding. */
static inline int64_t meets(const cpu_boxes *boxes, int64_t i,
                            const double *one, double low) {
  double height =
      lanes_least(one[2], boxes->y1[i]) - most(one[0], boxes->y0[i]);
  double width = lanes_least(one[3], boxes->x1[i]) - most(one[1], boxes->x0[i]);
  double common = most(height, 0) * most(width, 0);
  return common > (one[4] + boxes->area[i] - common) * low;
}

static int64_t lanes_meet(const cpu_boxes *boxes, int64_t from, int64_t to,
                          const double *one, double low) {
  const double here[5] = {one[0], one[1], one[2], one[3], one[4]};
  const cpu_boxes b = *boxes;
  for (; from + CPU_BOXES <= to; from += CPU_BOXES) {
    int64_t some = 0;
    for (int i = 0; i < CPU_BOXES; i++)
      some |= meets(&b, from + i, here, low);
    if (some) return from;
  }
  for (int64_t i = from; i < to; i++)
    if (meets(&b, i, here, low)) return from;
  return to;
}

#define ADD(name, T)                                                  \
  static void name(double *sum, const T *x, double weight, int64_t n, \
                   bool first) {                                      \
    if (first)                                                        \
      for (int64_t i = 0; i < n; i++)                                 \
        sum[i] = weight * (double)x[i];                               \
    else                                                              \
      for (int64_t i = 0; i < n; i++)                                 \
        sum[i] += weight * (double)x[i];                              \
  }
ADD(add_f32, float)
ADD(add_f64, double)

#define LARGEST(name, T)                                                   \
  static void name(double *best, const T *x, double weight, double lesser, \
                   int64_t n, bool first) {                                \
    for (int64_t i = 0; i < n && first; i++)                               \
      best[i] = -(double)INFINITY;                                         \
    for (int64_t i = 0; i < n; i++) {                                      \
      double value = (x[i] < 0 ? lesser : weight) * (double)x[i];          \
      best[i] = most(value, best[i]);                                      \
    }                                                                      \
  }
LARGEST(most_f32, float)
LARGEST(most_f64, double)

const cpu_lanes LANES_SET = {.meet = lanes_meet,
                             .add_f32 = add_f32,
                             .add_f64 = add_f64,
                             .most_f32 = most_f32,
                             .most_f64 = most_f64};
