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
  cpu_quantise_fn to_u8, to_i8, to_u16, to_i16;
  cpu_dequantise_fn from_u8, from_i8, from_u16, from_i16;
  cpu_dequantise_fn from_i32; /* its zero points are 0 */
  /* Brings the least and largest of x, but NaN, into *low and *high. */
  void (*range)(const float *x, int64_t n, float *low, float *high);
} cpu_quant_loops;

extern const cpu_quant_loops cpu_quant_base, cpu_quant_avx2, cpu_quant_avx512;

const cpu_quant_loops *cpu_quant_get(void);

#endif /* KEEL_CPU_QUANT_LOOPS_H */
