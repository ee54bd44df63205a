/* gelu.h - Gelu, its approximation by tanh, and Silu, on floats and doubles; loops over them
 * become vectors. An element's bits depend on nothing but its value. */
#ifndef KEEL_CPU_GELU_H
#define KEEL_CPU_GELU_H

#include "powers_of_e.h"

/* What the normal distribution has beyond t >= 0, within 4 units in the last place and what
 * the rounding of t * t makes: e to the -t^2 / 2 times a polynomial in 1 / (1 + 0.35 t), fitted
 * over [0, 14.5] (the form is Hastings', "Approximations for Digital Computers", 1955). */
static inline float beyond(float t) {
  const float u = 1.0f / TIMES_PLUS(t, 0.35f, 1.0f);
  float p = -2.915796273e-2f;
  p = TIMES_PLUS(p, u, 1.440312875e-1f);
  p = TIMES_PLUS(p, u, -2.558397477e-1f);
  p = TIMES_PLUS(p, u, 1.593205227e-1f);
  p = TIMES_PLUS(p, u, -2.321290499e-2f);
  p = TIMES_PLUS(p, u, 1.055527268e-1f);
  p = TIMES_PLUS(p, u, 1.198212334e-1f);
  p = TIMES_PLUS(p, u, 1.398635226e-1f);
  p = TIMES_PLUS(p, u, 1.396213065e-1f);
  return p * u * power_of_e(t * t * -0.5f);
}

/* Where x is below 0 the digits are those of what lies beyond; that is 0 from 16 on. */
static inline float geluf(float x) {
  const float t = fabsf(x) < 16.0f ? fabsf(x) : 16.0f;
  const float part = t * beyond(t);
  return x < 0 ? -part : x - part;
}
static inline double gelu(double x) {
  return x * (0.5 * erfc(x * -0.70710678118654752));
}

/* 2 sqrt(2 / pi), and that times 0.044715: x / (1 + exp(-2 u)) */
#define GELU_FACTOR 1.5957691216057308
#define GELU_CUBE   0.071354816272600249

static inline float gelu_by_tanhf(float given) {
  const float x = given < -32.0f ? -32.0f : given; /* 0 there */
  const float z = x * TIMES_PLUS(x * x, (float)GELU_CUBE, (float)GELU_FACTOR);
  const float power = power_of_e(-fabsf(z));
  return x * ((z < 0 ? power : 1.0f) / (1.0f + power));
}
static inline double gelu_by_tanh(double x) {
  return x / (1 + exp(x * (-GELU_FACTOR - x * x * GELU_CUBE)));
}

static inline float siluf(float given) {
  const float x = given < -110.0f ? -110.0f : given; /* 0 there */
  const float power = power_of_e(-fabsf(x));
  return x * ((x < 0 ? power : 1.0f) / (1.0f + power));
}
static inline double silu(double x) {
  return x / (1 + exp(-x));
}

#endif /* KEEL_CPU_GELU_H */
