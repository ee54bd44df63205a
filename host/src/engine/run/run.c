/* run.c - one run of an executable.
 *
 * Each step counts the steps that it still waits for. The thread that brings a count to
 * zero runs the step: the first one at once, the others as tasks for idle threads. A
 * step whose output is pending ends later, when that has come (a copy out of a device, or an
 * exchange with other runs), and so does an op with nested functions that have such steps;
 * neither occupies a thread meanwhile. No lock is taken. Values are released at their last use,
 * and an output may reuse their memory. */
#include "run/run.h"
#include "device/context.h"
#include "run/inputs.h"
#include "values/member.h"

/* ---- memory of a run ------------------------------------------------------ */

static void free_run(keel_idle *idle) {
  keel_run *run = (keel_run *)(void *)idle;
  keel_arena_free(&run->arrays);
  keel_static_run_free(run->static_run);
  free(run);
}

static void visit_run(const keel_idle *idle,
                      void (*each)(void *context, const keel_buffer *buffer),
                      void *context) {
  const keel_run *run = (const keel_run *)(const void *)idle;
  if (run->static_run) keel_static_run_visit(run->static_run, each, context);
}

static void run_task(keel_task *task);

static keel_run *take_run(keel_executable *executable) {
  /* acquire: pairs with the release of the run's last user */
  keel_idle *idle =
      atomic_exchange_explicit(&executable->idle, NULL, memory_order_acquire);
  if (idle) return (keel_run *)(void *)idle;
  keel_run *run = calloc(1, sizeof *run);
  if (run) {
    run->idle = (keel_idle){.free = free_run, .visit = visit_run};
    KEEL_ARENA_ARRAY(&run->arrays, run->values, executable->value_count);
    KEEL_ARENA_ARRAY(&run->arrays, run->uses, executable->value_count);
    KEEL_ARENA_ARRAY(&run->arrays, run->waits, executable->step_count);
    KEEL_ARENA_ARRAY(&run->arrays, run->tasks, executable->step_count);
    if (executable->pends)
      KEEL_ARENA_ARRAY(&run->arrays, run->late, executable->step_count);
    for (uint32_t i = 0; run->tasks && i < executable->step_count; i++)
      run->tasks[i] = (step_task){{run_task, NULL}, run, i};
    if (!run->arrays.failed) return run;
    free_run(&run->idle);
  }
  keel_no_memory(executable->value_count * sizeof(keel_tensor *));
  return NULL;
}

static void put_run(keel_run *run) {
  keel_idle *none = NULL;
  if (!atomic_compare_exchange_strong_explicit(&run->executable->idle, &none,
                                               &run->idle, memory_order_release,
                                               memory_order_relaxed))
    free_run(&run->idle);
}

/* ---- all steps ------------------------------------------------------------ */

/* A step whose count this thread has yet to decrement, and by how much: batched, because a
 * shared counter is contended. */
typedef struct held {
  uint32_t step, count;
} held;

/* Whether this thread brought a step's count to zero. No atomic operation is needed if all
 * steps that it waits for have ended here, as with a single predecessor, and it waits for
 * no input. */
static bool is_last(keel_run *run, uint32_t step, uint32_t ended) {
  if (run->order->waits[step] == ended && !run->has_pending_inputs) return true;
  /* no other thread will decrement the rest: acquire, as below */
  if (atomic_load_explicit(&run->waits[step], memory_order_acquire) == ended)
    return true;
  /* acq_rel: the last one sees what all the others produced */
  return atomic_fetch_sub_explicit(&run->waits[step], ended,
                                   memory_order_acq_rel) == ended;
}

static bool release_held(keel_run *run, held *last) {
  return last->count && is_last(run, last->step, last->count);
}

/* Decrements a step's count; true if *step is ready. With `last`, the decrement may be
 * deferred; *step then becomes the step deferred before. */
static bool is_ready(keel_run *run, uint32_t *step, held *last) {
  if (!last || run->order->waits[*step] == 1) return is_last(run, *step, 1);
  if (last->count && last->step == *step) {
    last->count++;
    return false;
  }
  held before = *last;
  *last = (held){*step, 1};
  *step = before.step;
  return release_held(run, &before);
}

/* Of the steps that have become ready, returns the one with the longest remaining path and
 * submits the others. */
