/* footprint_test.c - what a plan holds, by device, and what is left when it is gone. */
#include <pthread.h>

#include "testing.h"
#include "toy/toy.h"
#define BESIDE  TOY("queue")
#define WORKERS 2
#include "with_cpu.h"

enum { WIDE = 300, BYTES = WIDE * WIDE * 4 };

/* A chain of an op of x, N x WIDE, and weights. */
static keel_plan *plan_of_layers(const char *name, int64_t n, int layers,
                                 const char *device,
                                 keel_program **out_program) {
  const int64_t dims[] = {n, WIDE}, square[] = {WIDE, WIDE};
  keel_builder *b = create_builder(context, "layers");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  float *data = calloc(WIDE * WIDE, sizeof *data);
  for (int i = 0; i < layers; i++) {
    for (int k = 0; k < WIDE; k++)
      data[k * WIDE + k] = (float)(i + 1);
    keel_tensor *w = create_tensor(context, KD_F32, 2, square, data);
    x = op(b, name, x, keel_builder_constant(b, w));
    keel_tensor_release(w);
  }
  free(data);
  keel_plan *plan = NULL;
  keel_program *program = NULL;
  keel_builder_output(b, "y", x);
  expect_ok(keel_builder_finish(b, &program));
  expect_ok(keel_plan_create(
      program, PLAN_PARAMS(.device = find_device(context, device)), &plan));
  keel_builder_destroy(b);
  if (out_program)
    *out_program = program;
  else
    keel_program_release(program);
  return plan;
}

static void run(keel_plan *plan, int64_t n) {
  const int64_t dims[] = {n, WIDE};
  keel_tensor *x = create_tensor(context, KD_F32, 2, dims, NULL), *y = NULL;
  keel_version_counts counts;
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  keel_plan_versions(plan, &counts); /* waits for one that is made */
  RELEASE(x, y);
}

static const char *device_name(uint32_t index) {
  keel_device_facts facts;
  keel_device_describe(keel_device_at(context, index), &facts);
  return facts.name;
}

/* Of all devices. */
static keel_footprint sum_of(keel_plan *plan) {
  keel_footprint sum = {0}, one;
  uint32_t i = 0;
  for (; keel_plan_footprint(plan, i, &one) == KD_OK; i++) {
    assert_string_equal(one.device, i ? device_name(i - 1) : "host");
    sum.constants += one.constants;
    sum.mapped += one.mapped;
    sum.taken += one.taken;
    sum.recorded += one.recorded;
    sum.values = one.values > sum.values ? one.values : sum.values;
  }
  assert_int_equal(i, keel_device_count(context) + 1);
  expect_message("the context has");
  return sum;
}

static bool is_about(uint64_t bytes, uint64_t want) {
  return bytes >= want && bytes <= want + want / 4 + 4096;
}

TEST_THAT(weights_count_once_for_all_versions) {
  for (int layers = 1; layers < 6; layers += 2) {
    keel_program *program = NULL;
    keel_plan *plan = plan_of_layers("MatMul", -1, layers, "cpu:0", &program);
    const uint64_t weights = (uint64_t)layers * BYTES;
    assert_true(is_about(sum_of(plan).constants, weights));
    assert_int_equal(sum_of(plan).taken, 0);
    for (int64_t n = 1; n < 12; n++)
      for (int k = 0; k < 3; k++)
        run(plan, n);
    keel_version_counts counts;
    keel_plan_versions(plan, &counts);
    assert_true(counts.kept > 3);
    keel_footprint sum = sum_of(plan);
    assert_true(is_about(sum.constants, weights));
    assert_int_equal(sum.taken, weights);
    if (layers > 1) assert_true(sum.values > 0);
    RELEASE(program, plan);
  }
}

/* Sizes are known, and the program is gone: what kernels have packed is all that is left. */
TEST_THAT(weights_that_go_are_not_counted) {
  keel_plan *plan = plan_of_layers("MatMul", 5, 3, "cpu:0", NULL);
  assert_true(is_about(sum_of(plan).constants, 3 * BYTES));
  run(plan, 5);
  keel_footprint sum = sum_of(plan);
  assert_true(sum.constants < BYTES);
  assert_int_equal(sum.taken, 3 * BYTES);
  run(plan, 5);
  keel_plan_release(plan);
}

TEST_THAT(a_devices_copies_are_its_own) {
  keel_program *program = NULL;
  keel_plan *plan = plan_of_layers("Add", WIDE, 2, "queue:0", &program);
  run(plan, WIDE);
  keel_footprint one, all = sum_of(plan);
  assert_true(all.constants >= 2 * (uint64_t)BYTES);
  for (uint32_t i = 0; i <= keel_device_count(context); i++) {
    expect_ok(keel_plan_footprint(plan, i, &one));
    assert_true(one.constants <= all.constants);
    assert_true(!one.mapped || !i);
  }
  RELEASE(program, plan);
}

/* While the plan runs on other threads. */
static void *run_often(void *plan) {
  for (int i = 0; i < 400; i++)
    run(plan, 1 + i % 9);
  return NULL;
}

TEST_THAT(it_is_asked_for_beside_runs) {
  keel_program *program = NULL;
  keel_plan *plan = plan_of_layers("MatMul", -1, 3, "cpu:0", &program);
  pthread_t threads[2];
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, run_often, plan), 0);
  for (int i = 0; i < 200; i++) {
    keel_footprint sum = sum_of(plan);
    assert_true(is_about(sum.constants, 3 * BYTES));
    assert_true(sum.taken <= 3 * BYTES);
    if (i % 50 == 0) keel_trim(context);
  }
  for (int i = 0; i < 2; i++)
    pthread_join(threads[i], NULL);
  RELEASE(program, plan);
}

TEST_THAT(nothing_of_a_model_stays) {
  keel_stats before, after;
  keel_trim(context);
  keel_get_stats(context, &before);
  for (int i = 0; i < 20; i++) {
    keel_plan *plan =
        plan_of_layers("MatMul", i & 1 ? -1 : 700, 3, "cpu:0", NULL);
    for (int k = 0; k < 4; k++)
      run(plan, i & 1 ? 600 + i * 40 + k : 700);
    keel_plan_release(plan);
  }
  keel_get_stats(context, &after);
  assert_int_equal(after.tensor_bytes, before.tensor_bytes);
  assert_true(after.pooled_bytes < 1u << 20);
  keel_trim(context);
  keel_get_stats(context, &after);
  assert_int_equal(after.pooled_bytes, 0);
}

RUN_TESTS(open_cpu, close_context)
