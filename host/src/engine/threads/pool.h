/* pool.h - threads that work for contexts.
 *
 * Contexts with the same number of workers share a pool, so that those which name no number have
 * one for the process; the first one to open creates it, the last one to close destroys it. A
 * waiting thread works meanwhile, so zero workers is a valid size. */
#ifndef KEEL_POOL_H
#define KEEL_POOL_H

#include <kd/host.h>

#include "base/base.h"

typedef struct keel_pool keel_pool;

/* A task, run once. The owner embeds it; it may be freed by the time `run` returns. */
typedef struct keel_task {
  void (*run)(struct keel_task *self);
  struct keel_task *next; /* used by the pool, for posted tasks */
} keel_task;

/* Retains the pool with that many workers; creates it if there is none yet. */
keel_status keel_pool_retain(uint32_t workers, keel_pool **out_pool);
/* NULL: nothing. */
void keel_pool_release(keel_pool *pool);

/* The number of workers, plus one for the caller. */
uint32_t keel_pool_size(const keel_pool *pool);

/* Submits a task. Never blocks and takes no lock; if every queue is full, the caller runs
 * it. */
void keel_pool_submit(keel_pool *pool, keel_task *task);

/* Takes back the task that this thread submitted last, if no other thread has taken it and
 * it fits; the caller runs it. */
keel_task *keel_pool_next(keel_pool *pool,
                          bool (*fits)(const keel_task *task,
                                       const void *context),
                          const void *context);

/* Submits a task that blocks or takes long, to a thread outside the pool; if there is none,
 * like keel_pool_submit. */
void keel_pool_submit_blocking(keel_pool *pool, keel_task *task);

/* The same, also without workers. */
void keel_pool_submit_apart(keel_pool *pool, keel_task *task);

/* Like keel_pool_submit, for a thread that must not run tasks, such as a driver's. */
void keel_pool_post(keel_pool *pool, keel_task *task);

/* The timer thread (cancel.h). */
struct keel_timer *keel_pool_timer(const keel_pool *pool);

/* Runs one task, or part of a loop, if there is any. */
bool keel_pool_help(keel_pool *pool);

/* Gives this thread a deque of its own until it leaves, if it is going to wait for its own tasks.
 * False: there is none, and the thread must not leave. Other threads may take the remaining
 * tasks. */
bool keel_pool_enter(keel_pool *pool);
void keel_pool_leave(keel_pool *pool);

/* Works, then sleeps, until `done` returns true. The thread that makes it true calls
 * keel_pool_wake_waiters afterwards. */
void keel_pool_wait(keel_pool *pool, bool (*done)(void *), void *context);
/* The same, but also checks `done` at `deadline` (on the clock of keel_now; 0: never). */
void keel_pool_wait_until(keel_pool *pool, bool (*done)(void *), void *context,
                          uint64_t deadline);
/* The same. `limited`: for conditions with a deadline: the thread then does no work meanwhile,
 * which might be a kernel that hangs, if there are workers and it is not one of them. */
void keel_pool_wait_limited(keel_pool *pool, bool (*done)(void *),
                            void *context, uint64_t deadline, bool limited);
void keel_pool_wake_waiters(keel_pool *pool);

/* Whether another thread, whose work is waited for, needs the processor of the waiting one: this
 * yields it once, and then sleeps. */
void keel_pool_set_crowded(keel_pool *pool, bool crowded);

/* Around a run of an application's thread, which works on it. While a pool has several, each loop gets
 * its part of the threads, and those that find nothing to do leave their processors. */
void keel_pool_begin_run(keel_pool *pool);
void keel_pool_end_run(keel_pool *pool);

/* Lets loops of this thread run on a pool, around all calls of kernels: those that say how
 * much memory a loop's threads need, and those that run it. Returns the one before, to be put
 * back. */
keel_pool *keel_pool_use(keel_pool *pool);

/* kd_host.parallel_for and worker_count, on the pool that this thread uses; a thread of a
 * plugin's own uses the smallest. */
void keel_parallel_for(int64_t count, int64_t grain, kd_loop_body body,
                       void *context);
uint32_t keel_parallel_width(void);

/* A loop in chunks of equal size, for items whose costs may differ a thousandfold. */
void keel_parallel_pieces(keel_pool *pool, int64_t count, int64_t piece,
                          kd_loop_body body, void *context);

#endif /* KEEL_POOL_H */
