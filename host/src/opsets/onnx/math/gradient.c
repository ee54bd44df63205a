/* gradient.c - derivatives of ops that work on each element. Where an op has a corner, it is that of
 * PyTorch: 0 for Relu at 0, and what is the same on both sides is shared between equal operands of
 * Max and Min. */
#include "opsets/onnx/training/gradient_terms.h"
#include "opsets/tables.h"

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
    count = i ? add(g, count, chosen[i]) : chosen[i];
  }
  uint32_t each = keel_gradient_text(g, "^0 / %v", count);
  for (uint32_t i = 0; i < n; i++)
    if (keel_gradient_wants(g, i))
      keel_gradient_give_wide(g, i, mul(g, each, chosen[i]));
}

static void clip(keel_gradient *g) {
  if (keel_gradient_wants(g, 1) || keel_gradient_wants(g, 2))
    keel_gradient_refuse(g, "has no gradient in Keel for min and max");
  keel_gradient_text(g,
                     "a = $1 ? Where($0 >= $1, ^0, 0~^0) : ^0;"
                     "$0 = $2 ? Where($0 <= $2, a, 0~^0) : a");
}

/* y = x mask / (1 - ratio): what is kept is larger by that. */
static void dropout(keel_gradient *g) {
  if (!keel_node_is_random(g->all->function, &g->node)) {
    keel_gradient_text(g, "$0 = ^0");
    return;
  }
  if (keel_gradient_out(g, 1) == KEEL_ABSENT) {
    keel_gradient_refuse(g,
                         "needs its second output, the mask, to have a"
                         " gradient; give it a name");
    return;
  }
  keel_gradient_text(g,
                     "ratio = $1 ? CastLike($1, ^0) : 0.5~^0;"
                     "chance = Where($2, ratio, 0~^0);"
                     "$0 = ^0 / (1 - chance) * CastLike(%1, ^0)");
}

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

static const keel_op_rule rules[] = {
    {"Identity", .slopes = "$0 = ^0"},
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
    {"Cast", .slopes = "$0 = CastLike(^0, $0)"},
    {"CastLike", .slopes = "$0 = CastLike(^0, $0)"},
    {"Floor", .slopes = ""},
    {"Ceil", .slopes = ""},
    {"Round", .slopes = ""},
    {"Sign", .slopes = ""},
    {"RandomNormalLike", .slopes = ""},
    {"RandomUniformLike", .slopes = ""},
    {"Bernoulli", .slopes = ""},
    {"Add", .gradient = sum},
    {"Sum", .gradient = sum},
    {"Mean", .gradient = mean},
    {"Sub", .slopes = "$0 ~= ^0; $1 ~= -^0"},
    {"Mul", .slopes = "$0 ~= ^0 * $1; $1 ~= ^0 * $0"},
    {"Div", .slopes = "first = ^0 / $1; $0 ~= first; $1 ~= -(first * %0)"},
    {"Pow", .slopes = POW},
    {"Max", .gradient = extreme},
    {"Min", .gradient = extreme},
    {"Where", .slopes = "$1 ~= Where($0, ^0, 0~^0); $2 ~= Where($0, 0~^0, ^0)"},
    {"Clip", .gradient = clip},
    {"PRelu", .slopes = "$0 ~= Where($0 > 0, ^0, ^0 * $1);"
                        "$1 ~= Where($0 > 0, 0~^0, ^0 * $0)"},
    {"Dropout", .gradient = dropout},
};

const keel_op_table keel_ops_gradient_elementwise = {KEEL_TABLE_RULES(rules)};
