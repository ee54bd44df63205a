/* effects.h - dependencies between steps that access the same resource.
 *
 * Steps that only read a resource run concurrently. A step that changes it runs after all
 * accesses that precede it in the program, and before all that follow. Two inputs of a run
 * are never the same resource, so steps on different inputs do not wait for each other; a
 * value from anywhere else may be any resource. */
#ifndef KEEL_EFFECTS_H
#define KEEL_EFFECTS_H

#include "plan/plan.h"

/* Finds the effects of the function's steps: sets its `effect_edges`, `capture_effects` and
 * `mark_count`, and its steps' `mark` and `mark_inputs`. The steps and the functions nested
 * in them are laid out already. Marks are numbered after the `value_count` values.
 *
 * nested  another function calls it, and may pass it one resource twice */
keel_status keel_effects_find(keel_executable *executable, uint32_t value_count,
                              bool nested);

#endif /* KEEL_EFFECTS_H */
