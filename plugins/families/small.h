/* small.h - plans of ops on elements of eight bits or less. */
#ifndef KEEL_FAMILIES_SMALL_H
#define KEEL_FAMILIES_SMALL_H

#include "families/family.h"

/* Each plans a node, or fails the plan, where the node has such a type; else false. */
bool fam_small_cast(const fam_op *op, fam_plan *plan);
bool fam_small_quantize(const fam_op *op, fam_plan *plan);
bool fam_small_dequantize(const fam_op *op, fam_plan *plan);

#endif /* KEEL_FAMILIES_SMALL_H */
