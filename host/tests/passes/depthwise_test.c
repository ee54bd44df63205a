/* depthwise_test.c - convolutions between a Transpose to channels first and one back: those of
 * one filter a channel work on channels last, others read and write blocks of channels; both
 * give what the steps give one by one. */
#include "device/context.h"
#include "device/device.h"
#include "device/plugin.h"

#define WORKERS 1
#include "pass.h"
#include "with_cpu.h"

typedef struct model {
  int64_t images, channels, filters, side; /* filters: 0: one a channel */
  int64_t kernel, stride, dilation, pads[4];
  const char *activation; /* or NULL */
  int form; /* LINE: pixels in a line; IMAGE: rows and columns; ROW: one row of them */
  bool read_twice; /* the convolution's result is an output, too */
  bool biased;
} model;

enum { LINE, IMAGE, ROW };

static keel_value transpose(keel_builder *b, keel_value x, int64_t rank,
                            bool first) {
  static const int64_t perms[3][2][4] = {
      {{0}}, {{0, 2, 1}, {0, 2, 1}}, {{0, 2, 3, 1}, {0, 3, 1, 2}}};
  const keel_attr perm = KEEL_INTS("perm", rank, perms[rank - 2][first]);
  return keel_builder_op(b, "Transpose", &perm, 1, &x, 1);
}

static keel_value reshape(keel_builder *b, keel_value x, int64_t count,
                          const int64_t *dims) {
  keel_tensor *tensor = create_tensor(context, KD_I64, 1, &count, dims);
  return op(b, "Reshape", x, constant_of(b, tensor));
}

static keel_value conv(keel_builder *b, const model *m, keel_value x) {
  const uint32_t space = m->form == ROW ? 1 : 2;
  const int64_t filters = m->filters ? m->filters : m->channels;
  const int64_t w[] = {filters, m->filters ? m->channels : 1, m->kernel,
                       m->kernel};
  const int64_t stride[] = {m->stride, m->stride};
  const int64_t dilation[] = {m->dilation, m->dilation};
  const int64_t line[] = {m->pads[0], m->pads[2]};
  const keel_attr attrs[] = {
      KEEL_INT("group", m->filters ? 1 : m->channels),
      KEEL_INTS("strides", space, stride),
      KEEL_INTS("dilations", space, dilation),
      KEEL_INTS("pads", 2 * space, space == 1 ? line : m->pads)};
  keel_value three[] = {
      x, constant_numbers(b, space + 2, w, 5),
      m->biased ? constant_numbers(b, 1, &filters, 9) : KEEL_ABSENT};
  return keel_builder_op(b, "Conv", attrs, 4, three, m->biased ? 3 : 2);
}

static keel_value activate(keel_builder *b, const char *name, keel_value x) {
  const keel_attr tanh_form = KEEL_STRING("approximate", "tanh");
  if (!name) return x;
  if (!strcmp(name, "GeluTanh"))
    return keel_builder_op(b, "Gelu", &tanh_form, 1, &x, 1);
  if (strcmp(name, "Silu") != 0) return op(b, name, x, KEEL_ABSENT);
  return op(b, "Mul", x, op(b, "Sigmoid", x, KEEL_ABSENT));
}

static uint32_t input_dims(const model *m, int64_t *dims) {
  const int64_t all[3][4] = {{m->images, m->side * m->side, m->channels},
                             {m->images, m->side, m->side, m->channels},
                             {m->images, m->side, m->channels}};
  memcpy(dims, all[m->form], sizeof all[0]);
  return m->form == IMAGE ? 4 : 3;
}

static keel_program *program_of(const model *m) {
  int64_t dims[4], image[] = {m->images, m->channels, m->side, m->side};
  const int64_t line[] = {m->images, m->filters ? m->filters : m->channels, -1};
  uint32_t rank = input_dims(m, dims);
  keel_builder *b = create_builder(context, "depthwise");
  keel_value x = keel_builder_input(b, "x", KD_F32, rank, dims);
  x = transpose(b, x, rank, true);
  if (m->form == LINE) x = reshape(b, x, 4, image);
  x = conv(b, m, x);
  if (m->read_twice) keel_builder_output(b, "z", x);
  if (m->form == LINE) x = reshape(b, x, 3, line);
  x = transpose(b, x, rank, false);
  keel_builder_output(b, "y", activate(b, m->activation, x));
  return finish_program(b);
}

typedef struct result {
  uint32_t depthwise, transposes, reorders, activations;
} result;

static result compare(const model *m) {
  int64_t dims[4];
  uint32_t rank = input_dims(m, dims);
  trial t =
      TRIAL(2e-5, .pass = {"depthwise", "algebra", "layout"},
            .in = {numbers(rank, dims, 1)}, .out_count = m->read_twice ? 2 : 1);
  keel_plan *plain = NULL;
  keel_plan *plan =
      compare_pass("model", (size_t)m->channels, program_of(m), &t, &plain);
  assert_int_equal(runs_of(plain, "DepthwiseConv"), 0);
  assert_true(runs_of(plain, "Transpose") > 0);
  const result got = {
      .depthwise = runs_of(plan, "DepthwiseConv"),
      .transposes = runs_of(plan, "Transpose"),
      .reorders = runs_of(plan, "Reorder"),
      .activations = runs_of(plan, "Gelu") + runs_of(plan, "Relu") +
                     runs_of(plan, "Sigmoid") + runs_of(plan, "Mul")};
  RELEASE(plain, plan);
  return got;
}

