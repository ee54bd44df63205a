/* graph_npu_test.c - real models on a device that has a compiler and no kernels. */
#include <kd/kd.h>
#include <math.h>
#include <unistd.h>

#include "device/device.h"
#include "files.h"
#include "one_context.h"
#include "onnx.h"
#include "program/function.h"

static keel_device *npu;

SETUP(start) {
  const char *const plugins[] = {CPU_PLUGIN, GRAPH_NPU_PLUGIN};
  const keel_context_params params = {
      .struct_size = sizeof params, .plugins = plugins, .plugin_count = 2};
  setenv("XDG_CACHE_HOME", "/dev/null/none", 1); /* each run compiles anew */
  expect_ok(keel_open(&params, &context));
  return keel_device_find(context, "graph_npu", &npu) == KD_OK ? 0 : -1;
}

static keel_program *load(void (*write)(const char *path)) {
  char path[] = "/tmp/keel-npu-XXXXXX";
  make_file(path);
  write(path);
  keel_program *program = load_program(context, path);
  unlink(path);
  return program;
}

static keel_plan *plan_on(keel_program *program, const char *name,
                          uint32_t flags) {
  keel_plan_params params = {.struct_size = sizeof params, .flags = flags};
  if (name) expect_ok(keel_device_find(context, name, &params.device));
  return create_plan(program, &params);
}

/* Runs on numbers between -1 and 1, and gives the output. */
static keel_tensor *run(keel_plan *plan, const keel_program *program) {
  keel_port port;
  uint64_t size = 1;
  expect_ok(keel_program_input(program, 0, &port));
  for (uint32_t i = 0; i < port.rank; i++)
    size *= (uint64_t)port.dims[i];
  float *data = malloc(size * sizeof *data);
  for (uint64_t i = 0; i < size; i++)
    data[i] = (float)((i * 7919) % 2001) / 1000 - 1;
  keel_tensor *x = create_tensor(context, KD_F32, port.rank, port.dims, data);
  free(data);
  keel_tensor *y = output_of(plan, &x, 1);
  keel_tensor_release(x);
  return y;
}

static void expect_near(keel_tensor *a, keel_tensor *b) {
  uint64_t count = keel_tensor_size(a) / sizeof(float);
  float *x = malloc(2 * count * sizeof *x), most = 0, off = 0;
  assert_int_equal(keel_tensor_size(a), keel_tensor_size(b));
  expect_ok(keel_tensor_read(a, x, count * sizeof *x));
  expect_ok(keel_tensor_read(b, x + count, count * sizeof *x));
  for (uint64_t i = 0; i < count; i++) {
    most = fmaxf(most, fabsf(x[i]));
    off = fmaxf(off, fabsf(x[i] - x[count + i]));
    assert_false(isnan(x[count + i]));
  }
  free(x);
  assert_true(most > 0);
  if (off > 1e-3f * most) fail_msg("%g off, of %g", (double)off, (double)most);
}

/* Regions among the steps; others are the host's or another device's. */
static uint32_t count_steps(keel_plan *plan, const char *device,
                            uint32_t *out_others) {
  uint32_t found = 0;
  keel_profile_line line;
  *out_others = 0;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++) {
    if (!strncmp(line.op, "Copy", 4)) continue;
    if (strcmp(line.device, device) == 0)
      found++;
    else
      (*out_others)++;
  }
  return found;
}

/* The whole model is one region, and gives what the CPU gives. */
static void expect_one_region(void (*write)(const char *path)) {
  keel_program *program = load(write);
  keel_plan *plain = plan_on(program, "cpu", 0);
  keel_plan *plan = plan_on(program, "graph_npu", 0);
  keel_tensor *want = run(plain, program);
  uint32_t others = 0;
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  keel_tensor *got = run(plan, program);
  expect_near(want, got);
  assert_int_equal(count_steps(plan, "graph_npu:0", &others), 1);
  assert_int_equal(others, 0);
  RELEASE(want, got, plain, plan, program);
}

/* The device's loops are plain ones, which sanitizers make slow. */
#ifdef KEEL_SANITIZED
#define bert_layer model_bert_short
#else
#define bert_layer model_bert_layer
#endif

