/* direct_test.c - the CPU's convolutions by a padded copy: groups of any width and few
 * channels, of one to three dimensions, with strides, dilations and padding of all kinds,
 * beside sums in double; in programs, where they lie in blocks, and in single calls. */
#include <math.h>

#include "testing.h"

enum { SPACE = 3, MOST = 1 << 18 };

typedef enum follow { NOTHING, RELU, SUM, SILU } follow;

typedef struct shape {
  uint32_t space;
  int64_t images, groups, ins, outs; /* ins, outs: of a group */
  int64_t in[SPACE], kernel[SPACE], stride[SPACE], dilation[SPACE];
  int64_t pads[2 * SPACE];
  follow last;
} shape;

static const shape shapes[] = {
    /* narrow groups, in blocks and beside them */
    {2, 1, 8, 4, 4, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, RELU},
    {2, 2, 16, 2, 2, {13, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, SUM},
    {2, 1, 12, 5, 5, {10, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, SILU},
    {2, 3, 3, 7, 9, {8, 8}, {2, 3}, {1, 2}, {1, 1}, {0, 1, 1, 0}, NOTHING},
    {2, 1, 10, 24, 24, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, RELU},
    {2, 1, 4, 3, 17, {6, 70}, {1, 3}, {1, 1}, {1, 2}, {0, 2, 0, 2}, SUM},
    {2, 1, 6, 8, 8, {15, 15}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, SILU},
    {2, 1, 5, 12, 4, {9, 9}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}, RELU},
    {2, 1, 6, 1, 3, {11, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, NOTHING},
    {2, 1, 4, 16, 16, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, SUM},
    {1, 2, 9, 4, 4, {100}, {5}, {1}, {3}, {6, 6}, RELU},
    {1, 1, 3, 6, 10, {33}, {4}, {3}, {1}, {0, 5}, SILU},
    {3,
     1,
     4,
     4,
     4,
     {4, 9, 8},
     {3, 3, 3},
     {1, 2, 1},
     {1, 1, 1},
     {1, 1, 1, 1, 1, 1},
     RELU},
    /* windows that see padding alone, and skip what lies between */
    {2, 1, 4, 4, 4, {5, 5}, {3, 3}, {1, 1}, {6, 6}, {6, 6, 6, 6}, NOTHING},
    {2, 1, 8, 2, 2, {9, 9}, {1, 1}, {3, 4}, {1, 1}, {0, 0, 0, 0}, RELU},
    {2, 1, 2, 5, 5, {3, 3}, {3, 3}, {2, 2}, {1, 1}, {4, 4, 4, 4}, SUM},
    /* few channels: threads share the rows */
    {2, 1, 1, 8, 8, {17, 19}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, RELU},
    {2, 1, 1, 20, 16, {16, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, SUM},
    {2, 1, 1, 32, 13, {9, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, SILU},
    {2, 2, 1, 16, 11, {12, 12}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, SUM},
    {2, 1, 1, 24, 3, {20, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, NOTHING},
    {2, 1, 1, 16, 40, {1, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, RELU},
    {1, 1, 1, 48, 96, {301}, {2}, {1}, {128}, {0, 0}, NOTHING},
    {1, 3, 1, 12, 21, {90}, {3}, {1}, {4}, {4, 4}, SUM},
    {3,
     1,
     1,
     16,
     8,
     {3, 10, 10},
     {3, 3, 3},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1, 1, 1, 1},
     RELU},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static keel_context *context;

static int open_cpu(const char *set, int32_t workers) {
  const char *paths[] = {CPU_PLUGIN}, *options[] = {set};
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .plugins = paths,
                                .plugin_count = 1,
                                .options = options,
                                .option_count = set != NULL,
                                .workers = workers};
  context = NULL;
  if (keel_open(&params, &context) != KD_OK || !keel_device_count(context)) {
    keel_close(context); /* a processor without that set */
    context = open_with(CPU_PLUGIN, NULL, workers);
  }
  return 0;
}

static int open_one(void **state) {
  (void)state;
  return open_cpu(NULL, 0);
}

static int open_three(void **state) {
  (void)state;
  return open_cpu(NULL, 3);
}

static int open_avx2(void **state) {
  (void)state;
  return open_cpu("cpu.isa=avx2", 2);
}

static int open_base(void **state) {
  (void)state;
  return open_cpu("cpu.isa=base", 2);
}

static int close_it(void **state) {
  (void)state;
  keel_close(context);
  return 0;
}

/* ---- what is wanted ------------------------------------------------------------------- */

static int64_t count_of(uint32_t rank, const int64_t *dims) {
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  assert_true(count <= MOST);
  return count;
}

static float number(int64_t i, int salt) {
  return (float)((i * 7919 + salt) % 41 - 20) / 20;
}

static void out_dims(const shape *s, int64_t *dims) {
  dims[0] = s->images;
  dims[1] = s->groups * s->outs;
  for (uint32_t i = 0; i < s->space; i++)
    dims[i + 2] = (s->in[i] + s->pads[i] + s->pads[i + s->space] -
                   (s->kernel[i] - 1) * s->dilation[i] - 1) /
                      s->stride[i] +
                  1;
}

/* The sum of one output: `at` is its place in y. */
static double sum_at(const shape *s, const int64_t *dims, int64_t at) {
  int64_t place[SPACE], taps = count_of(s->space, s->kernel);
  int64_t plane = count_of(s->space, s->in);
  for (uint32_t i = s->space; i-- > 0; at /= dims[i + 2])
    place[i] = at % dims[i + 2];
  int64_t out = at % dims[1], image = at / dims[1];
  double sum = (double)number(out, 3);
  for (int64_t c = 0; c < s->ins; c++)
    for (int64_t k = 0; k < taps; k++) {
      int64_t rest = k, from = 0, here[SPACE];
      bool inside = true;
      for (uint32_t i = s->space; i-- > 0; rest /= s->kernel[i])
        here[i] = place[i] * s->stride[i] - s->pads[i] +
                  rest % s->kernel[i] * s->dilation[i];
      for (uint32_t i = 0; i < s->space; i++) {
        inside = inside && here[i] >= 0 && here[i] < s->in[i];
        from = from * s->in[i] + here[i];
      }
      int64_t channel = (image * s->groups + out / s->outs) * s->ins + c;
      if (inside)
        sum += (double)number(channel * plane + from, 1) *
               (double)number((out * s->ins + c) * taps + k, 2);
    }
  return sum;
}

static double wanted(const shape *s, const int64_t *dims, int64_t at) {
  double y = sum_at(s, dims, at);
  if (s->last == SUM) y += (double)number(at, 4);
  if (s->last == SUM || s->last == RELU) y = y > 0 ? y : 0;
  if (s->last == SILU) y /= 1 + exp(-y);
  return y;
}

static void check(const shape *s, keel_tensor *y, const char *how) {
  static float got[MOST];
  int64_t dims[2 + SPACE], count;
  out_dims(s, dims);
  count = count_of(s->space + 2, dims);
  assert_int_equal(keel_tensor_elements(y), count);
  assert_int_equal(keel_tensor_read(y, got, (size_t)count * sizeof *got),
                   KD_OK);
  for (int64_t i = 0; i < count; i++) {
    double want = wanted(s, dims, i);
    if (!(fabs((double)got[i] - want) <= 1e-4 * (1 + fabs(want))))
      fail_msg("shape %d, %s: element %lld is %g, not %g", (int)(s - shapes),
               how, (long long)i, (double)got[i], want);
  }
}

/* ---- what is given -------------------------------------------------------------------- */

static keel_tensor *numbers(uint32_t rank, const int64_t *dims, int salt) {
  static float data[MOST];
  keel_tensor *tensor = NULL;
  int64_t count = count_of(rank, dims);
  for (int64_t i = 0; i < count; i++)
    data[i] = number(i, salt);
  assert_int_equal(
      keel_tensor_create(context, KD_F32, rank, dims, data, &tensor), KD_OK);
  return tensor;
}

typedef struct given {
  keel_tensor *x, *w, *bias, *z;
  keel_attr attrs[4];
} given;

static given give(const shape *s) {
  int64_t x[2 + SPACE] = {s->images, s->groups * s->ins};
  int64_t w[2 + SPACE] = {s->groups * s->outs, s->ins}, y[2 + SPACE];
  for (uint32_t i = 0; i < s->space; i++) {
    x[i + 2] = s->in[i];
    w[i + 2] = s->kernel[i];
  }
  out_dims(s, y);
  return (given){.x = numbers(s->space + 2, x, 1),
                 .w = numbers(s->space + 2, w, 2),
                 .bias = numbers(1, w, 3),
                 .z = numbers(s->space + 2, y, 4),
                 .attrs = {KEEL_INTS("pads", 2 * s->space, s->pads),
                           KEEL_INTS("strides", s->space, s->stride),
                           KEEL_INTS("dilations", s->space, s->dilation),
                           KEEL_INT("group", s->groups)}};
}

static void drop(given *g) {
  keel_tensor_release(g->x);
  keel_tensor_release(g->w);
  keel_tensor_release(g->bias);
  keel_tensor_release(g->z);
}

static keel_value unary(keel_builder *b, const char *op, keel_value x) {
  return keel_builder_op(b, op, NULL, 0, &x, 1);
}

static keel_value binary(keel_builder *b, const char *op, keel_value x,
                         keel_value y) {
  keel_value two[] = {x, y};
  return keel_builder_op(b, op, NULL, 0, two, 2);
}

static void convolutions_of_programs(void **state) {
  (void)state;
  for (size_t i = 0; i < SHAPES; i++) {
    const shape *s = &shapes[i];
    given g = give(s);
    keel_builder *b = NULL;
    keel_program *program = NULL;
    keel_plan *plan = NULL;
    keel_tensor *in[] = {g.x, g.z}, *y = NULL;
    assert_int_equal(keel_builder_create(context, "direct", &b), KD_OK);
    keel_value three[] = {
        keel_builder_input(b, "x", KD_F32, s->space + 2, keel_tensor_dims(g.x)),
        keel_builder_constant(b, g.w), keel_builder_constant(b, g.bias)};
    keel_value z =
        keel_builder_input(b, "z", KD_F32, s->space + 2, keel_tensor_dims(g.z));
    keel_value v = keel_builder_op(b, "Conv", g.attrs, 4, three, 3);
    if (s->last == SUM) v = binary(b, "Add", v, z);
    if (s->last == SUM || s->last == RELU) v = unary(b, "Relu", v);
    if (s->last == SILU) v = binary(b, "Mul", v, unary(b, "Sigmoid", v));
    keel_builder_output(b, "y", v);
    assert_int_equal(keel_builder_finish(b, &program), KD_OK);
    keel_builder_destroy(b);
    for (int turn = 0; turn < 2; turn++) {
      if ((!plan && keel_plan_create(program, NULL, &plan) != KD_OK) ||
          keel_plan_run(plan, in, 2, &y, 1) != KD_OK)
        fail_msg("%s", keel_message());
      check(s, y, "in a program");
      keel_tensor_release(y);
    }
    keel_plan_release(plan);
    keel_program_release(program);
    drop(&g);
  }
}

static void convolutions_of_calls(void **state) {
  (void)state;
  for (size_t i = 0; i < SHAPES; i++) {
    shape s = shapes[i];
    given g = give(&s);
    keel_tensor *in[] = {g.x, g.w, g.bias}, *y = NULL, *last = NULL;
    if (keel_call(context, "Conv", g.attrs, 4, in, 3, &y, 1) != KD_OK)
      fail_msg("%s", keel_message());
    if (s.last == SUM) {
      keel_tensor *two[] = {y, g.z};
      assert_int_equal(keel_call(context, "Add", NULL, 0, two, 2, &last, 1),
                       KD_OK);
      keel_tensor_release(y);
      y = last;
    }
    if (s.last == SUM || s.last == RELU) {
      assert_int_equal(keel_call(context, "Relu", NULL, 0, &y, 1, &last, 1),
                       KD_OK);
      keel_tensor_release(y);
      y = last;
    }
    if (s.last != SILU) check(&shapes[i], y, "in a call");
    keel_tensor_release(y);
    drop(&g);
  }
}

#define EACH(open)                                                           \
  cmocka_unit_test_setup_teardown(convolutions_of_programs, open, close_it), \
      cmocka_unit_test_setup_teardown(convolutions_of_calls, open, close_it)

int main(void) {
  const struct CMUnitTest tests[] = {EACH(open_one), EACH(open_three),
                                     EACH(open_avx2), EACH(open_base)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
