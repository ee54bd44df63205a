/* numbers.h - elements of the libraries' types, for their stand-ins. */
#ifndef STANDIN_NUMBERS_H
#define STANDIN_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

typedef enum number { F32, F64, F16, BF16, I8, I32 } number;

static inline float from_bits(uint32_t bits) {
  float value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline double from_half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexp(fraction, -24)
                                 : ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -value : value;
}

/* To the nearest, ties to even. */
static inline uint16_t to_half(double value) {
  uint16_t sign = signbit(value) ? 0x8000 : 0;
  double size = fabs(value);
  if (isnan(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  int exponent = size > 0 ? ilogb(size) : -15;
  if (exponent < -14) /* also what rounds up to the first normal number */
    return sign | (uint16_t)nearbyint(ldexp(size, 24));
  double fraction = nearbyint(ldexp(size, 10 - exponent)); /* 1024 to 2048 */
  return sign | (uint16_t)(((exponent + 15) << 10) + (int)fraction - 1024);
}

static inline uint16_t to_brain(double value) {
  float narrow = (float)value;
  uint32_t bits = 0;
  memcpy(&bits, &narrow, sizeof bits);
  if (isnan(value)) return 0x7fc0;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline double load(number type, const void *data, int64_t i) {
  switch (type) {
    case F32:
      return ((const float *)data)[i];
    case F64:
      return ((const double *)data)[i];
    case F16:
      return from_half(((const uint16_t *)data)[i]);
    case BF16:
      return from_bits((uint32_t)((const uint16_t *)data)[i] << 16);
    case I8:
      return ((const int8_t *)data)[i];
    default:
      return ((const int32_t *)data)[i];
  }
}

static inline void store(number type, void *data, int64_t i, double value) {
  switch (type) {
    case F32:
      ((float *)data)[i] = (float)value;
      break;
    case F64:
      ((double *)data)[i] = value;
      break;
    case F16:
      ((uint16_t *)data)[i] = to_half(value);
      break;
    case BF16:
      ((uint16_t *)data)[i] = to_brain(value);
      break;
    case I8:
      ((int8_t *)data)[i] = (int8_t)value;
      break;
    default:
      ((int32_t *)data)[i] = (int32_t)value;
  }
}

#endif /* STANDIN_NUMBERS_H */
