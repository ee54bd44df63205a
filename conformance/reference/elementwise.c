/* elementwise.c - ops that make each element of others at the same place.
 *
 * Limits are OpenCL's for the full profile (OpenCL-CTS, function_list.cpp), in
 * ulps of f32 and f64, and those of f16; bf16 is computed in f32 and rounded.
 * Composed ops add up the limits of their steps, and what cancellation makes of
 * them goes into the slack. */
#include <math.h>
#include <string.h>

#include "reference/reference.h"

/* ---- of one ------------------------------------------------------------------- */

typedef struct params {
  real a, b;
  bool flag;
  kd_dtype dtype;
} params;

/* name, limits in ulps of f32 and f64, and of f16, the range that its operand is tried in
 * ("": any), what it is of x */
#define UNARY_LIST(X)                                                        \
  X(Abs, 0, 0, "", fabsl(x))                                                 \
  X(Acos, 4, 2, "(-1,1)", acosl(x))                                          \
  X(Acosh, 4, 2, "(1,50)", acoshl(x))                                        \
  X(Asin, 4, 2, "(-1,1)", asinl(x))                                          \
  X(Asinh, 4, 2, "(-50,50)", asinhl(x))                                      \
  X(Atan, 5, 2, "(-20,20)", atanl(x))                                        \
  X(Atanh, 5, 2, "(-1,1)", atanhl(x))                                        \
  X(Ceil, 0, 0, "(-50,50)", ceill(x))                                        \
  X(Celu, 8, 8, "(-8,8)", x > 0 ? x : p->a * expm1l(x / p->a))               \
  X(Cos, 4, 2, "(-30,30)", cosl(x))                                          \
  X(Cosh, 4, 2, "(-8,8)", coshl(x))                                          \
  X(Elu, 4.5, 4, "(-8,8)", x > 0 ? x : p->a * expm1l(x))                     \
  X(Erf, 16, 4, "(-4,4)", erfl(x))                                           \
  X(Exp, 3, 2, "(-9,9)", expl(x))                                            \
  X(Floor, 0, 0, "(-50,50)", floorl(x))                                      \
  X(Gelu, 4, 4, "(-6,6)", gelu(x, p))                                        \
  X(HardSigmoid, 2, 2, "(-5,5)",                                             \
    isnan(x) ? x : fmaxl(0, fminl(1, p->a *x + p->b)))                       \
  X(HardSwish, 4, 4, "(-6,6)", x *fmaxl(0, fminl(1, x / 6 + 0.5L)))          \
  X(LeakyRelu, 0.5, 0.5, "(-9,9)", x < 0 ? p->a * x : x)                     \
  X(Log, 3, 2, "(0.001,60)", logl(x))                                        \
  X(Mish, 12, 8, "(-9,9)", x *tanhl(log1pl(expl(x))))                        \
  X(Neg, 0, 0, "", -x)                                                       \
  X(Reciprocal, 2.5, 1, "(-40,40)", 1 / x)                                   \
  X(Relu, 0, 0, "", isnan(x) ? x : x > 0 ? x : 0)                            \
  X(Round, 0, 0, "(-50,50)", rintl(x))                                       \
  X(Selu, 4.5, 4, "(-8,8)", p->b *(x > 0 ? x : p->a * expm1l(x)))            \
  X(Shrink, 0.5, 0.5, "(-3,3)", x<-p->b ? x + p->a : x> p->b ? x - p->a : 0) \
  X(Sigmoid, 6, 4, "(-12,12)", 1 / (1 + expl(-x)))                           \
  X(Sign, 0, 0, "", isnan(x) ? x : (real)((x > 0) - (x < 0)))                \
  X(Sin, 4, 2, "(-30,30)", sinl(x))                                          \
  X(Sinh, 4, 2, "(-8,8)", sinhl(x))                                          \
  X(Softplus, 6, 4, "(-20,20)", x > 60 ? x : log1pl(expl(x)))                \
  X(Softsign, 3, 2, "(-30,30)", x / (1 + fabsl(x)))                          \
  X(Sqrt, 3, 1.5, "(0,100)", sqrtl(x))                                       \
  X(Swish, 8, 6, "(-12,12)", x / (1 + expl(-p->a * x)))                      \
  X(Tan, 5, 2.5, "(-1.5,1.5)", tanl(x))                                      \
  X(Tanh, 5, 2, "(-6,6)", tanhl(x))                                          \
  X(ThresholdedRelu, 0, 0, "(-4,4)", x > p->a ? x : 0)

