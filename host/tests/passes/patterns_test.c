/* patterns_test.c - what models write Gelu, HardSwish and norms with becomes these, and gives
 * the same results; what only looks alike stays. */
#include <math.h>

#define WORKERS 0
#include "with_cpu.h"

enum { ROWS = 5, LINE = 24, COUNT = ROWS * LINE };

static keel_builder *builder;
static keel_value x; /* [ROWS, LINE] */

static keel_value constant(uint32_t rank, const int64_t *dims,
                           const float *list) {
  return constant_of(builder, create_tensor(context, KD_F32, rank, dims, list));
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
  keel_value axes =
      constant_of(builder, create_tensor(context, KD_I64, 1, one_dim, axis));
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

typedef struct search {
  const char *wanted;
  bool found, any;
} search;

static void look(void *context_of, const char *pass, const char *text) {
  static const char *const made[] = {"onnx.Gelu", "onnx.HardSwish",
                                     "onnx.LayerNormalization",
                                     "onnx.RMSNormalization"};
  search *s = context_of;
  (void)pass;
  for (size_t i = 0; i < sizeof made / sizeof *made; i++)
    s->any |= strstr(text, made[i]) != NULL;
  s->found |= s->wanted && strstr(text, s->wanted);
}

static void run(keel_program *program, const char *skip, search *s,
                float *out) {
  const int64_t dims[] = {ROWS, LINE};
  float list[COUNT];
  keel_tensor *y = NULL;
  keel_plan_params params = {
      .struct_size = sizeof params, .skip = &skip, .skip_count = skip != NULL};
  if (s) {
    params.on_pass = look;
    params.on_pass_context = s;
    params.on_pass_name = "patterns";
  }
  for (int i = 0; i < COUNT; i++)
    list[i] = ((float)(i * 37 % COUNT) - 60) / 12;
  keel_tensor *in = create_tensor(context, KD_F32, 2, dims, list);
  keel_plan *plan = create_plan(program, &params);
  expect_ok(keel_plan_run(plan, &in, 1, &y, 1));
  assert_int_equal(keel_tensor_read(y, out, COUNT * sizeof *out), KD_OK);
  keel_tensor_release(in);
  keel_tensor_release(y);
  keel_plan_release(plan);
}

static void check(const char *name, keel_value (*form)(void),
                  const char *wanted) {
  const int64_t dims[] = {ROWS, LINE};
  float want[COUNT], got[COUNT];
  search s = {.wanted = wanted};
  builder = create_builder(context, "model");
  x = keel_builder_input(builder, "x", KD_F32, 2, dims);
  keel_builder_output(builder, "y", form());
  keel_program *program = finish_program(builder);

  run(program, "patterns", NULL, want);
  run(program, NULL, &s, got);

  if (wanted && !s.found) fail_msg("%s: no %s", name, wanted);
  if (!wanted && s.any) fail_msg("%s became something else", name);
  for (int i = 0; i < COUNT; i++)
    if (!(fabsf(got[i] - want[i]) <= 2e-6f * (1 + fabsf(want[i]))))
      fail_msg("%s: element %d is %g, not %g", name, i, (double)got[i],
               (double)want[i]);
  keel_program_release(program);
}

#define CHECK(form, wanted) check(#form, form, wanted)

static void patterns_become_ops(void **state) {
  (void)state;
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

static void what_looks_alike_stays(void **state) {
  (void)state;
  CHECK(no_gelu_other_root, NULL);
  CHECK(no_gelu_read_twice, NULL);
  CHECK(no_hard_swish, NULL);
  CHECK(no_rms_norm_of_another, NULL);
}

/* a norm inside of a longer product is one all the same */
static void parts_of_products_become_ops(void **state) {
  (void)state;
  CHECK(twice_an_rms_norm, "onnx.RMSNormalization");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(patterns_become_ops),
      cmocka_unit_test(what_looks_alike_stays),
      cmocka_unit_test(parts_of_products_become_ops),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_context);
}
