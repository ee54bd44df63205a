/* static_run_test.c - runs that make no values beside those that do: equal results, memory
 * that is used again in any order of steps, failures, and what does not fit. */
#include <pthread.h>

#include "plan/buffer_assignment.h"
#include "plan/plan.h"
#define WORKERS 2
#include "with_cpu.h"

static keel_value constant(keel_builder *builder, kd_dtype dtype, int64_t count,
                           const void *data) {
  return add_constant(builder, dtype, 1, &count, data);
}

/* Steps as they are built: passes that merge or drop some are left out. */
static keel_plan *plan_of(keel_builder *builder) {
  static const char *const skip[] = {"fold", "cse", "fuse", "prune"};
  return finish_plan(builder, PLAN_PARAMS(.skip = skip, .skip_count = 4));
}

/* From now on as if steps took long: threads share them. */
static void share_steps(keel_plan *plan) {
  keel_scheduler_fix(&plan->main->scheduler, KEEL_PARALLEL);
}

static bool has_frame(keel_plan *plan) {
  return keel_plan_memory(plan, NULL, NULL, NULL) == KD_OK;
}

/* ---- equal results ---------------------------------------------------------- */

enum { NODES = 60, OUTPUTS = 3, LARGE = 100000 };

/* Random sums, products and views of earlier values, of which some are read often, some
 * never, and some handed out. */
static keel_plan *random_plan(uint32_t seed, int64_t size) {
  static const char *const unary[] = {"Neg", "Relu", "Abs"};
  static const char *const binary[] = {"Add", "Sub", "Max", "Min"};
  static float numbers[LARGE] = {1, -2, 3};
  const int64_t dims[] = {size}, column[] = {size, 1}, row[] = {size};
  keel_value values[NODES + 3];
  keel_builder *builder = create_builder(context, "random");
  values[0] = keel_builder_input(builder, "x", KD_F32, 1, dims);
  values[1] = keel_builder_input(builder, "y", KD_F32, 1, dims);
  values[2] = constant(builder, KD_F32, size, numbers);
  keel_value to_column = constant(builder, KD_I64, 2, column);
  keel_value to_row = constant(builder, KD_I64, 1, row);
  for (int i = 3; i < NODES + 3; i++) {
    seed = seed * 1664525u + 1013904223u;
    uint32_t near = i > 12 && seed >> 31 ? (uint32_t)i - 8 : 0;
    keel_value a = values[near + (seed >> 8) % ((uint32_t)i - near)];
    keel_value b = values[near + (seed >> 20) % ((uint32_t)i - near)];
    switch ((seed >> 4) % 4) {
      case 0:
        values[i] = op(builder, unary[seed % 3], a, KEEL_ABSENT);
        break;
      case 1: /* there and back: a view of a view */
        values[i] = op(builder, "Reshape", op(builder, "Reshape", a, to_column),
                       to_row);
        break;
      default:
        values[i] = op(builder, binary[seed % 4], a, b);
    }
  }
  for (int i = 0; i < OUTPUTS; i++) {
    const char name[] = {'o', (char)('0' + i), 0};
    keel_builder_output(
        builder, name,
        values[i ? NODES + 2 - (int)(seed >> 7) % 20 * i : NODES + 2]);
  }
  return plan_of(builder);
}

static void run_random(keel_plan *plan, int64_t size, int round, float *out) {
  static float a[LARGE], b[LARGE];
  for (int64_t i = 0; i < size; i++) {
    a[i] = (float)(round - i % 7);
    b[i] = (float)(i % 5 - round * (i % 3));
  }
  keel_tensor *in[] = {floats(context, size, a), floats(context, size, b)};
  keel_tensor *got[OUTPUTS];
  uint64_t bytes = (uint64_t)size * sizeof *a;
  expect_ok(keel_plan_run(plan, in, 2, got, OUTPUTS));
  assert_memory_equal(keel_tensor_data(in[0]), a,
                      bytes); /* nobody wrote there */
  assert_memory_equal(keel_tensor_data(in[1]), b, bytes);
  for (int i = 0; i < OUTPUTS; i++) {
    expect_ok(keel_tensor_read(got[i], out + i * size, bytes));
    keel_tensor_release(got[i]);
  }
  release_all(in, 2);
}

