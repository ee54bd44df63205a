/* gradient.c - derivatives of ops that work on each element. Where an op has a corner,
 * it is that of PyTorch: 0 for Relu at 0, what is the same on both sides shared between equal
 * operands of Max and Min. */
#include "opsets/onnx/training/gradient_terms.h"
#include "opsets/tables.h"

static uint32_t math_gradient_x_of(const keel_gradient *g) {
  return keel_gradient_in(g, 0);
}
static uint32_t y_of(const keel_gradient *g) {
  return keel_gradient_out(g, 0);
}
static uint32_t math_gradient_got_of(const keel_gradient *g) {
  return keel_gradient_got(g, 0);
}

/* x's gradient is y's by `slope`. */
static void by(keel_gradient *g, uint32_t slope) {
  keel_gradient_give(g, 0, mul(g, math_gradient_got_of(g), slope));
}

/* It is one where the condition holds, and another where not. */
static void either(keel_gradient *g, uint32_t condition, uint32_t yes,
                   uint32_t no) {
  keel_gradient_give(g, 0, keel_emit_where(g->all, condition, yes, no));
}

static uint32_t zero(keel_gradient *g) {
  return keel_gradient_zero(g, math_gradient_got_of(g));
}

static double gradient_number(const keel_gradient *g, const char *name,
                              double otherwise) {
  return (double)keel_attr_float(g->node.op, name, (float)otherwise);
}

static uint32_t square(keel_gradient *g, uint32_t x) {
  return mul(g, x, x);
}

/* 1 - x */
static uint32_t rest(keel_gradient *g, uint32_t x) {
  return plus(g, of(g, "Neg", x), 1);
}

/* ---- one operand -------------------------------------------------------------------------- */

static void nothing(keel_gradient *g) {
  (void)g;
}
static void same(keel_gradient *g) {
  keel_gradient_give(g, 0, math_gradient_got_of(g));
}
static void neg(keel_gradient *g) {
  keel_gradient_give(g, 0, of(g, "Neg", math_gradient_got_of(g)));
}
static void absolute(keel_gradient *g) {
  by(g, of(g, "Sign", math_gradient_x_of(g)));
}
static void exponent(keel_gradient *g) {
  by(g, y_of(g));
}
static void logarithm(keel_gradient *g) {
  keel_gradient_give(g, 0,
                     over(g, math_gradient_got_of(g), math_gradient_x_of(g)));
}
static void root(keel_gradient *g) {
  keel_gradient_give(g, 0,
                     over(g, scaled(g, math_gradient_got_of(g), 0.5), y_of(g)));
}
static void reciprocal(keel_gradient *g) {
  by(g, of(g, "Neg", square(g, y_of(g))));
}
static void sine(keel_gradient *g) {
  by(g, of(g, "Cos", math_gradient_x_of(g)));
}
static void cosine(keel_gradient *g) {
  by(g, of(g, "Neg", of(g, "Sin", math_gradient_x_of(g))));
}
static void tangent(keel_gradient *g) {
  by(g, plus(g, square(g, y_of(g)), 1));
}
static void sinh_of(keel_gradient *g) {
  by(g, of(g, "Cosh", math_gradient_x_of(g)));
}
static void cosh_of(keel_gradient *g) {
  by(g, of(g, "Sinh", math_gradient_x_of(g)));
}
static void tanh_of(keel_gradient *g) {
  by(g, rest(g, square(g, y_of(g))));
}

/* got / sqrt(value) */
static void by_root_of(keel_gradient *g, uint32_t value, double factor) {
  keel_gradient_give(g, 0,
                     over(g, scaled(g, math_gradient_got_of(g), factor),
                          of(g, "Sqrt", value)));
}

