/* scope.c - the beginning and the end of a run of a plan, waited for or not. */
#include "run/scope.h"

#include "base/params.h"
#include "base/refs.h"
#include "device/context.h"
#include "device/device.h"
#include "device/lost.h"
#include "plan/versions.h"
#include "plan/weights.h"
#include "run/declared.h"
#include "run/inputs.h"
#include "trace/trace.h"

/* ---- from the caller ----------------------------------------------------- */

keel_status keel_scope_check_ports(const keel_plan *plan,
                                   keel_tensor *const *inputs,
                                   uint32_t input_count,
                                   uint32_t output_count) {
  if (input_count != plan->main->input_count ||
      output_count != plan->main->output_count)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the program has %u inputs and %u outputs, not %u and %u",
                     (unsigned)plan->main->input_count,
                     (unsigned)plan->main->output_count, (unsigned)input_count,
                     (unsigned)output_count);
  for (uint32_t i = 0; i < input_count; i++)
    if (!inputs[i])
      return keel_fail(KD_INVALID_ARGUMENT, "input %u is missing", (unsigned)i);
  return KD_OK;
}

keel_status keel_scope_read_params(const keel_run_params *given,
                                   keel_run_params *all) {
  KEEL_TRY(KEEL_READ_PARAMS(keel_run_params, given,
                            offsetof(keel_run_params, cancel), all));
  return keel_params_flags("a run", all->flags,
                           KEEL_RUN_PARTIAL | KEEL_RUN_WHOLE |
                               KEEL_RUN_ENQUEUES | KEEL_RUN_DECLARED);
}

keel_run_args keel_scope_args(const keel_plan *plan,
                              const keel_run_params *params,
                              keel_tensor *const *inputs,
                              keel_tensor **outputs) {
  return (keel_run_args){.scope = plan->device,
                         .inputs = inputs,
                         .outputs = outputs,
                         .input_count = plan->main->input_count,
                         .output_count = plan->main->output_count,
                         .partial = params->flags & KEEL_RUN_PARTIAL,
                         .enqueues = params->flags & KEEL_RUN_ENQUEUES,
                         .declared = params->flags & KEEL_RUN_DECLARED,
                         .into = params->into,
                         .into_count = params->into_count};
}

bool keel_scope_inputs_known(void *context) {
  const keel_run_args *args = context;
  bool pending = false, failed = false;
  for (uint32_t i = 0; i < args->input_count; i++) {
    pending |= keel_tensor_state(args->inputs[i]) == KEEL_PENDING;
    failed |= keel_tensor_state(args->inputs[i]) == KEEL_FAILED;
  }
  return !pending || (failed && !args->partial) ||
         (args->cancellation && keel_cancellation_is_due(args->cancellation));
}

/* Steps on different inputs do not wait for each other. */
static keel_status check_apart(keel_tensor *const *inputs, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; keel_input_is_resource(inputs[i]) && k < i; k++)
      if (keel_input_is_resource(inputs[k]) &&
          inputs[k]->resource == inputs[i]->resource)
        return keel_fail(KD_INVALID_ARGUMENT,
                         "inputs %u and %u are the same resource; pass each "
                         "resource to a run once",
                         (unsigned)k, (unsigned)i);
  return KD_OK;
}

/* ---- before and after a run -------------------------------------------------- */

/* Why an input of another shape than declared cannot run. */
static const char *why_not(const keel_plan *plan, bool declared) {
  if (declared) return ", and the run takes declared shapes alone";
  return plan->program->device
             ? ", for which it is compiled"
             : "; another shape needs the program, which was released before"
               " this run";
}

keel_status keel_scope_enter(keel_plan *plan, const keel_run_args *args,
                             keel_run_scope *out_scope) {
  keel_tensor *const *inputs = args->inputs;
  uint32_t mismatch = KEEL_ABSENT;
  keel_plan *version = NULL;
  uint64_t timed = 0;
  keel_status status = keel_declared_check(plan->ports, plan->main->input_count,
                                           inputs, &mismatch);
  if (status == KD_OK) status = check_apart(inputs, plan->main->input_count);
  if (status != KD_OK) return status;
  keel_profile_run(plan);
  if (mismatch != KEEL_ABSENT) {
    status = args->declared ? KD_FAILED_PRECONDITION
                            : keel_plan_dynamic(plan, &version);
    if (status == KD_FAILED_PRECONDITION)
      return keel_declared_fail(&plan->ports[mismatch], inputs[mismatch],
                                why_not(plan, args->declared));
    if (status != KD_OK) return status;
    keel_refs_take(&version->refs);
  } else if (plan->versions) {
    version = keel_versions_take(plan->versions, inputs, &timed);
  }
  *out_scope = (keel_run_scope){
      .plan = plan,
      .version = version,
      .mismatch = mismatch,
      .reads_weights = keel_weights_enter(version ? version : plan),
      .timed = timed,
      .main = version ? version->main : plan->main,
      .began = timed || keel_tracing() ? keel_now() : 0};
  const keel_device *device = plan->device;
  if (device && device->plugin->table.run_begin)
    device->plugin->table.run_begin(device->handle, (uint64_t)(uintptr_t)plan);
  return KD_OK;
}

keel_status keel_scope_explain(const keel_run_scope *scope,
                               keel_tensor *const *inputs, keel_status status) {
  const keel_plan *plan = scope->plan;
  return status == KD_OK
             ? status
             : keel_declared_explain(plan->ports, plan->main->input_count,
                                     inputs, scope->mismatch, status);
}

/* Flushes the stream: work that the plugin holds back would wait until its results are
 * read. */
static void flush_stream(keel_device *device) {
  if (!device || !device->stream || !device->plugin->streams.flush) return;
  if (!keel_lost_enter(device)) {
    pthread_mutex_lock(&device->stream_lock);
    /* a failure is reported by the work itself */
    device->plugin->streams.flush(device->stream);
    pthread_mutex_unlock(&device->stream_lock);
  }
  keel_lost_leave(device);
}

void keel_scope_leave(const keel_run_scope *scope, keel_status status,
                      bool here) {
  const keel_device *device = scope->plan->device;
  if (scope->began && here && keel_tracing())
    keel_trace_span("run", device ? device->name : NULL, scope->main->name,
                    scope->began);
  if (status == KD_OK) flush_stream(scope->plan->device);
  if (scope->reads_weights)
    keel_weights_leave(scope->version ? scope->version : scope->plan, status);
  keel_plan_release(scope->version);
}
