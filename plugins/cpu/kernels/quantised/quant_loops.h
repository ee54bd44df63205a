/* quant_loops.h - loops of quantisation, for one instruction set. */
#ifndef KEEL_CPU_QUANT_LOOPS_H
#define KEEL_CPU_QUANT_LOOPS_H

#include "cpu.h"

/* to[i] = saturate(round(x[i] / scale) + zero); scale and zero are `step` apart, 0 or 1. */
typedef void (*cpu_quantise_fn)(const float *x, int64_t n, const float *scale,
                                const float *zero, int64_t step, void *to);
/* to[i] = (x[i] - zero) * scale, rounded once. */
typedef void (*cpu_dequantise_fn)(const void *x, int64_t n, const float *scale,
                                  const float *zero, int64_t step, float *to);

typedef struct cpu_quant_loops {
  /* by the type of integers; NULL: there is none. Zero points of i32 are 0. */
  cpu_quantise_fn to[KD_DTYPE_COUNT];
  cpu_dequantise_fn from[KD_DTYPE_COUNT];
  /* Brings the least and largest of x, but NaN, into *low and *high. */
  void (*range)(const float *x, int64_t n, float *low, float *high);
} cpu_quant_loops;

extern const cpu_quant_loops cpu_quant_base, cpu_quant_avx2, cpu_quant_avx512;

const cpu_quant_loops *cpu_quant_get(void);

#endif /* KEEL_CPU_QUANT_LOOPS_H */
