/* elementwise.c - ops that act on each element. */
#include "frontends/stablehlo/lower.h"

/* In a body of scalars for tensors the inputs' shapes are not those that are declared, and
 * ONNX broadcasts them as it should be. */

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

static bool is_integer(kd_dtype dtype) {
  return hlo_is_signed(dtype) || hlo_is_unsigned(dtype);
}

/* ---- ops that a text says ---------------------------------------------------------------- */

typedef enum input_kind { FLOATS, INTEGERS, NUMBERS, BITS } input_kind;

static const struct {
  const char *name;
  uint32_t inputs;
  input_kind kind;
  const char *text, *booleans; /* NULL: it has none for booleans */
} elementwise_ops[] = {
    {"abs", 1, NUMBERS, "Abs($0)", NULL},
    {"add", 2, NUMBERS, "$0 + $1", "Or($0, $1)"},
    {"and", 2, BITS, "BitwiseAnd($0, $1)", "And($0, $1)"},
    {"atan2", 2, FLOATS, "keel::Atan2($0, $1)", NULL},
    {"cbrt", 1, FLOATS, "keel::Cbrt($0)", NULL},
    {"ceil", 1, FLOATS, "Ceil($0)", NULL},
    {"clamp", 3, NUMBERS, "Min(Max($1, $0), $2)", NULL},
    {"cosine", 1, FLOATS, "Cos($0)", NULL},
    {"count_leading_zeros", 1, INTEGERS, "keel::LeadingZeros($0)", NULL},
    {"divide", 2, NUMBERS, "$0 / $1", NULL},
    {"exponential", 1, FLOATS, "Exp($0)", NULL},
    {"exponential_minus_one", 1, FLOATS, "keel::Expm1($0)", NULL},
    {"floor", 1, FLOATS, "Floor($0)", NULL},
    {"is_finite", 1, FLOATS, "Not(Or(IsInf($0), IsNaN($0)))", NULL},
    {"log", 1, FLOATS, "Log($0)", NULL},
    {"log_plus_one", 1, FLOATS, "keel::Log1p($0)", NULL},
    {"logistic", 1, FLOATS, "Sigmoid($0)", NULL},
    {"maximum", 2, NUMBERS, "Max($0, $1)", "Or($0, $1)"},
    {"minimum", 2, NUMBERS, "Min($0, $1)", "And($0, $1)"},
    {"multiply", 2, NUMBERS, "$0 * $1", "And($0, $1)"},
    {"not", 1, BITS, "BitwiseNot($0)", "Not($0)"},
    {"or", 2, BITS, "BitwiseOr($0, $1)", "Or($0, $1)"},
    {"popcnt", 1, INTEGERS, "keel::PopCount($0)", NULL},
    {"power", 2, NUMBERS, "Pow($0, $1)", NULL},
    /* with the sign of the dividend */
    {"remainder", 2, NUMBERS, "Mod[fmod=1]($0, $1)", NULL},
    /* where(x == floor(x), x, +-(floor|x| + (|x| - floor|x| >= 1/2))), whose every step is exact */
    {"round_nearest_afz", 1, FLOATS,
     "x = $0; size = Abs(x); down = Floor(size);"
     "y = down + CastLike(size - down >= 0.5, x);"
     "Where(x == Floor(x), x, Where(x < 0, -y, y))",
     NULL},
    {"round_nearest_even", 1, FLOATS, "Round($0)", NULL},
    {"rsqrt", 1, FLOATS, "Reciprocal(Sqrt($0))", NULL},
    {"sine", 1, FLOATS, "Sin($0)", NULL},
    {"sqrt", 1, FLOATS, "Sqrt($0)", NULL},
    {"subtract", 2, NUMBERS, "$0 - $1", NULL},
    {"tan", 1, FLOATS, "Tan($0)", NULL},
    {"tanh", 1, FLOATS, "Tanh($0)", NULL},
    {"xor", 2, BITS, "BitwiseXor($0, $1)", "Xor($0, $1)"},
};

static keel_status elementwise_inputs(const hlo *h, const hlo_op *op,
                                      uint32_t count, input_kind kind) {
  KEEL_TRY(no_complex(h, op, count));
  kd_dtype dtype = input_type(op);
  if ((kind == FLOATS && !hlo_is_float(dtype)) ||
      (kind == INTEGERS && !is_integer(dtype)))
    return hlo_refuse(h, op, "its input is %s", keel_dtype_name(dtype));
  if (kind == BITS && hlo_is_float(dtype))
    return hlo_wrong(h, op, "its inputs are floats");
  return KD_OK;
}

keel_status hlo_elementwise(hlo *h, const hlo_op *op) {
  if (is_complex(op)) return hlo_complex_op(h, op);
  size_t i = 0;
  while (!vhlo_is(op->raw, elementwise_ops[i].name))
    i++;
  KEEL_TRY(elementwise_inputs(h, op, elementwise_ops[i].inputs,
                              elementwise_ops[i].kind));
  const char *text = input_type(op) == KD_BOOL ? elementwise_ops[i].booleans
                                               : elementwise_ops[i].text;
  if (!text) return hlo_refuse(h, op, "its inputs are booleans");
  op->out[0] = hlo_text(h, op, text);
  return KD_OK;
}

/* ---- one number -------------------------------------------------------------------------- */

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
  KEEL_TRY(elementwise_inputs(h, op, 1, FLOATS));
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
  KEEL_TRY(elementwise_inputs(h, op, 2, INTEGERS));
  kd_dtype dtype = input_type(op), bits = unsigned_of(dtype);
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
