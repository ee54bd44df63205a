/* int8_loops.c - the loops of int8.h.
 *
 * Compiled once for each instruction set, with INT8 naming the result. Tiles of C stay in
 * registers; x86's pmaddwd multiplies pairs of 16 bits and adds them. */
#include "int8.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#if defined(__AVX512BW__)
#define VECTOR  64 /* bytes */
#define FULL(X) X(12) X(8) X(4) X(2) X(1)
typedef __m512i vec;
#define LOAD(p)        _mm512_loadu_si512(p)
#define STORE(p, v)    _mm512_storeu_si512(p, v)
#define EACH(i)        _mm512_set1_epi32(i)
#define MULTIPLY(a, b) _mm512_madd_epi16(a, b)
#define ADD(a, b)      _mm512_add_epi32(a, b)
#define ZERO           _mm512_setzero_si512()
#elif defined(__AVX2__)
#define VECTOR         32
#define FULL(X)        X(6) X(4) X(2) X(1)
typedef __m256i vec;
#define LOAD(p)        _mm256_loadu_si256((const void *)(p))
#define STORE(p, v)    _mm256_storeu_si256((void *)(p), v)
#define EACH(i)        _mm256_set1_epi32(i)
#define MULTIPLY(a, b) _mm256_madd_epi16(a, b)
#define ADD(a, b)      _mm256_add_epi32(a, b)
#define ZERO           _mm256_setzero_si256()
#elif defined(__x86_64__)
#define VECTOR         16
#define FULL(X)        X(4) X(2) X(1)
typedef __m128i vec;
#define LOAD(p)        _mm_loadu_si128((const void *)(p))
#define STORE(p, v)    _mm_storeu_si128((void *)(p), v)
#define EACH(i)        _mm_set1_epi32(i)
#define MULTIPLY(a, b) _mm_madd_epi16(a, b)
#define ADD(a, b)      _mm_add_epi32(a, b)
#define ZERO           _mm_setzero_si128()
#else
#define VECTOR      16
#define FULL(X)     X(4) X(2) X(1)
typedef int32_t vec __attribute__((vector_size(16), aligned(2), may_alias));
typedef uint32_t bits __attribute__((vector_size(16)));
#define LOAD(p)     (*(const vec *)(const void *)(p))
#define STORE(p, v) (*(vec *)(void *)(p) = (v))
#define EACH(i)     ((vec){0} + (i))
#define LOW(v)      ((vec)((bits)(v) << 16) >> 16)
#define MULTIPLY(a, b) \
  ((vec)((bits)(LOW(a) * LOW(b)) + (bits)(((a) >> 16) * ((b) >> 16))))
#define ADD(a, b) ((vec)((bits)(a) + (bits)(b)))
#define ZERO      ((vec){0})
#endif

#define HALF    (VECTOR / 4) /* columns of a vector */
#define COLUMNS (2 * HALF)

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* ---- operands -------------------------------------------------------------------- */

static void widen(const uint8_t *from, int64_t n, uint8_t flip, int zero,
                  int16_t *to) {
  const int16_t less = (int16_t)zero;
  for (int64_t i = 0; i < n; i++)
    to[i] = (int16_t)((int16_t)(from[i] ^ flip) - less);
}

/* Two numbers of 16 bits in the order of memory. */
static inline uint32_t pair_of(uint32_t first, uint32_t second) {
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  return first << 16 | (second & 0xffffu);
#else
  return second << 16 | (first & 0xffffu);
#endif
}

static inline void pack_pair(const uint8_t *a, const uint8_t *b, int64_t count,
                             uint8_t flip, const int16_t *zeros, uint32_t *to) {
  for (int64_t c = 0; c < count; c++)
    to[c] = pair_of((uint32_t)((a[c] ^ flip) - zeros[c]),
                    (uint32_t)((b[c] ^ flip) - zeros[c]));
}

