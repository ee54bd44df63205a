/* patterns_test.c - what models write Gelu, HardSwish and norms with becomes these, and gives
 * the same results; what only looks alike stays. */
#define WORKERS 0
#include "pass.h"
#include "with_cpu.h"

enum { ROWS = 5, LINE = 24 };

static keel_builder *builder;
static keel_value x; /* [ROWS, LINE] */

static keel_value constant(uint32_t rank, const int64_t *dims,
                           const float *list) {
  return add_constant(builder, KD_F32, rank, dims, list);
}

static keel_value number(double of) {
  const float rounded = (float)of;
  return constant(0, NULL, &rounded);
}

static keel_value line(float from) {
  const int64_t dims[] = {LINE};
  float list[LINE];
  for (int i = 0; i < LINE; i++)
    list[i] = from + (float)(i % 7) / 8;
  return constant(1, dims, list);
}

static keel_value one(const char *op, keel_value a) {
  return keel_builder_op(builder, op, NULL, 0, &a, 1);
}

static keel_value two(const char *op, keel_value a, keel_value b) {
  return keel_builder_op(builder, op, NULL, 0, (keel_value[]){a, b}, 2);
}

static keel_value mean(keel_value of) {
  const int64_t one_dim[] = {1}, axis[] = {-1};
  keel_value axes = add_constant(builder, KD_I64, 1, one_dim, axis);
  return two("ReduceMean", of, axes);
}

/* ---- the forms ---------------------------------------------------------------------- */

static keel_value erf_of(double root) {
  return two("Add", one("Erf", two("Div", x, number(root))), number(1));
}

static keel_value gelu_half_last(void) {
  return two("Mul", two("Mul", x, erf_of(1.4142135)), number(0.5));
}

static keel_value gelu_half_first(void) {
  return two("Mul", erf_of(1.4142135), two("Mul", number(0.5), x));
}

static keel_value gelu_times_root(void) {
  keel_value erf = one("Erf", two("Mul", x, number(0.70710678)));
  return two("Div", two("Mul", two("Add", number(1), erf), x), number(2));
}

static keel_value tanh_of(keel_value of) {
  return two("Add", number(1), one("Tanh", of));
}

static keel_value gelu_tanh(void) {
  keel_value cube = two("Mul", two("Pow", x, number(3)), number(0.044715));
  keel_value inner = two("Mul", two("Add", x, cube), number(0.7978845608));
  return two("Mul", two("Mul", number(0.5), x), tanh_of(inner));
}

static keel_value gelu_tanh_by_products(void) {
  keel_value cube = two("Mul", two("Mul", x, x), x);
  keel_value sum = two("Add", two("Mul", number(0.044715), cube), x);
  return two("Mul", two("Mul", x, tanh_of(two("Mul", number(0.7978846), sum))),
             number(0.5));
}

static keel_value gelu_tanh_factored(void) {
  keel_value square = two("Mul", two("Mul", x, x), number(0.044715));
  keel_value sum = two("Add", number(1), square);
  keel_value inner = two("Mul", two("Mul", x, number(0.7978846)), sum);
  return two("Mul", two("Mul", number(0.5), x), tanh_of(inner));
}

static keel_value no_gelu_other_root(void) {
  return two("Mul", two("Mul", x, erf_of(1.5)), number(0.5));
}

static keel_value no_gelu_read_twice(void) {
  keel_value sum = erf_of(1.4142135);
  return two("Add", two("Mul", two("Mul", x, sum), number(0.5)), sum);
}

static keel_value clipped(double most) {
  keel_value three[] = {two("Add", x, number(3)), number(0), number(most)};
  return keel_builder_op(builder, "Clip", NULL, 0, three, 3);
}

static keel_value hard_swish(void) {
  return two("Div", two("Mul", x, clipped(6)), number(6));
}

