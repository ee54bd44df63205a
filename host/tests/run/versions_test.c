/* versions_test.c - plans of programs that leave dimensions open: made anew for shapes that
 * come again. */
#include <keel/debug.h>

#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "one_context.h"
#include "plan/versions.h"
#include "toy/toy.h"

SETUP(begin) {
  context = open_with(CPU_PLUGIN, TOY("queue"), 2);
  return 0;
}

SETUP(end) {
  keel_close(context);
  return 0;
}

static keel_tensor *integers(int64_t count, const int64_t *data) {
  return create_tensor(context, KD_I64, 1, &count, data);
}

/* The transpose of what is positive in x of n x m, as m x n by way of its shape, plus
 * `bias` of m x n: ops that compute shapes, and ops on data. */
static keel_plan *plan_turning(uint32_t flags, uint64_t version_bytes) {
  const int64_t open[] = {-1, -1}, turned[] = {1, 0};
  keel_builder *b = create_builder(context, "turn");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, open);
  keel_value bias = keel_builder_input(b, "bias", KD_F32, 2, open);
  keel_value order = constant_of(b, integers(2, turned));
  keel_value shape = op(b, "Gather", op(b, "Shape", x, KEEL_ABSENT), order);
  keel_value swap = op(b, "Relu", x, KEEL_ABSENT);
  keel_attr perm = KEEL_INTS("perm", 2, turned);
  swap = keel_builder_op(b, "Transpose", &perm, 1, &swap, 1);
  const int64_t flat = -1;
  swap = op(b, "Reshape", swap, constant_of(b, integers(1, &flat)));
  swap = op(b, "Reshape", swap, shape);
  return plan_giving(
      b, op(b, "Add", swap, bias),
      PLAN_PARAMS(.flags = flags, .version_bytes = version_bytes));
}

static keel_plan *plan_of_turning(uint32_t flags) {
  return plan_turning(flags, 0);
}

static keel_plan *plan_within(uint64_t version_bytes) {
  return plan_turning(0, version_bytes);
}

static keel_status try_turning(keel_plan *plan, int64_t n, int64_t m,
                               int64_t bias_m, keel_tensor **y) {
  float data[2048], bias[2048];
  for (int i = 0; i < 2048; i++) {
    data[i] = (float)(i % 5 - 2);
    bias[i] = (float)i;
  }
  keel_tensor *in[2];
  keel_tensor_create(context, KD_F32, DIMS(n, m), data, &in[0]);
  keel_tensor_create(context, KD_F32, DIMS(bias_m, n), bias, &in[1]);
  keel_status status = keel_plan_run(plan, in, 2, y, 1);
  release_all(in, 2);
  return status;
}

static void turn(keel_plan *plan, int64_t n, int64_t m) {
  keel_tensor *y = NULL;
  if (try_turning(plan, n, m, m, &y) != KD_OK) fail_msg("%s", keel_message());
  if (plan->versions) keel_versions_await(plan->versions);
  const int64_t *dims = keel_tensor_dims(y);
  assert_true(dims[0] == m && dims[1] == n);
  const float *got = keel_tensor_data(y);
  for (int64_t i = 0; i < m; i++)
    for (int64_t k = 0; k < n; k++) {
      float x = (float)((k * m + i) % 5 - 2);
      assert_true(got[i * n + k] == (x > 0 ? x : 0) + (float)(i * n + k));
    }
  keel_tensor_release(y);
}

static bool is_planned(keel_plan *plan) {
  return keel_plan_memory(plan, NULL, NULL, NULL) == KD_OK;
}

static uint32_t versions_of(keel_plan *plan) {
  keel_plan *all[KEEL_VERSIONS_MOST];
  uint32_t count = keel_versions_list(plan->versions, all);
  for (uint32_t i = 0; i < count; i++)
    keel_plan_release(all[i]);
  return count;
}

/* ---- what comes again ------------------------------------------------------------------ */

