/* weights_test.c - weights that are in a device's memory are not held by the host as well. */
#include "device/device.h"
#include "one_context.h"
#include "plan/plan.h"

enum { SIDE = 512, COUNT = SIDE * SIDE, BYTES = COUNT * 4, ROWS = 3 };

static float weight(int64_t i, int seed) {
  return (float)((i * 7919 + seed) % 41 - 20) / 8;
}

static keel_value weights(keel_builder *builder, int seed) {
  static float data[COUNT];
  for (int64_t i = 0; i < COUNT; i++)
    data[i] = weight(i, seed);
  return add_constant(builder, KD_F32, DIMS(SIDE, SIDE), data);
}

/* Ends the builder. The plan alone has the weights. */
static keel_plan *end_on(keel_builder *builder, keel_device *device) {
  static const char *const skip[] = {"regions"};
  return finish_plan(
      builder, PLAN_PARAMS(.device = device, .skip = skip, .skip_count = 1));
}

/* y = a[x] + b[x], of few rows. */
static keel_plan *rows_on(keel_device *device) {
  const int64_t rows = ROWS;
  keel_builder *builder = create_builder(context, "rows");
  keel_value x = keel_builder_input(builder, "x", KD_I64, 1, &rows);
  keel_value a = op(builder, "Gather", weights(builder, 1), x);
  keel_value b = op(builder, "Gather", weights(builder, 2), x);
  keel_builder_output(builder, "y", op(builder, "Add", a, b));
  return end_on(builder, device);
}

static void run(keel_plan *plan) {
  const int64_t rows = ROWS, at[ROWS] = {5, 0, SIDE - 1};
  float back[ROWS * SIDE];
  keel_tensor *x = create_tensor(context, KD_I64, 1, &rows, at);
  keel_tensor *y = output_of(plan, &x, 1);
  expect_ok(keel_tensor_read(y, back, sizeof back));
  for (int64_t i = 0; i < ROWS * SIDE; i++) {
    int64_t from = at[i / SIDE] * SIDE + i % SIDE;
    if (back[i] != weight(from, 1) + weight(from, 2))
      fail_msg("element %d is %g", (int)i, (double)back[i]);
  }
  RELEASE(x, y);
}

/* The weights are in the device's memory; whether the host still has them, too. */
static void expect_host_copies(const keel_plan *plan, uint32_t want) {
  const keel_function *function = plan->executables->function;
  uint32_t placed = 0, copies = 0;
  for (uint32_t i = 0; i < function->value_count; i++)
    if (function->values[i].placed) {
      placed++;
      copies += function->values[i].constant->buffer != NULL;
    }
  assert_int_equal(placed, 2);
  assert_int_equal(copies, want);
}

/* Skipped where the plugin is not there, or has no device. */
static void expect_held_once(const char *plugin, const char *device) {
  keel_device *found = NULL;
  context = open_with(plugin, NULL, 2);
  if (keel_device_find(context, device, &found) != KD_OK) {
    keel_close(context);
    skip();
  }
  keel_plan *plan = rows_on(found);
  uint64_t before = live_bytes(context);
  run(plan);
  run(plan); /* the copies to the device are known to be there */
  uint64_t after = live_bytes(context);
  expect_host_copies(plan, 0);
  /* before, the host has them; after, the device, but for what it imported */
  if (after > before + BYTES / 4)
    fail_msg("%llu bytes before the first run, and %llu after it",
             (unsigned long long)before, (unsigned long long)after);
  for (int i = 0; i < 4; i++) /* in static runs and recordings */
    run(plan);
  RELEASE(plan, context);
}

TEST_THAT(kernels_that_look_in_create) {
#ifdef SIM_PLUGIN
  expect_held_once(SIM_PLUGIN, "sim:0");
#else
  skip();
#endif
}

/* y = x + a + b, by kernels that do not say when they read constants. */
TEST_THAT(kernels_that_may_ask_again) {
  static float data[COUNT], back[COUNT];
  const int64_t dims[] = {SIDE, SIDE};
  keel_tensor *x = NULL, *y = NULL;
  keel_device *queue = NULL;
  context = open_with(TEST_FOLDER "/queue.so", NULL, 2);
  expect_ok(keel_device_find(context, "queue:0", &queue));
  keel_builder *builder = create_builder(context, "sum");
  keel_value in = keel_builder_input(builder, "x", KD_F32, 2, dims);
  in = op(builder, "Add", in, weights(builder, 1));
  keel_builder_output(builder, "y",
                      op(builder, "Add", in, weights(builder, 2)));
  keel_plan *plan = end_on(builder, queue);
  x = create_tensor(context, KD_F32, 2, dims, data);
  for (int run = 0; run < 4; run++) {
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    expect_ok(keel_tensor_read(y, back, sizeof back));
    for (int64_t i = 0; i < COUNT; i++)
      assert_true(back[i] == weight(i, 1) + weight(i, 2));
    keel_tensor_release(y);
    expect_host_copies(plan, 2);
  }
  RELEASE(x, plan, context);
}

static uint64_t pooled(void) {
  keel_stats stats;
  keel_get_stats(context, &stats);
  return stats.pooled_bytes;
}

/* y = x a of [?, SIDE] by rows that are all ones. */
static void run_ones(keel_plan *plan, int64_t rows) {
  static float ones[64 * SIDE];
  for (int64_t i = 0; i < rows * SIDE; i++)
    ones[i] = 1;
  keel_tensor *x = create_tensor(context, KD_F32, DIMS(rows, SIDE), ones);
  keel_tensor *y = output_of(plan, &x, 1);
  expect_ok(keel_tensor_wait(y));
  RELEASE(x, y);
}

static keel_plan *product_of(int64_t rows) {
  keel_builder *b = create_builder(context, "product");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(rows, SIDE));
  return plan_giving(b, op(b, "MatMul", x, weights(b, 1)), NULL);
}

/* What kernels have packed leaves the pool with the first run. Plans for other sizes share it: they
 * let go of nothing, and the pool keeps what it has. */
TEST_THAT(pools_give_back_the_weights_alone) {
  context = open_with(CPU_PLUGIN, NULL, 2);
  keel_plan *plan = product_of(4);
  uint64_t before = live_bytes(context);
  run_ones(plan, 4);
  assert_true(before >= BYTES && live_bytes(context) < BYTES / 2);
  assert_true(pooled() < BYTES / 2);
  keel_plan_release(plan);
  plan = product_of(-1);
  run_ones(plan, 64);
  keel_tensor_release(
      create_tensor(context, KD_F32, DIMS(2 * SIDE, SIDE), NULL));
  before = pooled();
  assert_true(before >= BYTES);
  for (int64_t rows = 1; rows <= 8; rows++)
    for (int i = 0; i < 3; i++)
      run_ones(plan, rows);
  assert_true(pooled() >= before);
  RELEASE(plan, context);
}

TEST_THAT(kernels_of_opencl) {
  expect_held_once(OPENCL_PLUGIN, "opencl:0");
}

TEST_THAT(kernels_of_vulkan) {
  expect_held_once(VULKAN_PLUGIN, "vulkan:0");
}

RUN_TESTS(NULL, NULL)
