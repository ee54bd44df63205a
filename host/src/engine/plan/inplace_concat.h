/* inplace_concat.h - Concat without copies: its inputs are produced in place, in its
 * output.
 *
 * If all dimensions before its axis are 1, a Concat's output is the concatenation of its
 * inputs' bytes. Its inputs are then written straight into the output, and the step does
 * nothing. An input may itself be such an output; and a Concat whose inputs are already
 * adjacent in a larger one, in order, is a part of that. */
#ifndef KEEL_INPLACE_CONCAT_H
#define KEEL_INPLACE_CONCAT_H

#include "plan/memory_plan.h"

struct keel_inplace_concat {
  /* by value: the output that it lies in (may be itself), or KEEL_ABSENT */
  uint32_t *root;
  uint64_t *offset; /* by value: its offset in that, in bytes */
  uint32_t *block;  /* by value: the block of a root, if it has one already */
  bool *nothing;    /* by step: whether it is a Concat that does nothing */
};

/* Called when specialisations and makers are known and nothing has been assigned. Call
 * _drop even after a failure. */
keel_status keel_inplace_concat_find(const keel_memory_plan *memory_plan,
                                     const uint32_t *base,
                                     keel_inplace_concat *concats);
void keel_inplace_concat_drop(keel_inplace_concat *concats);

/* The size of a value in that layout, in bytes. */
uint64_t keel_inplace_concat_bytes(const keel_device *device,
                                   const keel_type *type, uint32_t layout);

#endif /* KEEL_INPLACE_CONCAT_H */
