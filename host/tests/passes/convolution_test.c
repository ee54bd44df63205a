/* convolution_test.c - what passes do around convolutions: what goes into them, and when
 * they get the device's blocked layout; what becomes of their weights. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "device/device.h"
#include "files.h"
#include "memory/layout.h"
#include "plan/plan.h"
#define WORKERS 1
#include "cpu_sets.h"
#include "pass.h"
#include "with_cpu.h"

enum { CHANNELS = 16, SIDE = 6, PLANE = SIDE * SIDE };

static keel_value scalar(keel_builder *builder, float number) {
  return add_constant(builder, KD_F32, 0, NULL, &number);
}

/* A convolution by 3 x 3, of single channels or of all, or by points. */
static keel_value conv(keel_builder *builder, keel_value x, int64_t group,
                       int64_t side) {
  const int64_t dims[] = {CHANNELS, CHANNELS / group, side, side};
  const int64_t pad = side / 2, pads[] = {pad, pad, pad, pad};
  const keel_attr attrs[] = {KEEL_INTS("pads", 4, pads),
                             KEEL_INT("group", group)};
  keel_value pair[] = {x, constant_numbers(builder, 4, dims, 0)};
  return keel_builder_op(builder, "Conv", attrs, 2, pair, 2);
}

/* Each Reorder gives the layout that its input has not. */
static void expect_turns(const keel_plan *plan) {
  const keel_executable *main = plan->main;
  for (uint32_t i = 0; i < main->step_count; i++) {
    const keel_step *step = &main->steps[i];
    uint32_t layout = KD_LAYOUT_ROW_MAJOR; /* an input of the program */
    if (strcmp(step->site.op->schema->name, "Reorder") != 0) continue;
    for (uint32_t k = 0; k < main->step_count; k++)
      if (main->steps[k].outputs[0] == step->inputs[0])
        layout = main->steps[k].site.output_layout;
    if (step->site.output_layout == layout)
      fail_msg("Reorder %u leaves layout %#x as it is", i, layout);
  }
}

/* Bytes of so many channels in the layout of the device's own; 0: it has none. */
static uint64_t lying(int64_t channels) {
  const int64_t dims[] = {1, channels, SIDE, SIDE};
  const keel_type *type = NULL;
  keel_device *device = keel_device_at(context, 0);
  expect_ok(keel_type_of(KD_F32, 4, dims, &type));
  expect_ok(keel_device_ready(device));
  return keel_layout_size(device, type, KD_LAYOUT_OWN);
}

/* Whether the processor's vectors are as long as there are channels. */
static bool blocks_of_channels(void) {
  return lying(CHANNELS) > 0 && lying(CHANNELS) == lying(CHANNELS / 2);
}

typedef keel_value writer(keel_builder *builder, keel_value x,
                          keel_value bound);

/* The program runs so many of each op, and gives what it gives without the pass. */
static void expect(writer *write, const char *pass, uint32_t fused,
                   uint32_t clips, uint32_t reorders) {
  const int64_t dims[] = {1, CHANNELS, SIDE, SIDE};
  const float limit = 1.5f;
  trial t = TRIAL(1e-5, .pass = {pass},
                  .in = {numbers(4, dims, 0),
                         create_tensor(context, KD_F32, 0, NULL, &limit)});
  keel_builder *builder = create_builder(context, "conv");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 4, dims);
  keel_value bound = keel_builder_input(builder, "bound", KD_F32, 0, NULL);
  keel_builder_output(builder, "y", write(builder, x, bound));
  keel_plan *plan = compare_pass(pass, 0, finish_program(builder), &t, NULL);
  assert_int_equal(runs_of(plan, "FusedConv") + runs_of(plan, "ActivatedConv"),
                   fused);
  assert_int_equal(runs_of(plan, "Clip"), clips);
  if (blocks_of_channels())
    assert_int_equal(runs_of(plan, "Reorder"), reorders);
  expect_turns(plan);
  keel_plan_release(plan);
}

