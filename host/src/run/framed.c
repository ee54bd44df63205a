/* framed.c - runs the steps of a static run: serially or on the pool, as the scheduler
 * decides. */
#include "device/context.h"
#include "run/run.h"

void keel_run_framed_step(keel_run *run, uint32_t index) {
  if (atomic_load_explicit(&run->failure, memory_order_relaxed)) return;
  keel_status status = keel_run_check(run, index);
  if (status == KD_OK) status = keel_frame_step(run->frame, index);
  if (status != KD_OK) keel_run_fail(run, status);
}

/* Runs the steps in order and measures each. */
static keel_status time_steps(keel_run *run, uint32_t *costs) {
  uint64_t begin = keel_now();
  for (uint32_t i = 0; i < run->fplan->step_count; i++) {
    KEEL_TRY(keel_frame_step(run->frame, i));
    uint64_t end = keel_now(), time = end - begin;
    costs[i] = time < UINT32_MAX ? (uint32_t)time : UINT32_MAX;
    begin = end;
  }
  return KD_OK;
}

/* Runs serially, and ranks the steps by their measured costs. */
static keel_status run_ranked(keel_run *run) {
  uint32_t *costs = calloc((size_t)run->fplan->step_count + 1, sizeof *costs);
  if (!costs) return keel_no_memory(run->fplan->step_count);
  keel_status status = time_steps(run, costs);
  if (status == KD_OK) keel_frame_rank(run->frame, costs);
  free(costs);
  return status;
}

static keel_status run_watched(keel_run *run) {
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < run->fplan->step_count && status == KD_OK; i++) {
    status = keel_run_check(run, i);
    if (status == KD_OK) status = keel_frame_step(run->frame, i);
  }
  return status;
}

static keel_status run_alone(keel_run *run, bool ranked) {
  const keel_fplan *fplan = run->fplan;
  keel_status status = KD_OK;
  keel_hush();
  if (run->args.watch) return run_watched(run);
  if (ranked) return run_ranked(run);
  for (uint32_t i = 0; i < fplan->step_count && status == KD_OK; i++)
    status = keel_frame_step(run->frame, i);
  return status;
}

/* Runs on the pool. Returns the first failure. */
static keel_status run_shared(keel_run *run) {
  run->order = keel_frame_order(run->frame);
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
  keel_hush();
  return status == KD_OK ? keel_frame_enqueue(run->frame) : status;
}

static keel_status run_now(keel_run *run) {
  keel_pace *pace = &run->fplan->pace;
  if (keel_run_is_alone(run)) return run_alone(run, false);
  keel_pacing pacing = keel_pace_next(pace);
  uint64_t begin = pacing.timed ? keel_now() : 0;
  keel_status status = pacing.way == KEEL_SHARED ? run_shared(run)
                                                 : run_alone(run, pacing.steps);
  if (pacing.timed && status == KD_OK)
    keel_pace_note(pace, pacing.way, keel_now() - begin, run->fplan->step_count,
                   keel_pool_size(run->fplan->plan->context->pool));
  return status;
}

keel_status keel_run_in_frame(keel_run *run) {
  keel_tensor *const *inputs = run->args.inputs;
  keel_status status =
      keel_frame_queued(run->frame) ? run_queued(run) : run_now(run);
  if (status == KD_OK)
    return keel_frame_end(run->frame, inputs, run->args.outputs);
  keel_frame_end(run->frame, inputs, NULL);
  return status;
}

bool keel_run_fits(keel_run *run) {
  run->framed = !run->profile && !run->fplan->plan->eager &&
                keel_frame_begin(run->fplan, run->args.inputs, &run->frame);
  return run->framed;
}
