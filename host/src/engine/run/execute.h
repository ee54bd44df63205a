/* execute.h - running a function that is laid out: synchronously, or with a callback. */
#ifndef KEEL_EXECUTE_H
#define KEEL_EXECUTE_H

#include "plan/plan.h"

/* A completion callback: called once, on any thread, with that thread's message. */
typedef struct keel_done {
  void (*call)(struct keel_done *self, keel_status status);
} keel_done;

/* An asynchronous run (async_run.h). */
typedef struct keel_async_run keel_async_run;

/* The arguments of a run. */
typedef struct keel_run_args {
  keel_device *scope; /* of nodes that name no device, or NULL */
  keel_tensor *const *inputs;
  keel_tensor **outputs;
  uint32_t input_count, output_count;
  /* when it is over, nothing more is started; or NULL */
  const keel_cancellation *cancellation;
  /* Outputs that do not depend on a failure are computed and returned, the others are failed
   * values; inputs may have failed. Otherwise outputs are NULL if the run fails. */
  bool partial;
  /* of a run that is waited for: not for devices that have its work */
  bool enqueues;
  bool declared; /* an input of another shape than declared is refused */
  /* It has begun the run, and is given each output when it is made: inputs may be pending,
   * and steps wait for those that they read. NULL: inputs are ready. */
  keel_async_run *async;
  keel_done *done; /* of keel_executable_begin: the callback */
  /* By input: whether it is donated. NULL: none is. Then `held` is `inputs`: the run may
   * take the reference there to a donated input, and leaves NULL. The others have
   * references there, too, so that a donated one is the run's alone if its count is 1.
   * NULL: the run takes none. */
  const bool *donated;
  keel_tensor **held;
  const keel_output_memory *into; /* by output: where it is to be; or NULL */
  uint32_t into_count;
} keel_run_args;

/* Runs it on the calling thread and the pool, and waits; also for what is under way when
 * the run is cancelled. */
keel_status keel_executable_run(keel_executable *executable,
                                const keel_run_args *args);

/* Begins to run it, and runs it as far as it goes without waiting. Inputs and the arrays
 * stay until it has ended.
 *
 * Returns true if it has ended, with *out_status. Otherwise `done` is called later. */
bool keel_executable_begin(keel_executable *executable,
                           const keel_run_args *args, keel_status *out_status);

#endif /* KEEL_EXECUTE_H */
