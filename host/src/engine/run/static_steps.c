/* static_steps.c - runs the steps of a static run: serially or on the pool, as the
 * scheduler decides. */
#include "device/context.h"
#include "run/run.h"

void keel_run_static_step(keel_run *run, uint32_t index) {
  if (atomic_load_explicit(&run->failure, memory_order_relaxed)) return;
  keel_status status = keel_run_check(run, index);
  if (status == KD_OK) status = keel_static_run_step(run->static_run, index);
  if (status != KD_OK) keel_run_fail(run, status);
}

/* Runs the steps in order and measures each. */
static keel_status time_steps(keel_run *run, uint32_t *costs) {
  uint64_t begin = keel_now();
  for (uint32_t i = 0; i < run->executable->step_count; i++) {
    KEEL_TRY(keel_static_run_step(run->static_run, i));
    uint64_t end = keel_now(), time = end - begin;
    costs[i] = time < UINT32_MAX ? (uint32_t)time : UINT32_MAX;
    begin = end;
  }
  return KD_OK;
}

/* Runs serially, and ranks the steps by their measured costs. */
static keel_status run_measured(keel_run *run) {
  uint32_t *costs =
      calloc((size_t)run->executable->step_count + 1, sizeof *costs);
  if (!costs) return keel_no_memory(run->executable->step_count);
  keel_status status = time_steps(run, costs);
  if (status == KD_OK) keel_static_run_rank(run->static_run, costs);
  free(costs);
  return status;
}

static keel_status run_cancellable(keel_run *run) {
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < run->executable->step_count && status == KD_OK;
       i++) {
    status = keel_run_check(run, i);
    if (status == KD_OK) status = keel_static_run_step(run->static_run, i);
  }
  return status;
}

static keel_status run_serial(keel_run *run, bool ranked) {
  const keel_executable *executable = run->executable;
  keel_status status = KD_OK;
  keel_clear_error();
  if (run->args.cancellation) return run_cancellable(run);
  if (ranked) return run_measured(run);
  for (uint32_t i = 0; i < executable->step_count && status == KD_OK; i++)
    status = keel_static_run_step(run->static_run, i);
  return status;
}

/* Runs on the pool. Returns the first failure. */
static keel_status run_parallel(keel_run *run) {
  run->order = keel_static_run_order(run->static_run);
  keel_run_parallel(run);
  keel_tensor *failure =
      atomic_load_explicit(&run->failure, memory_order_acquire);
  keel_status status = failure ? keel_tensor_query(failure) : KD_OK;
  keel_tensor_release(failure);
  return status;
}

/* Enqueues all steps on the device's stream. */
static keel_status run_queued(keel_run *run) {
  keel_status status = keel_run_check(run, 0);
  keel_clear_error();
  return status == KD_OK ? keel_static_run_enqueue(run->static_run) : status;
}

static keel_status run_now(keel_run *run) {
  keel_scheduler *scheduler = &run->executable->scheduler;
  if (keel_run_is_serial(run)) return run_serial(run, false);
  keel_schedule schedule = keel_scheduler_next(scheduler);
  uint64_t begin = schedule.timed ? keel_now() : 0;
  keel_status status = schedule.mode == KEEL_PARALLEL
                           ? run_parallel(run)
                           : run_serial(run, schedule.steps);
  if (schedule.timed && status == KD_OK)
    keel_scheduler_note(scheduler, schedule.mode, keel_now() - begin,
                        run->executable->step_count,
                        keel_pool_size(run->executable->plan->context->pool));
  return status;
}

keel_status keel_run_static(keel_run *run) {
  keel_tensor *const *inputs = run->args.inputs;
  keel_status status = keel_static_run_is_queued(run->static_run)
                           ? run_queued(run)
                           : run_now(run);
  if (status == KD_OK)
    return keel_static_run_end(run->static_run, inputs, run->args.outputs);
  keel_static_run_end(run->static_run, inputs, NULL);
  return status;
}

bool keel_run_begin_static(keel_run *run) {
  /* a partial run that fails is repeated with the same inputs */
  const bool *donated =
      run->args.held && !run->args.partial ? run->args.donated : NULL;
  run->is_static = !run->profile && !run->executable->plan->eager &&
                   keel_static_run_begin(run->executable, &run->args, donated,
                                         &run->static_run);
  return run->is_static;
}
