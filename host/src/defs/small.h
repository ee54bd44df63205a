/* small.h - elements of eight bits or less, from and to double: ONNX's float8, float4 and
 * integers of four and two bits, which are packed, the first in the lowest bits (kd/base.h).
 *
 * Rules of conversion: ONNX Cast-28. Formats: "FP8 Formats for Deep Learning"
 * (arXiv:2209.05433), the "fnuz" ones arXiv:2206.02915, E2M1 and E8M0 OCP Microscaling 1.0. */
#ifndef ONNX_SMALL_H
#define ONNX_SMALL_H

#include <math.h>
#include <stdbool.h>

#include <kd/help.h>

#include "defs/whole.h"

#define ONNX_SMALL (KD_TYPES(KD_I2 + 1u) - KD_TYPES(KD_F8E4M3FN))

static inline bool onnx_is_small(kd_dtype dtype) {
  return (ONNX_SMALL & KD_TYPES(dtype)) != 0;
}

/* How what does not fit is written: `saturate`: as the nearest that does; `round`: of
 * f8e8m0, 'u'p, 'd'own or to the 'n'earest. */
typedef struct onnx_small_rules {
  bool saturate;
  char round;
} onnx_small_rules;

/* A sign, `exponent` bits, `mantissa` bits. The largest value, infinity and NaN as bits;
 * -1: there is none. `unsigned_zero`: the bits of -0 are NaN's. */
typedef struct onnx_small_float {
  int exponent, mantissa, bias, largest, infinity, nan;
  bool unsigned_zero;
} onnx_small_float;

static inline const onnx_small_float *onnx_small_float_of(kd_dtype dtype) {
  static const onnx_small_float formats[] = {
      {4, 3, 7, 0x7e, -1, 0x7f, false},    {4, 3, 8, 0x7f, -1, 0x80, true},
      {5, 2, 15, 0x7b, 0x7c, 0x7e, false}, {5, 2, 16, 0x7f, -1, 0x80, true},
      {2, 1, 1, 7, -1, -1, false},
  };
  return dtype >= KD_F8E4M3FN && dtype <= KD_F8E5M2FNUZ
             ? &formats[dtype - KD_F8E4M3FN]
         : dtype == KD_F4E2M1 ? &formats[4]
                              : NULL;
}

static inline double onnx_small_decode(kd_dtype dtype, unsigned bits) {
  const onnx_small_float *f = onnx_small_float_of(dtype);
  if (dtype == KD_F8E8M0) return bits == 255 ? NAN : ldexp(1, (int)bits - 127);
  if (dtype == KD_I4) return (double)((int)(bits ^ 8) - 8);
  if (dtype == KD_I2) return (double)((int)(bits ^ 2) - 2);
  if (!f) return (double)bits;
  int sign = 1 << (f->exponent + f->mantissa);
  int rest = (int)bits & (sign - 1);
  if (f->unsigned_zero ? (int)bits == f->nan : f->nan >= 0 && rest > f->largest)
    return rest == f->infinity ? ((int)bits & sign ? -INFINITY : INFINITY)
                               : NAN;
  int exponent = rest >> f->mantissa;
  int mantissa = rest & ((1 << f->mantissa) - 1);
  if (exponent) mantissa += 1 << f->mantissa;
  double value =
      ldexp(mantissa, (exponent ? exponent : 1) - f->bias - f->mantissa);
  return (int)bits & sign ? -value : value;
}

/* Rounded to the nearest, ties to even. */
static inline unsigned onnx_small_encode_float(const onnx_small_float *f,
                                               double value, bool saturate) {
  int sign = 1 << (f->exponent + f->mantissa), exponent = 0;
  int top = signbit(value) ? sign : 0;
  if (isnan(value)) /* where there is none: -0, as in ml_dtypes */
    return (unsigned)(f->nan < 0         ? sign
                      : f->unsigned_zero ? f->nan
                                         : f->nan | top);
  if (isinf(value)) {
    exponent = f->largest + 1;
  } else if (value != 0) {
    int step;
    double whole;
    (void)frexp(value, &step);
    step = (step - 1 < 1 - f->bias ? 1 - f->bias : step - 1) - f->mantissa;
    whole = nearbyint(ldexp(fabs(value), -step));
    step += f->mantissa + f->bias - 1; /* exponents above the smallest */
    exponent = step > 1 << f->exponent ? f->largest + 1
                                       : (step << f->mantissa) + (int)whole;
  }
  if (exponent > f->largest) {
    if (saturate || f->nan < 0) return (unsigned)(f->largest | top);
    return (unsigned)(f->infinity >= 0   ? f->infinity | top
                      : f->unsigned_zero ? f->nan
                                         : f->nan | top);
  }
  return (unsigned)(f->unsigned_zero && !exponent ? 0 : exponent | top);
}

/* A power of two. Negative ones have none. */
static inline unsigned onnx_small_encode_power(double value,
                                               onnx_small_rules rules) {
  int exponent = 0;
  if (isnan(value) || value < 0) return 255;
  if (value == 0) return rules.saturate ? 0 : 255;
  if (isinf(value)) return rules.saturate ? 254 : 255;
  double part = 2 * frexp(value, &exponent); /* 1 to 2 */
  exponent += 126;
  if (rules.round == 'n' ? part >= 1.5 : rules.round != 'd' && part > 1)
    exponent++;
  if (exponent < 0) return rules.saturate ? 0 : 255;
  if (exponent > 254) return rules.saturate ? 254 : 255;
  return (unsigned)exponent;
}

/* Integers as onnx_whole has the narrow ones. */
static inline unsigned onnx_small_encode(kd_dtype dtype, double value,
                                         onnx_small_rules rules) {
  const onnx_small_float *f = onnx_small_float_of(dtype);
  if (f) return onnx_small_encode_float(f, value, rules.saturate);
  if (dtype == KD_F8E8M0) return onnx_small_encode_power(value, rules);
  return (unsigned)onnx_whole(dtype, value) &
         ((1u << kd_dtype_bits(dtype)) - 1);
}

/* Element `i` of a tensor's data. */
static inline unsigned onnx_small_bits(const void *data, kd_dtype dtype,
                                       int64_t i) {
  unsigned size = kd_dtype_bits(dtype), each = 8 / size;
  unsigned byte = ((const uint8_t *)data)[(uint64_t)i / each];
  return byte >> (uint64_t)i % each * size & ((1u << size) - 1);
}

static inline double onnx_small_get(const void *data, kd_dtype dtype,
                                    int64_t i) {
  return onnx_small_decode(dtype, onnx_small_bits(data, dtype, i));
}

/* Those beside it in its byte stay. */
static inline void onnx_small_put(void *data, kd_dtype dtype, int64_t i,
                                  unsigned bits) {
  unsigned size = kd_dtype_bits(dtype), each = 8 / size;
  unsigned at = (unsigned)((uint64_t)i % each) * size;
  uint8_t *byte = (uint8_t *)data + (uint64_t)i / each;
  unsigned mask = ((1u << size) - 1) << at;
  *byte = (uint8_t)((*byte & ~mask) | (bits << at & mask));
}

#endif /* ONNX_SMALL_H */
