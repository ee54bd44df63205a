/* async_run.c - begun runs: promises for their outputs, and their early ends. */
#include "run/async_run.h"

#include "base/refs.h"
#include "device/context.h"
#include "run/declared.h"
#include "run/inputs.h"
#include "run/scope.h"
#include "threads/pool.h"
#include "values/member.h"

/* ---- a call when all outputs are written ---------------------------------------------- */

typedef struct run_end {
  keel_context *context;
  void (*done)(void *done_context, keel_status status);
  void *done_context;
  atomic_uint left;             /* outputs, and the run */
  _Atomic(keel_tensor *) first; /* the failure that came first, or NULL */
  atomic_bool no_memory; /* for a failure; relaxed, as `left` orders it */
  bool silent;           /* the run does not begin */
} run_end;

static keel_status run_end_status(run_end *end, keel_tensor *first) {
  if (first) return keel_tensor_query(first);
  return atomic_load_explicit(&end->no_memory, memory_order_relaxed)
             ? keel_no_memory(sizeof *first)
             : KD_OK;
}

static void run_end_let_go(run_end *end) {
  /* acq_rel: the last one sees the failure that another has stored */
  if (atomic_fetch_sub_explicit(&end->left, 1, memory_order_acq_rel) != 1)
    return;
  keel_context *context = end->context;
  keel_tensor *first = atomic_load_explicit(&end->first, memory_order_relaxed);
  if (!end->silent) {
    keel_clear_error();
    end->done(end->done_context, run_end_status(end, first));
  }
  keel_tensor_release(first);
  free(end);
  /* release: pairs with the acquire in keel_close */
  atomic_fetch_sub_explicit(&context->async_runs, 1, memory_order_release);
}

static void run_end_written(void *context, keel_status status) {
  run_end *end = context;
  keel_tensor *none = NULL;
  keel_tensor *failed =
      status == KD_OK ? NULL : keel_tensor_failed(end->context, status);
  if (status != KD_OK && !failed)
    atomic_store_explicit(&end->no_memory, true, memory_order_relaxed);
  /* release: publishes its content to the last one */
  if (failed && !atomic_compare_exchange_strong_explicit(
                    &end->first, &none, failed, memory_order_release,
                    memory_order_relaxed))
    keel_tensor_release(failed);
  run_end_let_go(end);
}

/* ---- a run --------------------------------------------------------------------------- */

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
  run_hook on_cancel, on_deadline, on_yes;
  keel_question question; /* should_end; on_yes is its hook */
  _Atomic(run_end *) end; /* exchanged by the one to let it go; NULL: none */
  keel_done done;         /* of the main function's run */
  keel_run_scope scope;
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

/* Once all outputs are or will be known, and should_end is asked no more. */
static void let_end_go(keel_async_run *async) {
  run_end *end =
      atomic_exchange_explicit(&async->end, NULL, memory_order_acq_rel);
  if (end) run_end_let_go(end);
}

/* The reference of a hook that is not called any more. The run's own is left. */
static void drop_hook(keel_async_run *async) {
  bool last = keel_refs_drop(&async->refs);
  assert(!last);
  (void)last;
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
    drop_hook(async);
  if (async->cancellation.deadline &&
      keel_timer_unset(keel_pool_timer(async->plan->context->pool),
                       &async->on_deadline.hook))
    drop_hook(async);
  if (async->cancellation.question) {
    keel_question_end(&async->question);
    if (!atomic_load_explicit(&async->question.ends, memory_order_acquire))
      drop_hook(async);
  }
  let_end_go(async);
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
  let_end_go(async);
  release_async_run(async);
}

/* Fails the outputs that are still pending. The run ends before its next op, or when the
 * input that it waits for is ready. No plugin is called here, and none is waited for: callbacks,
 * which may call one, follow on a thread outside of the pool, where kernels may hang. */
static void cancel_run(keel_cancel_hook *hook) {
  run_hook *self = (run_hook *)(void *)hook;
  keel_async_run *async = self->async;
  keel_status status = keel_cancellation_fail(&async->cancellation, NULL, NULL);
  if (async->cancellation.question && self != &async->on_yes)
    keel_question_end(&async->question);
  for (uint32_t i = 0; i < async->args.output_count; i++)
    if (claims(async, i, CANCELLED))
      keel_tensor_announce_failed(async->promises[i], status);
  self->task.run = tell_of_cancelled;
  keel_pool_submit_apart(async->plan->context->pool, &self->task);
}