static uint32_t run_follow(keel_run *run, uint32_t index, held *last) {
  const keel_order *order = run->order;
  uint32_t first = KEEL_ABSENT, end = order->first[index + 1];
  for (uint32_t i = order->first[index]; i < end; i++) {
    uint32_t next = order->followers[i];
    if (!is_ready(run, &next, last)) continue;
    if (first == KEEL_ABSENT)
      first = next;
    else
      keel_pool_submit(run->executable->plan->context->pool,
                       &run->tasks[next].task);
  }
  return first;
}

static bool resumes_later(keel_run *run, uint32_t index);
static void submit_blocking(keel_run *run, uint32_t index);
static void nested_ended(keel_done *done, keel_status status);
static void run_finish(keel_run *run);

/* Subtracts ended steps from the run's count; the last one ends the run. */
static void count_out(keel_run *run, uint32_t ended) {
  if (!ended) return; /* nothing ended here, and the run may already be over */
  keel_pool *pool = run->executable->plan->context->pool;
  const keel_done *done = run->done;
  /* acq_rel: the thread that ends the run sees all results. If a thread waits, the run must
   * not be touched after the count reaches zero */
  if (atomic_fetch_sub_explicit(&run->remaining, ended, memory_order_acq_rel) !=
      ended)
    return;
  if (done)
    run_finish(run);
  else
    keel_pool_wake_waiters(pool);
}

/* Runs a step, then the ready ones that follow from it. Returns how many have ended, which
 * the caller must subtract. */
static uint32_t run_on(keel_run *run, uint32_t index, held *last) {
  uint32_t ended = 0;
  while (index != KEEL_ABSENT) {
    keel_step *step = &run->executable->steps[index];
    if (run->is_static) {
      keel_run_static_step(run, index);
    } else if (step->blocks) {
      submit_blocking(run, index);
      break;
    } else if (step->site.graphs) {
      if (!keel_run_nested(run, index, nested_ended)) break;
    } else {
      bool ran = keel_run_step(run, index);
      if (ran && step->pends && resumes_later(run, index)) break;
    }
    ended++;
    index = run_follow(run, index, last);
  }
  return ended;
}

/* The same, and subtracts them; `ended`: steps that ended before and are not subtracted
 * yet. */
static void run_from(keel_run *run, uint32_t index, uint32_t ended) {
  count_out(run, ended + run_on(run, index, NULL));
}

static void nested_ended(keel_done *done, keel_status status) {
  uint32_t index = 0;
  keel_run *run = keel_run_nested_end(done, status, &index);
  run_from(run, run_follow(run, index, NULL), 1);
}

/* Publishes an output that has arrived, or fails it with the reason. */
static void settle_late(keel_run *run, const keel_step *step) {
  keel_status status = keel_tensor_query(run->values[step->outputs[0]]);
  if (status == KD_OK) {
    keel_run_publish(run, step->outputs[0]);
    return;
  }
  const char *where = step->site.where;
  if (step->copies)
    keel_while(status, "while %s%s%s was copied to the host",
               *where ? "\"" : "", *where ? where : "a value without a name",
               *where ? "\"" : "");
  keel_run_fail(run, status);
}

static bool is_exchange(const keel_step *step) {
  return step->site.op->schema->flags & KEEL_OP_MEETS;
}

/* The steps after an exchange, run by a thread of the pool. */
static void run_behind(keel_task *task) {
  step_task *at = (step_task *)task;
  at->task.run = run_task;
  keel_clear_error();
  run_from(at->run, run_follow(at->run, at->step, NULL), 1);
}

/* A thread that has ended an exchange has others to end, and does not compute meanwhile. */
static void late_done(keel_waiter *waiter) {
  late_output *at = (late_output *)(void *)waiter;
  keel_run *run = at->run;
  keel_step *step = &run->executable->steps[at->step];
  if (run->profile) keel_run_note_time(step, at->begin);
  if (run->profile && is_exchange(step))
    keel_profile_exchange(run->executable->plan, false);
  settle_late(run, step);
  bool last = run->order->first[at->step] == run->order->first[at->step + 1];
  if (!is_exchange(step) || (last && !run->done)) {
    run_from(run, run_follow(run, at->step, NULL), 1);
    return;
  }
  keel_task *task = &run->tasks[at->step].task;
  task->run = run_behind;
  keel_pool_post(run->executable->plan->context->pool, task);
}

