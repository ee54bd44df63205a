/* numbers.h - elements of the libraries' types, for their stand-ins. */
#ifndef STANDIN_NUMBERS_H
#define STANDIN_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Those that C has. */
#define PLAIN_NUMBERS(X) \
  X(F32, float)          \
  X(F64, double)         \
  X(I8, int8_t)          \
  X(I32, int32_t)        \
  X(I64, int64_t)        \
  X(U8, uint8_t)         \
  X(U32, uint32_t)       \
  X(U64, uint64_t)

typedef enum number {
#define NUMBER(name, T) name,
  PLAIN_NUMBERS(NUMBER)
#undef NUMBER
      F16,
  BF16
} number;

static inline size_t number_size(number type) {
  switch (type) {
#define SIZE(name, T) \
  case name:          \
    return sizeof(T);
    PLAIN_NUMBERS(SIZE)
#undef SIZE
    default:
      return 2;
  }
}

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
#define LOAD(name, T) \
  case name:          \
    return (double)((const T *)data)[i];
    PLAIN_NUMBERS(LOAD)
#undef LOAD
    case F16:
      return from_half(((const uint16_t *)data)[i]);
    default:
      return from_bits((uint32_t)((const uint16_t *)data)[i] << 16);
  }
}

static inline void store(number type, void *data, int64_t i, double value) {
  switch (type) {
#define STORE(name, T)         \
  case name:                   \
    ((T *)data)[i] = (T)value; \
    break;
    PLAIN_NUMBERS(STORE)
#undef STORE
    case F16:
      ((uint16_t *)data)[i] = to_half(value);
      break;
    default:
      ((uint16_t *)data)[i] = to_brain(value);
  }
}

#endif /* STANDIN_NUMBERS_H */