static void cancel_as_asked(keel_question *question) {
  keel_async_run *async =
      (keel_async_run *)(void *)((char *)question -
                                 offsetof(keel_async_run, question));
  cancel_run(&async->on_yes.hook);
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

static keel_status add_question(keel_async_run *async,
                                const keel_run_params *params) {
  async->on_yes.async = async;
  async->cancellation.question = &async->question;
  keel_refs_take(&async->refs);
  keel_status status = keel_question_begin(
      &async->question, async->plan->context->pool, params->should_end,
      params->should_end_context, cancel_as_asked);
  if (status == KD_OK) return KD_OK;
  async->cancellation.question = NULL;
  keel_refs_drop(&async->refs); /* not the last: the caller has one */
  return status;
}

/* If it fails, none is set: only the timer's first hook can fail. */
static keel_status add_hooks(keel_async_run *async,
                             const keel_run_params *params) {
  uint64_t deadline = async->cancellation.deadline;
  if (params->should_end) KEEL_TRY(add_question(async, params));
  if (deadline) KEEL_TRY(add_hook(async, &async->on_deadline, deadline));
  return async->cancellation.cancel ? add_hook(async, &async->on_cancel, 0)
                                    : KD_OK;
}

/* ---- the run itself ------------------------------------------------------------------ */

static void async_run_ended(keel_done *done, keel_status status) {
  keel_async_run *async =
      (keel_async_run *)(void *)((char *)done - offsetof(keel_async_run, done));
  keel_scope_leave(&async->scope, status, false);
  end_async_run(async,
                keel_scope_explain(&async->scope, async->args.inputs, status));
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
  if (!async->needs_all || keel_scope_inputs_known(&async->args)) return false;
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
      keel_scope_enter(async->plan, &async->args, &async->scope);
  keel_cancellation_use(before);
  if (status == KD_OK) {
    keel_scope_keep_for_message(&async->scope, &async->args);
    if (!keel_executable_begin(async->scope.main, &async->args, &status))
      return;
    keel_scope_leave(&async->scope, status, true);
    status = keel_scope_explain(&async->scope, async->args.inputs, status);
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

static void drop_promises(const keel_async_run *async, keel_tensor **outputs) {
  for (uint32_t i = 0; i < async->args.output_count; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
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

/* The run lets go of it, also if it does not begin. NULL: out of memory. */
static run_end *run_end_watch(const keel_run_params *params,
                              const keel_async_run *async) {
  run_end *end = calloc(1, sizeof *end);
  keel_context *context = async->plan->context;
  if (!end) return NULL;
  *end = (run_end){.context = context,
                   .done = params->done,
                   .done_context = params->done_context};
  atomic_init(&end->left, 1);
  atomic_fetch_add_explicit(&context->async_runs, 1, memory_order_relaxed);
  for (uint32_t i = 0; i < async->args.output_count && !end->silent; i++) {
    /* relaxed: the run's own is still there */
    atomic_fetch_add_explicit(&end->left, 1, memory_order_relaxed);
    end->silent = keel_tensor_on_written(async->promises[i], run_end_written,
                                         end) != KD_OK;
    if (end->silent)
      atomic_fetch_sub_explicit(&end->left, 1, memory_order_relaxed);
  }
  return end;
}

/* Hooks, and the watch of its outputs. If it fails, no `done` is called. */
static keel_status add_ends(keel_async_run *async,
                            const keel_run_params *params) {
  run_end *end = params->done ? run_end_watch(params, async) : NULL;
  atomic_init(&async->end, end);
  keel_status status = params->done && (!end || end->silent)
                           ? keel_no_memory(sizeof *end)
                           : add_hooks(async, params);
  if (end && status != KD_OK) end->silent = true;
  return status;
}

static keel_async_run *make_async_run(keel_plan *plan,
                                      const keel_run_params *params) {
  uint32_t m = plan->main->output_count;
  keel_async_run *async =
      calloc(1, sizeof *async + m * sizeof *async->fulfilled);
  if (!async) return NULL;
  keel_refs_take(&plan->refs);
  keel_refs_init(&async->refs);
  async->plan = plan;
  async->task.run = start_async_run;
  async->done.call = async_run_ended;
  async->cancellation = keel_cancellation_of(params->cancel, params->timeout);
  keel_cancel_retain(params->cancel);
  atomic_fetch_add_explicit(&plan->context->async_runs, 1,
                            memory_order_relaxed);
  async->args = keel_scope_args(plan, params, NULL, NULL);
  if (params->cancel || params->timeout || params->should_end)
    async->args.cancellation = &async->cancellation;
  async->needs_all = params->flags & KEEL_RUN_WHOLE;
  async->args.async = async;
  async->args.done = &async->done;
  return async;
}

keel_status keel_plan_begin(keel_plan *plan, const keel_run_params *params,
                            keel_tensor *const *inputs, uint32_t input_count,
                            keel_tensor **outputs, uint32_t output_count) {
  keel_run_params all;
  keel_async_run *async = NULL;
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  keel_status status = keel_scope_read_params(params, &all);
  if (status == KD_OK)
    status = keel_scope_check_ports(plan, inputs, input_count, output_count);
  if (status == KD_OK && all.into_count)
    status = keel_fail(KD_INVALID_ARGUMENT,
                       "`into` is for keel_plan_run_with: a begun run would"
                       " write when the caller does not expect it");
  if (status == KD_OK) {
    async = make_async_run(plan, &all);
    if (!async) status = keel_no_memory(sizeof *async);
  }
  if (status != KD_OK) {
    keel_inputs_drop(&all, inputs, input_count);
    return status;
  }
  status = hold_tensors(async, &all, inputs);
  if (status == KD_OK) status = make_promises(async, outputs);
  if (status != KD_OK) {
    drop_promises(async, outputs);
    release_async_run(async);
    return status;
  }
  status = add_ends(async, &all);
  if (status == KD_OK) {
    keel_pool_submit(plan->context->pool, &async->task);
  } else {
    drop_promises(async, outputs);
    end_async_run(async, status);
  }
  return status;
}
