/* pooling_test.c - windows that reach beyond the padded image, and means, which are rounded
 * once. */
#include <math.h>

#include <kd/help.h>

#include "base/float.h"
#include "on_devices.h"

typedef struct pooling {
  const char *op, *mode;
  int64_t in[2], kernel[2], strides[2], dilations[2], pads[4];
  int64_t out[2];
  float want[4];
} pooling;

/* The image is 1, 2, 3 ... */
static const pooling rows[] = {
    /* one window that is larger than the image, which is walked all the same */
    {"MaxPool", 0, {1, 1}, {2, 2}, {2, 2}, {1, 1}, {0}, {1, 1}, {1}},
    {"MaxPool", 0, {2, 2}, {3, 3}, {2, 2}, {1, 1}, {0}, {1, 1}, {4}},
    {"AveragePool", 0, {1, 2}, {3, 3}, {3, 2}, {1, 1}, {0}, {1, 1}, {1.5}},
    {"LpPool", 0, {1, 1}, {3, 2}, {3, 2}, {1, 1}, {0}, {1, 1}, {1}},
    /* in one direction only; dilated; with padding, which counts */
    {"MaxPool", 0, {1, 5}, {3, 3}, {3, 2}, {1, 1}, {0}, {1, 2}, {3, 5}},
    {"MaxPool", 0, {2, 4}, {2, 2}, {1, 3}, {1, 5}, {0}, {1, 1}, {5}},
    {"AveragePool",
     0,
     {1, 1},
     {4, 4},
     {2, 2},
     {1, 1},
     {1, 1, 1, 1},
     {1, 1},
     {1.f / 9}},
    /* ceil(-span / stride) + 1 is 0: there is no window */
    {"MaxPool", 0, {1, 2}, {4, 1}, {3, 1}, {1, 1}, {0}, {0, 2}, {0}},
    {"AveragePool", 0, {2, 2}, {3, 3}, {1, 2}, {1, 1}, {0}, {0, 1}, {0}},
    /* a window that would begin in the end's padding is none */
    {"AveragePool",
     0,
     {1, 3},
     {1, 2},
     {1, 4},
     {1, 1},
     {0, 1, 0, 1},
     {1, 1},
     {.5}},
    {"AveragePool",
     0,
     {1, 3},
     {1, 2},
     {1, 3},
     {1, 1},
     {0, 1, 0, 1},
     {1, 2},
     {.5, 1.5}},
    {"MaxPool", "VALID", {1, 1}, {2, 3}, {2, 3}, {1, 1}, {0}, {1, 1}, {1}},
    {"MaxPool",
     "SAME_UPPER",
     {1, 3},
     {4, 4},
     {2, 2},
     {1, 1},
     {0},
     {1, 2},
     {3, 3}},
    {"AveragePool",
     "SAME_LOWER",
     {1, 1},
     {3, 2},
     {2, 2},
     {1, 1},
     {0},
     {1, 1},
     {1}},
};

static uint32_t attributes(const pooling *p, bool ceil, keel_attr *attrs) {
  uint32_t count = 0;
  bool average = p->op[0] == 'A' && !p->mode;
  attrs[count++] = (keel_attr)KEEL_INTS("kernel_shape", 2, p->kernel);
  attrs[count++] = (keel_attr)KEEL_INTS("strides", 2, p->strides);
  attrs[count++] = (keel_attr)KEEL_INTS("dilations", 2, p->dilations);
  attrs[count++] = p->mode ? (keel_attr)KEEL_STRING("auto_pad", p->mode)
                           : (keel_attr)KEEL_INTS("pads", 4, p->pads);
  attrs[count++] = (keel_attr)KEEL_INT("ceil_mode", ceil);
  if (average) attrs[count++] = (keel_attr)KEEL_INT("count_include_pad", 1);
  return count;
}

static keel_tensor *image(const int64_t *space) {
  const int64_t dims[] = {1, 1, space[0], space[1]};
  static const float numbers[] = {1, 2, 3, 4, 5, 6, 7, 8};
  return create_tensor(context, KD_F32, 4, dims, numbers);
}

LISTED_TEST(windows_larger_than_the_image_are_counted_up) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    keel_attr attrs[6];
    call c = {.op = rows[i].op,
              .attrs = attrs,
              .attr_count = attributes(&rows[i], true, attrs),
              .in = {image(rows[i].in)},
              .in_count = 1,
              .out_count = 1};
    known want = {
        KD_F32, 4, {1, 1, rows[i].out[0], rows[i].out[1]}, rows[i].want};
    call_everywhere(&c, check_known, &want);
    keel_tensor_release(c.in[0]);
  }
}

