/* step.c - one step of a run: the check before it, its call, and its results. */
#include "base/refs.h"
#include "memory/late.h"
#include "ops/runtime.h"
#include "run/control.h"
#include "run/run.h"
#include "trace/trace.h"
#include "values/member.h"

/* An op with nested functions. */
typedef struct nested {
  keel_done done; /* must be first: cast from keel_done */
  keel_run *run;
  uint32_t step;
  uint64_t begin;
  keel_tensor
      *values[]; /* inputs, then outputs; then by input, if it is donated */
} nested;

/* ---- before and after ------------------------------------------------------- */

/* Whether the outputs fail before the run has ended. With members they do not: the next run of
 * one could take part in an exchange that this run's steps have not lost yet. */
static bool fails_early(const keel_run *run) {
  return run->async && !run->args.partial && !run->has_members;
}

void keel_run_fail(keel_run *run, keel_status status) {
  keel_tensor *failed =
      keel_tensor_failed(run->executable->plan->context, status);
  keel_tensor *none = NULL;
  if (!failed) return;
  keel_tensor_retain(failed); /* beside the run's */
  if (!atomic_compare_exchange_strong(&run->failure, &none, failed))
    keel_tensor_release(failed);
  if (fails_early(run)) keel_async_run_fail(run->async, failed);
  keel_tensor_release(failed);
}

/* Counts one read of a value; the last one releases it. */
static void drop_use(keel_run *run, uint32_t value) {
  if (!keel_refs_drop(&run->uses[value])) return;
  if (run->executable->constants[value]) return;
  keel_tensor_release(run->values[value]);
  run->values[value] = NULL;
}

static uint32_t donations(const keel_run *run, const keel_step *step) {
  uint32_t donated = 0;
  for (uint32_t i = 0; i < step->input_count && i < 32; i++) {
    uint32_t value = step->inputs[i];
    if (value != KEEL_ABSENT && !run->executable->constants[value] &&
        keel_refs_unique(&run->uses[value]))
      donated |= UINT32_C(1) << i;
  }
  return donated;
}

static void note_types(keel_step *step, keel_tensor *const *inputs) {
  size_t at = 0;
  char text[64];
  if (step->types[0]) return;
  for (uint32_t i = 0; i < step->input_count && at < sizeof step->types; i++)
    if (inputs[i]) {
      int size = snprintf(step->types + at, sizeof step->types - at, "%s%s",
                          at ? " " : "",
                          keel_tensor_text(inputs[i], text, sizeof text));
      at += size > 0 ? (size_t)size : 0;
    }
}

void keel_run_note_time(keel_step *step, uint64_t begin) {
  uint64_t time = keel_now() - begin;
  atomic_fetch_add_explicit(&step->time, time, memory_order_relaxed);
  if (step->copies)
    __atomic_fetch_add(&step->copy_time, time, __ATOMIC_RELAXED);
}

/* Calls the op as keel_call would, using nothing of the plan but the device. */
static keel_status call_eagerly(const keel_run *run, const keel_step *step,
                                keel_tensor *const *inputs,
                                keel_tensor **outputs) {
  const keel_opdef *op = step->site.op;
  const keel_schema *schema = op->schema;
  char name[200];
  bool plain = !strcmp(schema->domain, "ai.onnx");
  snprintf(name, sizeof name, "%s%s%s", plain ? "" : schema->domain,
           plain ? "" : "::", schema->name);
  keel_attr *attrs = calloc((size_t)op->attr_count + 1, sizeof *attrs);
  if (!attrs) return keel_no_memory(op->attr_count * sizeof *attrs);
  for (uint32_t i = 0; i < op->attr_count; i++)
    attrs[i] = op->attrs[i].value;
  keel_status status =
      keel_device_push(step->site.pinned ? step->site.pinned : run->args.scope);
  if (status == KD_OK) {
    status = keel_call(op->context, name, attrs, op->attr_count, inputs,
                       step->input_count, outputs, step->output_count);
    keel_device_pop();
  }
  free(attrs);
  return status == KD_OK || !*step->site.where
             ? status
             : keel_while(status, "in node \"%s\"", step->site.where);
}

static void step_gather(const keel_run *run, const keel_step *step,
                        keel_tensor **inputs) {
  for (uint32_t i = 0; i < step->input_count; i++)
    inputs[i] =
        step->inputs[i] == KEEL_ABSENT ? NULL : run->values[step->inputs[i]];
}

/* A view of a constant in device memory has the memory of the copy, which is made now. */
static keel_status bring_late(const keel_step *step, keel_tensor **inputs) {
  if (!keel_schema_hosted(step->site.op->schema)) return KD_OK;
  for (uint32_t i = 0; i < step->input_count; i++)
    if (inputs[i] && inputs[i]->late) {
      const keel_type *type = inputs[i]->type;
      keel_status status = keel_late_get(inputs[i], &inputs[i]);
      char text[200];
      if (status != KD_OK)
        return keel_while(status, "for input %u, %s, of %s", (unsigned)i,
                          keel_type_text(type, text, sizeof text),
                          step->site.op->schema->name);
    }
  return KD_OK;
}

