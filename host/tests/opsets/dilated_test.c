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

static void programs(void **state, filler *fill, double relative,
                     double units) {
  trial t = {.context = *state,
             .shapes = shapes,
             .count = SHAPES,
             .fill = fill,
             .relative = relative,
             .units = units};
  windows_in_programs(&t);
}

/* Less than the smallest error of an index. */
static void integers_are_near(void **state) {
  programs(state, windows_integer, 1e-6, 0);
}

static void numbers_keep_the_bound(void **state) {
  programs(state, windows_number, 0, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      WINDOWS_TEST(integers_are_near, one),
      WINDOWS_TEST(integers_are_near, four),
      WINDOWS_TEST(integers_are_near, avx2),
      WINDOWS_TEST(numbers_keep_the_bound, one),
      WINDOWS_TEST(numbers_keep_the_bound, four)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
