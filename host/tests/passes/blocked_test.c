/* blocked_test.c - the CPU's blocked layout gives what rows give, for channels that do not
 * fill a block, for work that three threads can't share evenly, and for ops in between that
 * make more of the zeros that fill blocks up. */
#include <math.h>

#include "cpu_sets.h"
#include "device/device.h"
#include "plan/plan.h"

enum { SIDE = 7, MOST = 160 * 160 * 9 };

typedef struct pooling {
  const char *op;
  int64_t kernel[2], stride[2], dilation[2], pads[4];
  int64_t count_pad, ceil;
} pooling;

/* What moves channels, or positions, between two convolutions. */
typedef struct moving {
  const char *op;    /* Log: of what is not negative */
  int64_t list[3];   /* of Split: sizes; of Slice: from, to, step */
  const char *mode;  /* of Resize */
  const char *place; /* coordinate_transformation_mode */
  float scale;
  float channels; /* scale of those; 0: 1 */
  bool last;      /* its result is the program's */
  /* it takes blocks as they are: the result alone is brought to rows */
  bool in_place;
} moving;

typedef struct shape {
  int64_t images, in, wide, out;
  const pooling *pool; /* between two convolutions, or NULL */
  bool strange;        /* one element of each image is no number */
  const moving *move;  /* the same, or NULL */
} shape;

static keel_tensor *numbers(uint32_t rank, const int64_t *dims, float scale) {
  static float data[MOST];
  int64_t count = elements_of(rank, dims);
  assert_true(count <= MOST);
  for (int64_t i = 0; i < count; i++)
    data[i] = scale * (float)((i * 7919) % 41 - 20) / 20;
  return create_tensor(context, KD_F32, rank, dims, data);
}

static keel_value constant(keel_builder *b, uint32_t rank, const int64_t *dims,
                           float scale) {
  return constant_of(b, numbers(rank, dims, scale));
}

/* Its weights shrink with what is summed, so that values stay near 1. */
static keel_value conv(keel_builder *b, keel_value x, int64_t from, int64_t to,
                       int64_t group, int64_t side) {
  const int64_t dims[] = {to, from / group, side, side};
  const int64_t pad = side / 2, pads[] = {pad, pad, pad, pad};
  const keel_attr attrs[] = {
      {.name = "pads", .kind = KD_ATTR_INTS, .count = 4, .ints = pads},
      KEEL_INT("group", group)};
  float scale = 1 / sqrtf((float)(dims[1] * side * side));
  keel_value three[] = {x, constant(b, 4, dims, scale),
                        constant(b, 1, &to, 0.5f)};
  return keel_builder_op(b, "Conv", attrs, 2, three, 3);
}

/* Of the zeros that fill blocks up the means would make something. */
static keel_value norm(keel_builder *b, keel_value x, int64_t channels) {
  keel_value spread = op(b, "Exp", constant(b, 1, &channels, 1), KEEL_ABSENT);
  keel_value five[] = {x, constant(b, 1, &channels, 2),
                       constant(b, 1, &channels, 3),
                       constant(b, 1, &channels, 1), spread};
  return keel_builder_op(b, "BatchNormalization", NULL, 0, five, 5);
}

static keel_value pool(keel_builder *b, const char *op, keel_value x) {
  static const int64_t kernel[] = {3, 3}, strides[] = {2, 2};
  const keel_attr attrs[] = {
      {.name = "kernel_shape",
       .kind = KD_ATTR_INTS,
       .count = 2,
       .ints = kernel},
      {.name = "strides", .kind = KD_ATTR_INTS, .count = 2, .ints = strides}};
  return keel_builder_op(b, op, attrs, 2, &x, 1);
}

/* The groups that a convolution of so many channels is cut into: narrow ones. */
static int64_t groups_of(int64_t channels) {
  return channels % 4 == 0   ? channels / 4
         : channels % 3 == 0 ? channels / 3
                             : 1;
}

static keel_value write_pooling(keel_builder *b, keel_value x, const shape *s) {
  const pooling *p = s->pool;
  const keel_attr attrs[] = {
      {"kernel_shape", .kind = KD_ATTR_INTS, .count = 2, .ints = p->kernel},
      {"strides", .kind = KD_ATTR_INTS, .count = 2, .ints = p->stride},
      {"dilations", .kind = KD_ATTR_INTS, .count = 2, .ints = p->dilation},
      {"pads", .kind = KD_ATTR_INTS, .count = 4, .ints = p->pads},
      KEEL_INT("ceil_mode", p->ceil),
      KEEL_INT("count_include_pad", p->count_pad)};
  x = conv(b, x, s->in, s->wide, 1, 3);
  x = keel_builder_op(b, p->op, attrs, p->op[0] == 'A' ? 6 : 5, &x, 1);
  return conv(b, x, s->wide, s->out, 1, 1);
}

