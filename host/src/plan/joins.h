/* joins.h - Concat without copies: values that are made where the whole has them.
 *
 * Where all dimensions before its axis are 1, a Concat's output is its inputs one after the
 * other. Each input then lies in the output from the beginning, and the step does nothing.
 * An input may be such a whole itself; and a Concat whose inputs lie side by side in a larger
 * one already, in its order, is a part of that. */
#ifndef KEEL_JOINS_H
#define KEEL_JOINS_H

#include "plan/framing.h"

struct keel_joins {
  uint32_t
      *root; /* by value: that it lies in, perhaps itself; KEEL_ABSENT: none */
  uint64_t *offset; /* by value: bytes from where that begins */
  uint32_t *block;  /* by value: of a root, where it has one already */
  bool *nothing;    /* by step: a Concat that has nothing to do */
};

/* Bindings and the places' makers are known; nothing is laid. To be dropped, also where it
 * fails. */
keel_status keel_joins_find(const keel_framing *framing, const uint32_t *base,
                            keel_joins *joins);
void keel_joins_drop(keel_joins *joins);

/* A value's bytes in that layout. */
uint64_t keel_joins_bytes(const keel_device *device, const keel_type *type,
                          uint32_t layout);

#endif /* KEEL_JOINS_H */
