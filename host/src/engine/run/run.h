/* run.h - one run of an executable. Internal to run.c, step.c and static_steps.c. */
#ifndef KEEL_RUN_H
#define KEEL_RUN_H

#include "device/context.h"
#include "run/async_run.h"
#include "run/static_run.h"
#include "threads/pool.h"

typedef struct keel_run keel_run;

typedef struct step_task {
  keel_task task; /* must be first: cast from keel_task */
  keel_run *run;
  uint32_t step;
} step_task;

/* A step whose output is pending. */
typedef struct late_output {
  keel_waiter waiter; /* must be first: cast from keel_waiter */
  keel_run *run;
  uint32_t step;
  uint64_t begin;
} late_output;

/* A pending input. */
typedef struct pending_input {
  keel_waiter waiter; /* must be first: cast from keel_waiter */
  keel_run *run;
  uint32_t value;
} pending_input;

struct keel_run {
  keel_idle idle; /* first: what the function keeps is a run */
  keel_arena arrays;
  keel_executable *executable;
  keel_run_args args; /* its arrays stay until the run has ended */
  const keel_order *order;
  keel_tensor **values; /* by value */
  /* By value: remaining reads, counted like references (base/refs.h): the last reader
   * releases the value, or donates it to its step, after all other reads. */
  atomic_uint *uses;
  /* By step: how many steps it waits for. Set before the run starts, decremented with
   * acq_rel, so that the step sees what the makers of its inputs wrote. */
  atomic_uint *waits;
  step_task *tasks;             /* by step */
  late_output *late;            /* by step; NULL: no step's output is pending */
  pending_input *pending_input; /* by input; NULL: there never was one */
  /* Steps that have not ended. Decremented with release, read with acquire: a reader of
   * zero sees what all steps wrote. */
  atomic_uint remaining;
  /* The first failure: stored once with release, read with acquire. */
  _Atomic(keel_tensor *) failure;
  keel_static_run *static_run; /* NULL: not made yet */
  keel_done *done; /* args.done, once it goes on later; NULL: a caller waits */
  keel_async_run *async;   /* args.async, once steps are started */
  bool has_pending_inputs; /* inputs */
  bool has_members;        /* among the inputs of an asynchronous run */
  bool is_static;          /* runs in it */
  bool records_types;      /* records the types of values */
  bool profile;
};

/* ---- step.c: one step ---------------------------------------------------- */

/* Records a failure with this thread's message; the run's first one counts. */
void keel_run_fail(keel_run *run, keel_status status);

/* Checks for cancellation before a step. Returns KD_OK, KD_CANCELLED or
 * KD_DEADLINE_EXCEEDED. */
keel_status keel_run_check(const keel_run *run, uint32_t index);

/* Runs a step. False if it was not run, or failed. */
bool keel_run_step(keel_run *run, uint32_t index);

/* The same for a step with nested functions. False: it ends later, and `ended` is called
 * then. */
bool keel_run_nested(keel_run *run, uint32_t index,
                     void (*ended)(keel_done *done, keel_status status));
/* To be called by `ended`. Returns the run, which then continues from *out_step. */
keel_run *keel_run_nested_end(keel_done *done, keel_status status,
                              uint32_t *out_step);

/* Publishes a value to the asynchronous run, if it is an output and ready. */
void keel_run_publish(const keel_run *run, uint32_t value);

/* Adds the time since `begin` to a step's profile. */
void keel_run_note_time(keel_step *step, uint64_t begin);

/* ---- static_steps.c: in a static run -------------------------------------------------- */

/* Prepares a static run; false if the run must be dynamic. */
bool keel_run_begin_static(keel_run *run);
keel_status keel_run_static(keel_run *run);
void keel_run_static_step(keel_run *run, uint32_t index);

/* ---- run.c ------------------------------------------------------------------- */

/* Whether no other thread would help. */
static inline bool keel_run_is_serial(const keel_run *run) {
  return keel_pool_size(run->executable->plan->context->pool) == 1 ||
         run->executable->step_count <= 1;
}

/* Runs all steps on the pool, in the run's order, and waits. */
void keel_run_parallel(keel_run *run);

#endif /* KEEL_RUN_H */
