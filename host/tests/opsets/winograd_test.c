/* winograd_test.c - the CPU's convolutions of 3 x 3 taps, which are computed in fewer products:
 * small integers are exact, other numbers keep the suite's bound, and what is no number
 * reaches no output but those that see it. */
#include <math.h>

#include "windows.h"

/* space, images, groups, ins, outs, in, kernel, stride, dilation, pads, what follows */
static const shape shapes[] = {
    {2, 1, 1, 64, 64, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, RELU},
    /* channels that fill no block, and no panel */
    {2, 1, 1, 60, 93, {14, 8}, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}, SUM},
    {2, 3, 1, 61, 62, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {0, 1, 2, 0}, SILU},
    {2, 2, 1, 79, 61, {8, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, NOTHING},
    /* threads share filters, and tiles of several tasks */
    {2, 1, 1, 96, 128, {4, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, SILU},
    {2, 1, 1, 32, 64, {30, 22}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, SUM},
    /* gaps between taps */
    {2, 1, 1, 64, 60, {15, 18}, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}, SUM},
    {2, 2, 1, 64, 64, {17, 10}, {3, 3}, {1, 1}, {3, 1}, {3, 1, 3, 1}, SILU},
    {2, 1, 1, 40, 64, {12, 15}, {3, 3}, {1, 1}, {1, 4}, {0, 4, 1, 4}, RELU},
    /* layers */
    {3,
     1,
     1,
     32,
     64,
     {4, 9, 8},
     {3, 3, 3},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1, 1, 1, 1},
     RELU},
    {3,
     2,
     1,
     48,
     64,
     {5, 6, 8},
     {2, 3, 3},
     {2, 1, 1},
     {2, 1, 1},
     {1, 1, 1, 0, 1, 1},
     SUM},
    {3,
     1,
     1,
     64,
     64,
     {3, 12, 9},
     {1, 3, 3},
     {1, 1, 1},
     {1, 2, 1},
     {0, 2, 1, 0, 2, 1},
     SILU},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

/* ---- what is given -------------------------------------------------------------------- */

/* A few elements are no numbers. */
static float strange_x(int64_t i, int salt) {
  if (salt == 1 && i % 1201 == 77) return INFINITY;
  if (salt == 1 && i % 1201 == 500) return NAN;
  return windows_number(i, salt);
}

/* Sums of two elements may be too large; those with the weights are not. */
static float huge_x(int64_t i, int salt) {
  float value = windows_number(i, salt);
  return salt == 1 ? value * 0x1p127f : salt == 2 ? value * 0x1p-20f : value;
}

static float strange_weights(int64_t i, int salt) {
  return salt == 2 && i % 5003 == 40 ? -INFINITY : windows_number(i, salt);
}

/* ---- what is wanted ------------------------------------------------------------------- */

static trial trial_of(void **state, filler *fill, double units) {
  return (trial){.context = *state,
                 .shapes = shapes,
                 .count = SHAPES,
                 .fill = fill,
                 .units = units};
}

/* Powers of e are no integers, and not all have an exact sum. */
static void integers_are_exact(void **state) {
  for (size_t i = 0; i < SHAPES; i++) {
    trial t = trial_of(state, windows_integer, 0);
    t.shapes = &shapes[i];
    t.count = 1;
    if (shapes[i].last == SILU) t.relative = 1e-6;
    windows_in_programs(&t);
  }
}

static void numbers_keep_the_bound(void **state) {
  trial t = trial_of(state, windows_number, 4);
  windows_in_programs(&t);
}

static void others_see_no_infinity(void **state) {
  trial t = trial_of(state, strange_x, 4);
  windows_in_programs(&t);
}

static void huge_elements(void **state) {
  trial t = trial_of(state, huge_x, 4);
  windows_in_programs(&t);
}

/* Without oneDNN and AVX2 no tensor lies in blocks: others sum the taps. */
static bool has_blocks(void) {
#if defined(KEEL_WITH_DNNL) && defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

/* Others may take a weight times padding. */
static void infinite_weights(void **state) {
  if (!has_blocks()) skip();
  trial t = trial_of(state, strange_weights, 4);
  windows_in_programs(&t);
}

/* Its sums have other bits than those of taps. */
static void off_sums_taps(void **state) {
  if (!has_blocks()) skip();
  static float with[8192], without[8192];
  trial t = trial_of(state, windows_number, 4);
  size_t made = windows_output(&t, &shapes[0], with, 8192);
  keel_close(*state);
  t.context = *state = windows_open("cpu.winograd=off", 0);
  assert_int_equal(windows_output(&t, &shapes[0], without, 8192), made);
  assert_memory_not_equal(with, without, made * sizeof *with);
  windows_in_programs(&t);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      WINDOWS_TEST(integers_are_exact, one),
      WINDOWS_TEST(integers_are_exact, four),
      WINDOWS_TEST(integers_are_exact, avx2),
      WINDOWS_TEST(numbers_keep_the_bound, four),
      WINDOWS_TEST(numbers_keep_the_bound, avx2),
      WINDOWS_TEST(others_see_no_infinity, four),
      WINDOWS_TEST(huge_elements, four),
      WINDOWS_TEST(infinite_weights, four),
      WINDOWS_TEST(off_sums_taps, one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
