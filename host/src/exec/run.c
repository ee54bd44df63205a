/* run.c - one run of a laid out function.
 *
 * Each step counts the steps it still waits for; who brings the count to zero
 * runs the step: the first one found at once, on the same thread, the others
 * as tasks for whoever is idle. A copy out of a device ends later, when its data
 * has come, and so does an op with nested functions that have such copies; they
 * hold no thread meanwhile. No lock is taken. Values die at their last use, and
 * their memory may become an output's. */
#include "exec/frame.h"
#include "exec/pool.h"
#include "ops/control.h"
#include "trace/trace.h"

#define PACED 4 /* runs in which steps are timed */
#define HANDED_OVER \
  500 /* nanoseconds: what steps take that are worth a thread */

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

/* An op with nested functions. */
typedef struct nested {
  keel_done done; /* first: it is its nested op */
  keel_run *run;
  uint32_t step;
  uint64_t begin;
  keel_tensor *values[]; /* inputs, then outputs */
} nested;

struct keel_run {
  keel_fplan *fplan;
  keel_device *scope;
  const keel_order *order;
  keel_tensor **values;  /* by value */
  atomic_uint *uses;     /* by value: reads that are still to come */
  atomic_uint *waits;    /* by step */
  step_task *tasks;      /* by step */
  arrival *arrivals;     /* by step; NULL: none of them copies */
  atomic_uint remaining; /* steps that have not ended */
  _Atomic(keel_tensor *) failure;
  keel_frame *frame;       /* NULL: not made yet */
  const keel_watch *watch; /* or NULL */
  keel_done *done;         /* who is told of the end; NULL: somebody waits */
  keel_tensor **outputs;   /* then, where they go */
  bool partial;
  bool framed; /* runs in it */
  bool meets;  /* writes down the types that it meets */
  bool profile;
};

/* ---- memory of a run ------------------------------------------------------ */

void keel_run_free(keel_run *run) {
  free(run->values);
  free(run->uses);
  free(run->waits);
  free(run->tasks);
  free(run->arrivals);
  keel_frame_free(run->frame);
  free(run);
}

static void run_task(keel_task *task);

static keel_run *take_run(keel_fplan *fplan) {
  /* acquire: what the run's last user left in it */
  keel_run *run =
      atomic_exchange_explicit(&fplan->idle, NULL, memory_order_acquire);
  if (run) return run;
  run = calloc(1, sizeof *run);
  if (run) {
    run->values = calloc(fplan->value_count + 1, sizeof(keel_tensor *));
    run->uses = calloc(fplan->value_count + 1, sizeof *run->uses);
    run->waits = calloc(fplan->step_count + 1, sizeof *run->waits);
    run->tasks = calloc(fplan->step_count + 1, sizeof *run->tasks);
    if (fplan->copies)
      run->arrivals = calloc(fplan->step_count + 1, sizeof *run->arrivals);
    for (uint32_t i = 0; run->tasks && i < fplan->step_count; i++)
      run->tasks[i] = (step_task){{run_task, NULL}, run, i};
    if (run->values && run->uses && run->waits && run->tasks &&
        (run->arrivals || !fplan->copies))
      return run;
    keel_run_free(run);
  }
  keel_no_memory(fplan->value_count * sizeof(keel_tensor *));
  return NULL;
}

static void give_run(keel_run *run) {
  keel_run *none = NULL;
  if (!atomic_compare_exchange_strong_explicit(&run->fplan->idle, &none, run,
                                               memory_order_release,
                                               memory_order_relaxed))
    keel_run_free(run);
}

/* ---- one step ------------------------------------------------------------- */

static void set_failure(keel_run *run, keel_status status) {
  keel_tensor *failed = keel_tensor_failed(run->fplan->plan->context, status);
  keel_tensor *none = NULL;
  if (!atomic_compare_exchange_strong(&run->failure, &none, failed))
    keel_tensor_release(failed);
}

/* One read of a value is over; the last one lets go of it. */
static void drop_use(keel_run *run, uint32_t value) {
  if (!keel_refs_drop(&run->uses[value])) return;
  if (run->fplan->constants[value]) return;
  keel_tensor_release(run->values[value]);
  run->values[value] = NULL;
}

