/* nbits.h - products with weights of 2, 4 or 8 bits (nbits.c), which are never expanded whole. */
#ifndef KEEL_CPU_NBITS_H
#define KEEL_CPU_NBITS_H

#include "cpu.h"

/* The weights of `n` columns: for each, `blocks` blocks of `size` numbers, the first in the
 * lowest bits of a byte. */
typedef struct cpu_nbits {
  const uint8_t *data;
  const float *scales;   /* of each block of each column, or: */
  const cpu_f16 *halves; /* those over the largest of their column, and: */
  const float *largest;
  const uint8_t *packed_zeros; /* their zero points, packed as data is, or: */
  const float *zeros;          /* as numbers; neither: half of what there is */
  int64_t n, k, blocks, size, bits;
} cpu_nbits;

#define CPU_NBITS_GROUP 32 /* numbers that a line is filled up to */
#define CPU_NBITS_ROWS  4  /* that meet a column's bytes at once */

/* A row of A as products with 4 bits want it: numbers 0, 2, 4 ... of the row, and 1, 3, 5 ... */
typedef struct cpu_nbits_line {
  const float *x; /* all of them, and zeros up to the end of the last block */
  float *even, *odd; /* NULL: bytes are wanted, or products are of other bits */
  int8_t *even8,
      *odd8;     /* as bytes, with a scale a block; NULL: floats are wanted */
  float *scales; /* one a group: that of its block */
  int32_t *less; /* one a group: -8 times its sum */
  float *sums;   /* of each block, for zero points */
} cpu_nbits_line;

typedef struct cpu_nbits_loops {
  /* The sum over a column's numbers, less 8, times a line's, and the scales. */
  float (*dot4)(const cpu_nbits *w, int64_t column, const cpu_nbits_line *line);
  /* The same for CPU_NBITS_ROWS lines at most, of bytes; scales are halves. */
  void (*dot4_bytes)(const cpu_nbits *w, int64_t column,
                     const cpu_nbits_line *lines, int64_t rows, float *sums);
  /* A column as floats: blocks * size of them. */
  void (*expand)(const cpu_nbits *w, int64_t column, float *to);
  float (*dot)(const float *a, const float *b, int64_t n);
  /* Cuts a row in two: even and odd ones. */
  void (*part)(const float *x, int64_t n, float *even, float *odd);
  /* Makes bytes of a row, with its scales and sums. */
  void (*narrow)(const cpu_nbits *w, const cpu_nbits_line *line);
} cpu_nbits_loops;

extern const cpu_nbits_loops cpu_nbits_base, cpu_nbits_avx2, cpu_nbits_avx512;
extern const cpu_nbits_loops cpu_nbits_avxvnni, cpu_nbits_vnni;

/* The scale of a block. */
static inline float cpu_nbits_scale(const cpu_nbits *w, int64_t column,
                                    int64_t block) {
  int64_t at = column * w->blocks + block;
  return w->halves ? f16_float(w->halves[at]) * w->largest[column]
                   : w->scales[at];
}

/* Zero point of a block, as a float. */
static inline float cpu_nbits_zero(const cpu_nbits *w, int64_t column,
                                   int64_t block) {
  if (w->zeros) return w->zeros[column * w->blocks + block];
  if (!w->packed_zeros) return (float)(1 << (w->bits - 1));
  int64_t row = (w->blocks * w->bits + 7) / 8, bit = block * w->bits;
  int byte = w->packed_zeros[column * row + bit / 8];
  return (float)(byte >> bit % 8 & ((1 << w->bits) - 1));
}

#endif /* KEEL_CPU_NBITS_H */
