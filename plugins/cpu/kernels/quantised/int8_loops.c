/* int8_loops.c - the loops of int8.h: operands, micro-kernels, results.
 *
 * Compiled once for each instruction set, with INT8 naming the result. A tile is R rows by one
 * or two vectors of columns, whose sums stay in registers; k is innermost: a pair (16 bits) or
 * quad (bytes) of A is broadcast, and multiplied with those of a panel's columns.
 *
 *   FULL(X)             X of each height of a tile, the largest first
 *   TILE_OF(R, V)       defines tile_R_V, of R rows by V vectors; TILE(R): of 2 and of 1
 *   QUADS_OF(R, V, S)   defines quads_S_R_V, the same of quads; S says which operand is signed
 *   MULTIPLY(a, b)      pmaddwd: products of 16 bits, added in pairs to 32
 *   PAIRS(u, s)         maddubs: products of bytes, added in pairs to 16 bits, which saturate
 *   ADD_QUADS           sum + products of four bytes: vpdpbusd, or maddubs and pmaddwd
 *   EACH(i)             i in each element of a vector */
#include "int8.h"
#include "unroll.h"

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

/* ---- operands -------------------------------------------------------------------- */

static void int8_loops_widen(const uint8_t *from, int64_t n, uint8_t flip,
                             int zero, int16_t *to) {
  const int16_t less = (int16_t)zero;
  for (int64_t i = 0; i < n; i++)
    to[i] = (int16_t)((int16_t)(from[i] ^ flip) - less);
}

#if defined(__AVX512BW__)
static inline void widen_row(const uint8_t *from, int64_t n, __m256i flip,
                             __m512i less, int16_t *to) {
  for (int64_t i = 0; i < n; i += 32) {
    __mmask32 mask = n - i < 32 ? (1u << (n - i)) - 1 : ~0u;
    __m256i bytes = _mm256_maskz_loadu_epi8(mask, from + i);
    __m512i wide = _mm512_cvtepu8_epi16(_mm256_xor_si256(bytes, flip));
    _mm512_mask_storeu_epi16(to + i, mask, _mm512_sub_epi16(wide, less));
  }
}
#endif

#if defined(__AVX2__) && !defined(__AVX512BW__)
/* 16 bytes. */
static inline void widen_16(const uint8_t *from, __m256i flip, __m256i less,
                            int16_t *to) {
  __m256i wide = _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)from));
  wide = _mm256_sub_epi16(_mm256_xor_si256(wide, flip), less);
  _mm256_storeu_si256((void *)to, wide);
}

/* 16 bytes, two apart: `low` or high ones of those at `from`. */
static inline void widen_every_other(const uint8_t *from, bool low,
                                     __m256i flip, __m256i less, int16_t *to) {
  __m256i both = _mm256_loadu_si256((const void *)from);
  both = low ? _mm256_and_si256(both, _mm256_set1_epi16(0xFF))
             : _mm256_srli_epi16(both, 8);
  both = _mm256_sub_epi16(_mm256_xor_si256(both, flip), less);
  _mm256_storeu_si256((void *)to, both);
}

/* 8 bytes. */
static inline void widen_8(const uint8_t *from, __m256i flip, __m256i less,
                           int16_t *to) {
  __m128i wide = _mm_cvtepu8_epi16(_mm_loadl_epi64((const void *)from));
  wide = _mm_xor_si128(wide, _mm256_castsi256_si128(flip));
  _mm_storeu_si128((void *)to,
                   _mm_sub_epi16(wide, _mm256_castsi256_si128(less)));
}

/* The last ones of a row once more; returns how many are done: all or none. */
static inline int64_t widen_row(const uint8_t *from, int64_t n, int64_t stride,
                                uint8_t flip, int16_t less, int16_t *to) {
  const __m256i flips = _mm256_set1_epi16(flip);
  const __m256i zeros = _mm256_set1_epi16(less);
  int64_t i = 0;
  if (stride == 1 && n >= 8 && n <= 16) {
    widen_8(from, flips, zeros, to);
    widen_8(from + n - 8, flips, zeros, to + n - 8);
    return n;
  }
  if (n <= 16 || stride > 2) return 0;
  if (stride == 1) {
    for (; i + 16 <= n; i += 16)
      widen_16(from + i, flips, zeros, to + i);
    widen_16(from + n - 16, flips, zeros, to + n - 16);
  } else {
    for (; i + 16 < n; i += 16)
      widen_every_other(from + 2 * i, true, flips, zeros, to + i);
    i = n - 16; /* reads nothing behind the last one */
    widen_every_other(from + 2 * i - 1, false, flips, zeros, to + i);
  }
  return n;
}
#elif !defined(__AVX512BW__)
static inline int64_t widen_row(const uint8_t *from, int64_t n, int64_t stride,
                                uint8_t flip, int16_t less, int16_t *to) {
  if (stride != 1) return 0;
  int8_loops_widen(from, n, flip, less, to);
  return n;
}
#endif

