/* value.c - tensors of the reference, rounding, and distances in ulps. */
#include "reference/value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ------------------------------------------------------------------- */

typedef struct format {
  uint8_t digits; /* significand with its hidden bit; ints: value bits */
  bool is_float, is_signed;
  int16_t emin, emax; /* of normals: 2^emin is the smallest */
} format;

static const format formats[KD_DTYPE_COUNT] = {
    [KD_F32] = {24, true, true, -126, 127},
    [KD_F64] = {53, true, true, -1022, 1023},
    [KD_F16] = {11, true, true, -14, 15},
    [KD_BF16] = {8, true, true, -126, 127},
    [KD_U8] = {8, false, false, 0, 0},
    [KD_I8] = {7, false, true, 0, 0},
    [KD_U16] = {16, false, false, 0, 0},
    [KD_I16] = {15, false, true, 0, 0},
    [KD_I32] = {31, false, true, 0, 0},
    [KD_I64] = {63, false, true, 0, 0},
    [KD_U32] = {32, false, false, 0, 0},
    [KD_U64] = {64, false, false, 0, 0},
    [KD_BOOL] = {1, false, false, 0, 0},
    [KD_C64] = {0, false, false, 0, 0},
    [KD_C128] = {0, false, false, 0, 0},
    [KD_F8E4M3FN] = {4, true, true, -6, 8},
    [KD_F8E4M3FNUZ] = {4, true, true, -7, 7},
    [KD_F8E5M2] = {3, true, true, -14, 15},
    [KD_F8E5M2FNUZ] = {3, true, true, -15, 15},
    [KD_F8E8M0] = {1, true, false, -127, 127},
    [KD_F4E2M1] = {2, true, true, 0, 2},
    [KD_U4] = {4, false, false, 0, 0},
    [KD_I4] = {3, false, true, 0, 0},
    [KD_U2] = {2, false, false, 0, 0},
    [KD_I2] = {1, false, true, 0, 0},
};

/* Of eight bits or less: what does not fit becomes the largest. */
static bool value_is_small(kd_dtype dtype) {
  return dtype >= KD_F8E4M3FN && dtype < KD_DTYPE_COUNT;
}

bool dtype_is_float(kd_dtype dtype) {
  return dtype < KD_DTYPE_COUNT && formats[dtype].is_float;
}

bool dtype_is_signed(kd_dtype dtype) {
  return dtype < KD_DTYPE_COUNT && formats[dtype].is_signed;
}

bool dtype_is_int(kd_dtype dtype) {
  return dtype < KD_DTYPE_COUNT && dtype != KD_BOOL &&
         !formats[dtype].is_float && formats[dtype].digits > 0;
}

/* 2 to the e; ldexpl takes several times as long, and a run of the suite asks millions of times. */
static real power_of_two(int e) {
  double power;
  if (e < -1022 || e > 1023) return ldexpl(1, e);
  const uint64_t bits = (uint64_t)(e + 1023) << 52;
  memcpy(&power, &bits, sizeof power);
  return power;
}

/* The exponent of a number with one digit, not 0, before the point; -1023 for all that a
 * double has no exponent for, since no format has a lower one. */
static int exponent_of(real x) {
  double nearest = fabs((double)x);
  uint64_t bits;
  memcpy(&bits, &nearest, sizeof bits);
  int exponent = (int)(bits >> 52) - 1023;
  return fabsl(x) < power_of_two(exponent) ? exponent - 1 : exponent;
}

real dtype_max(kd_dtype dtype) {
  const format *f = &formats[dtype];
  if (dtype == KD_F8E4M3FN) return 448; /* 480 would have the bits of NaN */
  if (f->is_float)
    return (2 - power_of_two(1 - f->digits)) * power_of_two(f->emax);
  return power_of_two(f->digits) - 1;
}

real dtype_min(kd_dtype dtype) {
  const format *f = &formats[dtype];
  if (f->is_float) return f->is_signed ? -dtype_max(dtype) : dtype_least(dtype);
  return f->is_signed ? -power_of_two(f->digits) : 0;
}

real dtype_least(kd_dtype dtype) {
  return power_of_two(formats[dtype].emin);
}

real dtype_unit(kd_dtype dtype) {
  return formats[dtype].is_float ? power_of_two(-formats[dtype].digits) : 0;
}

real dtype_ulp(real r, kd_dtype dtype) {
  const format *f = &formats[dtype];
  if (!f->is_float) return 1;
  r = fabsl(r);
  if (!isfinite(r) || r > dtype_max(dtype)) r = dtype_max(dtype);
  int exponent = f->emin;
  if (r > dtype_least(dtype)) {
    exponent = exponent_of(r);
    if (r == power_of_two(exponent)) exponent--;
    if (exponent < f->emin) exponent = f->emin;
  }
  return power_of_two(exponent - f->digits + 1);
}

