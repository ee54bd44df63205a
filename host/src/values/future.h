/* future.h - where the threads meet that make a value and that wait for it. */
#ifndef KEEL_FUTURE_H
#define KEEL_FUTURE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Called when a pending value is known; frees itself. */
typedef struct keel_waiter {
  struct keel_waiter *next;
  void (*call)(struct keel_waiter *self);
} keel_waiter;

enum { KEEL_READY, KEEL_PENDING, KEEL_FAILED }; /* state */

typedef struct keel_future {
  atomic_uint state;
  _Atomic(keel_waiter *) waiters; /* a stack, or KEEL_NO_MORE */
} keel_future;

/* The value is known: whoever comes is called at once. */
#define KEEL_NO_MORE ((keel_waiter *)(uintptr_t)1)

/* Before others see it. */
static inline void keel_future_init(keel_future *future, uint32_t state) {
  atomic_init(&future->state, state);
  atomic_init(&future->waiters, state == KEEL_PENDING ? NULL : KEEL_NO_MORE);
}

/* The state, with what was written before it became known. */
static inline uint32_t keel_future_state(keel_future *future) {
  return atomic_load_explicit(&future->state, memory_order_acquire);
}

/* It is known, once: calls all that wait. */
static inline void keel_future_settle(keel_future *future, uint32_t state) {
  /* release: whoever sees the new state sees the content */
  atomic_store_explicit(&future->state, state, memory_order_release);
  /* acquire: what each waiter that was linked holds; release: who finds that no more
   * are taken sees the state */
  keel_waiter *waiter = atomic_exchange_explicit(&future->waiters, KEEL_NO_MORE,
                                                 memory_order_acq_rel);
  for (keel_waiter *next; waiter; waiter = next) {
    next = waiter->next;
    waiter->call(waiter);
  }
}

/* Calls the waiter once it is known: here and now where it is. */
static inline void keel_future_then(keel_future *future, keel_waiter *waiter) {
  /* acquire: the content, where it is known */
  keel_waiter *head =
      atomic_load_explicit(&future->waiters, memory_order_acquire);
  do {
    if (head == KEEL_NO_MORE) {
      waiter->call(waiter);
      return;
    }
    waiter->next = head;
    /* release: the waiter's content before it is linked */
  } while (!atomic_compare_exchange_weak_explicit(&future->waiters, &head,
                                                  waiter, memory_order_release,
                                                  memory_order_acquire));
}

#endif /* KEEL_FUTURE_H */
