/* constants_test.c - constants that kernels take: one kernel has them for all sizes, and they are in a
 * device's memory only where a launch reads them. */
#include <keel/debug.h>

#include <pthread.h>

#include "one_context.h"
#include "plan/versions.h"
#include "toy/toy.h"

#define WIDE 32 /* a slope, which is of as many equal elements */
#define MOST 20 /* rows */

static toy_state *toy;

SETUP(begin) {
  context = open_with(TOY("packs"), NULL, 2);
  toy = toy_of(TOY("packs"));
  return 0;
}

SETUP(end) {
  keel_close(context);
  return 0;
}

/* What is counted so far. */
typedef struct counts {
  int created, copies_in;
} counts;

static counts counts_now(void) {
  return (counts){toy->created, toy->copies_in};
}

static keel_value slope_of(keel_builder *b, int64_t width, float slope) {
  float *data = malloc((size_t)width * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < width; i++)
    data[i] = slope;
  keel_value made = add_constant(b, KD_F32, 1, &width, data);
  free(data);
  return made;
}

/* PRelu in turn by each slope; `rows` -1: any number. */
static keel_plan *plan_within(uint64_t version_bytes, int64_t rows,
                              int64_t width, const float *slopes, int count,
                              uint32_t flags) {
  keel_builder *b = create_builder(context, "slopes");
  keel_value y = keel_builder_input(b, "x", KD_F32, DIMS(rows, width));
  for (int i = 0; i < count; i++)
    y = op(b, "PRelu", y, slope_of(b, width, slopes[i]));
  return plan_giving(
      b, y, PLAN_PARAMS(.flags = flags, .version_bytes = version_bytes));
}

static keel_plan *plan_of_slopes(int64_t rows, int64_t width,
                                 const float *slopes, int count,
                                 uint32_t flags) {
  return plan_within(0, rows, width, slopes, count, flags);
}

/* Runs it on rows of negative numbers, which the slopes multiply. */
static void run_slopes(keel_plan *plan, int64_t rows, int64_t width,
                       float product) {
  float *data = malloc((size_t)(rows * width) * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < rows * width; i++)
    data[i] = -(float)(i % 11);
  keel_tensor *x = create_tensor(context, KD_F32, DIMS(rows, width), data),
              *y = NULL;
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  expect_ok(keel_tensor_read(y, data, (size_t)(rows * width) * sizeof *data));
  for (int64_t i = 0; i < rows * width; i++)
    assert_true(data[i] == -(float)(i % 11) * product);
  free(data);
  RELEASE(x, y);
}

TEST_THAT(one_kernel_serves_all_sizes_of_a_node) {
  const float slopes[] = {2, .5F, 4};
  for (uint32_t flags = 0; flags <= KEEL_PLAN_ONE; flags += KEEL_PLAN_ONE) {
    counts before = counts_now();
    keel_plan *plan = plan_of_slopes(-1, WIDE, slopes, 3, flags);
    for (int round = 0; round < 3; round++)
      for (int64_t rows = 1; rows <= MOST; rows++)
        run_slopes(plan, rows, WIDE, 4);
    assert_int_equal(counts_now().created - before.created, 3);
    /* the inputs alone */
    assert_int_equal(counts_now().copies_in - before.copies_in, 3 * MOST);
    assert_int_equal(toy->kernels, 3);
    keel_plan_release(plan);
    assert_int_equal(toy->kernels, 0); /* with the plan's end they go */
  }
}

TEST_THAT(versions_that_live_on_keep_a_shared_kernel) {
  const float slopes[] = {3};
  counts before = counts_now();
  keel_version_counts versions;
  keel_plan *plan = plan_of_slopes(-1, WIDE, slopes, 1, 0);
  run_slopes(plan, 1, WIDE, 3);
  for (int i = 0; i < 3; i++)
    run_slopes(plan, 2, WIDE, 3);
  keel_plan_versions(plan, &versions); /* waits for the second one */
  /* the first version is evicted: as many others as a plan keeps are pinned */
  for (int64_t rows = 3; rows < KEEL_VERSIONS_MOST + 2; rows++) {
    const int64_t dims[] = {rows, WIDE};
    const keel_input_sizes sizes = {.input = 0, .rank = 2, .dims = dims};
    expect_ok(keel_plan_prepare(plan, &sizes, 1));
  }
  keel_plan_versions(plan, &versions);
  assert_true(versions.evicted > 0);
  run_slopes(plan, 7, WIDE, 3);
  run_slopes(plan, 1, WIDE, 3);
  keel_plan_release(plan);
  /* once more at most: when the last version with the kernel went before the next one ran */
  assert_in_range(counts_now().created - before.created, 1, 2);
  assert_int_equal(toy->kernels, 0);
}

TEST_THAT(other_constants_have_another_kernel) {
  const float slopes[] = {2, 2, 2};
  counts before = counts_now();
  keel_plan *a = plan_of_slopes(-1, WIDE, slopes, 2, 0),
            *b = plan_of_slopes(-1, WIDE, slopes + 2, 1, 0);
  for (int64_t rows = 1; rows <= 5; rows++) {
    run_slopes(a, rows, WIDE, 4);
    run_slopes(b, rows, WIDE, 2);
  }
  int made = counts_now().created - before.created;
  assert_in_range(made, 2, 3); /* equal ones of a program may be one */
  RELEASE(a, b);
}

