/* random.c - numbers at random, for inputs that are not given. */
#include <math.h>

#include "defs/small.h"
#include "tool.h"

/* SplitMix64 (Steele, Lea, Flood; OOPSLA 2014) */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

static void put_small(void *data, kd_dtype dtype, int64_t i, double number,
                      uint64_t bits) {
  const onnx_small_rules rules = {.saturate = true, .round = 'u'};
  bool real = onnx_small_float_of(dtype) != NULL;
  onnx_small_put(data, dtype, i,
                 real ? onnx_small_encode(dtype, number, rules)
                 : dtype == KD_F8E8M0
                     ? onnx_small_encode(dtype, fabs(number), rules)
                     : bits & 1);
}

void random_fill(void *data, kd_dtype dtype, int64_t count, uint64_t *state) {
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits = next_random(state);
    double unit = (double)(bits >> 11) * 0x1p-53; /* [0, 1) */
    float number = (float)(unit * 2 - 1);
    uint32_t wide = 0;
    memcpy(&wide, &number, sizeof wide);
    if (onnx_is_small(dtype)) {
      put_small(data, dtype, i, (double)number, bits);
      continue;
    }
    switch (dtype) {
      case KD_F32:
        ((float *)data)[i] = number;
        break;
      case KD_F64:
        ((double *)data)[i] = unit * 2 - 1;
        break;
      case KD_BF16:
        ((uint16_t *)data)[i] = (uint16_t)(wide >> 16);
        break;
      case KD_F16: /* between 1 and 2, either sign: no rounding to think of */
        ((uint16_t *)data)[i] = (uint16_t)(0x3c00 | (bits & 0x83ff));
        break;
      case KD_BOOL:
        ((uint8_t *)data)[i] = bits & 1;
        break;
      default: { /* small integers, that are indices in many models */
        uint64_t small = bits % 2;
        memcpy((char *)data + (size_t)i * keel_dtype_size(dtype), &small,
               keel_dtype_size(dtype));
      }
    }
  }
}