/* The parts in another order. */
static keel_value write_split(keel_builder *b, keel_value x, const moving *m) {
  const keel_attr axis = KEEL_INT("axis", 1);
  keel_value two[] = {x, add_ints(b, 3, m->list)}, parts[3];
  assert_int_equal(keel_builder_op_n(b, "Split", &axis, 1, two, 2, parts, 3),
                   KD_OK);
  keel_value turned[] = {parts[2], parts[0], parts[1]};
  return keel_builder_op(b, "Concat", &axis, 1, turned, 3);
}

static keel_value write_slice(keel_builder *b, keel_value x, const moving *m) {
  const int64_t axis = 1;
  keel_value five[] = {x, add_ints(b, 1, &m->list[0]),
                       add_ints(b, 1, &m->list[1]), add_ints(b, 1, &axis),
                       add_ints(b, 1, &m->list[2])};
  return keel_builder_op(b, "Slice", NULL, 0, five, 5);
}

static keel_value write_resize(keel_builder *b, keel_value x, const moving *m) {
  const int64_t four = 4;
  const float scales[] = {1, m->channels > 0 ? m->channels : 1, m->scale,
                          m->scale};
  const keel_attr attrs[] = {
      KEEL_STRING("mode", m->mode),
      KEEL_STRING("coordinate_transformation_mode", m->place)};
  keel_tensor *tensor = create_tensor(context, KD_F32, 1, &four, scales);
  keel_value three[] = {x, KEEL_ABSENT, keel_builder_constant(b, tensor)};
  keel_tensor_release(tensor);
  return keel_builder_op(b, "Resize", attrs, 2, three, 3);
}

static keel_value write_moving(keel_builder *b, keel_value x, const shape *s) {
  const moving *m = s->move;
  int64_t left = s->wide;
  x = conv(b, x, s->in, s->wide, 1, 3);
  if (!strcmp(m->op, "Split")) {
    x = write_split(b, x, m);
  } else if (!strcmp(m->op, "Slice")) {
    int64_t from = m->list[0] + (m->list[0] < 0 ? left : 0);
    int64_t to = m->list[1] < left ? m->list[1] : left;
    x = write_slice(b, x, m);
    left = (to - from + m->list[2] - 1) / m->list[2];
  } else if (!strcmp(m->op, "Log")) {
    x = op(b, "Log", op(b, "Abs", x, KEEL_ABSENT), KEEL_ABSENT);
  } else {
    x = write_resize(b, x, m);
  }
  return m->last ? x : conv(b, x, left, s->out, 1, 3);
}

/* Of the zeros that fill blocks up Reciprocal makes infinity, and Div what is no number:
 * the next convolution would spread them. */
static keel_value write(keel_builder *b, keel_value x, const shape *s) {
  if (s->pool) return write_pooling(b, x, s);
  if (s->move) return write_moving(b, x, s);
  x = conv(b, x, s->in, s->wide, 1, 3);
  x = op(b, "Exp", op(b, "Cos", x, KEEL_ABSENT), KEEL_ABSENT);
  x = op(b, "Div", conv(b, x, s->wide, s->wide, s->wide, 3),
         op(b, "Add", x, x));
  x = conv(b, x, s->wide, s->wide, 1, 1);
  x = conv(b, x, s->wide, s->wide, groups_of(s->wide), 3);
  keel_value two = op(b, "Exp", op(b, "Sin", x, KEEL_ABSENT), KEEL_ABSENT);
  two = op(b, "Reciprocal", op(b, "Add", two, two), KEEL_ABSENT);
  keel_value scale =
      op(b, "Sigmoid",
         conv(b, keel_builder_op(b, "GlobalAveragePool", NULL, 0, &two, 1),
              s->wide, s->wide, 1, 1),
         KEEL_ABSENT);
  x = conv(b, op(b, "Mul", two, scale), s->wide, s->out, 1, 1);
  keel_value third = conv(b, two, s->wide, 32, 1, 1);
  keel_value three[] = {third, conv(b, third, 32, 16, 1, 3), two};
  const keel_attr axis = KEEL_INT("axis", -3);
  two = norm(b, keel_builder_op(b, "Concat", &axis, 1, three, 3), 48 + s->wide);
  x = op(b, "Add", x, conv(b, two, 48 + s->wide, s->out, 1, 3));
  return pool(b, "AveragePool",
              op(b, "Relu", pool(b, "MaxPool", x), KEEL_ABSENT));
}