/* the same, of domain "keel" */
#define OWN_UNARY_LIST(X)             \
  X(Cbrt, 4, 2, "(-90,90)", cbrtl(x)) \
  X(Expm1, 3, 2, "(-9,9)", expm1l(x)) \
  X(Log1p, 2, 2, "(-0.99,60)", log1pl(x))

enum {
#define NAME(name, wide, half, range, expression) UNARY_##name,
  UNARY_LIST(NAME) OWN_UNARY_LIST(NAME)
#undef NAME
};

static real gelu(real x, const params *p) {
  if (x == -INFINITY) return 0;
  if (p->flag) {
    const real c = 0.797884560802865355879892119868763737L; /* sqrt(2 / pi) */
    return x / 2 * (1 + tanhl(c * (x + 0.044715L * x * x * x)));
  }
  return x / 2 * erfcl(-x * 0.707106781186547524400844362104849039L);
}

static real elementwise_unary(uint32_t which, real x, const params *p) {
  switch (which) {
#define CASE(name, wide, half, range, expression) \
  case UNARY_##name:                              \
    return expression;
    UNARY_LIST(CASE)
    OWN_UNARY_LIST(CASE)
#undef CASE
    default:
      return NAN;
  }
}

/* Limits in ulps, by type. */
static real limit(uint32_t which, kd_dtype dtype) {
  static const float limits[][2] = {
#define LIMIT(name, wide, half, range, expression) {wide, half},
      UNARY_LIST(LIMIT) OWN_UNARY_LIST(LIMIT)
#undef LIMIT
  };
  float wide = limits[which][0], half = limits[which][1];
  if (wide == 0) return 0;
  return dtype == KD_F16 ? half : dtype == KD_BF16 ? 1 : wide;
}

/* Absolute room, in unit roundoffs, where the steps cancel or where the error of
 * an argument grows: see the limits of composed ops. */
static real unary_slack(uint32_t which, real x, real y) {
  real most = fabsl(x) < 1 ? 1 : fabsl(x);
  switch (which) {
    case UNARY_Gelu: /* erfc and exp take the error of their argument times it */
      return isfinite(x) && y != 0 ? fabsl(y) * (8 + 2 * x * x * most) : 0;
    case UNARY_HardSigmoid:
      return 2 * (1 + fabsl(x) / 5);
    case UNARY_HardSwish:
      return isfinite(x) ? 2 * most : 0;
    case UNARY_Softplus:
    case UNARY_Sigmoid:
    case UNARY_Celu:
    case UNARY_Elu:
    case UNARY_Selu:
      return 4 * fabsl(y);
    case UNARY_Mish: /* and a subnormal on the way */
    case UNARY_Swish:
      return 8 * fabsl(y) + most * 0x1p-124L;
    case UNARY_Shrink:
      return 1;
    default:
      return 0;
  }
}

static real elementwise_wrap(real x, kd_dtype dtype) {
  return dtype_is_int(dtype) ? dtype_round(x, dtype) : x;
}

