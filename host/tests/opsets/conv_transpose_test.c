/* conv_transpose_test.c - outputs of ConvTranspose whose size is given, or is that of SAME_*: what
 * is too much is cut on both sides, and where there is too little, zeros follow. */
#include "on_devices.h"

typedef struct transposed {
  const char *mode;
  int64_t kernel, stride, dilation;
  int64_t extra, shape; /* output_padding, output_shape; 0: not given */
  int64_t out;
  float want[16];
} transposed;

static const transposed all[] = {
    /* strides beyond the window */
    {"SAME_UPPER", 1, 3, 1, 0, 0, 9, {1, 0, 0, 2, 0, 0, 3}},
    {"SAME_LOWER", 1, 3, 1, 0, 0, 9, {1, 0, 0, 2, 0, 0, 3}},
    {"SAME_UPPER", 1, 2, 1, 0, 0, 6, {1, 0, 2, 0, 3}},
    {"SAME_LOWER", 1, 2, 1, 0, 0, 6, {1, 0, 2, 0, 3}},
    {"SAME_UPPER", 2, 5, 1, 0, 0, 15, {1, 2, 0, 0, 0, 2, 4, 0, 0, 0, 3, 6}},
    {"SAME_LOWER", 2, 5, 1, 0, 0, 15, {1, 2, 0, 0, 0, 2, 4, 0, 0, 0, 3, 6}},
    {"SAME_UPPER",
     2,
     5,
     3,
     0,
     0,
     15,
     {1, 0, 0, 2, 0, 2, 0, 0, 4, 0, 3, 0, 0, 6}},
    {"SAME_LOWER", 2, 5, 1, 2, 0, 15, {1, 2, 0, 0, 0, 2, 4, 0, 0, 0, 3, 6}},
    {"SAME_LOWER", 1, 3, 1, 1, 0, 9, {1, 0, 0, 2, 0, 0, 3}},
    {"NOTSET", 1, 3, 1, 0, 9, 9, {1, 0, 0, 2, 0, 0, 3}},
    {"NOTSET", 2, 5, 1, 0, 15, 15, {1, 2, 0, 0, 0, 2, 4, 0, 0, 0, 3, 6}},
    {"SAME_UPPER", 1, 3, 1, 0, 8, 8, {1, 0, 0, 2, 0, 0, 3}},
    {"SAME_LOWER", 1, 3, 1, 0, 9, 9, {1, 0, 0, 2, 0, 0, 3}},
    /* one element too much, or two */
    {"SAME_UPPER", 3, 2, 1, 0, 0, 6, {1, 2, 5, 4, 9, 6}},
    {"SAME_LOWER", 3, 2, 1, 0, 0, 6, {2, 5, 4, 9, 6, 9}},
    {"NOTSET", 3, 2, 1, 0, 6, 6, {2, 5, 4, 9, 6, 9}},
    {"NOTSET", 3, 2, 1, 0, 5, 5, {2, 5, 4, 9, 6}},
};

static void check(const transposed *t, bool flat) {
  const float x[] = {1, 2, 3}, w[] = {1, 2, 3};
  const int64_t x_dims[] = {1, 1, 3, 1}, w_dims[] = {1, 1, t->kernel, 1};
  const int64_t strides[] = {t->stride, 1}, dilations[] = {t->dilation, 1};
  const int64_t extra[] = {t->extra, 0}, shape[] = {t->shape, 1};
  const uint32_t space = flat ? 1 : 2;
  keel_attr attrs[5] = {KEEL_INTS("strides", space, strides),
                        KEEL_INTS("dilations", space, dilations),
                        KEEL_STRING("auto_pad", t->mode)};
  uint32_t count = 3;
  if (t->extra)
    attrs[count++] = (keel_attr)KEEL_INTS("output_padding", space, extra);
  if (t->shape)
    attrs[count++] = (keel_attr)KEEL_INTS("output_shape", space, shape);
  call c = {.op = "ConvTranspose",
            .attrs = attrs,
            .attr_count = count,
            .in = {create_tensor(context, KD_F32, space + 2, x_dims, x),
                   create_tensor(context, KD_F32, space + 2, w_dims, w)},
            .in_count = 2,
            .out_count = 1};
  known want = {KD_F32, space + 2, {1, 1, t->out, 1}, t->want};
  call_everywhere(&c, check_known, &want);
  release_all(c.in, c.in_count);
}

TEST_THAT(sizes_are_cut_or_filled_with_zeros) {
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int flat = 0; flat < 2; flat++)
      check(&all[i], flat);
}

RUN_TESTS(open_all_devices, close_context)
