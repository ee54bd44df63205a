/* interleave.h - every interleaving of a few threads.
 *
 * What is included after this is compiled with atomics that hand over to a scheduler before
 * each access; it goes through all orders of accesses, depth first, each from the start,
 * and turns back where it has been: at the same memory with threads that have seen the
 * same.
 * Memory is x86's (TSO: Owens, Sarkar, Sewell, TPHOLs 2009): a store that is not seq_cst
 * waits in its thread's buffer, and when it comes out is one more thing to choose. What
 * weaker machines may do beyond that is argued where the atomics are, and looked for by
 * TSan. */
#ifndef KEEL_INTERLEAVE_H
#define KEEL_INTERLEAVE_H

#include <setjmp.h>
#include <stdatomic.h>
#include <ucontext.h>

#include "base/base.h"
#include "testing.h"

/* ---- memory ------------------------------------------------------------------------ */

enum { THREADS = 3, BUFFER = 4, STEPS = 400 };

static void hand_over(void);

typedef struct stored {
  void *to;
  uint64_t value;
  size_t size; /* 4 or 8 bytes; no two sizes at one address */
} stored;

static struct {
  stored list[BUFFER];
  int count;
} buffers[THREADS];
static int running;            /* thread, or -1: nobody's turn, all at once */
static uint64_t seen[THREADS]; /* what each has read so far, and how much */

static uint64_t get(const void *from, size_t size) {
  return size == 4 ? *(const uint32_t *)from : *(const uint64_t *)from;
}

static void put(void *to, uint64_t value, size_t size) {
  if (size == 4)
    *(uint32_t *)to = (uint32_t)value;
  else
    *(uint64_t *)to = value;
}

static void flush_one(int thread) {
  const stored *first = &buffers[thread].list[0];
  put(first->to, first->value, first->size);
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
static uint64_t model_load(void *from, size_t size) {
  hand_over();
  for (int i = running < 0 ? 0 : buffers[running].count; i-- > 0;)
    if (buffers[running].list[i].to == from)
      return note(buffers[running].list[i].value);
  return note(get(from, size));
}

static void model_store(void *to, uint64_t value, size_t size,
                        memory_order order) {
  hand_over();
  note(0);
  if (running < 0) {
    put(to, value, size);
    return;
  }
  if (buffers[running].count == BUFFER) flush_one(running);
  buffers[running].list[buffers[running].count++] = (stored){to, value, size};
  if (order == memory_order_seq_cst) flush_all(running);
}

/* All that read and write at once are locked, and let out what waits. */
__attribute__((unused)) static uint64_t model_swap(void *at, uint64_t value,
                                                   size_t size) {
  hand_over();
  flush_all(running);
  uint64_t before = note(get(at, size));
  put(at, value, size);
  return before;
}

__attribute__((unused)) static uint64_t model_add(void *at, uint64_t value,
                                                  size_t size) {
  hand_over();
  flush_all(running);
  uint64_t before = note(get(at, size));
  put(at, before + value, size);
  return before;
}

static bool model_exchange(void *at, void *expected, uint64_t value,
                           size_t size) {
  hand_over();
  flush_all(running);
  uint64_t now = note(get(at, size));
  if (now != get(expected, size)) {
    put(expected, now, size);
    return false;
  }
  put(at, value, size);
  return true;
}

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub_explicit
#undef atomic_compare_exchange_strong_explicit
#undef atomic_compare_exchange_weak_explicit
#define WORD(VALUE) ((uint64_t)(uintptr_t)(VALUE))
#define TYPE_AT(AT) __typeof__(((void)0, *(AT)))
#define POINTER(AT) ((void *)(AT))
#define atomic_load_explicit(AT, ORDER) \
  ((TYPE_AT(AT))model_load(POINTER(AT), sizeof *(AT)))
#define atomic_store_explicit(AT, VALUE, ORDER) \
  model_store(POINTER(AT), WORD(VALUE), sizeof *(AT), ORDER)
#define atomic_exchange_explicit(AT, VALUE, ORDER) \
  ((TYPE_AT(AT))model_swap(POINTER(AT), WORD(VALUE), sizeof *(AT)))
#define atomic_fetch_add_explicit(AT, VALUE, ORDER) \
  ((TYPE_AT(AT))model_add(POINTER(AT), WORD(VALUE), sizeof *(AT)))
#define atomic_fetch_sub_explicit(AT, VALUE, ORDER) \
  ((TYPE_AT(AT))model_add(POINTER(AT), -WORD(VALUE), sizeof *(AT)))
#define atomic_compare_exchange_strong_explicit(AT, WANT, VALUE, A, B) \
  model_exchange(POINTER(AT), POINTER(WANT), WORD(VALUE), sizeof *(AT))
#define atomic_compare_exchange_weak_explicit(AT, WANT, VALUE, A, B) \
  model_exchange(POINTER(AT), POINTER(WANT), WORD(VALUE), sizeof *(AT))

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

/* Whether the test's memory, with is_new, is as it has been before. */
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

#endif /* KEEL_INTERLEAVE_H */