static void compare_runs(uint32_t seed, int64_t size) {
  static float got[OUTPUTS * LARGE], want[OUTPUTS * LARGE];
  keel_plan *plan = random_plan(seed, size), *plain = random_plan(seed, size);
  for (int round = 0; round < 8; round++) {
    keel_plan_profile(plain, KEEL_PROFILE_OPS); /* makes values each time */
    run_random(plain, size, round, want);
    run_random(plan, size, round, got);
    assert_memory_equal(got, want, OUTPUTS * (uint64_t)size * sizeof *got);
    if (round == 3) share_steps(plan);
    if (round) assert_true(has_frame(plan));
  }
  RELEASE(plan, plain);
}

#ifdef KEEL_SANITIZED
enum { SEEDS = 80, LARGE_SEEDS = 3 };
#else
enum { SEEDS = 300, LARGE_SEEDS = 12 };
#endif

TEST_THAT(results_are_those_of_runs_with_values) {
  for (uint32_t seed = 0; seed < SEEDS; seed++)
    compare_runs(seed, 3);
}

/* Memory is shared in the plan's order, which threads then keep. */
TEST_THAT(results_of_large_values_are_those_too) {
  for (uint32_t seed = 0; seed < LARGE_SEEDS; seed++)
    compare_runs(seed, LARGE);
}

typedef struct caller {
  keel_plan *plan;
  int first;
  bool wrong;
} caller;

static void *run_often(void *argument) {
  caller *me = argument;
  for (int i = 0; i < 200; i++) {
    float n = (float)(me->first + i), got = 0;
    keel_tensor *x = NULL, *y = NULL;
    me->wrong |=
        keel_tensor_create(context, KD_F32, DIMS(1), &n, &x) != KD_OK ||
        keel_plan_run(me->plan, &x, 1, &y, 1) != KD_OK ||
        keel_tensor_read(y, &got, sizeof got) != KD_OK || got != 50 * n;
    RELEASE(x, y);
  }
  return NULL;
}

/* Each run has its static run. */
TEST_THAT(many_run_one_plan_at_once) {
  caller callers[4];
  pthread_t threads[4];
  keel_builder *builder = create_builder(context, "sum");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(1)), sum = x;
  for (int i = 1; i < 50; i++)
    sum = op(builder, "Add", sum, op(builder, "Relu", x, KEEL_ABSENT));
  keel_builder_output(builder, "y", sum);
  keel_plan *plan = plan_of(builder);
  for (int shared = 0; shared < 2; shared++) {
    if (shared) share_steps(plan);
    for (int i = 0; i < 4; i++) {
      callers[i] = (caller){plan, 1000 * i, false};
      pthread_create(&threads[i], NULL, run_often, &callers[i]);
    }
    for (int i = 0; i < 4; i++) {
      pthread_join(threads[i], NULL);
      assert_false(callers[i].wrong);
    }
  }
  assert_true(has_frame(plan));
  keel_plan_release(plan);
}

/* ---- what is handed out -------------------------------------------------------- */