static void widen_rows(const uint8_t *from, int64_t rows, int64_t n,
                       int64_t from_step, int64_t stride, uint8_t flip,
                       int zero, int16_t *to, int64_t to_step) {
  const int16_t less = (int16_t)zero;
  for (int64_t row = 0; row < rows; row++, from += from_step, to += to_step) {
    int64_t i = 0;
#if defined(__AVX512BW__)
    if (stride == 1) {
      widen_row(from, n, _mm256_set1_epi8((char)flip), _mm512_set1_epi16(less),
                to);
      i = n;
    }
#else
    i = widen_row(from, n, stride, flip, less, to);
#endif
    if (stride == 1)
      for (; i < n; i++)
        to[i] = (int16_t)((int16_t)(from[i] ^ flip) - less);
    else if (stride == 2)
      for (; i < n; i++)
        to[i] = (int16_t)((int16_t)(from[2 * i] ^ flip) - less);
    else
      for (; i < n; i++)
        to[i] = (int16_t)((int16_t)(from[stride * i] ^ flip) - less);
  }
}

/* Pairs of two rows, for less columns than a panel has: the rest is filled up. b: NULL: 0. */
static void pack_edge(const uint8_t *a, const uint8_t *b, int64_t count,
                      uint8_t flip, const int16_t *zeros, int16_t *to) {
  memset(to, 0, 2 * COLUMNS * sizeof *to);
  for (int64_t c = 0; c < count; c++) {
    to[2 * c] = (int16_t)((a[c] ^ flip) - zeros[c]);
    to[2 * c + 1] = b ? (int16_t)((b[c] ^ flip) - zeros[c]) : 0;
  }
}

#if defined(__SSE4_1__)
/* The same of all columns, 8 at a time. */
static inline void pack_pair(const uint8_t *a, const uint8_t *b, __m128i flip,
                             const int16_t *twice, int16_t *to) {
  UNROLL for (int c = 0; c < COLUMNS; c += 8, twice += 16, to += 16) {
    __m128i first = _mm_loadl_epi64((const void *)(a + c));
    __m128i second = _mm_loadl_epi64((const void *)(b + c));
    __m128i both = _mm_xor_si128(_mm_unpacklo_epi8(first, second), flip);
#if defined(__AVX2__)
    __m256i less = _mm256_loadu_si256((const void *)twice);
    _mm256_storeu_si256((void *)to,
                        _mm256_sub_epi16(_mm256_cvtepu8_epi16(both), less));
#else
    __m128i low = _mm_cvtepu8_epi16(both);
    __m128i high = _mm_cvtepu8_epi16(_mm_srli_si128(both, 8));
    low = _mm_sub_epi16(low, _mm_loadu_si128((const void *)twice));
    high = _mm_sub_epi16(high, _mm_loadu_si128((const void *)(twice + 8)));
    _mm_storeu_si128((void *)to, low);
    _mm_storeu_si128((void *)(to + 8), high);
#endif
  }
}
#endif