TEST_THAT(shapes_that_come_again_are_constants) {
  keel_plan *plan = plan_of_turning(0), *one = plan_of_turning(KEEL_PLAN_ONE);
  turn(plan, 2, 4); /* the first ones have a plan at once: these are not */
  /* they come; come again, and a plan is made; it meets them; lays them */
  for (int i = 0; i < 4; i++) {
    assert_false(is_planned(plan));
    turn(plan, 3, 4);
    turn(one, 3, 4);
  }
  assert_true(is_planned(plan)); /* nothing but kernels and views is left */
  assert_false(is_planned(one)); /* shapes are computed each time */
  keel_plan *version = keel_versions_last(plan->versions);
  assert_non_null(version);
  assert_true(version->main->step_count < plan->main->step_count);
  RELEASE(version, plan, one);
}

TEST_THAT(the_first_shapes_have_a_plan_at_once) {
  keel_plan *plan = plan_of_turning(0);
  assert_null(keel_versions_last(plan->versions));
  turn(plan, 3, 4);
  assert_int_equal(versions_of(plan), 1);
  turn(plan, 3, 4);
  assert_int_equal(versions_of(plan), 1);
  assert_true(is_planned(plan));
  /* the plan itself has not run: what its kernels would pack is packed once */
  assert_false(atomic_load(&plan->main->types_final));
  keel_plan_release(plan);
}

TEST_THAT(other_shapes_that_come_once_do_not_wait_for_a_version) {
  keel_plan *plan = plan_of_turning(0);
  for (int64_t n = 1; n <= 8; n++)
    for (int64_t m = 1; m <= 8; m++) {
      turn(plan, n, m);
      /* however long it took: the plan for all shapes is faster than making one */
      keel_versions_note(plan->versions, NULL, 1000000, 1);
    }
  assert_int_equal(versions_of(plan), 1); /* that of the first ones */
  keel_plan_release(plan);
}

static uint64_t made_of(keel_plan *plan) {
  keel_version_counts counts;
  keel_plan_versions(plan, &counts);
  return counts.made;
}

/* Runs of shapes for which the plan for all shapes is told to take days: the less of two counts. */
static void turn_to_a_gain(keel_plan *plan, int64_t count) {
  for (int64_t n = 1; n <= count; n++) {
    for (int i = 0; i < 2; i++)
      keel_versions_note(plan->versions, NULL, 1, UINT64_C(1) << 50);
    turn(plan, n, 2);
  }
}

TEST_THAT(shapes_beyond_the_versions_kept_get_one_for_a_run) {
  const int64_t sets = 2 * KEEL_VERSIONS_MOST;
  keel_plan *plan = plan_of_turning(0);
  turn_to_a_gain(plan, sets);
  assert_int_equal(versions_of(plan), KEEL_VERSIONS_MOST);
  /* some runs ask what the plan for all shapes takes: fewer and fewer */
  assert_in_range(made_of(plan), sets - 8, sets - 3);
  uint64_t before = made_of(plan);
  turn_to_a_gain(plan, sets);
  assert_in_range(made_of(plan) - before, KEEL_VERSIONS_MOST - 8,
                  KEEL_VERSIONS_MOST + 8);
  keel_plan_release(plan);
}

static uint64_t evicted_of(keel_plan *plan) {
  keel_version_counts counts;
  keel_plan_versions(plan, &counts);
  return counts.evicted;
}

static uint64_t kept_bytes_of(keel_plan *plan) {
  keel_plan *all[KEEL_VERSIONS_MOST];
  uint64_t bytes = 0;
  bool whole = false;
  for (uint32_t i = keel_versions_list(plan->versions, all); i-- > 0;) {
    bytes += keel_plan_own_bytes(all[i], &whole);
    keel_plan_release(all[i]);
  }
  return bytes;
}

