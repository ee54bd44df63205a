/* quant_loops.c - the loops of quant_loops.h.
 *
 * Compiled once for each instruction set, with QUANT naming the result; the compiler
 * makes the vectors. All numbers of 16 bits are exact as floats. */
#include "quant_loops.h"

static inline float quantised(float x, float scale, float zero, float low,
                              float high) {
  float value = rintf(x / scale);
  value = (value == value ? value : 0) + zero;
  value = value < low ? low : value;
  return value > high ? high : value;
}

#define QUANTISE(name, T, low, high)                                       \
  static void to_##name(const float *x, int64_t n, const float *scale,     \
                        const float *zero, int64_t step, void *place) {    \
    const float by = *scale, plus = *zero;                                 \
    T *to = place;                                                         \
    if (step)                                                              \
      for (int64_t i = 0; i < n; i++)                                      \
        to[i] = (T)(int32_t)quantised(x[i], scale[i], zero[i], low, high); \
    else                                                                   \
      for (int64_t i = 0; i < n; i++)                                      \
        to[i] = (T)(int32_t)quantised(x[i], by, plus, low, high);          \
  }

#define DEQUANTISE(name, T, C, less_zero)                                   \
  static void from_##name(const void *place, int64_t n, const float *scale, \
                          const float *zero, int64_t step, float *to) {     \
    const float by = *scale, less = *zero;                                  \
    const T *x = place;                                                     \
    (void)less;                                                             \
    (void)zero;                                                             \
    if (step)                                                               \
      for (int64_t i = 0; i < n; i++)                                       \
        to[i] = (float)(((C)x[i] less_zero(zero[i])) * (C)scale[i]);        \
    else                                                                    \
      for (int64_t i = 0; i < n; i++)                                       \
        to[i] = (float)(((C)x[i] less_zero(less)) * (C)by);                 \
  }
#define LESS(zero) -zero
#define NONE(zero)

QUANTISE(u8, uint8_t, 0, 255)
QUANTISE(i8, int8_t, -128, 127)
QUANTISE(u16, uint16_t, 0, 65535)
QUANTISE(i16, int16_t, -32768, 32767)
DEQUANTISE(u8, uint8_t, float, LESS)
DEQUANTISE(i8, int8_t, float, LESS)
DEQUANTISE(u16, uint16_t, float, LESS)
DEQUANTISE(i16, int16_t, float, LESS)
DEQUANTISE(i32, int32_t, double, NONE)

#define LANES 32

/* Lanes of their own, since a compiler may not change the order of comparisons. */
static void range(const float *x, int64_t n, float *low, float *high) {
  float least[LANES], most[LANES];
  int64_t i = 0;
  for (int k = 0; k < LANES; k++) {
    least[k] = *low;
    most[k] = *high;
  }
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++) {
      least[k] = x[i + k] < least[k] ? x[i + k] : least[k];
      most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
    }
  for (int k = 0; i + k < n; k++) {
    least[k] = x[i + k] < least[k] ? x[i + k] : least[k];
    most[k] = x[i + k] > most[k] ? x[i + k] : most[k];
  }
  for (int k = 0; k < LANES; k++) {
    *low = least[k] < *low ? least[k] : *low;
    *high = most[k] > *high ? most[k] : *high;
  }
}

const cpu_quant_loops QUANT = {
    .to_u8 = to_u8,
    .to_i8 = to_i8,
    .to_u16 = to_u16,
    .to_i16 = to_i16,
    .from_u8 = from_u8,
    .from_i8 = from_i8,
    .from_u16 = from_u16,
    .from_i16 = from_i16,
    .from_i32 = from_i32,
    .range = range,
};
