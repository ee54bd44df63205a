/* convolution_test.c - what passes do around convolutions: what goes into them, and when
 * they get the device's blocked layout. */
#include <math.h>

#include "context.h"
#include "exec/plan.h"
#include "memory/layout.h"
#define WORKERS 1
#include "with_cpu.h"

enum { CHANNELS = 16, SIDE = 6, PLANE = SIDE * SIDE };

static keel_tensor *numbers(uint32_t rank, const int64_t *dims, float scale) {
  static float data[CHANNELS * CHANNELS * PLANE];
  keel_tensor *tensor = NULL;
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  for (int64_t i = 0; i < count; i++)
    data[i] = scale * (float)((i * 7919) % 41 - 20) / 20;
  assert_int_equal(
      keel_tensor_create(context, KD_F32, rank, dims, data, &tensor), KD_OK);
  return tensor;
}

static keel_value constant(keel_builder *builder, uint32_t rank,
                           const int64_t *dims, float scale) {
  keel_tensor *tensor = numbers(rank, dims, scale);
  keel_value value = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  return value;
}

static keel_value scalar(keel_builder *builder, float number) {
  keel_tensor *tensor = NULL;
  assert_int_equal(
      keel_tensor_create(context, KD_F32, 0, NULL, &number, &tensor), KD_OK);
  keel_value value = keel_builder_constant(builder, tensor);
  keel_tensor_release(tensor);
  return value;
}

/* A convolution by 3 x 3, of single channels or of all, or by points. */
static keel_value conv(keel_builder *builder, keel_value x, int64_t group,
                       int64_t side) {
  const int64_t dims[] = {CHANNELS, CHANNELS / group, side, side};
  const int64_t pad = side / 2, pads[] = {pad, pad, pad, pad};
  const keel_attr attrs[] = {
      {.name = "pads", .kind = KD_ATTR_INTS, .count = 4, .ints = pads},
      KEEL_INT("group", group)};
  keel_value pair[] = {x, constant(builder, 4, dims, 0.3f)};
  return keel_builder_op(builder, "Conv", attrs, 2, pair, 2);
}

static keel_plan *plan_of(keel_program *program, const char *skip) {
  keel_plan *plan = NULL;
  const keel_plan_params params = {
      .struct_size = sizeof params, .skip = &skip, .skip_count = skip != NULL};
  assert_int_equal(keel_plan_create(program, &params, &plan), KD_OK);
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  return plan;
}

static void run(keel_plan *plan, float bound, float *out) {
  const int64_t dims[] = {1, CHANNELS, SIDE, SIDE};
  keel_tensor *in[2] = {numbers(4, dims, 4), NULL}, *y = NULL;
  assert_int_equal(keel_tensor_create(context, KD_F32, 0, NULL, &bound, &in[1]),
                   KD_OK);
  if (keel_plan_run(plan, in, 2, &y, 1) != KD_OK)
    fail_msg("%s", keel_message());
  assert_int_equal(keel_tensor_read(y, out, CHANNELS * PLANE * sizeof *out),
                   KD_OK);
  keel_tensor_release(in[0]);
  keel_tensor_release(in[1]);
  keel_tensor_release(y);
}

/* Each Reorder gives the layout that its input has not. */
static void expect_turns(const keel_plan *plan) {
  const keel_fplan *main = plan->main;
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

/* Whether the processor's vectors are as long as there are channels. */
static bool blocks_of_channels(void) {
  const int64_t whole[] = {1, CHANNELS, SIDE, SIDE},
                half[] = {1, CHANNELS / 2, SIDE, SIDE};
  const keel_type *a = NULL, *b = NULL;
  keel_device *device = keel_device_at(context, 0);
  assert_int_equal(keel_type_of(KD_F32, 4, whole, &a), KD_OK);
  assert_int_equal(keel_type_of(KD_F32, 4, half, &b), KD_OK);
  assert_int_equal(keel_device_ready(device), KD_OK);
  return keel_layout_size(device, a, KD_LAYOUT_OWN) &&
         !keel_layout_size(device, b, KD_LAYOUT_OWN);
}

typedef keel_value writer(keel_builder *builder, keel_value x,
                          keel_value bound);

/* The program runs so many of each op, and gives what it gives without the pass. */
static void expect(writer *write, const char *pass, uint32_t fused,
                   uint32_t clips, uint32_t reorders) {
  static float want[CHANNELS * PLANE], got[CHANNELS * PLANE];
  const int64_t dims[] = {1, CHANNELS, SIDE, SIDE};
  keel_builder *builder = NULL;
  keel_program *program = NULL;
  assert_int_equal(keel_builder_create(context, "conv", &builder), KD_OK);
  keel_value x = keel_builder_input(builder, "x", KD_F32, 4, dims);
  keel_value bound = keel_builder_input(builder, "bound", KD_F32, 0, NULL);
  keel_builder_output(builder, "y", write(builder, x, bound));
  assert_int_equal(keel_builder_finish(builder, &program), KD_OK);
  keel_builder_destroy(builder);
  keel_plan *plain = plan_of(program, pass), *plan = plan_of(program, NULL);
  run(plain, 1.5f, want);
  for (int i = 0; i < 3; i++) {
    run(plan, 1.5f, got);
    for (int k = 0; k < CHANNELS * PLANE; k++)
      if (fabsf(got[k] - want[k]) > 1e-4f)
        fail_msg("element %d is %g, without %s %g", k, (double)got[k], pass,
                 (double)want[k]);
  }
  assert_int_equal(runs_of(plan, "FusedConv"), fused);
  assert_int_equal(runs_of(plan, "Clip"), clips);
  if (blocks_of_channels())
    assert_int_equal(runs_of(plan, "Reorder"), reorders);
  expect_turns(plan);
  keel_plan_release(plain);
  keel_plan_release(plan);
  keel_program_release(program);
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
  keel_value pair[] = {conv(b, x, 1, 1), x};
  x = keel_builder_op(b, "Add", NULL, 0, pair, 2);
  return clip(b, x, KEEL_ABSENT, scalar(b, 0.75f));
}

static void clip_goes_into_the_convolution(void **state) {
  (void)state;
  expect(write_clip, "fuse", 1, 0, 2);
  expect(write_high, "fuse", 1, 0, 0);
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
  keel_value pair[] = {clip(b, x, scalar(b, 0), KEEL_ABSENT), x};
  return keel_builder_op(b, "Add", NULL, 0, pair, 2);
}

static void a_clip_that_is_not_known_stays(void **state) {
  (void)state;
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

static void rows_become_blocks_for_windows(void **state) {
  (void)state;
  expect(write_mobile, "layout", 2, 0, 2);
}

static keel_value write_points(keel_builder *b, keel_value x,
                               keel_value bound) {
  (void)bound;
  return keel_builder_op(b, "Tanh", NULL, 0, (keel_value[]){conv(b, x, 1, 1)},
                         1);
}

static void points_stay_rows(void **state) {
  (void)state;
  expect(write_points, "layout", 0, 0, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(clip_goes_into_the_convolution),
      cmocka_unit_test(a_clip_that_is_not_known_stays),
      cmocka_unit_test(rows_become_blocks_for_windows),
      cmocka_unit_test(points_stay_rows),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