/* Thirty sets in turn: some have a version, and keep it; the others don't evict them. */
TEST_THAT(versions_keep_to_their_budget) {
  keel_plan *plain = plan_of_turning(0);
  for (int i = 0; i < 8; i++)
    turn(plain, 2, 3);
  const uint64_t one = kept_bytes_of(plain), budgets[] = {1, 4 * one, 12 * one};
  assert_true(one > 1000 && one < 1000000);
  keel_plan_release(plain);
  for (size_t i = 0; i < KEEL_COUNT_OF(budgets); i++) {
    keel_plan *plan = plan_within(budgets[i]);
    uint64_t evicted = 0;
    for (int round = 0; round < 40; round++) {
      if (round == 20) evicted = evicted_of(plan);
      for (int64_t n = 1; n <= 30; n++)
        turn(plan, n, 2);
    }
    /* one is kept, however large */
    assert_true(versions_of(plan) == 1 || kept_bytes_of(plan) <= budgets[i]);
    assert_in_range(versions_of(plan), 1 + budgets[i] / one / 2,
                    budgets[i] > one ? budgets[i] / one : 1);
    assert_true(evicted_of(plan) == evicted);
    keel_plan_release(plan);
  }
}

/* x + 1, where the ones are a constant of a version, of x's size. */
static void add_ones(keel_plan *plan, int64_t count) {
  static const float zeros[1 << 15];
  keel_tensor *x = create_tensor(context, KD_F32, 1, &count, zeros), *y = NULL;
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  keel_versions_await(plan->versions);
  assert_true(*(const float *)keel_tensor_data(y) == 1);
  RELEASE(x, y);
}

/* Its version goes, and is not kept again and again; those of other sizes stay. It may come at any time:
 * as the first set it is kept until another recurs. */
static void expect_others_alone(int64_t at) {
  const int64_t open = -1, large = 1 << 15;
  const float one = 1;
  keel_tensor *value = create_tensor(context, KD_F32, DIMS(1), &one);
  const keel_attr filled = {
      .name = "value", .kind = KD_ATTR_TENSOR, .tensor = value};
  keel_builder *b = create_builder(context, "ones");
  keel_value x = keel_builder_input(b, "x", KD_F32, 1, &open);
  keel_value shape = op(b, "Shape", x, KEEL_ABSENT);
  shape = keel_builder_op(b, "ConstantOfShape", &filled, 1, &shape, 1);
  keel_plan *plan = plan_giving(b, op(b, "Add", x, shape),
                                PLAN_PARAMS(.version_bytes = 3 * large));
  uint64_t evicted = 0;
  for (int round = 0; round < 40; round++) {
    if (round == 20) evicted = evicted_of(plan);
    for (int64_t count = 0; count < 7; count++)
      add_ones(plan, count == at ? large : 1 + count);
  }
  assert_true(evicted_of(plan) == evicted && evicted < 2);
  assert_in_range(versions_of(plan), 5, 6);
  RELEASE(plan, value);
}

TEST_THAT(one_set_that_is_too_large_leaves_the_others_alone) {
  for (int64_t at = 0; at < 7; at++)
    expect_others_alone(at);
}

TEST_THAT(prepared_versions_are_beyond_the_budget) {
  keel_plan *plan = plan_within(1);
  for (int64_t n = 1; n <= 9; n++) {
    const int64_t dims[] = {n, 2}, bias[] = {2, n};
    const keel_input_sizes sizes[] = {{.input = 0, .rank = 2, .dims = dims},
                                      {.input = 1, .rank = 2, .dims = bias}};
    expect_ok(keel_plan_prepare(plan, sizes, 2));
  }
  for (int round = 0; round < 10; round++)
    for (int64_t n = 1; n <= 12; n++)
      turn(plan, n, 2);
  assert_int_equal(versions_of(plan), 9);
  keel_plan_release(plan);
}

static void turn_times(keel_plan *plan, int times, int64_t n, int64_t m) {
  for (int i = 0; i < times; i++)
    turn(plan, n, m);
}

/* Nothing of a version that is being made is left behind. */
TEST_THAT(a_plan_ends_while_a_version_is_made) {
  for (int i = 0; i < 40; i++) {
    keel_plan *plan = plan_of_turning(0);
    keel_tensor *y = NULL;
    if (i % 2) keel_plan_profile(plan, KEEL_PROFILE_OPS);
    for (int64_t run = 0; run < 3; run++) { /* the second set comes again */
      expect_ok(try_turning(plan, 2 + (run > 0), 4, 4, &y));
      keel_tensor_release(y);
    }
    if (i % 4 == 3) keel_plan_profile(plan, 0);
    keel_plan_release(plan);
  }
}

