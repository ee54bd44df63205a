/* order.h - which steps wait for which, laid out flat. */
#ifndef KEEL_ORDER_H
#define KEEL_ORDER_H

#include "program/function.h"

typedef struct keel_fplan keel_fplan;

/* `to` waits for `from`, which has a smaller number. */
typedef struct keel_edge {
  uint32_t from, to;
} keel_edge;

/* Constant once it is made. Followers, and steps that wait for none, stand in the order
 * of the way that is behind them, the longest first: the critical path is begun before
 * what has time. */
typedef struct keel_order {
  uint32_t *waits;     /* by step: for how many others */
  uint32_t *first;     /* by step, and one more: where its followers begin */
  uint32_t *followers; /* steps that wait for it */
  uint32_t *roots;     /* steps that wait for none */
  uint32_t root_count;
} keel_order;

/* The order of a function whose steps and values are laid out: who reads waits for who
 * writes, and `more` edges.
 *
 * costs  nanoseconds by step; NULL: all cost the same
 * Returns NULL where memory runs out. */
keel_order *keel_order_create(const keel_fplan *fplan, const keel_edge *more,
                              size_t more_count, const uint32_t *costs);
void keel_order_free(keel_order *order);

#endif /* KEEL_ORDER_H */
