/* start.c - runs a plan, synchronously or with promises for its outputs. */
#include "base/refs.h"
#include "device/context.h"
#include "device/device.h"
#include "device/lost.h"
#include "plan/versions.h"
#include "plan/weights.h"
#include "run/begin.h"
#include "run/declared.h"
#include "threads/pool.h"
#include "trace/trace.h"

/* ---- what goes before and after ---------------------------------------------- */

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

/* Inputs that are waited for together. */
typedef struct coming {
  keel_tensor *const *inputs;
  uint32_t count;
  const keel_watch *watch; /* or NULL */
  bool partial;            /* else the first that has failed is enough */
} coming;

/* Whether nothing is to be waited for any longer. */
static bool have_come(void *context) {
  const coming *self = context;
  bool pending = false, failed = false;
  for (uint32_t i = 0; i < self->count; i++) {
    uint32_t state = keel_tensor_state(self->inputs[i]);
    pending |= state == KEEL_PENDING;
    failed |= state == KEEL_FAILED;
  }
  return !pending || (failed && !self->partial) ||
         (self->watch && keel_watch_is_over(self->watch));
}

/* Those that are pending then have failed: there is no more time. */
static void await_inputs(const keel_plan *plan, keel_tensor *const *inputs,
                         const keel_watch *watch, bool partial) {
  coming self = {inputs, plan->main->input_count, watch, partial};
  if (!have_come(&self))
    keel_pool_wait_until(plan->context->pool, have_come, &self,
                         watch ? watch->deadline : 0);
}

/* NULL if it is not a resource, or pending. */
static const struct keel_resource *resource_of(keel_tensor *input) {
  return keel_tensor_state(input) == KEEL_READY && input->kind == KEEL_RESOURCE
             ? input->resource
             : NULL;
}

/* Steps on different inputs do not wait for each other. */
static keel_status check_apart(keel_tensor *const *inputs, uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const struct keel_resource *resource = resource_of(inputs[i]);
    for (uint32_t k = 0; resource && k < i; k++)
      if (resource_of(inputs[k]) == resource)
        return keel_fail(KD_INVALID_ARGUMENT,
                         "inputs %u and %u are the same resource; pass each "
                         "resource to a run once",
                         (unsigned)k, (unsigned)i);
  }
  return KD_OK;
}

/* The scope of one run of a plan, between the plugin's run_begin and its final flush. */
typedef struct outing {
  keel_plan *plan, *version; /* version: NULL: the plan itself */
  /* the first input of another shape than declared, or KEEL_ABSENT */
  uint32_t odd;
  bool visits; /* keel_weights_enter returned true */
  keel_fplan *main;
  uint64_t began; /* start time for a trace; 0: none runs */
} outing;

static keel_status set_out(keel_plan *plan, keel_tensor *const *inputs,
                           const keel_watch *watch, outing *out) {
  uint32_t odd = KEEL_ABSENT;
  keel_plan *version = NULL;
  keel_status status =
      keel_declared_check(plan->ports, plan->main->input_count, inputs, &odd);
  if (status == KD_OK) status = check_apart(inputs, plan->main->input_count);
  if (status != KD_OK) return status;
  keel_profile_run(plan);
  if (odd != KEEL_ABSENT) {
    status = keel_plan_loosen(plan, watch, &version);
    if (status == KD_FAILED_PRECONDITION)
      return keel_declared_fail(
          &plan->ports[odd], inputs[odd],
          plan->program->device
              ? ", for which it is compiled"
              : "; another shape needs the program, which was released before"
                " this run");
    if (status != KD_OK) return status;
    keel_refs_take(&version->refs);
  } else if (plan->versions) {
    version = keel_versions_take(plan->versions, inputs, watch);
  }
  *out = (outing){.plan = plan,
                  .version = version,
                  .odd = odd,
                  .visits = keel_weights_enter(version ? version : plan),
                  .main = version ? version->main : plan->main,
                  .began = keel_tracing() ? keel_now() : 0};
  const keel_device *device = plan->device;
  if (device && device->plugin->table.run_begin)
    device->plugin->table.run_begin(device->handle, (uint64_t)(uintptr_t)plan);
  return KD_OK;
}

/* Adds to a failure what about the inputs may have caused it. */
static keel_status explain(const outing *out, keel_tensor *const *inputs,
                           keel_status status) {
  const keel_plan *plan = out->plan;
  return status == KD_OK
             ? status
             : keel_declared_explain(plan->ports, plan->main->input_count,
                                     inputs, out->odd, status);
}

