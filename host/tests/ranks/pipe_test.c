/* pipe_test.c - programs in stages: one, two and three devices give what one alone gives, for each
 * number of parts of the batch; where the program is cut; and what can't be. */
#include <keel/group.h>
#include <keel/split.h>

#define WORKERS 2
#ifdef SIM_PLUGIN
#define BESIDE SIM_PLUGIN
#else
#define BESIDE NULL /* without the suite there is no second device */
#endif
#include "with_cpu.h"

enum { BATCH = 8, WIDE = 6, OUTPUTS = 4, STAGES_MOST = 3 };

static const int64_t batch[] = {BATCH, WIDE};

/* Small integers: sums of them are exact. */
static keel_value numbers(keel_builder *b, int64_t rows, int64_t from) {
  float data[BATCH * BATCH];
  for (int64_t i = 0; i < rows * WIDE; i++)
    data[i] = (float)((from + i * 7) % 5 - 2);
  return add_constant(b, KD_F32, DIMS(rows, WIDE), data);
}

static keel_value layer(keel_builder *b, keel_value x, int64_t from) {
  return op(b, "Relu", op(b, "MatMul", x, numbers(b, WIDE, from)), KEEL_ABSENT);
}

/* ---- models ---------------------------------------------------------------------------- */

/* Layers with a value of the first that the last reads. */
static keel_program *residual(void) {
  keel_builder *b = create_builder(context, "residual");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, batch);
  keel_value first = layer(b, x, 1), y = first;
  for (int i = 2; i < 8; i++)
    y = layer(b, y, i);
  return program_giving(b, op(b, "Add", y, first));
}

/* The batch is summed: no part of it is enough. */
static keel_program *summed(void) {
  keel_builder *b = create_builder(context, "summed");
  const int64_t axis = 0;
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, batch);
  keel_value axes = add_ints(b, 1, &axis);
  keel_value y = layer(b, layer(b, x, 1), 2);
  return program_giving(b, op(b, "ReduceSum", y, axes));
}

#ifdef SIM_PLUGIN

/* Outputs of each kind: of the first stage, an input, of the last one, and of no batch; a constant
 * has a row for each of the batch. */
static keel_program *outputs(void) {
  keel_builder *b = create_builder(context, "outputs");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, batch);
  keel_value first = layer(b, op(b, "Add", x, numbers(b, BATCH, 3)), 1);
  keel_value weights = op(b, "Abs", numbers(b, WIDE, 9), KEEL_ABSENT);
  keel_value y = layer(b, layer(b, first, 2), 3);
  y = op(b, "MatMul", y, weights);
  const int64_t perm[] = {1, 0};
  const keel_attr turned = KEEL_INTS("perm", 2, perm);
  keel_builder_output(b, "first", first);
  keel_builder_output(b, "last",
                      keel_builder_op(b, "Transpose", &turned, 1, &y, 1));
  keel_builder_output(b, "x again", x);
  keel_builder_output(b, "weights", weights);
  return finish_program(b);
}

/* ---- runs -------------------------------------------------------------------------------- */

static keel_tensor *input(void) {
  float data[BATCH * WIDE];
  for (int i = 0; i < BATCH * WIDE; i++)
    data[i] = (float)(i * 11 % 7 - 3);
  return create_tensor(context, KD_F32, 2, batch, data);
}

/* A program's inputs: x, and the handle where it has exchanges. */
static keel_status begin(keel_plan *plan, keel_tensor *x, keel_tensor *member,
                         keel_tensor **out, uint32_t count) {
  keel_tensor *in[] = {x, member};
  return keel_plan_begin(plan, NULL, in, keel_plan_input_count(plan), out,
                         count);
}