static bool run_unary(ref_call *call) {
  const value *in = ref_in(call, 0);
  value *out = ref_out(call, 0);
  uint32_t which = call->variant;
  params p = {.dtype = in->dtype};
  static const struct {
    uint32_t which;
    const char *a, *b;
    float default_a, default_b;
  } attributes[] = {
      {UNARY_Celu, "alpha", NULL, 1, 0},
      {UNARY_Elu, "alpha", NULL, 1, 0},
      {UNARY_HardSigmoid, "alpha", "beta", 0.2f, 0.5f},
      {UNARY_LeakyRelu, "alpha", NULL, 0.01f, 0},
      {UNARY_Selu, "alpha", "gamma", 1.67326319217681884765625f,
       1.05070102214813232421875f},
      {UNARY_Shrink, "bias", "lambd", 0, 0.5f},
      {UNARY_Swish, "alpha", NULL, 1, 0},
      {UNARY_ThresholdedRelu, "alpha", NULL, 1, 0},
  };
  for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
    if (attributes[i].which == which) {
      p.a = ref_float(call, attributes[i].a, attributes[i].default_a);
      if (attributes[i].b)
        p.b = ref_float(call, attributes[i].b, attributes[i].default_b);
    }
  if (which == UNARY_Gelu)
    p.flag = ref_text_is(call, "approximate", "none", "tanh");
  bool inexact = dtype_is_float(in->dtype) && limit(which, in->dtype) > 0;
  out->ulps = inexact ? limit(which, in->dtype) : 0;
  real *slack =
      inexact && unary_slack(which, 0.5L, 1) > 0 ? value_slack(out) : NULL;
  for (int64_t i = 0; i < in->count; i++) {
    real x = in->x[i];
    real y = elementwise_unary(which, x, &p);
    out->x[i] = elementwise_wrap(y, out->dtype);
    if (slack && isfinite(x) && isfinite(y))
      slack[i] = unary_slack(which, x, y);
    /* 0 in the limit, NaN by the steps: either will do */
    if (slack && x == -INFINITY &&
        (which == UNARY_Gelu || which == UNARY_Mish || which == UNARY_Swish))
      slack[i] = INFINITY;
  }
  return true;
}

/* ---- of two, broadcast ---------------------------------------------------------- */

/* name, the ranges that its operands are tried in; NULL: see `ref_operands_of` */
#define BINARY_LIST(X)                  \
  X(Add, "", "")                        \
  X(Sub, "", "")                        \
  X(Mul, "(-9,9)", "(-9,9)")            \
  X(Div, "(-90,90)", "(1,9)")           \
  X(Mod, NULL, NULL)                    \
  X(Pow, "(0.1,5)", "(-2,3)")           \
  X(PRelu, NULL, NULL)                  \
  X(And, "", "")                        \
  X(Or, "", "")                         \
  X(Xor, "", "")                        \
  X(BitwiseAnd, "", "")                 \
  X(BitwiseOr, "", "")                  \
  X(BitwiseXor, "", "")                 \
  X(BitShift, NULL, NULL)               \
  X(Equal, "(-3,3)", "(-3,3)")          \
  X(Greater, "(-3,3)", "(-3,3)")        \
  X(GreaterOrEqual, "(-3,3)", "(-3,3)") \
  X(Less, "(-3,3)", "(-3,3)")           \
  X(LessOrEqual, "(-3,3)", "(-3,3)")

/* the same, of domain "keel" */
#define OWN_BINARY_LIST(X) X(Atan2, "(-9,9)", "(-9,9)")

enum {
#define NAME(name, a, b) BINARY_##name,
  BINARY_LIST(NAME) OWN_BINARY_LIST(NAME)
#undef NAME
};

static uint64_t elementwise_bits_of(real x) {
  return x < 0 ? (uint64_t)0 - (uint64_t)-x : (uint64_t)x;
}

static real int_power(real base, real exponent, kd_dtype dtype) {
  uint64_t result = 1, x = elementwise_bits_of(base);
  if (exponent < 0 && base == -1) return fmodl(exponent, 2) == 0 ? 1 : -1;
  if (exponent < 0) return base == 1 ? 1 : 0;
  for (uint64_t n = (uint64_t)exponent; n; n >>= 1, x *= x)
    if (n & 1) result *= x;
  if (dtype == KD_I64) return (real)(int64_t)result;
  return dtype == KD_U64 ? (real)result : dtype_round((real)result, dtype);
}

static real from_bits(uint64_t bits, kd_dtype dtype) {
  if (dtype == KD_I64) return (real)(int64_t)bits;
  return dtype == KD_U64 ? (real)bits : dtype_round((real)bits, dtype);
}

/* By less than nothing and by all bits alike: the sign is what is left. */
static real shift(real a, real b, kd_dtype dtype, bool right) {
  if (b < 0 || b >= (real)kd_dtype_size(dtype) * 8)
    return right && a < 0 ? -1 : 0;
  if (right) return floorl(ldexpl(a, -(int)b));
  return from_bits(elementwise_bits_of(a) << (uint64_t)b, dtype);
}

/* With the divisor's sign, as a zero too. */
static real floored_mod(real a, real b) {
  real m = fmodl(a, b);
  if (m == 0) return copysignl(0, b);
  return (m < 0) != (b < 0) ? m + b : m;
}