/* Flushes the stream: work that the plugin holds back would wait until its results are
 * read. */
static void hand_over(keel_device *device) {
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
static void come_home(const outing *out, keel_status status, bool here) {
  const keel_device *device = out->plan->device;
  if (out->began && here)
    keel_trace_span("run", device ? device->name : NULL, out->main->name,
                    out->began);
  if (status == KD_OK) hand_over(out->plan->device);
  if (out->visits)
    keel_weights_leave(out->version ? out->version : out->plan, status);
  keel_plan_release(out->version);
}

static keel_status run_between(keel_plan *plan, keel_tensor *const *inputs,
                               keel_tensor **outputs, const keel_watch *watch,
                               bool partial) {
  outing out;
  keel_status status = set_out(plan, inputs, watch, &out);
  if (status != KD_OK) return status;
  const keel_run_args args = {.scope = plan->device,
                              .inputs = inputs,
                              .outputs = outputs,
                              .input_count = plan->main->input_count,
                              .output_count = plan->main->output_count,
                              .watch = watch,
                              .partial = partial};
  status = keel_fplan_run(out.main, &args);
  come_home(&out, status, true);
  return explain(&out, inputs, status);
}

/* ---- with somebody who waits --------------------------------------------------- */

static keel_status run_partly(keel_plan *plan, keel_tensor *const *inputs,
                              keel_tensor **outputs, const keel_watch *watch) {
  uint32_t n = plan->main->input_count;
  keel_tensor **known = calloc((size_t)n + 1, sizeof *known);
  if (!known) return keel_no_memory(n * sizeof *known);
  await_inputs(plan, inputs, watch, true);
  for (uint32_t i = 0; i < n; i++)
    known[i] = keel_tensor_state(inputs[i]) == KEEL_PENDING
                   ? keel_tensor_failed(plan->context,
                                        keel_watch_fail(watch, NULL, NULL))
                   : keel_tensor_retain(inputs[i]);
  keel_status rest = run_between(plan, known, outputs, watch, true);
  /* an input's failure is the run's only if an output depends on it */
  for (uint32_t i = 0; i < plan->main->output_count && rest == KD_OK; i++)
    rest = keel_tensor_query(outputs[i]);
  for (uint32_t i = 0; i < n; i++)
    keel_tensor_release(known[i]);
  free(known);
  return rest;
}

/* Whether all inputs are ready; the first failure counts more than the time. */
static keel_status check_ready(keel_tensor *const *inputs, uint32_t count,
                               const keel_watch *watch) {
  keel_status status = KD_OK;
  bool pending = false;
  for (uint32_t i = 0; i < count && status == KD_OK; i++) {
    pending |= keel_tensor_state(inputs[i]) == KEEL_PENDING;
    if (keel_tensor_state(inputs[i]) == KEEL_FAILED)
      status = keel_tensor_query(inputs[i]);
  }
  return status == KD_OK && pending ? keel_watch_fail(watch, NULL, NULL)
                                    : status;
}

static keel_status run_wholly(keel_plan *plan, keel_tensor *const *inputs,
                              keel_tensor **outputs, const keel_watch *watch) {
  await_inputs(plan, inputs, watch, false);
  keel_status status = check_ready(inputs, plan->main->input_count, watch);
  return status == KD_OK ? run_between(plan, inputs, outputs, watch, false)
                         : status;
}

keel_status keel_plan_run(keel_plan *plan, keel_tensor *const *inputs,
                          uint32_t input_count, keel_tensor **outputs,
                          uint32_t output_count) {
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  keel_status status = check_ports(plan, inputs, input_count, output_count);
  return status == KD_OK ? run_wholly(plan, inputs, outputs, NULL) : status;
}

/* Reads the parameters in full, and the cancellation. */
static keel_status read_params(const keel_run_params *given,
                               keel_run_params *all, keel_watch *watch) {
  *all = (keel_run_params){0};
  if (given)
    memcpy(all, given,
           given->struct_size < sizeof *all ? given->struct_size : sizeof *all);
  if (all->flags & ~KEEL_RUN_PARTIAL)
    return keel_fail(KD_INVALID_ARGUMENT, "a run has no flags 0x%x",
                     (unsigned)all->flags);
  *watch = keel_watch_of(all->stop, all->timeout);
  return KD_OK;
}

keel_status keel_plan_run_with(keel_plan *plan, const keel_run_params *params,
                               keel_tensor *const *inputs, uint32_t input_count,
                               keel_tensor **outputs, uint32_t output_count) {
  keel_run_params all;
  keel_watch watch;
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  KEEL_TRY(read_params(params, &all, &watch));
  KEEL_TRY(check_ports(plan, inputs, input_count, output_count));
  const keel_watch *watched = all.stop || all.timeout ? &watch : NULL;
  return all.flags & KEEL_RUN_PARTIAL
             ? run_partly(plan, inputs, outputs, watched)
             : run_wholly(plan, inputs, outputs, watched);
}

/* ---- with promises --------------------------------------------------------------- */

/* A cancellation hook of an asynchronous run. */
typedef struct over {
  keel_alarm alarm; /* must be first: cast from its task */
  keel_begun *begun;
} over;

struct keel_begun {
  keel_task task;   /* must be first: cast from keel_task */
  atomic_uint refs; /* held by the run and by each hook that is set or firing */
  over asked, late;
  keel_done done; /* of the main function's run */
  outing out;
  keel_plan *plan;
  keel_watch watch;
  keel_run_args args;    /* its inputs and outputs are the begun run's */
  keel_tensor **tensors; /* inputs, outputs, promises */
  keel_tensor **promises;
  /* By output: the promise is being or has been fulfilled. An exchange lets only one thread
   * fulfil it; the future publishes the value. */
  atomic_bool given[];
};

void keel_begun_give(keel_begun *begun, uint32_t output, keel_tensor *value) {
  /* relaxed: only decides who fulfils it; keel_tensor_resolve publishes the value */
  if (!atomic_exchange_explicit(&begun->given[output], true,
                                memory_order_relaxed))
    keel_tensor_become(begun->promises[output], value);
}

keel_status keel_begun_check(const keel_begun *begun, uint32_t input) {
  const keel_port *port = &begun->plan->ports[input];
  bool close = false;
  /* the plan was chosen already, so another shape can't be served */
  return keel_declared_is(port, begun->args.inputs[input], &close) ||
                 (close && begun->out.odd != KEEL_ABSENT)
             ? KD_OK
             : keel_declared_fail(port, begun->args.inputs[input], "");
}

void keel_begun_fail(keel_begun *begun, keel_tensor *failure) {
  for (uint32_t i = 0; i < begun->args.output_count; i++)
    keel_begun_give(begun, i, failure);
}

static void drop_begun(keel_begun *begun) {
  if (!keel_refs_drop(&begun->refs)) return;
  uint32_t count = begun->args.input_count + 2 * begun->args.output_count;
  for (uint32_t i = 0; begun->tensors && i < count; i++)
    keel_tensor_release(begun->tensors[i]);
  free(begun->tensors);
  keel_context *context = begun->plan->context;
  keel_plan_release(begun->plan);
  keel_stop_release(begun->watch.stop);
  free(begun);
  /* release: pairs with the acquire in keel_close */
  atomic_fetch_sub_explicit(&context->begun, 1, memory_order_release);
}

static void end_begun(keel_begun *begun, keel_status status) {
  for (uint32_t i = 0; i < begun->args.output_count; i++) {
    if (begun->args.outputs[i])
      keel_begun_give(begun, i, begun->args.outputs[i]);
    else if (!atomic_exchange_explicit(&begun->given[i], true,
                                       memory_order_relaxed))
      keel_tensor_become_failed(begun->promises[i], status);
  }
  if (begun->watch.stop &&
      keel_alarms_remove(&begun->watch.stop->alarms, &begun->asked.alarm))
    drop_begun(begun);
  if (begun->watch.deadline &&
      keel_timer_unset(keel_pool_timer(begun->plan->context->pool),
                       &begun->late.alarm))
    drop_begun(begun);
  drop_begun(begun);
}

/* ---- where it is over before it has ended ---- */

/* Fails the outputs that are still pending. The run ends before its next op, or when the
 * input that it waits for is ready. */
static void be_over(keel_task *task) {
  keel_begun *begun = ((over *)(void *)task)->begun;
  keel_status status = keel_watch_fail(&begun->watch, NULL, NULL);
  keel_tensor *failed = keel_tensor_failed(begun->plan->context, status);
  if (failed) keel_begun_fail(begun, failed);
  keel_tensor_release(failed);
  drop_begun(begun);
}

static keel_status set_alarm(keel_begun *begun, over *over, uint64_t when) {
  over->begun = begun;
  over->alarm.task.run = be_over;
  over->alarm.when = when;
  keel_refs_take(&begun->refs);
  if (!when) {
    keel_stop_listen(begun->watch.stop, &over->alarm);
    return KD_OK;
  }
  keel_timer *timer = keel_pool_timer(begun->plan->context->pool);
  keel_status status = keel_timer_set(timer, &over->alarm);
  /* not the last: the caller has one */
  if (status != KD_OK) keel_refs_drop(&begun->refs);
  return status;
}

static keel_status set_alarms(keel_begun *begun) {
  uint64_t deadline = begun->watch.deadline;
  if (deadline) KEEL_TRY(set_alarm(begun, &begun->late, deadline));
  return begun->watch.stop ? set_alarm(begun, &begun->asked, 0) : KD_OK;
}

static void begun_ended(keel_done *done, keel_status status) {
  keel_begun *begun =
      (keel_begun *)(void *)((char *)done - offsetof(keel_begun, done));
  come_home(&begun->out, status, false);
  end_begun(begun, explain(&begun->out, begun->args.inputs, status));
}

static void run_begun(keel_task *task) {
  keel_begun *begun = (keel_begun *)(void *)task;
  keel_status status =
      set_out(begun->plan, begun->args.inputs, begun->args.watch, &begun->out);
  if (status == KD_OK) {
    if (!keel_fplan_begin(begun->out.main, &begun->args, &status)) return;
    come_home(&begun->out, status, true);
    status = explain(&begun->out, begun->args.inputs, status);
  }
  end_begun(begun, status);
}

static keel_status make_promises(keel_begun *begun, keel_tensor **outputs) {
  for (uint32_t i = 0; i < begun->args.output_count; i++) {
    begun->promises[i] = keel_tensor_pending(begun->plan->context);
    if (!begun->promises[i]) return KD_OUT_OF_MEMORY;
  }
  for (uint32_t i = 0; i < begun->args.output_count; i++)
    outputs[i] = keel_tensor_retain(begun->promises[i]);
  return KD_OK;
}

/* Holds what it is given, and makes room for what it makes. */
static keel_status hold_tensors(keel_begun *begun, keel_tensor *const *inputs) {
  uint32_t n = begun->args.input_count, m = begun->args.output_count;
  begun->tensors = calloc((size_t)n + 2 * m + 1, sizeof(keel_tensor *));
  if (!begun->tensors) return keel_no_memory(n);
  for (uint32_t i = 0; i < n; i++)
    begun->tensors[i] = keel_tensor_retain(inputs[i]);
  begun->args.inputs = begun->tensors;
  begun->args.outputs = begun->tensors + n;
  begun->promises = begun->tensors + n + m;
  return KD_OK;
}

keel_status keel_plan_begin(keel_plan *plan, const keel_run_params *params,
                            keel_tensor *const *inputs, uint32_t input_count,
                            keel_tensor **outputs, uint32_t output_count) {
  keel_run_params all;
  keel_watch watch;
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  KEEL_TRY(read_params(params, &all, &watch));
  KEEL_TRY(check_ports(plan, inputs, input_count, output_count));
  keel_begun *begun =
      calloc(1, sizeof *begun + output_count * sizeof *begun->given);
  if (!begun) return keel_no_memory(sizeof *begun);
  keel_refs_take(&plan->refs);
  keel_refs_init(&begun->refs);
  begun->plan = plan;
  begun->task.run = run_begun;
  begun->done.call = begun_ended;
  begun->watch = watch;
  keel_stop_retain(watch.stop);
  atomic_fetch_add_explicit(&plan->context->begun, 1, memory_order_relaxed);
  begun->args =
      (keel_run_args){.scope = plan->device,
                      .input_count = input_count,
                      .output_count = output_count,
                      .watch = all.stop || all.timeout ? &begun->watch : NULL,
                      .partial = all.flags & KEEL_RUN_PARTIAL,
                      .begun = begun,
                      .done = &begun->done};
  keel_status status = hold_tensors(begun, inputs);
  if (status == KD_OK) status = make_promises(begun, outputs);
  if (status == KD_OK) status = set_alarms(begun);
  if (status == KD_OK) {
    keel_pool_submit(plan->context->pool, &begun->task);
    return KD_OK;
  }
  for (uint32_t i = 0; i < output_count; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  drop_begun(begun);
  return status;
}
