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

static bool is_complex(const hlo_op *op) {
  return op->input_count && hlo_is_complex(op->in_types[0]->dtype);
}

static kd_dtype input_type(const hlo_op *op) {
  return op->in_types[0]->dtype;
}

/* ---- ops that ONNX has for floats ----------------------------------------------------- */

keel_status hlo_same_name(hlo *h, const hlo_op *op) {
  static const char *const names[][2] = {
      {"ceil", "Ceil"},
      {"cosine", "Cos"},
      {"exponential", "Exp"},
      {"floor", "Floor"},
      {"log", "Log"},
      {"logistic", "Sigmoid"},
      {"sine", "Sin"},
      {"round_nearest_even", "Round"},
      {"sqrt", "Sqrt"},
      {"tan", "Tan"},
      {"tanh", "Tanh"},
      {"cbrt", "keel::Cbrt"},
      {"exponential_minus_one", "keel::Expm1"},
      {"log_plus_one", "keel::Log1p"},
  };
  if (is_complex(op)) return hlo_complex_op(h, op);
  KEEL_TRY(one_float(h, op));
  for (size_t i = 0; i < KEEL_COUNT_OF(names); i++)
    if (vhlo_is(op->raw, names[i][0]))
      op->out[0] = HLO(h, names[i][1], op->in[0]);
  return KD_OK;
}

keel_status hlo_rsqrt(hlo *h, const hlo_op *op) {
  KEEL_TRY(one_float(h, op));
  hlo_text(h, op, "%0 = Reciprocal(Sqrt($0))");
  return KD_OK;
}

/* Away from zero at a half: where(x == floor(x), x, +-(floor|x| + (|x| - floor|x| >= 1/2))),
 * whose every step is exact. */
keel_status hlo_round_afz(hlo *h, const hlo_op *op) {
  KEEL_TRY(one_float(h, op));
  hlo_text(h, op,
           "x = $0; size = Abs(x); down = Floor(size);"
           "y = down + CastLike(size - down >= 0.5, x);"
           "%0 = Where(x == Floor(x), x, Where(x < 0, -y, y))");
  return KD_OK;
}

keel_status hlo_is_finite(hlo *h, const hlo_op *op) {
  KEEL_TRY(one_float(h, op));
  hlo_text(h, op, "%0 = Not(Or(IsInf($0), IsNaN($0)))");
  return KD_OK;
}

/* ---- two inputs -------------------------------------------------------------------------- */

keel_status hlo_atan2(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  if (!hlo_is_float(input_type(op)))
    return hlo_refuse(h, op, "its inputs are not floats");
  op->out[0] = HLO(h, "keel::Atan2", op->in[0], op->in[1]);
  return KD_OK;
}

/* An op for numbers, and what it is for booleans. */
static keel_status elementwise_two(hlo *h, const hlo_op *op,
                                   const char *numbers, const char *booleans) {
  KEEL_TRY(no_complex(h, op, 2));
  bool flags = input_type(op) == KD_BOOL;
  if (flags && !booleans) return hlo_refuse(h, op, "its inputs are booleans");
  op->out[0] = HLO(h, flags ? booleans : numbers, op->in[0], op->in[1]);
  return KD_OK;
}

keel_status hlo_add(hlo *h, const hlo_op *op) {
  return elementwise_two(h, op, "Add", "Or");
}

keel_status hlo_subtract(hlo *h, const hlo_op *op) {
  return elementwise_two(h, op, "Sub", NULL);
}

keel_status hlo_multiply(hlo *h, const hlo_op *op) {
  return elementwise_two(h, op, "Mul", "And");
}

keel_status hlo_divide(hlo *h, const hlo_op *op) {
  if (is_complex(op)) return hlo_complex_op(h, op);
  return elementwise_two(h, op, "Div", NULL);
}

keel_status hlo_power(hlo *h, const hlo_op *op) {
  return elementwise_two(h, op, "Pow", NULL);
}

keel_status hlo_extreme(hlo *h, const hlo_op *op) {
  return vhlo_is(op->raw, "maximum") ? elementwise_two(h, op, "Max", "Or")
                                     : elementwise_two(h, op, "Min", "And");
}

