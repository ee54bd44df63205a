/* refs.h - what several hold: counted.
 *
 * What is referred to is made by one thread and handed on by whatever hands it on (a
 * future, a lock, a queue), which orders the writing of it; the count only has to see
 * that the end comes after all else. */
#ifndef KEEL_REFS_H
#define KEEL_REFS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Its maker holds it. Relaxed: nobody else knows it yet. */
static inline void keel_refs_init(atomic_uint *refs) {
  atomic_store_explicit(refs, 1, memory_order_relaxed);
}

/* One more holder. Relaxed: the caller has a reference, or holds the lock of a list that
 * has one, so that the end can't come meanwhile; nothing else hangs on the count. */
static inline void keel_refs_take(atomic_uint *refs) {
  (void)atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
}

/* True: the caller is the only holder, and may write. Acquire: what others did to it,
 * before they let go, comes before what the caller does. */
static inline bool keel_refs_alone(const atomic_uint *refs) {
  return atomic_load_explicit(refs, memory_order_acquire) == 1;
}

/* Gives a reference back; true: it was the last, and what is referred to is the caller's
 * alone. The last of all need not write: nobody else can be there to take a reference. */
static inline bool keel_refs_drop(atomic_uint *refs) {
  /* acquire, of both: what others did to it, before they let go, comes before what the
   * last one does; release: what this one did comes before that */
  return keel_refs_alone(refs) ||
         atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

#endif /* KEEL_REFS_H */
