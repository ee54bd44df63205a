/* elementwise.c - ops that work on each element: shapes, forms of older opsets, derivatives. Where
 * an op has a corner, its derivative is that of PyTorch: 0 for Relu at 0, and what is the same on
 * both sides is shared between equal operands of Max and Min. */
#include <kd/help.h>

#include "opsets/onnx/training/gradient.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"

/* ---- shapes ------------------------------------------------------------------ */

keel_status keel_shape_same(keel_infer *infer) {
  keel_dims dims = keel_dims_of(infer->in[0]);
  return keel_infer_dims(infer, 0, &dims);
}

/* min and max are scalars; some models have them as lists of one. */
keel_status keel_shape_clip(keel_infer *infer) {
  for (uint32_t i = 1; i < infer->input_count; i++)
    if (infer->in[i] && infer->in[i]->elements != 1)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT, "%s must be one number, not %lld",
          i == 1 ? "min" : "max", (long long)infer->in[i]->elements);
  return keel_shape_same(infer);
}

keel_status keel_shape_broadcast(keel_infer *infer) {
  keel_dims dims = {0};
  for (uint32_t i = 0; i < infer->input_count; i++)
    if (infer->in[i] &&
        !keel_dims_broadcast(&dims, infer->in[i]->rank, infer->in[i]->dims))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "the shapes do not broadcast together");
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_where(keel_infer *infer) {
  return keel_shape_broadcast(infer);
}

keel_status keel_infer_dtype_attr(keel_infer *infer, const char *name,
                                  kd_dtype otherwise) {
  int64_t to = keel_attr_int(infer->op, name, otherwise);
  if (to <= 0)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "attribute \"%s\" is %lld, which is not an element type", name,
        (long long)to);
  if (to >= (int64_t)KD_DTYPE_COUNT)
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "attribute \"%s\" is element type %lld, which Keel"
                           " does not have yet",
                           name, (long long)to);
  infer->dtypes[0] = (kd_dtype)to;
  return KD_OK;
}

keel_status keel_shape_cast(keel_infer *infer) {
  KEEL_TRY(keel_infer_dtype_attr(infer, "to", KD_NONE));
  return keel_shape_same(infer);
}

/* The attribute "to", where both types have elements of whole bytes. */
static keel_status bits_attr(keel_infer *infer) {
  KEEL_TRY(keel_infer_dtype_attr(infer, "to", KD_NONE));
  return kd_dtype_size(infer->dtypes[0]) && kd_dtype_size(infer->in[0]->dtype)
             ? KD_OK
             : keel_infer_fail(infer, KD_UNIMPLEMENTED,
                               "the elements of one of the types are not of"
                               " whole bytes");
}

/* Another type of as many bits. */
keel_status keel_shape_bit_cast(keel_infer *infer) {
  KEEL_TRY(bits_attr(infer));
  if (kd_dtype_size(infer->dtypes[0]) != kd_dtype_size(infer->in[0]->dtype))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s and %s have different numbers of bits",
                           keel_dtype_name(infer->in[0]->dtype),
                           keel_dtype_name(infer->dtypes[0]));
  return keel_shape_same(infer);
}

/* The parts of a larger element are the last dimension. */
keel_status keel_shape_bitcast(keel_infer *infer) {
  KEEL_TRY(bits_attr(infer));
  keel_dims dims = keel_dims_of(infer->in[0]);
  uint32_t from = kd_dtype_size(infer->in[0]->dtype);
  uint32_t to = kd_dtype_size(infer->dtypes[0]);
  if (from > to && from % to == 0 && dims.rank < KD_MAX_RANK)
    dims.dims[dims.rank++] = from / to;
  else if (from < to && to % from == 0 && dims.rank &&
           dims.dims[dims.rank - 1] == to / from)
    dims.rank--;
  else if (from != to)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s does not become %s: the last dimension must have"
                           " the parts of an element",
                           keel_dtype_name(infer->in[0]->dtype),
                           keel_dtype_name(infer->dtypes[0]));
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_cast_like(keel_infer *infer) {
  infer->dtypes[0] = infer->in[1]->dtype;
  return keel_shape_same(infer);
}

/* ---- older opsets ------------------------------------------------------------ */

/* PRelu's slope was one for each channel. */
static keel_status old_prelu(keel_draft *draft) {
  const keel_type *slope = keel_upgrade_type(draft, 1);
  return slope && slope->rank == 1 && slope->dims[0] == 1
             ? KD_OK
             : keel_upgrade_lay_over(draft, 1);
}

static keel_status old_clip(keel_draft *draft) {
  KEEL_TRY(keel_upgrade_float(draft, "min", 1));
  return keel_upgrade_float(draft, "max", 2);
}

/* ---- derivatives ------------------------------------------------------------- */

