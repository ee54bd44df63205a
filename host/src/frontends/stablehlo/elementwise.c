/* elementwise.c - ops that act on each element. */
#include "frontends/stablehlo/lower.h"

/* In a body of scalars for tensors the inputs' shapes are not those that are declared, and
 * ONNX broadcasts them as it should be. */

static keel_status one_float(const hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  if (!hlo_is_float(op->in_types[0]->dtype))
    return hlo_refuse(h, op, "its input is %s",
                      keel_dtype_name(op->in_types[0]->dtype));
  return KD_OK;
}

static keel_status no_complex(const hlo *h, const hlo_op *op, uint32_t inputs) {
  KEEL_TRY(hlo_arity(h, op, inputs, 1));
  for (uint32_t i = 0; i < inputs; i++)
    if (hlo_is_complex(op->in_types[i]->dtype))
      return hlo_refuse(h, op, "complex numbers");
  return KD_OK;
}

static kd_dtype input_type(const hlo_op *op) {
  return op->in_types[0]->dtype;
}

/* ---- ops that ONNX has for floats ----------------------------------------------------- */

keel_status hlo_same_name(hlo *h, const hlo_op *op) {
  static const char *const names[][2] = {
      {"ceil", "Ceil"},       {"cosine", "Cos"},
      {"exponential", "Exp"}, {"floor", "Floor"},
      {"log", "Log"},         {"logistic", "Sigmoid"},
      {"sine", "Sin"},        {"round_nearest_even", "Round"},
      {"sqrt", "Sqrt"},       {"tan", "Tan"},
      {"tanh", "Tanh"},
  };
  KEEL_TRY(one_float(h, op));
  for (size_t i = 0; i < KEEL_COUNT_OF(names); i++)
    if (vhlo_is(op->raw, names[i][0]))
      op->out[0] = HLO(h, names[i][1], op->in[0]);
  return KD_OK;
}

keel_status hlo_rsqrt(hlo *h, const hlo_op *op) {
  KEEL_TRY(one_float(h, op));
  op->out[0] = HLO(h, "Reciprocal", HLO(h, "Sqrt", op->in[0]));
  return KD_OK;
}

/* Away from zero at a half: where(x == floor(x), x, +-(floor|x| + (|x| - floor|x| >= 1/2))),
 * whose every step is exact. */
keel_status hlo_round_afz(hlo *h, const hlo_op *op) {
  KEEL_TRY(one_float(h, op));
  kd_dtype dtype = input_type(op);
  keel_value x = op->in[0], size = HLO(h, "Abs", x);
  keel_value down = HLO(h, "Floor", size), rest = HLO(h, "Sub", size, down);
  keel_value up = hlo_cast(
      h, HLO(h, "GreaterOrEqual", rest, hlo_number(h, dtype, 0.5)), dtype);
  keel_value y = HLO(h, "Add", down, up);
  keel_value below = HLO(h, "Less", x, hlo_number(h, dtype, 0));
  y = HLO(h, "Where", below, HLO(h, "Neg", y), y);
  op->out[0] = HLO(h, "Where", HLO(h, "Equal", x, HLO(h, "Floor", x)), x, y);
  return KD_OK;
}

keel_status hlo_is_finite(hlo *h, const hlo_op *op) {
  KEEL_TRY(one_float(h, op));
  keel_value x = op->in[0];
  op->out[0] =
      HLO(h, "Not", HLO(h, "Or", HLO(h, "IsInf", x), HLO(h, "IsNaN", x)));
  return KD_OK;
}

/* log(1 + x) without the digits that 1 + x loses (Kahan): with u = 1 + x rounded,
 * log(u) * (x / (u - 1)); x itself where u is 1. */
keel_status hlo_log1p(hlo *h, const hlo_op *op) {
  KEEL_TRY(one_float(h, op));
  kd_dtype dtype = input_type(op);
  kd_dtype wide = keel_dtype_size(dtype) == 2 ? KD_F32 : dtype;
  keel_value x = hlo_cast(h, op->in[0], wide), one = hlo_number(h, wide, 1);
  keel_value u = HLO(h, "Add", one, x);
  keel_value y =
      HLO(h, "Mul", HLO(h, "Log", u), HLO(h, "Div", x, HLO(h, "Sub", u, one)));
  keel_value most = hlo_least(h, wide, true);
  keel_value as_is =
      HLO(h, "Or", HLO(h, "Equal", u, one), HLO(h, "Equal", x, most));
  op->out[0] = hlo_cast(h, HLO(h, "Where", as_is, x, y), dtype);
  return KD_OK;
}

