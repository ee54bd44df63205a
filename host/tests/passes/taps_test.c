/* taps_test.c - convolutions lose the taps that see padding alone, those and no others, and
 * give the same results. */
#define WORKERS 0
#include "pass.h"
#include "with_cpu.h"

enum { CHANNELS = 4, FILTERS = 6 };

typedef struct window {
  const char *kept; /* the weights' shape as the dump says it */
  int64_t in[2], kernel[2], stride[2], dilation[2], pads[4];
} window;

TEST_THAT(taps_that_see_padding_go) {
  static const window windows[] = {
      /* the one in the middle; one dimension; two of three; none */
      {"6x4x1x1", {5, 5}, {3, 3}, {1, 1}, {6, 6}, {6, 6, 6, 6}},
      {"6x4x1x3", {5, 9}, {3, 3}, {1, 1}, {5, 4}, {5, 4, 5, 4}},
      {"6x4x2x3", {4, 9}, {3, 3}, {1, 1}, {4, 1}, {4, 1, 7, 1}},
      {"6x4x3x3", {7, 7}, {3, 3}, {1, 1}, {6, 6}, {6, 6, 6, 6}},
      {"6x4x3x3", {9, 3}, {3, 5}, {2, 2}, {2, 2}, {2, 4, 2, 4}},
      /* what is left would begin behind the first element */
      {"6x4x3x3", {9, 9}, {3, 3}, {9, 9}, {8, 8}, {7, 7, 7, 7}},
  };
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    const window *w = &windows[i];
    const int64_t x_dims[] = {1, CHANNELS, w->in[0], w->in[1]};
    const int64_t w_dims[] = {FILTERS, CHANNELS, w->kernel[0], w->kernel[1]};
    const keel_attr attrs[] = {KEEL_INTS("pads", 4, w->pads),
                               KEEL_INTS("strides", 2, w->stride),
                               KEEL_INTS("dilations", 2, w->dilation)};
    trial t = TRIAL(1e-5, .pass = {"taps"}, .in = {numbers(4, x_dims, 0)},
                    .wanted = w->kept);
    keel_builder *b = create_builder(context, "model");
    keel_value two[] = {keel_builder_input(b, "x", KD_F32, 4, x_dims),
                        constant_numbers(b, 4, w_dims, 0)};
    keel_builder_output(b, "y", keel_builder_op(b, "Conv", attrs, 3, two, 2));
    keel_plan_release(compare_pass("window", i, finish_program(b), &t, NULL));
    if (!t.found) fail_msg("%zu: no weights of %s", i, w->kept);
  }
}

RUN_TESTS(open_cpu, close_context)
