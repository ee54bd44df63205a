/* weights.h - weights that kernels hold in a form of their own are let go of.
 *
 * After the first run of a plan whose shapes are known it is known, too, which kernel each
 * step has, and what that has taken (kd_kernel_def.taken). A plan then drops the constants
 * that nobody reads any more. They leave memory when the program that they came with is
 * released. */
#ifndef KEEL_WEIGHTS_H
#define KEEL_WEIGHTS_H

#include "exec/plan.h"

/* Before the first run: the plan lets go of weights as soon as it can. */
void keel_weights_expect(keel_plan *plan);

/* Around each run. What is read between them stays. leave: where enter returned true. */
bool keel_weights_enter(keel_plan *plan);
void keel_weights_leave(keel_plan *plan);

#endif /* KEEL_WEIGHTS_H */