/* With the sign of the dividend. */
keel_status hlo_remainder(hlo *h, const hlo_op *op) {
  KEEL_TRY(no_complex(h, op, 2));
  hlo_text(h, op, "%0 = Mod[fmod=1]($0, $1)");
  return KD_OK;
}

static keel_status logic(hlo *h, const hlo_op *op, const char *bits,
                         const char *booleans) {
  if (op->input_count && hlo_is_float(input_type(op)))
    return hlo_wrong(h, op, "its inputs are floats");
  return elementwise_two(h, op, bits, booleans);
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
  if (is_complex(op)) return hlo_complex_op(h, op);
  KEEL_TRY(no_complex(h, op, 1));
  op->out[0] = HLO(h, "Abs", op->in[0]);
  return KD_OK;
}

keel_status hlo_negate(hlo *h, const hlo_op *op) {
  KEEL_TRY(no_complex(h, op, 1));
  hlo_text(h, op, "%0 = %b ? 0 - $0 : -$0", hlo_is_unsigned(input_type(op)));
  return KD_OK;
}

/* NaN, and zeros with their signs, are their own. */
keel_status hlo_sign(hlo *h, const hlo_op *op) {
  if (is_complex(op)) return hlo_complex_op(h, op);
  KEEL_TRY(no_complex(h, op, 1));
  hlo_text(
      h, op,
      "%0 = %b ? Where($0 > 0, 1~$0, Where($0 < 0, (-1)~$0, $0)) : Sign($0)",
      hlo_is_float(input_type(op)));
  return KD_OK;
}

/* ---- choosing ------------------------------------------------------------------------------ */

keel_status hlo_select(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 3, 1));
  hlo_text(h, op, "%0 = Where($0, $1, $2)");
  return KD_OK;
}

keel_status hlo_clamp(hlo *h, const hlo_op *op) {
  KEEL_TRY(no_complex(h, op, 3));
  if (input_type(op) == KD_BOOL) return hlo_refuse(h, op, "booleans");
  hlo_text(h, op, "%0 = Min(Max($1, $0), $2)");
  return KD_OK;
}