/* In `size` stages; out has their outputs, one stage behind the other. */
static void run_stages(const keel_program *program, uint32_t size,
                       uint32_t parts, keel_tensor **out,
                       keel_split_facts *facts) {
  static const char *const names[] = {"cpu:0", "sim:0", "sim:1"};
  keel_device *devices[STAGES_MOST];
  keel_tensor *members[STAGES_MOST], *x = input();
  keel_group *group = NULL;
  keel_plan *plans[STAGES_MOST];
  uint32_t count = keel_program_output_count(program);
  for (uint32_t r = 0; r < size; r++)
    expect_ok(keel_device_find(context, names[r], &devices[r]));
  expect_ok(keel_group_create(devices, size, &group));
  expect_ok(keel_group_members(group, members));
  for (uint32_t r = 0; r < size; r++) {
    const keel_split_params params = {.struct_size = sizeof params,
                                      .kind = KEEL_SPLIT_PIPE,
                                      .rank = r,
                                      .size = size,
                                      .parts = parts};
    keel_program *own = NULL;
    expect_ok(keel_program_split(program, &params, &own, &facts[r]));
    plans[r] = create_plan(own, PLAN_PARAMS(.device = devices[r]));
    keel_program_release(own);
    expect_ok(begin(plans[r], x, members[r], out + (size_t)r * OUTPUTS, count));
  }
  release_all(members, size);
  for (uint32_t r = 0; r < size; r++)
    for (uint32_t i = 0; i < count; i++)
      expect_ok(keel_tensor_wait(out[r * OUTPUTS + i]));
  for (uint32_t r = 0; r < size; r++)
    keel_plan_release(plans[r]);
  RELEASE(group, x);
}

static void expect_equal(keel_tensor *got, keel_tensor *want) {
  float a[BATCH * BATCH], b[BATCH * BATCH];
  uint64_t size = keel_tensor_size(want);
  assert_int_equal(keel_tensor_size(got), size);
  expect_ok(keel_tensor_read(got, a, size));
  expect_ok(keel_tensor_read(want, b, size));
  assert_memory_equal(a, b, size);
}

/* All stages have what one alone gives. Weights: each is in one stage, or, where the parts are
 * more, is not there twice. */
static void check(keel_program *program, uint32_t parts_most) {
  keel_tensor *x = input(), *want[OUTPUTS] = {NULL};
  keel_plan *plan = create_plan(program, NULL);
  uint32_t count = keel_program_output_count(program);
  expect_ok(keel_plan_run(plan, &x, 1, want, count));
  for (uint32_t size = 1; size <= STAGES_MOST; size++)
    for (uint32_t parts = 1; parts <= parts_most; parts *= 2) {
      keel_tensor *out[STAGES_MOST * OUTPUTS] = {NULL};
      keel_split_facts facts[STAGES_MOST];
      uint64_t weights = 0;
      double share = 0;
      run_stages(program, size, parts == parts_most ? 0 : parts, out, facts);
      for (uint32_t r = 0; r < size; r++) {
        for (uint32_t i = 0; i < count; i++)
          expect_equal(out[r * OUTPUTS + i], want[i]);
        assert_int_equal(
            facts[r].parts,
            parts == parts_most && size == 1 && parts_most > 4 ? 4 : parts);
        weights += facts[r].weights_here;
        share += facts[r].share;
      }
      /* besides, there are bounds of slices, and zeros for what comes from others */
      assert_true(weights >= facts[0].weights);
      assert_true(weights < 2 * facts[0].weights + 4000);
      assert_true(share > 0.99 && share < 1.01);
      release_all(out, STAGES_MOST * OUTPUTS);
    }
  release_all(want, count);
  RELEASE(x, plan);
}

TEST_THAT(stages_give_the_same) {
  keel_program *const programs[] = {residual(), outputs()};
  for (int i = 0; i < 2; i++) {
    check(programs[i], BATCH);
    keel_program_release(programs[i]);
  }
}

TEST_THAT(a_batch_that_stays_whole) {
  keel_program *program = summed();
  check(program, 1);
  keel_program_release(program);
}

#endif

