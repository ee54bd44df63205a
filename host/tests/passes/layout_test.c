/* layout_test.c - layouts of a plugin's own: where the pass lets them stay, and that the
 * results are those of rows. The simulated device's Softmax likes rows that begin at
 * multiples of 8 elements, and its Exp takes any layout. */
#include <math.h>

#include "device/device.h"
#include "layers/layers.h"
#include "one_context.h"
#include "plan/plan.h"

#ifdef SIM_PLUGIN
enum { ROWS = 3, COLUMNS = 13, COUNT = ROWS * COLUMNS };

static keel_device *cpu;
static bool elsewhere; /* plans are for cpu:0, and rules place their nodes */

SETUP(open_both) {
  expect_ok(keel_layers_set("validation"));
  context = open_with(SIM_PLUGIN, CPU_PLUGIN, 1);
  expect_ok(keel_device_find(context, "cpu:0", &cpu));
  return 0;
}

SETUP(close_both) {
  keel_close(context);
  expect_ok(keel_layers_set(""));
  return 0;
}

typedef void writer(keel_builder *builder, keel_value x);

static keel_plan *plan_of(writer *write, bool layouts) {
  static const char *const skip = "layout", *const rule = "[!N]*=sim:0";
  keel_builder *builder = create_builder(context, "layouts");
  write(builder, keel_builder_input(builder, "x", KD_F32, DIMS(ROWS, COLUMNS)));
  const keel_plan_params params = {
      .struct_size = sizeof params,
      .device = elsewhere ? cpu : keel_device_at(context, 0),
      .places = &rule,
      .place_count = elsewhere,
      .skip = &skip,
      .skip_count = !layouts};
  return finish_plan(builder, &params);
}

static keel_status run(keel_plan *plan, uint32_t outputs, float *out) {
  float data[COUNT];
  keel_tensor *x = NULL, *y[2] = {NULL, NULL};
  for (int i = 0; i < COUNT; i++)
    data[i] = (float)(i * 7 % 11) / 4;
  x = create_tensor(context, KD_F32, DIMS(ROWS, COLUMNS), data);
  keel_status status = keel_plan_run(plan, &x, 1, y, outputs);
  for (uint32_t i = 0; i < outputs && status == KD_OK; i++)
    expect_ok(keel_tensor_read(y[i], out + i * COUNT, sizeof data));
  keel_tensor_release(x);
  release_all(y, 2);
  return status;
}

/* Steps whose output 0 lies in a layout of the device's own. */
static uint32_t laid_steps(const keel_plan *plan) {
  uint32_t count = 0;
  for (const keel_executable *at = plan->executables; at; at = at->next)
    for (uint32_t i = 0; i < at->step_count; i++)
      count += at->steps[i].site.output_layout >= KD_LAYOUT_OWN;
  return count;
}

static uint32_t steps_of(const keel_plan *plan, const char *op) {
  uint32_t count = 0;
  for (const keel_executable *at = plan->executables; at; at = at->next)
    for (uint32_t i = 0; i < at->step_count; i++)
      count += !strcmp(at->steps[i].site.op->schema->name, op);
  return count;
}

/* So many conversions, and what rows give: op by op, framed, and from a recording. */
static void expect(writer *write, uint32_t outputs, uint32_t layout_bytes,
                   uint32_t reorders) {
  float want[2 * COUNT], got[2 * COUNT];
  keel_plan *plain = plan_of(write, false), *plan = plan_of(write, true);
  assert_int_equal(laid_steps(plain), 0);
  assert_int_equal(laid_steps(plan), layout_bytes);
  assert_int_equal(steps_of(plan, "Reorder"), reorders);
  expect_ok(run(plain, outputs, want));
  for (int i = 0; i < 8; i++) {
    memset(got, 0, sizeof got);
    if (run(plan, outputs, got) != KD_OK) fail_msg("%s", keel_message());
    for (uint32_t k = 0; k < outputs * COUNT; k++)
      if (fabsf(got[k] - want[k]) > 1e-6f)
        fail_msg("run %d, element %u is %g, in rows %g", i, k, (double)got[k],
                 (double)want[k]);
  }
  RELEASE(plain, plan);
}

static void write_chain(keel_builder *b, keel_value x) {
  x = op(b, "Exp", op(b, "Softmax", x, KEEL_ABSENT), KEEL_ABSENT);
  keel_builder_output(b, "y", op(b, "Softmax", x, KEEL_ABSENT));
}

