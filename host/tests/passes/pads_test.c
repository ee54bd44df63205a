/* pads_test.c - zeros around an image go into the convolution that reads it; what is no such
 * padding stays, and the results are the same. */
#include <math.h>

#define WORKERS 0
#include "with_cpu.h"

enum { IN = 4, OUT = 6, SIDE = 7, MOST = OUT * 400 };

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
  const int64_t w_dims[] = {OUT, ins, 3, 2};
  float w[OUT * 8 * 6];
  for (size_t i = 0; i < sizeof w / sizeof *w; i++)
    w[i] = (float)(i * 7 % 13) / 4 - 1.5f;
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
                             add_constant(b, KD_F32, 4, w_dims, w)};
  keel_builder_output(b, "y", keel_builder_op(b, "Conv", attrs, 1, conv, 2));
  return finish_program(b);
}

/* How many Pads are left; the output goes to `got`. */
static uint32_t run(keel_program *program, bool pass, float *got,
                    size_t *out_count) {
  static const char *const skipped[] = {"pads"};
  const keel_plan_params params = {
      .struct_size = sizeof params, .skip = skipped, .skip_count = !pass};
  const int64_t dims[] = {1, IN, SIDE, SIDE};
  float data[IN * SIDE * SIDE];
  keel_tensor *y = NULL;
  for (int i = 0; i < IN * SIDE * SIDE; i++)
    data[i] = (float)(i * 5 % 17 - 8) / 8;
  keel_tensor *x = create_tensor(context, KD_F32, 4, dims, data);
  keel_plan *plan = create_plan(program, &params);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  *out_count = (size_t)keel_tensor_elements(y);
  assert_true(*out_count <= MOST);
  assert_int_equal(keel_tensor_read(y, got, *out_count * sizeof *got), KD_OK);
  uint32_t left = runs_of(plan, "Pad");
  keel_tensor_release(x);
  keel_tensor_release(y);
  keel_plan_release(plan);
  return left;
}

static void zeros_go_into_convolutions(void **state) {
  static float plain[MOST], passed[MOST];
  (void)state;
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    keel_program *program = program_of(&models[i]);
    size_t count = 0, again = 0;
    run(program, false, plain, &count);
    uint32_t left = run(program, true, passed, &again);
    assert_int_equal(count, again);
    for (size_t k = 0; k < count; k++)
      if (!(fabsf(plain[k] - passed[k]) < 1e-4f))
        fail_msg("model %zu: element %zu is %g, not %g", i, k,
                 (double)passed[k], (double)plain[k]);
    if (left != !models[i].goes)
      fail_msg("model %zu: %u Pads are left", i, left);
    keel_program_release(program);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(zeros_go_into_convolutions),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_context);
}
