/* work.h - how long a node's kernel may take and how much it makes, told by its types and
 * attributes before anything runs. Upper bounds, in round numbers: what is to be kept from
 * running away is told apart from what is not. */
#ifndef KEEL_WORK_H
#define KEEL_WORK_H

#include "program/function.h"

/* Steps, each some nanoseconds; UINT64_MAX: nothing is known, or too many to count. */
uint64_t keel_steps_of(const keel_function *function, const keel_node *node);

/* Bytes of its outputs; what they may come to where their types are not known yet. */
uint64_t keel_bytes_of(const keel_function *function, const keel_node *node);

#endif /* KEEL_WORK_H */
