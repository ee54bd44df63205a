/* transposed_test.c - products of matrices with a Transpose before or behind them: one Gemm gives
 * what the steps give one by one. */
#define WORKERS 1
#include "pass.h"
#include "with_cpu.h"

enum { M = 3, K = 5, N = 4 };

typedef struct model {
  bool first, second, behind; /* which are transposed */
  bool read_twice;            /* the product itself is an output, too */
  bool weights;               /* the second operand is a constant */
} model;

static keel_value transpose(keel_builder *b, keel_value x) {
  return op(b, "Transpose", x, KEEL_ABSENT);
}

static keel_program *program_of(const model *m, keel_tensor **x) {
  x[0] = numbers(2, m->first ? (int64_t[]){K, M} : (int64_t[]){M, K}, 1);
  x[1] = numbers(2, m->second ? (int64_t[]){N, K} : (int64_t[]){K, N}, 2);
  keel_builder *b = create_builder(context, "product");
  keel_value in[2];
  for (int i = 0; i < 2; i++)
    in[i] = i && m->weights ? constant_of(b, keel_tensor_retain(x[i]))
                            : keel_builder_input(b, i ? "b" : "a", KD_F32, 2,
                                                 keel_tensor_dims(x[i]));
  if (m->first) in[0] = transpose(b, in[0]);
  if (m->second) in[1] = transpose(b, in[1]);
  keel_value y = keel_builder_op(b, "MatMul", NULL, 0, in, 2);
  if (m->read_twice) keel_builder_output(b, "z", y);
  if (m->behind) y = transpose(b, y);
  keel_builder_output(b, "y", y);
  return finish_program(b);
}

typedef struct result {
  uint32_t gemms, transposes, products;
} result;

static result compare(const model *m) {
  trial t =
      TRIAL(1e-5, .pass = {"transposed"}, .out_count = m->read_twice ? 2 : 1);
  keel_program *program = program_of(m, t.in);
  if (m->weights) {
    keel_tensor_release(t.in[1]);
    t.in[1] = NULL;
  }
  keel_plan *plan = compare_pass("model", 0, program, &t, NULL);
  const result got = {runs_of(plan, "Gemm"), runs_of(plan, "Transpose"),
                      runs_of(plan, "MatMul")};
  keel_plan_release(plan);
  return got;
}

TEST_THAT(a_product_reads_what_is_transposed) {
  for (int i = 1; i < 8; i++) {
    const model m = {.first = i & 1, .second = i & 2, .behind = i & 4};
    result got = compare(&m);
    assert_int_equal(got.gemms, 1);
    assert_int_equal(got.products + got.transposes, 0);
  }
}

TEST_THAT(a_product_without_them_stays) {
  const model m = {.first = false};
  assert_int_equal(compare(&m).products, 1);
}

/* Its result is needed as it is, too: what is behind it stays. */
TEST_THAT(what_others_read_stays) {
  for (int i = 0; i < 4; i++) {
    const model m = {
        .first = i & 1, .second = i & 2, .behind = true, .read_twice = true};
    result got = compare(&m);
    assert_int_equal(got.gemms, i > 0);
  }
}

/* Kernels pack constant matrices. */
TEST_THAT(weights_stay) {
  const model m = {.first = true, .second = true, .weights = true};
  assert_int_equal(compare(&m).gemms, 0);
}

RUN_TESTS(open_cpu, close_context)