static void sum(keel_gradient *g) {
  for (uint32_t i = 0; i < g->node.input_count; i++)
    keel_gradient_give_wide(g, i, keel_gradient_got(g, 0));
}

static void mean(keel_gradient *g) {
  uint32_t each = keel_gradient_text(g, "^0 * %f", 1.0 / g->node.input_count);
  for (uint32_t i = 0; i < g->node.input_count; i++)
    keel_gradient_give_wide(g, i, each);
}

/* Shared by those that are as large as the result. */
static void extreme(keel_gradient *g) {
  uint32_t n = g->node.input_count, count = KEEL_ABSENT;
  uint32_t *chosen = keel_arena_take(g->all->function->arena,
                                     (n + (size_t)1) * sizeof *chosen);
  if (!chosen) {
    g->all->status = KD_OUT_OF_MEMORY;
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    chosen[i] =
        keel_gradient_text(g, "CastLike(%v == %0, %0)", keel_gradient_in(g, i));
    count = i ? keel_emit_binary(g->all, "Add", count, chosen[i]) : chosen[i];
  }
  uint32_t each = keel_gradient_text(g, "^0 / %v", count);
  for (uint32_t i = 0; i < n; i++)
    if (keel_gradient_wants(g, i))
      keel_gradient_give_wide(g, i,
                              keel_emit_binary(g->all, "Mul", each, chosen[i]));
}

static void clip(keel_gradient *g) {
  if (keel_gradient_wants(g, 1) || keel_gradient_wants(g, 2))
    keel_gradient_refuse(g, "has no gradient in Keel for min and max");
  keel_gradient_text(g,
                     "a = $1 ? Where($0 >= $1, ^0, 0~^0) : ^0;"
                     "$0 = $2 ? Where($0 <= $2, a, 0~^0) : a");
}

/* ---- rows -------------------------------------------------------------------- */

/* b x^(b - 1), 0 where b is, and y log(x), where x is more than 0. */
#define POW                                             \
  "b = CastLike($1, $0);"                               \
  "$0 ~= ^0 * Where(b == 0, 0~$0, b * Pow($0, b - 1));" \
  "$1 ~= CastLike(^0 * %0 * Log(Where($0 > 0, $0, 1~$0)), $1)"

/* 0.5 (1 + t + x s), where t and s, its slope by x, are those of erf(x / sqrt(2)), or of its
 * approximation tanh(c x + 0.044715 c x x x) with c = sqrt(2 / pi) */
#define GELU                                                        \
  "xx = $0 * $0;"                                                   \
  "t = @approximate=tanh ? Tanh($0 * (xx * 0.035677408136300125"    \
  "                                   + 0.7978845608028654))"       \
  "                      : Erf($0 * 0.7071067811865476);"           \
  "s = @approximate=tanh ? (1 - t * t) * (xx * 0.10703222440890037" \
  "                                       + 0.7978845608028654)"    \
  "                      : Exp(xx * -0.5) * 0.7978845608028654;"    \
  "$0 = ^0 * ((t + 1 + $0 * s) * 0.5)"

static const keel_op_upgrade upgrades[] = {
    {"Add", 1, 7, keel_upgrade_broadcast},
    {"Sub", 1, 7, keel_upgrade_broadcast},
    {"Mul", 1, 7, keel_upgrade_broadcast},
    {"Div", 1, 7, keel_upgrade_broadcast},
    {"Pow", 1, 7, keel_upgrade_broadcast},
    {"And", 1, 7, keel_upgrade_broadcast},
    {"Or", 1, 7, keel_upgrade_broadcast},
    {"Xor", 1, 7, keel_upgrade_broadcast},
    {"Equal", 1, 7, keel_upgrade_broadcast},
    {"Greater", 1, 7, keel_upgrade_broadcast},
    {"Less", 1, 7, keel_upgrade_broadcast},
    {"PRelu", 1, 7, old_prelu},
    {"Clip", 1, 11, old_clip},
};

