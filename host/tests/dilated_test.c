/* dilated_test.c - the CPU's convolutions of which most taps see padding, beside sums in
 * double. */
#include "windows.h"

/* space, images, groups, ins, outs, in, kernel, stride, dilation, pads, what follows */
static const shape shapes[] = {
    {2,
     1,
     1,
     16,
     64,
     {14, 14},
     {3, 3},
     {1, 1},
     {12, 12},
     {12, 12, 12, 12},
     RELU},
    {2, 2, 1, 20, 75, {9, 13}, {3, 3}, {1, 1}, {6, 11}, {6, 11, 6, 11}, SUM},
    {2, 1, 1, 16, 56, {10, 9}, {3, 3}, {1, 1}, {7, 5}, {7, 5, 9, 8}, SILU},
    /* strides, windows of other sizes, and more outputs than inputs */
    {2, 3, 1, 24, 16, {23, 14}, {3, 5}, {2, 1}, {8, 5}, {8, 10, 8, 10}, SUM},
    {2, 1, 1, 12, 48, {18, 23}, {4, 4}, {1, 1}, {5, 7}, {6, 9, 6, 9}, NOTHING},
    /* outputs that see nothing, and long rows */
    {2, 1, 1, 16, 64, {2, 90}, {2, 2}, {1, 1}, {9, 80}, {12, 80, 12, 80}, SILU},
    {2,
     1,
     1,
     16,
     80,
     {4, 150},
     {3, 3},
     {1, 1},
     {4, 120},
     {4, 120, 4, 120},
     SUM},
    {1, 2, 1, 32, 40, {44}, {5}, {1}, {30}, {60, 60}, RELU},
    {3,
     1,
     1,
     16,
     48,
     {6, 9, 10},
     {3, 3, 3},
     {1, 1, 1},
     {3, 4, 5},
     {3, 4, 5, 3, 4, 5},
     SUM},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static keel_context *context;

static int open_one(void **state) {
  (void)state;
  context = windows_open(NULL, 0);
  return 0;
}

static int open_two(void **state) {
  (void)state;
  context = windows_open(NULL, 2);
  return 0;
}

static int open_avx2(void **state) {
  (void)state;
  context = windows_open("cpu.isa=avx2", 0);
  return 0;
}

static int close_it(void **state) {
  (void)state;
  keel_close(context);
  return 0;
}

/* From -4 to 4. */
static float integer(int64_t i, int salt) {
  return (float)((i * 7919 + i / 11 * 13 + salt) % 9) - 4;
}

static float number(int64_t i, int salt) {
  uint64_t bits = ((uint64_t)i * 4 + (uint64_t)salt) * 0x9e3779b97f4a7c15u;
  return (float)((double)((bits ^ (bits >> 29)) >> 11) * 0x1p-52 - 1);
}

static void programs(filler *fill, double relative, double units) {
  trial t = {.context = context,
             .shapes = shapes,
             .count = SHAPES,
             .fill = fill,
             .relative = relative,
             .units = units};
  windows_in_programs(&t);
}

/* Less than the smallest error of an index. */
static void integers_are_near(void **state) {
  (void)state;
  programs(integer, 1e-6, 0);
}

static void numbers_keep_the_bound(void **state) {
  (void)state;
  programs(number, 0, 4);
}

#define TEST(test, open) cmocka_unit_test_setup_teardown(test, open, close_it)

int main(void) {
  const struct CMUnitTest tests[] = {TEST(integers_are_near, open_one),
                                     TEST(integers_are_near, open_two),
                                     TEST(integers_are_near, open_avx2),
                                     TEST(numbers_keep_the_bound, open_one),
                                     TEST(numbers_keep_the_bound, open_two)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
