/* fold_test.c - what planning computes ahead has bounds, of time and of memory. */
#define WORKERS KEEL_NO_WORKERS
#include "with_cpu.h"

#define SIDE 3000 /* 36 MB a matrix, 2.7e10 steps a product */

/* A product of two constants, of `side` each way, added to the input. */
static keel_program *product_of_constants(int64_t side) {
  const int64_t shape[] = {side, side}, two = 2, any[] = {1, 1};
  keel_builder *builder = create_builder(context, "main");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, any);
  keel_tensor *dims = create_tensor(context, KD_I64, 1, &two, shape);
  keel_value size = keel_builder_constant(builder, dims);
  keel_value a = op(builder, "ConstantOfShape", size, KEEL_ABSENT);
  keel_value y = op(builder, "MatMul", a, a);
  keel_builder_output(builder, "y", op(builder, "Add", x, y));
  keel_program *program = finish_program(builder);
  keel_tensor_release(dims);
  return program;
}

static keel_plan *plan_of(keel_program *program) {
  keel_plan *plan = create_plan(program, NULL);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  return plan;
}

static void a_small_product_is_computed_ahead(void **state) {
  keel_program *program = product_of_constants(8);
  keel_plan *plan = plan_of(program);
  (void)state;
  assert_int_equal(runs_of(plan, "MatMul"), 0);
  keel_plan_release(plan);
  keel_program_release(program);
}

static void a_product_that_takes_long_is_left_to_the_run(void **state) {
  keel_program *program = product_of_constants(SIDE);
  keel_plan *plan = plan_of(program);
  (void)state;
  assert_int_equal(runs_of(plan, "MatMul"), 1);
  keel_plan_release(plan);
  keel_program_release(program);
}

/* Five constants of 59 MB, where 256 MB are kept: folding runs twice, but has that once. */
static void what_is_kept_counts_over_all_passes(void **state) {
  const int64_t two = 2, any[] = {1, 1};
  (void)state;
  keel_builder *builder = create_builder(context, "main");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, any);
  for (int64_t i = 0; i < 5; i++) {
    const int64_t shape[] = {4000, 3700 + i};
    const char name[] = {(char)('a' + i), 0};
    keel_tensor *dims = create_tensor(context, KD_I64, 1, &two, shape);
    keel_value large = op(builder, "ConstantOfShape",
                          keel_builder_constant(builder, dims), KEEL_ABSENT);
    keel_builder_output(builder, name, op(builder, "Add", x, large));
    keel_tensor_release(dims);
  }
  keel_program *program = finish_program(builder);
  keel_plan *plan = plan_of(program);
  assert_int_equal(runs_of(plan, "ConstantOfShape"), 1);
  keel_plan_release(plan);
  keel_program_release(program);
}

/* Strings have no size that their type tells; their text counts. */
static void what_strings_come_to_counts(void **state) {
  const int64_t counts[] = {2, 3000000}, one = 1;
  const char *const text[] = {"a text of some length"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    keel_builder *builder = create_builder(context, "main");
    keel_tensor *strings = NULL,
                *shape = create_tensor(context, KD_I64, 1, &one, &counts[i]);
    expect_ok(keel_strings_create(context, 0, NULL, text, NULL, &strings));
    keel_value y =
        op(builder, "Expand", keel_builder_constant(builder, strings),
           keel_builder_constant(builder, shape));
    keel_builder_output(builder, "y", y);
    keel_program *program = finish_program(builder);
    keel_plan *plan = create_plan(program, NULL);
    keel_plan_profile(plan, KEEL_PROFILE_OPS);
    assert_int_equal(runs_of(plan, "Expand"), i);
    keel_plan_release(plan);
    keel_program_release(program);
    keel_tensor_release(strings);
    keel_tensor_release(shape);
  }
}

static keel_status plan_with(uint64_t timeout, keel_cancel *cancel) {
  keel_program *program = product_of_constants(8);
  keel_plan *plan = NULL;
  const keel_plan_params params = {
      .struct_size = sizeof params, .cancel = cancel, .timeout = timeout};
  keel_status status = keel_plan_create(program, &params, &plan);
  keel_plan_release(plan);
  keel_program_release(program);
  return status;
}

static void planning_ends_at_its_deadline(void **state) {
  (void)state;
  assert_int_equal(plan_with(1, NULL), KD_DEADLINE_EXCEEDED);
  expect_message("planning is past its deadline, before ");
  assert_int_equal(plan_with(UINT64_MAX, NULL), KD_OK);
}

static void planning_ends_when_it_is_asked_to(void **state) {
  keel_cancel *cancel = NULL;
  (void)state;
  assert_int_equal(keel_cancel_create(context, &cancel), KD_OK);
  assert_int_equal(plan_with(0, cancel), KD_OK);
  keel_cancel_request(cancel, "enough");
  assert_int_equal(plan_with(0, cancel), KD_CANCELLED);
  expect_message("planning was cancelled: enough, before ");
  keel_cancel_release(cancel);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_small_product_is_computed_ahead),
      cmocka_unit_test(a_product_that_takes_long_is_left_to_the_run),
      cmocka_unit_test(what_is_kept_counts_over_all_passes),
      cmocka_unit_test(what_strings_come_to_counts),
      cmocka_unit_test(planning_ends_at_its_deadline),
      cmocka_unit_test(planning_ends_when_it_is_asked_to),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_context);
}