static const keel_op_rule rules[] = {
    {"Identity", .slopes = "$0 = ^0", .traits = KEEL_OP_MOVES},
    {"Neg", .slopes = "$0 = -^0"},
    {"Abs", .slopes = "$0 = ^0 * Sign($0)"},
    {"Exp", .slopes = "$0 = ^0 * %0"},
    {"Log", .slopes = "$0 = ^0 / $0"},
    {"Sqrt", .slopes = "$0 = ^0 * 0.5 / %0"},
    {"Reciprocal", .slopes = "$0 = ^0 * -(%0 * %0)"},
    {"Sin", .slopes = "$0 = ^0 * Cos($0)"},
    {"Cos", .slopes = "$0 = ^0 * -Sin($0)"},
    {"Tan", .slopes = "$0 = ^0 * (%0 * %0 + 1)"},
    {"Asin", .slopes = "$0 = ^0 / Sqrt(1 - $0 * $0)"},
    {"Acos", .slopes = "$0 = -^0 / Sqrt(1 - $0 * $0)"},
    {"Atan", .slopes = "$0 = ^0 / ($0 * $0 + 1)"},
    {"Sinh", .slopes = "$0 = ^0 * Cosh($0)"},
    {"Cosh", .slopes = "$0 = ^0 * Sinh($0)"},
    {"Tanh", .slopes = "$0 = ^0 * (1 - %0 * %0)"},
    {"Asinh", .slopes = "$0 = ^0 / Sqrt($0 * $0 + 1)"},
    {"Acosh", .slopes = "$0 = ^0 / Sqrt($0 * $0 - 1)"},
    {"Atanh", .slopes = "$0 = ^0 / (1 - $0 * $0)"},
    /* 2 / sqrt(pi) exp(-x x) */
    {"Erf", .slopes = "$0 = ^0 * (Exp(-($0 * $0)) * 1.1283791670955126)"},
    {"Relu", .slopes = "$0 = Where($0 > 0, ^0, 0~^0)"},
    {"LeakyRelu", .slopes = "$0 = Where($0 > 0, ^0, ^0 * @alpha)"},
    {"ThresholdedRelu", .slopes = "$0 = Where($0 > @alpha, ^0, 0~^0)"},
    {"Elu", .slopes = "$0 = Where($0 > 0, ^0, ^0 * (%0 + @alpha))"},
    {"Selu",
     .slopes = "$0 = Where($0 > 0, ^0 * @gamma, ^0 * (%0 + @alpha * @gamma))"},
    {"Celu", .slopes = "$0 = Where($0 > 0, ^0, ^0 * Exp($0 * (1 / @alpha)))"},
    {"Sigmoid", .slopes = "$0 = ^0 * (%0 * (1 - %0))"},
    {"HardSigmoid",
     .slopes = "$0 = Where(And(%0 > 0, %0 < 1), ^0 * @alpha, 0~^0)"},
    {"HardSwish",
     .slopes =
         "low = Where($0 > -3, ^0 * ($0 * 0.3333333333333333 + 0.5), 0~^0);"
         "$0 = Where($0 >= 3, ^0, low)"},
    {"Softplus", .slopes = "$0 = ^0 * Sigmoid($0)"},
    {"Softsign", .slopes = "size = Abs($0) + 1; $0 = ^0 / (size * size)"},
    /* s + a x s (1 - s), s the sigmoid of a x */
    {"Swish", .slopes = "ax = $0 * @alpha; s = Sigmoid(ax);"
                        "$0 = ^0 * (s + ax * (s * (1 - s)))"},
    /* t + x (1 - t t) sigmoid(x), t = tanh(softplus(x)) */
    {"Mish", .slopes = "t = Tanh(Softplus($0));"
                       "$0 = ^0 * (t + $0 * ((1 - t * t) * Sigmoid($0)))"},
    {"Gelu", .slopes = GELU},
    {"Cast", .slopes = "$0 = CastLike(^0, $0)",
     .traits = KEEL_OP_STRINGS | KEEL_OP_MOVES},
    {"CastLike", .slopes = "$0 = CastLike(^0, $0)", .traits = KEEL_OP_STRINGS},
    {"Floor", .slopes = ""},
    {"Ceil", .slopes = ""},
    {"Round", .slopes = ""},
    {"Sign", .slopes = ""},
    {"Add", .gradient = sum},
    {"Sum", .gradient = sum},
    {"Mean", .gradient = mean},
    {"Sub", .slopes = "$0 ~= ^0; $1 ~= -^0"},
    {"Mul", .slopes = "$0 ~= ^0 * $1; $1 ~= ^0 * $0",
     .traits = KEEL_OP_HANDS_ON},
    {"Div", .slopes = "first = ^0 / $1; $0 ~= first; $1 ~= -(first * %0)"},
    {"Pow", .slopes = POW},
    {"Max", .gradient = extreme},
    {"Min", .gradient = extreme},
    {"Where", .slopes = "$1 ~= Where($0, ^0, 0~^0); $2 ~= Where($0, 0~^0, ^0)",
     .traits = KEEL_OP_STRINGS},
    {"Clip", .gradient = clip},
    {"PRelu", .slopes = "$0 ~= Where($0 > 0, ^0, ^0 * $1);"
                        "$1 ~= Where($0 > 0, 0~^0, ^0 * $0)"},
    {"Equal", .traits = KEEL_OP_STRINGS},
};

const keel_op_table keel_ops_elementwise = {KEEL_TABLE_RULES(rules),
                                            KEEL_TABLE_UPGRADES(upgrades)};