static void int8_loops_pack(const uint8_t *from, int64_t step, int64_t k,
                            int64_t count, uint8_t flip, const int16_t *zeros,
                            int16_t *to) {
#if defined(__SSE4_1__)
  int16_t twice[2 * COLUMNS];
  const __m128i flips = _mm_set1_epi8((char)flip);
  for (int c = 0; c < COLUMNS && count >= COLUMNS; c++)
    twice[2 * c] = twice[2 * c + 1] = zeros[c];
  for (; count >= COLUMNS && k > 1; k -= 2, from += 2 * step, to += 2 * COLUMNS)
    pack_pair(from, from + step, flips, twice, to);
#endif
  for (; k > 1; k -= 2, from += 2 * step, to += 2 * COLUMNS)
    pack_edge(from, from + step, count, flip, zeros, to);
  if (k) pack_edge(from, NULL, count, flip, zeros, to);
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

static void int8_loops_multiply(int64_t rows, int64_t count, int64_t pairs,
                                const int16_t *a, int64_t lead,
                                const int16_t *panel, int32_t *c, int64_t step,
                                bool add) {
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

/* ---- tiles of bytes ------------------------------------------------------------------- */

#if defined(__SSSE3__)
#if defined(__AVX512BW__)
#define PAIRS(a, b) _mm512_maddubs_epi16(a, b)
#define ONES        _mm512_set1_epi16(1)
#elif defined(__AVX2__)
#define PAIRS(a, b) _mm256_maddubs_epi16(a, b)
#define ONES        _mm256_set1_epi16(1)
#else
#define PAIRS(a, b) _mm_maddubs_epi16(a, b)
#define ONES        _mm_set1_epi16(1)
#endif
/* adds products of unsigned bytes with signed ones, four at once */
#if defined(__AVX512VNNI__)
#define ADD_QUADS(sum, u, s) _mm512_dpbusd_epi32(sum, u, s)
#define ANY_PAIRS            true
#elif defined(__AVXVNNI__)
#define ADD_QUADS(sum, u, s) _mm256_dpbusd_avx_epi32(sum, u, s)
#define ANY_PAIRS            true
#else
#define ADD_QUADS(sum, u, s) ADD(sum, MULTIPLY(PAIRS(u, s), ONES))
#endif
#define A_SIGNED(sum, a, b)   ADD_QUADS(sum, b, a)
#define A_UNSIGNED(sum, a, b) ADD_QUADS(sum, a, b)

static inline int32_t quad_at(const uint8_t *a) {
  int32_t quad;
  memcpy(&quad, a, sizeof quad);
  return quad;
}

#define QUADS_OF(R, V, SIGN)                                                \
  __attribute__((noinline)) static void quads_##SIGN##_##R##_##V(           \
      int64_t quads, const uint8_t *a, int64_t lead, const uint8_t *b,      \
      int32_t *c, int64_t step) {                                           \
    vec sum[R][V];                                                          \
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++)   \
        sum[i][v] = LOAD(c + i * step + v * HALF);                          \
    for (int64_t q = 0; q < quads; q++, a += 4, b += 4 * COLUMNS) {         \
      vec right[V];                                                         \
      UNROLL for (int v = 0; v < V; v++) right[v] = LOAD(b + v * 4 * HALF); \
      UNROLL for (int i = 0; i < R; i++) {                                  \
        const vec left = EACH(quad_at(a + i * lead));                       \
        UNROLL for (int v = 0; v < V; v++) sum[i][v] =                      \
            SIGN(sum[i][v], left, right[v]);                                \
      }                                                                     \
    }                                                                       \
    UNROLL for (int i = 0; i < R; i++) UNROLL for (int v = 0; v < V; v++)   \
        STORE(c + i * step + v * HALF, sum[i][v]);                          \
  }
#define QUADS(R)           \
  QUADS_OF(R, 2, A_SIGNED) \
  QUADS_OF(R, 1, A_SIGNED) \
  QUADS_OF(R, 2, A_UNSIGNED) QUADS_OF(R, 1, A_UNSIGNED)
FULL(QUADS)

