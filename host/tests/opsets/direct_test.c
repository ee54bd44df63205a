/* direct_test.c - the CPU's convolutions by a padded copy: groups of any width and few
 * channels, of one to three dimensions, with strides, dilations and padding of all kinds,
 * beside sums in double; in programs, where they lie in blocks, and in single calls. */
#include "windows.h"

static const shape shapes[] = {
    /* narrow groups, in blocks and beside them */
    {2, 1, 8, 4, 4, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, RELU},
    {2, 2, 16, 2, 2, {13, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, SUM},
    {2, 1, 12, 5, 5, {10, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, SILU},
    {2, 3, 3, 7, 9, {8, 8}, {2, 3}, {1, 2}, {1, 1}, {0, 1, 1, 0}, NOTHING},
    {2, 1, 10, 24, 24, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, RELU},
    {2, 1, 4, 3, 17, {6, 70}, {1, 3}, {1, 1}, {1, 2}, {0, 2, 0, 2}, SUM},
    {2, 1, 6, 8, 8, {15, 15}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, SILU},
    {2, 1, 5, 12, 4, {9, 9}, {5, 5}, {1, 1}, {1, 1}, {2, 2, 2, 2}, RELU},
    {2, 1, 6, 1, 3, {11, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, NOTHING},
    {2, 1, 4, 16, 16, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, SUM},
    {1, 2, 9, 4, 4, {100}, {5}, {1}, {3}, {6, 6}, RELU},
    {1, 1, 3, 6, 10, {33}, {4}, {3}, {1}, {0, 5}, SILU},
    {3,
     1,
     4,
     4,
     4,
     {4, 9, 8},
     {3, 3, 3},
     {1, 2, 1},
     {1, 1, 1},
     {1, 1, 1, 1, 1, 1},
     RELU},
    /* windows that see padding alone, and skip what lies between */
    {2, 1, 4, 4, 4, {5, 5}, {3, 3}, {1, 1}, {6, 6}, {6, 6, 6, 6}, NOTHING},
    {2, 1, 8, 2, 2, {9, 9}, {1, 1}, {3, 4}, {1, 1}, {0, 0, 0, 0}, RELU},
    {2, 1, 2, 5, 5, {3, 3}, {3, 3}, {2, 2}, {1, 1}, {4, 4, 4, 4}, SUM},
    /* few channels: threads share the rows */
    {2, 1, 1, 8, 8, {17, 19}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, RELU},
    {2, 1, 1, 20, 16, {16, 16}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, SUM},
    {2, 1, 1, 32, 13, {9, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, SILU},
    {2, 2, 1, 16, 11, {12, 12}, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, SUM},
    {2, 1, 1, 24, 3, {20, 20}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, NOTHING},
    {2, 1, 1, 16, 40, {1, 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, RELU},
    {1, 1, 1, 48, 96, {301}, {2}, {1}, {128}, {0, 0}, NOTHING},
    {1, 3, 1, 12, 21, {90}, {3}, {1}, {4}, {4, 4}, SUM},
    {3,
     1,
     1,
     16,
     8,
     {3, 10, 10},
     {3, 3, 3},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1, 1, 1, 1},
     RELU},
};
#define SHAPES (sizeof shapes / sizeof *shapes)

static float number(int64_t i, int salt) {
  return (float)((i * 7919 + salt) % 41 - 20) / 20;
}

static trial near_sums(void **state) {
  return (trial){.context = *state,
                 .shapes = shapes,
                 .count = SHAPES,
                 .fill = number,
                 .relative = 1e-4};
}

static void convolutions_of_programs(void **state) {
  trial t = near_sums(state);
  windows_in_programs(&t);
}

static void convolutions_of_calls(void **state) {
  trial t = near_sums(state);
  windows_in_calls(&t);
}

#define EACH(setup)                              \
  WINDOWS_TEST(convolutions_of_programs, setup), \
      WINDOWS_TEST(convolutions_of_calls, setup)

int main(void) {
  const struct CMUnitTest tests[] = {EACH(one), EACH(four), EACH(avx2),
                                     EACH(base)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