static void asin_of(keel_gradient *g) {
  by_root_of(g, rest(g, square(g, math_gradient_x_of(g))), 1);
}
static void acos_of(keel_gradient *g) {
  by_root_of(g, rest(g, square(g, math_gradient_x_of(g))), -1);
}
static void asinh_of(keel_gradient *g) {
  by_root_of(g, plus(g, square(g, math_gradient_x_of(g)), 1), 1);
}
static void acosh_of(keel_gradient *g) {
  by_root_of(g, plus(g, square(g, math_gradient_x_of(g)), -1), 1);
}
static void atan_of(keel_gradient *g) {
  keel_gradient_give(g, 0,
                     over(g, math_gradient_got_of(g),
                          plus(g, square(g, math_gradient_x_of(g)), 1)));
}
static void atanh_of(keel_gradient *g) {
  keel_gradient_give(g, 0,
                     over(g, math_gradient_got_of(g),
                          rest(g, square(g, math_gradient_x_of(g)))));
}

/* 2 / sqrt(pi) exp(-x x) */
static void erf_of(keel_gradient *g) {
  uint32_t bell = of(g, "Exp", of(g, "Neg", square(g, math_gradient_x_of(g))));
  by(g, scaled(g, bell, 1.1283791670955126));
}

/* ---- activations ---------------------------------------------------------------------------- */

static void relu(keel_gradient *g) {
  either(g, compared(g, "Greater", math_gradient_x_of(g), 0),
         math_gradient_got_of(g), zero(g));
}

static void leaky_relu(keel_gradient *g) {
  either(g, compared(g, "Greater", math_gradient_x_of(g), 0),
         math_gradient_got_of(g),
         scaled(g, math_gradient_got_of(g), gradient_number(g, "alpha", 0.01)));
}

static void thresholded_relu(keel_gradient *g) {
  either(g,
         compared(g, "Greater", math_gradient_x_of(g),
                  gradient_number(g, "alpha", 1)),
         math_gradient_got_of(g), zero(g));
}

static void elu(keel_gradient *g) {
  uint32_t low = plus(g, y_of(g), gradient_number(g, "alpha", 1));
  either(g, compared(g, "Greater", math_gradient_x_of(g), 0),
         math_gradient_got_of(g), mul(g, math_gradient_got_of(g), low));
}

static void selu(keel_gradient *g) {
  double gamma = gradient_number(g, "gamma", 1.0507009873554805);
  double alpha = gradient_number(g, "alpha", 1.6732632423543772);
  either(g, compared(g, "Greater", math_gradient_x_of(g), 0),
         scaled(g, math_gradient_got_of(g), gamma),
         mul(g, math_gradient_got_of(g), plus(g, y_of(g), alpha * gamma)));
}

static void celu(keel_gradient *g) {
  double alpha = gradient_number(g, "alpha", 1);
  uint32_t low = of(g, "Exp", scaled(g, math_gradient_x_of(g), 1 / alpha));
  either(g, compared(g, "Greater", math_gradient_x_of(g), 0),
         math_gradient_got_of(g), mul(g, math_gradient_got_of(g), low));
}

static void sigmoid(keel_gradient *g) {
  by(g, mul(g, y_of(g), rest(g, y_of(g))));
}

static void hard_sigmoid(keel_gradient *g) {
  uint32_t inside = two(g, "And", compared(g, "Greater", y_of(g), 0),
                        compared(g, "Less", y_of(g), 1));
  either(g, inside,
         scaled(g, math_gradient_got_of(g), gradient_number(g, "alpha", 0.2)),
         zero(g));
}

static void hard_swish(keel_gradient *g) {
  uint32_t middle =
      mul(g, math_gradient_got_of(g),
          plus(g, scaled(g, math_gradient_x_of(g), 1.0 / 3), 0.5));
  uint32_t low =
      keel_emit_where(g->all, compared(g, "Greater", math_gradient_x_of(g), -3),
                      middle, zero(g));
  either(g, compared(g, "GreaterOrEqual", math_gradient_x_of(g), 3),
         math_gradient_got_of(g), low);
}

