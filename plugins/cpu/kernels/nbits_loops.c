/* nbits_loops.c - the loops of nbits.h.
 *
 * Compiled once for each instruction set, with NBITS naming the result. A byte of weights has
 * two numbers; low halves meet the even numbers of A, high halves the odd ones, so that nothing
 * is brought into order. */
#include "nbits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define GROUP_BYTES (CPU_NBITS_GROUP / 2)

static int64_t row_bytes(const cpu_nbits *w) {
  return w->blocks * w->size * w->bits / 8;
}

static const uint8_t *bytes_of(const cpu_nbits *w, int64_t column) {
  return w->data + column * row_bytes(w);
}

/* ---- zero points ------------------------------------------------------------------------- */

/* Zero points other than 8, times what all numbers of their blocks come to. */
static float zeros_share(const cpu_nbits *w, int64_t column,
                         const float *sums) {
  float share = 0;
  if (!w->zeros && !w->packed_zeros) return 0;
  for (int64_t b = 0; b < w->blocks; b++)
    share += cpu_nbits_scale(w, column, b) *
             (cpu_nbits_zero(w, column, b) - 8) * sums[b];
  return share;
}

/* ---- floats ------------------------------------------------------------------------------ */

#if defined(__AVX512F__)
/* 16 bytes times 32 numbers. */
static inline __m512 add_group(__m512 sum, const uint8_t *bytes,
                               const float *even, const float *odd) {
  const __m512 numbers =
      _mm512_setr_ps(-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7);
  __m512i both = _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)bytes));
  __m512 low = _mm512_permutexvar_ps(both, numbers);
  __m512 high = _mm512_permutexvar_ps(_mm512_srli_epi32(both, 4), numbers);
  sum = _mm512_fmadd_ps(low, _mm512_loadu_ps(even), sum);
  return _mm512_fmadd_ps(high, _mm512_loadu_ps(odd), sum);
}

static float dot4(const cpu_nbits *w, int64_t column,
                  const cpu_nbits_line *line) {
  const uint8_t *bytes = bytes_of(w, column);
  const float *scales = w->scales + column * w->blocks;
  const float *even = line->even, *odd = line->odd;
  __m512 all = _mm512_setzero_ps();
  for (int64_t b = 0; b < w->blocks; b++) {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t i = 0; i < w->size; i += CPU_NBITS_GROUP) {
      sum = add_group(sum, bytes, even, odd);
      bytes += GROUP_BYTES;
      even += GROUP_BYTES;
      odd += GROUP_BYTES;
    }
    all = _mm512_fmadd_ps(sum, _mm512_set1_ps(scales[b]), all);
  }
  return _mm512_reduce_add_ps(all) - zeros_share(w, column, line->sums);
}
#elif defined(__AVX2__)
static inline __m256 floats_of(__m128i bytes) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

static float total(__m256 v) {
  __m128 half =
      _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_shuffle_ps(half, half, 1)));
}

