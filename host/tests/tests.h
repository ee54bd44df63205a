/* tests.h - tests with cmocka. */
#ifndef KEEL_TESTS_H
#define KEEL_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* wants those above */

/* A test that a list names, and what is done before tests or behind them. */
#define LISTED_TEST(name) static void name(void **state __attribute__((unused)))
#define SETUP(name)       static int name(void **state __attribute__((unused)))

/* A test that tests_run runs, with all others of the file, in their order; in the second form
 * with what is done before it and behind it. */
#define TEST_THAT(name) TEST_BETWEEN(name, NULL, NULL)
#define TEST_BETWEEN(name, before, after)                                \
  static void name(void **);                                             \
  __attribute__((constructor)) static void name##_is_one(void) {         \
    tests_of_file[test_count++] =                                        \
        (struct CMUnitTest)cmocka_unit_test_setup_teardown(name, before, \
                                                           after);       \
  }                                                                      \
  LISTED_TEST(name)

static struct CMUnitTest tests_of_file[64];
static size_t test_count;

static inline int tests_run(CMFixtureFunction before, CMFixtureFunction after) {
  return _cmocka_run_group_tests("tests", tests_of_file, test_count, before,
                                 after);
}

/* A program that does nothing else. */
#define RUN_TESTS(before, after)     \
  int main(void) {                   \
    return tests_run(before, after); \
  }

/* What is done before and behind each of them that does not say so itself. */
static inline void around_each(CMFixtureFunction before,
                               CMFixtureFunction after) {
  for (size_t i = 0; i < test_count; i++) {
    struct CMUnitTest *test = &tests_of_file[i];
    if (test->setup_func || test->teardown_func) continue;
    test->setup_func = before;
    test->teardown_func = after;
  }
}

#endif /* KEEL_TESTS_H */