#define MULTIPLY_QUADS(name, SIGN)                                       \
  static void name(int64_t rows, int64_t count, int64_t quads,           \
                   const uint8_t *a, int64_t lead, const uint8_t *panel, \
                   int32_t *c, int64_t step) {                           \
    for (int64_t h; rows > 0; rows -= h, a += h * lead, c += h * step) { \
      FULL(SIGN##_TRY) break;                                            \
    }                                                                    \
  }
#define TRY_OF(R, SIGN)                                       \
  if (rows >= R) {                                            \
    h = R;                                                    \
    if (count > HALF)                                         \
      quads_##SIGN##_##R##_2(quads, a, lead, panel, c, step); \
    else                                                      \
      quads_##SIGN##_##R##_1(quads, a, lead, panel, c, step); \
    continue;                                                 \
  }
#define A_SIGNED_TRY(R)   TRY_OF(R, A_SIGNED)
#define A_UNSIGNED_TRY(R) TRY_OF(R, A_UNSIGNED)
MULTIPLY_QUADS(by_signed, A_SIGNED)
MULTIPLY_QUADS(by_unsigned, A_UNSIGNED)

static void multiply4(int64_t rows, int64_t count, int64_t quads, const void *a,
                      int64_t lead, const void *panel, int32_t *c, int64_t step,
                      bool signed_a) {
  if (signed_a)
    by_signed(rows, count, quads, a, lead, panel, c, step);
  else
    by_unsigned(rows, count, quads, a, lead, panel, c, step);
}

/* Four rows of all columns, 8 at a time. */
static inline void pack_quad(const uint8_t *from, int64_t step, __m128i flip,
                             uint8_t *to) {
  UNROLL for (int c = 0; c < COLUMNS; c += 8, to += 32) {
    const uint8_t *at = from + c;
    __m128i a = _mm_loadl_epi64((const void *)at);
    __m128i b = _mm_loadl_epi64((const void *)(at + step));
    __m128i d = _mm_loadl_epi64((const void *)(at + 2 * step));
    __m128i e = _mm_loadl_epi64((const void *)(at + 3 * step));
    a = _mm_xor_si128(_mm_unpacklo_epi8(a, b), flip);
    d = _mm_xor_si128(_mm_unpacklo_epi8(d, e), flip);
    _mm_storeu_si128((void *)to, _mm_unpacklo_epi16(a, d));
    _mm_storeu_si128((void *)(to + 16), _mm_unpackhi_epi16(a, d));
  }
}

static void pack4(const uint8_t *from, int64_t step, int64_t k, int64_t count,
                  uint8_t flip, uint8_t *to) {
  const __m128i flips = _mm_set1_epi8((char)flip);
  for (; count >= COLUMNS && k > 3; k -= 4, from += 4 * step, to += 4 * COLUMNS)
    pack_quad(from, step, flips, to);
  if (count > COLUMNS) count = COLUMNS;
  for (; k > 0; k -= 4, from += 4 * step, to += 4 * COLUMNS) {
    memset(to, 0, 4 * COLUMNS);
    for (int i = 0; i < 4 && i < k; i++)
      for (int64_t c = 0; c < count; c++)
        to[4 * c + i] = from[i * step + c] ^ flip;
  }
}
#endif

/* ---- few channels ------------------------------------------------------------------ */

/* `count` is a constant where this is put in. */
#if defined(__AVX2__)
#define REACH 16 /* results at once */
/* Pairs of taps; halves of a vector are apart until the end. */
static inline __attribute__((always_inline)) void taps_here(
    const int16_t *x, const int64_t *offsets, const int16_t *w, int64_t count,
    int32_t *sums) {
  __m256i low = _mm256_setzero_si256(), high = low;
  for (int64_t t = 0; t < count; t += 2) {
    bool pair = t + 1 < count;
    __m256i by = _mm256_set1_epi32(pair ? pair_at(w + t) : (uint16_t)w[t]);
    __m256i a = _mm256_loadu_si256((const void *)(x + offsets[t]));
    __m256i b = _mm256_loadu_si256((const void *)(x + offsets[t + pair]));
    low = _mm256_add_epi32(low,
                           _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), by));
    high = _mm256_add_epi32(high,
                            _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), by));
  }
  _mm256_storeu_si256((void *)sums, _mm256_permute2x128_si256(low, high, 0x20));
  _mm256_storeu_si256((void *)(sums + 8),
                      _mm256_permute2x128_si256(low, high, 0x31));
}
#else
#define REACH 8
static inline void taps_here(const int16_t *x, const int64_t *offsets,
                             const int16_t *w, int64_t count, int32_t *sums) {
  int32_t sum[REACH] = {0};
  for (int64_t t = 0; t < count; t++)
    for (int i = 0; i < REACH; i++)
      sum[i] += (int32_t)x[offsets[t] + i] * w[t];
  memcpy(sums, sum, sizeof sum);
}
#endif