static float dot4(const cpu_nbits *w, int64_t column,
                  const cpu_nbits_line *line) {
  const uint8_t *bytes = bytes_of(w, column);
  const float *scales = w->scales + column * w->blocks;
  const float *even = line->even, *odd = line->odd;
  const __m128i mask = _mm_set1_epi8(15), middle = _mm_set1_epi8(8);
  __m256 all = _mm256_setzero_ps();
  for (int64_t b = 0; b < w->blocks; b++) {
    __m256 sum = _mm256_setzero_ps(), more = _mm256_setzero_ps();
    for (int64_t i = 0; i < w->size; i += CPU_NBITS_GROUP) {
      __m128i both = _mm_loadu_si128((const void *)bytes);
      __m128i low = _mm_sub_epi8(_mm_and_si128(both, mask), middle);
      __m128i high =
          _mm_sub_epi8(_mm_and_si128(_mm_srli_epi16(both, 4), mask), middle);
      sum = _mm256_fmadd_ps(floats_of(low), _mm256_loadu_ps(even), sum);
      more = _mm256_fmadd_ps(floats_of(high), _mm256_loadu_ps(odd), more);
      sum = _mm256_fmadd_ps(floats_of(_mm_srli_si128(low, 8)),
                            _mm256_loadu_ps(even + 8), sum);
      more = _mm256_fmadd_ps(floats_of(_mm_srli_si128(high, 8)),
                             _mm256_loadu_ps(odd + 8), more);
      bytes += GROUP_BYTES;
      even += GROUP_BYTES;
      odd += GROUP_BYTES;
    }
    all = _mm256_fmadd_ps(_mm256_add_ps(sum, more), _mm256_set1_ps(scales[b]),
                          all);
  }
  return total(all) - zeros_share(w, column, line->sums);
}
#else
static float dot4(const cpu_nbits *w, int64_t column,
                  const cpu_nbits_line *line) {
  const uint8_t *bytes = bytes_of(w, column);
  const float *scales = w->scales + column * w->blocks;
  const float *even = line->even, *odd = line->odd;
  float all = 0;
  for (int64_t b = 0; b < w->blocks; b++, bytes += w->size / 2) {
    float sum = 0;
    for (int64_t i = 0; i < w->size / 2; i++)
      sum += (float)((bytes[i] & 15) - 8) * even[i] +
             (float)((bytes[i] >> 4) - 8) * odd[i];
    even += w->size / 2;
    odd += w->size / 2;
    all += sum * scales[b];
  }
  return all - zeros_share(w, column, line->sums);
}
#endif

/* ---- bytes --------------------------------------------------------------------------------- */

#if defined(__AVX512BW__)
/* Which of four scales a group's lanes have, by groups of a block: 1, 2 or all four. */
static __m512i lanes_of(int64_t groups) {
  if (groups == 1)
    return _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  if (groups == 2)
    return _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  return _mm512_setzero_si512();
}

/* less + both halves of bytes, times bytes of A, four products a lane. */
static inline __m512i multiply(__m512i less, __m512i bytes, __m512i even,
                               __m512i odd) {
  const __m512i mask = _mm512_set1_epi8(15);
  __m512i low = _mm512_and_si512(bytes, mask);
  __m512i high = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), mask);
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(less, low, even), high, odd);
#else
  __m512i sum = _mm512_add_epi16(_mm512_maddubs_epi16(low, even),
                                 _mm512_maddubs_epi16(high, odd));
  return _mm512_add_epi32(less, _mm512_madd_epi16(sum, _mm512_set1_epi16(1)));
#endif
}

/* Four scales, of a chunk's first block and those behind it: there is room for that. */
static inline __m512 scales_at(const cpu_f16 *scales, __m512i lanes) {
  __m128i four = _mm_loadl_epi64((const void *)scales);
  return _mm512_permutexvar_ps(lanes,
                               _mm512_castps128_ps512(_mm_cvtph_ps(four)));
}