/* An input, a constant, a view of each, and one value twice. */
TEST_THAT(all_kinds_of_outputs) {
  const float data[] = {1, -2}, want[] = {1, 0}, numbers[] = {7, 8};
  const int64_t two = 2, column[] = {2, 1};
  keel_builder *builder = create_builder(context, "outputs");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &two);
  keel_value c = constant(builder, KD_F32, 2, numbers);
  keel_value shape = constant(builder, KD_I64, 2, column);
  keel_value y = op(builder, "Relu", x, KEEL_ABSENT);
  const keel_value outputs[] = {
      x, c, op(builder, "Reshape", x, shape), op(builder, "Reshape", c, shape),
      y, y, op(builder, "Reshape", y, shape)};
  for (int i = 0; i < 7; i++) {
    const char name[] = {'o', (char)('0' + i), 0};
    keel_builder_output(builder, name, outputs[i]);
  }
  keel_plan *plan = plan_of(builder);
  keel_tensor *in = floats(context, 2, data), *last = NULL;
  for (int round = 0; round < 4; round++) {
    keel_tensor *out[7];
    expect_ok(keel_plan_run(plan, &in, 1, out, 7));
    for (int i = 0; i < 7; i++) {
      expect_floats(out[i], i >= 4 ? want : i % 2 ? numbers : data, 2);
      assert_int_equal(keel_tensor_rank(out[i]),
                       i == 2 || i == 3 || i == 6 ? 2 : 1);
    }
    if (last) expect_floats(last, want, 2); /* of the run before */
    keel_tensor_release(last);
    last = keel_tensor_retain(out[6]);
    release_all(out, 7);
  }
  assert_true(has_frame(plan));
  RELEASE(last, in, plan);
}

/* Its first input may be overwritten; not where it is read as another one, too. */
TEST_THAT(what_is_read_twice_is_not_overwritten) {
  const float data[] = {-1, -2, -3}, want[] = {3, 2, 1};
  const int64_t three = 3, back[] = {2, 1, 0};
  keel_builder *builder = create_builder(context, "twice");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &three);
  keel_value v = op(builder, "Neg", x, KEEL_ABSENT);
  keel_value in[] = {v, constant(builder, KD_I64, 3, back), v};
  keel_value y = keel_builder_op(builder, "ScatterElements", NULL, 0, in, 3);
  keel_builder_output(builder, "y", op(builder, "Abs", y, KEEL_ABSENT));
  keel_plan *plan = plan_of(builder);
  keel_tensor *from = floats(context, 3, data), *to = NULL;
  for (int i = 0; i < 3; i++) {
    expect_ok(keel_plan_run(plan, &from, 1, &to, 1));
    expect_floats(to, want, 3);
    keel_tensor_release(to);
  }
  assert_true(has_frame(plan));
  RELEASE(from, plan);
}

/* ---- other types, failures ------------------------------------------------------ */

static keel_plan *gather_plan(int64_t count) {
  const float numbers[] = {10, 20, 30};
  keel_builder *builder = create_builder(context, "gather");
  keel_value at = keel_builder_input(builder, "at", KD_I64, 1, &count);
  keel_value x = constant(builder, KD_F32, 3, numbers);
  keel_value y = op(builder, "Gather", op(builder, "Neg", x, KEEL_ABSENT), at);
  keel_builder_output(builder, "y", op(builder, "Abs", y, KEEL_ABSENT));
  return plan_of(builder);
}

static keel_status gather(keel_plan *plan, int64_t count,
                          const int64_t *assignment, keel_tensor **out) {
  keel_tensor *at = create_tensor(context, KD_I64, 1, &count, assignment);
  keel_status status = keel_plan_run(plan, &at, 1, out, 1);
  keel_tensor_release(at);
  return status;
}

TEST_THAT(a_failure_says_why_and_the_next_run_is_good) {
  keel_plan *plan = gather_plan(2);
  const float want[] = {30, 10};
  for (int round = 0; round < 8; round++) {
    const int64_t good[] = {2, 0}, bad[] = {0, 9};
    keel_tensor *y = NULL;
    bool fails = round % 2;
    if (round == 4) share_steps(plan);
    assert_int_equal(gather(plan, 2, fails ? bad : good, &y),
                     fails ? KD_OUT_OF_RANGE : KD_OK);
    if (fails) {
      assert_null(y);
      expect_message("Gather: index 9 (element 1) in a dimension of 3");
      expect_message("while cpu:0 ran Gather");
    } else {
      expect_floats(y, want, 2);
    }
    keel_tensor_release(y);
  }
  assert_true(has_frame(plan));
  keel_plan_release(plan);
}

