/* alarm.h - tasks that are handed to the pool when their time comes, or when somebody asks
 * for it. */
#ifndef KEEL_ALARM_H
#define KEEL_ALARM_H

#include <pthread.h>

#include "threads/pool.h"

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

#endif /* KEEL_ALARM_H */