static void softplus(keel_gradient *g) {
  by(g, of(g, "Sigmoid", math_gradient_x_of(g)));
}

static void softsign(keel_gradient *g) {
  uint32_t size = plus(g, of(g, "Abs", math_gradient_x_of(g)), 1);
  keel_gradient_give(g, 0, over(g, math_gradient_got_of(g), square(g, size)));
}

/* s + a x s (1 - s), s the sigmoid of a x */
static void swish(keel_gradient *g) {
  uint32_t inner =
      scaled(g, math_gradient_x_of(g), gradient_number(g, "alpha", 1));
  uint32_t s = of(g, "Sigmoid", inner);
  by(g, add(g, s, mul(g, inner, mul(g, s, rest(g, s)))));
}

/* t + x (1 - t t) sigmoid(x), t = tanh(softplus(x)) */
static void mish(keel_gradient *g) {
  uint32_t x = math_gradient_x_of(g), t = of(g, "Tanh", of(g, "Softplus", x));
  uint32_t slope = mul(g, rest(g, square(g, t)), of(g, "Sigmoid", x));
  by(g, add(g, t, mul(g, x, slope)));
}

/* 0.5 (1 + t) + 0.5 x (1 - t t) inner', t = tanh(inner) */
static void gelu_by_tanh(keel_gradient *g) {
  const double c = 0.7978845608028654;
  uint32_t x = math_gradient_x_of(g), squared = square(g, x);
  uint32_t inner = mul(g, x, plus(g, scaled(g, squared, 0.044715 * c), c));
  uint32_t slope = plus(g, scaled(g, squared, 3 * 0.044715 * c), c);
  uint32_t t = of(g, "Tanh", inner);
  uint32_t low = mul(g, mul(g, x, rest(g, square(g, t))), slope);
  by(g, scaled(g, add(g, plus(g, t, 1), low), 0.5));
}

static void gelu(keel_gradient *g) {
  uint32_t x = math_gradient_x_of(g);
  if (strcmp(keel_attr_string(g->node.op, "approximate", "none"), "none") !=
      0) {
    gelu_by_tanh(g);
    return;
  }
  uint32_t share = plus(g, of(g, "Erf", scaled(g, x, 0.7071067811865476)), 1);
  uint32_t bell = of(g, "Exp", scaled(g, square(g, x), -0.5));
  by(g, add(g, scaled(g, share, 0.5),
            scaled(g, mul(g, x, bell), 0.3989422804014327)));
}

static void cast(keel_gradient *g) {
  keel_gradient_give(
      g, 0, two(g, "CastLike", math_gradient_got_of(g), math_gradient_x_of(g)));
}

/* ---- several operands, broadcast -------------------------------------------------------------- */

static void sum(keel_gradient *g) {
  for (uint32_t i = 0; i < g->node.input_count; i++)
    keel_gradient_give_wide(g, i, math_gradient_got_of(g));
}

static void mean(keel_gradient *g) {
  uint32_t each = scaled(g, math_gradient_got_of(g), 1.0 / g->node.input_count);
  for (uint32_t i = 0; i < g->node.input_count; i++)
    keel_gradient_give_wide(g, i, each);
}

static void difference(keel_gradient *g) {
  keel_gradient_give_wide(g, 0, math_gradient_got_of(g));
  if (keel_gradient_wants(g, 1))
    keel_gradient_give_wide(g, 1, of(g, "Neg", math_gradient_got_of(g)));
}

static void gradient_product(keel_gradient *g) {
  for (uint32_t i = 0; i < 2; i++)
    if (keel_gradient_wants(g, i))
      keel_gradient_give_wide(
          g, i, mul(g, math_gradient_got_of(g), keel_gradient_in(g, 1 - i)));
}

static void quotient(keel_gradient *g) {
  uint32_t b = keel_gradient_in(g, 1),
           first = over(g, math_gradient_got_of(g), b);
  keel_gradient_give_wide(g, 0, first);
  if (keel_gradient_wants(g, 1))
    keel_gradient_give_wide(g, 1, of(g, "Neg", mul(g, first, y_of(g))));
}