static real integer(uint32_t which, real a, real b, kd_dtype dtype, bool flag) {
  switch (which) {
    case BINARY_Add: /* 64 bits wrap; a long double has no more */
      return from_bits(elementwise_bits_of(a) + elementwise_bits_of(b), dtype);
    case BINARY_Sub:
      return from_bits(elementwise_bits_of(a) - elementwise_bits_of(b), dtype);
    case BINARY_Mul:
      return from_bits(elementwise_bits_of(a) * elementwise_bits_of(b), dtype);
    case BINARY_Div:
      return b == 0 ? NAN : truncl(a / b); /* truncates, as C does */
    case BINARY_Mod: {
      if (b == 0) return NAN;
      real m = fmodl(a, b);
      return !flag && m != 0 && (m < 0) != (b < 0) ? m + b : m;
    }
    case BINARY_BitwiseAnd:
      return dtype_round(
          (real)(elementwise_bits_of(a) & elementwise_bits_of(b)), dtype);
    case BINARY_BitwiseOr:
      return dtype_round(
          (real)(elementwise_bits_of(a) | elementwise_bits_of(b)), dtype);
    case BINARY_BitwiseXor:
      return dtype_round(
          (real)(elementwise_bits_of(a) ^ elementwise_bits_of(b)), dtype);
    case BINARY_BitShift:
      return shift(a, b, dtype, flag);
    default:
      return NAN;
  }
}

static real binary(uint32_t which, real a, real b, kd_dtype dtype, bool flag) {
  bool whole = dtype_is_int(dtype);
  switch (which) {
    case BINARY_Add:
      return whole ? integer(which, a, b, dtype, flag) : a + b;
    case BINARY_Sub:
      return whole ? integer(which, a, b, dtype, flag) : a - b;
    case BINARY_PRelu:
      return a < 0 ? (whole ? integer(BINARY_Mul, a, b, dtype, flag) : a * b)
                   : a;
    case BINARY_Mul:
      return whole ? integer(which, a, b, dtype, flag) : a * b;
    case BINARY_Div:
      return whole ? integer(which, a, b, dtype, flag) : a / b;
    case BINARY_Mod:
      return whole  ? integer(which, a, b, dtype, flag)
             : flag ? fmodl(a, b)
                    : floored_mod(a, b);
    case BINARY_Pow:
      return powl(a, b);
    case BINARY_Atan2:
      return atan2l(a, b);
    case BINARY_And:
      return a != 0 && b != 0;
    case BINARY_Or:
      return a != 0 || b != 0;
    case BINARY_Xor:
      return (a != 0) != (b != 0);
    case BINARY_Equal:
      return a == b;
    case BINARY_Greater:
      return a > b;
    case BINARY_GreaterOrEqual:
      return a >= b;
    case BINARY_Less:
      return a < b;
    case BINARY_LessOrEqual:
      return a <= b;
    default:
      return integer(which, a, b, dtype, flag);
  }
}

static real binary_limit(uint32_t which, kd_dtype dtype) {
  bool half = dtype == KD_F16 || dtype == KD_BF16;
  switch (which) {
    case BINARY_Add:
    case BINARY_Sub:
    case BINARY_Mul:
    case BINARY_PRelu:
      return 0.5L;
    case BINARY_Div:
      return half ? 1 : 2.5L;
    case BINARY_Pow:
      return half ? 4 : 16;
    case BINARY_Atan2:
      return half ? 2 : 6;
    default:
      return 0;
  }
}

static bool run_binary(ref_call *call) {
  const value *a = ref_in(call, 0), *b = ref_in(call, 1);
  value *out = ref_out(call, 0);
  uint32_t which = call->variant;
  bool flag = which == BINARY_Mod ? ref_int(call, "fmod", 0) != 0
              : which == BINARY_BitShift
                  ? ref_text_is(call, "direction", "LEFT", "RIGHT")
                  : false;
  out->ulps = dtype_is_float(a->dtype) && dtype_is_float(out->dtype)
                  ? binary_limit(which, a->dtype)
                  : 0;
  for (int64_t i = 0; i < out->count; i++) {
    real x = a->x[broadcast_index(a, out, i)];
    real y = b->x[broadcast_index(b, out, i)];
    /* what a whole number leaves by division by zero is not defined */
    if (which == BINARY_Mod && dtype_is_int(a->dtype) && y == 0)
      value_slack(out)[i] = INFINITY;
    if (which == BINARY_Pow && dtype_is_int(a->dtype))
      out->x[i] = dtype_is_int(b->dtype) ? int_power(x, y, a->dtype)
                                         : truncl(powl(x, y));
    else
      out->x[i] = binary(which, x, y, a->dtype, flag);
  }
  return true;
}