/* The static run is of the first run's types; others are run, too. */
TEST_THAT(other_types_are_run_as_ever) {
  keel_plan *plan = gather_plan(-1);
  const int64_t assignment[] = {2, 0, 1};
  const float want[] = {30, 10, 20};
  for (int round = 0; round < 12; round++) {
    keel_tensor *y = NULL;
    int64_t n = 1 + round % 3;
    expect_ok(gather(plan, n, assignment, &y));
    expect_floats(y, want, (size_t)n);
    keel_tensor_release(y);
  }
  assert_true(has_frame(plan));
  keel_plan_release(plan);
}

/* A first run that fails leaves no types. */
TEST_THAT(a_first_failure_is_forgotten) {
  keel_plan *plan = gather_plan(-1);
  const int64_t bad[] = {9, 9, 9}, good[] = {1};
  const float want[] = {20};
  for (int round = 0; round < 4; round++) {
    keel_tensor *y = NULL;
    assert_int_equal(gather(plan, round ? 1 : 3, round ? good : bad, &y),
                     round ? KD_OK : KD_OUT_OF_RANGE);
    if (round) expect_floats(y, want, 1);
    keel_tensor_release(y);
  }
  assert_true(has_frame(plan));
  keel_plan_release(plan);
}

/* A shape that depends on a value may be another in the next run. */
TEST_THAT(shapes_that_hang_on_values_have_no_frame) {
  const int64_t open = -1;
  const float data[] = {1, 2, 3, 4, 5, 6};
  keel_builder *builder = create_builder(context, "reshape");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &open);
  keel_value shape = keel_builder_input(builder, "shape", KD_I64, 1, &open);
  keel_builder_output(
      builder, "y",
      op(builder, "Neg", op(builder, "Reshape", x, shape), KEEL_ABSENT));
  keel_plan *plan = plan_of(builder);
  keel_tensor *in[] = {floats(context, 6, data), NULL};
  for (int round = 0; round < 6; round++) {
    const int64_t dims[] = {round % 2 ? 2 : 3, -1}, two = 2;
    expect_ok(keel_tensor_create(context, KD_I64, 1, &two, dims, &in[1]));
    keel_tensor *y = output_of(plan, in, 2);
    assert_int_equal(keel_tensor_dims(y)[0], dims[0]);
    RELEASE(y, in[1]);
  }
  assert_false(has_frame(plan));
  RELEASE(in[0], plan);
}

/* ---- memory ---------------------------------------------------------------------- */

/* A chain writes in place; two branches that meet need two places more than that. */
TEST_THAT(places_are_used_again) {
  const int64_t dims[] = {1000};
  uint64_t planned = 0, unshared = 0, least = 0;
  keel_builder *builder = create_builder(context, "places");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, dims);
  keel_value a = op(builder, "Neg", x, KEEL_ABSENT), b = a;
  for (int i = 0; i < 10; i++) {
    a = op(builder, "Abs", a, KEEL_ABSENT);
    b = op(builder, "Relu", b, KEEL_ABSENT);
  }
  keel_builder_output(builder, "y", op(builder, "Add", a, b));
  keel_plan *plan = plan_of(builder);
  keel_tensor *in = create_tensor(context, KD_F32, 1, dims, NULL);
  assert_int_equal(keel_plan_memory(plan, &planned, &unshared, &least),
                   KD_FAILED_PRECONDITION);
  for (int i = 0; i < 2; i++) {
    keel_tensor *y = output_of(plan, &in, 1);
    keel_tensor_release(y);
  }
  expect_ok(keel_plan_memory(plan, &planned, &unshared, &least));
  assert_true(unshared >= 21 * 4000);
  assert_true(least >= 2 * 4000 && least <= planned);
  assert_true(planned <= 3 * 4032);
  RELEASE(in, plan);
}