/* ---- rounding ---------------------------------------------------------------- */

/* ONNX's Cast: a power of two that is not less, unless round_mode says otherwise. */
static real round_scale(real x) {
  int exponent = 0;
  if (isnan(x)) return x;
  if (!(x > 0)) return 0x1p-127L;
  if (x >= 0x1p127L) return 0x1p127L;
  real fraction = frexpl(x, &exponent); /* in [1/2, 1) */
  exponent -= fraction == 0.5L;
  return power_of_two(exponent < -127 ? -127 : exponent);
}

static real round_float(real x, kd_dtype dtype) {
  const format *f = &formats[dtype];
  if (dtype == KD_F8E8M0) return round_scale(x);
  if (isinf(x) && value_is_small(dtype)) return copysignl(dtype_max(dtype), x);
  if (x == 0 || isnan(x) || isinf(x)) return x;
  int exponent = exponent_of(x);
  if (exponent < f->emin) exponent = f->emin;
  int shift = f->digits - 1 - exponent;
  real rounded = rintl(x * power_of_two(shift)) * power_of_two(-shift);
  if (fabsl(rounded) <= dtype_max(dtype)) return rounded;
  return copysignl(value_is_small(dtype) ? dtype_max(dtype) : (real)INFINITY,
                   x);
}

/* Wraps as two's complement does. */
static uint64_t to_bits(real x) {
  if (isnan(x)) return 0;
  x = truncl(x);
  if (fabsl(x) >= 0x1p64L) x = fmodl(x, 0x1p64L);
  return x < 0 ? (uint64_t)0 - (uint64_t)-x : (uint64_t)x;
}

real dtype_round(real x, kd_dtype dtype) {
  if (dtype_is_float(dtype)) return round_float(x, dtype);
  uint64_t room[2] = {0, 0};
  dtype_store(room, dtype, 0, x);
  return dtype_load(room, dtype, 0);
}

/* ---- memory ------------------------------------------------------------------ */

static real small_float(uint16_t bits, int digits, int bias) {
  int fraction_bits = digits - 1, sign = bits >> 15;
  int exponent = (bits & 0x7fff) >> fraction_bits;
  int fraction = bits & ((1 << fraction_bits) - 1);
  int most = (1 << (15 - fraction_bits)) - 1;
  real x = exponent == most ? (fraction ? NAN : INFINITY)
           : exponent == 0
               ? (real)fraction * power_of_two(1 - bias - fraction_bits)
               : (real)(fraction + (1 << fraction_bits)) *
                     power_of_two(exponent - bias - fraction_bits);
  return sign ? -x : x;
}

static uint16_t small_bits(real x, kd_dtype dtype, int bias) {
  const format *f = &formats[dtype];
  int fraction_bits = f->digits - 1, most = (1 << (15 - fraction_bits)) - 1;
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  if (isnan(x))
    return (uint16_t)(sign | most << fraction_bits | 1 << (fraction_bits - 1));
  x = fabsl(round_float(x, dtype));
  if (isinf(x)) return (uint16_t)(sign | most << fraction_bits);
  if (x < dtype_least(dtype))
    return (uint16_t)(sign | (int)(x * power_of_two(bias - 1 + fraction_bits)));
  int exponent = exponent_of(x);
  int bits =
      (int)(x * power_of_two(fraction_bits - exponent)) - (1 << fraction_bits);
  return (uint16_t)(sign | (exponent + bias) << fraction_bits | bits);
}

/* What bits of a small type mean: a sign, exponents and fractions, or an integer. */
static real small_value(kd_dtype dtype, unsigned code) {
  static const struct {
    int fraction, bias;
  } layouts[] = {{3, 7}, {3, 8}, {2, 15}, {2, 16}};
  unsigned bits = kd_dtype_bits(dtype), top = 1u << (bits - 1);
  if (dtype == KD_F8E8M0)
    return code == 255 ? NAN : power_of_two((int)code - 127);
  if (!dtype_is_float(dtype))
    return formats[dtype].is_signed && code & top ? (real)code - (real)(2 * top)
                                                  : (real)code;
  bool zero_is_nan = dtype == KD_F8E4M3FNUZ || dtype == KD_F8E5M2FNUZ;
  if (zero_is_nan && code == top) return NAN;
  int fraction = dtype == KD_F4E2M1 ? 1 : layouts[dtype - KD_F8E4M3FN].fraction;
  int bias = dtype == KD_F4E2M1 ? 1 : layouts[dtype - KD_F8E4M3FN].bias;
  int rest = (int)(code & (top - 1)), exponent = rest >> fraction;
  int own = rest & ((1 << fraction) - 1);
  real x = exponent ? (real)(own + (1 << fraction)) *
                          power_of_two(exponent - bias - fraction)
                    : (real)own * power_of_two(1 - bias - fraction);
  if (dtype == KD_F8E4M3FN && rest == 0x7f) x = NAN;
  if (dtype == KD_F8E5M2 && exponent == 31) x = own ? NAN : INFINITY;
  return code & top ? -x : x;
}

