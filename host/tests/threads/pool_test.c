/* pool_test.c - the thread pool: loops, tasks, waiting; also with no workers. */
#include "threads/cancel.h"

#include <pthread.h>
#include <sched.h>

#include "testing.h"

typedef struct sum {
  _Atomic int64_t total;
  int64_t inner;
} sum;

static void add_range(void *context, int64_t begin, int64_t end) {
  sum *all = context;
  int64_t part = 0;
  for (int64_t i = begin; i < end; i++)
    part += i;
  atomic_fetch_add(&all->total, part);
}

static void add_nested(void *context, int64_t begin, int64_t end) {
  sum *all = context;
  for (int64_t i = begin; i < end; i++)
    keel_parallel_for(all->inner, 1, add_range, all);
}

TEST_THAT(every_item_is_done_once) {
  const uint32_t sizes[] = {0, 1, 3};
  for (size_t k = 0; k < 3; k++) {
    keel_pool *pool = NULL;
    expect_ok(keel_pool_retain(sizes[k], &pool));
    assert_int_equal(keel_parallel_width(), sizes[k] + 1);
    for (int64_t count = 0; count < 2000; count += 97) {
      sum all = {0};
      keel_parallel_for(count, 1, add_range, &all);
      assert_int_equal(all.total, count * (count - 1) / 2);
    }
    keel_pool_release(pool);
  }
}

TEST_THAT(loops_nest) {
  keel_pool *pool = NULL;
  sum all = {.inner = 100};
  expect_ok(keel_pool_retain(2, &pool));
  keel_parallel_for(200, 1, add_nested, &all);
  assert_int_equal(all.total, 200 * (100 * 99 / 2));
  keel_pool_release(pool);
}

/* The threads that take part, and how many wait for others. */
typedef struct meeting {
  pthread_t caller;
  atomic_int others, here;
  int wanted;
} meeting;

/* Waits until so many threads are in the loop, for a second. */
static void meet(void *context, int64_t begin, int64_t end) {
  meeting *all = context;
  (void)begin;
  (void)end;
  if (!pthread_equal(pthread_self(), all->caller))
    atomic_fetch_add(&all->others, 1);
  atomic_fetch_add(&all->here, 1);
  for (uint64_t until = keel_now() + 1000000000;
       atomic_load(&all->here) < all->wanted && keel_now() < until;)
    sched_yield();
}

/* How many of a loop's four pieces other threads did, while there are so many runs. */
static int others_of(keel_pool *pool, int runs, int wanted) {
  meeting all = {.caller = pthread_self(), .wanted = wanted};
  for (int i = 0; i < runs; i++)
    keel_pool_begin_run(pool);
  keel_parallel_for(4, 1, meet, &all);
  for (int i = 0; i < runs; i++)
    keel_pool_end_run(pool);
  return atomic_load(&all.others);
}

TEST_THAT(runs_share_the_threads) {
  keel_pool *pool = NULL;
  expect_ok(keel_pool_retain(3, &pool));
  assert_int_equal(others_of(pool, 0, 4), 3);
  assert_int_equal(others_of(pool, 1, 4), 3);
  assert_true(others_of(pool, 2, 2) >= 1); /* two threads for each */
  assert_int_equal(others_of(pool, 4, 0), 0);
  assert_int_equal(others_of(pool, 9, 0), 0);
  assert_int_equal(others_of(pool, 1, 4), 3);
  keel_pool_release(pool);
}

typedef struct counting {
  keel_task task;
  atomic_int *left;
} counting;

static keel_pool *current;

static void count_down(keel_task *task) {
  if (atomic_fetch_sub(((counting *)task)->left, 1) == 1)
    keel_pool_wake_waiters(current);
}

static bool none_left(void *left) {
  return atomic_load((atomic_int *)left) == 0;
}

static void *help(void *pool) {
  while (keel_pool_help(pool))
    ;
  return NULL;
}

/* As drivers hand them over: none runs before somebody takes it. */
TEST_THAT(posted_tasks_wait_for_a_taker) {
  enum { COUNT = 10000 }; /* more than a queue holds */
  pthread_t threads[3];
  atomic_int left = COUNT;
  counting *tasks = calloc(COUNT, sizeof *tasks);
  expect_ok(keel_pool_retain(0, &current));
  for (int i = 0; i < COUNT; i++) {
    tasks[i] = (counting){{.run = count_down}, &left};
    keel_pool_post(current, &tasks[i].task);
  }
  assert_int_equal(atomic_load(&left), COUNT);
  for (int i = 0; i < 3; i++)
    pthread_create(&threads[i], NULL, help, current);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  keel_pool_wait(current, none_left, &left);
  assert_int_equal(atomic_load(&left), 0);
  keel_pool_release(current);
  free(tasks);
}