TEST_THAT(neighbours_hand_on_their_layout) {
  expect(write_chain, 1, 4, 2); /* in and out, and what is between as it is */
}

static void write_branches(keel_builder *b, keel_value x) {
  keel_value y = op(b, "Softmax", x, KEEL_ABSENT);
  keel_builder_output(b, "a", op(b, "Relu", y, KEEL_ABSENT));
  keel_builder_output(b, "b", op(b, "Mul", op(b, "Exp", y, KEEL_ABSENT), y));
}

TEST_THAT(who_takes_rows_gets_rows_once) {
  /* x; y for Relu and Mul; what Exp gives */
  expect(write_branches, 2, 3, 3);
}

static void write_on_two(keel_builder *b, keel_value x) {
  keel_value y = op(b, "Softmax", x, KEEL_ABSENT);
  expect_ok(keel_device_push(cpu));
  y = op(b, "Neg", y, KEEL_ABSENT);
  keel_device_pop();
  keel_builder_output(b, "y", op(b, "Softmax", y, KEEL_ABSENT));
}

TEST_THAT(what_leaves_the_device_is_rows) {
  expect(write_on_two, 1, 4, 4);
}

TEST_THAT(each_device_has_its_layouts) {
  elsewhere = true;
  expect(write_chain, 1, 4, 2);
  expect(write_branches, 2, 3, 3);
  expect(write_on_two, 1, 4, 4);
  elsewhere = false;
}

/* What one stretch makes in a layout goes by a node elsewhere into the next one. */
static void write_crossing(keel_builder *b, keel_value x) {
  const keel_attr axis = KEEL_INT("axis", 0);
  keel_value y = op(b, "Softmax", x, KEEL_ABSENT);
  keel_value by = op(b, "Exp", op(b, "Exp", y, KEEL_ABSENT), KEEL_ABSENT);
  expect_ok(keel_device_push(cpu));
  y = op(b, "Neg", y, KEEL_ABSENT);
  keel_device_pop();
  const keel_value both[] = {by, op(b, "Softmax", y, KEEL_ABSENT)};
  y = keel_builder_op(b, "Concat", &axis, 1, both, 2);
  keel_builder_output(b, "y", op(b, "Softmax", y, KEEL_ABSENT));
}

TEST_THAT(stretches_hand_on_their_layout) {
  static const int64_t dims[] = {ROWS, COLUMNS};
  float data[COUNT] = {1, -2, 3}, want[2 * COUNT], got[2 * COUNT];
  keel_plan *plain = plan_of(write_crossing, false),
            *plan = plan_of(write_crossing, true);
  keel_tensor *x = create_tensor(context, KD_F32, 2, dims, data), *y = NULL;
  uint32_t calls = steps_of(plan, "Call");
  uint64_t before = 0;
  assert_int_equal(calls, 2);
  expect_ok(keel_plan_run(plain, &x, 1, &y, 1));
  expect_ok(keel_tensor_read(y, want, sizeof want));
  keel_tensor_release(y);
  for (int i = 0; i < 10; i++) {
    if (i == 6) before = keel_plan_replays(plan);
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    expect_ok(keel_tensor_read(y, got, sizeof got));
    for (int k = 0; k < 2 * COUNT; k++)
      assert_float_equal(got[k], want[k], 1e-6);
    keel_tensor_release(y);
  }
  assert_int_equal(keel_plan_replays(plan) - before, 4 * calls);
  RELEASE(x, plain, plan);
}

static void write_alone(keel_builder *b, keel_value x) {
  keel_builder_output(b, "y", op(b, "Exp", x, KEEL_ABSENT));
}

TEST_THAT(nobody_asks_for_layouts_without_need) {
  expect(write_alone, 1, 0, 0);
}

TEST_THAT(a_conversion_that_fails_ends_the_run) {
  float got[COUNT];
  keel_close(context);
  expect_ok(keel_layers_set("fault:layout.to_rows=1:UNAVAILABLE"));
  context = open_with(SIM_PLUGIN, CPU_PLUGIN, 1);
  keel_plan *plan = plan_of(write_chain, true);
  expect_fails(run(plan, 1, got), KD_UNAVAILABLE, "ran Reorder");
  expect_ok(run(plan, 1, got));
  keel_plan_release(plan);
}

RUN_TESTS(open_both, close_both)
#else
int main(void) {
  return 77; /* no simulated device was built */
}
#endif
