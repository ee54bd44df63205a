/* depthwise.h - convolutions of each channel by itself, the channels last. */
#ifndef KEEL_CPU_DEPTHWISE_H
#define KEEL_CPU_DEPTHWISE_H

#include "cpu.h"

/* Pixels in a row that see the same taps: y[c] is bias[c] and the sum over k of
 * x[offsets[k] + c] * weights[places[k] + c], in the order of k. */
typedef struct cpu_depthwise_span {
  const float *x, *weights, *bias; /* bias: or NULL */
  float *y;
  const int64_t *offsets, *places;
  int64_t taps, pixels, channels;
  int64_t step; /* elements of x from a pixel's first tap to the next one's */
} cpu_depthwise_span;

typedef struct cpu_depthwise_loops {
  void (*span)(const cpu_depthwise_span *span);
} cpu_depthwise_loops;

extern const cpu_depthwise_loops cpu_depthwise_base, cpu_depthwise_avx2,
    cpu_depthwise_avx512;

#endif /* KEEL_CPU_DEPTHWISE_H */