static void pack(const uint8_t *from, int64_t step, int64_t k, int64_t count,
                 uint8_t flip, const int16_t *zeros, int16_t *panel) {
  uint32_t *to = (uint32_t *)(void *)panel;
  for (; k > 1; k -= 2, from += 2 * step, to += COLUMNS) {
    if (count == COLUMNS) {
      pack_pair(from, from + step, COLUMNS, flip, zeros, to);
    } else {
      memset(to, 0, COLUMNS * sizeof *to);
      pack_pair(from, from + step, count, flip, zeros, to);
    }
  }
  if (!k) return;
  memset(to, 0, COLUMNS * sizeof *to);
  for (int64_t c = 0; c < count; c++)
    to[c] = pair_of((uint32_t)((from[c] ^ flip) - zeros[c]), 0);
}

/* ---- tiles ----------------------------------------------------------------------- */

static inline int32_t pair_at(const int16_t *a) {
  int32_t pair;
  memcpy(&pair, a, sizeof pair);
  return pair;
}

/* R rows by V vectors. */
#define TILE_OF(R, V)                                                       \
  __attribute__((noinline)) static void tile_##R##_##V(                     \
      int64_t pairs, const int16_t *a, int64_t lead, const int16_t *b,      \
      int32_t *c, int64_t step, bool add) {                                 \
    vec sum[R][V];                                                          \
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++)   \
        sum[i][v] = add ? LOAD(c + i * step + v * HALF) : ZERO;             \
    for (int64_t p = 0; p < pairs; p++, a += 2, b += 2 * COLUMNS) {         \
      vec right[V];                                                         \
      UNROLL for (int v = 0; v < V; v++) right[v] = LOAD(b + v * 2 * HALF); \
      UNROLL for (int i = 0; i < R; i++) {                                  \
        const vec left = EACH(pair_at(a + i * lead));                       \
        UNROLL for (int v = 0; v < V; v++) sum[i][v] =                      \
            ADD(sum[i][v], MULTIPLY(left, right[v]));                       \
      }                                                                     \
    }                                                                       \
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++)   \
        STORE(c + i * step + v * HALF, sum[i][v]);                          \
  }
#define TILE(R) TILE_OF(R, 2) TILE_OF(R, 1)
FULL(TILE)

static void multiply(int64_t rows, int64_t count, int64_t pairs,
                     const int16_t *a, int64_t lead, const int16_t *panel,
                     int32_t *c, int64_t step, bool add) {
  for (int64_t h; rows > 0; rows -= h, a += h * lead, c += h * step) {
#define TRY(R)                                           \
  if (rows >= R) {                                       \
    h = R;                                               \
    if (count > HALF)                                    \
      tile_##R##_2(pairs, a, lead, panel, c, step, add); \
    else                                                 \
      tile_##R##_1(pairs, a, lead, panel, c, step, add); \
    continue;                                            \
  }
    FULL(TRY)
#undef TRY
    break;
  }
}

/* ---- few channels ------------------------------------------------------------------ */

static void taps(const int16_t *x, const int64_t *offsets, const int16_t *w,
                 int64_t count, int64_t n, int32_t *sums) {
  for (int64_t i = 0; i < n; i++)
    sums[i] = 0;
  for (int64_t t = 0; t < count; t++) {
    const int16_t *from = x + offsets[t], by = w[t];
    for (int64_t i = 0; i < n; i++)
      sums[i] += (int32_t)from[i] * by;
  }
}

/* ---- results ------------------------------------------------------------------------ */

static inline uint8_t to_byte(int32_t sum, int32_t bias, float scale,
                              float zero, float low, float high) {
  float value = rintf((float)(int32_t)((uint32_t)sum + (uint32_t)bias) * scale);
  value = (value == value ? value : 0) + zero;
  value = value < low ? low : value;
  value = value > high ? high : value;
  return (uint8_t)(int32_t)value;
}

static void requantise(const int32_t *sums, int64_t n, const float *scale,
                       int64_t step, int32_t bias, int zero, bool is_signed,
                       uint8_t *to) {
  const float low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  const float one = *scale, to_zero = (float)zero;
  if (step)
    for (int64_t i = 0; i < n; i++)
      to[i] = to_byte(sums[i], bias, scale[i], to_zero, low, high);
  else
    for (int64_t i = 0; i < n; i++)
      to[i] = to_byte(sums[i], bias, one, to_zero, low, high);
}

const cpu_int8_loops INT8 = {
    .columns = COLUMNS,
    .widen = widen,
    .pack = pack,
    .multiply = multiply,
    .taps = taps,
    .requantise = requantise,
};