static void tasks_all_run(uint32_t workers) {
  enum { COUNT = 10000 }; /* more than a queue holds */
  atomic_int left = COUNT;
  counting *tasks = calloc(COUNT, sizeof *tasks);
  expect_ok(keel_pool_retain(workers, &current));
  for (int i = 0; i < COUNT; i++) {
    tasks[i] = (counting){{.run = count_down}, &left};
    keel_pool_submit(current, &tasks[i].task);
  }
  keel_pool_wait(current, none_left, &left);
  assert_int_equal(atomic_load(&left), 0);
  keel_pool_release(current);
  free(tasks);
}

TEST_THAT(tasks_run_with_workers) {
  tasks_all_run(3);
}

TEST_THAT(tasks_run_without_workers) {
  tasks_all_run(0);
}

static void *loop_often(void *unused) {
  (void)unused;
  for (int i = 0; i < 200; i++) {
    sum all = {0};
    keel_parallel_for(500, 7, add_range, &all);
    if (all.total != 500 * 499 / 2) return (void *)1;
  }
  return NULL;
}

TEST_THAT(several_callers_share_the_pool) {
  pthread_t threads[4];
  keel_pool *pool = NULL;
  expect_ok(keel_pool_retain(2, &pool));
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, loop_often, NULL);
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  keel_pool_release(pool);
}

typedef struct holding {
  keel_task task;
  atomic_bool begun, go;
} holding;

static void hold(keel_task *task) {
  holding *at = (holding *)task;
  atomic_store(&at->begun, true);
  while (!atomic_load(&at->go))
    sched_yield();
}

static bool counts_down(const keel_task *task, const void *context) {
  (void)context;
  return task->run == count_down;
}

static bool never(const keel_task *task, const void *context) {
  (void)task, (void)context;
  return false;
}

/* With the only worker held up, what this thread hands over stays its own. */
typedef struct look {
  keel_task task; /* must be first: cast from it */
  const keel_cancellation *seen;
} look;

static void note_cancellation(keel_task *task) {
  ((look *)(void *)task)->seen = keel_cancellation_in_use();
}

/* A thread that waits for its own run, and helps another's meanwhile. */
TEST_THAT(a_task_does_not_end_with_the_run_of_the_thread_that_helps) {
  const keel_cancellation due = {.deadline = 1};
  look one = {{note_cancellation, NULL}, &due};
  keel_pool *pool = NULL;
  expect_ok(keel_pool_retain(0, &pool));
  const keel_cancellation *before = keel_cancellation_use(&due);
  keel_pool_submit(pool, &one.task);
  while (keel_pool_help(pool)) {
  }
  assert_null(one.seen);
  assert_ptr_equal(keel_cancellation_in_use(), &due);
  keel_cancellation_use(before);
  keel_pool_release(pool);
}

TEST_THAT(the_task_handed_over_last_comes_next) {
  holding worker = {.task.run = hold};
  atomic_int left = 2;
  counting tasks[2] = {{{count_down, NULL}, &left},
                       {{count_down, NULL}, &left}};
  expect_ok(keel_pool_retain(1, &current));
  keel_pool_post(current, &worker.task);
  while (!atomic_load(&worker.begun))
    sched_yield();
  assert_null(keel_pool_next(current, counts_down, NULL)); /* not inside */
  assert_true(keel_pool_enter(current));
  assert_null(keel_pool_next(current, counts_down, NULL));
  for (int i = 0; i < 2; i++)
    keel_pool_submit(current, &tasks[i].task);
  assert_null(keel_pool_next(current, never, NULL));
  assert_ptr_equal(keel_pool_next(current, counts_down, NULL), &tasks[1].task);
  count_down(&tasks[1].task);
  keel_pool_wait(current, none_left, &left);
  keel_pool_leave(current);
  atomic_store(&worker.go, true);
  keel_pool_release(current);
}

RUN_TESTS(NULL, NULL)
