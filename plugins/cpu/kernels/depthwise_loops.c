/* depthwise_loops.c - a sum of shifted rows that stays in registers.
 *
 * Compiled once for each instruction set, with DEPTHWISE naming the result. */
#include "depthwise.h"

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX2__)
#define LANES 8
#else
#define LANES 4
#endif
#define AT_ONCE 4 /* vectors: enough sums to hide the latency of one */

typedef float vector
    __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

/* `count` vectors of sums, from element i on. */
#define SUMS(count)                                                 \
  do {                                                              \
    vector sum[count];                                              \
    for (int j = 0; j < (count); j++)                               \
      sum[j] = (vector){0} + bias;                                  \
    for (int64_t k = 0; k < taps; k++) {                            \
      const float *from = x + offsets[k] + i;                       \
      for (int j = 0; j < (count); j++)                             \
        sum[j] += weights[k] * *(const vector *)(from + j * LANES); \
    }                                                               \
    for (int j = 0; j < (count); j++)                               \
      *(vector *)(y + i + j * LANES) = sum[j];                      \
  } while (0)

static void sums(const float *x, const int64_t *offsets, const float *weights,
                 int64_t taps, float bias, float *y, int64_t n) {
  int64_t i = 0;
  for (; i + AT_ONCE * LANES <= n; i += AT_ONCE * LANES)
    SUMS(AT_ONCE);
  for (; i < n; i += LANES)
    SUMS(1);
}

const cpu_depthwise DEPTHWISE = {.taps = sums};
