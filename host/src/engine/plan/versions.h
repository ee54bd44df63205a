/* versions.h - versions of a plan, specialised for input types: for the first set of types, for
 * each set that recurs, for a new one where one run pays for it, and for those that the application
 * prepares. For a set that recurs a thread of its own makes the version, and the run does not wait.
 *
 * If a program leaves dimensions open, what depends on them is unknown when its plan is
 * made. In a version, shapes are constants: the ops that compute them are folded, memory
 * can be planned, and costs are known. There are at most KEEL_VERSIONS_MOST versions, and as many as
 * keel_plan_params.version_bytes holds: after a few runs of a version it is known what it takes,
 * and if all take too much, the largest one goes. A run evicts only a version that has not been used for
 * KEEL_VERSIONS_UNUSED runs: of more sets that come in turn, some have versions and the rest run the
 * plan itself, instead of each evicting the next; or, where one run pays for a version, one that
 * serves this run alone. A prepared version evicts any other, and stays. */
#ifndef KEEL_VERSIONS_H
#define KEEL_VERSIONS_H

#include "passes/passes.h"
#include "plan/plan.h"

#define KEEL_VERSIONS_MOST   256
#define KEEL_VERSIONS_BYTES  (UINT64_C(256) << 20) /* the usual budget */
#define KEEL_VERSIONS_UNUSED 1024 /* runs until a version can make way */

typedef struct keel_versions keel_versions;

/* For a plan whose program leaves dimensions open. Runs the passes that do not look at
 * shapes, and keeps the result; *out_function: a copy of it in the plan's arena, for the
 * remaining passes. */
keel_status keel_versions_create(keel_plan *plan, const keel_program *program,
                                 const keel_pass_call *passes,
                                 keel_function **out_function);
/* Waits until no version is being made or weighed. */
void keel_versions_await(keel_versions *all);
void keel_versions_free(keel_versions *all);

/* Gets the version for ready inputs; the caller releases it with keel_plan_release. NULL:
 * run the plan itself. A version is made for the first inputs, and for new ones where the runs so
 * far show that one run pays for it; for inputs whose types recur, one that a later run gets.
 *
 * *out_timed: the elements of the inputs, if keel_versions_note wants the run's time; or 0 */
keel_plan *keel_versions_take(keel_versions *all, keel_tensor *const *inputs,
                              uint64_t *out_timed);

/* Notes the nanoseconds of a run of a version, or of the plan itself (plan: NULL). */
void keel_versions_note(keel_versions *all, const keel_plan *plan,
                        uint64_t elements, uint64_t time);

/* Lists all versions, at most KEEL_VERSIONS_MOST; the caller releases each. */
uint32_t keel_versions_list(keel_versions *all, keel_plan **out_plans);

/* The last used version, which the caller releases; NULL if there is none. */
keel_plan *keel_versions_last(keel_versions *all);

/* The sum of keel_plan_replays over the versions. */
uint64_t keel_versions_replays(keel_versions *all);

/* The constants in device memory that all versions share. */
keel_placed *keel_versions_placed(keel_versions *all);

#endif /* KEEL_VERSIONS_H */