/* One of two plans ends while the other's kernel, of the same program, is used. */
TEST_THAT(plans_of_one_program_share_kernels) {
  keel_builder *b = create_builder(context, "shared");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(-1, WIDE));
  keel_value y = op(b, "PRelu", x, slope_of(b, WIDE, 5));
  keel_program *program = NULL;
  keel_builder_output(b, "y", y);
  expect_ok(keel_builder_finish(b, &program));
  keel_builder_destroy(b);
  keel_plan *plans[2] = {NULL, NULL};
  counts before = counts_now();
  for (int i = 0; i < 2; i++)
    expect_ok(keel_plan_create(program, NULL, &plans[i]));
  keel_program_release(program);
  run_slopes(plans[0], 3, WIDE, 5);
  run_slopes(plans[1], 4, WIDE, 5);
  assert_int_equal(counts_now().created - before.created, 1);
  keel_plan_release(plans[0]);
  run_slopes(plans[1], 4, WIDE, 5);
  run_slopes(plans[1], 6, WIDE, 5);
  assert_int_equal(counts_now().created - before.created, 1);
  keel_plan_release(plans[1]);
  assert_int_equal(toy->kernels, 0);
}

/* Each slope is a quarter of the device's memory. */
TEST_THAT(constants_that_kernels_take_need_no_memory_of_the_device) {
  const int64_t width = 1 << 16;
  const float slopes[] = {2, .5F, 4, .25F, 8, .125F, 2, .5F};
  for (int64_t rows = -1; rows <= 1; rows += 2) {
    keel_plan *plan = plan_of_slopes(rows, width, slopes, 8, 0);
    for (int i = 0; i < 4; i++)
      run_slopes(plan, 1, width, 1);
    keel_plan_release(plan);
  }
}

TEST_THAT(constants_that_launches_read_are_copied_once_for_all_sizes) {
  const float slopes[] = {2, .5F, 4};
  toy->leaves = 1;
  for (int64_t rows = -1; rows <= 7; rows += 8) {
    counts before = counts_now();
    keel_plan *plan = plan_of_slopes(rows, WIDE, slopes, 3, 0);
    assert_int_equal(counts_now().copies_in, before.copies_in);
    for (int round = 0; round < 3; round++)
      for (int64_t n = 1; n <= MOST; n++)
        run_slopes(plan, rows < 0 ? n : rows, WIDE, 4);
    assert_int_equal(counts_now().copies_in - before.copies_in, 3 * MOST + 3);
    keel_plan_release(plan);
  }
  toy->leaves = 0;
}

/* What a version's recording holds is known after some runs; then the largest goes. */
TEST_THAT(recordings_count_as_memory_of_versions) {
  const float slopes[] = {2, .5F, 4};
  for (int64_t at = 1; at < 7; at++) {
    keel_version_counts counts;
    keel_plan *plan = plan_within(250000, -1, WIDE, slopes, 3, 0);
    for (int round = 0; round < 60; round++)
      for (int64_t rows = 1; rows < 7; rows++) {
        run_slopes(plan, rows == at ? 1000 : rows, WIDE, 4);
        keel_plan_versions(plan, &counts); /* waits */
      }
    assert_true(counts.kept == 5 && counts.evicted == 1);
    keel_plan_release(plan);
  }
}

static void *run_many(void *plan) {
  for (int64_t i = 0; i < 40; i++)
    run_slopes(plan, 1 + i % 5, WIDE, 4);
  return NULL;
}

/* All of them read the constants first, and meet kernels that another makes. */
TEST_THAT(threads_share_constants_and_kernels) {
  const float slopes[] = {2, .5F, 4};
  for (int leaves = 0; leaves < 2; leaves++) {
    pthread_t threads[4];
    counts before = counts_now();
    toy->leaves = leaves;
    keel_plan *plan = plan_of_slopes(-1, WIDE, slopes, 3, 0);
    for (int i = 0; i < 4; i++)
      pthread_create(&threads[i], NULL, run_many, plan);
    for (int i = 0; i < 4; i++)
      pthread_join(threads[i], NULL);
    assert_int_equal(counts_now().copies_in - before.copies_in,
                     4 * 40 + 3 * leaves);
    keel_plan_release(plan);
    assert_int_equal(toy->kernels, 0);
  }
  toy->leaves = 0;
}

TEST_THAT(a_constant_that_has_no_room_is_named) {
  const int64_t width = 140000; /* more than half of it is the input's */
  const float slopes[] = {2};
  toy->leaves = 1;
  keel_plan *plan = plan_of_slopes(1, width, slopes, 1, 0);
  float *data = calloc((size_t)width, sizeof *data);
  keel_tensor *x = create_tensor(context, KD_F32, DIMS(1, width), data),
              *y = NULL;
  free(data);
  expect_fails(keel_plan_run(plan, &x, 1, &y, 1), KD_OUT_OF_MEMORY,
               "for input 1, f32[140000]");
  RELEASE(x);
  keel_plan_release(plan);
  toy->leaves = 0;
}

RUN_TESTS(begin, end)
