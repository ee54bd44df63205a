/* start.c - runs a plan, synchronously or with promises for its outputs. */
#include "base/params.h"
#include "base/refs.h"
#include "device/context.h"
#include "device/device.h"
#include "device/lost.h"
#include "plan/versions.h"
#include "plan/weights.h"
#include "run/async_run.h"
#include "run/declared.h"
#include "run/inputs.h"
#include "threads/pool.h"
#include "trace/trace.h"
#include "values/member.h"

/* ---- before and after a run -------------------------------------------------- */

static keel_status check_ports(const keel_plan *plan,
                               keel_tensor *const *inputs, uint32_t input_count,
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

/* Whether there is nothing left to wait for: for a run that is not partial, one failed input is
 * enough. */
static bool inputs_ready(void *context) {
  const keel_run_args *args = context;
  bool pending = false, failed = false;
  for (uint32_t i = 0; i < args->input_count; i++) {
    pending |= keel_tensor_state(args->inputs[i]) == KEEL_PENDING;
    failed |= keel_tensor_state(args->inputs[i]) == KEEL_FAILED;
  }
  return !pending || (failed && !args->partial) ||
         (args->cancellation && keel_cancellation_is_due(args->cancellation));
}

/* Inputs that are pending after it have failed: the time is over. */
static void await_inputs(const keel_plan *plan, keel_tensor *const *inputs,
                         const keel_cancellation *cancellation, bool partial) {
  keel_run_args args = {.inputs = inputs,
                        .input_count = plan->main->input_count,
                        .cancellation = cancellation,
                        .partial = partial};
  if (!inputs_ready(&args))
    keel_pool_wait_limited(plan->context->pool, inputs_ready, &args,
                           cancellation ? cancellation->deadline : 0,
                           cancellation != NULL);
}

static bool is_resource(keel_tensor *input) {
  return keel_tensor_state(input) == KEEL_READY && input->kind == KEEL_RESOURCE;
}

/* Steps on different inputs do not wait for each other. */
static keel_status check_apart(keel_tensor *const *inputs, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t k = 0; is_resource(inputs[i]) && k < i; k++)
      if (is_resource(inputs[k]) && inputs[k]->resource == inputs[i]->resource)
        return keel_fail(KD_INVALID_ARGUMENT,
                         "inputs %u and %u are the same resource; pass each "
                         "resource to a run once",
                         (unsigned)k, (unsigned)i);
  return KD_OK;
}

/* The scope of one run of a plan, between the plugin's run_begin and its final flush. */
typedef struct run_scope {
  keel_plan *plan, *version; /* version: NULL: the plan itself */
  /* the first input of another shape than declared, or KEEL_ABSENT */
  uint32_t mismatch;
  bool reads_weights; /* keel_weights_enter returned true */
  uint64_t timed;     /* for keel_versions_note: elements, or 0 */
  keel_executable *main;
  uint64_t began; /* start time for a trace; 0: none runs */
} run_scope;

