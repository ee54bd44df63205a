/* work.h - upper bounds, in round numbers, on a node's time and output size, from its types
 * and attributes alone: they keep constant folding from running away. */
#ifndef KEEL_WORK_H
#define KEEL_WORK_H

#include "program/function.h"

/* Steps, each some nanoseconds; UINT64_MAX: nothing is known, or too many to count. */
uint64_t keel_steps_of(const keel_function *function, const keel_node *node);

/* Bytes of its outputs; what they may come to where their types are not known yet. */
uint64_t keel_bytes_of(const keel_function *function, const keel_node *node);

#endif /* KEEL_WORK_H */