/* exp(x) - 1 likewise: with u = exp(x), (u - 1) * (x / log(u)); x where u is 1, and u - 1
 * where that is -1 or u infinite. */
keel_status hlo_expm1(hlo *h, const hlo_op *op) {
  KEEL_TRY(one_float(h, op));
  kd_dtype dtype = input_type(op);
  kd_dtype wide = keel_dtype_size(dtype) == 2 ? KD_F32 : dtype;
  keel_value x = hlo_cast(h, op->in[0], wide), one = hlo_number(h, wide, 1);
  keel_value u = HLO(h, "Exp", x), less = HLO(h, "Sub", u, one);
  keel_value y = HLO(h, "Mul", less, HLO(h, "Div", x, HLO(h, "Log", u)));
  keel_value plain =
      HLO(h, "Or", HLO(h, "Equal", less, hlo_number(h, wide, -1)),
          HLO(h, "Equal", u, hlo_least(h, wide, true)));
  y = HLO(h, "Where", plain, less, y);
  op->out[0] =
      hlo_cast(h, HLO(h, "Where", HLO(h, "Equal", u, one), x, y), dtype);
  return KD_OK;
}

/* Computed in f64, which leaves more digits than the narrower types keep. */
keel_status hlo_cbrt(hlo *h, const hlo_op *op) {
  KEEL_TRY(one_float(h, op));
  kd_dtype dtype = input_type(op);
  if (dtype == KD_F64) return hlo_refuse(h, op, "f64");
  keel_value x = hlo_cast(h, op->in[0], KD_F64);
  keel_value y = HLO(h, "Pow", HLO(h, "Abs", x), hlo_number(h, KD_F64, 1. / 3));
  keel_value zero = hlo_number(h, KD_F64, 0);
  y = HLO(h, "Where", HLO(h, "Less", x, zero), HLO(h, "Neg", y), y);
  y = HLO(h, "Where", HLO(h, "Equal", x, zero), x, y);
  op->out[0] = hlo_cast(h, y, dtype);
  return KD_OK;
}

/* ---- two inputs -------------------------------------------------------------------------- */

/* The angle of (x, y): atan(|y| / |x|), mirrored where x has a sign, then where y has. */
keel_status hlo_atan2(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  kd_dtype dtype = input_type(op);
  if (!hlo_is_float(dtype))
    return hlo_refuse(h, op, "its inputs are no floats");
  kd_dtype wide = keel_dtype_size(dtype) == 2 ? KD_F32 : dtype;
  keel_value y = hlo_cast(h, op->in[0], wide);
  keel_value x = hlo_cast(h, op->in[1], wide);
  keel_value zero = hlo_number(h, wide, 0), one = hlo_number(h, wide, 1);
  keel_value high = HLO(h, "Abs", y), far = HLO(h, "Abs", x);
  keel_value slope = HLO(h, "Div", high, far);
  keel_value none =
      HLO(h, "And", HLO(h, "Equal", high, zero), HLO(h, "Equal", far, zero));
  keel_value most = hlo_least(h, wide, true);
  keel_value both =
      HLO(h, "And", HLO(h, "Equal", high, most), HLO(h, "Equal", far, most));
  slope = HLO(h, "Where", none, zero, HLO(h, "Where", both, one, slope));
  keel_value angle = HLO(h, "Atan", slope);
  keel_value half = hlo_number(h, wide, 3.14159265358979323846);
  angle = HLO(h, "Where", hlo_has_sign(h, x, wide), HLO(h, "Sub", half, angle),
              angle);
  angle =
      HLO(h, "Where", hlo_has_sign(h, y, wide), HLO(h, "Neg", angle), angle);
  op->out[0] = hlo_cast(h, angle, dtype);
  return KD_OK;
}

/* An op for numbers, and what it is for booleans. */
static keel_status two(hlo *h, const hlo_op *op, const char *numbers,
                       const char *booleans) {
  KEEL_TRY(no_complex(h, op, 2));
  bool flags = input_type(op) == KD_BOOL;
  if (flags && !booleans) return hlo_refuse(h, op, "its inputs are booleans");
  op->out[0] = HLO(h, flags ? booleans : numbers, op->in[0], op->in[1]);
  return KD_OK;
}