static keel_status enter_run_scope(keel_plan *plan, keel_tensor *const *inputs,
                                   run_scope *out_scope) {
  uint32_t mismatch = KEEL_ABSENT;
  keel_plan *version = NULL;
  uint64_t timed = 0;
  keel_status status = keel_declared_check(plan->ports, plan->main->input_count,
                                           inputs, &mismatch);
  if (status == KD_OK) status = check_apart(inputs, plan->main->input_count);
  if (status != KD_OK) return status;
  keel_profile_run(plan);
  if (mismatch != KEEL_ABSENT) {
    status = keel_plan_dynamic(plan, &version);
    if (status == KD_FAILED_PRECONDITION)
      return keel_declared_fail(
          &plan->ports[mismatch], inputs[mismatch],
          plan->program->device
              ? ", for which it is compiled"
              : "; another shape needs the program, which was released before"
                " this run");
    if (status != KD_OK) return status;
    keel_refs_take(&version->refs);
  } else if (plan->versions) {
    version = keel_versions_take(plan->versions, inputs, &timed);
  }
  *out_scope =
      (run_scope){.plan = plan,
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

/* Adds to a failure the inputs that may have caused it. */
static keel_status explain(const run_scope *scope, keel_tensor *const *inputs,
                           keel_status status) {
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

/* here: called on the thread that entered the scope. */
static void leave_run_scope(const run_scope *scope, keel_status status,
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

/* An input of another shape than declared stays for the message, if the run fails. */
static void keep_for_message(const run_scope *scope, keel_run_args *args) {
  if (scope->mismatch != KEEL_ABSENT) args->held = NULL;
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
    if (args->inputs[i] && is_resource(args->inputs[i]))
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
  if (status != KD_OK) drop_outputs(args);
  if (status == KD_OK && first) status = keel_tensor_query(first);
  keel_tensor_release(first);
  return status;
}

/* Runs a plan whose inputs are known: ready, or failed where the run is partial. */
static keel_status run_in_scope(keel_plan *plan, keel_run_args args) {
  run_scope scope;
  const keel_cancellation *before = keel_cancellation_use(args.cancellation);
  keel_status status = enter_run_scope(plan, args.inputs, &scope);
  if (status == KD_OK) {
    keep_for_message(&scope, &args);
    status = keel_executable_run(scope.main, &args);
    if (status == KD_OK && !args.enqueues) status = await_work(plan, &args);
    if (status == KD_OK && scope.timed && !args.enqueues)
      keel_versions_note(plan->versions, scope.version, scope.timed,
                         keel_now() - scope.began);
    leave_run_scope(&scope, status, true);
    status = explain(&scope, args.inputs, status);
  } else if (status != KD_INVALID_ARGUMENT) {
    /* else the caller may repeat the run with the right inputs */
    keel_members_fail(args.inputs, args.input_count, status);
  }
  keel_cancellation_use(before);
  return status;
}

/* ---- synchronous runs ------------------------------------------------------------ */

/* Runs with what inputs there are: one that is still pending at the deadline has failed. */
static keel_status run_partial(keel_plan *plan, const keel_run_args *args) {
  uint32_t n = args->input_count;
  keel_run_args known = *args;
  keel_tensor **inputs = calloc((size_t)n + 1, sizeof *inputs);
  if (!inputs) return keel_no_memory(n * sizeof *inputs);
  await_inputs(plan, args->inputs, args->cancellation, true);
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
  await_inputs(plan, args->inputs, args->cancellation, false);
  keel_status status =
      check_ready(args->inputs, args->input_count, args->cancellation);
  return status == KD_OK ? run_in_scope(plan, *args) : status;
}

static keel_run_args args_of(const keel_plan *plan, keel_tensor *const *inputs,
                             keel_tensor **outputs) {
  return (keel_run_args){.scope = plan->device,
                         .inputs = inputs,
                         .outputs = outputs,
                         .input_count = plan->main->input_count,
                         .output_count = plan->main->output_count};
}

keel_status keel_plan_run(keel_plan *plan, keel_tensor *const *inputs,
                          uint32_t input_count, keel_tensor **outputs,
                          uint32_t output_count) {
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  KEEL_TRY(check_ports(plan, inputs, input_count, output_count));
  const keel_run_args args = args_of(plan, inputs, outputs);
  return run_ready(plan, &args);
}

/* Reads the parameters in full, and the cancellation. */
static keel_status start_read_params(const keel_run_params *given,
                                     keel_run_params *all,
                                     keel_cancellation *cancellation) {
  KEEL_TRY(KEEL_READ_PARAMS(keel_run_params, given,
                            offsetof(keel_run_params, cancel), all));
  KEEL_TRY(
      keel_params_flags("a run", all->flags,
                        KEEL_RUN_PARTIAL | KEEL_RUN_WHOLE | KEEL_RUN_ENQUEUES));
  *cancellation = keel_cancellation_of(all->cancel, all->timeout);
  return KD_OK;
}

static keel_status start_run(keel_plan *plan, const keel_run_args *args) {
  return args->partial ? run_partial(plan, args) : run_ready(plan, args);
}

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

keel_status keel_plan_run_with(keel_plan *plan, const keel_run_params *params,
                               keel_tensor *const *inputs, uint32_t input_count,
                               keel_tensor **outputs, uint32_t output_count) {
  keel_run_params all;
  keel_cancellation cancellation;
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  keel_status status = start_read_params(params, &all, &cancellation);
  if (status == KD_OK)
    status = check_ports(plan, inputs, input_count, output_count);
  if (status != KD_OK) {
    keel_inputs_drop(&all, inputs, input_count);
    return status;
  }
  keel_run_args args = args_of(plan, inputs, outputs);
  if (all.cancel || all.timeout) args.cancellation = &cancellation;
  args.partial = all.flags & KEEL_RUN_PARTIAL;
  args.enqueues = all.flags & KEEL_RUN_ENQUEUES;
  return all.donated_count ? run_donated(plan, &all, args)
                           : start_run(plan, &args);
}

/* ---- async runs ------------------------------------------------------------------ */

/* A cancellation hook of an asynchronous run. */
typedef struct run_hook {
  keel_cancel_hook hook; /* must be first: cast from it */
  keel_task task;        /* the rest where it is called */
  keel_async_run *async;
} run_hook;

/* Whether a promise is, or is being, fulfilled. */
enum { OPEN, FULFILLED, CANCELLED };

struct keel_async_run {
  keel_task task;     /* must be first: cast from keel_task */
  keel_waiter waiter; /* for an input without which nothing is to run */
  atomic_uint refs; /* held by the run and by each hook that is set or firing */
  run_hook on_cancel, on_deadline;
  keel_done done; /* of the main function's run */
  run_scope scope;
  keel_plan *plan;
  keel_cancellation cancellation;
  keel_run_args args;    /* its inputs and outputs are the begun run's */
  keel_tensor **tensors; /* inputs, outputs, promises */
  keel_tensor **promises;
  bool *donated;  /* by input; NULL: none is */
  bool needs_all; /* KEEL_RUN_WHOLE: nothing runs before all inputs are ready */
  /* By output; only one thread takes it from OPEN; the future publishes the value. */
  atomic_uchar fulfilled[];
};

/* Whether this thread is the one to fulfil it.
 * relaxed: only decides; the future publishes the value. */
static bool claims(keel_async_run *async, uint32_t output, unsigned char how) {
  unsigned char open = OPEN;
  return atomic_compare_exchange_strong_explicit(
      &async->fulfilled[output], &open, how, memory_order_relaxed,
      memory_order_relaxed);
}

void keel_async_run_fulfil(keel_async_run *async, uint32_t output,
                           keel_tensor *value) {
  if (claims(async, output, FULFILLED))
    keel_tensor_resolve(async->promises[output], value);
}

keel_status keel_async_run_check_input(const keel_async_run *async,
                                       uint32_t input, keel_tensor *tensor) {
  const keel_port *port = &async->plan->ports[input];
  keel_fit fit = keel_declared_fit(port, tensor);
  /* the plan was chosen already, so another shape can't be served */
  return fit == KEEL_FITS || (fit == KEEL_FITS_BUT_SHAPE &&
                              async->scope.mismatch != KEEL_ABSENT)
             ? KD_OK
             : keel_declared_fail(port, tensor, "");
}

void keel_async_run_fail(keel_async_run *async, keel_tensor *failure) {
  for (uint32_t i = 0; i < async->args.output_count; i++)
    keel_async_run_fulfil(async, i, failure);
}

static void release_async_run(keel_async_run *async) {
  if (!keel_refs_drop(&async->refs)) return;
  uint32_t count = async->args.input_count + 2 * async->args.output_count;
  for (uint32_t i = 0; async->tensors && i < count; i++)
    keel_tensor_release(async->tensors[i]);
  free(async->tensors);
  free(async->donated);
  keel_context *context = async->plan->context;
  keel_plan_release(async->plan);
  keel_cancel_release(async->cancellation.cancel);
  free(async);
  /* release: pairs with the acquire in keel_close */
  atomic_fetch_sub_explicit(&context->async_runs, 1, memory_order_release);
}

static void end_async_run(keel_async_run *async, keel_status status) {
  for (uint32_t i = 0; i < async->args.output_count; i++) {
    if (async->args.outputs[i])
      keel_async_run_fulfil(async, i, async->args.outputs[i]);
    else if (claims(async, i, FULFILLED))
      keel_tensor_resolve_failed(async->promises[i], status);
  }
  if (async->cancellation.cancel &&
      keel_cancel_hooks_remove(&async->cancellation.cancel->hooks,
                               &async->on_cancel.hook))
    release_async_run(async);
  if (async->cancellation.deadline &&
      keel_timer_unset(keel_pool_timer(async->plan->context->pool),
                       &async->on_deadline.hook))
    release_async_run(async);
  release_async_run(async);
}

/* ---- runs that are over before they have ended ---- */

/* Tells those that the outputs are for: callbacks, and runs that go on with them. */
static void tell_of_cancelled(keel_task *task) {
  keel_async_run *async =
      ((run_hook *)(void *)((char *)task - offsetof(run_hook, task)))->async;
  for (uint32_t i = 0; i < async->args.output_count; i++)
    if (atomic_load_explicit(&async->fulfilled[i], memory_order_relaxed) ==
            CANCELLED &&
        keel_tensor_state(async->promises[i]) != KEEL_PENDING)
      keel_tensor_tell(async->promises[i]);
  release_async_run(async);
}

/* Fails the outputs that are still pending. The run ends before its next op, or when the
 * input that it waits for is ready. No plugin is called here, and none is waited for: callbacks,
 * which may call one, follow on a thread outside of the pool, where kernels may hang. */
static void cancel_run(keel_cancel_hook *hook) {
  run_hook *self = (run_hook *)(void *)hook;
  keel_async_run *async = self->async;
  keel_status status = keel_cancellation_fail(&async->cancellation, NULL, NULL);
  for (uint32_t i = 0; i < async->args.output_count; i++)
    if (claims(async, i, CANCELLED))
      keel_tensor_announce_failed(async->promises[i], status);
  self->task.run = tell_of_cancelled;
  keel_pool_submit_apart(async->plan->context->pool, &self->task);
}

static keel_status add_hook(keel_async_run *async, run_hook *run_hook,
                            uint64_t when) {
  run_hook->async = async;
  run_hook->hook.fire = cancel_run;
  run_hook->hook.when = when;
  keel_refs_take(&async->refs);
  if (!when) {
    keel_cancel_subscribe(async->cancellation.cancel, &run_hook->hook);
    return KD_OK;
  }
  keel_timer *timer = keel_pool_timer(async->plan->context->pool);
  keel_status status = keel_timer_set(timer, &run_hook->hook);
  /* not the last: the caller has one */
  if (status != KD_OK) keel_refs_drop(&async->refs);
  return status;
}

static keel_status add_hooks(keel_async_run *async) {
  uint64_t deadline = async->cancellation.deadline;
  if (deadline) KEEL_TRY(add_hook(async, &async->on_deadline, deadline));
  return async->cancellation.cancel ? add_hook(async, &async->on_cancel, 0)
                                    : KD_OK;
}

static void async_run_ended(keel_done *done, keel_status status) {
  keel_async_run *async =
      (keel_async_run *)(void *)((char *)done - offsetof(keel_async_run, done));
  leave_run_scope(&async->scope, status, false);
  end_async_run(async, explain(&async->scope, async->args.inputs, status));
}

/* To be started again, on a thread that is not the input's. */
static void input_has_come(keel_waiter *waiter) {
  keel_async_run *async =
      (keel_async_run *)(void *)((char *)waiter -
                                 offsetof(keel_async_run, waiter));
  keel_pool_submit(async->plan->context->pool, &async->task);
}

/* Whether the run starts later, once an input has come. */
static bool starts_later(keel_async_run *async) {
  if (!async->needs_all || inputs_ready(&async->args)) return false;
  for (uint32_t i = 0; i < async->args.input_count; i++) {
    keel_tensor *input = async->args.inputs[i];
    if (keel_tensor_state(input) != KEEL_PENDING) continue;
    async->waiter = (keel_waiter){NULL, input_has_come};
    keel_tensor_then(input, &async->waiter);
    return true;
  }
  return false;
}

static void start_async_run(keel_task *task) {
  keel_async_run *async = (keel_async_run *)(void *)task;
  if (starts_later(async)) return;
  const keel_cancellation *before =
      keel_cancellation_use(async->args.cancellation);
  keel_status status =
      enter_run_scope(async->plan, async->args.inputs, &async->scope);
  keel_cancellation_use(before);
  if (status == KD_OK) {
    keep_for_message(&async->scope, &async->args);
    if (!keel_executable_begin(async->scope.main, &async->args, &status))
      return;
    leave_run_scope(&async->scope, status, true);
    status = explain(&async->scope, async->args.inputs, status);
  } else {
    keel_members_fail(async->args.inputs, async->args.input_count, status);
  }
  end_async_run(async, status);
}

static keel_status make_promises(keel_async_run *async, keel_tensor **outputs) {
  for (uint32_t i = 0; i < async->args.output_count; i++) {
    async->promises[i] = keel_tensor_pending(async->plan->context);
    if (!async->promises[i]) return KD_OUT_OF_MEMORY;
    async->promises[i]->future.limited = async->args.cancellation != NULL;
  }
  for (uint32_t i = 0; i < async->args.output_count; i++)
    outputs[i] = keel_tensor_retain(async->promises[i]);
  return KD_OK;
}

/* Retains its arguments, and allocates room for its outputs. */
static keel_status hold_tensors(keel_async_run *async,
                                const keel_run_params *params,
                                keel_tensor *const *inputs) {
  uint32_t n = async->args.input_count, m = async->args.output_count;
  bool donates = params->donated_count != 0;
  async->tensors = calloc((size_t)n + 2 * m + 1, sizeof(keel_tensor *));
  if (donates) async->donated = calloc((size_t)n + 1, sizeof(bool));
  if (!async->tensors || (donates && !async->donated)) {
    keel_inputs_drop(params, inputs, n);
    return keel_no_memory(n);
  }
  KEEL_TRY(keel_inputs_take(params, inputs, n, async->tensors, async->donated));
  async->args.inputs = async->tensors;
  async->args.outputs = async->tensors + n;
  async->args.held = donates ? async->tensors : NULL;
  async->args.donated = async->donated;
  async->promises = async->tensors + n + m;
  return KD_OK;
}

static keel_async_run *make_async_run(keel_plan *plan,
                                      const keel_run_params *params,
                                      const keel_cancellation *cancellation) {
  uint32_t m = plan->main->output_count;
  keel_async_run *async =
      calloc(1, sizeof *async + m * sizeof *async->fulfilled);
  if (!async) return NULL;
  keel_refs_take(&plan->refs);
  keel_refs_init(&async->refs);
  async->plan = plan;
  async->task.run = start_async_run;
  async->done.call = async_run_ended;
  async->cancellation = *cancellation;
  keel_cancel_retain(cancellation->cancel);
  atomic_fetch_add_explicit(&plan->context->async_runs, 1,
                            memory_order_relaxed);
  async->args = args_of(plan, NULL, NULL);
  if (params->cancel || params->timeout)
    async->args.cancellation = &async->cancellation;
  async->args.partial = params->flags & KEEL_RUN_PARTIAL;
  async->needs_all = params->flags & KEEL_RUN_WHOLE;
  async->args.async = async;
  async->args.done = &async->done;
  return async;
}

keel_status keel_plan_begin(keel_plan *plan, const keel_run_params *params,
                            keel_tensor *const *inputs, uint32_t input_count,
                            keel_tensor **outputs, uint32_t output_count) {
  keel_run_params all;
  keel_cancellation cancellation;
  keel_async_run *async = NULL;
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  keel_status status = start_read_params(params, &all, &cancellation);
  if (status == KD_OK)
    status = check_ports(plan, inputs, input_count, output_count);
  if (status == KD_OK) {
    async = make_async_run(plan, &all, &cancellation);
    if (!async) status = keel_no_memory(sizeof *async);
  }
  if (status != KD_OK) {
    keel_inputs_drop(&all, inputs, input_count);
    return status;
  }
  status = hold_tensors(async, &all, inputs);
  if (status == KD_OK) status = make_promises(async, outputs);
  if (status == KD_OK) status = add_hooks(async);
  if (status == KD_OK) {
    keel_pool_submit(plan->context->pool, &async->task);
    return KD_OK;
  }
  for (uint32_t i = 0; i < output_count; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  release_async_run(async);
  return status;
}
