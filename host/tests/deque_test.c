/* deque_test.c - every interleaving of a few threads on the deque and the queue.
 *
 * The functions of deque.h are compiled with atomics that hand over to a scheduler before
 * each access; it goes through all orders of accesses, depth first, each from the start,
 * and turns back where it has been: at the same memory with threads that have seen the
 * same.
 * Memory is x86's (TSO: Owens, Sarkar, Sewell, TPHOLs 2009): a store that is not seq_cst
 * waits in its thread's buffer, and when it comes out is one more thing to choose. What
 * weaker machines may do beyond that is argued in deque.h, and looked for by TSan. */
#include <setjmp.h>
#include <stdatomic.h>
#include <ucontext.h>

#include "base/base.h"
#include "testing.h"

/* ---- memory ------------------------------------------------------------------------ */

enum { THREADS = 3, BUFFER = 4, STEPS = 400 };

static void hand_over(void);

typedef struct stored {
  uint64_t *to, value;
} stored;

static struct {
  stored list[BUFFER];
  int count;
} buffers[THREADS];
static int running;            /* thread, or -1: nobody's turn, all at once */
static uint64_t seen[THREADS]; /* what each has read so far, and how much */

static void flush_one(int thread) {
  *buffers[thread].list[0].to = buffers[thread].list[0].value;
  memmove(buffers[thread].list, buffers[thread].list + 1,
          sizeof(stored) * (size_t)--buffers[thread].count);
}

static void flush_all(int thread) {
  while (thread >= 0 && buffers[thread].count)
    flush_one(thread);
}

static uint64_t note(uint64_t value) {
  if (running >= 0)
    seen[running] = keel_hash(seen[running] + 1, &value, sizeof value);
  return value;
}

/* A thread sees its own stores before others do. */
static uint64_t model_load(void *from) {
  uint64_t *at = from;
  hand_over();
  for (int i = running < 0 ? 0 : buffers[running].count; i-- > 0;)
    if (buffers[running].list[i].to == at)
      return buffers[running].list[i].value;
  return *at;
}

static void model_store(void *to, uint64_t value, memory_order order) {
  uint64_t *at = to;
  hand_over();
  note(0);
  if (running < 0) {
    *at = value;
    return;
  }
  if (buffers[running].count == BUFFER) flush_one(running);
  buffers[running].list[buffers[running].count++] = (stored){at, value};
  if (order == memory_order_seq_cst) flush_all(running);
}

static bool model_exchange(void *at, void *expected, uint64_t value) {
  uint64_t *to = at, *want = expected;
  hand_over();
  flush_all(running);
  note(*to);
  if (*to != *want) {
    *want = *to;
    return false;
  }
  *to = value;
  return true;
}

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#define WORD(VALUE) ((uint64_t)(uintptr_t)(VALUE))
#define atomic_load_explicit(AT, ORDER) \
  ((__typeof__(((void)0, *(AT))))model_load((void *)(AT)))
#define atomic_store_explicit(AT, VALUE, ORDER) \
  model_store((void *)(AT), WORD(VALUE), ORDER)
#define atomic_compare_exchange_strong_explicit(AT, WANT, VALUE, A, B) \
  model_exchange((void *)(AT), (void *)(WANT), WORD(VALUE))
#define atomic_compare_exchange_weak_explicit(AT, WANT, VALUE, A, B) \
  model_exchange((void *)(AT), (void *)(WANT), WORD(VALUE))
#define KEEL_DEQUE_ROOM 2
#define KEEL_QUEUE_ROOM 2
#include "exec/deque.h"

/* ---- threads ------------------------------------------------------------------------ */

static struct {
  void (*work)(void);
  bool started, ended;
  jmp_buf at;
  ucontext_t begin;
  char stack[32768];
} threads[THREADS];
static int thread_count;
static jmp_buf scheduler;

/* To the scheduler, until it is this thread's turn again. */
__attribute__((noinline)) static void hand_over(void) {
  if (running < 0) return;
  seen[running] = seen[running] * 31 + 1;
  if (!_setjmp(threads[running].at)) _longjmp(scheduler, 1);
}

static void begin_thread(void) {
  threads[running].work();
  threads[running].ended = true;
  _longjmp(scheduler, 1);
}