/* The code whose value is nearest to that of a rounded number. */
static unsigned small_code(kd_dtype dtype, real x) {
  unsigned count = 1u << kd_dtype_bits(dtype), best = 0;
  bool negative = signbit(x) && x == 0 && dtype_is_float(dtype);
  real least = INFINITY;
  for (unsigned code = 0; code < count; code++) {
    real value = small_value(dtype, code);
    if (isnan(x) ? isnan(value) : value == x && isinf(x)) return code;
    real off = fabsl(value - x);
    if (!(off < least) && !(negative && off == least && signbit(value)))
      continue;
    best = code;
    least = off;
  }
  return best;
}

static real load_small(const uint8_t *bytes, kd_dtype dtype, int64_t i) {
  unsigned bits = kd_dtype_bits(dtype);
  int64_t at = i * bits;
  return small_value(dtype,
                     (unsigned)(bytes[at / 8] >> at % 8) & ((1u << bits) - 1));
}

/* An infinity that is stored is one, where the type has it; Cast makes none. */
static void store_small(uint8_t *bytes, kd_dtype dtype, int64_t i, real x) {
  unsigned bits = kd_dtype_bits(dtype), mask = (1u << bits) - 1;
  int64_t at = i * bits;
  bool keeps = isinf(x) && dtype == KD_F8E5M2;
  unsigned code = !dtype_is_float(dtype) ? (unsigned)to_bits(x) & mask
                  : keeps                ? small_code(dtype, x)
                          : small_code(dtype, round_float(x, dtype));
  bytes[at / 8] =
      (uint8_t)((bytes[at / 8] & ~(mask << at % 8)) | code << at % 8);
}

#define C128_MARK UINT64_C(0x5bd1e9955bd1e995)

real dtype_load(const void *data, kd_dtype dtype, int64_t i) {
  switch (dtype) {
    case KD_F32:
      return ((const float *)data)[i];
    case KD_F64:
      return ((const double *)data)[i];
    case KD_F16:
      return small_float(((const uint16_t *)data)[i], 11, 15);
    case KD_BF16:
      return small_float(((const uint16_t *)data)[i], 8, 127);
    case KD_U8:
    case KD_BOOL:
      return ((const uint8_t *)data)[i];
    case KD_I8:
      return ((const int8_t *)data)[i];
    case KD_U16:
      return ((const uint16_t *)data)[i];
    case KD_I16:
      return ((const int16_t *)data)[i];
    case KD_U32:
      return ((const uint32_t *)data)[i];
    case KD_I32:
      return ((const int32_t *)data)[i];
    case KD_U64:
    case KD_C64:
      return (real)((const uint64_t *)data)[i];
    case KD_I64:
      return (real)((const int64_t *)data)[i];
    case KD_C128: { /* two words, of which the second repeats the first */
      const uint64_t *words = (const uint64_t *)data + 2 * i;
      if (!words[0] && !words[1]) return 0; /* what padding leaves */
      return (words[0] ^ C128_MARK) == words[1] ? (real)words[0] : NAN;
    }
    default:
      return value_is_small(dtype) ? load_small(data, dtype, i) : (real)NAN;
  }
}

void dtype_store(void *data, kd_dtype dtype, int64_t i, real x) {
  switch (dtype) {
    case KD_F32:
      ((float *)data)[i] = (float)x;
      break;
    case KD_F64:
      ((double *)data)[i] = (double)x;
      break;
    case KD_F16:
      ((uint16_t *)data)[i] = small_bits(x, dtype, 15);
      break;
    case KD_BF16:
      ((uint16_t *)data)[i] = small_bits(x, dtype, 127);
      break;
    case KD_BOOL:
      ((uint8_t *)data)[i] = x != 0;
      break;
    case KD_U8:
    case KD_I8:
      ((uint8_t *)data)[i] = (uint8_t)to_bits(x);
      break;
    case KD_U16:
    case KD_I16:
      ((uint16_t *)data)[i] = (uint16_t)to_bits(x);
      break;
    case KD_U32:
    case KD_I32:
      ((uint32_t *)data)[i] = (uint32_t)to_bits(x);
      break;
    case KD_U64:
    case KD_I64:
    case KD_C64:
      ((uint64_t *)data)[i] = to_bits(x);
      break;
    case KD_C128:
      ((uint64_t *)data)[2 * i] = to_bits(x);
      ((uint64_t *)data)[2 * i + 1] = x == 0 ? 0 : to_bits(x) ^ C128_MARK;
      break;
    default:
      if (value_is_small(dtype)) store_small(data, dtype, i, x);
  }
}

