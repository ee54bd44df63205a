/* run.h - one run of a laid out function, from inside: run.c, step.c and framed.c. */
#ifndef KEEL_RUN_H
#define KEEL_RUN_H

#include "device/context.h"
#include "run/begin.h"
#include "run/frame.h"
#include "run/run.h"
#include "threads/pool.h"

typedef struct keel_run keel_run;

typedef struct step_task {
  keel_task task; /* first: a task is its step_task */
  keel_run *run;
  uint32_t step;
} step_task;

/* A copy whose data has not come. */
typedef struct arrival {
  keel_waiter waiter; /* first: a waiter is its arrival */
  keel_run *run;
  uint32_t step;
  uint64_t begin;
} arrival;

/* An input that is not known yet. */
typedef struct awaited {
  keel_waiter waiter; /* first: a waiter is its awaited */
  keel_run *run;
  uint32_t value;
} awaited;

struct keel_run {
  keel_idle idle; /* first: what the function keeps is a run */
  keel_arena arrays;
  keel_fplan *fplan;
  keel_run_args args; /* its arrays stay until the run has ended */
  const keel_order *order;
  keel_tensor **values; /* by value */
  /* By value: reads that are still to come; as references (base/refs.h): the last
   * reader's thread lets the value go, or gives it to the step, after all others read. */
  atomic_uint *uses;
  /* By step: what it waits for. Set before a run begins, counted down with acq_rel, so
   * that the step comes after all that its inputs' makers did. */
  atomic_uint *waits;
  step_task *tasks;  /* by step */
  arrival *arrivals; /* by step; NULL: none of them arrives */
  awaited *awaited;  /* by input; NULL: none was ever */
  /* Steps that have not ended. Counted down with release, read with acquire: who sees
   * none sees what all of them wrote. */
  atomic_uint remaining;
  /* The first step that fails puts it there, with release; who reads it acquires. */
  _Atomic(keel_tensor *) failure;
  keel_frame *frame; /* NULL: not made yet */
  keel_done *done; /* args.done, once it goes on later; NULL: somebody waits */
  keel_begun *begun; /* args.begun, once steps are begun */
  bool awaits;       /* inputs */
  bool framed;       /* runs in it */
  bool meets;        /* writes down the types that it meets */
  bool profile;
};

/* ---- step.c: one step ---------------------------------------------------- */

/* The run's first failure, with this thread's message. */
void keel_run_fail(keel_run *run, keel_status status);

/* Whether nothing more is to be begun: why. */
keel_status keel_run_check(const keel_run *run, uint32_t index);

/* Makes the step's values. False where it was not run, or failed. */
bool keel_run_step(keel_run *run, uint32_t index);

/* The same for one with nested functions. False: it ends later, and `ended` is told. */
bool keel_run_nested(keel_run *run, uint32_t index,
                     void (*ended)(keel_done *done, keel_status status));
/* What is done when it is told, of a run that then goes on from *out_step. */
keel_run *keel_run_nested_end(keel_done *done, keel_status status,
                              uint32_t *out_step);

/* An output that is known goes to who has begun the run. */
void keel_run_give(const keel_run *run, uint32_t value);

/* Adds to the time of a step. */
void keel_run_note_time(keel_step *step, uint64_t begin);

/* ---- framed.c: in a frame -------------------------------------------------- */

/* Whether it runs in one: then its memory is ready. */
bool keel_run_fits(keel_run *run);
keel_status keel_run_in_frame(keel_run *run);
void keel_run_framed_step(keel_run *run, uint32_t index);

/* ---- run.c ------------------------------------------------------------------- */

/* No other thread would help. */
static inline bool keel_run_is_alone(const keel_run *run) {
  return keel_pool_size(run->fplan->plan->context->pool) == 1 ||
         run->fplan->step_count <= 1;
}

/* Runs all steps in the run's order, with the pool, and waits. */
void keel_run_parallel(keel_run *run);

#endif /* KEEL_RUN_H */