/* There is no thread for that in it; what the parent made stays sound. */
TEST_THAT(a_child_weighs_no_version) {
  keel_plan *plan = plan_of_turning(0);
  turn_times(plan, 3, 2, 4);
  turn_times(plan, 10, 5, 4); /* it is to be weighed when another set comes */
  keel_version_counts before, after;
  keel_plan_versions(plan, &before);
  pid_t child = fork();
  if (!child) {
    turn(plan, 2, 4);
    turn(plan, 5, 4);
    keel_plan_versions(plan, &after);
    keel_plan_release(plan);
    _exit(after.misses != before.misses);
  }
  int status = -1;
  assert_true(child > 0 && waitpid(child, &status, 0) == child);
  assert_int_equal(status, 0);
  keel_plan_release(plan);
}

/* Whether the version that ran last is the one at an address, which is compared alone. */
static bool was_last(keel_plan *plan, const keel_plan *version) {
  keel_plan *last = keel_versions_last(plan->versions);
  keel_plan_release(last);
  return last == version;
}

TEST_THAT(shapes_in_turn_do_not_evict_each_other) {
  keel_plan *plan = plan_of_turning(0);
  turn_times(plan, 2, 1, 1);
  keel_plan *first = keel_versions_last(plan->versions);
  keel_plan_release(first);
  for (int i = 0; i < 3; i++)
    for (int64_t n = 1; n <= KEEL_VERSIONS_MOST; n++)
      turn(plan, n, 1);
  assert_int_equal(versions_of(plan), KEEL_VERSIONS_MOST);
  turn(plan, 1, 1);
  assert_true(was_last(plan, first));
  turn_times(plan, 3, 8, 8); /* one more than there are: none makes way */
  assert_true(was_last(plan, first));
  keel_plan_release(plan);
}

TEST_THAT(versions_unused_for_many_runs_make_way) {
  keel_plan *plan = plan_of_turning(0);
  for (int64_t n = 1; n <= KEEL_VERSIONS_MOST; n++)
    turn_times(plan, 3, n, 1);
  turn(plan, 1, 1);
  keel_plan *first = keel_versions_last(plan->versions);
  keel_plan_release(first);
  turn_times(plan, KEEL_VERSIONS_UNUSED, 1, 1);
  turn_times(plan, 3, 8, 8);
  assert_false(was_last(plan, first));
  turn(plan, 1, 1);
  assert_true(was_last(plan, first));
  for (int64_t n = 1; n <= 8;
       n++) /* the evicted ones and all others are right */
    for (int64_t m = 1; m <= 8; m++)
      turn_times(plan, 3, n, m);
  keel_plan_release(plan);
}

/* ---- from several threads ---------------------------------------------------------------- */

static void *turn_many(void *argument) {
  keel_plan *plan = argument;
  uint64_t random = (uint64_t)(uintptr_t)&plan;
  for (int i = 0; i < 300; i++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    turn(plan, 1 + (int64_t)(random >> 62), 1 + (int64_t)(random >> 60 & 3));
  }
  return NULL;
}

TEST_THAT(threads_share_versions) {
  keel_plan *plan = plan_of_turning(0);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, turn_many, plan);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  keel_plan_release(plan);
}

/* ---- what does not fit --------------------------------------------------------------------- */

TEST_THAT(wrong_shapes_are_told_as_ever) {
  keel_plan *plan = plan_of_turning(0), *one = plan_of_turning(KEEL_PLAN_ONE);
  char want[512];
  keel_tensor *y = NULL;
  assert_int_equal(try_turning(one, 3, 4, 5, &y), KD_INVALID_ARGUMENT);
  snprintf(want, sizeof want, "%s", keel_message());
  for (int i = 0; i < 5; i++) {
    assert_int_equal(try_turning(plan, 3, 4, 5, &y), KD_INVALID_ARGUMENT);
    assert_string_equal(keel_message(), want);
    turn(plan, 3, 4);
  }
  RELEASE(plan, one);
}

