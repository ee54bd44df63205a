/* into.h - outputs of a run in the caller's memory. */
#ifndef KEEL_INTO_H
#define KEEL_INTO_H

#include "plan/memory_plan.h"
#include "run/execute.h"

/* Whether the memory can be written: no piece overlaps another one or an input. */
keel_status keel_into_check(const keel_run_args *args);

/* A tensor in the caller's memory for output slot `slot` of a memory plan, for kernels to write.
 * NULL: there is none that they can, or no memory for the tensor. */
keel_tensor *keel_into_slot(const keel_run_args *args,
                            const keel_memory_plan *memory_plan, uint32_t slot);

/* Brings outputs that are elsewhere into the caller's memory, when a run has ended well. */
keel_status keel_into_finish(keel_context *context, const keel_run_args *args);

#endif /* KEEL_INTO_H */
