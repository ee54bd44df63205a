/* deque_test.c - every interleaving of a few threads on the deque and the queue. */
#include "interleave.h"

#define KEEL_DEQUE_ROOM 2
#define KEEL_QUEUE_ROOM 2
#include "threads/deque.h"

/* ---- what is put in comes out once --------------------------------------------------- */

static keel_deque deque;
static keel_queue queue;
static char items[4]; /* their addresses are the items */
static int pushed, taken[4];
static bool in_order; /* of what the queue gives to one taker */

static bool is_known(void) {
  struct {
    keel_deque deque;
    keel_queue queue;
    int pushed, taken[4];
    bool in_order;
  } all;
  memset(&all, 0, sizeof all);
  memcpy(&all.deque, &deque, sizeof deque);
  memcpy(&all.queue, &queue, sizeof queue);
  memcpy(all.taken, taken, sizeof taken);
  all.pushed = pushed;
  all.in_order = in_order;
  return !is_new(&all, sizeof all);
}

static void take(void *item) {
  if (!item) return;
  ptrdiff_t which = (char *)item - items;
  assert_true(which >= 0 && which < 4);
  taken[which]++;
}

static void push_next(void) {
  if (keel_deque_push(&deque, &items[pushed])) pushed++;
}

static void put_next(void) {
  if (keel_queue_put(&queue, &items[pushed])) pushed++;
}

static void reset(void) {
  memset(&deque, 0, sizeof deque);
  memset(&queue, 0, sizeof queue);
  for (uint64_t i = 0; i < KEEL_QUEUE_ROOM; i++)
    atomic_init(&queue.cells[i].sequence, i);
  memset(taken, 0, sizeof taken);
  pushed = 0;
  in_order = true;
}

static void check_deque(void) {
  for (void *item; (item = keel_deque_pop(&deque));)
    take(item);
  for (int i = 0; i < 4; i++)
    assert_int_equal(taken[i], i < pushed);
  for (int i = 0; i < KEEL_DEQUE_ROOM; i++) /* and there is room again */
    assert_true(keel_deque_push(&deque, &items[0]));
}

static void check_queue(void) {
  for (void *item; (item = keel_queue_take(&queue));)
    take(item);
  for (int i = 0; i < 4; i++)
    assert_int_equal(taken[i], i < pushed);
  for (int i = 0; i < KEEL_QUEUE_ROOM; i++)
    assert_true(keel_queue_put(&queue, &items[0]));
  assert_true(in_order);
}

/* The owner's ways, and thieves'. */
static void push_pop(void) {
  push_next();
  take(keel_deque_pop(&deque));
}
static void push_push_pop_pop(void) {
  push_next();
  push_next();
  take(keel_deque_pop(&deque));
  take(keel_deque_pop(&deque));
}
static void push_pop_push_pop(void) {
  push_pop();
  push_pop();
}
static void push_more_than_fit(void) {
  push_next();
  push_next();
  push_next();
  take(keel_deque_pop(&deque));
}
static void steal(void) {
  take(keel_deque_steal(&deque));
}
static void steal_twice(void) {
  steal();
  steal();
}

static void report(const char *what, long orders) {
  print_message("%s: %ld states, %ld ends\n", what, states, orders);
  assert_true(states > 100 && orders > 0);
}

TEST_THAT(what_is_pushed_is_taken_once) {
  void (*const last[])(void) = {push_pop, steal, steal};
  report("the last item, two thieves", explore(reset, check_deque, 3, last));
  void (*const two[])(void) = {push_push_pop_pop, steal_twice};
  report("two items, a thief", explore(reset, check_deque, 2, two));
  void (*const again[])(void) = {push_pop_push_pop, steal_twice};
  report("an item, and another", explore(reset, check_deque, 2, again));
  void (*const full[])(void) = {push_more_than_fit, steal_twice};
  report("a full deque", explore(reset, check_deque, 2, full));
}

static void put_two(void) {
  put_next();
  put_next();
}
static void put_three(void) {
  put_two();
  put_next();
}
static void take_one(void) {
  take(keel_queue_take(&queue));
}
/* What one producer puts comes out in its order. */
static void take_two(void) {
  char *first = keel_queue_take(&queue), *second = keel_queue_take(&queue);
  if (first && second && second < first) in_order = false;
  take(first);
  take(second);
}
static void put_other(void) {
  keel_queue_put(&queue, &items[3]);
}

static void check_two_producers(void) {
  for (void *item; (item = keel_queue_take(&queue));)
    take(item);
  for (int i = 0; i < 3; i++)
    assert_int_equal(taken[i], i < pushed);
  assert_true(taken[3] <= 1);
}

TEST_THAT(what_is_put_is_taken_once) {
  void (*const three[])(void) = {put_three, take_two};
  report("a producer, a taker", explore(reset, check_queue, 2, three));
  void (*const takers[])(void) = {put_two, take_one, take_one};
  report("a producer, two takers", explore(reset, check_queue, 3, takers));
  void (*const producers[])(void) = {put_next, put_other, take_one};
  report("two producers, a taker",
         explore(reset, check_two_producers, 3, producers));
}

RUN_TESTS(NULL, NULL)
