/* pool.h - the process's one thread pool.
 *
 * Contexts share it; the first one to open makes it, the last to close ends it.
 * Whoever waits works meanwhile, so no workers at all is a valid size. */
#ifndef KEEL_POOL_H
#define KEEL_POOL_H

#include <kd/host.h>

#include "base/base.h"

typedef struct keel_pool keel_pool;

/* Something to run once. The owner embeds it, and it may be gone when `run`
 * returns. */
typedef struct keel_task {
  void (*run)(struct keel_task *self);
  struct keel_task *next; /* the pool's, of posted tasks */
} keel_task;

/* Holds the pool, made with that many workers where there is none yet. */
keel_status keel_pool_retain(uint32_t workers, keel_pool **out_pool);
void keel_pool_release(keel_pool *pool);

/* Workers, and one for the caller. */
uint32_t keel_pool_size(const keel_pool *pool);

/* Hands over a task. Never blocks and takes no lock; where every queue is full,
 * the caller runs it. */
void keel_pool_submit(keel_pool *pool, keel_task *task);

/* The task that this thread handed over last, where nobody has taken it and it fits: the
 * caller runs it. */
keel_task *keel_pool_next(keel_pool *pool,
                          bool (*fits)(const keel_task *task,
                                       const void *context),
                          const void *context);

/* Hands over a task that waits or takes long: to a thread of its own, and none of the
 * pool's; where the pool has none either, as keel_pool_submit. */
void keel_pool_submit_blocking(keel_pool *pool, keel_task *task);

/* As keel_pool_submit from a thread that must not run it, a driver's: never runs it. */
void keel_pool_post(keel_pool *pool, keel_task *task);

/* The thread that rings when it is time (alarm.h). */
struct keel_timer *keel_pool_timer(const keel_pool *pool);

/* Runs one task or part of a loop, if there is one. */
bool keel_pool_help(keel_pool *pool);

/* What this thread submits until it leaves need not go through the queue that all share:
 * for who then waits for it. False: it does, and is not to leave. Tasks that are left stay
 * others' to take. */
bool keel_pool_enter(keel_pool *pool);
void keel_pool_leave(keel_pool *pool);

/* Works, then sleeps, until `done` says so. Somebody who makes it true calls
 * keel_pool_wake_waiters after. */
void keel_pool_wait(keel_pool *pool, bool (*done)(void *), void *context);
/* The same, asking anew when it is `deadline` (of keel_now; 0: never). */
void keel_pool_wait_until(keel_pool *pool, bool (*done)(void *), void *context,
                          uint64_t deadline);
void keel_pool_wake_waiters(keel_pool *pool);

/* kd_host.parallel_for and worker_count, on the process's pool. */
void keel_parallel_for(int64_t count, int64_t grain, kd_loop_body body,
                       void *context);
/* The same in pieces that are all of one size: for items that may cost a thousand times as
 * much as others. */
void keel_parallel_pieces(int64_t count, int64_t piece, kd_loop_body body,
                          void *context);
uint32_t keel_parallel_width(void);

#endif /* KEEL_POOL_H */