/* A plan of what is all known has none; nor has one where an input alone is a resource. */
TEST_THAT(what_is_known_is_made_once) {
  keel_builder *b = create_builder(context, "known");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(2));
  keel_value v = keel_builder_resource(b, "v");
  op(b, "keel::VariableAssign", v, x);
  keel_plan *plan = plan_giving(b, op(b, "Relu", x, KEEL_ABSENT), NULL);
  assert_null(plan->versions);
  keel_plan_release(plan);
}

/* The shape of x, which the program declares as 2 x 3, and x by a matrix of 3 x 1. */
static keel_program *declared(void) {
  const float three[] = {1, 1, 1};
  keel_builder *b = create_builder(context, "declared");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(2, 3));
  keel_builder_output(b, "shape", op(b, "Shape", x, KEEL_ABSENT));
  keel_value ones = add_constant(b, KD_F32, DIMS(3, 1), three);
  keel_builder_output(b, "sums", op(b, "MatMul", x, ones));
  return finish_program(b);
}

static keel_status run_declared(keel_plan *plan, kd_dtype dtype, int64_t n,
                                int64_t m) {
  int64_t got[2] = {0, 0};
  keel_tensor *x = NULL, *out[2];
  keel_tensor_create(context, dtype, DIMS(n, m), NULL, &x);
  keel_status status = keel_plan_run(plan, &x, 1, out, 2);
  keel_tensor_release(x);
  if (status != KD_OK) return status;
  expect_ok(keel_tensor_read(out[0], got, sizeof got));
  assert_true(got[0] == n && got[1] == m);
  assert_int_equal(keel_tensor_elements(out[1]), n);
  release_all(out, 2);
  return KD_OK;
}

/* What was planned for the shape that a program declares is not used for another. */
TEST_THAT(another_shape_than_declared_is_planned_apart) {
  keel_program *program = declared(), *compiled = NULL;
  keel_plan *plan = NULL, *narrow = NULL, *late = NULL;
  expect_ok(keel_plan_create(program, NULL, &plan));
  expect_ok(keel_program_compile(program, NULL, &compiled));
  expect_ok(keel_plan_create(compiled, NULL, &narrow));
  expect_ok(keel_plan_create(program, NULL, &late));
  keel_program_release(compiled);
  for (int i = 0; i < 4; i++) {
    expect_ok(run_declared(plan, KD_F32, 2, 3));
    expect_ok(run_declared(plan, KD_F32, 5, 3));
    expect_ok(run_declared(narrow, KD_F32, 2, 3));
  }
  /* where an op can't take it, the message says what was declared, too */
  expect_fails(run_declared(plan, KD_F32, 2, 4), KD_INVALID_ARGUMENT, "MatMul");
  expect_message("input \"x\" is f32[2,4], and the program declares f32[2,3]");
  expect_fails(run_declared(plan, KD_I32, 2, 3), KD_INVALID_ARGUMENT,
               "input \"x\" is i32[2,3], and the program declares f32[2,3]");
  /* what is compiled is for what was declared, and for nothing else */
  expect_fails(run_declared(narrow, KD_F32, 5, 3), KD_INVALID_ARGUMENT,
               "input \"x\" is f32[5,3], and the program declares f32[2,3],"
               " for which it is compiled");
  /* a plan of a program that was released has what it made of it */
  keel_program_release(program);
  expect_ok(run_declared(plan, KD_F32, 5, 3));
  expect_ok(run_declared(late, KD_F32, 2, 3));
  expect_fails(run_declared(late, KD_F32, 5, 3), KD_INVALID_ARGUMENT,
               "another shape needs the program, which was released");
  RELEASE(plan, late, narrow);
}

/* ---- on a device ---------------------------------------------------------------------------- */

