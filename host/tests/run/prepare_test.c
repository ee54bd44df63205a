/* prepare_test.c - versions that are made before a run, and how many there are. */
#include <keel/debug.h>

#include <pthread.h>

#include "plan/versions.h"
#include "program/function.h"
#include "testing.h"

static keel_context *context;

SETUP(begin) {
  context = open_with(CPU_PLUGIN, NULL, 2);
  return 0;
}

SETUP(end) {
  keel_close(context);
  return 0;
}

/* y = the rows of x, twice as large, one after the other; x of ROWS x COLUMNS. */
static keel_plan *plan_of_port(const int64_t *dims, uint32_t flags,
                               uint32_t port_flags) {
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_builder *b = create_builder(context, "rows");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  const int64_t one = 1, flat_ = -1;
  keel_tensor *flat = create_tensor(context, KD_I64, 1, &one, &flat_);
  keel_value y =
      op(b, "Reshape", op(b, "Add", x, x), keel_builder_constant(b, flat));
  keel_builder_output(b, "y", y);
  expect_ok(keel_builder_finish(b, &program));
  program->main->input_ports[0].flags = port_flags;
  expect_ok(keel_plan_create(program, PLAN_PARAMS(.flags = flags), &plan));
  RELEASE(flat, b, program);
  return plan;
}

static keel_plan *plan_of_rows(const int64_t *dims, uint32_t flags) {
  return plan_of_port(dims, flags, 0);
}

static const int64_t open_sizes[] = {-1, -1};

static void run_rows(keel_plan *plan, int64_t n, int64_t m) {
  float data[256];
  keel_tensor *y = NULL;
  assert_true(n * m <= 256);
  for (int i = 0; i < 256; i++)
    data[i] = (float)i;
  keel_tensor *x = create_tensor(context, KD_F32, 2, (int64_t[]){n, m}, data);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  if (plan->versions) keel_versions_await(plan->versions);
  const float *got = keel_tensor_data(y);
  for (int64_t i = 0; i < n * m; i++)
    assert_true(got[i] == 2 * (float)i);
  RELEASE(x, y);
}

static keel_status prepare(keel_plan *plan, int64_t n, int64_t m) {
  const int64_t dims[] = {n, m};
  const keel_input_sizes sizes = {.input = 0, .rank = 2, .dims = dims};
  return keel_plan_prepare(plan, &sizes, 1);
}

static keel_version_counts counts_of(keel_plan *plan) {
  keel_version_counts counts;
  keel_plan_versions(plan, &counts);
  return counts;
}

TEST_THAT(prepared_sizes_have_their_version_in_the_first_run) {
  keel_plan *plan = plan_of_rows(open_sizes, 0);
  assert_true(counts_of(plan).made == 0);
  for (int64_t n = 1; n <= 9; n++)
    for (int again = 0; again < 2; again++)
      expect_ok(prepare(plan, n, 2 * n + 1));
  keel_version_counts counts = counts_of(plan);
  assert_true(counts.made == 9 && counts.kept == 9 && counts.pinned == 9);
  assert_true(counts.hits == 0 && counts.misses == 0 && counts.time > 0);
  for (int64_t n = 9; n >= 1; n--)
    run_rows(plan, n, 2 * n + 1);
  counts = counts_of(plan);
  assert_true(counts.made == 9 && counts.hits == 9 && counts.misses == 0);
  run_rows(plan, 5, 5); /* the first sizes that nobody prepared */
  run_rows(plan, 6, 5);
  counts = counts_of(plan);
  assert_true(counts.misses == 2 && counts.made == 10 && counts.pinned == 9);
  keel_plan_release(plan);
}

/* As JAX's programs have them. */
TEST_THAT(sizes_of_an_input_that_is_to_be_donated_are_prepared) {
  keel_plan *plan = plan_of_port(open_sizes, 0, KEEL_PORT_DONATED);
  expect_ok(prepare(plan, 3, 4));
  run_rows(plan, 3, 4);
  assert_true(counts_of(plan).made == 1 && counts_of(plan).hits == 1);
  keel_plan_release(plan);
}

TEST_THAT(a_version_that_a_run_made_can_be_pinned) {
  keel_plan *plan = plan_of_rows(open_sizes, 0);
  run_rows(plan, 3, 4);
  expect_ok(prepare(plan, 3, 4));
  keel_version_counts counts = counts_of(plan);
  assert_true(counts.made == 1 && counts.kept == 1 && counts.pinned == 1);
  keel_plan_release(plan);
}

TEST_THAT(what_is_prepared_stays_and_the_rest_makes_way) {
  keel_plan *plan = plan_of_rows(open_sizes, 0);
  expect_ok(prepare(plan, 1, 1));
  for (int64_t n = 2; n <= KEEL_VERSIONS_MOST; n++)
    for (int i = 0; i < 2; i++)
      run_rows(plan, n, 1);
  assert_true(counts_of(plan).kept == KEEL_VERSIONS_MOST);
  expect_ok(prepare(plan, 7, 7)); /* at once, in place of one that a run made */
  assert_true(counts_of(plan).evicted == 1 && counts_of(plan).pinned == 2);
  for (int i = 0; i < KEEL_VERSIONS_UNUSED + 2; i++)
    run_rows(plan, 8, 8);
  keel_version_counts counts = counts_of(plan);
  assert_true(counts.evicted == 2);
  run_rows(plan, 1, 1);
  run_rows(plan, 7, 7);
  assert_true(counts_of(plan).hits == counts.hits + 2);
  keel_plan_release(plan);
}