keel_status hlo_compare(hlo *h, const hlo_op *op) {
  if (is_complex(op)) return hlo_complex_op(h, op);
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
  keel_value a = op->in[0], b = op->in[1];
  if (kind == VHLO_TOTAL_ORDER && hlo_is_float(input_type(op))) {
    a = hlo_total_number(h, a, input_type(op));
    b = hlo_total_number(h, b, input_type(op));
  }
  if (input_type(op) == KD_BOOL && direction > VHLO_NE) {
    a = keel_emit_cast(hlo_at(h), a, KD_U8);
    b = keel_emit_cast(hlo_at(h), b, KD_U8);
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
  if (is_complex(op) || hlo_is_complex(op->out_types[0]->dtype))
    return hlo_complex_op(h, op);
  KEEL_TRY(no_complex(h, op, 1));
  op->out[0] = keel_emit_cast(hlo_at(h), op->in[0], op->out_types[0]->dtype);
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

static keel_value shifted(hlo *h, keel_value x, keel_value by, bool left) {
  return hlo_text(h, NULL, "BitShift[direction=%s](%v, %v)",
                  left ? "LEFT" : "RIGHT", x, by);
}

/* One element as several of a narrower type, which are a dimension more: the lowest bits
 * first. */
static keel_value narrowed(hlo *h, const hlo_op *op, kd_dtype from,
                           kd_dtype to) {
  const vhlo_type *type = op->in_types[0];
  uint32_t width = 8 * keel_dtype_size(to), count = 0;
  keel_value parts[8], x = hlo_bits_as(h, op->in[0], unsigned_of(from));
  int64_t dims[KD_MAX_RANK];
  for (uint32_t i = 0; i < type->rank; i++)
    dims[i] = type->dims[i];
  dims[type->rank] = 1;
  x = hlo_reshape(h, x, type->rank + 1, dims);
  for (; count * width < 8 * keel_dtype_size(from); count++) {
    keel_value by = hlo_number(h, unsigned_of(from), count * width);
    parts[count] =
        keel_emit_cast(hlo_at(h),
                       HLO(h, "BitwiseAnd", shifted(h, x, by, false),
                           hlo_number(h, unsigned_of(from),
                                      (double)((UINT64_C(1) << width) - 1))),
                       unsigned_of(to));
  }
  return hlo_bits_as(h, hlo_concat(h, type->rank, parts, count), to);
}

/* The elements of the last dimension as one. */
static keel_value widened(hlo *h, const hlo_op *op, kd_dtype from,
                          kd_dtype to) {
  const vhlo_type *type = op->in_types[0], *out = op->out_types[0];
  uint32_t width = 8 * keel_dtype_size(from);
  keel_value x = hlo_bits_as(h, op->in[0], unsigned_of(from));
  keel_value sum = KEEL_ABSENT;
  x = keel_emit_cast(hlo_at(h), x, unsigned_of(to));
  for (int64_t i = 0; i < type->dims[type->rank - 1]; i++) {
    keel_value part = hlo_part(h, x, type->rank - 1, i, i + 1, 1);
    part = shifted(h, part, hlo_number(h, unsigned_of(to), (double)i * width),
                   true);
    sum = i ? HLO(h, "BitwiseOr", sum, part) : part;
  }
  return hlo_bits_as(h, hlo_reshape(h, sum, out->rank, out->dims), to);
}

keel_status hlo_bitcast_convert(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  kd_dtype from = input_type(op), to = op->out_types[0]->dtype;
  const vhlo_type *type = op->in_types[0], *out = op->out_types[0];
  uint32_t a = keel_dtype_size(from), b = keel_dtype_size(to);
  if (from == KD_BOOL || to == KD_BOOL || (a != b && (a > 8 || b > 8)) ||
      (a != b && (h->many || type->dynamic || type->rank == KD_MAX_RANK)))
    return hlo_refuse(h, op, "from %s to %s", keel_dtype_name(from),
                      keel_dtype_name(to));
  if (a < b && (!type->rank || type->dims[type->rank - 1] != b / a ||
                out->rank + 1 != type->rank))
    return hlo_wrong(h, op, "%u bytes of %u", (unsigned)b, (unsigned)a);
  op->out[0] = a == b  ? hlo_bits_as(h, op->in[0], to)
               : a < b ? widened(h, op, from, to)
                       : narrowed(h, op, from, to);
  return KD_OK;
}

/* How a float is stored. */
typedef struct layout {
  int64_t exponent, mantissa; /* bits */
} layout;

static keel_value mask_of(hlo *h, kd_dtype bits, uint64_t mask) {
  return keel_emit_constant(hlo_at(h), bits, 0, NULL, &mask);
}

/* To the nearest with fewer bits of mantissa, ties to even. */
static keel_value round_mantissa(hlo *h, keel_value x, kd_dtype bits,
                                 int64_t drop) {
  uint64_t last = UINT64_C(1) << drop;
  return hlo_text(h, NULL,
                  "x = %v; one = %v; odd = "
                  "BitwiseAnd(BitShift[direction=RIGHT](x, %v), one);"
                  "BitwiseAnd(x + (odd + %v), %v)",
                  x, mask_of(h, bits, 1), mask_of(h, bits, (uint64_t)drop),
                  mask_of(h, bits, last / 2 - 1),
                  mask_of(h, bits, ~(last - 1)));
}

/* Values beyond the exponent's bits become infinite, or zero; both keep their sign. */
static keel_value bound_exponent(hlo *h, keel_value x, kd_dtype bits,
                                 const layout *from, const layout *to) {
  int64_t bias = (INT64_C(1) << (from->exponent - 1)) - 1;
  int64_t new_bias = (INT64_C(1) << (to->exponent - 1)) - 1;
  uint64_t infinity = ((UINT64_C(1) << from->exponent) - 1) << from->mantissa;
  uint64_t most = (uint64_t)(bias + new_bias) << from->mantissa;
  uint64_t least = (uint64_t)(bias - new_bias) << from->mantissa;
  uint64_t sign = UINT64_C(1) << (from->exponent + from->mantissa);
  return hlo_text(h, NULL,
                  "x = %v; infinity = %v; sign = BitwiseAnd(x, %v);"
                  "exponent = BitwiseAnd(x, infinity);"
                  "y = Where(exponent <= %v, sign, x);"
                  "Where(exponent > %v, BitwiseOr(sign, infinity), y)",
                  x, mask_of(h, bits, infinity), mask_of(h, bits, sign),
                  mask_of(h, bits, least), mask_of(h, bits, most));
}

keel_status hlo_reduce_precision(hlo *h, const hlo_op *op) {
  static const layout layouts[] = {[KD_F32] = {8, 23},
                                   [KD_F16] = {5, 10},
                                   [KD_F64] = {11, 52},
                                   [KD_BF16] = {8, 7}};
  layout to;
  KEEL_TRY(one_float(h, op));
  kd_dtype dtype = input_type(op), bits = unsigned_of(dtype);
  const layout *from = &layouts[dtype];
  KEEL_TRY(vhlo_int(&h->v, op->raw, "exponent_bits", &to.exponent));
  KEEL_TRY(vhlo_int(&h->v, op->raw, "mantissa_bits", &to.mantissa));
  if (to.exponent < 1 || to.mantissa < 1)
    return hlo_refuse(h, op, "%lld bits of exponent and %lld of mantissa",
                      (long long)to.exponent, (long long)to.mantissa);
  keel_value x = hlo_bits_as(h, op->in[0], bits);
  if (to.mantissa < from->mantissa)
    x = round_mantissa(h, x, bits, from->mantissa - to.mantissa);
  if (to.exponent < from->exponent) x = bound_exponent(h, x, bits, from, &to);
  op->out[0] = HLO(h, "Where", HLO(h, "IsNaN", op->in[0]), op->in[0],
                   hlo_bits_as(h, x, dtype));
  return KD_OK;
}

/* ---- bits ----------------------------------------------------------------------------- */

/* Zero where it shifts by the width or more; amounts count as unsigned. */
static keel_value logical(hlo *h, keel_value x, keel_value by, kd_dtype dtype,
                          bool left) {
  double width = 8.0 * keel_dtype_size(dtype);
  return hlo_text(h, NULL,
                  "x = %v; by = %v;"
                  "y = BitShift[direction=%s](x, Min(by, %f));"
                  "Where(by < %f, y, 0~x)",
                  x, by, left ? "LEFT" : "RIGHT", width - 1, width);
}

keel_status hlo_shift(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 2, 1));
  kd_dtype dtype = input_type(op), bits = unsigned_of(dtype);
  if (!is_integer(dtype))
    return hlo_refuse(h, op, "its inputs are no integers");
  keel_value x = keel_emit_cast(hlo_at(h), op->in[0], bits);
  keel_value by = keel_emit_cast(hlo_at(h), op->in[1], bits), y = KEEL_ABSENT;
  if (!vhlo_is(op->raw, "shift_right_arithmetic")) {
    y = logical(h, x, by, bits, vhlo_is(op->raw, "shift_left"));
  } else {
    /* a negative number's complement is not negative, and its shift the complement */
    double last = 8.0 * keel_dtype_size(bits) - 1;
    y = hlo_text(h, NULL,
                 "x = %v; by = Min(%v, %f);"
                 "mask = 0 - BitShift[direction=RIGHT](x, %f);"
                 "y = BitShift[direction=RIGHT](BitwiseXor(x, mask), by);"
                 "BitwiseXor(y, mask)",
                 x, by, last, last);
  }
  op->out[0] = keel_emit_cast(hlo_at(h), y, dtype);
  return KD_OK;
}

keel_status hlo_bits(hlo *h, const hlo_op *op) {
  KEEL_TRY(hlo_arity(h, op, 1, 1));
  if (!is_integer(input_type(op)))
    return hlo_refuse(h, op, "its input is not an integer");
  op->out[0] = HLO(
      h, vhlo_is(op->raw, "popcnt") ? "keel::PopCount" : "keel::LeadingZeros",
      op->in[0]);
  return KD_OK;
}
