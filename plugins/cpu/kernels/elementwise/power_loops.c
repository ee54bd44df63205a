/* power_loops.c - powers of floats.
 *
 * Compiled once for each instruction set, with POWERS naming the result. What models
 * raise to is a constant, mostly 2, 3, 0.5 or -0.5, and needs no logarithm. */
#include "power.h"

#define LANES 16

#ifdef KEEL_WITH_MVEC
extern double pow(double, double) __attribute__((simd("notinbranch")));
#endif

#define LOOP(name, expression)                                \
  static void name(const float *from, float *to, int64_t n) { \
    for (int64_t i = 0; i < n; i++) {                         \
      const double x = (double)from[i];                       \
      to[i] = (float)(expression);                            \
    }                                                         \
  }
LOOP(square, x *x)
LOOP(cube, x *x *x)
LOOP(fourth, (x * x) * (x * x))
LOOP(inverse, 1 / x)
LOOP(inverse_square, 1 / (x * x))
/* of -0 and of minus infinity pow is not the root */
LOOP(root, x < -1e300 ? INFINITY : sqrt(x + 0.0))
LOOP(inverse_root, x < -1e300 ? 0 : 1 / sqrt(x + 0.0))

/* Full blocks, the last one too, by one piece of code, as in loops.c. */
__attribute__((noinline)) static void block(const double *x, const double *y,
                                            double *z) {
  for (int k = 0; k < LANES; k++)
    z[k] = pow(x[k], y[k]);
}

static void any(const float *x, const float *y, int64_t step, float *z,
                int64_t n) {
  double a[LANES], b[LANES], c[LANES];
  for (int64_t i = 0; i < n; i += LANES) {
    int64_t count = n - i < LANES ? n - i : LANES;
    for (int64_t k = 0; k < LANES; k++) {
      a[k] = k < count ? (double)x[i + k] : 1;
      b[k] = k < count ? (double)y[(i + k) * step] : 1;
    }
    block(a, b, c);
    for (int64_t k = 0; k < count; k++)
      z[i + k] = (float)c[k];
  }
}

static void power(const float *x, const float *y, int64_t step, float *z,
                  int64_t n) {
  static const struct {
    float exponent;
    void (*loop)(const float *from, float *to, int64_t n);
  } known[] = {{2, square},         {3, cube},    {4, fourth},
               {-1, inverse},       {0.5f, root}, {-0.5f, inverse_root},
               {-2, inverse_square}};
  for (size_t i = 0; step == 0 && i < sizeof known / sizeof *known; i++)
    if (*y == known[i].exponent) {
      known[i].loop(x, z, n);
      return;
    }
  any(x, y, step, z, n);
}

const cpu_powers POWERS = {.f32 = power};
