/* weights.h - releases weights that kernels hold in a form of their own.
 *
 * After the first run of a plan with known shapes, the kernel of each step is known, and
 * what it has taken (kd_kernel_def.taken). The plan then releases the constants that
 * nothing reads any more: those taken, and those copied to the device of a compiled region
 * or of a KD_KERNEL_CONSTANTS_IN_CREATE kernel. Their memory is freed when the program is
 * released. A plan for all sizes releases none, as other plans are made of it; it replaces
 * misaligned ones by their aligned copies, as the others do. */
#ifndef KEEL_WEIGHTS_H
#define KEEL_WEIGHTS_H

#include "plan/plan.h"

/* Lets the plan release weights as soon as it can. Before the first run. */
void keel_weights_allow_release(keel_plan *plan);

/* Called around each run; weights that are read in between stay. Call leave only if enter
 * returned true. After a failed run the kernels are not all known, so weights are released
 * after a later one. */
bool keel_weights_enter(keel_plan *plan);
void keel_weights_leave(keel_plan *plan, keel_status status);

#endif /* KEEL_WEIGHTS_H */