/* Nothing lies anywhere, and kernels still get an address. */
TEST_THAT(empty_values_have_a_place) {
  keel_builder *builder = create_builder(context, "empty");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(0));
  keel_value pair[] = {op(builder, "Neg", x, KEEL_ABSENT), x};
  keel_value y = keel_builder_op(builder, "Concat",
                                 &(keel_attr)KEEL_INT("axis", 0), 1, pair, 2);
  keel_builder_output(builder, "y", op(builder, "Abs", y, KEEL_ABSENT));
  keel_plan *plan = plan_of(builder);
  keel_tensor *in = floats(context, 0, NULL), *out = NULL;
  uint64_t planned = 0;
  for (int i = 0; i < 3; i++) {
    expect_ok(keel_plan_run(plan, &in, 1, &out, 1));
    assert_int_equal(keel_tensor_size(out), 0);
    keel_tensor_release(out);
  }
  expect_ok(keel_plan_memory(plan, &planned, NULL, NULL));
  assert_true(planned > 0);
  RELEASE(in, plan);
}

/* Where memory is short the run says so, and later ones are good again. */
TEST_THAT(too_little_memory_fails_one_run) {
  enum { COUNT = 50000 }; /* 200 kB */
  const int64_t dims[] = {COUNT}, all[] = {3 * COUNT};
  const char *path = CPU_PLUGIN;
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, &path, 1, .memory_limit = 1100000);
  keel_context *usual = context;
  expect_ok(keel_open(&params, &context));
  keel_builder *builder = create_builder(context, "short");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, dims);
  keel_value y =
      op(builder, "Softmax", op(builder, "Neg", x, KEEL_ABSENT), KEEL_ABSENT);
  keel_builder_output(builder, "y", op(builder, "Add", y, x));
  keel_plan *plan = plan_of(builder);
  keel_tensor *out = NULL, *held = NULL;
  keel_tensor *in = create_tensor(context, KD_F32, 1, dims, NULL);
  for (int round = 0; round < 6; round++) {
    bool none_left = round % 3 == 2;
    if (none_left) held = create_tensor(context, KD_F32, 1, all, NULL);
    assert_int_equal(keel_plan_run(plan, &in, 1, &out, 1),
                     none_left ? KD_OUT_OF_MEMORY : KD_OK);
    if (none_left) assert_null(out);
    if (none_left) expect_message("exceed the limit of 1100000 bytes");
    RELEASE(out, held);
    out = held = NULL;
  }
  assert_true(has_frame(plan));
  RELEASE(in, plan, context);
  context = usual;
}

/* Products of half floats need scratch memory beside the values. */
TEST_THAT(scratch_memory_lies_apart) {
  const int64_t dims[] = {8, 8};
  uint16_t numbers[64], first[64], next[64];
  for (int i = 0; i < 64; i++)
    numbers[i] = (uint16_t)(0x3c00 + 16 * i); /* 1 and up */
  keel_builder *builder = create_builder(context, "scratch");
  keel_value x = keel_builder_input(builder, "x", KD_F16, 2, dims);
  keel_value y = op(builder, "Neg", x, KEEL_ABSENT), z = y;
  for (int i = 0; i < 3; i++)
    z = op(builder, "Sigmoid", op(builder, "MatMul", z, y), KEEL_ABSENT);
  keel_builder_output(builder, "z", op(builder, "Add", z, y));
  keel_plan *plan = plan_of(builder);
  keel_tensor *in = create_tensor(context, KD_F16, 2, dims, numbers);
  for (int i = 0; i < 3; i++) {
    keel_tensor *out = output_of(plan, &in, 1);
    expect_ok(keel_tensor_read(out, i ? next : first, sizeof first));
    if (i) assert_memory_equal(first, next, sizeof first);
    keel_tensor_release(out);
  }
  assert_true(has_frame(plan));
  RELEASE(in, plan);
}

