/* cancel.h - what may end a run early, somebody who asks or the time, and the tasks that are
 * handed to the pool then. */
#ifndef KEEL_CANCEL_H
#define KEEL_CANCEL_H

#include <keel/program.h>

#include <pthread.h>

#include "threads/pool.h"

/* ---- tasks that are handed over when their time comes, or when somebody asks ---- */

typedef struct keel_alarm {
  keel_task task; /* filled in by the caller */
  uint64_t when;  /* deadline, on the clock of keel_now; in a timer's list */
  struct keel_alarm *next;
  bool set;
} keel_alarm;

/* A list of hooks and its lock. */
typedef struct keel_alarms {
  pthread_mutex_t lock;
  keel_alarm *first;
} keel_alarms;

void keel_alarms_init(keel_alarms *all);
void keel_alarms_deinit(keel_alarms *all);

void keel_alarms_add(keel_alarms *all, keel_alarm *alarm);
/* True if the hook was removed; false if its task has been submitted. */
bool keel_alarms_remove(keel_alarms *all, keel_alarm *alarm);
/* Submits the tasks of all hooks. */
void keel_alarms_ring(keel_alarms *all, keel_pool *pool);

/* A thread that fires hooks at their deadlines; it starts on first use. */
typedef struct keel_timer keel_timer;

keel_status keel_timer_create(keel_pool *pool, keel_timer **out_timer);
/* No hook may be set. NULL does nothing. */
void keel_timer_destroy(keel_timer *timer);

/* Fires the hook at its time, or soon after. Returns KD_OK, KD_OUT_OF_MEMORY (no
 * thread). */
keel_status keel_timer_set(keel_timer *timer, keel_alarm *alarm);
/* As keel_alarms_remove. */
bool keel_timer_unset(keel_timer *timer, keel_alarm *alarm);

/* ---- what ends something early ---- */

struct keel_stop {
  atomic_uint refs;
  keel_pool *pool; /* that runs the alarms' tasks */
  /* 0: not requested; 1: `why` is being written; 2: requested. 2 is stored with release and
   * read with acquire, so `why` is complete. */
  atomic_uint asked;
  char why[200];
  keel_alarms alarms; /* of asynchronous runs */
};

typedef struct keel_watch {
  keel_stop *stop;   /* or NULL */
  uint64_t deadline; /* on the clock of keel_now; 0: none */
} keel_watch;

static inline bool keel_watch_is_over(const keel_watch *watch) {
  /* acquire: why */
  return (watch->stop && atomic_load_explicit(&watch->stop->asked,
                                              memory_order_acquire) == 2) ||
         (watch->deadline && keel_now() >= watch->deadline);
}

/* The cancellation of something that starts now; timeout in nanoseconds, 0: none. */
keel_watch keel_watch_of(keel_stop *stop, uint64_t timeout);

/* Checks for cancellation while planning; `next`: what would come next. `watch` may be
 * NULL. */
keel_status keel_watch_planning(const keel_watch *watch, const char *next,
                                const char *node);

/* With a pool that outlives it. */
keel_status keel_stop_new(keel_pool *pool, keel_stop **out_stop);

/* NULL: nothing. */
void keel_stop_retain(keel_stop *stop);

/* Fires the hook when cancellation is requested; at once if it already was. */
void keel_stop_listen(keel_stop *stop, keel_alarm *alarm);

/* Fails with the reason: KD_CANCELLED or KD_DEADLINE_EXCEEDED. `node`, `op`: what would
 * have come next, or NULL. */
keel_status keel_watch_fail(const keel_watch *watch, const char *node,
                            const char *op);

#endif /* KEEL_CANCEL_H */
