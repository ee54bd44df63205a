/* blocked_test.c - the CPU's blocked layout gives what rows give, for channels that do not
 * fill a block, for work that three threads can't share evenly, and for ops in between that
 * make more of the zeros that fill blocks up. */
#include "cpu_sets.h"
#include "device/device.h"
#include "pass.h"
#include "plan/plan.h"

enum { SIDE = 7, MOST = 1 << 14 };

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
  bool strange;       /* one element of each image is no number */
  const moving *move; /* between two convolutions, or NULL */
} shape;

static keel_value constant(keel_builder *b, uint32_t rank, const int64_t *dims,
                           float scale) {
  return constant_of(b, scaled_numbers(rank, dims, 0, scale));
}

/* Its weights shrink with what is summed, so that values stay near 1. */
static keel_value conv(keel_builder *b, keel_value x, int64_t from, int64_t to,
                       int64_t group, int64_t side) {
  const int64_t dims[] = {to, from / group, side, side};
  const int64_t pad = side / 2, pads[] = {pad, pad, pad, pad};
  const keel_attr attrs[] = {KEEL_INTS("pads", 4, pads),
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
  const keel_attr attrs[] = {KEEL_INTS("kernel_shape", 2, kernel),
                             KEEL_INTS("strides", 2, strides)};
  return keel_builder_op(b, op, attrs, 2, &x, 1);
}

/* The groups that a convolution of so many channels is cut into: narrow ones. */
static int64_t groups_of(int64_t channels) {
  return channels % 4 == 0   ? channels / 4
         : channels % 3 == 0 ? channels / 3
                             : 1;
}

/* The parts in another order. */
static keel_value write_split(keel_builder *b, keel_value x, const moving *m) {
  const keel_attr axis = KEEL_INT("axis", 1);
  keel_value two[] = {x, add_ints(b, 3, m->list)}, parts[3];
  expect_ok(keel_builder_op_n(b, "Split", &axis, 1, two, 2, parts, 3));
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
  const float scales[] = {1, m->channels > 0 ? m->channels : 1, m->scale,
                          m->scale};
  const keel_attr attrs[] = {
      KEEL_STRING("mode", m->mode),
      KEEL_STRING("coordinate_transformation_mode", m->place)};
  keel_value three[] = {x, KEEL_ABSENT,
                        add_constant(b, KD_F32, DIMS(4), scales)};
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
  } else if (!strcmp(m->op, "MaxPool")) {
    x = pool(b, m->op, x);
  } else {
    x = write_resize(b, x, m);
  }
  return m->last ? x : conv(b, x, left, s->out, 1, 3);
}

/* Of the zeros that fill blocks up Reciprocal makes infinity, and Div what is no number:
 * the next convolution would spread them. */
static keel_value write(keel_builder *b, keel_value x, const shape *s) {
  if (s->move) return write_moving(b, x, s);
  x = conv(b, x, s->in, s->wide, 1, 3);
  x = op(b, "Exp", op(b, "Cos", x, KEEL_ABSENT), KEEL_ABSENT);
  x = op(b, "Div", conv(b, x, s->wide, s->wide, s->wide, 3),
         op(b, "Add", x, x));
  x = conv(b, x, s->wide, s->wide, 1, 1);
  x = conv(b, x, s->wide, s->wide, groups_of(s->wide), 3);
  keel_value two = op(b, "Exp", op(b, "Sin", x, KEEL_ABSENT), KEEL_ABSENT);
  two = op(b, "Reciprocal", op(b, "Add", two, two), KEEL_ABSENT);
  keel_value scale = op(b, "Sigmoid",
                        conv(b, op(b, "GlobalAveragePool", two, KEEL_ABSENT),
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

/* The same with NaN in the middle of each image. */
static keel_tensor *spoiled(keel_tensor *from, int64_t images) {
  static float data[MOST];
  int64_t count = keel_tensor_elements(from), each = count / images;
  expect_ok(keel_tensor_read(from, data, (size_t)count * sizeof *data));
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

static void compare(const shape *s) {
  const int64_t dims[] = {s->images, s->in, SIDE, SIDE};
  /* a logarithm near 0 shows how convolutions round; here NaN is what counts */
  const double near = s->move && !strcmp(s->move->op, "Log") ? 1e-2 : 1e-4;
  trial t =
      TRIAL(near, .pass = {"layout"}, .in = {scaled_numbers(4, dims, 0, 1.5f)});
  keel_builder *b = create_builder(context, "blocked");
  keel_value x = keel_builder_input(b, "x", KD_F32, 4, dims);
  keel_plan *plain = NULL;
  if (s->strange) t.in[0] = spoiled(t.in[0], s->images);
  keel_builder_output(b, "y", write(b, x, s));
  keel_plan *plan = compare_pass(s->move ? s->move->op : "all", (size_t)s->wide,
                                 finish_program(b), &t, &plain);
  if (s->move) expect_in_place(s->move, plan);
  if (s->move) expect_in_place(s->move, plain);
  RELEASE(plan, plain);
}

LISTED_TEST(blocks_give_what_rows_give) {
  static const shape shapes[] = {
      {1, 3, 16, 16, false, NULL},   {1, 3, 24, 40, false, NULL},
      {1, 16, 72, 24, false, NULL},  {2, 24, 40, 8, false, NULL},
      {3, 8, 24, 112, false, NULL},  {1, 40, 120, 58, false, NULL},
      {1, 17, 31, 33, false, NULL},  {5, 12, 20, 9, false, NULL},
      {1, 1, 48, 80, false, NULL},   {1, 64, 160, 112, false, NULL},
      {2, 15, 116, 10, false, NULL},
  };
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    compare(&shapes[i]);
}

LISTED_TEST(blocks_are_moved_as_rows_are) {
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
      {"Log", {0}, .in_place = true},     /* of what fills up: -infinity */
      {"MaxPool", {0}, .in_place = true}, /* of what is no number, too */
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
  for (size_t i = 0; i < sizeof moves / sizeof *moves; i++)
    for (int64_t images = 1; images < 3; images++) {
      compare(&(shape){images, 3, 96, 32, false, &moves[i]});
      compare(&(shape){images, 3, 96, 20, true, &moves[i]});
      if (!moves[i].list[0] && !moves[i].list[1])
        compare(&(shape){images, 3, 40, 24, false, &moves[i]});
    }
}

SETUP(open_best) {
  context = open_with(CPU_PLUGIN, NULL, 2);
  return 0;
}

/* Blocks of another width, or none; the best set again where the processor has not that. */
static int open_set(const char *set) {
  context = open_cpu_options(&set, 1, 2);
  return 0;
}

SETUP(open_avx2) {
  return open_set("cpu.isa=avx2");
}

SETUP(open_base) {
  return open_set("cpu.isa=base");
}

#define EACH(open)                                                        \
  cmocka_unit_test_setup_teardown(blocks_give_what_rows_give, open,       \
                                  close_context),                         \
      cmocka_unit_test_setup_teardown(blocks_are_moved_as_rows_are, open, \
                                      close_context)

int main(void) {
  const struct CMUnitTest tests[] = {EACH(open_best), EACH(open_avx2),
                                     EACH(open_base)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