TEST_THAT(a_bert_layer_is_one_region) {
  expect_one_region(bert_layer);
}

TEST_THAT(resnet50_is_one_region) {
#ifdef KEEL_SANITIZED
  skip(); /* its plain loops would take minutes */
#endif
  expect_one_region(model_resnet50);
}

static uint64_t weights_of(const keel_program *program) {
  uint64_t bytes = 0;
  for (const keel_function *at = program->functions; at; at = at->next)
    for (uint32_t i = 0; i < at->value_count; i++)
      if (at->values[i].constant) bytes += at->values[i].constant->type->bytes;
  return bytes;
}

/* In the device's memory, where launches find them, and no more on the host, which left
 * most in the file. */
TEST_THAT(weights_are_held_once) {
  uint64_t none = live_bytes(context);
  keel_program *program = load(bert_layer);
  uint64_t weights = weights_of(program);
  assert_true(weights > 100000);
  assert_true(live_bytes(context) < none + weights / 8);
  keel_plan *plan = plan_on(program, "graph_npu", 0);
  keel_tensor *first = run(plan, program), *again = run(plan, program);
  assert_true(live_bytes(context) >= none + weights);
  expect_near(first, again);
  RELEASE(again, program);
  uint64_t left = live_bytes(context) - none;
  if (left > weights + weights / 4)
    fail_msg("%llu bytes of weights are held in %llu",
             (unsigned long long)weights, (unsigned long long)left);
  RELEASE(first, plan);
}

/* Clip is not for it: the CPU does that. */
TEST_THAT(what_it_does_not_know_runs_elsewhere) {
  const float zero = 0, six = 6;
  uint32_t others = 0;
  keel_builder *builder = create_builder(context, "mixed");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(3, 5));
  keel_value y = op(builder, "Exp", x, KEEL_ABSENT);
  keel_value three[] = {y, add_constant(builder, KD_F32, 0, NULL, &zero),
                        add_constant(builder, KD_F32, 0, NULL, &six)};
  keel_value z = keel_builder_op(builder, "Clip", NULL, 0, three, 3);
  z = op(builder, "Add", z, y);
  keel_builder_output(builder, "z", z);
  keel_program *program = finish_program(builder);
  keel_plan *plain = plan_on(program, "cpu", 0);
  keel_plan *plan = plan_on(program, "graph_npu", 0);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  keel_tensor *want = run(plain, program), *got = run(plan, program);
  expect_near(want, got);
  assert_int_equal(count_steps(plan, "graph_npu:0", &others), 2);
  assert_int_equal(others, 1);
  RELEASE(want, got, plain, plan, program);
}

/* How many steps are on the NPU where nodes are placed by cost. */
static uint32_t steps_by_cost(keel_program *program) {
  keel_plan *plan = plan_on(program, NULL, KEEL_PLAN_BY_COST);
  uint32_t others = 0;
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  keel_tensor_release(run(plan, program));
  uint32_t count = count_steps(plan, "graph_npu:0", &others);
  assert_int_equal(count + others, 1);
  keel_plan_release(plan);
  return count;
}

/* Speeds are set, not measured: on a busy machine a measured launch on the CPU may take
 * longer than two copies. */
static void set_speed(const char *name, keel_speed speed) {
  keel_device *device = find_device(context, name);
  device->speed = speed;
}

/* The layer goes where it is said to take a thousandth of the CPU's time; what is small
 * stays. */
TEST_THAT(it_is_chosen_by_cost) {
  keel_program *layer = load(model_bert_layer), *small = NULL;
  set_speed(
      "cpu",
      (keel_speed){
          .launch = 500, .flops = 50, .bytes = 10, .wait = 1000, .copied = 10});
  set_speed("graph_npu", (keel_speed){.wait = 1000, .copied = 10});
  keel_builder *builder = create_builder(context, "small");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(4));
  small = program_giving(builder, op(builder, "Relu", x, KEEL_ABSENT));
  assert_int_equal(steps_by_cost(layer), 1);
  assert_int_equal(steps_by_cost(small), 0);
  RELEASE(layer, small);
}

RUN_TESTS(start, close_context)