/* ---- of any number ---------------------------------------------------------------- */

enum { MANY_MAX, MANY_MIN, MANY_SUM, MANY_MEAN };

static bool run_many(ref_call *call) {
  value *out = ref_out(call, 0);
  bool sums = call->variant >= MANY_SUM;
  if (sums) {
    value_slack(out);
    out->ulps = 1;
  }
  for (int64_t i = 0; i < out->count; i++) {
    ref_sum sum = {0};
    real best = 0;
    for (uint32_t k = 0; k < call->in_count; k++) {
      real x = call->in[k]->x[broadcast_index(call->in[k], out, i)];
      ref_add(&sum, x);
      if (k == 0 || isnan(x))
        best = x;
      else if (!isnan(best) && call->variant == MANY_MAX)
        best = x > best ? x : best;
      else if (!isnan(best))
        best = x < best ? x : best;
    }
    if (!sums)
      out->x[i] = best;
    else
      ref_put(out, i, &sum,
              call->variant == MANY_MEAN ? 1.0L / call->in_count : 1);
  }
  return true;
}

/* ---- others ----------------------------------------------------------------------- */

static bool run_not(ref_call *call) {
  for (int64_t i = 0; i < call->out[0]->count; i++)
    call->out[0]->x[i] = call->in[0]->x[i] == 0;
  return true;
}

static bool run_bitwise_not(ref_call *call) {
  for (int64_t i = 0; i < call->out[0]->count; i++)
    call->out[0]->x[i] =
        dtype_is_signed(call->in[0]->dtype)
            ? -call->in[0]->x[i] - 1
            : dtype_max(call->in[0]->dtype) - call->in[0]->x[i];
  return true;
}

static bool run_is_nan(ref_call *call) {
  for (int64_t i = 0; i < call->out[0]->count; i++)
    call->out[0]->x[i] = isnan(call->in[0]->x[i]);
  return true;
}

static bool run_is_inf(ref_call *call) {
  bool up = ref_int(call, "detect_positive", 1) != 0;
  bool down = ref_int(call, "detect_negative", 1) != 0;
  for (int64_t i = 0; i < call->out[0]->count; i++) {
    real x = call->in[0]->x[i];
    call->out[0]->x[i] = isinf(x) && (x > 0 ? up : down);
  }
  return true;
}

static bool run_clip(ref_call *call) {
  const value *low = ref_in(call, 1), *high = ref_in(call, 2);
  for (int64_t i = 0; i < call->out[0]->count; i++) {
    real x = call->in[0]->x[i];
    if (low && x < low->x[0]) x = low->x[0];
    if (high && x > high->x[0]) x = high->x[0];
    call->out[0]->x[i] = x;
  }
  return true;
}

static bool run_where(ref_call *call) {
  const value *c = ref_in(call, 0), *a = ref_in(call, 1), *b = ref_in(call, 2);
  value *out = call->out[0];
  for (int64_t i = 0; i < out->count; i++)
    out->x[i] = c->x[broadcast_index(c, out, i)] != 0
                    ? a->x[broadcast_index(a, out, i)]
                    : b->x[broadcast_index(b, out, i)];
  return true;
}

/* ONNX: floats to bool are true where not zero; to ints they are cut; out of
 * range is undefined, and not tested. */
/* From f64 to a narrow type by way of f32, as ONNX's reference does, rounds twice:
 * where that gives another number, both are right. */
static void allow_two_steps(value *out, int64_t i, real x) {
  real twice = dtype_round(dtype_round(x, KD_F32), out->dtype);
  if (isnan(x) || twice == out->x[i]) return;
  value_slack(out)[i] = fabsl(twice - out->x[i]) / dtype_unit(KD_F64);
}