static float dot4_bytes(const cpu_nbits *w, int64_t column,
                        const cpu_nbits_line *line) {
  const uint8_t *bytes = bytes_of(w, column);
  const cpu_f16 *scales = w->halves + column * w->blocks;
  const int64_t all_bytes = row_bytes(w);
  const __m512i lanes = lanes_of(w->size / CPU_NBITS_GROUP);
  const int shift = __builtin_ctzll((uint64_t)w->size) - 1;
  __m512 all = _mm512_setzero_ps();
  int64_t i = 0;
  for (; i + 64 <= all_bytes; i += 64) {
    __m512i sum = multiply(_mm512_loadu_si512(line->less + i / 4),
                           _mm512_loadu_si512(bytes + i),
                           _mm512_loadu_si512(line->even8 + i),
                           _mm512_loadu_si512(line->odd8 + i));
    __m512 scale = _mm512_mul_ps(scales_at(scales + (i >> shift), lanes),
                                 _mm512_loadu_ps(line->scales + i / 4));
    all = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, all);
  }
  if (i < all_bytes) {
    const __mmask64 mask = (UINT64_C(1) << (all_bytes - i)) - 1;
    const __mmask16 some = (__mmask16)((1u << (all_bytes - i) / 4) - 1);
    __m512i sum = multiply(_mm512_maskz_loadu_epi32(some, line->less + i / 4),
                           _mm512_maskz_loadu_epi8(mask, bytes + i),
                           _mm512_maskz_loadu_epi8(mask, line->even8 + i),
                           _mm512_maskz_loadu_epi8(mask, line->odd8 + i));
    __m512 scale =
        _mm512_maskz_mul_ps(some, scales_at(scales + (i >> shift), lanes),
                            _mm512_maskz_loadu_ps(some, line->scales + i / 4));
    all = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, all);
  }
  return _mm512_reduce_add_ps(all) * w->largest[column] -
         zeros_share(w, column, line->sums);
}
#elif defined(__AVX2__)
static inline __m256i multiply(__m256i less, __m256i bytes, __m256i even,
                               __m256i odd) {
  const __m256i mask = _mm256_set1_epi8(15);
  __m256i low = _mm256_and_si256(bytes, mask);
  __m256i high = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(less, low, even), high,
                                 odd);
#else
  __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(low, even),
                                 _mm256_maddubs_epi16(high, odd));
  return _mm256_add_epi32(less, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
#endif
}

static float dot4_bytes(const cpu_nbits *w, int64_t column,
                        const cpu_nbits_line *line) {
  const uint8_t *bytes = bytes_of(w, column);
  const cpu_f16 *scales = w->halves + column * w->blocks;
  const int64_t all_bytes = row_bytes(w);
  const int shift = __builtin_ctzll((uint64_t)w->size) - 1;
  __m256 all = _mm256_setzero_ps();
  int64_t i = 0;
  for (; i + 32 <= all_bytes; i += 32) {
    int64_t first = i >> shift, second = (i + GROUP_BYTES) >> shift;
    __m256i sum =
        multiply(_mm256_loadu_si256((const void *)(line->less + i / 4)),
                 _mm256_loadu_si256((const void *)(bytes + i)),
                 _mm256_loadu_si256((const void *)(line->even8 + i)),
                 _mm256_loadu_si256((const void *)(line->odd8 + i)));
    __m256 scale = _mm256_insertf128_ps(
        _mm256_castps128_ps256(_mm_set1_ps(_cvtsh_ss(scales[first].bits))),
        _mm_set1_ps(_cvtsh_ss(scales[second].bits)), 1);
    scale = _mm256_mul_ps(scale, _mm256_loadu_ps(line->scales + i / 4));
    all = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, all);
  }
  float rest = 0;
  if (i < all_bytes) { /* one group */
    __m256i sum = multiply(
        _mm256_zextsi128_si256(
            _mm_loadu_si128((const void *)(line->less + i / 4))),
        _mm256_zextsi128_si256(_mm_loadu_si128((const void *)(bytes + i))),
        _mm256_zextsi128_si256(
            _mm_loadu_si128((const void *)(line->even8 + i))),
        _mm256_zextsi128_si256(
            _mm_loadu_si128((const void *)(line->odd8 + i))));
    rest = total(_mm256_cvtepi32_ps(sum)) * f16_float(scales[i >> shift]) *
           line->scales[i / 4];
  }
  return (total(all) + rest) * w->largest[column] -
         zeros_share(w, column, line->sums);
}
#else
static float dot4_bytes(const cpu_nbits *w, int64_t column,
                        const cpu_nbits_line *line) {
  const uint8_t *bytes = bytes_of(w, column);
  const cpu_f16 *scales = w->halves + column * w->blocks;
  float all = 0;
  for (int64_t b = 0; b < w->blocks; b++) {
    int32_t sum = 0;
    int64_t from = b * w->size / 2;
    for (int64_t i = from; i < from + w->size / 2; i++)
      sum += ((bytes[i] & 15) - 8) * line->even8[i] +
             ((bytes[i] >> 4) - 8) * line->odd8[i];
    all += (float)sum * f16_float(scales[b]) * line->scales[from / 4];
  }
  return all * w->largest[column] - zeros_share(w, column, line->sums);
}
#endif

