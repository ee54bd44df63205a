/* effects.h - which steps wait for which because they touch the same resource.
 *
 * Steps that look at a resource run at once; one that changes it runs behind all that
 * came before it in the program, and before all that come after. Two inputs of a run are
 * never one resource, so that steps on different inputs do not wait for each other; of
 * values that come from elsewhere nothing is known, and they are taken to be any. */
#ifndef KEEL_EFFECTS_H
#define KEEL_EFFECTS_H

#include "plan/plan.h"

/* Finds what the function's steps do: sets its `effects`, `touches` and `mark_count`, and
 * its steps' `mark` and `behind`. Steps and the functions nested in them are laid out;
 * marks are numbered behind its `value_count` values.
 *
 * nested  it is called by another, and may be given one resource twice */
keel_status keel_effects_find(keel_fplan *fplan, uint32_t value_count,
                              bool nested);

#endif /* KEEL_EFFECTS_H */
