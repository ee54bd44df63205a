/* start.c - runs a plan, and waits for it. */
#include "device/context.h"
#include "device/device.h"
#include "plan/versions.h"
#include "run/inputs.h"
#include "run/into.h"
#include "run/scope.h"
#include "threads/pool.h"
#include "values/member.h"

/* ---- one run ------------------------------------------------------------------- */

/* Inputs that are pending after it have failed: the time is over. */
static void await_inputs(const keel_plan *plan, const keel_run_args *args) {
  const keel_cancellation *cancellation = args->cancellation;
  if (!keel_scope_inputs_known((void *)(uintptr_t)args))
    keel_pool_wait_limited(
        plan->context->pool, keel_scope_inputs_known, (void *)(uintptr_t)args,
        cancellation ? cancellation->deadline : 0, cancellation != NULL);
}

static void drop_outputs(const keel_run_args *args) {
  for (uint32_t i = 0; i < args->output_count; i++) {
    keel_tensor_release(args->outputs[i]);
    args->outputs[i] = NULL;
  }
}

/* Waits for the devices that have put something into resources. */
static keel_status await_resources(const keel_run_args *args) {
  for (uint32_t i = 0; i < args->input_count; i++)
    if (args->inputs[i] && keel_input_is_resource(args->inputs[i]))
      KEEL_TRY(keel_tensor_wait(args->inputs[i]));
  return KD_OK;
}

/* Waits for the devices that write outputs. Of a partial run an output whose work has failed
 * becomes a failed value, and is not a failure here. */
static keel_status await_outputs(const keel_plan *plan,
                                 const keel_run_args *args) {
  for (uint32_t i = 0; i < args->output_count; i++) {
    keel_tensor *output = args->outputs[i];
    if (keel_tensor_state(output) == KEEL_FAILED) continue;
    keel_status status = keel_tensor_wait(output);
    if (status == KD_OK) continue;
    if (!args->partial) return status;
    keel_tensor *failed = keel_tensor_failed(plan->context, status);
    if (!failed) return KD_OUT_OF_MEMORY;
    args->outputs[i] = failed;
    keel_tensor_release(output);
  }
  return KD_OK;
}

/* Waits for the devices that have the work. The first failure counts, with its message. */
static keel_status await_work(const keel_plan *plan,
                              const keel_run_args *args) {
  keel_tensor *first = NULL;
  keel_status status = await_resources(args);
  if (status != KD_OK && args->partial) {
    first = keel_tensor_failed(plan->context, status);
    status = first ? KD_OK : KD_OUT_OF_MEMORY;
  }
  if (status == KD_OK) status = await_outputs(plan, args);
  if (status == KD_OK) status = keel_into_finish(plan->context, args);
  if (status != KD_OK) drop_outputs(args);
  if (status == KD_OK && first) status = keel_tensor_query(first);
  keel_tensor_release(first);
  return status;
}

/* Runs a plan whose inputs are known: ready, or failed where the run is partial. */
static keel_status run_in_scope(keel_plan *plan, keel_run_args args) {
  keel_run_scope scope;
  const keel_cancellation *before = keel_cancellation_use(args.cancellation);
  keel_status status = keel_scope_enter(plan, &args, &scope);
  if (status == KD_OK) {
    keel_scope_keep_for_message(&scope, &args);
    keel_pool_begin_run(plan->context->pool);
    status = keel_executable_run(scope.main, &args);
    keel_pool_end_run(plan->context->pool);
    if (status == KD_OK && !args.enqueues) status = await_work(plan, &args);
    if (status == KD_OK && scope.timed && !args.enqueues)
      keel_versions_note(plan->versions, scope.version, scope.timed,
                         keel_now() - scope.began);
    keel_scope_leave(&scope, status, true);
    status = keel_scope_explain(&scope, args.inputs, status);
  } else if (status != KD_INVALID_ARGUMENT) {
    /* else the caller may repeat the run with the right inputs */
    keel_members_fail(args.inputs, args.input_count, status);
  }
  keel_cancellation_use(before);
  return status;
}

/* ---- inputs that are pending ---------------------------------------------------- */

/* Runs with what inputs there are: one that is still pending at the deadline has failed. */
static keel_status run_partial(keel_plan *plan, const keel_run_args *args) {
  uint32_t n = args->input_count;
  keel_run_args known = *args;
  keel_tensor **inputs = calloc((size_t)n + 1, sizeof *inputs);
  if (!inputs) return keel_no_memory(n * sizeof *inputs);
  await_inputs(plan, args);
  for (uint32_t i = 0; i < n; i++) {
    if (keel_tensor_state(args->inputs[i]) == KEEL_PENDING)
      inputs[i] = keel_tensor_failed(
          plan->context,
          keel_cancellation_fail(args->cancellation, NULL, NULL));
    else if (args->held)
      keel_inputs_pass(args->held, i, &inputs[i]);
    else
      inputs[i] = keel_tensor_retain(args->inputs[i]);
  }
  known.inputs = inputs;
  if (args->held) known.held = inputs;
  keel_status rest = run_in_scope(plan, known);
  /* an input's failure is the run's only if an output depends on it */
  for (uint32_t i = 0; i < args->output_count && rest == KD_OK; i++)
    rest = keel_tensor_query(args->outputs[i]);
  keel_inputs_release(inputs, n);
  free(inputs);
  return rest;
}

