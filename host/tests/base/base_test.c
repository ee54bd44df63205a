/* base_test.c - arrays that grow: on the heap and in an arena. */
#include "base/base.h"
#include "testing.h"

enum { MANY = 1000 };

TEST_THAT(an_array_grows_by_one_at_a_time) {
  uint32_t *list = NULL, count = 0, capacity = 0;
  for (uint32_t i = 0; i < MANY; i++) {
    assert_true(KEEL_ROOM(list, count, capacity));
    assert_true(count < capacity && capacity <= 2 * MANY + 8);
    list[count++] = i;
  }
  for (uint32_t i = 0; i < MANY; i++)
    assert_int_equal(list[i], i);
  free(list);
}

/* What the arena gave before is not written over. */
TEST_THAT(one_in_an_arena_grows_too) {
  keel_arena arena = {0};
  uint32_t *list = NULL, *first = NULL, count = 0, capacity = 0;
  for (uint32_t i = 0; i < MANY; i++) {
    assert_true(KEEL_ARENA_ROOM(&arena, list, count, capacity));
    if (!first) first = list;
    list[count++] = i;
  }
  for (uint32_t i = 0; i < MANY; i++)
    assert_int_equal(list[i], i);
  assert_ptr_not_equal(first, list);
  assert_int_equal(first[0], 0);
  keel_arena_free(&arena);
}

/* The array stays as it was. */
TEST_THAT(more_than_can_be_counted_is_refused) {
  uint64_t one = 1, *list = &one;
  uint32_t capacity = UINT32_MAX / 2;
  keel_arena arena = {0};
  assert_false(KEEL_ROOM(list, capacity, capacity));
  expect_message("memory");
  assert_false(KEEL_ARENA_ROOM(&arena, list, capacity, capacity));
  assert_ptr_equal(list, &one);
  assert_int_equal(capacity, UINT32_MAX / 2);
}

RUN_TESTS(NULL, NULL)
