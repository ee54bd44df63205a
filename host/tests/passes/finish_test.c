/* finish_test.c - a bias, a sum and an activation behind a product by weights go into it, and
 * give the same results. */
#include <math.h>

#define WORKERS 1
#include "with_cpu.h"

enum { DEEP = 40, MOST = 200 * 300 };

/* A product of rows x DEEP by weights, and what follows it. */
typedef struct form {
  const char *wanted; /* in the dump; NULL: it stays as it is */
  int64_t rows, columns;
  bool bias, sum, kept; /* kept: the product is an output, too */
  const char *last;     /* an op of one input, "Silu", or NULL */
} form;

static keel_builder *builder;

static keel_tensor *numbers(uint32_t rank, const int64_t *dims, int64_t from) {
  static float list[MOST];
  int64_t count = elements_of(rank, dims);
  assert_true(count <= MOST);
  for (int64_t i = 0; i < count; i++)
    list[i] = (float)((i + from) * 7919 % 401 - 200) / 300;
  return create_tensor(context, KD_F32, rank, dims, list);
}

static keel_value constant(uint32_t rank, const int64_t *dims, int64_t from) {
  return constant_of(builder, numbers(rank, dims, from));
}

static keel_value two(const char *op, keel_value a, keel_value b) {
  return keel_builder_op(builder, op, NULL, 0, (keel_value[]){a, b}, 2);
}

static keel_value last_of(const form *f, keel_value y) {
  if (!f->last) return y;
  if (strcmp(f->last, "Silu") != 0)
    return keel_builder_op(builder, f->last, NULL, 0, &y, 1);
  return two("Mul", keel_builder_op(builder, "Sigmoid", NULL, 0, &y, 1), y);
}

static keel_program *program_of(const form *f) {
  const int64_t x_dims[] = {f->rows, DEEP}, w_dims[] = {DEEP, f->columns};
  const int64_t y_dims[] = {f->rows, f->columns};
  builder = create_builder(context, "model");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, x_dims);
  keel_value z = keel_builder_input(builder, "z", KD_F32, 2, y_dims);
  keel_value product = two("MatMul", x, constant(2, w_dims, 5)), y = product;
  if (f->bias) y = two("Add", constant(1, &f->columns, 9), y);
  y = f->sum ? two("Add", y, z) : y;
  keel_builder_output(builder, "y", last_of(f, y));
  if (!f->sum)
    keel_builder_output(builder, "z_out", two("Add", z, z)); /* it is read */
  if (f->kept) keel_builder_output(builder, "product", product);
  return finish_program(builder);
}

typedef struct search {
  const char *wanted;
  bool found, any;
} search;

static void look(void *context_of, const char *pass, const char *text) {
  search *s = context_of;
  (void)pass;
  s->any |= strstr(text, "keel.FusedMatMul") != NULL;
  s->found |= s->wanted && strstr(text, s->wanted);
}

static void run(const form *f, keel_program *program, const char *skip,
                search *s, float *out) {
  const int64_t x_dims[] = {f->rows, DEEP}, y_dims[] = {f->rows, f->columns};
  keel_tensor *in[] = {numbers(2, x_dims, 0), numbers(2, y_dims, 77)};
  keel_tensor *y[3] = {NULL};
  keel_plan_params params = {
      .struct_size = sizeof params, .skip = &skip, .skip_count = skip != NULL};
  uint32_t outputs = 1u + !f->sum + f->kept;
  if (s) {
    params.on_pass = look;
    params.on_pass_context = s;
    params.on_pass_name = "products";
  }
  keel_plan *plan = create_plan(program, &params);
  for (int i = 0; i < 3; i++) { /* values, then static runs */
    release_all(y, outputs);
    expect_ok(keel_plan_run(plan, in, 2, y, outputs));
  }
  assert_int_equal(
      keel_tensor_read(y[0], out, (size_t)(f->rows * f->columns) * sizeof *out),
      KD_OK);
  release_all(y, outputs);
  release_all(in, 2);
  keel_plan_release(plan);
}

static void what_follows_a_product_goes_into_it(void **state) {
  static const form forms[] = {
      {"activation = \"none\"", 7, 33, .bias = true},
      {"activation = \"Relu\"", 130, 300, .bias = true, .last = "Relu"},
      {"activation = \"Gelu\"", 200, 40, .bias = true, .last = "Gelu"},
      {"activation = \"Silu\"", 5, 290, .last = "Silu"},
      {"activation = \"none\"", 1, 64, .bias = true, .sum = true},
      {"activation = \"Silu\"", 24, 96, .bias = true, .sum = true,
       .last = "Silu"},
      {"activation = \"none\"", 150, 1, .sum = true},
      {"activation = \"none\"", 0, 40, .bias = true},
      /* not all of it, or nothing that follows */
      {"activation = \"none\"", 6, 32, .bias = true, .last = "Tanh"},
      {NULL, 6, 32, .last = "Tanh"},
      {NULL, 6, 32, .bias = true, .kept = true},
  };
  static float want[MOST], got[MOST];
  (void)state;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const form *f = &forms[i];
    search s = {.wanted = f->wanted};
    keel_program *program = program_of(f);

    run(f, program, "products", NULL, want);
    run(f, program, NULL, &s, got);

    if (f->wanted && !s.found) fail_msg("%zu: no %s", i, f->wanted);
    if (!f->wanted && s.any) fail_msg("%zu: it was fused", i);
    for (int64_t k = 0; k < f->rows * f->columns; k++)
      if (!(fabsf(got[k] - want[k]) <= 1e-5f * (1 + fabsf(want[k]))))
        fail_msg("%zu: element %lld is %g, not %g", i, (long long)k,
                 (double)got[k], (double)want[k]);
    keel_program_release(program);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_follows_a_product_goes_into_it),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_context);
}