static keel_value clip(keel_builder *builder, keel_value x, keel_value low,
                       keel_value high) {
  keel_value three[] = {x, low, high};
  return keel_builder_op(builder, "Clip", NULL, 0, three, 3);
}

/* ---- what goes into a convolution -------------------------------------------------- */

static keel_value write_clip(keel_builder *b, keel_value x, keel_value bound) {
  (void)bound;
  return clip(b, conv(b, x, 1, 3), scalar(b, -0.5f), scalar(b, 2));
}

static keel_value write_high(keel_builder *b, keel_value x, keel_value bound) {
  (void)bound;
  x = op(b, "Add", conv(b, x, 1, 1), x);
  return clip(b, x, KEEL_ABSENT, scalar(b, 0.75f));
}

TEST_THAT(clip_goes_into_the_convolution) {
  expect(write_clip, "fuse", 1, 0, 2);
  expect(write_high, "fuse", 1, 0, 0);
}

static keel_value write_silu(keel_builder *b, keel_value x, keel_value bound) {
  (void)bound;
  x = conv(b, x, 1, 3);
  return op(b, "Mul", op(b, "Sigmoid", x, KEEL_ABSENT), x);
}

static keel_value write_swish(keel_builder *b, keel_value x, keel_value bound) {
  (void)bound;
  x = op(b, "Add", conv(b, x, CHANNELS, 3), x);
  return op(b, "HardSwish", x, KEEL_ABSENT);
}

static keel_value write_leaky(keel_builder *b, keel_value x, keel_value bound) {
  const keel_attr alpha = KEEL_FLOAT("alpha", 0.3f);
  (void)bound;
  x = conv(b, x, 1, 3);
  return keel_builder_op(b, "LeakyRelu", &alpha, 1, &x, 1);
}

static keel_value write_sum(keel_builder *b, keel_value x, keel_value bound) {
  (void)bound;
  return op(b, "Add", x, conv(b, x, 1, 3));
}

TEST_THAT(gates_and_sums_go_into_the_convolution) {
  expect(write_silu, "fuse", 1, 0, 2);
  expect(write_swish, "fuse", 1, 0, 2);
  expect(write_leaky, "fuse", 1, 0, 2);
  expect(write_sum, "fuse", 1, 0, 2);
}

/* The gate is of another value, or read by another op. */
static keel_value write_other_gate(keel_builder *b, keel_value x,
                                   keel_value bound) {
  (void)bound;
  return op(b, "Mul", op(b, "Sigmoid", x, KEEL_ABSENT), conv(b, x, 1, 1));
}

static keel_value write_shared_gate(keel_builder *b, keel_value x,
                                    keel_value bound) {
  (void)bound;
  x = conv(b, x, 1, 1);
  keel_value gate = op(b, "Sigmoid", x, KEEL_ABSENT);
  keel_value pair[] = {gate, x};
  return op(b, "Sub", keel_builder_op(b, "Mul", NULL, 0, pair, 2), gate);
}

TEST_THAT(gates_of_other_values_stay) {
  expect(write_other_gate, "fuse", 0, 0, 0);
  expect(write_shared_gate, "fuse", 0, 0, 0);
}

static keel_value write_bound(keel_builder *b, keel_value x, keel_value bound) {
  return clip(b, conv(b, x, 1, 1), scalar(b, -0.5f), bound);
}

/* All becomes 1 (ONNX Clip-13). */
static keel_value write_crossed(keel_builder *b, keel_value x,
                                keel_value bound) {
  (void)bound;
  return clip(b, conv(b, x, 1, 1), scalar(b, 2), scalar(b, 1));
}

static keel_value write_twice(keel_builder *b, keel_value x, keel_value bound) {
  (void)bound;
  x = conv(b, x, 1, 1);
  return op(b, "Add", clip(b, x, scalar(b, 0), KEEL_ABSENT), x);
}