static bool run_cast(ref_call *call) {
  const value *in = call->in[0];
  value *out = call->out[0];
  bool cuts = dtype_is_float(in->dtype) && dtype_is_int(out->dtype);
  bool no_nan = out->dtype == KD_F4E2M1;
  for (int64_t i = 0; i < out->count; i++) {
    real x = in->x[i];
    out->x[i] = dtype_round(x, out->dtype);
    if (in->dtype == KD_F64 && dtype_is_float(out->dtype))
      allow_two_steps(out, i, x);
    if (no_nan && isnan(x)) value_slack(out)[i] = INFINITY;
    if (cuts && !(truncl(x) >= dtype_min(out->dtype) &&
                  truncl(x) <= dtype_max(out->dtype)))
      value_slack(out)[i] = INFINITY;
  }
  return true;
}

#define UNARY(name, wide, half, range, expression)             \
  {NULL,         #name,     (wide) == 0 ? REF_EXACT : REF_ULP, \
   UNARY_##name, run_unary, false},
#define OWN_UNARY(name, wide, half, range, expression) \
  {"keel", #name, REF_ULP, UNARY_##name, run_unary, false},
#define OWN_BINARY(name, a, b) \
  {"keel", #name, REF_ULP, BINARY_##name, run_binary, false},
#define BINARY(name, a, b)                              \
  {NULL,                                                \
   #name,                                               \
   BINARY_##name <= BINARY_PRelu ? REF_ULP : REF_EXACT, \
   BINARY_##name,                                       \
   run_binary,                                          \
   false},

const ref_op ref_elementwise[] = {
    OWN_UNARY_LIST(OWN_UNARY)   /* */
    OWN_BINARY_LIST(OWN_BINARY) /* */
    UNARY_LIST(UNARY)
        BINARY_LIST(BINARY){NULL, "Max", REF_EXACT, MANY_MAX, run_many, false},
    {NULL, "Min", REF_EXACT, MANY_MIN, run_many, false},
    {NULL, "Sum", REF_SUM, MANY_SUM, run_many, false},
    {NULL, "Mean", REF_SUM, MANY_MEAN, run_many, false},
    {NULL, "Not", REF_EXACT, 0, run_not, false},
    {NULL, "BitwiseNot", REF_EXACT, 0, run_bitwise_not, false},
    {NULL, "IsNaN", REF_EXACT, 0, run_is_nan, false},
    {NULL, "IsInf", REF_EXACT, 0, run_is_inf, false},
    {NULL, "Clip", REF_EXACT, 0, run_clip, false},
    {NULL, "Where", REF_EXACT, 0, run_where, false},
    {NULL, "Cast", REF_EXACT, 0, run_cast, false},
    {NULL, "CastLike", REF_EXACT, 0, run_cast, false},
};
const uint32_t ref_elementwise_count =
    (uint32_t)(sizeof ref_elementwise / sizeof *ref_elementwise);

#define OF_ONE(name, wide, half, range, expression) {#name, "", range, NULL},
#define OF_TWO(name, a, b)                          {#name, "", a, b},
#define OWN_OF_ONE(name, wide, half, range, expression) \
  {"keel::" #name, "", range, NULL},
#define OWN_OF_TWO(name, a, b) {"keel::" #name, "", a, b},

const ref_operands ref_operands_of[] = {
    UNARY_LIST(OF_ONE)          /* */
    BINARY_LIST(OF_TWO)         /* */
    OWN_UNARY_LIST(OWN_OF_ONE)  /* */
    OWN_BINARY_LIST(OWN_OF_TWO) /* */
    {"Mod", "fmod=0", "(-90,90)", "(-9,9)"},
    {"Mod", "fmod=1", "(-90,90)", "(-9,9)"},
    {"BitShift", "direction=LEFT", "", "(-2,68)"},
    {"BitShift", "direction=RIGHT", "", "(-2,68)"},
    {"Max", "", "", ""},
    {"Min", "", "", ""},
    {"Sum", "", "(-9,9)", "(-9,9)"},
    {"Mean", "", "(-9,9)", "(-9,9)"},
    {"Not", "", "", NULL},
    {"BitwiseNot", "", "", NULL},
    {"IsNaN", "", "", NULL},
    {"IsInf", "", "", NULL},
};
const uint32_t ref_operands_count =
    (uint32_t)(sizeof ref_operands_of / sizeof *ref_operands_of);
