/* execute.h - running a function that is laid out: for somebody who waits, or who is told. */
#ifndef KEEL_EXECUTE_H
#define KEEL_EXECUTE_H

#include "plan/plan.h"

/* Told when something has ended, once, on any thread, with that thread's message. */
typedef struct keel_done {
  void (*call)(struct keel_done *self, keel_status status);
} keel_done;

/* Runs it on the calling thread and the pool, and waits. Inputs are ready. What is
 * under way when the watch (or NULL) is over is waited for, and nothing else begun.
 * partial: what does not hang on a failure is run and handed out, and what does is
 * handed out as failed values; inputs may have failed. Else outputs are NULL where it
 * fails. */
keel_status keel_fplan_run_with(keel_fplan *fplan, keel_device *scope,
                                keel_tensor *const *inputs,
                                uint32_t input_count, keel_tensor **outputs,
                                uint32_t output_count, const keel_watch *watch,
                                bool partial);

/* Begins to run a nested function, and runs it as far as it goes without waiting.
 * Inputs are ready; they and the arrays stay until it has ended.
 *
 * Returns true where it has ended: *out_status says how. Else `done` is told so later.
 * Outputs are NULL where it failed. */
bool keel_fplan_begin(keel_fplan *fplan, keel_device *scope,
                      keel_tensor *const *inputs, uint32_t input_count,
                      keel_tensor **outputs, uint32_t output_count,
                      const keel_watch *watch, keel_done *done,
                      keel_status *out_status);

/* The same, for who has begun it and is given each output when it is made (begin.h):
 * inputs may be pending, and steps wait for those that they read. partial: as above. */
typedef struct keel_begun keel_begun;
bool keel_fplan_begin_for(keel_fplan *fplan, keel_device *scope,
                          keel_tensor *const *inputs, uint32_t input_count,
                          keel_tensor **outputs, uint32_t output_count,
                          const keel_watch *watch, bool partial,
                          keel_begun *begun, keel_done *done,
                          keel_status *out_status);

#endif /* KEEL_EXECUTE_H */
