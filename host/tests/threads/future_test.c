/* future_test.c - every interleaving of who makes a value, who waits for it and who lets
 * go of it. */
#include "interleave.h"

#include "base/refs.h"
#include "values/future.h"

enum { CONTENT = 42, WAITERS = 2 };

typedef struct waiting {
  keel_waiter waiter; /* first: a waiter is its waiting */
  _Atomic uint64_t why;
  int called;
  uint64_t state, content; /* as the call saw them */
} waiting;

static struct {
  keel_future future;
  _Atomic uint64_t content;
  waiting waiting[WAITERS];
  uint64_t seen; /* by who only looks: content, or 0 where it was not known */
  atomic_uint refs;
  int freed;
  _Atomic uint64_t left[THREADS]; /* by holder: what it did to it */
} all;

static bool is_known(void) {
  return !is_new(&all, sizeof all);
}

/* ---- a value becomes known ------------------------------------------------------------ */

static void called(keel_waiter *waiter) {
  waiting *self = (waiting *)(void *)waiter;
  self->called++;
  self->state = keel_future_state(&all.future);
  self->content = atomic_load_explicit(&all.content, memory_order_relaxed);
  /* what the waiting thread left in it, seen by whoever calls */
  assert_true(atomic_load_explicit(&self->why, memory_order_relaxed) == 7);
}

static void make_it(void) {
  atomic_store_explicit(&all.content, CONTENT, memory_order_relaxed);
  keel_future_settle(&all.future, KEEL_READY);
}

static void wait_for(int which) {
  waiting *self = &all.waiting[which];
  atomic_store_explicit(&self->why, 7, memory_order_relaxed);
  keel_future_then(&all.future, &self->waiter);
}

static void wait_first(void) {
  wait_for(0);
}

static void wait_second(void) {
  wait_for(1);
}

static void wait_twice(void) {
  wait_for(0);
  wait_for(1);
}

static void look(void) {
  if (keel_future_state(&all.future) == KEEL_READY)
    all.seen = atomic_load_explicit(&all.content, memory_order_relaxed);
}

static void reset_value(void) {
  memset(&all, 0, sizeof all);
  keel_future_init(&all.future, KEEL_PENDING);
  for (int i = 0; i < WAITERS; i++)
    all.waiting[i].waiter.call = called;
}

static void check_calls(int count) {
  for (int i = 0; i < count; i++) {
    assert_int_equal(all.waiting[i].called, 1);
    assert_int_equal(all.waiting[i].state, KEEL_READY);
    assert_int_equal(all.waiting[i].content, CONTENT);
  }
}

static void check_one(void) {
  check_calls(1);
  assert_true(all.seen == 0 || all.seen == CONTENT);
}

static void check_both(void) {
  check_calls(2);
}

TEST_THAT(each_waiter_is_called_once_with_the_content) {
  void (*const pair[])(void) = {make_it, wait_twice};
  void (*const trio[])(void) = {make_it, wait_first, wait_second};
  void (*const looked[])(void) = {make_it, wait_first, look};
  assert_true(explore(reset_value, check_both, 2, pair) > 1);
  assert_true(explore(reset_value, check_both, 3, trio) > 1);
  assert_true(explore(reset_value, check_one, 3, looked) > 1);
}

/* ---- the last one lets go --------------------------------------------------------------- */

/* The last one has to see what each left in it. */
static void let_go(int holder) {
  atomic_store_explicit(&all.left[holder], 1, memory_order_relaxed);
  if (!keel_refs_drop(&all.refs)) return;
  all.freed++;
  for (int i = 0; i < thread_count; i++)
    assert_true(atomic_load_explicit(&all.left[i], memory_order_relaxed) == 1);
}

/* Takes one more, and gives both back. */
static void hold_twice(int holder) {
  (void)atomic_fetch_add_explicit(&all.refs, 1, memory_order_relaxed);
  if (keel_refs_drop(&all.refs)) all.freed += 100; /* one is left */
  let_go(holder);
}

static void hold_first(void) {
  let_go(0);
}

static void hold_second(void) {
  let_go(1);
}

static void hold_third(void) {
  let_go(2);
}

static void hold_first_twice(void) {
  hold_twice(0);
}

static void hold_second_twice(void) {
  hold_twice(1);
}

static void reset_refs(void) {
  memset(&all, 0, sizeof all);
  atomic_init(&all.refs, (unsigned)thread_count);
}

static void check_freed(void) {
  assert_int_equal(all.freed, 1);
}

TEST_THAT(the_last_holder_frees_it_once) {
  void (*const pair[])(void) = {hold_first_twice, hold_second_twice};
  void (*const trio[])(void) = {hold_first, hold_second, hold_third};
  void (*const mixed[])(void) = {hold_first, hold_second_twice, hold_third};
  assert_true(explore(reset_refs, check_freed, 2, pair) > 1);
  assert_true(explore(reset_refs, check_freed, 3, trio) > 1);
  assert_true(explore(reset_refs, check_freed, 3, mixed) > 1);
}

RUN_TESTS(NULL, NULL)
