/* int8_bars.h - constant weights as panels of rows (bars), times bytes (int8_bars.c). */
#ifndef KEEL_CPU_INT8_BARS_H
#define KEEL_CPU_INT8_BARS_H

#include "int8.h"

#define CPU_BAR_ROWS    6
#define CPU_BAR_COLUMNS 16

/* Rows by bars of 6, and of 4, 2 and 1 at the end of each group: a bar has the factors of
 * its rows behind each other, for each step of k. A step is a pair of 16 bits, or, narrow,
 * a quad of bytes, of which what does not fit pairs (int8_narrow.c) comes again as rests:
 * the same number for each row of a bar, some of them 0. */
typedef struct cpu_int8_bars {
  bool narrow;
  int64_t m, k, steps; /* m: rows of a group */
  int64_t per_group;   /* bars */
  int32_t *factors;
  int32_t *sums;  /* of each row */
  int64_t *first; /* rest of each bar, and where they end */
  int32_t *steps_of, *rests;
} cpu_int8_bars;

/* Loops over one bar. */
typedef struct cpu_int8_bar_loops {
  /* sums (rows x CPU_BAR_COLUMNS) = a bar times a panel; `columns` of it matter. */
  void (*wide)(int64_t rows, int64_t columns, int64_t steps, const int32_t *a,
               const void *panel, int32_t *sums);
  /* The same, and `rests` for each row. */
  void (*narrow)(int64_t rows, int64_t columns, int64_t steps, const int32_t *a,
                 const void *panel, int64_t rests, const int32_t *steps_of,
                 const int32_t *more, int32_t *sums);
  /* to = saturate(round(scale * (sum + first)) + zero): first and scale of each row, which
   * are finite; rows of `to` are `step` apart. */
  void (*round)(const int32_t *sums, int64_t rows, int64_t columns,
                const int32_t *first, const float *scales, int zero,
                bool is_signed, uint8_t *to, int64_t step);
} cpu_int8_bar_loops;

extern const cpu_int8_bar_loops cpu_int8_bars_avx2;

/* Rows of `group` groups, `n` in all; NULL: there are no such loops, or no memory. */
cpu_int8_bars *cpu_int8_bars_make(const cpu_int8_bytes *from, int64_t n,
                                  int64_t group, int64_t k);
void cpu_int8_bars_drop(cpu_int8_bars *bars);

/* How results are rounded; scales and bias begin with the first row of the product. */
typedef struct cpu_int8_rounding {
  const float *scales;
  const int32_t *bias; /* or NULL */
  int zero;
  bool is_signed;
  uint8_t *to;
  int64_t step; /* from a row to the next */
} cpu_int8_rounding;

/* cpu_int8_piece with bars for A. rounding: NULL: sums are given, as there. */
bool cpu_int8_bars_piece(const cpu_int8_product *p, const cpu_int8_bars *bars,
                         const cpu_int8_rounding *rounding,
                         const cpu_int8_cut *cut, int64_t piece);

#endif /* KEEL_CPU_INT8_BARS_H */
