/* nbits_loops.c - the loops of nbits.h.
 *
 * Compiled once for each instruction set, with NBITS naming the result. A byte of 4-bit weights
 * has two numbers; a row of A is split to match, so that nothing is shuffled:
 *
 *     weights   n1 n0 | n3 n2 | ...  bytes, high half first
 *     A         even: a0 a2 a4 ...  times the low halves; odd: a1 a3 a5 ...  the high ones
 *
 * A loop along k is innermost, in vectors of a group of 32 numbers or more; CPU_NBITS_ROWS rows
 * of bytes meet a column's at once. Products of bytes are added by maddubs or vpdpbusd in 32
 * bits; 4 bits times 8 never saturate. */
#include "nbits.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define GROUP_BYTES   (CPU_NBITS_GROUP / 2)
#define ALWAYS_INLINE static inline __attribute__((always_inline))

static int64_t row_bytes(const cpu_nbits *w) {
  return w->blocks * w->size * w->bits / 8;
}

static const uint8_t *bytes_of(const cpu_nbits *w, int64_t column) {
  return w->data + column * row_bytes(w);
}

#define LANES 16

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

/* less + both halves of bytes, times bytes of A, eight products a lane. */
static inline __m512i nbits_loops_multiply(__m512i less, __m512i low,
                                           __m512i high, __m512i even,
                                           __m512i odd) {
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

/* A line's scales of four groups, in the lanes of each; and what is to be taken off, in the
 * first of each. */
static inline __m512 groups_of(__m128 four) {
  return _mm512_permutexvar_ps(lanes_of(1), _mm512_castps128_ps512(four));
}

static inline __m512i first_of(__m128i four) {
  return _mm512_maskz_permutexvar_epi32(0x1111, lanes_of(1),
                                        _mm512_castsi128_si512(four));
}

ALWAYS_INLINE void sum_rows(const cpu_nbits *w, int64_t column,
                            const cpu_nbits_line *lines, const int rows,
                            float *sums) {
  const uint8_t *bytes = bytes_of(w, column);
  const cpu_f16 *scales = w->halves + column * w->blocks;
  const int64_t all_bytes = row_bytes(w);
  const __m512i lanes = lanes_of(w->size / CPU_NBITS_GROUP);
  const __m512i half = _mm512_set1_epi8(15);
  const int shift = __builtin_ctzll((uint64_t)w->size) - 1;
  __m512 all[CPU_NBITS_ROWS];
  int64_t i = 0;
  for (int r = 0; r < rows; r++)
    all[r] = _mm512_setzero_ps();
  for (; i + 64 <= all_bytes; i += 64) {
    __m512i both = _mm512_loadu_si512(bytes + i);
    __m512i low = _mm512_and_si512(both, half);
    __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), half);
    __m512 scale = scales_at(scales + (i >> shift), lanes);
    for (int r = 0; r < rows; r++) {
      const int32_t *less = lines[r].less + i / GROUP_BYTES;
      __m512i sum = nbits_loops_multiply(
          first_of(_mm_loadu_si128((const void *)less)), low, high,
          _mm512_loadu_si512(lines[r].even8 + i),
          _mm512_loadu_si512(lines[r].odd8 + i));
      __m512 by = groups_of(_mm_loadu_ps(lines[r].scales + i / GROUP_BYTES));
      all[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum),
                               _mm512_mul_ps(scale, by), all[r]);
    }
  }
  if (i < all_bytes) {
    const int64_t left = all_bytes - i;
    const __mmask64 mask = (UINT64_C(1) << left) - 1;
    const __mmask8 few = (__mmask8)((1u << left / GROUP_BYTES) - 1);
    __m512i both = _mm512_maskz_loadu_epi8(mask, bytes + i);
    __m512i low = _mm512_and_si512(both, half);
    __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), half);
    __m512 scale = scales_at(scales + (i >> shift), lanes);
    for (int r = 0; r < rows; r++) {
      const int32_t *less = lines[r].less + i / GROUP_BYTES;
      __m512i sum = nbits_loops_multiply(
          first_of(_mm_maskz_loadu_epi32(few, less)), low, high,
          _mm512_maskz_loadu_epi8(mask, lines[r].even8 + i),
          _mm512_maskz_loadu_epi8(mask, lines[r].odd8 + i));
      __m512 by =
          groups_of(_mm_maskz_loadu_ps(few, lines[r].scales + i / GROUP_BYTES));
      by = _mm512_maskz_mul_ps((__mmask16)((1u << left / 4) - 1), scale, by);
      all[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), by, all[r]);
    }
  }
  for (int r = 0; r < rows; r++)
    sums[r] = _mm512_reduce_add_ps(all[r]);
}
#elif defined(__AVX2__)
static inline __m256i nbits_loops_multiply(__m256i less, __m256i low,
                                           __m256i high, __m256i even,
                                           __m256i odd) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(less, low, even), high,
                                 odd);
