/* sizes_test.c - a program whose open sizes are fixed: its types follow, and what can't be is
 * refused. */
#define WORKERS 0
#include "with_cpu.h"

static const int64_t open[] = {-1, 3}, wide[] = {2, 3}, bad[] = {2, 4};

/* z = x + y, of f32[?,3] and of a rank that is not known; beside them a resource. */
static keel_program *make(void) {
  keel_builder *builder = create_builder(context, "sum");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, open);
  keel_value y =
      keel_builder_input(builder, "y", KD_F32, KEEL_RANK_UNKNOWN, NULL);
  keel_builder_resource(builder, "state");
  keel_builder_output(builder, "z", op(builder, "Add", x, y));
  return finish_program(builder);
}

TEST_THAT(types_follow) {
  keel_program *program = make(), *fixed = NULL;
  const keel_input_sizes sizes[] = {{0, 2, wide}, {1, 2, wide}};
  keel_port port;
  expect_ok(keel_program_fix(program, sizes, 2, &fixed));
  keel_program_release(program);
  for (uint32_t i = 0; i < 2; i++) {
    expect_ok(keel_program_input(fixed, i, &port));
    assert_int_equal(port.rank, 2);
    assert_memory_equal(port.dims, wide, sizeof wide);
  }
  keel_program_release(fixed);
}

TEST_THAT(what_is_not_said_stays_open) {
  keel_program *program = make(), *fixed = NULL;
  const int64_t half[] = {-1, 3};
  const keel_input_sizes sizes = {1, 2, half};
  keel_port port;
  expect_ok(keel_program_fix(program, &sizes, 1, &fixed));
  expect_ok(keel_program_input(fixed, 0, &port));
  assert_int_equal(port.dims[0], -1);
  expect_ok(keel_program_input(fixed, 1, &port));
  assert_int_equal(port.rank, 2);
  assert_memory_equal(port.dims, half, sizeof half);
  RELEASE(fixed, program);
}

TEST_THAT(what_can_t_be_is_refused) {
  static const int64_t large[] = {INT64_MAX, 3}, many[17] = {1};
  static const struct {
    keel_input_sizes sizes;
    keel_status status;
    const char *says;
  } cases[] = {
      {{3, 2, wide}, KD_OUT_OF_RANGE, "has 3 inputs, not 4"},
      {{0, 1, wide}, KD_INVALID_ARGUMENT, "\"x\" has 2 dimensions, not 1"},
      {{0, 2, bad},
       KD_INVALID_ARGUMENT,
       "dimension 1 of input \"x\" is 3, and can't be 4"},
      {{0, 2, large}, KD_INVALID_ARGUMENT, "too large"},
      {{1, 17, many}, KD_INVALID_ARGUMENT, "more than 16"},
      {{2, 2, wide}, KD_INVALID_ARGUMENT, "\"state\" is not a tensor"},
  };
  (void)state;
  keel_program *program = make(), *fixed = NULL, *compiled = NULL;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_int_equal(keel_program_fix(program, &cases[i].sizes, 1, &fixed),
                     cases[i].status);
    expect_message(cases[i].says);
    assert_null(fixed);
  }
  expect_ok(keel_program_compile(
      program, PLAN_PARAMS(.device = keel_device_at(context, 0)), &compiled));
  const keel_input_sizes sizes = {0, 2, wide};
  expect_fails(keel_program_fix(compiled, &sizes, 1, &fixed),
               KD_FAILED_PRECONDITION, "is compiled for cpu:0");
  RELEASE(compiled, program);
}

RUN_TESTS(open_cpu, close_context)