static void note_call(keel_step *step, uint64_t begin,
                      keel_tensor *const *inputs) {
  keel_run_note_time(step, begin);
  if (atomic_fetch_add_explicit(&step->calls, 1, memory_order_relaxed) == 0)
    note_types(step, inputs);
}

static keel_status call_step(keel_run *run, keel_step *step,
                             keel_tensor **inputs, keel_tensor **outputs) {
  step_gather(run, step, inputs);
  KEEL_TRY(bring_late(step, inputs));
  bool beside = run->profile && run->executable->pends;
  uint64_t begin = run->profile ? keel_now() : 0;
  const keel_cancellation *before =
      keel_cancellation_use(run->args.cancellation);
  if (beside) keel_profile_step(run->executable->plan, true);
  keel_status status =
      run->executable->plan->eager
          ? call_eagerly(run, step, inputs, outputs)
          : keel_call_site_run(&step->site, run->args.scope, inputs,
                               step->input_count, outputs, step->output_count,
                               donations(run, step));
  if (beside) keel_profile_step(run->executable->plan, false);
  keel_cancellation_use(before);
  if (run->profile) note_call(step, begin, inputs);
  return status;
}

keel_status keel_run_check(const keel_run *run, uint32_t index) {
  if (!run->args.cancellation ||
      !keel_cancellation_is_due(run->args.cancellation))
    return KD_OK;
  const keel_call_site *site = &run->executable->steps[index].site;
  return keel_cancellation_fail(run->args.cancellation, site->where,
                                site->op->schema->name);
}

/* Whether a partial run goes on within a step's function, as if its steps were the run's. */
static bool opens(const keel_run *run, const keel_step *step) {
  return run->args.partial && step->mark == KEEL_ABSENT &&
         step->site.op->schema->kind == KEEL_CALL;
}

/* The first failed input, or failed earlier change of a resource; or NULL. */
static keel_tensor *failed_input(const keel_run *run, const keel_step *step) {
  for (uint32_t i = 0; !opens(run, step) && i < step->input_count; i++) {
    keel_tensor *value =
        step->inputs[i] == KEEL_ABSENT ? NULL : run->values[step->inputs[i]];
    if (value && keel_tensor_state(value) == KEEL_FAILED) return value;
  }
  for (uint32_t i = 0; i < step->mark_input_count; i++)
    if (run->values[step->mark_inputs[i]])
      return run->values[step->mark_inputs[i]];
  return NULL;
}

/* For a partial run: makes the outputs that depend on a failure failed values. */
static void fail_outputs(const keel_run *run, const keel_step *step,
                         keel_tensor *failed, keel_status status,
                         keel_tensor **outputs) {
  for (uint32_t i = 0; i < step->output_count; i++)
    outputs[i] =
        failed ? keel_tensor_retain(failed)
               : keel_tensor_failed(run->executable->plan->context, status);
}

/* Whether to run a step. If not, *why is the failed input, *status is the reason, or
 * another failure ends the run. */
static bool may_run(const keel_run *run, uint32_t index, keel_tensor **why,
                    keel_status *status) {
  *why = NULL;
  *status = KD_OK;
  if (run->args.partial)
    *why = failed_input(run, &run->executable->steps[index]);
  else if (atomic_load_explicit(&run->failure, memory_order_relaxed))
    return false;
  if (!*why) *status = keel_run_check(run, index);
  return !*why && *status == KD_OK;
}

/* A step that did not do all its exchanges: one, or nested functions. The other members must not
 * wait for them, nor take later ones for these. */
static void lose_exchanges(const keel_run *run, const keel_step *step,
                           keel_tensor *why) {
  bool meets = step->site.op->schema->flags & KEEL_OP_MEETS;
  keel_tensor *failure =
      why ? why : atomic_load_explicit(&run->failure, memory_order_acquire);
  if (!failure || (!meets && !step->site.graphs)) return;
  for (uint32_t i = 0; i < step->input_count; i++) {
    const keel_tensor *value =
        step->inputs[i] == KEEL_ABSENT ? NULL : run->values[step->inputs[i]];
    keel_member *member = value && value->kind == KEEL_RESOURCE
                              ? keel_member_of(value->resource)
                              : NULL;
    if (member) member->lose(member, failure);
  }
}

/* Applies a step's result; false if it produced no outputs. */
static bool finish_step(keel_run *run, const keel_step *step, bool ran,
                        keel_tensor *why, keel_status status,
                        keel_tensor **outputs) {
  if (status != KD_OK) keel_run_fail(run, status);
  if (!ran || status != KD_OK) lose_exchanges(run, step, why);
  if (run->args.partial && (why || status != KD_OK)) {
    fail_outputs(run, step, why, status, outputs);
    if (step->mark != KEEL_ABSENT)
      run->values[step->mark] = keel_tensor_retain(outputs[0]);
    return true;
  }
  return ran && status == KD_OK;
}

void keel_run_publish(const keel_run *run, uint32_t value) {
  uint32_t output = run->executable->output_of[value];
  keel_tensor *tensor = run->values[value];
  if (run->async && output != KEEL_ABSENT && tensor &&
      keel_tensor_state(tensor) != KEEL_PENDING)
    keel_async_run_fulfil(run->async, output, tensor);
}