TEST_THAT(a_clip_that_is_not_known_stays) {
  expect(write_bound, "fuse", 0, 1, 0);
  expect(write_crossed, "fuse", 0, 1, 0);
  expect(write_twice, "fuse", 0, 1, 0); /* the convolution is needed, too */
}

/* ---- layout -------------------------------------------------------------------------- */

/* Points, single channels, points: rows come in and go out once. */
static keel_value write_mobile(keel_builder *b, keel_value x,
                               keel_value bound) {
  (void)bound;
  x = clip(b, conv(b, x, 1, 1), scalar(b, 0), scalar(b, 6));
  x = clip(b, conv(b, x, CHANNELS, 3), scalar(b, 0), scalar(b, 6));
  return conv(b, x, 1, 1);
}

TEST_THAT(rows_become_blocks_for_windows) {
  expect(write_mobile, "layout", 2, 0, 2);
}

/* Squeeze-and-excite: what is scaled stays in blocks, the scales are rows. */
static keel_value write_squeeze(keel_builder *b, keel_value x,
                                keel_value bound) {
  (void)bound;
  x = conv(b, x, CHANNELS, 3);
  keel_value scales = op(b, "GlobalAveragePool", x, KEEL_ABSENT);
  scales = conv(b, scales, 1, 1);
  scales = op(b, "Sigmoid", scales, KEEL_ABSENT);
  x = keel_builder_op(b, "Mul", NULL, 0, (keel_value[]){x, scales}, 2);
  x = keel_builder_op(b, "Mul", NULL, 0, (keel_value[]){scales, x}, 2);
  return conv(b, x, 1, 3);
}

TEST_THAT(scaled_channels_stay_blocks) {
  expect(write_squeeze, "layout", 0, 0, 2);
}

static keel_value write_points(keel_builder *b, keel_value x,
                               keel_value bound) {
  (void)bound;
  return keel_builder_op(b, "Tanh", NULL, 0, (keel_value[]){conv(b, x, 1, 1)},
                         1);
}

TEST_THAT(points_stay_rows) {
  expect(write_points, "layout", 0, 0, 0);
}

/* ---- weights ------------------------------------------------------------------------- */

enum { WIDE = 512, TAPS = 9 };

/* One convolution of weights that are the program's alone. */
static keel_program *wide(void) {
  const int64_t dims[] = {WIDE, WIDE, 3, 3}, sides[] = {1, WIDE, SIDE, SIDE};
  const int64_t pads[] = {1, 1, 1, 1};
  const keel_attr attrs[] = {KEEL_INTS("pads", 4, pads)};
  float *data = malloc((size_t)WIDE * WIDE * TAPS * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < (int64_t)WIDE * WIDE * TAPS; i++)
    data[i] = (float)((i * 7919) % 41 - 20) / 64;
  keel_builder *builder = create_builder(context, "wide");
  keel_value pair[] = {keel_builder_input(builder, "x", KD_F32, 4, sides),
                       add_constant(builder, KD_F32, 4, dims, data)};
  free(data);
  return program_giving(builder,
                        keel_builder_op(builder, "Conv", attrs, 1, pair, 2));
}

/* The weights' file is written, and nothing of the program is left in memory. */
static void write_wide(const char *path) {
  keel_program *program = wide();
  expect_ok(keel_program_save(program, path, 0));
  keel_program_release(program);
}

/* Ones go in: in the middle come the sums of each output's weights. */
static void run_wide(keel_plan *plan) {
  const int64_t dims[] = {1, WIDE, SIDE, SIDE};
  int64_t count = WIDE * PLANE;
  float *data = malloc((size_t)count * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++)
    data[i] = 1;
  keel_tensor *x = create_tensor(context, KD_F32, 4, dims, data);
  keel_tensor *y = output_of(plan, &x, 1);
  expect_ok(keel_tensor_read(y, data, (size_t)count * sizeof *data));
  for (int64_t o = 0; o < WIDE; o++) {
    double want = 0;
    for (int64_t i = o * WIDE * TAPS; i < (o + 1) * WIDE * TAPS; i++)
      want += (double)((i * 7919) % 41 - 20) / 64;
    double got = (double)data[o * PLANE + SIDE + 1];
    if (fabs(got - want) > 1e-2)
      fail_msg("output %d is %g, not %g", (int)o, got, want);
  }
  RELEASE(x, y);
  free(data);
}