#else
  __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(low, even),
                                 _mm256_maddubs_epi16(high, odd));
  return _mm256_add_epi32(less, _mm256_madd_epi16(sum, _mm256_set1_epi16(1)));
#endif
}

static inline __m256i nbits_loops_load(const void *from) {
  return _mm256_loadu_si256(from);
}

static inline __m256i load_half(const void *from) {
  return _mm256_zextsi128_si256(_mm_loadu_si128(from));
}

ALWAYS_INLINE void sum_rows(const cpu_nbits *w, int64_t column,
                            const cpu_nbits_line *lines, const int rows,
                            float *sums) {
  const uint8_t *bytes = bytes_of(w, column);
  const cpu_f16 *scales = w->halves + column * w->blocks;
  const int64_t all_bytes = row_bytes(w);
  const __m256i half = _mm256_set1_epi8(15);
  const int shift = __builtin_ctzll((uint64_t)w->size) - 1;
  __m256 all[CPU_NBITS_ROWS];
  int64_t i = 0;
  for (int r = 0; r < rows; r++)
    all[r] = _mm256_setzero_ps();
  for (; i + 32 <= all_bytes; i += 32) {
    int64_t first = i >> shift, second = (i + GROUP_BYTES) >> shift;
    __m256i both = nbits_loops_load(bytes + i),
            low = _mm256_and_si256(both, half);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), half);
    __m256 scale = _mm256_insertf128_ps(
        _mm256_castps128_ps256(_mm_set1_ps(_cvtsh_ss(scales[first].bits))),
        _mm_set1_ps(_cvtsh_ss(scales[second].bits)), 1);
    for (int r = 0; r < rows; r++) {
      const int32_t *off = lines[r].less + i / GROUP_BYTES;
      __m256i less = _mm256_setr_epi32(off[0], 0, 0, 0, off[1], 0, 0, 0);
      __m256i sum = nbits_loops_multiply(less, low, high,
                                         nbits_loops_load(lines[r].even8 + i),
                                         nbits_loops_load(lines[r].odd8 + i));
      const float *two = lines[r].scales + i / GROUP_BYTES;
      __m256 by = _mm256_insertf128_ps(
          _mm256_castps128_ps256(_mm_set1_ps(two[0])), _mm_set1_ps(two[1]), 1);
      by = _mm256_mul_ps(scale, by);
      all[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), by, all[r]);
    }
  }
  for (int r = 0; r < rows; r++)
    sums[r] = total(all[r]);
  if (i < all_bytes) { /* one group */
    __m256i both = load_half(bytes + i), low = _mm256_and_si256(both, half);
    __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), half);
    for (int r = 0; r < rows; r++) {
      __m256i less = _mm256_setr_epi32(lines[r].less[i / GROUP_BYTES], 0, 0, 0,
                                       0, 0, 0, 0);
      __m256i sum =
          nbits_loops_multiply(less, low, high, load_half(lines[r].even8 + i),
                               load_half(lines[r].odd8 + i));
      sums[r] += total(_mm256_cvtepi32_ps(sum)) *
                 f16_float(scales[i >> shift]) *
                 lines[r].scales[i / GROUP_BYTES];
    }
  }
}
#else
ALWAYS_INLINE void sum_rows(const cpu_nbits *w, int64_t column,
                            const cpu_nbits_line *lines, const int rows,
                            float *sums) {
  const uint8_t *bytes = bytes_of(w, column);
  const cpu_f16 *scales = w->halves + column * w->blocks;
  for (int r = 0; r < rows; r++) {
    sums[r] = 0;
    for (int64_t b = 0; b < w->blocks; b++) {
      int32_t sum = 0;
      int64_t from = b * w->size / 2;
      for (int64_t i = from; i < from + w->size / 2; i++)
        sum += ((bytes[i] & 15) - 8) * lines[r].even8[i] +
               ((bytes[i] >> 4) - 8) * lines[r].odd8[i];
      sums[r] += (float)sum * f16_float(scales[b]) *
                 lines[r].scales[from / GROUP_BYTES];
    }
  }
}
#endif

