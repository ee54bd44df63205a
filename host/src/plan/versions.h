/* versions.h - plans of a plan: one for the first set of input types, and for each that comes
 * again.
 *
 * Where a program leaves dimensions open, what hangs on them is not known when its plan is
 * made. Once they are given, shapes are constants: ops that compute them go, memory can be
 * planned, costs are known. There are a few such versions at a time; the one that was not
 * used for the longest makes way. */
#ifndef KEEL_VERSIONS_H
#define KEEL_VERSIONS_H

#include "passes/passes.h"
#include "plan/plan.h"

#define KEEL_VERSIONS_MOST 8

typedef struct keel_versions keel_versions;

/* For a plan whose program leaves something open. Runs the passes that look at no shapes,
 * and keeps what they make; *out_function: a copy of it in the plan's arena, for the rest. */
keel_status keel_versions_create(keel_plan *plan, const keel_program *program,
                                 const keel_pass_call *passes,
                                 keel_function **out_function);
void keel_versions_free(keel_versions *all);

/* The version for ready inputs, to be released with keel_plan_release; NULL: the plan
 * itself is to be run. Made for the first inputs, and where such inputs have come
 * before. */
keel_plan *keel_versions_take(keel_versions *all, keel_tensor *const *inputs,
                              const keel_watch *watch);

/* All that there are, with room for KEEL_VERSIONS_MOST, to be released. */
uint32_t keel_versions_list(keel_versions *all, keel_plan **out_plans);

/* The version that was used last, to be released; NULL: there is none. */
keel_plan *keel_versions_last(keel_versions *all);

/* keel_plan_replays of those that stand. */
uint64_t keel_versions_replays(keel_versions *all);

/* Constants in the memories of devices, for all versions. */
keel_placed *keel_versions_placed(keel_versions *all);

#endif /* KEEL_VERSIONS_H */