/* The convolution has them packed; a second plan reads them from the file. */
TEST_THAT(packed_weights_leave_memory) {
  char path[] = "/tmp/keel_convolution_XXXXXX";
  const uint64_t bytes = (uint64_t)WIDE * WIDE * TAPS * sizeof(float);
  make_file(path);
  write_wide(path);
  uint64_t before = resident("RssFile:");
  keel_program *program = load_program(context, path);
  keel_plan *plan = create_plan(program, NULL);
  for (int i = 0; i < 3; i++)
    run_wide(plan);
  uint64_t after = resident("RssFile:");
  if (before && lying(WIDE) > 0 && after > before + bytes / 2)
    fail_msg("%llu bytes of files came into memory, of weights of %llu",
             (unsigned long long)(after - before), (unsigned long long)bytes);
  keel_plan *second = create_plan(program, NULL);
  run_wide(second);
  run_wide(plan);
  RELEASE(second, plan, program);
  unlink(path);
}

/* They go with the last of those that need them: the program, and plans whose kernels have
 * not packed them yet. */
TEST_THAT(packed_weights_are_held_once) {
  const uint64_t bytes = (uint64_t)WIDE * WIDE * TAPS * sizeof(float);
  if (lying(WIDE) == 0) skip();
  uint64_t before = live_bytes(context);
  keel_program *program = wide();
  keel_plan *plan = create_plan(program, NULL);
  keel_plan *second = create_plan(program, NULL);
  for (int i = 0; i < 3; i++)
    run_wide(plan);
  assert_true(live_bytes(context) >= before + bytes);
  keel_program_release(program);
  assert_true(live_bytes(context) >= before + bytes);
  run_wide(second);
  assert_true(live_bytes(context) < before + bytes / 2);
  for (int i = 0; i < 3; i++) {
    run_wide(plan);
    run_wide(second);
  }
  RELEASE(second, plan);
}

/* A first run that fails before the convolution does not keep them for ever. */
TEST_THAT(a_run_that_fails_keeps_no_weights) {
  const uint64_t bytes = (uint64_t)WIDE * WIDE * TAPS * sizeof(float);
  keel_tensor *y = NULL;
  const int64_t dims[] = {1, WIDE, SIDE, SIDE};
  if (lying(WIDE) == 0) skip();
  uint64_t before = live_bytes(context);
  keel_program *program = wide();
  keel_plan *plan = create_plan(program, NULL);
  keel_program_release(program);
  keel_cancel *cancel = create_cancel(context);
  keel_cancel_request(cancel, NULL);
  keel_tensor *x = create_tensor(context, KD_F32, 4, dims, NULL);
  assert_int_equal(
      keel_plan_run_with(plan, RUN_PARAMS(.cancel = cancel), &x, 1, &y, 1),
      KD_CANCELLED);
  RELEASE(x, cancel);
  assert_true(live_bytes(context) >= before + bytes);
  run_wide(plan);
  assert_true(live_bytes(context) < before + bytes / 2);
  keel_plan_release(plan);
}

enum { RUNNERS = 4 };

static void *run_often(void *plan) {
  for (int i = 0; i < 4; i++)
    run_wide(plan);
  return NULL;
}

/* Runs that begin at once meet the weights, or the kernel that has them. */
TEST_THAT(weights_go_while_threads_run) {
  const uint64_t bytes = (uint64_t)WIDE * WIDE * TAPS * sizeof(float);
  for (int turn = 0; turn < 3; turn++) {
    uint64_t before = live_bytes(context);
    keel_program *program = wide();
    pthread_t threads[RUNNERS];
    keel_plan *plan = create_plan(program, NULL);
    keel_program_release(program);
    for (int i = 0; i < RUNNERS; i++)
      assert_int_equal(pthread_create(&threads[i], NULL, run_often, plan), 0);
    for (int i = 0; i < RUNNERS; i++)
      pthread_join(threads[i], NULL);
    if (lying(WIDE) > 0) assert_true(live_bytes(context) < before + bytes / 2);
    run_wide(plan);
    keel_plan_release(plan);
  }
}

