/* future.h - futures: synchronise the thread that makes a value with those that wait for
 * it. */
#ifndef KEEL_FUTURE_H
#define KEEL_FUTURE_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A callback for when a pending value is resolved; it frees itself. */
typedef struct keel_waiter {
  struct keel_waiter *next;
  void (*call)(struct keel_waiter *self);
} keel_waiter;

enum { KEEL_READY, KEEL_PENDING, KEEL_FAILED }; /* state */

typedef struct keel_future {
  atomic_uint state;
  /* it comes at a time, by the clock or by hand, whatever else happens */
  bool limited;
  _Atomic(keel_waiter *) waiters; /* a stack, or KEEL_NO_MORE */
} keel_future;

/* The value is resolved: later waiters are called at once. */
#define KEEL_NO_MORE ((keel_waiter *)(uintptr_t)1)

/* Before other threads have it. */
static inline void keel_future_init(keel_future *future, uint32_t state) {
  atomic_init(&future->state, state);
  future->limited = false;
  atomic_init(&future->waiters, state == KEEL_PENDING ? NULL : KEEL_NO_MORE);
}

/* The state; acquire: sees what was written before the value was resolved. */
static inline uint32_t keel_future_state(keel_future *future) {
  return atomic_load_explicit(&future->state, memory_order_acquire);
}

/* Resolves it, once; its waiters are to be called (keel_future_tell). */
static inline void keel_future_publish(keel_future *future, uint32_t state) {
  assert(state != KEEL_PENDING && keel_future_state(future) == KEEL_PENDING);
  /* release: publishes the content with the new state */
  atomic_store_explicit(&future->state, state, memory_order_release);
}

/* Calls the waiters of one that is resolved; those that come later are called at once. */
static inline void keel_future_tell(keel_future *future) {
  /* acquire: sees the linked waiters' contents; release: a thread that finds the list
   * closed sees the state */
  keel_waiter *waiter = atomic_exchange_explicit(&future->waiters, KEEL_NO_MORE,
                                                 memory_order_acq_rel);
  if (waiter == KEEL_NO_MORE) return;
  for (keel_waiter *next; waiter; waiter = next) {
    next = waiter->next;
    waiter->call(waiter);
  }
}

/* Resolves it, once, and calls all waiters. */
static inline void keel_future_settle(keel_future *future, uint32_t state) {
  keel_future_publish(future, state);
  keel_future_tell(future);
}

/* Calls the waiter when the value is resolved; at once if it already is. */
static inline void keel_future_then(keel_future *future, keel_waiter *waiter) {
  if (keel_future_state(future) !=
      KEEL_PENDING) { /* the others may be called later */
    waiter->call(waiter);
    return;
  }
  /* acquire: sees the content, if it is resolved */
  keel_waiter *head =
      atomic_load_explicit(&future->waiters, memory_order_acquire);
  do {
    if (head == KEEL_NO_MORE) {
      waiter->call(waiter);
      return;
    }
    waiter->next = head;
    /* release: publishes the waiter before it is linked */
  } while (!atomic_compare_exchange_weak_explicit(&future->waiters, &head,
                                                  waiter, memory_order_release,
                                                  memory_order_acquire));
}

#endif /* KEEL_FUTURE_H */