TEST_THAT(as_many_as_a_plan_keeps_can_be_prepared) {
  keel_plan *plan = plan_of_rows(open_sizes, 0);
  for (int64_t n = 1; n <= KEEL_VERSIONS_MOST; n++)
    expect_ok(prepare(plan, n, 2));
  expect_fails(prepare(plan, 1, 3), KD_FAILED_PRECONDITION,
               "256 sets of sizes are prepared");
  expect_ok(prepare(plan, 9, 2));
  run_rows(plan, 1, 3);
  keel_plan_release(plan);
}

TEST_THAT(sizes_that_cannot_be_prepared_are_refused) {
  keel_plan *plan = plan_of_rows((int64_t[]){-1, 4}, 0);
  expect_fails(prepare(plan, -1, 4), KD_INVALID_ARGUMENT,
               "of input \"x\" is open");
  expect_fails(prepare(plan, 2, 5), KD_INVALID_ARGUMENT,
               "dimension 1 of input \"x\" is 4, and can't be 5");
  const keel_input_sizes flat = {.rank = 1, .dims = open_sizes},
                         other = {.input = 1, .rank = 2, .dims = open_sizes};
  expect_fails(keel_plan_prepare(plan, &flat, 1), KD_INVALID_ARGUMENT,
               "has 2 dimensions, not 1");
  expect_fails(keel_plan_prepare(plan, &other, 1), KD_OUT_OF_RANGE,
               "the program has 1 inputs, not 2");
  expect_fails(keel_plan_prepare(plan, NULL, 0), KD_INVALID_ARGUMENT,
               "name the sizes of all inputs");
  assert_true(counts_of(plan).made == 0);
  keel_plan_release(plan);
  plan = plan_of_rows(open_sizes, KEEL_PLAN_ONE);
  expect_fails(prepare(plan, 2, 2), KD_FAILED_PRECONDITION,
               "this plan is for all sizes alone");
  keel_plan_release(plan);
}

TEST_THAT(a_program_of_known_sizes_needs_no_version) {
  keel_plan *plan = plan_of_rows((int64_t[]){3, 4}, 0);
  expect_ok(prepare(plan, 3, 4));
  expect_ok(keel_plan_prepare(plan, NULL, 0));
  expect_fails(prepare(plan, 3, 5), KD_INVALID_ARGUMENT, "can't be 5");
  assert_true(counts_of(plan).made == 0);
  run_rows(plan, 3, 4);
  keel_plan_release(plan);
}

/* A plan with versions, and runs of new sizes by the plan for all sizes that took that long. */
static keel_plan *plan_with_times(uint64_t time) {
  keel_plan *plan = plan_of_rows(open_sizes, 0);
  for (int64_t n = 1; n <= 3; n++)
    for (int i = 0; i < 3; i++)
      run_rows(plan, n, 4);
  assert_true(counts_of(plan).made == 3);
  for (int i = 0; i < 4; i++)
    keel_versions_note(plan->versions, NULL, 16, time);
  return plan;
}

static const uint64_t hour = UINT64_C(3600000000000);

TEST_THAT(new_sizes_have_a_version_at_once_where_one_run_pays_for_it) {
  keel_plan *plan = plan_with_times(hour);
  for (int64_t n = 5; n < 13; n++)
    run_rows(plan, n, 4);
  assert_true(counts_of(plan).made == 3 + 7); /* one in eight is looked at */
  keel_plan_release(plan);
  plan = plan_with_times(1);
  for (int64_t n = 5; n < 13; n++) {
    run_rows(plan, n, 4);
    keel_versions_note(plan->versions, NULL, 16, 1); /* however long it took */
  }
  assert_true(counts_of(plan).made == 3);
  keel_plan_release(plan);
}

TEST_THAT(one_slow_run_makes_no_version) {
  keel_plan *plan = plan_with_times(1);
  keel_versions_note(plan->versions, NULL, 16, hour);
  run_rows(plan, 5, 4);
  assert_true(counts_of(plan).made == 3);
  keel_plan_release(plan);
}

TEST_THAT(versions_are_made_to_know_what_they_take) {
  /* but where making one alone takes longer than the run */
  const uint64_t times[] = {hour, 1};
  for (int i = 0; i < 2; i++) {
    keel_plan *plan = plan_of_rows(open_sizes, 0);
    run_rows(plan, 1, 4);
    for (int64_t n = 2; n <= 5; n++) { /* none comes again */
      for (int k = 0; k < 2; k++)
        keel_versions_note(plan->versions, NULL, 16, times[i]);
      run_rows(plan, n, 4);
    }
    uint64_t made = counts_of(plan).made; /* with that of the first sizes */
    assert_true(i ? made == 1 : made > 2);
    keel_plan_release(plan);
  }
}

static void *prepare_and_run(void *argument) {
  keel_plan *plan = argument;
  for (int64_t i = 0; i < 40; i++) {
    expect_ok(prepare(plan, 1 + i % 5, 3));
    run_rows(plan, 1 + i % 7, 3);
  }
  return NULL;
}

TEST_THAT(threads_prepare_the_same_sizes_once) {
  keel_plan *plan = plan_of_rows(open_sizes, 0);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, prepare_and_run, plan);
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  keel_version_counts counts = counts_of(plan);
  assert_true(counts.pinned == 5 && counts.kept <= 7); /* none is kept twice */
  assert_true(counts.hits + counts.misses == 160);
  keel_plan_release(plan);
}

RUN_TESTS(begin, end)