/* x + Relu(large), of which the first rows are taken, on a device of its own memory. */
TEST_THAT(constants_are_brought_to_a_device_once) {
  enum { LARGE = 1 << 18 }; /* floats: a MiB */
  static float zeros[LARGE];
  keel_device *queue = find_device(context, "queue:0");
  keel_builder *b = create_builder(context, "device");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(-1));
  keel_value twice = op(b, "Relu", op(b, "Add", x, x), KEEL_ABSENT);
  keel_builder_output(b, "y", twice);
  keel_value large = keel_builder_input(b, "z", KD_F32, DIMS(LARGE));
  keel_builder_output(
      b, "sum",
      op(b, "Add", large, constant_of(b, floats(context, LARGE, zeros))));
  /* a recording would hold the outputs of its run */
  keel_plan *plan = finish_plan(
      b, PLAN_PARAMS(.device = queue, .flags = KEEL_PLAN_NO_REPLAY));
  keel_tensor *z = floats(context, LARGE, zeros), *there = tensor_on(z, queue);
  uint64_t first = 0;
  for (int64_t n = 1; n <= 6; n++)
    for (int i = 0; i < 4; i++) {
      const float data[] = {1, -2, 3, -4, 5, -6};
      const float want[] = {2, 0, 6, 0, 10, 0};
      keel_tensor *in[] = {floats(context, n, data), there}, *out[2];
      if (keel_plan_run(plan, in, 2, out, 2) != KD_OK)
        fail_msg("%s", keel_message());
      expect_floats(out[0], want, (size_t)n);
      RELEASE(in[0], out[0], out[1]);
      keel_stats stats;
      keel_get_stats(context, &stats);
      if (n == 1) first = stats.tensor_bytes;
      assert_true(stats.tensor_bytes < first + LARGE * sizeof(float) / 2);
    }
  RELEASE(z, there, plan);
}

/* ---- packed weights ------------------------------------------------------------------ */

enum { WIDE = 512, STATE = 128 };

static keel_value weight_of(keel_builder *b, kd_dtype dtype, uint32_t rank,
                            const int64_t *dims) {
  static const float zeros[WIDE * WIDE];
  return add_constant(b, dtype, rank, dims, zeros);
}

static keel_value product_of(keel_builder *b, keel_value x) {
  return op(b, "MatMul", x, weight_of(b, KD_F32, DIMS(WIDE, WIDE)));
}

static keel_value product_of_bytes(keel_builder *b, keel_value x) {
  keel_attr to = KEEL_INT("to", 2); /* u8 */
  x = keel_builder_op(b, "Cast", &to, 1, &x, 1);
  return op(b, "MatMulInteger", x, weight_of(b, KD_U8, DIMS(WIDE, WIDE)));
}

static keel_value states_of(keel_builder *b, keel_value x) {
  keel_attr hidden = KEEL_INT("hidden_size", STATE);
  const int64_t steps[] = {-1, 1, WIDE};
  x = op(b, "Reshape", x, constant_of(b, integers(3, steps)));
  keel_value in[] = {x, weight_of(b, KD_F32, DIMS(1, 4 * STATE, WIDE)),
                     weight_of(b, KD_F32, DIMS(1, 4 * STATE, STATE))};
  return keel_builder_op(b, "LSTM", &hidden, 1, in, 3);
}

static void run_rows(keel_plan *plan, int64_t rows) {
  static const float zeros[40 * WIDE];
  keel_tensor *y = NULL,
              *x = create_tensor(context, KD_F32, DIMS(rows, WIDE), zeros);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  keel_versions_await(plan->versions);
  RELEASE(x, y);
}

/* Bytes that malloc has given; a sanitizer counts none. */
static size_t allocated(void) {
  struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

/* Thirty versions more take less than the weights once more. */
TEST_THAT(versions_share_packed_weights) {
  keel_value (*const ops[])(keel_builder *, keel_value) = {
      product_of, product_of_bytes, states_of};
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    keel_builder *b = create_builder(context, "weights");
    keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(-1, WIDE));
    keel_plan *plan = plan_giving(b, ops[i](b, x), NULL);
    for (int64_t rows = 30; rows <= 40; rows++)
      for (int run = 0; run < 3; run++)
        run_rows(plan, rows);
    size_t before = allocated();
    for (int64_t rows = 1; rows < 30; rows++)
      for (int run = 0; run < 3; run++)
        run_rows(plan, rows);
    assert_true(versions_of(plan) == 40);
    size_t after = allocated();
    if (after > before + 1024 * 1024)
      fail_msg("op %zu: %zu bytes more", i, after - before);
    keel_plan_release(plan);
  }
}

