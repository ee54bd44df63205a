/* fold_test.c - what planning computes ahead has bounds, of time and of memory. */
#define WORKERS KEEL_NO_WORKERS
#include "with_cpu.h"

#define SIDE 3000 /* 36 MB a matrix, 2.7e10 steps a product */

/* A product of two constants, of `side` each way, added to the input. */
static keel_program *product_of_constants(int64_t side) {
  const int64_t shape[] = {side, side}, two = 2, any[] = {1, 1};
  keel_builder *builder = create_builder(context, "main");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, any);
  keel_value size = add_constant(builder, KD_I64, 1, &two, shape);
  keel_value a = op(builder, "ConstantOfShape", size, KEEL_ABSENT);
  keel_value y = op(builder, "MatMul", a, a);
  keel_program *program = program_giving(builder, op(builder, "Add", x, y));
  return program;
}

static keel_plan *plan_of(keel_program *program) {
  keel_plan *plan = create_plan(program, NULL);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  return plan;
}

TEST_THAT(a_small_product_is_computed_ahead) {
  keel_program *program = product_of_constants(8);
  keel_plan *plan = plan_of(program);
  assert_int_equal(runs_of(plan, "MatMul"), 0);
  RELEASE(plan, program);
}

TEST_THAT(a_product_that_takes_long_is_left_to_the_run) {
  keel_program *program = product_of_constants(SIDE);
  keel_plan *plan = plan_of(program);
  assert_int_equal(runs_of(plan, "MatMul"), 1);
  RELEASE(plan, program);
}

/* Five constants of 59 MB, where 256 MB are kept: folding runs twice, but has that once. */
TEST_THAT(what_is_kept_counts_over_all_passes) {
  const int64_t two = 2, any[] = {1, 1};
  keel_builder *builder = create_builder(context, "main");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, any);
  for (int64_t i = 0; i < 5; i++) {
    const int64_t shape[] = {4000, 3700 + i};
    const char name[] = {(char)('a' + i), 0};
    keel_value large =
        op(builder, "ConstantOfShape",
           add_constant(builder, KD_I64, 1, &two, shape), KEEL_ABSENT);
    keel_builder_output(builder, name, op(builder, "Add", x, large));
  }
  keel_program *program = finish_program(builder);
  keel_plan *plan = plan_of(program);
  assert_int_equal(runs_of(plan, "ConstantOfShape"), 1);
  RELEASE(plan, program);
}

/* Strings have no size that their type tells; their text counts. */
TEST_THAT(what_strings_come_to_counts) {
  const int64_t counts[] = {2, 3000000};
  const char *const text[] = {"a text of some length"};
  for (int i = 0; i < 2; i++) {
    keel_builder *builder = create_builder(context, "main");
    keel_tensor *strings = NULL;
    expect_ok(keel_strings_create(context, 0, NULL, text, NULL, &strings));
    keel_value y = op(builder, "Expand", constant_of(builder, strings),
                      add_ints(builder, 1, &counts[i]));
    keel_plan *plan = plan_giving(builder, y, NULL);
    keel_plan_profile(plan, KEEL_PROFILE_OPS);
    assert_int_equal(runs_of(plan, "Expand"), i);
    keel_plan_release(plan);
  }
}

static keel_status plan_with(uint64_t timeout, keel_cancel *cancel) {
  keel_program *program = product_of_constants(8);
  keel_plan *plan = NULL;
  keel_status status = keel_plan_create(
      program, PLAN_PARAMS(.cancel = cancel, .timeout = timeout), &plan);
  RELEASE(plan, program);
  return status;
}

TEST_THAT(planning_ends_at_its_deadline) {
  expect_fails(plan_with(1, NULL), KD_DEADLINE_EXCEEDED,
               "planning is past its deadline, before ");
  expect_ok(plan_with(UINT64_MAX, NULL));
}

TEST_THAT(planning_ends_when_it_is_asked_to) {
  keel_cancel *cancel = create_cancel(context);
  expect_ok(plan_with(0, cancel));
  keel_cancel_request(cancel, "enough");
  expect_fails(plan_with(0, cancel), KD_CANCELLED,
               "planning was cancelled: enough, before ");
  keel_cancel_release(cancel);
}

RUN_TESTS(open_cpu, close_context)