static keel_plan *plan_of(const shape *s, const char *skip) {
  const int64_t dims[] = {s->images, s->in, SIDE, SIDE};
  const keel_plan_params params = {
      .struct_size = sizeof params, .skip = &skip, .skip_count = skip != NULL};
  keel_builder *b = create_builder(context, "blocked");
  keel_value x = keel_builder_input(b, "x", KD_F32, 4, dims);
  keel_builder_output(b, "y", write(b, x, s));
  return finish_plan(b, &params);
}

/* The same with NaN in the middle of each image. */
static keel_tensor *spoiled(keel_tensor *from, int64_t images) {
  static float data[MOST];
  int64_t count = keel_tensor_elements(from), each = count / images;
  assert_int_equal(keel_tensor_read(from, data, (size_t)count * sizeof *data),
                   KD_OK);
  for (int64_t i = 0; i < images; i++)
    data[i * each + SIDE * (SIDE / 2) + SIDE / 2] = NAN;
  keel_tensor *x =
      create_tensor(context, KD_F32, 4, keel_tensor_dims(from), data);
  keel_tensor_release(from);
  return x;
}

/* What lies in blocks is brought to rows once, and the smaller of two; of a Split that stays
 * no Slice does. */
static void expect_in_place(const moving *m, keel_plan *plan) {
  keel_profile_line line;
  if (m->in_place && runs_of(plan, "Reorder") > 1)
    fail_msg("%s: %u Reorders", m->op, runs_of(plan, "Reorder"));
  if (!strcmp(m->op, "Split") && m->list[0] % 8)
    assert_int_equal(runs_of(plan, "Slice"), 0);
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    if (m->last && !strcmp(line.op, "Reorder") && !strstr(line.types, ",7,7]"))
      fail_msg("%s: Reorder of %s", m->op, line.types);
}

static int64_t run(const shape *s, const char *skip, float *out) {
  const int64_t dims[] = {s->images, s->in, SIDE, SIDE};
  keel_plan *plan = plan_of(s, skip);
  keel_tensor *x = numbers(4, dims, 2), *y = NULL;
  if (s->strange) x = spoiled(x, s->images);
  keel_plan_profile(plan, KEEL_PROFILE_OPS); /* the lines have types then */
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  int64_t count = keel_tensor_elements(y);
  assert_int_equal(keel_tensor_read(y, out, (size_t)count * sizeof *out),
                   KD_OK);
  if (s->move) expect_in_place(s->move, plan);
  keel_tensor_release(x);
  keel_tensor_release(y);
  keel_plan_release(plan);
  return count;
}

static void compare(const shape *s) {
  static float want[MOST], got[MOST];
  /* a logarithm near 0 shows how convolutions round; here NaN is what counts */
  const float within = s->move && !strcmp(s->move->op, "Log") ? 1e-2f : 1e-4f;
  int64_t count = run(s, "layout", want);
  assert_int_equal(run(s, NULL, got), count);
  for (int64_t k = 0; k < count; k++)
    if (isnan(want[k])
            ? !isnan(got[k])
            : !(fabsf(got[k] - want[k]) <= within * (1 + fabsf(want[k]))))
      fail_msg(
          "%s: %lld x %lld to %lld to %lld: element %lld is %g, in rows %g",
          s->pool   ? s->pool->op
          : s->move ? s->move->op
                    : "all",
          (long long)s->images, (long long)s->in, (long long)s->wide,
          (long long)s->out, (long long)k, (double)got[k], (double)want[k]);
}

static void blocks_give_what_rows_give(void **state) {
  static const shape shapes[] = {
      {1, 3, 16, 16, NULL, false, NULL},   {1, 3, 24, 40, NULL, false, NULL},
      {1, 16, 72, 24, NULL, false, NULL},  {2, 24, 40, 8, NULL, false, NULL},
      {3, 8, 24, 112, NULL, false, NULL},  {1, 40, 120, 58, NULL, false, NULL},
      {1, 17, 31, 33, NULL, false, NULL},  {5, 12, 20, 9, NULL, false, NULL},
      {1, 1, 48, 80, NULL, false, NULL},   {1, 64, 160, 112, NULL, false, NULL},
      {2, 15, 116, 10, NULL, false, NULL},
  };
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    compare(&shapes[i]);
}