/* b x^(b - 1), 0 where b is, and y log(x), where x is more than 0. */
static void power(keel_gradient *g) {
  uint32_t x = math_gradient_x_of(g), b = keel_gradient_in(g, 1);
  uint32_t exponents = two(g, "CastLike", b, x);
  if (keel_gradient_wants(g, 0)) {
    uint32_t slope =
        mul(g, exponents, two(g, "Pow", x, plus(g, exponents, -1)));
    uint32_t flat = compared(g, "Equal", exponents, 0);
    slope = keel_emit_where(g->all, flat, keel_gradient_zero(g, x), slope);
    keel_gradient_give_wide(g, 0, mul(g, math_gradient_got_of(g), slope));
  }
  if (!keel_gradient_wants(g, 1)) return;
  uint32_t positive = compared(g, "Greater", x, 0);
  uint32_t safe =
      keel_emit_where(g->all, positive, x, keel_emit_number(g->all, 1, x));
  uint32_t slope =
      mul(g, mul(g, math_gradient_got_of(g), y_of(g)), of(g, "Log", safe));
  keel_gradient_give_wide(g, 1, two(g, "CastLike", slope, b));
}

/* Shared by those that are as large as the result. */
static void extreme(keel_gradient *g) {
  uint32_t y = y_of(g), count = KEEL_ABSENT;
  uint32_t n = g->node.input_count;
  uint32_t *chosen = keel_arena_take(g->all->function->arena,
                                     (n + (size_t)1) * sizeof *chosen);
  if (!chosen) {
    g->all->status = KD_OUT_OF_MEMORY;
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t equal = two(g, "Equal", keel_gradient_in(g, i), y);
    chosen[i] = two(g, "CastLike", equal, y);
    count = i ? add(g, count, chosen[i]) : chosen[i];
  }
  uint32_t each = over(g, math_gradient_got_of(g), count);
  for (uint32_t i = 0; i < n; i++)
    if (keel_gradient_wants(g, i))
      keel_gradient_give_wide(g, i, mul(g, each, chosen[i]));
}

static void where(keel_gradient *g) {
  uint32_t condition = keel_gradient_in(g, 0), got = math_gradient_got_of(g);
  if (keel_gradient_wants(g, 1))
    keel_gradient_give_wide(g, 1,
                            keel_emit_where(g->all, condition, got, zero(g)));
  if (keel_gradient_wants(g, 2))
    keel_gradient_give_wide(g, 2,
                            keel_emit_where(g->all, condition, zero(g), got));
}

static void clip(keel_gradient *g) {
  uint32_t x = math_gradient_x_of(g), result = math_gradient_got_of(g);
  static const char *const inside[] = {"", "GreaterOrEqual", "LessOrEqual"};
  if (keel_gradient_wants(g, 1) || keel_gradient_wants(g, 2))
    keel_gradient_refuse(g, "has no gradient in Keel for min and max");
  for (uint32_t i = 1; i < 3; i++)
    if (keel_gradient_in(g, i) != KEEL_ABSENT)
      result =
          keel_emit_where(g->all, two(g, inside[i], x, keel_gradient_in(g, i)),
                          result, zero(g));
  keel_gradient_give(g, 0, result);
}

static void prelu(keel_gradient *g) {
  uint32_t x = math_gradient_x_of(g), positive = compared(g, "Greater", x, 0);
  uint32_t low = mul(g, math_gradient_got_of(g), keel_gradient_in(g, 1));
  if (keel_gradient_wants(g, 0))
    keel_gradient_give_wide(
        g, 0, keel_emit_where(g->all, positive, math_gradient_got_of(g), low));
  if (keel_gradient_wants(g, 1))
    keel_gradient_give_wide(
        g, 1,
        keel_emit_where(g->all, positive, zero(g),
                        mul(g, math_gradient_got_of(g), x)));
}

