/* depthwise.h - the loops of depthwise.c, one set for each ISA. */
#ifndef KEEL_CPU_DEPTHWISE_H
#define KEEL_CPU_DEPTHWISE_H

#include "cpu.h"
#include "families/window.h"

/* Floats behind the end of x and of y that `taps` may read and write. */
#define DEPTHWISE_SLACK 64

/* y[i] = bias + the sum over k of weights[k] * x[offsets[k] + i], for i < n, in the order
 * of k. */
typedef struct cpu_depthwise {
  void (*taps)(const float *x, const int64_t *offsets, const float *weights,
               int64_t count, float bias, float *y, int64_t n);
} cpu_depthwise;

extern const cpu_depthwise cpu_depthwise_base, cpu_depthwise_avx2,
    cpu_depthwise_avx512;

/* f32 planes whose channels are each convolved alone: groups of one input channel and
 * out_c outputs. NULL bias: zeros. KD_OK, KD_OUT_OF_MEMORY. */
kd_status cpu_run_depthwise(const window *w, const float *x,
                            const float *weights, const float *bias, float *y,
                            int64_t batch, int64_t groups, int64_t out_c);

#endif /* KEEL_CPU_DEPTHWISE_H */