/* ---- where blocks lie --------------------------------------------------------- */

#define STEPS 40

static uint32_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + 1;
  return (uint32_t)(*state >> 33);
}

/* A graph of so many steps, each of one or two values that were there before. */
static keel_plan *random_steps(uint64_t *state) {
  keel_value values[STEPS + 1];
  keel_builder *builder = create_builder(context, "steps");
  values[0] = keel_builder_input(builder, "x", KD_F32, DIMS(1));
  for (uint32_t i = 0; i < STEPS; i++) {
    uint32_t near = i > 6 ? i - 6 : 0;
    keel_value a = values[near + next_random(state) % (i + 1 - near)];
    keel_value b = values[next_random(state) % (i + 1)];
    values[i + 1] = next_random(state) % 2 ? op(builder, "Neg", a, KEEL_ABSENT)
                                           : op(builder, "Sub", a, b);
  }
  for (uint32_t i = STEPS - 3; i <= STEPS; i++)
    keel_builder_output(builder, "y", values[i]);
  return plan_of(builder);
}

/* By step: those that come before it in an order. */
static void close_order(const keel_order *order, uint32_t steps,
                        bool (*before)[STEPS]) {
  memset(before, 0, STEPS * sizeof *before);
  for (uint32_t i = 0; i < steps; i++)
    for (uint32_t k = order->first[i]; k < order->first[i + 1]; k++) {
      uint32_t to = order->followers[k];
      assert_true(to > i);
      before[to][i] = true;
      for (uint32_t j = 0; j < steps; j++)
        before[to][j] |= before[i][j];
    }
}

/* What uses a block: its steps, as they were asked for. */
typedef struct used {
  bool by[STEPS];
  uint32_t from;
} used;

static void note_use(const keel_executable *executable, uint32_t step,
                     uint32_t value, used *block) {
  block->by[step] = true;
  for (uint32_t i = 0; i < executable->step_count; i++)
    for (uint32_t k = 0; k < executable->steps[i].input_count; k++)
      block->by[i] |=
          value != KEEL_ABSENT && executable->steps[i].inputs[k] == value;
}

static void check_blocks(const keel_buffer_assignment *assignment,
                         const keel_executable *executable,
                         const used *blocks) {
  static bool before[STEPS][STEPS];
  keel_order *order = keel_order_create(executable, assignment->edges,
                                        assignment->edge_count, NULL);
  assert_non_null(order);
  close_order(order, executable->step_count, before);
  keel_order_free(order);
  for (uint32_t a = 0; a < assignment->count; a++) {
    const keel_block *x = &assignment->blocks[a];
    assert_int_equal(x->offset % 64, 0);
    assert_true(x->offset + x->bytes <= assignment->total);
    for (uint32_t b = 0; b < assignment->count; b++) {
      const keel_block *y = &assignment->blocks[b];
      bool touch =
          x->offset < y->offset + y->bytes && y->offset < x->offset + x->bytes;
      if (a == b || !touch || blocks[a].from >= blocks[b].from) continue;
      for (uint32_t i = 0; i < executable->step_count; i++)
        if (blocks[a].by[i]) assert_true(before[blocks[b].from][i]);
    }
  }
}

