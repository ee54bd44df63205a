/* taps_test.c - convolutions lose the taps that see padding alone, those and no others, and
 * give the same results. */
#include <math.h>

#define WORKERS 0
#include "with_cpu.h"

enum { CHANNELS = 4, FILTERS = 6, MOST = 4096 };

typedef struct window {
  const char *kept; /* the weights' shape as the dump says it */
  int64_t in[2], kernel[2], stride[2], dilation[2], pads[4];
} window;

static keel_tensor *numbers(uint32_t rank, const int64_t *dims) {
  static float list[MOST];
  int64_t count = elements_of(rank, dims);
  assert_true(count <= MOST);
  for (int64_t i = 0; i < count; i++)
    list[i] = (float)(i * 7919 % 401 - 200) / 100;
  return create_tensor(context, KD_F32, rank, dims, list);
}

static keel_program *program_of(const window *w) {
  const int64_t x_dims[] = {1, CHANNELS, w->in[0], w->in[1]};
  const int64_t w_dims[] = {FILTERS, CHANNELS, w->kernel[0], w->kernel[1]};
  const keel_attr attrs[] = {
      {.name = "pads", .kind = KD_ATTR_INTS, .count = 4, .ints = w->pads},
      {.name = "strides", .kind = KD_ATTR_INTS, .count = 2, .ints = w->stride},
      {.name = "dilations",
       .kind = KD_ATTR_INTS,
       .count = 2,
       .ints = w->dilation}};
  keel_tensor *weights = numbers(4, w_dims);
  keel_builder *builder = create_builder(context, "model");
  keel_value two[] = {keel_builder_input(builder, "x", KD_F32, 4, x_dims),
                      keel_builder_constant(builder, weights)};
  keel_builder_output(builder, "y",
                      keel_builder_op(builder, "Conv", attrs, 3, two, 2));
  keel_program *program = finish_program(builder);
  keel_tensor_release(weights);
  return program;
}

static void note_shape(void *found, const char *pass, const char *text) {
  const char **kept = found;
  (void)pass;
  if (strstr(text, *kept)) *kept = NULL;
}

static int64_t run(keel_program *program, const window *w, const char *skip,
                   const char **kept, float *out) {
  const int64_t dims[] = {1, CHANNELS, w->in[0], w->in[1]};
  keel_plan_params params = {
      .struct_size = sizeof params, .skip = &skip, .skip_count = skip != NULL};
  keel_tensor *x = numbers(4, dims), *y = NULL;
  int64_t count = 1;
  if (kept) {
    params.on_pass = note_shape;
    params.on_pass_context = (void *)kept;
    params.on_pass_name = "taps";
  }
  keel_plan *plan = create_plan(program, &params);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  for (uint32_t i = 0; i < keel_tensor_rank(y); i++)
    count *= keel_tensor_dims(y)[i];
  assert_true(count <= MOST);
  assert_int_equal(keel_tensor_read(y, out, (size_t)count * sizeof *out),
                   KD_OK);
  keel_tensor_release(x);
  keel_tensor_release(y);
  keel_plan_release(plan);
  return count;
}

static void taps_that_see_padding_go(void **state) {
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
  static float want[MOST], got[MOST];
  (void)state;
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    const window *w = &windows[i];
    const char *kept = w->kept;
    keel_program *program = program_of(w);

    int64_t count = run(program, w, "taps", NULL, want);
    assert_int_equal(run(program, w, NULL, &kept, got), count);

    if (kept) fail_msg("%zu: no weights of %s", i, kept);
    for (int64_t k = 0; k < count; k++)
      if (fabsf(got[k] - want[k]) > 1e-5f * (1 + fabsf(want[k])))
        fail_msg("%zu: element %lld is %g, not %g", i, (long long)k,
                 (double)got[k], (double)want[k]);
    keel_program_release(program);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(taps_that_see_padding_go),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_context);
}