/* Weights that a convolution packs, and that are handed out or added to, too. */
static void expect_kept(bool handed_out) {
  enum { COUNT = WIDE * WIDE * TAPS };
  const int64_t dims[] = {WIDE, WIDE, 3, 3}, sides[] = {1, WIDE, SIDE, SIDE};
  static float data[COUNT], back[COUNT], ones[WIDE * PLANE];
  const float two = 2;
  keel_tensor *out[2] = {NULL};
  for (int i = 0; i < COUNT; i++)
    data[i] = (float)(i % 17);
  keel_tensor *in[] = {create_tensor(context, KD_F32, 4, sides, ones),
                       create_tensor(context, KD_F32, 0, NULL, &two)};
  keel_builder *builder = create_builder(context, "kept");
  keel_value pair[] = {keel_builder_input(builder, "x", KD_F32, 4, sides),
                       add_constant(builder, KD_F32, 4, dims, data)};
  keel_value sum[] = {pair[1],
                      keel_builder_input(builder, "c", KD_F32, 0, NULL)};
  keel_builder_output(builder, "y",
                      keel_builder_op(builder, "Conv", NULL, 0, pair, 2));
  keel_builder_output(
      builder, "w",
      handed_out ? pair[1] : keel_builder_op(builder, "Add", NULL, 0, sum, 2));
  keel_plan *plan = finish_plan(builder, NULL);
  for (int n = 0; n < 3; n++) {
    expect_ok(keel_plan_run(plan, in, 2, out, 2));
    expect_ok(keel_tensor_read(out[1], back, sizeof back));
    for (int i = 0; i < COUNT; i++)
      if (back[i] != data[i] + (handed_out ? 0 : two))
        fail_msg("run %d: element %d is %g", n, i, (double)back[i]);
    release_all(out, 2);
  }
  release_all(in, 2);
  keel_plan_release(plan);
}

TEST_THAT(weights_that_are_an_output_stay) {
  expect_kept(true);
}

TEST_THAT(weights_that_another_op_reads_stay) {
  expect_kept(false);
}

/* What a convolution makes of numbers whose sums are rounded. */
static void make_sums(float *out, size_t size) {
  const int64_t x_dims[] = {1, 64, 9, 11}, w_dims[] = {64, 64, 3, 3};
  const int64_t pads[] = {1, 1, 1, 1};
  const keel_attr attr = KEEL_INTS("pads", 4, pads);
  keel_builder *b = create_builder(context, "sums");
  keel_value pair[] = {keel_builder_input(b, "x", KD_F32, 4, x_dims),
                       constant_numbers(b, 4, w_dims, 7)};
  keel_plan *plan =
      plan_giving(b, keel_builder_op(b, "Conv", &attr, 1, pair, 2), NULL);
  keel_tensor *x = numbers(4, x_dims, 0), *y = output_of(plan, &x, 1);
  expect_ok(keel_tensor_read(y, out, size));
  RELEASE(x, y, plan);
}

/* Fewer products have other bits than sums by taps, which an option asks for. */
TEST_THAT(taps_are_summed_where_they_shall_be) {
  static float fewer[64 * 9 * 11], taps[64 * 9 * 11];
  const char *off = "cpu.winograd=off";
  if (lying(WIDE) == 0) skip();
  make_sums(fewer, sizeof fewer);
  keel_close(context);
  context = open_cpu_options(&off, 1, WORKERS);
  make_sums(taps, sizeof taps);
  keel_close(context);
  open_cpu(state);
  assert_memory_not_equal(fewer, taps, sizeof taps);
}

RUN_TESTS(open_cpu, close_context)
