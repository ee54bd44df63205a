/* turned_test.c - products of matrices with a Transpose before or behind them: one Gemm gives
 * what the steps give one by one. */
#include <math.h>

#define WORKERS 1
#include "with_cpu.h"

enum { M = 3, K = 5, N = 4, MOST = M * N };

typedef struct model {
  bool first, second, behind; /* which are transposed */
  bool read_twice;            /* the product itself is an output, too */
  bool weights;               /* the second operand is a constant */
} model;

static keel_tensor *numbers(int64_t rows, int64_t columns, int salt) {
  float data[K * K];
  const int64_t dims[] = {rows, columns};
  for (int64_t i = 0; i < rows * columns; i++)
    data[i] = (float)((i * 7 + salt) % 11 - 5) / 4;
  return create_tensor(context, KD_F32, 2, dims, data);
}

static keel_value transpose(keel_builder *b, keel_value x) {
  return keel_builder_op(b, "Transpose", NULL, 0, &x, 1);
}

static keel_program *program_of(const model *m, keel_tensor **x) {
  x[0] = m->first ? numbers(K, M, 1) : numbers(M, K, 1);
  x[1] = m->second ? numbers(N, K, 2) : numbers(K, N, 2);
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
  float data[MOST];
  int64_t dims[2];
  uint32_t gemms, transposes, products;
} result;

static result run(const model *m, bool plain) {
  static const char *const skipped[] = {"turned"};
  const keel_plan_params params = {
      .struct_size = sizeof params, .skip = skipped, .skip_count = plain};
  result out;
  keel_tensor *x[2], *y[2] = {NULL, NULL};
  keel_program *program = program_of(m, x);
  keel_plan *plan = create_plan(program, &params);
  const int outputs = m->read_twice ? 2 : 1;
  expect_ok(keel_plan_run(plan, x, m->weights ? 1 : 2, y, outputs));
  expect_ok(keel_tensor_read(y[outputs - 1], out.data, sizeof out.data));
  memcpy(out.dims, keel_tensor_dims(y[outputs - 1]), sizeof out.dims);
  out.gemms = runs_of(plan, "Gemm");
  out.products = runs_of(plan, "MatMul");
  out.transposes = runs_of(plan, "Transpose");
  release_all(x, 2);
  release_all(y, 2);
  keel_plan_release(plan);
  keel_program_release(program);
  return out;
}

static result compare(const model *m) {
  result want = run(m, true), got = run(m, false);
  assert_int_equal(want.gemms, 0);
  assert_memory_equal(got.dims, want.dims, sizeof want.dims);
  for (int i = 0; i < MOST; i++)
    if (!(fabsf(got.data[i] - want.data[i]) <= 1e-5f))
      fail_msg("%d %d %d: element %d is %g, step by step %g", m->first,
               m->second, m->behind, i, (double)got.data[i],
               (double)want.data[i]);
  return got;
}

static void a_product_reads_what_is_transposed(void **state) {
  (void)state;
  for (int i = 1; i < 8; i++) {
    const model m = {.first = i & 1, .second = i & 2, .behind = i & 4};
    result got = compare(&m);
    assert_int_equal(got.gemms, 1);
    assert_int_equal(got.products + got.transposes, 0);
  }
}

static void a_product_without_them_stays(void **state) {
  const model m = {.first = false};
  (void)state;
  assert_int_equal(compare(&m).products, 1);
}

/* Its result is needed as it is, too: what is behind it stays. */
static void what_others_read_stays(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    const model m = {
        .first = i & 1, .second = i & 2, .behind = true, .read_twice = true};
    result got = compare(&m);
    assert_int_equal(got.gemms, i > 0);
  }
}

/* Kernels pack constant matrices. */
static void weights_stay(void **state) {
  const model m = {.first = true, .second = true, .weights = true};
  (void)state;
  assert_int_equal(compare(&m).gemms, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_product_reads_what_is_transposed),
      cmocka_unit_test(a_product_without_them_stays),
      cmocka_unit_test(what_others_read_stays),
      cmocka_unit_test(weights_stay),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_context);
}