/* With values of so many bytes, and up to nine times as many. */
static void lay_blocks(uint64_t *state, uint64_t bytes, uint32_t *with_edges) {
  static used blocks[2 * STEPS];
  keel_plan *plan = random_steps(state);
  keel_executable *executable = plan->main;
  keel_buffer_assignment assignment = {0};
  uint32_t base[128];
  assert_true(executable->step_count <= STEPS &&
              executable->value_count <= 128);
  for (uint32_t i = 0; i < executable->value_count; i++)
    base[i] = i;
  memset(blocks, 0, sizeof blocks);
  expect_ok(keel_buffer_assignment_begin(&assignment, executable, base));
  for (uint32_t i = 0; i < executable->step_count; i++)
    for (int scratch = 0; scratch < 2; scratch++) {
      uint32_t at = 0, before = assignment.count;
      uint32_t value = scratch ? KEEL_ABSENT : executable->steps[i].outputs[0];
      uint64_t size = bytes * (1 + next_random(state) % 9 / 8 * 8);
      if (scratch && next_random(state) % 4) continue;
      expect_ok(keel_buffer_assignment_take(&assignment, i, value, size,
                                            next_random(state) % 4, &at));
      if (assignment.count > before) blocks[at].from = i;
      note_use(executable, i, value, &blocks[at]);
    }
  expect_ok(keel_buffer_assignment_end(&assignment, 64, false));
  check_blocks(&assignment, executable, blocks);
  assert_true(assignment.least <= assignment.total);
  assert_true(assignment.total <= assignment.unshared + 64 * assignment.count);
  *with_edges += assignment.edge_count > 0;
  /* where edges may be had, the least is nearly all that is taken */
  if (bytes >= 1 << 20)
    assert_true(assignment.total * 4 <= assignment.least * 5);
  keel_buffer_assignment_free(&assignment);
  keel_plan_release(plan);
}

TEST_THAT(blocks_share_memory_in_the_order_of_steps) {
  uint32_t with_edges = 0;
  uint64_t random = 5;
  for (int i = 0; i < 200; i++)
    lay_blocks(&random, 100, &with_edges);
  assert_int_equal(with_edges, 0); /* not worth it */
  for (int i = 0; i < 200; i++)
    lay_blocks(&random, 10 << 20, &with_edges);
  assert_true(with_edges > 100);
}

/* A long way and a short one, with what they cost. */
TEST_THAT(the_longest_way_comes_first) {
  keel_builder *builder = create_builder(context, "ways");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(1));
  keel_value a = op(builder, "Neg", x, KEEL_ABSENT);           /* 0 */
  keel_value b = op(builder, "Abs", a, KEEL_ABSENT);           /* 1 */
  keel_value c = op(builder, "Exp", a, KEEL_ABSENT);           /* 2 */
  keel_value d = op(builder, "Sqrt", c, KEEL_ABSENT);          /* 3 */
  keel_value e = op(builder, "Tanh", x, KEEL_ABSENT);          /* 4 */
  keel_builder_output(builder, "y", op(builder, "Add", b, d)); /* 5 */
  keel_builder_output(builder, "z", e);
  keel_plan *plan = plan_of(builder);
  const keel_executable *executable = plan->main;
  assert_int_equal(executable->step_count, 6);
  for (int costly = 0; costly < 2; costly++) {
    uint32_t costs[] = {10, 10, 10, 10, 10, 10};
    if (costly) costs[1] = costs[4] = 100;
    keel_order *order = keel_order_create(executable, NULL, 0, costs);
    assert_non_null(order);
    assert_int_equal(order->root_count, 2);
    assert_int_equal(order->roots[0], 0);
    assert_int_equal(order->roots[1], 4);
    assert_int_equal(order->first[1] - order->first[0], 2);
    assert_int_equal(order->followers[order->first[0]], costly ? 1 : 2);
    assert_int_equal(order->waits[5], 2);
    keel_order_free(order);
  }
  const keel_edge more[] = {{0, 4}, {0, 4}, {3, 4}}; /* and from elsewhere */
  keel_order *order = keel_order_create(executable, more, 3, NULL);
  assert_non_null(order);
  assert_int_equal(order->root_count, 1);
  assert_int_equal(order->waits[4], 2);
  keel_order_free(order);
  keel_plan_release(plan);
}

RUN_TESTS(open_cpu, close_context)
