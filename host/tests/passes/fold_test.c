/* fold_test.c - what planning computes ahead has bounds, of time and of memory. */
#define WORKERS KEEL_NO_WORKERS
#include "plan/plan.h"
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

/* if which: x * (c + c), by way of another If; else c. c is computed around both. */
static keel_program *program_with_captures(void) {
  const int64_t two = 2;
  keel_builder *builder = create_builder(context, "captures");
  keel_value which = keel_builder_input(builder, "which", KD_BOOL, 0, NULL);
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &two);
  keel_value c = op(builder, "Add",
                    add_constant(builder, KD_F32, 1, &two, (float[]){1, 2}),
                    add_constant(builder, KD_F32, 1, &two, (float[]){3, 4}));
  keel_builder *then = create_body(builder, "then");
  keel_builder *other = create_body(builder, "else");
  keel_value inner_which = keel_builder_capture(then, which);
  keel_value inner_c = keel_builder_capture(then, c);
  keel_value inner_x = keel_builder_capture(then, x);
  keel_builder *both[] = {create_body(then, "then"), create_body(then, "else")};
  for (int i = 0; i < 2; i++) {
    keel_value twice = keel_builder_capture(both[i], inner_c);
    twice = op(both[i], "Add", twice, twice);
    keel_builder_output(
        both[i], "y",
        op(both[i], "Mul", twice, keel_builder_capture(both[i], inner_x)));
  }
  const keel_attr inner[] = {KEEL_BODY("then_branch", both[0]),
                             KEEL_BODY("else_branch", both[1])};
  keel_builder_output(then, "y",
                      keel_builder_op(then, "If", inner, 2, &inner_which, 1));
  keel_builder_output(other, "y", keel_builder_capture(other, c));
  const keel_attr attrs[] = {KEEL_BODY("then_branch", then),
                             KEEL_BODY("else_branch", other)};
  keel_value y = keel_builder_op(builder, "If", attrs, 2, &which, 1);
  RELEASE(both[0], both[1], then, other);
  return program_giving(builder, y);
}

TEST_THAT(what_is_constant_is_so_inside_too) {
  keel_program *program = program_with_captures();
  keel_plan *plan = plan_of(program);
  for (int i = 0; i < 6; i++) {
    bool which = i & 1;
    keel_tensor *in[] = {create_tensor(context, KD_BOOL, 0, NULL, &which),
                         floats(context, 2, (float[]){10, 100})};
    keel_tensor *y = output_of(plan, in, 2);
    expect_floats(y, which ? (float[]){80, 1200} : (float[]){4, 6}, 2);
    keel_tensor_release(y);
    release_all(in, 2);
  }
  assert_int_equal(runs_of(plan, "Add"), 0);
  assert_int_equal(runs_of(plan, "Mul"), 2);
  uint32_t captures = 0;
  for (const keel_executable *at = plan->executables; at; at = at->next)
    captures += at->capture_count;
  assert_int_equal(captures, 2 + 1 + 1); /* which and x, and x in each branch */
  RELEASE(plan, program);
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