static uint32_t donations(const keel_run *run, const keel_step *step) {
  uint32_t donated = 0;
  for (uint32_t i = 0; i < step->input_count && i < 32; i++) {
    uint32_t value = step->inputs[i];
    if (value != KEEL_ABSENT && !run->fplan->constants[value] &&
        atomic_load_explicit(&run->uses[value], memory_order_acquire) == 1)
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

static void note_time(keel_step *step, uint64_t begin) {
  uint64_t time = keel_now() - begin;
  atomic_fetch_add_explicit(&step->time, time, memory_order_relaxed);
  if (step->copies)
    __atomic_fetch_add(&step->copy_time, time, __ATOMIC_RELAXED);
}

/* By the op's name, with nothing that the plan knows but the device. */
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
      keel_device_push(step->site.pinned ? step->site.pinned : run->scope);
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

static void gather(const keel_run *run, const keel_step *step,
                   keel_tensor **inputs) {
  for (uint32_t i = 0; i < step->input_count; i++)
    inputs[i] =
        step->inputs[i] == KEEL_ABSENT ? NULL : run->values[step->inputs[i]];
}

static void note_call(keel_step *step, uint64_t begin,
                      keel_tensor *const *inputs) {
  note_time(step, begin);
  if (atomic_fetch_add_explicit(&step->calls, 1, memory_order_relaxed) == 0)
    note_types(step, inputs);
}

static keel_status call_step(keel_run *run, keel_step *step,
                             keel_tensor **inputs, keel_tensor **outputs) {
  gather(run, step, inputs);
  uint64_t begin = run->profile ? keel_now() : 0;
  keel_status status =
      run->fplan->plan->eager
          ? call_eagerly(run, step, inputs, outputs)
          : keel_site_call(&step->site, run->scope, inputs, step->input_count,
                           outputs, step->output_count, donations(run, step));
  if (run->profile) note_call(step, begin, inputs);
  return status;
}

/* Whether nothing more is to be begun. */
static keel_status check_watch(const keel_run *run, uint32_t index) {
  if (!run->watch || !keel_watch_is_over(run->watch)) return KD_OK;
  const keel_site *site = &run->fplan->steps[index].site;
  return keel_watch_fail(run->watch, site->where, site->op->schema->name);
}

static void run_framed(keel_run *run, uint32_t index) {
  if (atomic_load_explicit(&run->failure, memory_order_relaxed)) return;
  keel_status status = check_watch(run, index);
  if (status == KD_OK) status = keel_frame_step(run->frame, index);
  if (status != KD_OK) set_failure(run, status);
}

/* The first input that has failed, or change of a resource that was to be made before, or
 * NULL. */
static keel_tensor *failed_input(const keel_run *run, const keel_step *step) {
  for (uint32_t i = 0; i < step->input_count; i++) {
    keel_tensor *value =
        step->inputs[i] == KEEL_ABSENT ? NULL : run->values[step->inputs[i]];
    if (value && keel_tensor_state(value) == KEEL_FAILED) return value;
  }
  for (uint32_t i = 0; i < step->behind_count; i++)
    if (run->values[step->behind[i]]) return run->values[step->behind[i]];
  return NULL;
}

/* For a run that goes on beside a failure: what hangs on it. */
static void fail_outputs(const keel_run *run, const keel_step *step,
                         keel_tensor *failed, keel_status status,
                         keel_tensor **outputs) {
  for (uint32_t i = 0; i < step->output_count; i++)
    outputs[i] = failed ? keel_tensor_retain(failed)
                        : keel_tensor_failed(run->fplan->plan->context, status);
}

/* Whether a step is to be run. Else *why is the input that has failed, or *status says
 * why not, or a failure elsewhere ends the run. */
static bool may_run(const keel_run *run, uint32_t index, keel_tensor **why,
                    keel_status *status) {
  *why = NULL;
  *status = KD_OK;
  if (run->partial)
    *why = failed_input(run, &run->fplan->steps[index]);
  else if (atomic_load_explicit(&run->failure, memory_order_relaxed))
    return false;
  if (!*why) *status = check_watch(run, index);
  return !*why && *status == KD_OK;
}

/* What becomes of a step that was run, or not; false: it has no outputs. */
static bool conclude(keel_run *run, const keel_step *step, bool ran,
                     keel_tensor *why, keel_status status,
                     keel_tensor **outputs) {
  if (status != KD_OK) set_failure(run, status);
  if (run->partial && (why || status != KD_OK)) {
    fail_outputs(run, step, why, status, outputs);
    if (step->mark != KEEL_ABSENT)
      run->values[step->mark] = keel_tensor_retain(outputs[0]);
    return true;
  }
  return ran && status == KD_OK;
}

/* Keeps what a step made (NULL: nothing), and lets go of what it read. */
static void settle(keel_run *run, const keel_step *step,
                   keel_tensor **outputs) {
  for (uint32_t i = 0; i < step->output_count && outputs; i++) {
    uint32_t value = step->outputs[i];
    if (run->meets && value != KEEL_ABSENT)
      run->fplan->types[value] = outputs[i] ? outputs[i]->type : NULL;
    if (value == KEEL_ABSENT || !run->fplan->uses[value])
      keel_tensor_release(outputs[i]);
    else
      run->values[value] = outputs[i];
  }
  for (uint32_t i = 0; i < step->input_count; i++)
    if (step->inputs[i] != KEEL_ABSENT) drop_use(run, step->inputs[i]);
}

/* Makes the step's values. */
static void run_step(keel_run *run, uint32_t index) {
  keel_step *step = &run->fplan->steps[index];
  keel_tensor *few[16], *why = NULL;
  keel_status status = KD_OK;
  uint32_t n = step->input_count, m = step->output_count;
  keel_tensor **values =
      n + m <= 16 ? few : malloc((n + m) * sizeof(keel_tensor *));
  bool made = false;
  if (values) {
    bool runs = may_run(run, index, &why, &status);
    if (runs) status = call_step(run, step, values, values + n);
    made = conclude(run, step, runs, why, status, values + n);
  } else {
    set_failure(run, keel_no_memory((n + m) * sizeof *values));
  }
  settle(run, step, made ? values + n : NULL);
  if (values != few) free(values);
}

/* ---- a step with nested functions ------------------------------------------ */

static void end_nested(nested *at, bool ran, keel_tensor *why,
                       keel_status status) {
  keel_run *run = at->run;
  keel_step *step = &run->fplan->steps[at->step];
  keel_tensor **outputs = at->values + step->input_count;
  if (run->profile && ran) note_call(step, at->begin, at->values);
  for (uint32_t i = 0; status != KD_OK && i < step->output_count; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  bool made = conclude(run, step, ran, why, status, outputs);
  settle(run, step, made ? outputs : NULL);
  free(at);
}

static void nested_ended(keel_done *done, keel_status status);

/* Whether the step has ended; else the run goes on from there when it has. */
static bool run_nested(keel_run *run, uint32_t index) {
  keel_step *step = &run->fplan->steps[index];
  const keel_site *site = &step->site;
  keel_tensor *why = NULL;
  keel_status status = KD_OK;
  uint32_t n = step->input_count, m = step->output_count;
  nested *at = calloc(1, sizeof *at + (n + m) * sizeof *at->values);
  if (!at) {
    set_failure(run, keel_no_memory(sizeof *at));
    settle(run, step, NULL);
    return true;
  }
  at->done.call = nested_ended;
  at->run = run;
  at->step = index;
  bool runs = may_run(run, index, &why, &status);
  if (runs) {
    gather(run, step, at->values);
    at->begin = run->profile || keel_tracing() ? keel_now() : 0;
    uint64_t begin = at->begin;
    const keel_host_call call = {
        .context = site->op->context,
        .op = site->op,
        .where = site->where,
        .scope = site->pinned ? site->pinned : run->scope,
        .input_count = n,
        .output_count = m,
        .inputs = at->values,
        .outputs = at->values + n,
        .graphs = site->graphs,
    };
    if (!keel_control_begin(&call, run->watch, &at->done, &status))
      return false;
    if (begin && keel_tracing())
      keel_trace_span(site->op->schema->name, "host", site->where, begin);
  }
  end_nested(at, runs, why, status);
  return true;
}

/* ---- all steps ------------------------------------------------------------ */

/* Whether this thread brought a step's count to zero. A step that waits for one
 * other only was brought there by its one predecessor: no atomic is needed. */
static bool is_last(keel_run *run, uint32_t step) {
  if (run->order->waits[step] == 1) return true;
  /* acq_rel: the last to come sees what all others made */
  return atomic_fetch_sub_explicit(&run->waits[step], 1,
                                   memory_order_acq_rel) == 1;
}

/* Those that waited for this step only: the one with the longest way behind it is
 * returned, the others are handed out. */
static uint32_t follow(keel_run *run, uint32_t index) {
  const keel_order *order = run->order;
  uint32_t first = KEEL_ABSENT, end = order->first[index + 1];
  for (uint32_t i = order->first[index]; i < end; i++) {
    uint32_t next = order->followers[i];
    if (!is_last(run, next)) continue;
    if (first == KEEL_ABSENT)
      first = next;
    else
      keel_pool_submit(run->fplan->plan->context->pool, &run->tasks[next].task);
  }
  return first;
}

static bool goes_on_later(keel_run *run, uint32_t index);
static void finish(keel_run *run);

/* Runs a step, and on as long as one leads to another. `ended`: steps that have
 * ended before, and were not counted. */
static void run_from(keel_run *run, uint32_t index, uint32_t ended) {
  while (index != KEEL_ABSENT) {
    keel_step *step = &run->fplan->steps[index];
    if (run->framed) {
      run_framed(run, index);
    } else if (step->site.graphs) {
      if (!run_nested(run, index)) break;
    } else {
      run_step(run, index);
      if (step->copies && goes_on_later(run, index)) break;
    }
    ended++;
    index = follow(run, index);
  }
  if (!ended) return; /* something goes on: the run may be over by now */
  keel_pool *pool = run->fplan->plan->context->pool;
  const keel_done *done = run->done;
  /* acq_rel: who ends the run sees all that was made; where somebody waits, nothing
   * of the run is touched after the count reaches zero */
  if (atomic_fetch_sub_explicit(&run->remaining, ended, memory_order_acq_rel) !=
      ended)
    return;
  if (done)
    finish(run);
  else
    keel_pool_wake_waiters(pool);
}

static void nested_ended(keel_done *done, keel_status status) {
  nested *at = (nested *)done;
  keel_run *run = at->run;
  uint32_t index = at->step;
  end_nested(at, true, NULL, status);
  run_from(run, follow(run, index), 1);
}

static void data_came(keel_waiter *waiter) {
  arrival *at = (arrival *)(void *)waiter;
  keel_run *run = at->run;
  keel_step *step = &run->fplan->steps[at->step];
  keel_status status = keel_tensor_query(run->values[step->outputs[0]]);
  if (run->profile) note_time(step, at->begin);
  if (status != KD_OK)
    set_failure(run, keel_while(status, "while \"%s\" was copied to the host",
                                step->site.where));
  run_from(run, follow(run, at->step), 1);
}

/* Whether the step's output is on its way: the run then goes on from here when
 * it has come, and no thread waits. */
static bool goes_on_later(keel_run *run, uint32_t index) {
  const keel_step *step = &run->fplan->steps[index];
  uint32_t output = step->outputs[0];
  keel_tensor *value = output == KEEL_ABSENT ? NULL : run->values[output];
  if (!value || keel_tensor_state(value) != KEEL_PENDING) return false;
  arrival *at = &run->arrivals[index];
  *at = (arrival){{NULL, data_came}, run, index, run->profile ? keel_now() : 0};
  keel_tensor_then(value, &at->waiter);
  return true;
}

static void run_task(keel_task *task) {
  step_task *at = (step_task *)task;
  keel_hush();
  run_from(at->run, at->step, 0);
}

static bool all_done(void *run) {
  return atomic_load_explicit(&((keel_run *)run)->remaining,
                              memory_order_acquire) == 0;
}

/* Those that wait for none, from one to another. */
static void run_roots(void *context, int64_t begin, int64_t end) {
  keel_run *run = context;
  keel_hush();
  for (int64_t i = begin; i < end; i++)
    run_from(run, run->order->roots[i], 0);
}

/* Sets the counts. held: ends that the caller brings, beside the steps'. */
static void set_counts(keel_run *run, uint32_t held) {
  const keel_fplan *fplan = run->fplan;
  for (uint32_t i = 0; i < fplan->step_count; i++)
    atomic_store_explicit(&run->waits[i], run->order->waits[i],
                          memory_order_relaxed);
  atomic_store_explicit(&run->remaining, fplan->step_count + held,
                        memory_order_relaxed);
}

static void begin_roots(keel_run *run) {
  keel_pool *pool = run->fplan->plan->context->pool;
  const keel_order *order = run->order;
  for (uint32_t i = 1; i < order->root_count; i++)
    keel_pool_submit(pool, &run->tasks[order->roots[i]].task);
  run_roots(run, 0, order->root_count ? 1 : 0);
}

static void run_parallel(keel_run *run) {
  set_counts(run, 0);
  if (run->framed) /* kernels alone: none waits for another step */
    keel_parallel_for(run->order->root_count, 1, run_roots, run);
  else
    begin_roots(run);
  keel_pool_wait(run->fplan->plan->context->pool, all_done, run);
}

static void begin_run(keel_run *run, keel_tensor *const *inputs) {
  const keel_fplan *fplan = run->fplan;
  for (uint32_t i = 0; i < fplan->value_count; i++) {
    run->values[i] = fplan->constants[i];
    atomic_store_explicit(&run->uses[i], fplan->uses[i], memory_order_relaxed);
  }
  for (uint32_t i = 0; i < fplan->input_count; i++) {
    uint32_t value = fplan->inputs[i];
    if (fplan->constants[value] || !fplan->uses[value]) continue;
    run->values[value] = keel_tensor_retain(inputs[i]);
    if (run->meets) fplan->types[value] = inputs[i] ? inputs[i]->type : NULL;
  }
}

/* What is handed out as output `index`: failed where nothing made it and the run is to
 * say so. */
static keel_status hand_out(const keel_run *run, uint32_t index,
                            keel_tensor *failure, keel_tensor **out_value) {
  const keel_fplan *fplan = run->fplan;
  keel_tensor *value = run->values[fplan->outputs[index]];
  keel_status status = KD_OK;
  if (!value && !failure)
    status =
        keel_fail(KD_INVALID_ARGUMENT, "output %u of %s is made by no node",
                  (unsigned)index, *fplan->name ? fplan->name : "the program");
  *out_value = keel_tensor_retain(value ? value : failure);
  return status;
}

static keel_status end_run(keel_run *run, keel_tensor **outputs) {
  keel_fplan *fplan = run->fplan;
  keel_tensor *failure =
      atomic_load_explicit(&run->failure, memory_order_acquire);
  keel_status status = KD_OK;
  for (uint32_t i = 0; (!failure || run->partial) && i < fplan->output_count;
       i++) {
    keel_status one = hand_out(run, i, failure, &outputs[i]);
    if (status == KD_OK) status = one;
  }
  for (uint32_t i = 0; i < fplan->value_count; i++)
    if (!fplan->constants[i]) keel_tensor_release(run->values[i]);
  if (failure) {
    status = keel_tensor_query(failure);
    keel_tensor_release(failure);
  }
  return status;
}

static bool is_alone(const keel_run *run) {
  return keel_pool_size(run->fplan->plan->context->pool) == 1 ||
         run->fplan->step_count <= 1;
}

/* Whether no step can end later than it is run, and no other thread would help. */
static bool is_straight(const keel_run *run) {
  return !run->fplan->copies && !run->fplan->nests && is_alone(run);
}

static void begin_values(keel_run *run, keel_tensor *const *inputs) {
  keel_fplan *fplan = run->fplan;
  /* a copy's type may not be there yet; nor would it fit a frame */
  run->meets =
      !fplan->copies &&
      !atomic_load_explicit(&fplan->meeting, memory_order_relaxed) &&
      !atomic_exchange_explicit(&fplan->meeting, true, memory_order_acquire);
  run->order = fplan->order;
  begin_run(run, inputs);
}

static keel_status end_values(keel_run *run, keel_tensor **outputs) {
  keel_fplan *fplan = run->fplan;
  keel_status status = end_run(run, outputs);
  /* release: what the run has met, for who makes a layout of it; else the next one may
   * try */
  if (run->meets && status == KD_OK)
    atomic_store_explicit(&fplan->ran, true, memory_order_release);
  else if (run->meets)
    atomic_store_explicit(&fplan->meeting, false, memory_order_release);
  return status;
}

static void run_straight(keel_run *run) {
  for (uint32_t i = 0; i < run->fplan->step_count; i++)
    run_step(run, i);
}

static keel_status run_with_values(keel_run *run, keel_tensor *const *inputs,
                                   keel_tensor **outputs) {
  begin_values(run, inputs);
  if (is_straight(run))
    run_straight(run);
  else
    run_parallel(run);
  return end_values(run, outputs);
}

/* ---- in a frame --------------------------------------------------------------- */

/* Whether steps are too short to be handed to other threads: measured in the first
 * runs, which are one thread's. */
static bool is_short(const keel_fplan *fplan) {
  return atomic_load_explicit(&fplan->paced, memory_order_relaxed) < PACED ||
         atomic_load_explicit(&fplan->pace, memory_order_relaxed) < HANDED_OVER;
}

static void note_pace(keel_fplan *fplan, uint64_t time) {
  uint64_t pace = time / fplan->step_count;
  uint32_t least = atomic_load_explicit(&fplan->pace, memory_order_relaxed);
  if (!least || pace < least)
    atomic_store_explicit(&fplan->pace,
                          pace < UINT32_MAX ? (uint32_t)pace + 1 : UINT32_MAX,
                          memory_order_relaxed);
  atomic_fetch_add_explicit(&fplan->paced, 1, memory_order_relaxed);
}

/* One step after the other, each with its time. */
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

/* What steps cost says in which order they are best begun. */
static keel_status run_ranked(keel_run *run) {
  uint32_t *costs = calloc((size_t)run->fplan->step_count + 1, sizeof *costs);
  if (!costs) return keel_no_memory(run->fplan->step_count);
  keel_status status = time_steps(run, costs);
  if (status == KD_OK) keel_frame_rank(run->frame, costs);
  free(costs);
  return status;
}

static keel_status run_alone(keel_run *run) {
  keel_fplan *fplan = run->fplan;
  uint32_t paced = atomic_load_explicit(&fplan->paced, memory_order_relaxed);
  uint64_t begin = paced < PACED ? keel_now() : 0;
  keel_status status = KD_OK;
  keel_hush();
  if (paced == PACED - 1 && !is_alone(run) && !run->watch) {
    status = run_ranked(run);
  } else if (run->watch) {
    for (uint32_t i = 0; i < fplan->step_count && status == KD_OK; i++) {
      status = check_watch(run, i);
      if (status == KD_OK) status = keel_frame_step(run->frame, i);
    }
  } else {
    for (uint32_t i = 0; i < fplan->step_count && status == KD_OK; i++)
      status = keel_frame_step(run->frame, i);
  }
  if (status == KD_OK && paced < PACED && fplan->step_count)
    note_pace(fplan, keel_now() - begin);
  return status;
}

/* With the pool: the first failure. */
static keel_status run_shared(keel_run *run) {
  run->order = keel_frame_order(run->frame);
  run_parallel(run);
  keel_tensor *failure =
      atomic_load_explicit(&run->failure, memory_order_acquire);
  keel_status status = failure ? keel_tensor_query(failure) : KD_OK;
  keel_tensor_release(failure);
  return status;
}

static keel_status run_in_frame(keel_run *run, keel_tensor *const *inputs,
                                keel_tensor **outputs) {
  bool alone = is_alone(run) || is_short(run->fplan);
  keel_status status = alone ? run_alone(run) : run_shared(run);
  if (status == KD_OK) return keel_frame_end(run->frame, inputs, outputs);
  keel_frame_end(run->frame, inputs, NULL);
  return status;
}

static bool fits_frame(keel_run *run, keel_tensor *const *inputs) {
  run->framed = !run->profile && !run->fplan->plan->eager &&
                keel_frame_begin(run->fplan, inputs, &run->frame);
  return run->framed;
}

/* In a frame, where one fits. What comes out of it whole is given; a run that is to go
 * on beside a failure is made again, value by value. */
static keel_status run_somehow(keel_run *run, keel_tensor *const *inputs,
                               keel_tensor **outputs) {
  if (fits_frame(run, inputs)) {
    keel_status status = run_in_frame(run, inputs, outputs);
    if (status == KD_OK || !run->partial) return status;
    run->framed = false;
    atomic_store_explicit(&run->failure, NULL, memory_order_relaxed);
  }
  return run_with_values(run, inputs, outputs);
}

/* ---- runs --------------------------------------------------------------------- */

static keel_status make_run(keel_fplan *fplan, keel_device *scope,
                            uint32_t input_count, uint32_t output_count,
                            const keel_watch *watch, bool partial,
                            keel_run **out_run) {
  if (input_count != fplan->input_count || output_count != fplan->output_count)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "function \"%s\" takes %u inputs and gives %u outputs, not"
                     " %u and %u",
                     fplan->name, (unsigned)fplan->input_count,
                     (unsigned)fplan->output_count, (unsigned)input_count,
                     (unsigned)output_count);
  /* a loop's body may have no step that would ask */
  if (watch && !partial && keel_watch_is_over(watch))
    return keel_watch_fail(watch, NULL, NULL);
  keel_run *run = take_run(fplan);
  if (!run) return KD_OUT_OF_MEMORY;
  run->fplan = fplan;
  run->scope = scope;
  run->watch = watch;
  run->partial = partial;
  run->done = NULL;
  run->profile =
      atomic_load_explicit(&fplan->plan->profile, memory_order_relaxed);
  atomic_store_explicit(&run->failure, NULL, memory_order_relaxed);
  *out_run = run;
  return KD_OK;
}

static keel_status end_of(keel_run *run, keel_status status,
                          keel_tensor **outputs) {
  uint32_t count = run->fplan->output_count;
  bool partial = run->partial;
  give_run(run);
  for (uint32_t i = 0; status != KD_OK && !partial && i < count; i++) {
    keel_tensor_release(outputs[i]);
    outputs[i] = NULL;
  }
  return status;
}

keel_status keel_fplan_run_with(keel_fplan *fplan, keel_device *scope,
                                keel_tensor *const *inputs,
                                uint32_t input_count, keel_tensor **outputs,
                                uint32_t output_count, const keel_watch *watch,
                                bool partial) {
  keel_run *run = NULL;
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  KEEL_TRY(
      make_run(fplan, scope, input_count, output_count, watch, partial, &run));
  return end_of(run, run_somehow(run, inputs, outputs), outputs);
}

/* Of a run that ended later than it was begun. */
static void finish(keel_run *run) {
  keel_done *done = run->done;
  keel_tensor **outputs = run->outputs;
  done->call(done, end_of(run, end_values(run, outputs), outputs));
}

/* Whether it has ended when all has been begun. */
static bool begin_parallel(keel_run *run, keel_done *done) {
  run->done = done;
  set_counts(run, 1);
  begin_roots(run);
  /* acq_rel: as in run_from */
  return atomic_fetch_sub_explicit(&run->remaining, 1, memory_order_acq_rel) ==
         1;
}

bool keel_fplan_begin(keel_fplan *fplan, keel_device *scope,
                      keel_tensor *const *inputs, uint32_t input_count,
                      keel_tensor **outputs, uint32_t output_count,
                      const keel_watch *watch, keel_done *done,
                      keel_status *out_status) {
  keel_run *run = NULL;
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  *out_status =
      make_run(fplan, scope, input_count, output_count, watch, false, &run);
  if (*out_status != KD_OK) return true;
  if (fits_frame(run, inputs)) {
    *out_status = run_in_frame(run, inputs, outputs);
  } else {
    begin_values(run, inputs);
    run->outputs = outputs;
    if (is_straight(run))
      run_straight(run);
    else if (!begin_parallel(run, done))
      return false;
    *out_status = end_values(run, outputs);
  }
  *out_status = end_of(run, *out_status, outputs);
  return true;
}