__attribute__((noinline)) static void run_thread(int thread) {
  running = thread;
  if (_setjmp(scheduler)) {
    running = -1;
    return;
  }
  if (threads[thread].started) _longjmp(threads[thread].at, 1);
  threads[thread].started = true;
  setcontext(&threads[thread].begin);
}

/* ---- all orders ----------------------------------------------------------------------- */

static struct { int chosen, choices; } path[STEPS];
static int length, depth;

static int choose(int choices) {
  if (depth == length) {
    assert_true(length < STEPS);
    path[length].chosen = 0;
    path[length++].choices = choices;
  }
  assert_int_equal(path[depth].choices, choices); /* the same each time */
  return path[depth++].chosen;
}

/* The next path; false: there is none. */
static bool turn(void) {
  while (length && path[length - 1].chosen + 1 == path[length - 1].choices)
    length--;
  if (!length) return false;
  path[length - 1].chosen++;
  return true;
}

/* ---- where it has been -------------------------------------------------------------- */

enum { ROOM = 1 << 22 };
static uint64_t been[ROOM];
static long states;

/* Whether this state is new. */
static bool is_new(const void *memory, size_t size) {
  uint64_t hash = keel_hash(KEEL_HASH_SEED, memory, size);
  for (int i = 0; i < thread_count; i++) {
    hash = keel_hash(hash, &seen[i], sizeof seen[i]);
    hash = keel_hash(hash, &threads[i].ended, sizeof threads[i].ended);
    hash = keel_hash(hash, &buffers[i].count, sizeof buffers[i].count);
    hash = keel_hash(hash, buffers[i].list,
                     sizeof(stored) * (size_t)buffers[i].count);
  }
  hash += !hash; /* nothing is 0 */
  size_t at = hash % ROOM;
  for (; been[at]; at = (at + 1) % ROOM)
    if (been[at] == hash) return false;
  assert_true(++states < ROOM / 2);
  been[at] = hash;
  return true;
}

static bool is_known(void);
static bool turned; /* back, before the end */

/* Lets one thread take a step, or one store come out. */
static bool step(void) {
  int choices[2 * THREADS], count = 0;
  for (int i = 0; i < thread_count; i++) {
    if (!threads[i].ended) choices[count++] = i;
    if (buffers[i].count) choices[count++] = THREADS + i;
  }
  if (!count) return false;
  if (depth == length && is_known()) {
    turned = true;
    return false;
  }
  int chosen = choices[count > 1 ? choose(count) : 0];
  if (chosen >= THREADS)
    flush_one(chosen - THREADS);
  else
    run_thread(chosen);
  return true;
}

__attribute__((noinline)) static void lay_stack(int thread) {
  ucontext_t *begin = &threads[thread].begin;
  getcontext(begin);
  begin->uc_stack.ss_sp = threads[thread].stack;
  begin->uc_stack.ss_size = sizeof threads[thread].stack;
  makecontext(begin, begin_thread, 0);
}

/* Runs the threads in all orders; `check` looks at each end. Returns how many orders
 * came to one. */
static long explore(void (*reset)(void), void (*check)(void), int count,
                    void (*const *work)(void)) {
  long orders = 0;
  length = 0;
  states = 0;
  memset(been, 0, sizeof been);
  do {
    depth = 0;
    running = -1;
    turned = false;
    thread_count = count;
    reset();
    for (int i = 0; i < count; i++) {
      threads[i].work = work[i];
      threads[i].started = threads[i].ended = false;
      buffers[i].count = 0;
      seen[i] = 0;
      lay_stack(i);
    }
    while (step()) {
    }
    if (!turned) check();
    orders += !turned;
  } while (turn());
  return orders;
}

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

static void what_is_pushed_is_taken_once(void **state) {
  (void)state;
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

static void what_is_put_is_taken_once(void **state) {
  (void)state;
  void (*const three[])(void) = {put_three, take_two};
  report("a producer, a taker", explore(reset, check_queue, 2, three));
  void (*const takers[])(void) = {put_two, take_one, take_one};
  report("a producer, two takers", explore(reset, check_queue, 3, takers));
  void (*const producers[])(void) = {put_next, put_other, take_one};
  report("two producers, a taker",
         explore(reset, check_two_producers, 3, producers));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_pushed_is_taken_once),
      cmocka_unit_test(what_is_put_is_taken_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