/* Stores a step's outputs (NULL: none), and drops its reads. */
static void step_settle(keel_run *run, const keel_step *step,
                        keel_tensor **outputs) {
  for (uint32_t i = 0; i < step->output_count && outputs; i++) {
    uint32_t value = step->outputs[i];
    if (run->records_types && value != KEEL_ABSENT)
      run->executable->types[value] = outputs[i] ? outputs[i]->type : NULL;
    if (value == KEEL_ABSENT || !run->executable->uses[value]) {
      keel_tensor_release(outputs[i]);
    } else {
      run->values[value] = outputs[i];
      keel_run_publish(run, value);
    }
  }
  for (uint32_t i = 0; i < step->input_count; i++)
    if (step->inputs[i] != KEEL_ABSENT) drop_use(run, step->inputs[i]);
}

bool keel_run_step(keel_run *run, uint32_t index) {
  keel_step *step = &run->executable->steps[index];
  keel_tensor *few[16], *why = NULL;
  keel_status status = KD_OK;
  uint32_t n = step->input_count, m = step->output_count;
  keel_tensor **values =
      n + m <= 16 ? few : malloc((n + m) * sizeof(keel_tensor *));
  bool runs = false, made = false;
  if (values) {
    runs = may_run(run, index, &why, &status);
    if (runs) status = call_step(run, step, values, values + n);
    made = finish_step(run, step, runs, why, status, values + n);
  } else {
    keel_run_fail(run, keel_no_memory((n + m) * sizeof *values));
  }
  step_settle(run, step, made ? values + n : NULL);
  if (values != few) free(values);
  return runs && status == KD_OK;
}

/* ---- a step with nested functions ------------------------------------------ */

static void end_nested(nested *at, bool ran, keel_tensor *why,
                       keel_status status) {
  keel_run *run = at->run;
  keel_step *step = &run->executable->steps[at->step];
  keel_tensor **outputs = at->values + step->input_count;
  /* a Call's time is that of its steps */
  if (run->profile && ran && step->site.op->schema->kind != KEEL_CALL)
    note_call(step, at->begin, at->values);
  bool given = opens(run, step) && step->output_count && outputs[0];
  for (uint32_t i = 0; status != KD_OK && !given && i < step->output_count;
       i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  if (given && status != KD_OK) keel_run_fail(run, status);
  bool made = given || finish_step(run, step, ran, why, status, outputs);
  step_settle(run, step, made ? outputs : NULL);
  free(at);
}

/* Whether a Call has inputs that are donated to the run: a recording would hold them. Notes
 * which. */
static bool find_donated(const keel_run *run, const keel_step *step,
                         bool *donated) {
  const keel_executable *executable = run->executable;
  bool any = false;
  if (!run->args.held || step->site.op->schema->kind != KEEL_CALL) return false;
  for (uint32_t i = 0; i < step->input_count; i++)
    for (uint32_t k = 0; k < executable->input_count; k++)
      if (run->args.donated[k] && executable->inputs[k] == step->inputs[i])
        any = donated[i] = true;
  return any;
}

bool keel_run_nested(keel_run *run, uint32_t index,
                     void (*ended)(keel_done *done, keel_status status)) {
  keel_step *step = &run->executable->steps[index];
  const keel_call_site *site = &step->site;
  keel_tensor *why = NULL;
  keel_status status = KD_OK;
  uint32_t n = step->input_count, m = step->output_count;
  nested *at = calloc(1, sizeof *at + (n + m) * sizeof *at->values + n);
  if (!at) {
    keel_run_fail(run, keel_no_memory(sizeof *at));
    step_settle(run, step, NULL);
    return true;
  }
  at->done.call = ended;
  at->run = run;
  at->step = index;
  bool runs = may_run(run, index, &why, &status);
  if (runs) {
    step_gather(run, step, at->values);
    at->begin = run->profile || keel_tracing() ? keel_now() : 0;
    uint64_t begin = at->begin;
    bool *donated = (bool *)(at->values + n + m);
    const keel_host_call call = {
        .context = site->op->context,
        .op = site->op,
        .where = site->where,
        .scope = site->pinned ? site->pinned : run->args.scope,
        .input_count = n,
        .output_count = m,
        .inputs = at->values,
        .outputs = at->values + n,
        .graphs = site->graphs,
        .partial = opens(run, step),
        .donated = find_donated(run, step, donated) ? donated : NULL,
    };
    if (!keel_control_begin(&call, run->args.cancellation, &at->done, &status))
      return false;
    if (begin && keel_tracing())
      keel_trace_span(site->op->schema->name, "host", site->where, begin);
  }
  end_nested(at, runs, why, status);
  return true;
}

keel_run *keel_run_nested_end(keel_done *done, keel_status status,
                              uint32_t *out_step) {
  nested *at = (nested *)done;
  keel_run *run = at->run;
  *out_step = at->step;
  end_nested(at, true, NULL, status);
  return run;
}