/* ---- a row of A -------------------------------------------------------------------------- */

static void part(const float *x, int64_t n, float *even, float *odd) {
  for (int64_t i = 0; i < n / 2; i++) {
    even[i] = x[2 * i];
    odd[i] = x[2 * i + 1];
  }
}

static float largest(const float *x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; i++) {
    float size = fabsf(x[i]);
    most = size > most ? size : most;
  }
  return most;
}

static void narrow_block(const cpu_nbits_line *line, int64_t from, int64_t n,
                         float *out_sum) {
  float most = largest(line->x + from, n), scale = most / 127;
  float by = scale > 0 ? 1 / scale : 0;
  int32_t sum = 0;
  by = by < INFINITY ? by : 0;
  for (int64_t i = from / 2; i < (from + n) / 2; i++) {
    float even = line->x[2 * i] * by, odd = line->x[2 * i + 1] * by;
    line->even8[i] = (int8_t)(even + (even < 0 ? -0.5f : 0.5f));
    line->odd8[i] = (int8_t)(odd + (odd < 0 ? -0.5f : 0.5f));
  }
  for (int64_t lane = from / 8; lane < (from + n) / 8; lane++) {
    int32_t own = 0;
    for (int64_t i = 4 * lane; i < 4 * lane + 4; i++)
      own += line->even8[i] + line->odd8[i];
    line->less[lane] = -8 * own;
    line->scales[lane] = scale;
    sum += own;
  }
  *out_sum = (float)sum * scale;
}

static void narrow(const cpu_nbits *w, const cpu_nbits_line *line) {
  for (int64_t b = 0; b < w->blocks; b++)
    narrow_block(line, b * w->size, w->size, &line->sums[b]);
}

/* ---- columns as floats --------------------------------------------------------------------- */

static void expand(const cpu_nbits *w, int64_t column, float *to) {
  const uint8_t *bytes = bytes_of(w, column);
  for (int64_t b = 0; b < w->blocks; b++, to += w->size) {
    const float scale = cpu_nbits_scale(w, column, b);
    const float zero = cpu_nbits_zero(w, column, b);
    const int64_t count = w->size * w->bits / 8;
    if (w->bits == 8)
      for (int64_t i = 0; i < count; i++)
        to[i] = ((float)bytes[i] - zero) * scale;
    else if (w->bits == 4)
      for (int64_t i = 0; i < count; i++) {
        to[2 * i] = ((float)(bytes[i] & 15) - zero) * scale;
        to[2 * i + 1] = ((float)(bytes[i] >> 4) - zero) * scale;
      }
    else
      for (int64_t i = 0; i < count; i++)
        for (int j = 0; j < 4; j++)
          to[4 * i + j] = ((float)(bytes[i] >> 2 * j & 3) - zero) * scale;
    bytes += count;
  }
}

#define LANES 32

static float dot(const float *a, const float *b, int64_t n) {
  float lanes[LANES] = {0}, sum = 0;
  int64_t i = 0;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      lanes[k] += a[i + k] * b[i + k];
  for (; i < n; i++)
    sum += a[i] * b[i];
  for (int k = 0; k < LANES; k++)
    sum += lanes[k];
  return sum;
}

const cpu_nbits_loops NBITS = {.dot4 = dot4,
                               .dot4_bytes = dot4_bytes,
                               .expand = expand,
                               .dot = dot,
                               .part = part,
                               .narrow = narrow};
