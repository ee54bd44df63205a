/* bits.c - counting bits: keel::PopCount and LeadingZeros. */
#include "kernels.h"

#include "dialect.h"

typedef struct bits_work {
  const void *x;
  void *y;
  bool zeros; /* the leading zeros, or else the ones */
} bits_work;

/* The ones of what has `size` bytes. */
static inline int count_ones(uint64_t x) {
  return __builtin_popcountll(x);
}

static inline int count_zeros(uint64_t x, int bits) {
  return x ? __builtin_clzll(x) - (64 - bits) : bits;
}

#define COUNT_OF(U)                                                  \
  static void count_##U(void *context, int64_t begin, int64_t end) { \
    const bits_work *work = context;                                 \
    const U *x = work->x;                                            \
    U *y = work->y;                                                  \
    for (int64_t i = begin; i < end; i++)                            \
      y[i] = (U)(work->zeros ? count_zeros(x[i], (int)sizeof(U) * 8) \
                             : count_ones(x[i]));                    \
  }
COUNT_OF(uint8_t)
COUNT_OF(uint16_t)
COUNT_OF(uint32_t)
COUNT_OF(uint64_t)

CPU_KERNEL(cpu_run_count_bits) {
  const kd_tensor *x = &launch->inputs[0];
  bits_work work = {.x = x->data,
                    .y = launch->outputs[0].data,
                    .zeros = (uintptr_t)launch->data != 0};
  size_t size = kd_dtype_size(x->dtype);
  cpu_host->parallel_for(cpu_host, kd_elements(x), CPU_GRAIN,
                         size == 1   ? count_uint8_t
                         : size == 2 ? count_uint16_t
                         : size == 4 ? count_uint32_t
                                     : count_uint64_t,
                         &work);
  return KD_OK;
}
