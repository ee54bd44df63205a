/* finish_test.c - a bias, a sum and an activation behind a product by weights go into it, and
 * give the same results. */
#define WORKERS 1
#include "pass.h"
#include "with_cpu.h"

enum { DEEP = 40 };

/* A product of rows x DEEP by weights, and what follows it. */
typedef struct form {
  const char *wanted; /* in the dump; NULL: it stays as it is */
  int64_t rows, columns;
  bool bias, sum, kept; /* kept: the product is an output, too */
  const char *last;     /* an op of one input, "Silu", or NULL */
} form;

static keel_builder *builder;

static keel_value two(const char *op, keel_value a, keel_value b) {
  return keel_builder_op(builder, op, NULL, 0, (keel_value[]){a, b}, 2);
}

static keel_value last_of(const form *f, keel_value y) {
  if (!f->last) return y;
  if (strcmp(f->last, "Silu") != 0)
    return keel_builder_op(builder, f->last, NULL, 0, &y, 1);
  return two("Mul", op(builder, "Sigmoid", y, KEEL_ABSENT), y);
}

static keel_program *program_of(const form *f) {
  const int64_t x_dims[] = {f->rows, DEEP}, w_dims[] = {DEEP, f->columns};
  const int64_t y_dims[] = {f->rows, f->columns};
  builder = create_builder(context, "model");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, x_dims);
  keel_value z = keel_builder_input(builder, "z", KD_F32, 2, y_dims);
  keel_value product =
                 two("MatMul", x, constant_numbers(builder, 2, w_dims, 5)),
             y = product;
  if (f->bias) y = two("Add", constant_numbers(builder, 1, &f->columns, 9), y);
  y = f->sum ? two("Add", y, z) : y;
  keel_builder_output(builder, "y", last_of(f, y));
  if (!f->sum)
    keel_builder_output(builder, "z_out", two("Add", z, z)); /* it is read */
  if (f->kept) keel_builder_output(builder, "product", product);
  return finish_program(builder);
}

TEST_THAT(what_follows_a_product_goes_into_it) {
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
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    const form *f = &forms[i];
    const int64_t x[] = {f->rows, DEEP}, z[] = {f->rows, f->columns};
    trial t = TRIAL(1e-5, .pass = {"products"},
                    .in = {numbers(2, x, 0), numbers(2, z, 77)},
                    .out_count = 1u + !f->sum + f->kept,
                    .op = "keel.FusedMatMul", .wanted = f->wanted);
    keel_plan_release(compare_pass("form", i, program_of(f), &t, NULL));
    if (f->wanted && !t.found) fail_msg("%zu: no %s", i, f->wanted);
    if (!f->wanted && t.any) fail_msg("%zu: it was fused", i);
  }
}

RUN_TESTS(open_cpu, close_context)
