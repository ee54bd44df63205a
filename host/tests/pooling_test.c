/* pooling_test.c - windows that reach beyond the padded image. */
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

static void windows_larger_than_the_image_are_counted_up(void **state) {
  (void)state;
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
static void windows_larger_than_the_image_are_counted_down(void **state) {
  static const pooling none = {"MaxPool", 0,   {1, 2}, {2, 2}, {2, 2},
                               {1, 1},    {0}, {0, 1}, {0}};
  static const pooling fewer = {"AveragePool", 0,   {1, 2}, {4, 2}, {2, 2},
                                {1, 1},        {0}, {0, 1}, {0}};
  keel_attr attrs[6];
  known want = {KD_F32, 4, {1, 1, 0, 1}, NULL};
  (void)state;
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(windows_larger_than_the_image_are_counted_up),
      cmocka_unit_test(windows_larger_than_the_image_are_counted_down),
  };
  return cmocka_run_group_tests(tests, open_all_devices, close_context);
}