/* Whether a step's output is still pending; the run then resumes here when it has come, and
 * no thread waits. Otherwise the output is settled. */
static bool resumes_later(keel_run *run, uint32_t index) {
  const keel_step *step = &run->executable->steps[index];
  uint32_t output = step->outputs[0];
  keel_tensor *value = output == KEEL_ABSENT ? NULL : run->values[output];
  if (!value) return false;
  if (keel_tensor_state(value) != KEEL_PENDING) { /* known already */
    settle_late(run, step);
    return false;
  }
  late_output *at = &run->late[index];
  *at = (late_output){
      {NULL, late_done}, run, index, run->profile ? keel_now() : 0};
  if (run->profile && is_exchange(step))
    keel_profile_exchange(run->executable->plan, true);
  keel_tensor_then(value, &at->waiter);
  return true;
}

/* Runs a blocking step on its own thread; only the step itself. */
static void run_blocking(keel_task *task) {
  step_task *at = (step_task *)task;
  keel_run *run = at->run;
  at->task.run = run_task;
  keel_clear_error();
  keel_run_step(run, at->step);
  uint32_t next = run_follow(run, at->step, NULL);
  if (next != KEEL_ABSENT)
    keel_pool_submit(run->executable->plan->context->pool,
                     &run->tasks[next].task);
  run_from(run, KEEL_ABSENT, 1);
}

static void submit_blocking(keel_run *run, uint32_t index) {
  keel_task *task = &run->tasks[index].task;
  task->run = run_blocking;
  keel_pool_submit_blocking(run->executable->plan->context->pool, task);
}

static bool is_of_run(const keel_task *task, const void *run) {
  return task->run == run_task && ((const step_task *)task)->run == run;
}

#define AT_ONCE \
  64 /* tasks in a row; then a helping thread checks its own wait */

/* Runs a task and what follows from it on this thread, and subtracts all of them at once.
 * Until then the run cannot end. */
static void run_task(keel_task *task) {
  keel_run *run = ((step_task *)task)->run;
  uint32_t ended = 0, left = AT_ONCE;
  keel_clear_error();
  do
    ended += run_on(run, ((step_task *)task)->step, NULL);
  while (ended && --left &&
         (task = keel_pool_next(run->executable->plan->context->pool, is_of_run,
                                run)));
  count_out(run, ended);
}

static bool all_done(void *run) {
  return atomic_load_explicit(&((keel_run *)run)->remaining,
                              memory_order_acquire) == 0;
}

/* Runs roots [begin, end) and what follows from them. */
static void run_roots(void *context, int64_t begin, int64_t end) {
  keel_run *run = context;
  uint32_t ended = 0;
  held last = {0};
  keel_clear_error();
  for (int64_t i = begin; i < end; i++)
    ended += run_on(run, run->order->roots[i], run->is_static ? &last : NULL);
  if (release_held(run, &last)) ended += run_on(run, last.step, NULL);
  count_out(run, ended);
}

/* Initialises the counts. held: extra counts that the caller subtracts itself. */
static void set_counts(keel_run *run, uint32_t held) {
  const keel_executable *executable = run->executable;
  for (uint32_t i = 0; i < executable->step_count; i++)
    atomic_store_explicit(&run->waits[i], run->order->waits[i],
                          memory_order_relaxed);
  atomic_store_explicit(&run->remaining, executable->step_count + held,
                        memory_order_relaxed);
}

/* ---- inputs that are not known yet -------------------------------------------- */

static void refuse_value(keel_run *run, uint32_t value, keel_status status) {
  keel_tensor *failed =
      keel_tensor_failed(run->executable->plan->context, status);
  keel_tensor_release(run->values[value]);
  run->values[value] = failed;
}