keel_status hlo_add(hlo *h, const hlo_op *op) {
  return two(h, op, "Add", "Or");
}

keel_status hlo_subtract(hlo *h, const hlo_op *op) {
  return two(h, op, "Sub", NULL);
}

keel_status hlo_multiply(hlo *h, const hlo_op *op) {
  return two(h, op, "Mul", "And");
}

keel_status hlo_divide(hlo *h, const hlo_op *op) {
  return two(h, op, "Div", NULL);
}

keel_status hlo_power(hlo *h, const hlo_op *op) {
  return two(h, op, "Pow", NULL);
}

keel_status hlo_extreme(hlo *h, const hlo_op *op) {
  return vhlo_is(op->raw, "maximum") ? two(h, op, "Max", "Or")
                                     : two(h, op, "Min", "And");
}

/* With the sign of the dividend. */
keel_status hlo_remainder(hlo *h, const hlo_op *op) {
  const keel_attr fmod = KEEL_INT("fmod", 1);
  KEEL_TRY(no_complex(h, op, 2));
  op->out[0] = hlo_node(h, "Mod", &fmod, 1, op->in, 2);
  return KD_OK;
}

static keel_status logic(hlo *h, const hlo_op *op, const char *bits,
                         const char *booleans) {
  if (op->input_count && hlo_is_float(input_type(op)))
    return hlo_wrong(h, op, "its inputs are floats");
  return two(h, op, bits, booleans);
}

keel_status hlo_and(hlo *h, const hlo_op *op) {
  return logic(h, op, "BitwiseAnd", "And");
}

keel_status hlo_or(hlo *h, const hlo_op *op) {
  return logic(h, op, "BitwiseOr", "Or");
}

keel_status hlo_xor(hlo *h, const hlo_op *op) {
  return logic(h, op, "BitwiseXor", "Xor");
}

/* ---- one number -------------------------------------------------------------------------- */

keel_status hlo_not(hlo *h, const hlo_op *op) {
  KEEL_TRY(no_complex(h, op, 1));
  op->out[0] =
      HLO(h, input_type(op) == KD_BOOL ? "Not" : "BitwiseNot", op->in[0]);
  return KD_OK;
}

keel_status hlo_abs(hlo *h, const hlo_op *op) {
  KEEL_TRY(no_complex(h, op, 1));
  op->out[0] = HLO(h, "Abs", op->in[0]);
  return KD_OK;
}

keel_status hlo_negate(hlo *h, const hlo_op *op) {
  KEEL_TRY(no_complex(h, op, 1));
  kd_dtype dtype = input_type(op);
  op->out[0] = hlo_is_unsigned(dtype)
                   ? HLO(h, "Sub", hlo_number(h, dtype, 0), op->in[0])
                   : HLO(h, "Neg", op->in[0]);
  return KD_OK;
}

/* NaN, and zeros with their signs, are their own. */
keel_status hlo_sign(hlo *h, const hlo_op *op) {
  KEEL_TRY(no_complex(h, op, 1));
  kd_dtype dtype = input_type(op);
  keel_value x = op->in[0], zero = hlo_number(h, dtype, 0);
  if (!hlo_is_float(dtype)) {
    op->out[0] = HLO(h, "Sign", x);
    return KD_OK;
  }
  keel_value y =
      HLO(h, "Where", HLO(h, "Less", x, zero), hlo_number(h, dtype, -1), x);
  op->out[0] =
      HLO(h, "Where", HLO(h, "Greater", x, zero), hlo_number(h, dtype, 1), y);
  return KD_OK;
}

/* ---- choosing ------------------------------------------------------------------------------ */

keel_status hlo_select(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 3, 1));
  op->out[0] = HLO(h, "Where", op->in[0], op->in[1], op->in[2]);
  return KD_OK;
}

keel_status hlo_clamp(hlo *h, const hlo_op *op) {
  KEEL_TRY(no_complex(h, op, 3));
  if (input_type(op) == KD_BOOL) return hlo_refuse(h, op, "booleans");
  op->out[0] = HLO(h, "Min", HLO(h, "Max", op->in[1], op->in[0]), op->in[2]);
  return KD_OK;
}

/* In the order of all floats. The sign of NaN can't be seen, so values must have none that
 * is negative. */
