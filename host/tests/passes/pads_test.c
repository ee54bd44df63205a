/* pads_test.c - zeros around an image go into the convolution that reads it; what is no such
 * padding stays, and the results are the same. */
#define WORKERS 0
#include "pass.h"
#include "with_cpu.h"

enum { IN = 4, OUT = 6, SIDE = 7 };

typedef struct model {
  const char *mode;
  float value;
  bool valued; /* it is given */
  uint32_t axis_count;
  int64_t axes[4], pads[8], own[4]; /* own: the convolution's */
  bool same;                        /* auto_pad is SAME_UPPER */
  bool goes;
} model;

static const model models[] = {
    /* all dimensions, or some; with padding of the convolution's own */
    {"constant", 0, false, 0, {0}, {0, 0, 1, 0, 0, 0, 2, 3}, {0}, false, true},
    {"constant",
     0,
     true,
     0,
     {0},
     {0, 0, 0, 1, 0, 0, 1, 1},
     {1, 0, 2, 1},
     false,
     true},
    {"constant", 0, true, 2, {3, 2}, {1, 2, 0, 3}, {0}, false, true},
    {"constant", 0, false, 2, {-2, -1}, {1, 0, 1, 2}, {0}, false, true},
    /* no zeros, less than nothing, other dimensions, padding that is computed */
    {"constant", 1, true, 0, {0}, {0, 0, 1, 1, 0, 0, 1, 1}, {0}, false, false},
    {"constant",
     -0.0f,
     true,
     0,
     {0},
     {0, 0, 1, 1, 0, 0, 1, 1},
     {0},
     false,
     false},
    {"edge", 0, false, 0, {0}, {0, 0, 1, 1, 0, 0, 1, 1}, {0}, false, false},
    {"reflect", 0, false, 0, {0}, {0, 0, 1, 1, 0, 0, 1, 1}, {0}, false, false},
    {"constant",
     0,
     false,
     0,
     {0},
     {0, 0, 1, -1, 0, 0, 1, 1},
     {0},
     false,
     false},
    {"constant", 0, false, 0, {0}, {1, 0, 1, 1, 0, 0, 1, 1}, {0}, false, false},
    {"constant", 0, false, 2, {1, 2}, {1, 0, 1, 1}, {0}, false, false},
    {"constant", 0, false, 0, {0}, {0, 0, 1, 0, 0, 0, 0, 0}, {0}, true, false},
};

static keel_program *program_of(const model *m) {
  const int64_t x_dims[] = {1, IN, SIDE, SIDE}, count = m->axis_count;
  const int64_t whole = count ? 2 * count : 8;
  bool channel = m->axis_count && m->axes[0] == 1;
  const int64_t ins = IN + (channel ? m->pads[0] + m->pads[count] : 0);
  keel_builder *b = create_builder(context, "padded");
  const keel_attr mode = KEEL_STRING("mode", m->mode);
  const keel_value pad[] = {
      keel_builder_input(b, "x", KD_F32, 4, x_dims),
      add_constant(b, KD_I64, 1, &whole, m->pads),
      m->valued ? add_constant(b, KD_F32, 0, NULL, &m->value) : KEEL_ABSENT,
      count ? add_constant(b, KD_I64, 1, &count, m->axes) : KEEL_ABSENT};
  const keel_attr attrs[] = {
      m->same ? (keel_attr)KEEL_STRING("auto_pad", "SAME_UPPER")
              : (keel_attr)KEEL_INTS("pads", 4, m->own)};
  const keel_value conv[] = {keel_builder_op(b, "Pad", &mode, 1, pad, 4),
                             constant_numbers(b, DIMS(OUT, ins, 3, 2), 9)};
  return program_giving(b, keel_builder_op(b, "Conv", attrs, 1, conv, 2));
}

TEST_THAT(zeros_go_into_convolutions) {
  const int64_t dims[] = {1, IN, SIDE, SIDE};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    trial t = TRIAL(1e-5, .pass = {"pads"}, .in = {numbers(4, dims, 0)});
    keel_plan *plan =
        compare_pass("model", i, program_of(&models[i]), &t, NULL);
    if (runs_of(plan, "Pad") != !models[i].goes)
      fail_msg("model %zu: %u Pads are left", i, runs_of(plan, "Pad"));
    keel_plan_release(plan);
  }
}

RUN_TESTS(open_cpu, close_context)
