/* weights.h - weights that are held elsewhere are let go of.
 *
 * After the first run of a plan whose shapes are known it is known, too, which kernel each
 * step has, and what that has taken (kd_kernel_def.taken). The plan then drops the constants
 * that nobody reads any more: these, and those that were brought to the device of a compiled
 * region, or of a kernel that is KD_KERNEL_CONSTANTS_IN_CREATE. They leave memory when the
 * program that they came with is released. */
#ifndef KEEL_WEIGHTS_H
#define KEEL_WEIGHTS_H

#include "plan/plan.h"

/* Before the first run: the plan lets go of weights as soon as it can. */
void keel_weights_expect(keel_plan *plan);

/* Around each run. What is read between them stays. leave: where enter returned true; of a
 * run that failed it is not known what each step has, and the next one's end is waited for. */
bool keel_weights_enter(keel_plan *plan);
void keel_weights_leave(keel_plan *plan, keel_status status);

#endif /* KEEL_WEIGHTS_H */
