/* transposed_test.c - a ConvTranspose whose weights are packed gives what one gives whose
 * weights come with each run. */
#include <math.h>
#include <stdlib.h>

#define WORKERS 2
#include "with_cpu.h"

typedef struct shape {
  uint32_t space;
  int64_t images, ins, outs, groups; /* channels, all of them */
  int64_t size[3], kernel[3], strides[3], pads[6], dilations[3];
} shape;

static const shape shapes[] = {
    {2, 1, 64, 32, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {2, 2, 40, 33, 1, {5, 7}, {3, 3}, {2, 1}, {1, 0, 0, 1}, {1, 1}},
    {2, 1, 100, 48, 1, {1, 1}, {4, 4}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
    {2, 1, 17, 200, 1, {6, 3}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
    {2, 1, 16, 40, 1, {9, 9}, {3, 2}, {1, 3}, {2, 0, 1, 0}, {2, 1}},
    {1, 3, 32, 48, 1, {50}, {5}, {3}, {2, 1}, {1}},
    {1, 2, 24, 35, 1, {301}, {7}, {2}, {3, 2}, {2}},
    {3,
     1,
     24,
     20,
     1,
     {3, 4, 5},
     {2, 2, 2},
     {2, 2, 2},
     {0, 0, 0, 0, 0, 0},
     {1, 1, 1}},
    /* more positions than are turned at once, in one piece and in several */
    {2, 1, 24, 16, 1, {20, 20}, {3, 3}, {1, 2}, {1, 1, 1, 1}, {1, 1}},
    {2, 2, 20, 96, 1, {17, 31}, {3, 3}, {2, 2}, {1, 1, 0, 0}, {1, 1}},
    /* these are not packed: groups, few outputs, many positions */
    {2, 1, 32, 32, 4, {7, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {2, 1, 64, 3, 1, {8, 8}, {4, 4}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
    {2, 1, 16, 32, 1, {65, 64}, {2, 2}, {2, 2}, {0, 0, 0, 0}, {1, 1}},
};

static keel_tensor *random_tensor(uint32_t rank, const int64_t *dims,
                                  uint32_t seed) {
  int64_t count = elements_of(rank, dims);
  float *data = malloc((size_t)count * sizeof *data);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    data[i] = (float)(seed >> 8) * 0x1p-23f - 1;
  }
  keel_tensor *tensor = create_tensor(context, KD_F32, rank, dims, data);
  free(data);
  return tensor;
}

static keel_tensor *run(const shape *s, keel_tensor *const *in, bool constant) {
  const keel_attr attrs[] = {KEEL_INTS("strides", s->space, s->strides),
                             KEEL_INTS("pads", 2 * s->space, s->pads),
                             KEEL_INTS("dilations", s->space, s->dilations),
                             KEEL_INT("group", s->groups)};
  keel_tensor *y = NULL;
  keel_value values[3];
  keel_builder *b = create_builder(context, "transposed");
  for (int i = 0; i < 3; i++)
    values[i] = constant && i
                    ? keel_builder_constant(b, in[i])
                    : keel_builder_input(b, (const char *[]){"x", "w", "b"}[i],
                                         KD_F32, keel_tensor_rank(in[i]),
                                         keel_tensor_dims(in[i]));
  keel_builder_output(b, "y",
                      keel_builder_op(b, "ConvTranspose", attrs, 4, values, 3));
  keel_program *program = finish_program(b);
  keel_plan *plan = create_plan(program, NULL);
  for (int turn = 0; turn < 2; turn++) { /* in a static run, too */
    keel_tensor_release(y);
    expect_ok(keel_plan_run(plan, in, constant ? 1 : 3, &y, 1));
  }
  keel_plan_release(plan);
  keel_program_release(program);
  return y;
}

static void check(const shape *s, int number) {
  int64_t x[5] = {s->images, s->ins}, w[5] = {s->ins, s->outs / s->groups};
  for (uint32_t i = 0; i < s->space; i++) {
    x[i + 2] = s->size[i];
    w[i + 2] = s->kernel[i];
  }
  keel_tensor *in[] = {random_tensor(s->space + 2, x, 1),
                       random_tensor(s->space + 2, w, 2),
                       random_tensor(1, &s->outs, 3)};
  keel_tensor *given = run(s, in, false), *packed = run(s, in, true);
  size_t count = (size_t)keel_tensor_elements(given);
  float *a = malloc(2 * count * sizeof *a), *b = a + count;
  assert_non_null(a);
  assert_int_equal(keel_tensor_elements(packed), count);
  assert_int_equal(keel_tensor_read(given, a, count * sizeof *a), KD_OK);
  assert_int_equal(keel_tensor_read(packed, b, count * sizeof *b), KD_OK);
  for (size_t i = 0; i < count; i++)
    if (!(fabsf(a[i] - b[i]) <= 1e-4f))
      fail_msg("shape %d: element %zu is %g, not %g", number, i, (double)b[i],
               (double)a[i]);
  free(a);
  keel_tensor_release(given);
  keel_tensor_release(packed);
  release_all(in, 3);
}

static void packed_weights_give_the_same(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    check(&shapes[i], (int)i);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(packed_weights_give_the_same),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_context);
}
