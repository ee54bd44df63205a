/* float.c - numbers of all float types, from and to double. */
#include "base/float.h"

#include <kd/help.h>
#include <math.h>

/* Rounds to a significand of 1 + `bits` bits and an f16-like exponent, ties to even. A
 * double holds more than twice the bits, so that parsed text is rounded only once. */
static uint16_t to_half(double number) {
  union {
    double f;
    uint64_t u;
  } at = {number};
  uint16_t sign = (uint16_t)(at.u >> 48 & 0x8000);
  int exponent = (int)(at.u >> 52 & 0x7ff) - 1023;
  uint64_t significand = at.u & ((UINT64_C(1) << 52) - 1);
  if (exponent == 1024)
    return (uint16_t)(sign | 0x7c00 | (significand ? 0x200 : 0));
  if (exponent < -25) return sign;
  significand |= UINT64_C(1) << 52;
  /* below 2^-14 the step stays that of the smallest exponent */
  int drop = exponent < -14 ? 42 + (-14 - exponent) : 42;
  uint64_t kept = significand >> drop,
           rest = significand & ((UINT64_C(1) << drop) - 1);
  uint64_t half = UINT64_C(1) << (drop - 1);
  kept += rest > half || (rest == half && (kept & 1));
  uint64_t bits =
      exponent < -14 ? kept : kept + ((uint64_t)(exponent + 14) << 10);
  return (uint16_t)(sign | (bits > 0x7c00 ? 0x7c00 : bits));
}

static uint16_t to_bfloat(double number) {
  /* through f32 with its rest kept as a sticky bit, so that nothing is rounded twice */
  float near = (float)number;
  uint32_t bits = 0;
  memcpy(&bits, &near, sizeof bits);
  if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  double back = (double)near;
  uint32_t low = bits & 0xffff;
  bool up = low > 0x8000 || (low == 0x8000 && (bits >> 16 & 1));
  if (low == 0x8000 && back != number)
    up = (back < number) == !(bits >> 31); /* f32 was rounded to the tie */
  return (uint16_t)((bits >> 16) + up);
}

bool keel_float_encode(kd_dtype dtype, double number, void *out) {
  switch (dtype) {
    case KD_F32: {
      float value = (float)number;
      memcpy(out, &value, sizeof value);
      return true;
    }
    case KD_F64:
      memcpy(out, &number, sizeof number);
      return true;
    case KD_F16: {
      uint16_t value = to_half(number);
      memcpy(out, &value, sizeof value);
      return true;
    }
    case KD_BF16: {
      uint16_t value = to_bfloat(number);
      memcpy(out, &value, sizeof value);
      return true;
    }
    default:
      return false;
  }
}

static double from_half(uint16_t bits) {
  int exponent = bits >> 10 & 31, significand = bits & 1023;
  double size = exponent == 31 ? (significand ? NAN : INFINITY)
                : exponent     ? ldexp(significand + 1024, exponent - 25)
                               : ldexp(significand, -24);
  return bits & 0x8000 ? -size : size;
}

bool keel_float_decode(kd_dtype dtype, const void *element, double *out_number,
                       uint64_t *out_bits) {
  uint32_t bits = 0;
  uint16_t half = 0;
  float number = 0;
  *out_bits = 0;
  memcpy(out_bits, element, kd_dtype_size(dtype));
  switch (dtype) {
    case KD_F32:
      memcpy(&number, element, sizeof number);
      *out_number = (double)number;
      return true;
    case KD_F64:
      memcpy(out_number, element, sizeof *out_number);
      return true;
    case KD_F16:
      memcpy(&half, element, sizeof half);
      *out_number = from_half(half);
      return true;
    case KD_BF16:
      bits = (uint32_t)*out_bits << 16;
      memcpy(&number, &bits, sizeof number);
      *out_number = (double)number;
      return true;
    default:
      return false;
  }
}