/* ---- where it is cut ---------------------------------------------------------------------------- */

TEST_THAT(stages_take_equal_times) {
  keel_program *program = residual(), *own = NULL;
  keel_split_speed speeds[2] = {{1, 1, 10000}, {1, 1, 10000}};
  keel_split_params params = {.struct_size = sizeof params,
                              .kind = KEEL_SPLIT_PIPE,
                              .size = 2,
                              .parts = 1,
                              .speeds = speeds};
  keel_split_facts facts;
  expect_ok(keel_program_split(program, &params, &own, &facts));
  assert_true(facts.share > 0.4 && facts.share < 0.6);
  keel_program_release(own);
  speeds[1].launch = 30000; /* the second takes three times as long for each */
  expect_ok(keel_program_split(program, &params, &own, &facts));
  assert_true(facts.share > 0.65 && facts.share < 0.85);
  RELEASE(own, program);
  keel_device *device = keel_device_default(context);
  expect_ok(keel_split_measure(device, &speeds[0]));
  assert_true(speeds[0].flops > 0 && speeds[0].bytes > 0 &&
              speeds[0].launch > 0);
}

/* ---- what is refused ---------------------------------------------------------------------------- */

static void refuse(keel_program *program, uint32_t size, uint32_t parts,
                   keel_status status, const char *words) {
  keel_program *own = NULL;
  const keel_split_params params = {.struct_size = sizeof params,
                                    .kind = KEEL_SPLIT_PIPE,
                                    .size = size,
                                    .parts = parts};
  expect_fails(keel_program_split(program, &params, &own, NULL), status, words);
  assert_null(own);
}

TEST_THAT(what_is_no_pipe_is_refused) {
  keel_program *program = residual();
  (void)state;
  refuse(program, 2, 3, KD_INVALID_ARGUMENT,
         "3 micro-batches do not divide the batch of 8");
  refuse(program, 100, 0, KD_INVALID_ARGUMENT, "and 100 stages need as many");
  keel_program_release(program);

  program = summed();
  refuse(program, 2, 4, KD_INVALID_ARGUMENT,
         "can't be cut into 4 micro-batches: nodes need all of it");
  keel_program_release(program);

  keel_builder *b = create_builder(context, "state");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(-1, WIDE));
  program = program_giving(b, layer(b, layer(b, x, 1), 2));
  refuse(program, 2, 2, KD_INVALID_ARGUMENT, "the batch is not known");
  refuse(program, 2, 0, KD_INVALID_ARGUMENT, "0 places where it can be cut");
  keel_program_release(program);

  b = create_builder(context, "state");
  keel_builder_node_name(b, "kept");
  const keel_value kept = op(b, "keel::VariableRead",
                             keel_builder_resource(b, "variable"), KEEL_ABSENT);
  x = keel_builder_input(b, "x", KD_F32, 2, batch);
  program = program_giving(b, op(b, "Add", layer(b, x, 1), kept));
  refuse(program, 2, 0, KD_FAILED_PRECONDITION,
         "node \"kept\" (VariableRead) keeps a state");
  keel_program_release(program);
}

/* Parts would have other numbers. */
TEST_THAT(random_numbers_are_of_the_whole) {
  keel_builder *b = create_builder(context, "random");
  keel_program *own = NULL;
  keel_split_facts facts;
  keel_value x = layer(b, keel_builder_input(b, "x", KD_F32, 2, batch), 1);
  keel_value y = op(b, "RandomNormalLike", x, KEEL_ABSENT);
  keel_program *program = program_giving(b, op(b, "Add", x, y));
  const keel_split_params params = {
      .struct_size = sizeof params, .kind = KEEL_SPLIT_PIPE, .size = 2};
  expect_ok(keel_program_split(program, &params, &own, &facts));
  assert_int_equal(facts.parts, 1);
  RELEASE(own, program);
}

RUN_TESTS(open_cpu, close_context)