static keel_status total_order(hlo *h, const hlo_op *op, uint64_t direction) {
  const uint32_t *values = op->raw->operands;
  uint32_t a_of = 0, b_of = 0;
  bool canonical = hlo_is_canonical(h, NULL, values[0], &a_of) &&
                   hlo_is_canonical(h, NULL, values[1], &b_of);
  if (!canonical && !h->nan_greatest)
    return hlo_refuse(h, op, "the total order of floats that may be NaN");
  bool less = direction == VHLO_LT || direction == VHLO_GE;
  keel_value a = op->in[!less], b = op->in[less];
  kd_dtype dtype = input_type(op);
  op->out[0] = direction <= VHLO_NE ? hlo_total_equal(h, a, b, dtype, canonical)
                                    : hlo_total_less(h, a, b, dtype, canonical);
  if (direction == VHLO_NE || direction == VHLO_GE || direction == VHLO_LE)
    op->out[0] = HLO(h, "Not", op->out[0]);
  return KD_OK;
}

keel_status hlo_compare(hlo *h, const hlo_op *op) {
  static const char *const names[] = {
      [VHLO_EQ] = "Equal",          [VHLO_NE] = "Equal",
      [VHLO_GE] = "GreaterOrEqual", [VHLO_GT] = "Greater",
      [VHLO_LE] = "LessOrEqual",    [VHLO_LT] = "Less"};
  uint64_t direction = 0, kind = 0;
  KEEL_TRY(no_complex(h, op, 2));
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "comparison_direction", VHLO_DIRECTION,
                     &direction));
  KEEL_TRY(vhlo_enum(&h->v, op->raw, "compare_type", VHLO_COMPARISON, &kind));
  if (direction > VHLO_LT)
    return hlo_wrong(h, op, "direction %llu", (unsigned long long)direction);
  if (kind == VHLO_TOTAL_ORDER && hlo_is_float(input_type(op)))
    return total_order(h, op, direction);
  keel_value a = op->in[0], b = op->in[1];
  if (input_type(op) == KD_BOOL && direction > VHLO_NE) {
    a = hlo_cast(h, a, KD_U8);
    b = hlo_cast(h, b, KD_U8);
  }
  op->out[0] = HLO(h, names[direction], a, b);
  if (direction == VHLO_NE) op->out[0] = HLO(h, "Not", op->out[0]);
  return KD_OK;
}

/* ---- types ------------------------------------------------------------------------------- */

keel_status hlo_identity(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, op->output_count, op->output_count));
  for (uint32_t i = 0; i < op->output_count; i++)
    op->out[i] = op->in[i];
  return KD_OK;
}

keel_status hlo_convert(hlo *h, const hlo_op *op) {
  KEEL_TRY(no_complex(h, op, 1));
  if (hlo_is_complex(op->out_types[0]->dtype))
    return hlo_refuse(h, op, "complex numbers");
  op->out[0] = hlo_cast(h, op->in[0], op->out_types[0]->dtype);
  return KD_OK;
}

static kd_dtype unsigned_of(kd_dtype dtype) {
  switch (keel_dtype_size(dtype)) {
    case 1:
      return KD_U8;
    case 2:
      return KD_U16;
    case 4:
      return KD_U32;
    default:
      return KD_U64;
  }
}

static bool is_integer(kd_dtype dtype) {
  return hlo_is_signed(dtype) || hlo_is_unsigned(dtype);
}

/* The bits of integers stay when they are cast to integers of the same width. */
keel_status hlo_bitcast_convert(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  kd_dtype from = input_type(op), to = op->out_types[0]->dtype;
  if (from != to && (!is_integer(from) || !is_integer(to) ||
                     keel_dtype_size(from) != keel_dtype_size(to)))
    return hlo_refuse(h, op, "from %s to %s", keel_dtype_name(from),
                      keel_dtype_name(to));
  op->out[0] = hlo_cast(h, op->in[0], to);
  return KD_OK;
}

