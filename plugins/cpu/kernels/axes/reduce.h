/* reduce.h - sums, maxima and so on of lines (reduce_rows.c), one set for each ISA. */
#ifndef KEEL_CPU_REDUCE_H
#define KEEL_CPU_REDUCE_H

#include "cpu.h"

typedef union cpu_wide {
  double real;
  int64_t whole;
  uint64_t natural;
} cpu_wide;

/* Results at once, at most. */
#define REDUCE_BLOCK 256

/* `lines` of them, `between` elements from each other; a line is n elements that lie `apart`.
 * A line gives the same bits wherever it stands. `most` is there where it is used. */
typedef void (*cpu_reduce)(const void *x, int64_t lines, int64_t between,
                           int64_t n, int64_t apart, const double *most,
                           cpu_wide *out);

enum {
#define ACCUMULATE(name, first, step, join) BY_##name,
#include "families/rules.def"
  BY_COUNT
};

typedef struct cpu_reduces {
  cpu_reduce own[BY_COUNT][KD_DTYPE_COUNT];  /* integers as integers */
  cpu_reduce real[BY_COUNT][KD_DTYPE_COUNT]; /* all in doubles; not of all */
} cpu_reduces;

extern const cpu_reduces cpu_reduces_base, cpu_reduces_avx2, cpu_reduces_avx512;

#endif /* KEEL_CPU_REDUCE_H */