/* Counted down there is none; what would be fewer than none is refused. */
LISTED_TEST(windows_larger_than_the_image_are_counted_down) {
  static const pooling none = {"MaxPool", 0,   {1, 2}, {2, 2}, {2, 2},
                               {1, 1},    {0}, {0, 1}, {0}};
  static const pooling fewer = {"AveragePool", 0,   {1, 2}, {4, 2}, {2, 2},
                                {1, 1},        {0}, {0, 1}, {0}};
  keel_attr attrs[6];
  known want = {KD_F32, 4, {1, 1, 0, 1}, NULL};
  call c = {.op = none.op,
            .attrs = attrs,
            .attr_count = attributes(&none, false, attrs),
            .in = {image(none.in)},
            .in_count = 1,
            .out_count = 1};
  call_everywhere(&c, check_known, &want);
  c.op = fewer.op;
  for (int ceil = 0; ceil < 2; ceil++) {
    int64_t strides[] = {ceil ? 1 : 2, 2};
    pooling p = fewer;
    memcpy(p.strides, strides, sizeof strides);
    c.attr_count = attributes(&p, ceil, attrs);
    fails_everywhere(&c, KD_INVALID_ARGUMENT,
                     "the window is larger than the padded input");
  }
  keel_tensor_release(c.in[0]);
}

enum { SIDE = 21, PLANE = SIDE * SIDE };

/* Elements of a plane as `dtype` has them; they come back as they were rounded. */
static void make_plane(kd_dtype dtype, unsigned char *bytes, double *plane) {
  uint64_t bits = 0;
  for (int i = 0; i < PLANE; i++) {
    unsigned char *at = bytes + (size_t)i * kd_dtype_size(dtype);
    keel_float_encode(dtype, 0.1 * (i * 37 % 101 - 50), at);
    keel_float_decode(dtype, at, &plane[i], &bits);
  }
}

/* Of windows of kernel x kernel, each beside the one before. */
static void expect_means(const char *name, const keel_attr *attrs,
                         uint32_t count, kd_dtype dtype, int64_t kernel) {
  static unsigned char bytes[8 * PLANE], want[8 * PLANE];
  double plane[PLANE];
  const int64_t dims[] = {1, 1, SIDE, SIDE}, side = SIDE / kernel;
  make_plane(dtype, bytes, plane);
  for (int64_t i = 0; i < side * side; i++) {
    double sum = 0;
    for (int64_t k = 0; k < kernel * kernel; k++)
      sum += plane[(i / side * kernel + k / kernel) * SIDE + i % side * kernel +
                   k % kernel];
    keel_float_encode(dtype, sum / (double)(kernel * kernel),
                      want + (size_t)i * kd_dtype_size(dtype));
  }
  call c = {.op = name,
            .attrs = attrs,
            .attr_count = count,
            .in = {create_tensor(context, dtype, 4, dims, bytes)},
            .in_count = 1,
            .out_count = 1};
  known result = {dtype, 4, {1, 1, side, side}, want};
  call_everywhere(&c, check_known, &result);
  keel_tensor_release(c.in[0]);
}

LISTED_TEST(a_mean_is_rounded_once) {
  static const kd_dtype types[] = {KD_F32, KD_F16, KD_BF16};
  for (int t = 0; t < 3; t++) {
    for (int64_t kernel = 3; kernel <= 7; kernel += 4) {
      const int64_t pair[] = {kernel, kernel};
      const keel_attr attrs[] = {KEEL_INTS("kernel_shape", 2, pair),
                                 KEEL_INTS("strides", 2, pair)};
      expect_means("AveragePool", attrs, 2, types[t], kernel);
    }
    expect_means("GlobalAveragePool", NULL, 0, types[t], SIDE);
    expect_means("ReduceMean", NULL, 0, types[t], SIDE);
  }
}

