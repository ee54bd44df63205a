/* parts.h - for the ops whose results are elements of their first input (keel_op_rule.view). */
#ifndef KEEL_PARTS_H
#define KEEL_PARTS_H

#include "program/function.h"

struct keel_parts;

/* Elements of a source: the first one, and how far apart they are. The source may be a part
 * itself: the strides are of the memory, and the offset is from where the source begins. */
typedef struct keel_strides {
  int64_t offset;
  int64_t begin; /* from where the memory begins to where the source does */
  uint32_t rank;
  int64_t strides[KD_MAX_RANK];
} keel_strides;

/* The type of a value that was there before the pass, with all dimensions; or NULL. */
const keel_type *keel_parts_type(const struct keel_parts *all, uint32_t value);

/* Integers of a constant input, at most `room`; -1: it is none. 0 where it is absent. */
int64_t keel_parts_ints(const struct keel_parts *all, const keel_node *node,
                        uint32_t input, int64_t *out_values, uint32_t capacity);

#endif /* KEEL_PARTS_H */