#define BLOCKS 64 /* whose zero points are looked up at once */

/* Takes off what zero points other than 8 come to. */
static void take_zeros(const cpu_nbits *w, int64_t column,
                       const cpu_nbits_line *lines, int64_t rows, float *sums) {
  const cpu_f16 *scales = w->halves + column * w->blocks;
  float zeros[BLOCKS];
  if (!w->zeros && !w->packed_zeros) return;
  for (int64_t from = 0; from < w->blocks; from += BLOCKS) {
    int64_t count = w->blocks - from < BLOCKS ? w->blocks - from : BLOCKS;
    for (int64_t b = 0; b < count; b++)
      zeros[b] = f16_float(scales[from + b]) *
                 (cpu_nbits_zero(w, column, from + b) - 8);
    for (int64_t r = 0; r < rows; r++)
      sums[r] -= dot(zeros, lines[r].sums + from, count);
  }
}

/* A column's bytes are taken apart once for all rows. */
static void dot4_bytes(const cpu_nbits *w, int64_t column,
                       const cpu_nbits_line *lines, int64_t rows, float *sums) {
  if (rows == CPU_NBITS_ROWS)
    sum_rows(w, column, lines, CPU_NBITS_ROWS, sums);
  else
    for (int64_t r = 0; r < rows; r++)
      sum_rows(w, column, lines + r, 1, sums + r);
  take_zeros(w, column, lines, rows, sums);
  for (int64_t r = 0; r < rows; r++)
    sums[r] *= w->largest[column];
}

/* ---- a row of A -------------------------------------------------------------------------- */

static void part(const float *x, int64_t n, float *even, float *odd) {
  for (int64_t i = 0; i < n / 2; i++) {
    even[i] = x[2 * i];
    odd[i] = x[2 * i + 1];
  }
}

static float nbits_loops_largest(const float *x, int64_t n) {
  float most = 0;
  for (int64_t i = 0; i < n; i++) {
    float size = fabsf(x[i]);
    most = size > most ? size : most;
  }
  return most;
}

/* NaN, which infinities leave, counts as 0. */
static int8_t to_byte(float x) {
  float rounded = x + (x < 0 ? -0.5f : 0.5f);
  return rounded == rounded ? (int8_t)rounded : 0;
}

static void narrow_block(const cpu_nbits_line *line, int64_t from, int64_t n,
                         float *out_sum) {
  float most = nbits_loops_largest(line->x + from, n), scale = most / 127;
  float by = scale > 0 ? 1 / scale : 0;
  int32_t sum = 0;
  by = by < INFINITY ? by : 0;
  for (int64_t i = from / 2; i < (from + n) / 2; i++) {
    float even = line->x[2 * i] * by, odd = line->x[2 * i + 1] * by;
    line->even8[i] = to_byte(even);
    line->odd8[i] = to_byte(odd);
  }
  for (int64_t g = from / CPU_NBITS_GROUP; g < (from + n) / CPU_NBITS_GROUP;
       g++) {
    int32_t own = 0;
    for (int64_t i = g * GROUP_BYTES; i < (g + 1) * GROUP_BYTES; i++)
      own += line->even8[i] + line->odd8[i];
    line->scales[g] = scale;
    line->less[g] = -8 * own;
    sum += own;
  }
  *out_sum = (float)sum * scale;
}

static void nbits_loops_narrow(const cpu_nbits *w, const cpu_nbits_line *line) {
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

const cpu_nbits_loops NBITS = {.dot4 = dot4,
                               .dot4_bytes = dot4_bytes,
                               .expand = expand,
                               .dot = dot,
                               .part = part,
                               .narrow = nbits_loops_narrow};
