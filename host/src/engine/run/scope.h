/* scope.h - the beginning and the end of a run of a plan, waited for or not: its parameters, the check
 * of its inputs, the version for them, the plugin's run_begin and the final flush. */
#ifndef KEEL_RUN_SCOPE_H
#define KEEL_RUN_SCOPE_H

#include <keel/program.h>

#include "run/execute.h"

/* Whether the counts fit the program, and no input is NULL. */
keel_status keel_scope_check_ports(const keel_plan *plan,
                                   keel_tensor *const *inputs,
                                   uint32_t input_count, uint32_t output_count);

/* Reads the parameters in full. */
keel_status keel_scope_read_params(const keel_run_params *given,
                                   keel_run_params *all);

/* The arguments by the flags, without a cancellation. */
keel_run_args keel_scope_args(const keel_plan *plan,
                              const keel_run_params *params,
                              keel_tensor *const *inputs,
                              keel_tensor **outputs);

/* Whether there is nothing left to wait for: for a run that is not partial, one failed input is
 * enough. context: its keel_run_args. */
bool keel_scope_inputs_known(void *context);

/* The scope of one run of a plan, between the plugin's run_begin and its final flush. */
typedef struct keel_run_scope {
  keel_plan *plan, *version; /* version: NULL: the plan itself */
  /* the first input of another shape than declared, or KEEL_ABSENT */
  uint32_t mismatch;
  bool reads_weights; /* keel_weights_enter returned true */
  uint64_t timed;     /* for keel_versions_note: elements, or 0 */
  keel_executable *main;
  uint64_t began; /* start time for a trace; 0: none runs */
} keel_run_scope;

/* Checks the inputs, finds the version for them, and announces the run to the plugin. */
keel_status keel_scope_enter(keel_plan *plan, const keel_run_args *args,
                             keel_run_scope *out_scope);

/* An input of another shape than declared stays for the message, if the run fails. */
static inline void keel_scope_keep_for_message(const keel_run_scope *scope,
                                               keel_run_args *args) {
  if (scope->mismatch != KEEL_ABSENT) args->held = NULL;
}

/* Adds to a failure the inputs that may have caused it. */
keel_status keel_scope_explain(const keel_run_scope *scope,
                               keel_tensor *const *inputs, keel_status status);

/* here: called on the thread that entered it. */
void keel_scope_leave(const keel_run_scope *scope, keel_status status,
                      bool here);

#endif /* KEEL_RUN_SCOPE_H */
