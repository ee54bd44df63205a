/* donation.h - which outputs of a static run take the memory of which donated inputs. */
#ifndef KEEL_DONATION_H
#define KEEL_DONATION_H

#include "plan/memory_plan.h"

/* Immutable, but for `ranked`. */
struct keel_donation {
  /* by output slot: an input of its size, or KEEL_ABSENT */
  uint32_t *slot_input;
  /* the memory plan's, and from each reader of an input to the step that overwrites it */
  keel_edge *edges;
  uint32_t edge_count, edge_capacity;
  keel_order *order;
  _Atomic(keel_order *) ranked; /* as in the memory plan */
};

/* The memory plan's, which the first run that donates makes for its inputs. `donated`: by input. A
 * run that donates others uses what fits. NULL: nothing fits, or memory ran out. */
keel_donation *keel_donation_of(keel_memory_plan *memory_plan,
                                const bool *donated);

/* At the memory plan's end. */
void keel_donation_drop(keel_memory_plan *memory_plan);

#endif /* KEEL_DONATION_H */
