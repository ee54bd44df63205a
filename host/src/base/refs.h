/* refs.h - letting go of what several hold. */
#ifndef KEEL_REFS_H
#define KEEL_REFS_H

#include <stdatomic.h>
#include <stdbool.h>

/* Gives a reference back; true: it was the last, and what is referred to is the caller's
 * alone. The last of all need not write: nobody else can be there to take a reference. */
static inline bool keel_refs_drop(atomic_uint *refs) {
  /* acquire, of both: what others did to it, before they let go, comes before what the
   * last one does; release: what this one did comes before that */
  return atomic_load_explicit(refs, memory_order_acquire) == 1 ||
         atomic_fetch_sub_explicit(refs, 1, memory_order_acq_rel) == 1;
}

#endif /* KEEL_REFS_H */