/* To fewer bits of the mantissa, with all of the exponent's: bf16's f32. */
keel_status hlo_reduce_precision(hlo *h, const hlo_op *op) {
  int64_t exponent = 0, mantissa = 0;
  KEEL_TRY(one_float(h, op));
  kd_dtype dtype = input_type(op);
  KEEL_TRY(vhlo_int(&h->v, op->raw, "exponent_bits", &exponent));
  KEEL_TRY(vhlo_int(&h->v, op->raw, "mantissa_bits", &mantissa));
  static const int64_t exponents[] = {
      [KD_F32] = 8, [KD_F16] = 5, [KD_F64] = 11, [KD_BF16] = 8};
  static const int64_t mantissas[] = {
      [KD_F32] = 23, [KD_F16] = 10, [KD_F64] = 52, [KD_BF16] = 7};
  if (exponent >= exponents[dtype] && mantissa >= mantissas[dtype]) {
    op->out[0] = op->in[0];
  } else if (dtype == KD_F32 && exponent == 8 && mantissa == 7) {
    op->out[0] = hlo_cast(h, hlo_cast(h, op->in[0], KD_BF16), KD_F32);
  } else {
    return hlo_refuse(h, op,
                      "%s with %lld bits of exponent and %lld of"
                      " mantissa",
                      keel_dtype_name(dtype), (long long)exponent,
                      (long long)mantissa);
  }
  return KD_OK;
}

/* ---- bits --------------------------------------------------------------------------------- */

static keel_value shifted(hlo *h, keel_value x, keel_value by, bool left) {
  const keel_attr direction = KEEL_STRING("direction", left ? "LEFT" : "RIGHT");
  const keel_value in[] = {x, by};
  return hlo_node(h, "BitShift", &direction, 1, in, 2);
}

/* Zero where it shifts by the width or more; amounts count as unsigned. */
static keel_value logical(hlo *h, keel_value x, keel_value by, kd_dtype dtype,
                          bool left) {
  keel_value width = hlo_number(h, dtype, 8 * keel_dtype_size(dtype));
  keel_value last = hlo_number(h, dtype, 8 * keel_dtype_size(dtype) - 1);
  keel_value y = shifted(h, x, HLO(h, "Min", by, last), left);
  return HLO(h, "Where", HLO(h, "Less", by, width), y, hlo_number(h, dtype, 0));
}

keel_status hlo_shift(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  kd_dtype dtype = input_type(op), bits = unsigned_of(dtype);
  if (!is_integer(dtype))
    return hlo_refuse(h, op, "its inputs are no integers");
  keel_value x = hlo_cast(h, op->in[0], bits);
  keel_value by = hlo_cast(h, op->in[1], bits), y = KEEL_ABSENT;
  if (!vhlo_is(op->raw, "shift_right_arithmetic")) {
    y = logical(h, x, by, bits, vhlo_is(op->raw, "shift_left"));
  } else {
    /* a negative number's complement is not negative, and its shift the complement */
    keel_value last = hlo_number(h, bits, 8 * keel_dtype_size(bits) - 1);
    keel_value top = shifted(h, x, last, false), zero = hlo_number(h, bits, 0);
    keel_value mask = HLO(h, "Sub", zero, top);
    y = shifted(h, HLO(h, "BitwiseXor", x, mask), HLO(h, "Min", by, last),
                false);
    y = HLO(h, "BitwiseXor", y, mask);
  }
  op->out[0] = hlo_cast(h, y, dtype);
  return KD_OK;
}

/* How many bits are set: in pairs, then in fours and so on. */
static keel_value count_bits(hlo *h, keel_value x, kd_dtype dtype) {
  uint32_t width = 8 * keel_dtype_size(dtype);
  for (uint32_t step = 1; step < width; step *= 2) {
    uint64_t mask = 0;
    for (uint32_t i = 0; i < width; i++)
      if (!(i / step % 2)) mask |= UINT64_C(1) << i;
    keel_value mask_value = hlo_constant(h, dtype, 0, NULL, &mask);
    keel_value high = shifted(h, x, hlo_number(h, dtype, step), false);
    x = HLO(h, "Add", HLO(h, "BitwiseAnd", x, mask_value),
            HLO(h, "BitwiseAnd", high, mask_value));
  }
  return x;
}

/* popcnt, and count_leading_zeros: of what has ones from the first one on. */
keel_status hlo_bits(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  kd_dtype dtype = input_type(op), bits = unsigned_of(dtype);
  if (!is_integer(dtype)) return hlo_refuse(h, op, "its input is no integer");
  keel_value x = hlo_cast(h, op->in[0], bits);
  if (!vhlo_is(op->raw, "popcnt")) {
    uint32_t width = 8 * keel_dtype_size(bits);
    for (uint32_t step = 1; step < width; step *= 2)
      x = HLO(h, "BitwiseOr", x,
              shifted(h, x, hlo_number(h, bits, step), false));
    x = HLO(h, "BitwiseNot", x);
  }
  op->out[0] = hlo_cast(h, count_bits(h, x, bits), dtype);
  return KD_OK;
}
