/* order.h - the dependencies of steps, in flat arrays. */
#ifndef KEEL_ORDER_H
#define KEEL_ORDER_H

#include "program/function.h"

typedef struct keel_executable keel_executable;

/* `to` waits for `from`, which has a smaller number. */
typedef struct keel_edge {
  uint32_t from, to;
} keel_edge;

/* Immutable. Followers and roots are sorted by the longest remaining path, longest first,
 * so that the critical path starts first. */
typedef struct keel_order {
  uint32_t *waits;     /* by step: how many steps it waits for */
  uint32_t *first;     /* by step, plus one: the index of its first follower */
  uint32_t *followers; /* steps that wait for it */
  uint32_t *roots;     /* steps that wait for none */
  uint32_t root_count;
} keel_order;

/* Creates the order of a function whose steps and values are laid out: each reader waits
 * for the writer, and `more` adds edges.
 *
 * costs  nanoseconds by step; NULL: all cost the same
 * Returns NULL if memory runs out. */
keel_order *keel_order_create(const keel_executable *executable,
                              const keel_edge *more, size_t more_count,
                              const uint32_t *costs);
void keel_order_free(keel_order *order);

#endif /* KEEL_ORDER_H */