static void input_resolved(keel_waiter *waiter) {
  pending_input *at = (pending_input *)(void *)waiter;
  keel_run *run = at->run;
  const keel_executable *executable = run->executable;
  keel_status status = keel_tensor_query(run->values[at->value]);
  uint32_t value = at->value;
  if (status == KD_OK) {
    status = keel_async_run_check_input(
        run->async, (uint32_t)(at - run->pending_input), run->values[value]);
    /* nothing has read it yet: what depends on it fails */
    if (status != KD_OK && run->args.partial) refuse_value(run, value, status);
  }
  if (status != KD_OK && !run->args.partial) keel_run_fail(run, status);
  for (uint32_t i = 0; i < executable->step_count; i++)
    for (uint32_t k = 0; k < executable->steps[i].input_count; k++)
      if (executable->steps[i].inputs[k] == value && is_last(run, i, 1))
        keel_pool_submit(executable->plan->context->pool, &run->tasks[i].task);
  run_from(run, KEEL_ABSENT, 1);
}

/* Finds the pending inputs: each adds one to the run's count. Steps that read one wait for
 * it, too. */
static keel_status find_pending_inputs(keel_run *run, uint32_t *out_count) {
  const keel_executable *executable = run->executable;
  if (!run->pending_input)
    KEEL_ARENA_ARRAY(&run->arrays, run->pending_input, executable->input_count);
  if (!run->pending_input) return keel_no_memory(sizeof *run->pending_input);
  for (uint32_t i = 0; i < executable->input_count; i++) {
    uint32_t value = executable->inputs[i];
    keel_tensor *tensor =
        /* or not read */
        executable->constants[value] ? NULL : run->values[value];
    uint32_t state = tensor ? keel_tensor_state(tensor) : KEEL_READY;
    bool pending = state == KEEL_PENDING;
    run->pending_input[i] = (pending_input){
        {NULL, input_resolved}, run, pending ? value : KEEL_ABSENT};
    *out_count += pending;
    if (state == KEEL_FAILED && !run->args.partial)
      keel_run_fail(run, keel_tensor_query(tensor));
  }
  return KD_OK;
}

/* How many of its inputs a step has to wait for. */
static uint32_t pending_inputs_of(const keel_run *run, const keel_step *step) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < step->input_count; k++)
    for (uint32_t i = 0; i < run->executable->input_count; i++)
      count += run->pending_input[i].value == step->inputs[k] &&
               step->inputs[k] != KEEL_ABSENT;
  return count;
}

/* Starts the roots that wait for no input; the others start as their inputs become
 * ready. */
static keel_status begin_with_pending(keel_run *run) {
  const keel_executable *executable = run->executable;
  const keel_order *order = run->order;
  keel_pool *pool = executable->plan->context->pool;
  uint32_t *ready = malloc(((size_t)order->root_count + 1) * sizeof *ready);
  uint32_t count = 0;
  if (!ready) return keel_no_memory(order->root_count * sizeof *ready);
  for (uint32_t i = 0; i < executable->step_count; i++)
    atomic_fetch_add_explicit(&run->waits[i],
                              pending_inputs_of(run, &executable->steps[i]),
                              memory_order_relaxed);
  for (uint32_t i = 0; i < order->root_count; i++)
    if (!atomic_load_explicit(&run->waits[order->roots[i]],
                              memory_order_relaxed))
      ready[count++] = order->roots[i];
  for (uint32_t i = 0; i < executable->input_count; i++)
    if (run->pending_input[i].value != KEEL_ABSENT)
      keel_tensor_then(run->values[run->pending_input[i].value],
                       &run->pending_input[i].waiter);
  for (uint32_t i = 0; i < count; i++)
    keel_pool_submit(pool, &run->tasks[ready[i]].task);
  free(ready);
  return KD_OK;
}

static void begin_roots(keel_run *run) {
  keel_pool *pool = run->executable->plan->context->pool;
  const keel_order *order = run->order;
  for (uint32_t i = 1; i < order->root_count; i++)
    keel_pool_submit(pool, &run->tasks[order->roots[i]].task);
  run_roots(run, 0, order->root_count ? 1 : 0);
}

void keel_run_parallel(keel_run *run) {
  keel_pool *pool = run->executable->plan->context->pool;
  bool entered = keel_pool_enter(pool);
  set_counts(run, 0);
  if (run->is_static) /* only kernels: no step blocks on another */
    keel_parallel_pieces(pool, run->order->root_count,
                         keel_scheduler_grain(&run->executable->scheduler),
                         run_roots, run);
  else
    begin_roots(run);
  keel_pool_wait(pool, all_done, run);
  if (entered) keel_pool_leave(pool);
}

