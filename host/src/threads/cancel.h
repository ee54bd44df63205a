/* cancel.h - what may end a run early, somebody who asks or the time, and the tasks that are
 * handed to the pool then. */
#ifndef KEEL_CANCEL_H
#define KEEL_CANCEL_H

#include <keel/program.h>

#include <pthread.h>

#include "threads/pool.h"

/* ---- tasks that are handed over when their time comes, or when somebody asks ---- */

typedef struct keel_alarm {
  keel_task task; /* set by who sets the alarm */
  uint64_t when;  /* of keel_now; in a timer's list */
  struct keel_alarm *next;
  bool set;
} keel_alarm;

/* Alarms behind a lock. */
typedef struct keel_alarms {
  pthread_mutex_t lock;
  keel_alarm *first;
} keel_alarms;

void keel_alarms_init(keel_alarms *all);
void keel_alarms_deinit(keel_alarms *all);

void keel_alarms_add(keel_alarms *all, keel_alarm *alarm);
/* True: it was there, and is no more. False: its task has been handed over. */
bool keel_alarms_remove(keel_alarms *all, keel_alarm *alarm);
/* Hands over the tasks of all. */
void keel_alarms_ring(keel_alarms *all, keel_pool *pool);

/* A thread that rings; made when it is first needed. */
typedef struct keel_timer keel_timer;

keel_status keel_timer_create(keel_pool *pool, keel_timer **out_timer);
/* No alarm is set. NULL does nothing. */
void keel_timer_destroy(keel_timer *timer);

/* Rings at alarm->when, or soon after. Returns KD_OK, KD_OUT_OF_MEMORY (no thread). */
keel_status keel_timer_set(keel_timer *timer, keel_alarm *alarm);
/* As keel_alarms_remove. */
bool keel_timer_unset(keel_timer *timer, keel_alarm *alarm);

/* ---- what ends something early ---- */

struct keel_stop {
  atomic_uint refs;
  keel_pool *pool; /* that runs the alarms' tasks */
  /* 1: `why` is being written, by who exchanged it for 0; 2: it is there, released with
   * it, and acquired by who asks. */
  atomic_uint asked;
  char why[200];
  keel_alarms alarms; /* of runs that nobody waits for */
};

typedef struct keel_watch {
  keel_stop *stop;   /* or NULL */
  uint64_t deadline; /* of keel_now; 0: none */
} keel_watch;

static inline bool keel_watch_is_over(const keel_watch *watch) {
  /* acquire: why */
  return (watch->stop && atomic_load_explicit(&watch->stop->asked,
                                              memory_order_acquire) == 2) ||
         (watch->deadline && keel_now() >= watch->deadline);
}

/* What ends something that begins now and may take `timeout` nanoseconds, 0: any number. */
keel_watch keel_watch_of(keel_stop *stop, uint64_t timeout);

/* KD_OK, or why planning is over; `next`: what would have come. `watch` may be NULL. */
keel_status keel_watch_planning(const keel_watch *watch, const char *next,
                                const char *node);

/* With a pool that outlives it. */
keel_status keel_stop_new(keel_pool *pool, keel_stop **out_stop);

/* NULL: nothing. */
void keel_stop_retain(keel_stop *stop);

/* An alarm that rings when the stop is asked, or at once where it was. */
void keel_stop_listen(keel_stop *stop, keel_alarm *alarm);

/* Fails with what has ended it: KD_CANCELLED or KD_DEADLINE_EXCEEDED. `node`, `op`: what
 * came next, or NULL. */
keel_status keel_watch_fail(const keel_watch *watch, const char *node,
                            const char *op);

#endif /* KEEL_CANCEL_H */