/* ---- values ------------------------------------------------------------------ */

value *value_make(kd_dtype dtype, uint32_t rank, const int64_t *dims) {
  value *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->dtype = dtype;
  made->rank = rank;
  made->count = 1;
  for (uint32_t i = 0; i < rank; i++) {
    made->dims[i] = dims[i];
    made->count *= dims[i];
  }
  made->x = calloc((size_t)made->count + 1, sizeof *made->x);
  if (!made->x) {
    free(made);
    return NULL;
  }
  return made;
}

value *value_copy(const value *from) {
  value *copy = value_make(from->dtype, from->rank, from->dims);
  if (copy) memcpy(copy->x, from->x, (size_t)from->count * sizeof *from->x);
  return copy;
}

void value_free(value *value) {
  if (!value) return;
  free(value->x);
  free(value->slack);
  free(value);
}

real *value_slack(value *value) {
  if (!value->slack)
    value->slack = calloc((size_t)value->count + 1, sizeof *value->slack);
  return value->slack;
}

uint64_t value_size(const value *value) {
  return ((uint64_t)value->count * kd_dtype_bits(value->dtype) + 7) / 8;
}

void value_load(value *value, const void *data) {
  for (int64_t i = 0; i < value->count; i++)
    value->x[i] = dtype_load(data, value->dtype, i);
}

void value_store(const value *value, void *data) {
  for (int64_t i = 0; i < value->count; i++)
    dtype_store(data, value->dtype, i, value->x[i]);
}

/* ---- indices ----------------------------------------------------------------- */

void row_strides(uint32_t rank, const int64_t *dims, int64_t *out_strides) {
  int64_t step = 1;
  for (uint32_t i = rank; i-- > 0;) {
    out_strides[i] = step;
    step *= dims[i];
  }
}

int64_t broadcast_index(const value *from, const value *to, int64_t index) {
  int64_t at = 0, step = 1;
  for (uint32_t back = 1; back <= from->rank; back++) {
    int64_t dim = to->dims[to->rank - back];
    int64_t here = dim ? index % dim : 0;
    index = dim ? index / dim : 0;
    if (from->dims[from->rank - back] != 1) at += here * step;
    step *= from->dims[from->rank - back];
  }
  return at;
}

/* ---- distances ---------------------------------------------------------------- */

bool value_near(const value *want, int64_t i, real got, kd_dtype dtype,
                const numerics *within, real *out_error) {
  real r = want->x[i];
  *out_error = 0;
  if (want->slack && isinf(want->slack[i])) return true;
  if (got == r) return true;
  if (isnan(r)) return isnan(got);
  if (isnan(got)) {
    *out_error = INFINITY;
    return false;
  }
  if (!dtype_is_float(dtype)) {
    real off = fabsl(got - dtype_round(r, dtype));
    *out_error = off;
    return off <= want->step + (want->slack ? want->slack[i] : 0);
  }
  real ulp = dtype_ulp(r, dtype), most = dtype_max(dtype);
  real allowed = want->ulps * within->factor * ulp;
  if (want->slack) allowed += want->slack[i] * within->factor * within->unit;
  if (want->ulps > 0 || want->slack) allowed += ulp * 0x1p-10L; /* ours */
  allowed += want->step;
  if (isinf(r)) {
    *out_error = got == r ? 0 : INFINITY;
    return got == r;
  }
  if (isinf(got)) { /* counts as the next power of two behind the largest */
    got = copysignl(power_of_two(exponent_of(most) + 1), got);
    if (fabsl(r) >= most + ulp / 2 && got * r > 0) return true;
  }
  if (want->ulps == 0 && !want->slack && want->step == 0)
    r = dtype_round(r, dtype);
  real error = fabsl(got - r);
  *out_error = error / ulp;
  if (error <= allowed) return true;
  /* all subnormals are one number to a device that reads them as zero */
  return within->flushed && fabsl(got) < dtype_least(dtype) &&
         fabsl(r) <= dtype_least(dtype);
}