static void take_inputs(keel_run *run) {
  const keel_executable *executable = run->executable;
  keel_tensor *const *inputs = run->args.inputs;
  for (uint32_t i = 0; i < executable->value_count; i++) {
    run->values[i] = executable->constants[i];
    atomic_store_explicit(&run->uses[i], executable->uses[i],
                          memory_order_relaxed);
  }
  for (uint32_t i = 0; i < executable->input_count; i++) {
    uint32_t value = executable->inputs[i];
    if (executable->constants[value] || !executable->uses[value]) continue;
    if (run->records_types)
      executable->types[value] = inputs[i] ? inputs[i]->type : NULL;
    if (run->args.held && run->args.donated[i])
      keel_inputs_pass(run->args.held, i, &run->values[value]);
    else
      run->values[value] = keel_tensor_retain(inputs[i]);
  }
}

/* Output `index` of the run. If nothing produced it, it is the failure (partial runs), or
 * an error. */
static keel_status hand_out(const keel_run *run, uint32_t index,
                            keel_tensor *failure, keel_tensor **out_value) {
  const keel_executable *executable = run->executable;
  keel_tensor *value = run->values[executable->outputs[index]];
  keel_status status = KD_OK;
  if (!value && !failure)
    status = keel_fail(KD_INVALID_ARGUMENT,
                       "output %u of %s is made by no node", (unsigned)index,
                       *executable->name ? executable->name : "the program");
  *out_value = keel_tensor_retain(value ? value : failure);
  return status;
}

static keel_status end_run(keel_run *run) {
  keel_executable *executable = run->executable;
  keel_tensor *failure =
      atomic_load_explicit(&run->failure, memory_order_acquire);
  keel_status status = KD_OK;
  for (uint32_t i = 0;
       (!failure || run->args.partial) && i < executable->output_count; i++) {
    keel_status one = hand_out(run, i, failure, &run->args.outputs[i]);
    if (status == KD_OK) status = one;
  }
  for (uint32_t i = 0; i < executable->value_count; i++)
    if (!executable->constants[i]) keel_tensor_release(run->values[i]);
  if (failure) {
    status = keel_tensor_query(failure);
    keel_tensor_release(failure);
  }
  return status;
}

/* Whether every step ends before its call returns, and no other thread would help. */
static bool is_sequential(const keel_run *run) {
  const keel_executable *executable = run->executable;
  return !executable->pends && !executable->nests && !executable->blocks &&
         keel_run_is_serial(run);
}

static void begin_values(keel_run *run, bool ready) {
  keel_executable *executable = run->executable;
  /* a pending copy's type may be unknown, and the function would not fit static runs */
  run->records_types =
      ready && !executable->pends &&
      !atomic_load_explicit(&executable->types_claimed, memory_order_relaxed) &&
      !atomic_exchange_explicit(&executable->types_claimed, true,
                                memory_order_acquire);
  run->order = executable->order;
  take_inputs(run);
}

static keel_status end_values(keel_run *run) {
  keel_executable *executable = run->executable;
  keel_status status = end_run(run);
  /* release: publishes the recorded types, for keel_memory_plan_of; after a failure the
   * next run may record them */
  if (run->records_types && status == KD_OK)
    atomic_store_explicit(&executable->types_final, true, memory_order_release);
  else if (run->records_types)
    atomic_store_explicit(&executable->types_claimed, false,
                          memory_order_release);
  return status;
}

static void run_sequential(keel_run *run) {
  for (uint32_t i = 0; i < run->executable->step_count; i++)
    keel_run_step(run, i);
}

static keel_status run_dynamic(keel_run *run) {
  /* an input that has failed has no type */
  begin_values(run,
               !run->args.partial ||
                   keel_tensors_ready(run->args.inputs, run->args.input_count));
  run->has_pending_inputs = false;
  if (is_sequential(run))
    run_sequential(run);
  else
    keel_run_parallel(run);
  return end_values(run);
}

/* Runs statically if possible. If that fails and the run is partial, it is repeated
 * dynamically. */
static keel_status run_any(keel_run *run) {
  if (keel_run_begin_static(run)) {
    keel_status status = keel_run_static(run);
    if (status == KD_OK || !run->args.partial) return status;
    run->is_static = false;
    atomic_store_explicit(&run->failure, NULL, memory_order_relaxed);
  }
  return run_dynamic(run);
}

