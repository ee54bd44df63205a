/* watch.h - what may end a run early: somebody who asks, or the time. */
#ifndef KEEL_WATCH_H
#define KEEL_WATCH_H

#include <keel/program.h>

#include "threads/alarm.h"

struct keel_stop {
  atomic_uint refs;
  keel_context *context;
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

/* NULL: nothing. */
void keel_stop_retain(keel_stop *stop);

/* An alarm that rings when the stop is asked, or at once where it was. */
void keel_stop_listen(keel_stop *stop, keel_alarm *alarm);

/* Fails with what has ended it: KD_CANCELLED or KD_DEADLINE_EXCEEDED. `node`, `op`: what
 * came next, or NULL. */
keel_status keel_watch_fail(const keel_watch *watch, const char *node,
                            const char *op);

/* keel_tensor_wait, until the watch is over; NULL: until it is known. */
keel_status keel_watch_wait(const keel_watch *watch, keel_tensor *tensor);

#endif /* KEEL_WATCH_H */
