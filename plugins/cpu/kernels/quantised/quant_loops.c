/* quant_loops.c - the loops of quant_loops.h.
 *
 * Compiled once for each instruction set, with QUANT naming the result; the compiler
 * makes the vectors. All numbers of 16 bits are exact as floats. */
#include "quant_loops.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

static inline float quantised(float x, float scale, float zero, float low,
                              float high) {
  float value = rintf(x / scale);
  value = (value == value ? value : 0) + zero;
  value = value < low ? low : value;
  return value > high ? high : value;
}

#if defined(__AVX2__)
/* Bytes by one scale, 32 at a time; returns how many. */
static int64_t quantise_bytes(const float *x, int64_t n, float scale,
                              float zero, float low, float high, bool is_signed,
                              uint8_t *to) {
  const __m256 by = _mm256_set1_ps(scale);
  const __m256 least = _mm256_set1_ps(low - zero);
  const __m256 most = _mm256_set1_ps(high - zero);
  const __m256i plus = _mm256_set1_epi32((int32_t)zero);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i part[4];
    for (int k = 0; k < 4; k++) {
      __m256 value = _mm256_div_ps(_mm256_loadu_ps(x + i + 8 * k), by);
      value = _mm256_and_ps(value, _mm256_cmp_ps(value, value, _CMP_ORD_Q));
      value = _mm256_min_ps(_mm256_max_ps(value, least), most);
      part[k] = _mm256_add_epi32(_mm256_cvtps_epi32(value), plus);
    }
    __m256i a = _mm256_packs_epi32(part[0], part[1]);
    __m256i b = _mm256_packs_epi32(part[2], part[3]);
    __m256i bytes =
        is_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
    bytes = _mm256_permutevar8x32_epi32(bytes, order);
    _mm256_storeu_si256((void *)(to + i), bytes);
  }
  return i;
}
/* How many elements are quantised by vectors, where those are bytes of one scale. */
#define BYTES_FIRST(T, low, high)                                        \
  (sizeof(T) == 1 && !step ? quantise_bytes(x, n, by, plus, low, high,   \
                                            (low) < 0, (uint8_t *)place) \
                           : 0)
#else
#define BYTES_FIRST(T, low, high) 0
#endif

/* Defines to_name: floats as integers of type T, in [low, high]. */
#define QUANTISE(name, T, low, high)                                       \
  static void to_##name(const float *x, int64_t n, const float *scale,     \
                        const float *zero, int64_t step, void *place) {    \
    const float by = *scale, plus = *zero;                                 \
    T *to = place;                                                         \
    if (step)                                                              \
      for (int64_t i = 0; i < n; i++)                                      \
        to[i] = (T)(int32_t)quantised(x[i], scale[i], zero[i], low, high); \
    else                                                                   \
      for (int64_t i = BYTES_FIRST(T, low, high); i < n; i++)              \
        to[i] = (T)(int32_t)quantised(x[i], by, plus, low, high);          \
  }

/* Defines from_name: integers of type T as floats, computed as C; less_zero: LESS, or NONE where
 * there is no zero point. */
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
    .to = {[KD_U8] = to_u8,
           [KD_I8] = to_i8,
           [KD_U16] = to_u16,
           [KD_I16] = to_i16},
    .from = {[KD_U8] = from_u8,
             [KD_I8] = from_i8,
             [KD_U16] = from_u16,
             [KD_I16] = from_i16,
             [KD_I32] = from_i32},
    .range = range,
};
