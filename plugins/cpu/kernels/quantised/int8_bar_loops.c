/* int8_bar_loops.c - the micro-kernels of int8_bars.c, for AVX2.
 *
 * Six rows by 16 columns of sums stay in 12 registers. The loop over steps of k is innermost:
 * a row's factor is broadcast and multiplied with two vectors of the panel. maddubs adds pairs
 * of products in 16 bits, which they fit (int8_narrow.c); rests follow as steps of their own.
 *
 *   SUM_STEPS(R, V, TIMES)  sums of R rows by V vectors over all steps, by `pairs` or `quads`
 *   GIVE_SUMS(R, V)         stores them
 *   LOOPS(R, V)             defines wide_R_V and narrow_R_V; BOTH(R): of 2 vectors and of 1
 *   CHOOSE(NAME, ...)       calls NAME_R_V for `rows` and `columns` */
#include <immintrin.h>

#include "int8_bars.h"
#include "unroll.h"

#define HALF 8 /* columns of a vector */

static inline __m256i int8_bar_loops_load(const void *from) {
  return _mm256_loadu_si256(from);
}

static inline __m256i quads(__m256i sum, __m256i left, __m256i right) {
  __m256i pairs = _mm256_maddubs_epi16(right, left);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

static inline __m256i pairs(__m256i sum, __m256i left, __m256i right) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(left, right));
}

/* R rows by V vectors. */
#define SUM_STEPS(R, V, TIMES)                                            \
  __m256i sum[R][V];                                                      \
  UNROLL for (int i = 0; i < (R); i++) UNROLL for (int v = 0; v < V; v++) \
      sum[i][v] = _mm256_setzero_si256();                                 \
  for (int64_t s = 0; s < steps; s++, a += (R), b += 64) {                \
    __m256i right[V];                                                     \
    UNROLL for (int v = 0; v < V; v++) right[v] =                         \
        int8_bar_loops_load(b + 32 * v);                                  \
    UNROLL for (int i = 0; i < (R); i++) {                                \
      const __m256i left = _mm256_set1_epi32(a[i]);                       \
      UNROLL for (int v = 0; v < V; v++) sum[i][v] =                      \
          TIMES(sum[i][v], left, right[v]);                               \
    }                                                                     \
  }
#define GIVE_SUMS(R, V)                                                    \
  UNROLL for (int i = 0; i < (R); i++) UNROLL for (int v = 0; v < V; v++)  \
      _mm256_storeu_si256((void *)(sums + CPU_BAR_COLUMNS * i + HALF * v), \
                          sum[i][v]);

#define LOOPS(R, V)                                                     \
  static void wide_##R##_##V(int64_t steps, const int32_t *a,           \
                             const uint8_t *b, int32_t *sums) {         \
    SUM_STEPS(R, V, pairs)                                              \
    GIVE_SUMS(R, V)                                                     \
  }                                                                     \
  static void narrow_##R##_##V(                                         \
      int64_t steps, const int32_t *a, const uint8_t *b, int64_t rests, \
      const int32_t *steps_of, const int32_t *more, int32_t *sums) {    \
    const uint8_t *panel = b;                                           \
    SUM_STEPS(R, V, quads)                                              \
    for (; rests > 0; rests--, steps_of += (R), more += (R))            \
      UNROLL for (int i = 0; i < (R); i++) {                            \
        const __m256i left = _mm256_set1_epi32(more[i]);                \
        const uint8_t *at = panel + 64 * (int64_t)steps_of[i];          \
        UNROLL for (int v = 0; v < V; v++) sum[i][v] =                  \
            quads(sum[i][v], left, int8_bar_loops_load(at + 32 * v));   \
      }                                                                 \
    GIVE_SUMS(R, V)                                                     \
  }
#define BOTH(R) LOOPS(R, 2) LOOPS(R, 1)
BOTH(6)
BOTH(4)
BOTH(2)
BOTH(1)
#define CALL(NAME, ...)      \
  do {                       \
    if (columns > HALF)      \
      NAME##_2(__VA_ARGS__); \
    else                     \
      NAME##_1(__VA_ARGS__); \
  } while (0)
#define CHOOSE(NAME, ...)          \
  do {                             \
    if (rows == 6)                 \
      CALL(NAME##_6, __VA_ARGS__); \
    else if (rows == 4)            \
      CALL(NAME##_4, __VA_ARGS__); \
    else if (rows == 2)            \
      CALL(NAME##_2, __VA_ARGS__); \
    else                           \
      CALL(NAME##_1, __VA_ARGS__); \
  } while (0)

static void wide(int64_t rows, int64_t columns, int64_t steps, const int32_t *a,
                 const void *panel, int32_t *sums) {
  CHOOSE(wide, steps, a, panel, sums);
}

static void narrow(int64_t rows, int64_t columns, int64_t steps,
                   const int32_t *a, const void *panel, int64_t rests,
                   const int32_t *steps_of, const int32_t *more,
                   int32_t *sums) {
  CHOOSE(narrow, steps, a, panel, rests, steps_of, more, sums);
}

/* ---- results ------------------------------------------------------------------------ */

/* 16 results as integers of 16 bits, before the zero point is added. What is too small
 * becomes the least integer, and so would what is too large. */
static inline __m256i to_steps(const int32_t *sums, int32_t first,
                               float scale) {
  const __m256i add = _mm256_set1_epi32(first);
  const __m256 by = _mm256_set1_ps(scale), most = _mm256_set1_ps(65535);
  __m256i half[2];
  UNROLL for (int v = 0; v < 2; v++) {
    __m256i sum = _mm256_add_epi32(int8_bar_loops_load(sums + HALF * v), add);
    __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), by);
    half[v] = _mm256_cvtps_epi32(_mm256_min_ps(value, most));
  }
  return _mm256_packs_epi32(half[0], half[1]);
}

static inline void int8_bar_loops_put(__m128i bytes, int64_t columns,
                                      uint8_t *to) {
  uint8_t all[CPU_BAR_COLUMNS];
  if (columns >= CPU_BAR_COLUMNS) {
    _mm_storeu_si128((void *)to, bytes);
    return;
  }
  _mm_storeu_si128((void *)all, bytes);
  memcpy(to, all, (size_t)columns);
}

/* By two rows; an odd last one is its own neighbour. */
static void round_bar(const int32_t *sums, int64_t rows, int64_t columns,
                      const int32_t *first, const float *scales, int zero,
                      bool is_signed, uint8_t *to, int64_t step) {
  const __m256i plus = _mm256_set1_epi16((int16_t)zero);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  for (int64_t i = 0; i < rows; i += 2, to += 2 * step) {
    int64_t next = i + 1 < rows ? i + 1 : i;
    __m256i a = to_steps(sums + CPU_BAR_COLUMNS * i, first[i], scales[i]);
    __m256i b =
        to_steps(sums + CPU_BAR_COLUMNS * next, first[next], scales[next]);
    a = _mm256_adds_epi16(a, plus);
    b = _mm256_adds_epi16(b, plus);
    a = is_signed ? _mm256_packs_epi16(a, b) : _mm256_packus_epi16(a, b);
    a = _mm256_permutevar8x32_epi32(a, order);
    int8_bar_loops_put(_mm256_castsi256_si128(a), columns, to);
    if (next > i)
      int8_bar_loops_put(_mm256_extracti128_si256(a, 1), columns, to + step);
  }
}

const cpu_int8_bar_loops cpu_int8_bars_avx2 = {
    .wide = wide,
    .narrow = narrow,
    .round = round_bar,
};