static keel_value hard_swish_by_gate(void) {
  const keel_attr alpha = KEEL_FLOAT("alpha", 1.0f / 6);
  return two("Mul", x,
             keel_builder_op(builder, "HardSigmoid", &alpha, 1, &x, 1));
}

static keel_value no_hard_swish(void) {
  return two("Div", two("Mul", x, clipped(5)), number(6));
}

static keel_value length(keel_value of, double epsilon) {
  return one("Sqrt",
             two("Add", mean(two("Pow", of, number(2))), number(epsilon)));
}

static keel_value layer_norm(void) {
  keel_value centred = two("Sub", x, mean(x));
  keel_value scaled = two("Div", centred, length(centred, 1e-5));
  return two("Add", two("Mul", scaled, line(0.5f)), line(-1));
}

static keel_value layer_norm_no_shift(void) {
  keel_value centred = two("Sub", x, mean(x));
  keel_value inverse = one("Reciprocal", length(centred, 1e-3));
  return two("Mul", line(0.5f), two("Mul", centred, inverse));
}

static keel_value rms_norm(void) {
  keel_value inverse = two("Div", number(1), length(x, 1e-6));
  return two("Mul", line(0.25f), two("Mul", x, inverse));
}

static keel_value no_rms_norm_of_another(void) {
  return two("Mul", line(0.25f), two("Div", x, length(one("Abs", x), 0.1)));
}

static keel_value twice_an_rms_norm(void) {
  return two("Mul", number(2),
             two("Mul", line(0.25f), two("Div", x, length(x, 0.1))));
}

/* ---- runs ------------------------------------------------------------------------------ */

static void check(const char *name, keel_value (*form)(void),
                  const char *wanted) {
  static const char *const made[] = {"Gelu", "HardSwish", "LayerNormalization",
                                     "RMSNormalization"};
  const int64_t dims[] = {ROWS, LINE};
  trial t = TRIAL(2e-6, .pass = {"patterns"}, .in = {numbers(2, dims, 0)},
                  .wanted = wanted);
  uint32_t any = 0;
  builder = create_builder(context, "model");
  x = keel_builder_input(builder, "x", KD_F32, 2, dims);
  keel_builder_output(builder, "y", form());
  keel_plan *plan = compare_pass(name, 0, finish_program(builder), &t, NULL);
  for (size_t i = 0; i < sizeof made / sizeof *made; i++)
    any += runs_of(plan, made[i]);
  if (wanted && !t.found) fail_msg("%s: no %s", name, wanted);
  if (!wanted && any) fail_msg("%s became something else", name);
  keel_plan_release(plan);
}

#define CHECK(form, wanted) check(#form, form, wanted)

TEST_THAT(patterns_become_ops) {
  CHECK(gelu_half_last, "approximate = \"none\"");
  CHECK(gelu_half_first, "onnx.Gelu");
  CHECK(gelu_times_root, "onnx.Gelu");
  CHECK(gelu_tanh, "approximate = \"tanh\"");
  CHECK(gelu_tanh_by_products, "approximate = \"tanh\"");
  CHECK(gelu_tanh_factored, "approximate = \"tanh\"");
  CHECK(hard_swish, "onnx.HardSwish");
  CHECK(hard_swish_by_gate, "onnx.HardSwish");
  CHECK(layer_norm, "onnx.LayerNormalization");
  CHECK(layer_norm_no_shift, "onnx.LayerNormalization");
  CHECK(rms_norm, "onnx.RMSNormalization");
}

TEST_THAT(what_looks_alike_stays) {
  CHECK(no_gelu_other_root, NULL);
  CHECK(no_gelu_read_twice, NULL);
  CHECK(no_hard_swish, NULL);
  CHECK(no_rms_norm_of_another, NULL);
}

/* a norm inside of a longer product is one all the same */
TEST_THAT(parts_of_products_become_ops) {
  CHECK(twice_an_rms_norm, "onnx.RMSNormalization");
}

RUN_TESTS(open_cpu, close_context)
