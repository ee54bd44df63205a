/* powers_of_e.h - e to the x for x <= 0, and the sum of such powers.
 *
 * Included by what is compiled once for each instruction set; loops over these become
 * vectors. An element's bits depend on nothing but its value. */
#ifndef KEEL_CPU_POWERS_OF_E_H
#define KEEL_CPU_POWERS_OF_E_H

#include "cpu.h"

#ifdef __FMA__
#define TIMES_PLUS __builtin_fmaf
#else
#define TIMES_PLUS(a, b, c) ((a) * (b) + (c))
#endif

/* e to the x up to 0, within 2 units in the last place (a polynomial around 0, the
 * rest by the exponent's bits; Cody and Waite's two parts of log 2). NaN stays. */
static inline float power_of_e(float x) {
  x = -105.0f > x ? -105.0f : x; /* 0 from there on */
  const float moved = TIMES_PLUS(x, 1.44269504f, 0x1.8p23f);
  const int32_t n = (int32_t)(float_bits(moved) - 0x4b400000u);
  const float whole = moved - 0x1.8p23f;
  const float near = TIMES_PLUS(whole, -0.693359375f, x);
  const float r = TIMES_PLUS(whole, 2.12194440e-4f, near);
  float p = 1.9875691500e-4f;
  p = TIMES_PLUS(p, r, 1.3981999507e-3f);
  p = TIMES_PLUS(p, r, 8.3334519073e-3f);
  p = TIMES_PLUS(p, r, 4.1665795894e-2f);
  p = TIMES_PLUS(p, r, 1.6666665459e-1f);
  p = TIMES_PLUS(p, r, 5.0000001201e-1f);
  p = TIMES_PLUS(p * r, r, r) + 1.0f;
  /* twice, for what is below the least exponent */
  return p * bits_float((uint32_t)(n + (127 + 64)) << 23) * 0x1p-64f;
}

#define POWERS_NEAR \
  16 /* sums beside each other; each is of a few dozen elements at most */

/* The sum of some hundred powers: none is below 0, so that floats lose no more than a few
 * units in the last place. */
static inline double sum_of_powers(const float *x, int64_t n) {
  float sums[POWERS_NEAR] = {0};
  double sum = 0;
  int64_t i = 0;
  for (; i + POWERS_NEAR <= n; i += POWERS_NEAR)
    for (int k = 0; k < POWERS_NEAR; k++)
      sums[k] += x[i + k];
  for (; i < n; i++)
    sum += (double)x[i];
  for (int width = POWERS_NEAR / 2; width; width /= 2)
    for (int k = 0; k < width; k++)
      sums[k] += sums[k + width];
  return sum + (double)sums[0];
}

#endif /* KEEL_CPU_POWERS_OF_E_H */