static void blocks_are_pooled_as_rows_are(void **state) {
  static const pooling pools[] = {
      {"MaxPool", {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 0, 0},
      {"MaxPool", {3, 2}, {2, 3}, {1, 1}, {1, 0, 0, 1}, 0, 1},
      {"MaxPool", {2, 3}, {1, 2}, {3, 2}, {0, 2, 1, 1}, 0, 0},
      {"MaxPool", {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}, 0, 0},
      {"MaxPool", {7, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, 0, 0},
      {"AveragePool", {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 0, 0},
      {"AveragePool", {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, 1, 0},
      {"AveragePool", {2, 4}, {3, 2}, {1, 1}, {0, 2, 1, 1}, 1, 1},
      {"AveragePool", {3, 2}, {2, 2}, {1, 2}, {1, 0, 2, 1}, 0, 1},
  };
  (void)state;
  for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
    for (int64_t images = 1; images < 3; images++) {
      compare(&(shape){images, 16, 24, 16, &pools[i], false, NULL});
      compare(&(shape){images, 9, 77, 20, &pools[i], false, NULL});
      compare(&(shape){images, 16, 24, 16, &pools[i], true, NULL});
    }
}

static void blocks_are_moved_as_rows_are(void **state) {
  static const moving moves[] = {
      {"Split", {16, 48, 32}, .in_place = true},
      {"Split", {16, 40, 40}, .in_place = false},
      {"Split", {10, 36, 50}, .in_place = false},
      {"Slice", {0, 48, 1}, .in_place = true},
      {"Slice", {48, INT64_MAX, 1}, .in_place = true},
      {"Slice", {-32, 96, 1}, .in_place = true},
      {"Slice", {8, 48, 1}, .in_place = false},
      {"Slice", {8, 40, 1}, .in_place = false},
      {"Slice", {4, 36, 1}, .in_place = false},
      {"Slice", {16, 40, 1}, .in_place = false},
      {"Slice", {16, 80, 2}, .in_place = false},
      {"Log", {0}, .in_place = true}, /* of what fills up: -infinity */
      {"Resize", {0}, "nearest", "asymmetric", 2, .in_place = true},
      {"Resize", {0}, "linear", "half_pixel", 2, .in_place = true},
      {"Resize", {0}, "linear", "align_corners", 3, .in_place = true},
      {"Resize", {0}, "cubic", "pytorch_half_pixel", 1.5f, .in_place = true},
      {"Resize", {0}, "linear", "half_pixel", 0.5f, .in_place = true},
      {"Resize",
       {0},
       "linear",
       "half_pixel",
       2,
       .last = true,
       .in_place = true},
      {"Resize", {0}, "nearest", "half_pixel", 1, .in_place = false},
      /* as many channels again, but between those that there were */
      {"Resize", {0}, "linear", "half_pixel", 2, .channels = 1.01f},
  };
  (void)state;
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
    for (int64_t images = 1; images < 3; images++) {
      compare(&(shape){images, 3, 96, 32, NULL, false, &moves[i]});
      compare(&(shape){images, 3, 96, 20, NULL, true, &moves[i]});
      if (!moves[i].list[0] && !moves[i].list[1])
        compare(&(shape){images, 3, 40, 24, NULL, false, &moves[i]});
    }
}

static int open_best(void **state) {
  (void)state;
  context = open_with(CPU_PLUGIN, NULL, 2);
  return 0;
}

/* Blocks of another width, or none; the best set again where the processor has not that. */
static int open_set(const char *set) {
  context = open_cpu_options(&set, 1, 2);
  return 0;
}

static int open_avx2(void **state) {
  (void)state;
  return open_set("cpu.isa=avx2");
}

static int open_base(void **state) {
  (void)state;
  return open_set("cpu.isa=base");
}

#define EACH(open)                                                         \
  cmocka_unit_test_setup_teardown(blocks_give_what_rows_give, open,        \
                                  close_context),                          \
      cmocka_unit_test_setup_teardown(blocks_are_pooled_as_rows_are, open, \
                                      close_context),                      \
      cmocka_unit_test_setup_teardown(blocks_are_moved_as_rows_are, open,  \
                                      close_context)

int main(void) {
  const struct CMUnitTest tests[] = {EACH(open_best), EACH(open_avx2),
                                     EACH(open_base)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