/* ---- runs --------------------------------------------------------------------- */

static keel_status begin_run(keel_executable *executable,
                             const keel_run_args *args, keel_run **out_run) {
  for (uint32_t i = 0; i < args->output_count; i++)
    args->outputs[i] = NULL;
  if (args->input_count != executable->input_count ||
      args->output_count != executable->output_count)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "function \"%s\" takes %u inputs and gives %u outputs, not"
                     " %u and %u",
                     executable->name, (unsigned)executable->input_count,
                     (unsigned)executable->output_count,
                     (unsigned)args->input_count, (unsigned)args->output_count);
  /* a loop's body may have no step that would check */
  if (args->cancellation && !args->partial &&
      keel_cancellation_is_due(args->cancellation))
    return keel_cancellation_fail(args->cancellation, NULL, NULL);
  keel_run *run = take_run(executable);
  if (!run) return KD_OUT_OF_MEMORY;
  run->executable = executable;
  run->args = *args;
  run->done = NULL;
  run->async = NULL;
  /* before the run takes over those that are donated */
  run->has_members =
      args->async && keel_members_among(args->inputs, args->input_count);
  run->profile =
      atomic_load_explicit(&executable->plan->profile, memory_order_relaxed);
  atomic_store_explicit(&run->failure, NULL, memory_order_relaxed);
  *out_run = run;
  return KD_OK;
}

/* Outputs are NULL from here on, until they are handed out. */
static keel_status make_run(keel_executable *executable,
                            const keel_run_args *args, keel_run **out_run) {
  keel_status status = begin_run(executable, args, out_run);
  if (status != KD_OK)
    keel_members_fail(args->inputs, args->input_count, status);
  return status;
}

/* The run's memory may be another's now. */
static keel_status end_of(keel_run *run, keel_status status) {
  const keel_run_args args = run->args;
  put_run(run);
  for (uint32_t i = 0;
       status != KD_OK && !args.partial && i < args.output_count; i++) {
    keel_tensor_release(args.outputs[i]);
    args.outputs[i] = NULL;
  }
  return status;
}

keel_status keel_executable_run(keel_executable *executable,
                                const keel_run_args *args) {
  keel_run *run = NULL;
  keel_status status = make_run(executable, args, &run);
  return status == KD_OK ? end_of(run, run_any(run)) : status;
}

/* Ends a run that did not end in the call that started it. */
static void run_finish(keel_run *run) {
  keel_done *done = run->done;
  done->call(done, end_of(run, end_values(run)));
}

/* Nothing has started. */
static void fail_before(keel_run *run, keel_status status) {
  keel_members_fail(run->args.inputs, run->args.input_count, status);
  keel_run_fail(run, status);
}

/* Whether the run has ended once everything has been started. */
static bool begin_parallel(keel_run *run) {
  uint32_t pending_input = 0;
  keel_status status =
      run->async ? find_pending_inputs(run, &pending_input) : KD_OK;
  if (status != KD_OK) {
    fail_before(run, status);
    return true;
  }
  run->done = run->args.done;
  run->has_pending_inputs = pending_input != 0;
  set_counts(run, 1 + pending_input);
  if (pending_input) {
    status = begin_with_pending(run);
    if (status != KD_OK) {
      fail_before(run, status);
      return true;
    }
  } else {
    begin_roots(run);
  }
  /* acq_rel: as in run_from */
  return atomic_fetch_sub_explicit(&run->remaining, 1, memory_order_acq_rel) ==
         1;
}

bool keel_executable_begin(keel_executable *executable,
                           const keel_run_args *args, keel_status *out_status) {
  keel_run *run = NULL;
  *out_status = make_run(executable, args, &run);
  if (*out_status != KD_OK) return true;
  bool ready = (!args->async && !args->partial) ||
               keel_tensors_ready(args->inputs, args->input_count);
  if (ready && !args->partial && keel_run_begin_static(run)) {
    *out_status = keel_run_static(run);
  } else {
    run->is_static = false;
    begin_values(run, ready);
    run->async = args->async;
    if (ready && is_sequential(run))
      run_sequential(run);
    else if (!begin_parallel(run))
      return false;
    *out_status = end_values(run);
  }
  *out_status = end_of(run, *out_status);
  return true;
}