static void taps(const int16_t *x, int64_t rows, int64_t step, int64_t n,
                 const int64_t *offsets, const int16_t *w, int64_t count,
                 int32_t *sums) {
  for (int64_t row = 0; row < rows; row++, x += step, sums += n)
    for (int64_t i = 0; i < n; i += REACH)
      if (count == 9)
        taps_here(x + i, offsets, w, 9, sums + i);
      else
        taps_here(x + i, offsets, w, count, sums + i);
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

#if defined(__AVX512BW__)
/* All of them, 16 at a time. */
static int64_t requantise_wide(const int32_t *sums, int64_t n,
                               const float *scale, int64_t step, int32_t bias,
                               int zero, bool is_signed, uint8_t *to) {
  const __m512 low = _mm512_set1_ps((float)((is_signed ? -128 : 0) - zero));
  const __m512 high = _mm512_set1_ps((float)((is_signed ? 127 : 255) - zero));
  const __m512i plus = _mm512_set1_epi32(zero), add = _mm512_set1_epi32(bias);
  __m512 by = _mm512_set1_ps(*scale);
  for (int64_t i = 0; i < n; i += 16) {
    __mmask16 mask = (__mmask16)(n - i < 16 ? (1u << (n - i)) - 1 : 0xFFFFu);
    __m512i sum = _mm512_maskz_loadu_epi32(mask, sums + i);
    if (step) by = _mm512_maskz_loadu_ps(mask, scale + i);
    __m512 value =
        _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(sum, add)), by);
    value = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(value, value, _CMP_ORD_Q),
                                value);
    value = _mm512_min_ps(_mm512_max_ps(value, low), high);
    __m512i steps = _mm512_add_epi32(_mm512_cvtps_epi32(value), plus);
    _mm512_mask_cvtepi32_storeu_epi8(to + i, mask, steps);
  }
  return n;
}
#elif defined(__AVX2__)
/* 8 results as integers in range. */
static inline __m256i to_steps(const int32_t *sums, __m256i bias, __m256 scale,
                               __m256 low, __m256 high, __m256i zero) {
  __m256i sum = _mm256_loadu_si256((const void *)sums);
  __m256 value =
      _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(sum, bias)), scale);
  value = _mm256_and_ps(value, _mm256_cmp_ps(value, value, _CMP_ORD_Q));
  value = _mm256_min_ps(_mm256_max_ps(value, low), high);
  return _mm256_add_epi32(_mm256_cvtps_epi32(value), zero);
}

/* As many as can be 32 at a time; returns how many. */
static int64_t requantise_wide(const int32_t *sums, int64_t n,
                               const float *scale, int64_t step, int32_t bias,
                               int zero, bool is_signed, uint8_t *to) {
  const __m256 low = _mm256_set1_ps((float)((is_signed ? -128 : 0) - zero));
  const __m256 high = _mm256_set1_ps((float)((is_signed ? 127 : 255) - zero));
  const __m256i plus = _mm256_set1_epi32(zero), add = _mm256_set1_epi32(bias);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256 one = _mm256_set1_ps(*scale);
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    __m256i part[4];
    UNROLL for (int k = 0; k < 4; k++) {
      __m256 by = step ? _mm256_loadu_ps(scale + i + 8 * k) : one;
      part[k] = to_steps(sums + i + 8 * k, add, by, low, high, plus);
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
#endif

static void requantise(const int32_t *sums, int64_t n, const float *scale,
                       int64_t step, int32_t bias, int zero, bool is_signed,
                       uint8_t *to) {
  const float low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  const float one = *scale, to_zero = (float)zero;
  int64_t i = 0;
#if defined(__AVX2__)
  i = requantise_wide(sums, n, scale, step, bias, zero, is_signed, to);
  if (i < n && !step) { /* the last ones, filled up */
    int32_t rest[32] = {0};
    uint8_t bytes[32];
    memcpy(rest, sums + i, (size_t)(n - i) * sizeof *rest);
    requantise_wide(rest, 32, scale, 0, bias, zero, is_signed, bytes);
    memcpy(to + i, bytes, (size_t)(n - i));
    return;
  }
#endif
  for (; i < n && step; i++)
    to[i] = to_byte(sums[i], bias, scale[i], to_zero, low, high);
  for (; i < n; i++)
    to[i] = to_byte(sums[i], bias, one, to_zero, low, high);
}

#ifndef ANY_PAIRS
#define ANY_PAIRS false
#endif

const cpu_int8_loops INT8 = {
    .columns = COLUMNS,
    .rows = 12,
    .depth = 4,
    .any_pairs = ANY_PAIRS,
    .widen = int8_loops_widen,
    .widen_rows = widen_rows,
    .pack = int8_loops_pack,
    .multiply = int8_loops_multiply,
#if defined(__SSSE3__)
    .pack4 = pack4,
    .multiply4 = multiply4,
#endif
    .taps = taps,
    .requantise = requantise,
};