/* The CPU's own layout for images has loops of its own. */
LISTED_TEST(a_mean_behind_a_convolution_is_rounded_once) {
  const int64_t dims[] = {1, 16, SIDE, SIDE}, w_dims[] = {16, 1, 1, 1};
  const int64_t pair[] = {3, 3};
  static float x[16 * PLANE], ones[16], got[16 * 49];
  const keel_attr group = KEEL_INT("group", 16);
  const keel_attr window[] = {KEEL_INTS("kernel_shape", 2, pair),
                              KEEL_INTS("strides", 2, pair)};
  keel_builder *b = create_builder(context, "mean");
  keel_tensor *y = NULL;
  for (int i = 0; i < 16 * PLANE; i++)
    x[i] = 0.1f * (float)(i * 37 % 101 - 50);
  for (int i = 0; i < 16; i++)
    ones[i] = 1;
  const keel_value in[] = {keel_builder_input(b, "x", KD_F32, 4, dims),
                           add_constant(b, KD_F32, 4, w_dims, ones)};
  keel_value conv = keel_builder_op(b, "Conv", &group, 1, in, 2);
  keel_plan *plan = plan_giving(
      b, keel_builder_op(b, "AveragePool", window, 2, &conv, 1), NULL);
  keel_tensor *image_of_x = create_tensor(context, KD_F32, 4, dims, x);
  expect_ok(keel_plan_run(plan, &image_of_x, 1, &y, 1));
  expect_ok(keel_tensor_read(y, got, sizeof got));
  for (int i = 0; i < 16 * 49; i++) {
    double sum = 0;
    for (int k = 0; k < 9; k++)
      sum += (double)x[i / 49 * PLANE + (i % 49 / 7 * 3 + k / 3) * SIDE +
                       i % 7 * 3 + k % 3];
    assert_true(got[i] == (float)(sum / 9));
  }
  RELEASE(image_of_x, y, plan);
}

/* Groups for a line, planes that are summed up in parts, and numbers that cancel. */
LISTED_TEST(a_long_mean_is_rounded_once) {
  enum { LONG = 4100 };
  static const kd_dtype types[] = {KD_F32, KD_F16, KD_BF16};
  static unsigned char bytes[4 * LONG], want[8];
  for (int t = 0; t < 3; t++)
    for (int64_t n = 255; n <= LONG; n = n < 257 ? n + 1 : n * 4 - 1) {
      const int64_t dims[] = {1, 1, n};
      double sum = 0, v = 0;
      uint64_t bits = 0;
      for (int64_t i = 0; i < n; i++) {
        unsigned char *at = bytes + (size_t)i * kd_dtype_size(types[t]);
        keel_float_encode(
            types[t], (i % 2 ? -1000.3 : 1000.1) + 0.37 * (double)(i % 11), at);
        keel_float_decode(types[t], at, &v, &bits);
        sum += v;
      }
      keel_float_encode(types[t], sum / (double)n, want);
      for (int op = 0; op < 2; op++) {
        call c = {.op = op ? "GlobalAveragePool" : "ReduceMean",
                  .in = {create_tensor(context, types[t], 3, dims, bytes)},
                  .in_count = 1,
                  .out_count = 1};
        known result = {types[t], 3, {1, 1, 1}, want};
        call_everywhere(&c, check_known, &result);
        keel_tensor_release(c.in[0]);
      }
    }
}

LISTED_TEST(a_mean_of_infinities_is_one) {
  static const struct {
    float x[4], want;
  } all[] = {{{INFINITY, 1, 2, 3}, INFINITY},
             {{1, -INFINITY, 2, 3}, -INFINITY},
             {{0, 0, 0, 0}, 0},
             {{1, 2, 3, 4}, 2.5F}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    call c = {.op = "GlobalAveragePool",
              .in = {create_tensor(context, KD_F32, DIMS(1, 1, 4), all[i].x)},
              .in_count = 1,
              .out_count = 1};
    known want = {KD_F32, 3, {1, 1, 1}, &all[i].want};
    call_everywhere(&c, check_known, &want);
    keel_tensor_release(c.in[0]);
  }
}

int main(void) {
  const struct CMUnitTest windows[] = {
      cmocka_unit_test(windows_larger_than_the_image_are_counted_up),
      cmocka_unit_test(windows_larger_than_the_image_are_counted_down),
      cmocka_unit_test(a_mean_behind_a_convolution_is_rounded_once),
  };
  const struct CMUnitTest means[] = {
      cmocka_unit_test(a_mean_is_rounded_once),
      cmocka_unit_test(a_long_mean_is_rounded_once),
      cmocka_unit_test(a_mean_of_infinities_is_one),
  };
  return cmocka_run_group_tests(windows, open_all_devices, close_context) +
         cmocka_run_group_tests(means, open_all_devices, close_context) +
         cmocka_run_group_tests_name("means without f64", means,
                                     open_without_f64, close_context);
}