/* y = x mask / (1 - ratio): what is kept is larger by that. */
static void dropout(keel_gradient *g) {
  uint32_t mask = keel_gradient_out(g, 1), ratio = keel_gradient_in(g, 1);
  if (!keel_node_is_random(g->all->function, &g->node)) {
    same(g);
    return;
  }
  if (mask == KEEL_ABSENT) {
    keel_gradient_refuse(g,
                         "needs its second output, the mask, to have a"
                         " gradient; give it a name");
    return;
  }
  uint32_t got = math_gradient_got_of(g),
           one = keel_emit_number(g->all, 1, got);
  uint32_t chance = ratio == KEEL_ABSENT ? keel_emit_number(g->all, 0.5, got)
                                         : two(g, "CastLike", ratio, got);
  uint32_t training = keel_gradient_in(g, 2);
  chance =
      keel_emit_where(g->all, training, chance, keel_gradient_zero(g, got));
  uint32_t larger = over(g, got, sub(g, one, chance));
  keel_gradient_give(g, 0, mul(g, larger, two(g, "CastLike", mask, got)));
}

static const keel_op_rule rules[] = {
    {"Identity", .gradient = same},
    {"Neg", .gradient = neg},
    {"Abs", .gradient = absolute},
    {"Exp", .gradient = exponent},
    {"Log", .gradient = logarithm},
    {"Sqrt", .gradient = root},
    {"Reciprocal", .gradient = reciprocal},
    {"Sin", .gradient = sine},
    {"Cos", .gradient = cosine},
    {"Tan", .gradient = tangent},
    {"Asin", .gradient = asin_of},
    {"Acos", .gradient = acos_of},
    {"Atan", .gradient = atan_of},
    {"Sinh", .gradient = sinh_of},
    {"Cosh", .gradient = cosh_of},
    {"Tanh", .gradient = tanh_of},
    {"Asinh", .gradient = asinh_of},
    {"Acosh", .gradient = acosh_of},
    {"Atanh", .gradient = atanh_of},
    {"Erf", .gradient = erf_of},
    {"Relu", .gradient = relu},
    {"LeakyRelu", .gradient = leaky_relu},
    {"ThresholdedRelu", .gradient = thresholded_relu},
    {"Elu", .gradient = elu},
    {"Selu", .gradient = selu},
    {"Celu", .gradient = celu},
    {"Sigmoid", .gradient = sigmoid},
    {"HardSigmoid", .gradient = hard_sigmoid},
    {"HardSwish", .gradient = hard_swish},
    {"Softplus", .gradient = softplus},
    {"Softsign", .gradient = softsign},
    {"Swish", .gradient = swish},
    {"Mish", .gradient = mish},
    {"Gelu", .gradient = gelu},
    {"Cast", .gradient = cast},
    {"CastLike", .gradient = cast},
    {"Floor", .gradient = nothing},
    {"Ceil", .gradient = nothing},
    {"Round", .gradient = nothing},
    {"Sign", .gradient = nothing},
    {"RandomNormalLike", .gradient = nothing},
    {"RandomUniformLike", .gradient = nothing},
    {"Bernoulli", .gradient = nothing},
    {"Add", .gradient = sum},
    {"Sum", .gradient = sum},
    {"Mean", .gradient = mean},
    {"Sub", .gradient = difference},
    {"Mul", .gradient = gradient_product},
    {"Div", .gradient = quotient},
    {"Pow", .gradient = power},
    {"Max", .gradient = extreme},
    {"Min", .gradient = extreme},
    {"Where", .gradient = where},
    {"Clip", .gradient = clip},
    {"PRelu", .gradient = prelu},
    {"Dropout", .gradient = dropout},
};

const keel_op_table keel_ops_gradient_elementwise = {KEEL_TABLE_RULES(rules)};
