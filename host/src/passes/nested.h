/* nested.h - types of what control ops run. */
#ifndef KEEL_NESTED_H
#define KEEL_NESTED_H

#include "program/function.h"

/* Gives the graphs of an If or a Loop the types of what they capture, infers theirs, and
 * sets the node's outputs as far as they can be told: what both branches make, and what a
 * body carries from round to round in one type. */
keel_status keel_infer_nested(const keel_function *function,
                              const keel_node *node);

#endif /* KEEL_NESTED_H */