TEST_THAT(one_filter_a_channel_works_on_channels_last) {
  static const model models[] = {
      {1, 16, 0, 8, 3, 1, 1, {1, 1, 1, 1}, "Gelu", LINE, false, true},
      {2, 40, 0, 9, 3, 2, 1, {1, 1, 1, 1}, NULL, LINE, false, false},
      {1, 5, 0, 7, 3, 1, 1, {1, 1, 1, 1}, "Relu", LINE, false, true},
      {3, 24, 0, 11, 5, 1, 2, {4, 4, 4, 4}, "GeluTanh", IMAGE, false, true},
      {1, 33, 0, 6, 7, 1, 1, {3, 3, 3, 3}, "Silu", IMAGE, false, true},
      {2, 67, 0, 10, 2, 3, 1, {0, 1, 2, 0}, "Silu", LINE, false, false},
      {1, 20, 0, 31, 4, 1, 1, {3, 0, 0, 0}, "Gelu", ROW, false, true},
      {2, 8, 0, 5, 9, 1, 1, {4, 0, 4, 0}, NULL, ROW, false, true},
      {1, 3, 0, 4, 1, 1, 1, {0, 0, 0, 0}, NULL, IMAGE, false, false},
  };
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    const result got = compare(&models[i]);
    assert_int_equal(got.depthwise, 1);
    assert_int_equal(got.transposes, 0);
    assert_int_equal(got.activations, 0);
  }
}

/* Whose channels are read elsewhere, first, stays as it is. */
TEST_THAT(what_others_read_stays) {
  const model twice = {1, 16,           0,      8,    3,    1,
                       1, {1, 1, 1, 1}, "Gelu", LINE, true, true};
  assert_int_equal(compare(&twice).depthwise, 0);
}

/* Of all channels: Transposes read and write blocks, and nothing is brought into order. Where
 * the plugin was built without blocks, the second one may be read where it lies. */
TEST_THAT(others_read_blocks) {
  static const model models[] = {
      {1, 32, 48, 8, 3, 1, 1, {1, 1, 1, 1}, "Gelu", LINE, false, true},
      {2, 24, 40, 9, 3, 2, 1, {1, 1, 1, 1}, NULL, LINE, false, true},
      {3, 20, 37, 7, 3, 1, 1, {0, 0, 0, 0}, NULL, IMAGE, false, false},
      {2, 64, 80, 12, 1, 1, 1, {0, 0, 0, 0}, "Relu", IMAGE, false, true},
  };
  const bool blocks =
      keel_devices(context)[0]->plugin->layouts.preferred != NULL;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    const result got = compare(&models[i]);
    assert_int_equal(got.depthwise, 0);
    if (blocks) assert_int_equal(got.transposes, 2);
    assert_int_equal(got.reorders, 0);
  }
}

/* A Transpose whose result is read in rows makes rows. */
TEST_THAT(nobody_wants_blocks) {
  const int64_t dims[] = {1, 8, 8, 32};
  keel_tensor *x = numbers(4, dims, 1), *out[2] = {NULL, NULL};
  keel_builder *b = create_builder(context, "rows");
  keel_value value = keel_builder_input(b, "x", KD_F32, 4, dims);
  value = transpose(b, value, 4, true);
  keel_builder_output(b, "y", op(b, "Relu", value, KEEL_ABSENT));
  keel_builder_output(b, "z", value);
  keel_plan *plan = finish_plan(b, NULL);
  expect_ok(keel_plan_run(plan, &x, 1, out, 2));
  assert_int_equal(runs_of(plan, "Transpose"), 1);
  assert_int_equal(runs_of(plan, "Reorder"), 0);
  keel_tensor_release(x);
  release_all(out, 2);
  keel_plan_release(plan);
}

/* Where a Reshape copies a dimension of 0, its place counts. */
TEST_THAT(empty_lines_stay) {
  const int64_t lines[2][3] = {{2, 4, 0}, {2, 0, 3}};
  const int64_t shapes[2][4] = {{0, 0, 2, 2}, {0, 0, 3, 1}};
  for (int i = 0; i < 2; i++) {
    keel_tensor *x = numbers(3, lines[i], 1), *y = NULL;
    keel_builder *b = create_builder(context, "empty");
    keel_value value = keel_builder_input(b, "x", KD_F32, 3, lines[i]);
    if (!i) value = transpose(b, value, 3, true);
    value = reshape(b, value, 4, shapes[i]);
    if (i) { /* back to a line: 2, 0, 3 */
      const int64_t line[] = {0, 0, 3};
      value = transpose(b, reshape(b, value, 3, line), 3, false);
    }
    keel_plan *plan = plan_giving(b, value, NULL);
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    assert_int_equal(keel_tensor_rank(y), i ? 3 : 4);
    assert_int_equal(keel_tensor_dims(y)[1], i ? 3 : 0);
    RELEASE(x, y, plan);
  }
}

/* Ranks do not fit, which nobody sees before the bias is there. */
TEST_THAT(weights_of_one_dimension_are_none) {
  const int64_t four = 4;
  keel_builder *builder = create_builder(context, "ranks");
  keel_value three[] = {
      keel_builder_input(builder, "x", KD_F32, 1, &four),
      constant_numbers(builder, 1, &four, 1),
      keel_builder_input(builder, "b", KD_F32, KEEL_RANK_UNKNOWN, NULL)};
  keel_value y = keel_builder_op(builder, "Conv", NULL, 0, three, 3);
  keel_plan *plan = plan_giving(builder, y, NULL);
  keel_tensor *inputs[] = {numbers(1, &four, 2), numbers(1, &four, 3)};
  keel_tensor *output = NULL;
  assert_int_not_equal(keel_plan_run(plan, inputs, 2, &output, 1), KD_OK);
  release_all(inputs, 2);
  keel_plan_release(plan);
}

RUN_TESTS(open_cpu, close_context)