/* Whether all inputs are ready; the first failure counts more than the time. */
static keel_status check_ready(keel_tensor *const *inputs, uint32_t count,
                               const keel_cancellation *cancellation) {
  keel_status status = KD_OK;
  bool pending = false;
  for (uint32_t i = 0; i < count && status == KD_OK; i++) {
    pending |= keel_tensor_state(inputs[i]) == KEEL_PENDING;
    if (keel_tensor_state(inputs[i]) == KEEL_FAILED)
      status = keel_tensor_query(inputs[i]);
  }
  return status == KD_OK && pending
             ? keel_cancellation_fail(cancellation, NULL, NULL)
             : status;
}

/* Runs if all inputs become ready. */
static keel_status run_ready(keel_plan *plan, const keel_run_args *args) {
  await_inputs(plan, args);
  keel_status status =
      check_ready(args->inputs, args->input_count, args->cancellation);
  return status == KD_OK ? run_in_scope(plan, *args) : status;
}

keel_status keel_plan_run(keel_plan *plan, keel_tensor *const *inputs,
                          uint32_t input_count, keel_tensor **outputs,
                          uint32_t output_count) {
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  KEEL_TRY(keel_scope_check_ports(plan, inputs, input_count, output_count));
  const keel_run_args args =
      keel_scope_args(plan, &(keel_run_params){0}, inputs, outputs);
  return run_ready(plan, &args);
}

static keel_status start_run(keel_plan *plan, const keel_run_args *args) {
  return args->partial ? run_partial(plan, args) : run_ready(plan, args);
}

/* ---- with parameters -------------------------------------------------------------- */

/* Runs with inputs some of which are donated: holds all, and passes those on. */
static keel_status run_donated(keel_plan *plan, const keel_run_params *params,
                               keel_run_args args) {
  size_t n = args.input_count;
  keel_tensor **held = calloc(n + 1, sizeof *held);
  bool *donated = calloc(n + 1, sizeof *donated);
  keel_status status = held && donated ? KD_OK : keel_no_memory(n);
  if (status == KD_OK)
    status =
        keel_inputs_take(params, args.inputs, args.input_count, held, donated);
  else
    keel_inputs_drop(params, args.inputs, args.input_count);
  if (status == KD_OK) {
    args.inputs = args.held = held;
    args.donated = donated;
    status = start_run(plan, &args);
    keel_inputs_release(held, args.input_count);
  }
  free(held);
  free(donated);
  return status;
}

static keel_status run_with(keel_plan *plan, const keel_run_params *params,
                            const keel_run_args *args) {
  return params->donated_count ? run_donated(plan, params, *args)
                               : start_run(plan, args);
}

/* Refuses parameters that are for begun runs alone, or not for this one. */
static keel_status check_waited(const keel_run_params *params,
                                uint32_t output_count) {
  if (params->done)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "`done` is for keel_plan_begin: "
                     "keel_plan_run_with returns the status");
  if (params->into_count > output_count ||
      (params->into_count && !params->into))
    return keel_fail(KD_INVALID_ARGUMENT,
                     params->into ? "memory is given for %u outputs, and there"
                                    " are %u"
                                  : "memory for %u of %u outputs is NULL",
                     (unsigned)params->into_count, (unsigned)output_count);
  if (params->into_count && params->flags & KEEL_RUN_ENQUEUES)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "`into` is for runs that are waited for, without"
                     " KEEL_RUN_ENQUEUES");
  return KD_OK;
}

keel_status keel_plan_run_with(keel_plan *plan, const keel_run_params *params,
                               keel_tensor *const *inputs, uint32_t input_count,
                               keel_tensor **outputs, uint32_t output_count) {
  keel_run_params all;
  keel_question question;
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  keel_status status = keel_scope_read_params(params, &all);
  if (status == KD_OK) status = check_waited(&all, output_count);
  if (status == KD_OK)
    status = keel_scope_check_ports(plan, inputs, input_count, output_count);
  if (status == KD_OK && all.should_end)
    status = keel_question_begin(&question, plan->context->pool, all.should_end,
                                 all.should_end_context, NULL);
  if (status != KD_OK) {
    keel_inputs_drop(&all, inputs, input_count);
    return status;
  }
  keel_run_args args = keel_scope_args(plan, &all, inputs, outputs);
  keel_cancellation cancellation =
      keel_cancellation_of(all.cancel, all.timeout);
  if (all.should_end) cancellation.question = &question;
  if (all.cancel || all.timeout || all.should_end)
    args.cancellation = &cancellation;
  status = keel_into_check(&args);
  if (status == KD_OK)
    status = run_with(plan, &all, &args);
  else
    keel_inputs_drop(&all, inputs, input_count);
  if (all.should_end) keel_question_end(&question);
  return status;
}