/* One constant as the second matrix of two products, of which one transposes it: each has its
 * own packed form. */
TEST_THAT(forms_of_one_constant_stay_apart) {
  static float numbers[WIDE * WIDE], ones[2 * WIDE], got[2][2 * WIDE];
  const int64_t square[] = {WIDE, WIDE}, open[] = {-1, WIDE};
  float sum = 0;
  for (int i = 0; i < WIDE * WIDE; i++)
    numbers[i] = (float)(i / WIDE % 7);
  for (int i = 0; i < WIDE; i++)
    sum += (float)(i % 7);
  for (int i = 0; i < 2 * WIDE; i++)
    ones[i] = 1;
  keel_builder *b = create_builder(context, "forms");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, open);
  keel_value in[] = {x, add_constant(b, KD_F32, 2, square, numbers)};
  keel_attr turned = KEEL_INT("transB", 1);
  keel_builder_output(b, "y", keel_builder_op(b, "MatMul", NULL, 0, in, 2));
  keel_builder_output(b, "z", keel_builder_op(b, "Gemm", &turned, 1, in, 2));
  keel_plan *plan = finish_plan(b, NULL);
  for (int64_t run = 0; run < 6; run++) {
    const int64_t rows[] = {1 + run % 2, WIDE};
    keel_tensor *out[2], *feed = create_tensor(context, KD_F32, 2, rows, ones);
    expect_ok(keel_plan_run(plan, &feed, 1, out, 2));
    for (int k = 0; k < 2; k++)
      expect_ok(keel_tensor_read(out[k], got[k],
                                 (size_t)rows[0] * WIDE * sizeof(float)));
    for (int i = 0; i < rows[0] * WIDE; i++)
      assert_true(got[0][i] == sum &&
                  got[1][i] == (float)(WIDE * (i % WIDE % 7)));
    RELEASE(feed, out[0], out[1]);
  }
  keel_plan_release(plan);
}

/* ---- profiles ------------------------------------------------------------------------ */

static uint64_t calls_of(keel_plan *plan, const char *op, const char *types) {
  keel_profile_line line;
  uint64_t calls = 0;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    if (!strcmp(line.op, op) && (!types || !strcmp(line.types, types)))
      calls += line.calls;
  return calls;
}

TEST_THAT(a_profile_counts_versions_too) {
  keel_plan *plan = plan_of_turning(0);
  for (int i = 0; i < 4; i++)
    turn(plan, 3, 4); /* there before, and not counted */
  assert_int_equal(calls_of(plan, "Relu", NULL), 0);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  for (int i = 0; i < 5; i++) {
    turn(plan, 3, 4);
    turn(plan, 5, 2); /* made while it is counted */
  }
  assert_int_equal(calls_of(plan, "Relu", NULL), 10);
  assert_int_equal(calls_of(plan, "Relu", "f32[3,4]"), 5);
  assert_true(calls_of(plan, "Gather", NULL) < 10); /* it is folded */
  for (int64_t n = 1; n < KEEL_VERSIONS_MOST; n++)
    turn_times(plan, 2, n, 1);
  turn_times(plan, KEEL_VERSIONS_UNUSED, 1, 1);
  turn_times(plan, 2, 13, 3); /* one of before makes way */
  int calls = 10 + 2 * KEEL_VERSIONS_MOST + KEEL_VERSIONS_UNUSED;
  keel_plan_profile(plan, 0);
  turn(plan, 3, 4);
  assert_int_equal(calls_of(plan, "Relu", NULL), calls);
  keel_profile_device device;
  expect_ok(keel_plan_profile_device(plan, 0, &device));
  assert_true(device.calls >= 2 * (uint64_t)calls);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  assert_int_equal(calls_of(plan, "Relu", NULL), 0);
  turn(plan, 13, 3);
  assert_int_equal(calls_of(plan, "Relu", NULL), 1);
  keel_plan_release(plan); /* while it counts */
}

RUN_TESTS(begin, end)
