/* refs.h - reference counts.
 *
 * The object is published by other means (a future, a lock, a queue), which order its
 * initialisation. The count only ensures that destruction happens after every other use. */
#ifndef KEEL_REFS_H
#define KEEL_REFS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Sets the count to 1, for the creator. Relaxed: no other thread has the object yet. */
static inline void keel_refs_init(atomic_uint *refs) {
  atomic_store_explicit(refs, 1, memory_order_relaxed);
}

/* Adds a reference. Relaxed: the caller has a reference, or holds the lock of a list that
 * has one, so the object cannot be destroyed meanwhile. */
static inline void keel_refs_take(atomic_uint *refs) {
  unsigned before = atomic_fetch_add_explicit(refs, 1, memory_order_relaxed);
  assert(before);
  (void)before;
}

/* Whether the caller holds the only reference and may write. Acquire: pairs with the
 * release in keel_refs_drop, so the caller sees what former holders wrote. */
static inline bool keel_refs_unique(const atomic_uint *refs) {
  return atomic_load_explicit(refs, memory_order_acquire) == 1;
}

/* The number of references. Acquire, as above: for a caller that holds them all. */
static inline unsigned keel_refs_count(const atomic_uint *refs) {
  return atomic_load_explicit(refs, memory_order_acquire);
}

/* Drops a reference; true if it was the last, so that the object is the caller's alone. The
 * last holder need not write the count: no other thread could take a reference. */
static inline bool keel_refs_drop(atomic_uint *refs) {
  /* acquire: pairs with other holders' release, so the last one sees what they wrote;
   * release: publishes what this one wrote */
  if (keel_refs_unique(refs)) return true;
  unsigned before = atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel);
  assert(before);
  return before == 1;
}

#endif /* KEEL_REFS_H */
