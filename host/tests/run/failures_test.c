/* failures_test.c - nobody reads the output of failed work as a result, whoever was told of
 * the failure first: in single calls, in programs, and beside a thread that always waits. On
 * the toy's queue a product by 13 fails, after the call has returned. */
#include <pthread.h>
#include <stdatomic.h>

#include "device/device.h"
#include "one_context.h"
#include "toy/toy.h"

static keel_device *queue;
static const float two[2] = {1, -2};
static const int64_t dims[1] = {2};

SETUP(begin) {
  context = open_with(CPU_PLUGIN, TOY("queue"), 2);
  expect_ok(keel_device_find(context, "queue:0", &queue));
  return 0;
}

static keel_tensor *there(const float *values) {
  keel_tensor *here = create_tensor(context, KD_F32, values ? 1 : 0, dims,
                                    values ? values : (const float[]){13});
  keel_tensor *moved = tensor_on(here, queue);
  keel_tensor_release(here);
  return moved;
}

/* An op on the queue; a failed call gives NULL. */
static keel_tensor *call(const char *op, keel_tensor *x, keel_tensor *y) {
  keel_tensor *in[] = {x, y}, *out = NULL;
  expect_ok(keel_device_push(queue));
  keel_call(context, op, NULL, 0, in, y ? 2 : 1, &out, 1);
  keel_device_pop();
  return out;
}

static void expect_bad(keel_tensor *tensor) {
  float got[2];
  assert_int_equal(keel_tensor_read(tensor, got, sizeof got), KD_INTERNAL);
  assert_non_null(strstr(keel_message(), "13"));
}

/* ---- one thread ------------------------------------------------------------------------- */

TEST_THAT(who_reads_second_is_told_too) {
  keel_tensor *x = there(two), *thirteen = there(NULL);
  keel_tensor *kept = call("Relu", x, NULL);
  expect_floats(kept, (const float[]){1, 0}, 2);
  for (int round = 0; round < 100; round++) {
    keel_tensor *bad = call("Mul", x, thirteen);
    expect_bad(bad);
    expect_bad(bad);
    /* the device works again, and what was there before is there */
    keel_tensor *good = call("Add", x, x);
    expect_floats(good, (const float[]){2, -4}, 2);
    expect_floats(kept, (const float[]){1, 0}, 2);
    expect_bad(bad);
    RELEASE(good, bad);
  }
  RELEASE(kept, x, thirteen);
}

TEST_THAT(what_another_wait_was_told_is_not_lost) {
  keel_tensor *x = there(two), *thirteen = there(NULL);
  keel_tensor *bad = call("Mul", x, thirteen), *host = NULL;
  assert_int_equal(keel_device_synchronize(queue), KD_INTERNAL);
  expect_ok(keel_device_synchronize(queue));
  /* nothing is computed of it, copied, or shared */
  keel_tensor *after = call("Relu", bad, NULL);
  assert_null(after);
  assert_non_null(strstr(keel_message(), "13"));
  assert_int_equal(keel_tensor_to(bad, NULL, &host), KD_INTERNAL);
  expect_bad(bad);
  RELEASE(bad, x, thirteen);
}

/* A copy out of the device that succeeds settles all work before it. */
static keel_plan *plan_of_factor(float factor, bool to_host);
TEST_THAT(what_came_before_a_good_copy_stays_good) {
  keel_tensor *x = there(two), *thirteen = there(NULL), *y = NULL;
  keel_plan *plan = plan_of_factor(2, true);
  keel_tensor *kept = call("Relu", x, NULL);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  keel_tensor *bad = call("Mul", x, thirteen);
  assert_int_equal(keel_device_synchronize(queue), KD_INTERNAL);
  expect_floats(kept, (const float[]){1, 0}, 2);
  expect_bad(bad);
  release_all((keel_tensor *[]){x, thirteen, y, kept, bad}, 5);
  keel_plan_release(plan);
}

/* ---- names --------------------------------------------------------------------------------- */

static const keel_run_params enqueues = {.struct_size = sizeof enqueues,
                                         .flags = KEEL_RUN_ENQUEUES};

/* The device fails behind the call: a wait names the op. */
TEST_THAT(a_call_is_named) {
  keel_tensor *x = there(two), *thirteen = there(NULL);
  keel_tensor *bad = call("Mul", x, thirteen);
  expect_ok(keel_tensor_query(bad));
  expect_fails(keel_tensor_wait(bad), KD_INTERNAL,
               "13; while queue:0 ran Mul (f32[2] f32[])");
  keel_tensor_release(bad);
  /* the device does not say which it was of several */
  keel_tensor *good = call("Relu", x, NULL);
  bad = call("Mul", good, thirteen);
  keel_tensor *after = call("Add", bad, good);
  expect_fails(keel_tensor_wait(after), KD_INTERNAL,
               "13; while queue:0 ran one of 3 launches, Relu (f32[2]) to"
               " Add (f32[2] f32[2])");
  release_all((keel_tensor *[]){x, thirteen, good, bad, after}, 5);
  /* more than are noted: the newest, and that there were more */
  keel_tensor *at = there(two);
  thirteen = there(NULL);
  bad = call("Mul", at, thirteen);
  for (int i = 0; i < 100; i++) {
    keel_tensor *next = call("Relu", at, NULL);
    keel_tensor_release(at);
    at = next;
  }
  expect_fails(keel_tensor_wait(at), KD_INTERNAL,
               "one of more than 64 launches, the newest of which are Relu");
  release_all((keel_tensor *[]){at, thirteen, bad}, 3);
}

/* Of a sequence the work of its items counts. */
TEST_THAT(a_sequence_is_as_good_as_its_items) {
  keel_tensor *x = there(two), *thirteen = there(NULL), *all = NULL;
  keel_tensor *items[] = {call("Relu", x, NULL), call("Mul", x, thirteen)};
  expect_ok(keel_sequence_create(context, items, 2, &all));
  expect_fails(keel_tensor_wait(all), KD_INTERNAL, "13");
  release_all((keel_tensor *[]){x, thirteen, items[0], items[1], all}, 5);
}

/* ---- programs --------------------------------------------------------------------------- */

static keel_plan *plan_of_factor(float factor, bool to_host) {
  keel_builder *builder = create_builder(context, "by");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, dims);
  expect_ok(keel_builder_node_name(builder, "first"));
  keel_value y = op(builder, "Relu", x, KEEL_ABSENT);
  expect_ok(keel_builder_node_name(builder, "by"));
  y = op(builder, "Mul", y, add_constant(builder, KD_F32, 0, NULL, &factor));
  y = op(builder, "Relu", y, KEEL_ABSENT);
  if (to_host) y = op(builder, "Neg", y, KEEL_ABSENT);
  keel_program *program = program_giving(builder, y);
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = queue));
  keel_program_release(program);
  return plan;
}

TEST_THAT(a_program_s_output_and_input) {
  keel_plan *bad = plan_of_factor(13, false), *good = plan_of_factor(2, false);
  keel_tensor *x = there(two), *y = NULL, *z = NULL;
  for (int run = 0; run < 6; run++) { /* dynamic, static, then recorded */
    expect_ok(keel_plan_run(good, &x, 1, &z, 1));
    expect_floats(z, (const float[]){2, 0}, 2);
    keel_tensor_release(z);
    /* the output stays on the device, whose work fails later */
    expect_ok(keel_plan_run_with(bad, &enqueues, &x, 1, &y, 1));
    assert_int_equal(keel_device_synchronize(queue), KD_INTERNAL);
    assert_int_equal(keel_plan_run(good, &y, 1, &z, 1), KD_INTERNAL);
    assert_non_null(strstr(keel_message(), "13"));
    expect_bad(y);
    keel_tensor_release(y);
  }
  RELEASE(x, bad, good);
}

/* Whatever the status is, and however the run is done: op by op, with launches that are written
 * once, recorded. The next run goes well. */
TEST_THAT(a_run_waits_for_its_device) {
  static const kd_status statuses[] = {KD_INTERNAL, KD_OUT_OF_MEMORY,
                                       KD_INVALID_ARGUMENT, KD_DATA_LOSS,
                                       KD_DEADLINE_EXCEEDED};
  toy_state *toy = toy_of(TOY("queue"));
  keel_plan *bad = plan_of_factor(13, false), *good = plan_of_factor(2, false);
  keel_tensor *x = there(two), *y = NULL;
  for (int run = 0; run < 20; run++) {
    kd_status status = statuses[run % 5];
    atomic_store(&toy->fails, status);
    assert_int_equal(keel_plan_run(bad, &x, 1, &y, 1), status);
    assert_null(y);
    expect_message("13");
    expect_message("while queue:0 ran one of ");
    /* the first time, the constant's arrival tells that the first launch is done */
    expect_message(run ? "3 launches" : " launches");
    expect_message(run ? "Relu \"first\" (f32[2]) to Relu \"by\" (f32[2])"
                       : "to Relu \"by\" (f32[2])");
    expect_ok(keel_plan_run(good, &x, 1, &y, 1));
    expect_floats(y, (const float[]){2, 0}, 2);
    keel_tensor_release(y);
    /* a failed value is handed out */
    assert_int_equal(
        keel_plan_run_with(bad, RUN_PARAMS(.flags = KEEL_RUN_PARTIAL), &x, 1,
                           &y, 1),
        status);
    expect_fails(keel_tensor_query(y), status, "while queue:0 ran one of ");
    keel_tensor_release(y);
    /* a run that does not wait leaves the failure to the value */
    expect_ok(keel_plan_run_with(bad, &enqueues, &x, 1, &y, 1));
    expect_fails(keel_tensor_wait(y), status, "while queue:0 ran one of ");
    keel_tensor_release(y);
    y = NULL;
  }
  assert_true(atomic_load(&toy->launches) > 10);
  atomic_store(&toy->fails, 0);
  RELEASE(x, bad, good);
}

/* x s + 1, and the 1 is copied to the device when the Add is first called: behind a Mul that fails. */
TEST_THAT(a_constant_behind_failing_work_is_copied_again) {
  toy_state *toy = toy_of(TOY("queue"));
  for (uint32_t flags = 0; flags <= KEEL_RUN_ENQUEUES;
       flags += KEEL_RUN_ENQUEUES) {
    keel_builder *builder = create_builder(context, "behind");
    keel_value x = keel_builder_input(builder, "x", KD_F32, 1, dims);
    keel_value s = keel_builder_input(builder, "s", KD_F32, 0, NULL);
    keel_value one =
        add_constant(builder, KD_F32, 1, dims, (const float[]){1, 1});
    x = op(builder, "Add", op(builder, "Mul", x, s), one);
    keel_program *program = program_giving(builder, x);
    keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = queue));
    keel_tensor *in[] = {there(two), there(NULL)}, *y = NULL;
    int before = toy->copies_in;
    atomic_store(&toy->naps, 1); /* it is enqueued before the Mul has failed */
    keel_status status =
        keel_plan_run_with(plan, RUN_PARAMS(.flags = flags), in, 2, &y, 1);
    if (status == KD_OK) status = keel_tensor_wait(y);
    assert_int_equal(status, KD_INTERNAL);
    keel_tensor_release(y);
    atomic_store(&toy->naps, 0);
    keel_tensor *here =
        create_tensor(context, KD_F32, 0, NULL, (const float[]){3});
    keel_tensor *three = tensor_on(here, queue);
    for (int run = 0; run < 6; run++) {
      keel_tensor *again[] = {in[0], three};
      y = NULL;
      expect_ok(keel_plan_run(plan, again, 2, &y, 1));
      expect_floats(y, (const float[]){4, -5}, 2);
      keel_tensor_release(y);
    }
    /* the constant, the factor, and the constant again */
    assert_int_equal(toy->copies_in - before, 3);
    release_all(in, 2);
    RELEASE(here, three, plan, program);
  }
}

/* ---- several devices ---------------------------------------------------------------------- */

static keel_tensor *moved_to(keel_device *device, const float *value,
                             uint32_t rank) {
  keel_tensor *here = create_tensor(context, KD_F32, rank, dims, value);
  keel_tensor *there = tensor_on(here, device);
  keel_tensor_release(here);
  return there;
}

/* two * factor on a device that has not been waited for. */
static keel_tensor *product_on(keel_device *device, float factor) {
  keel_tensor *in[] = {moved_to(device, two, 1), moved_to(device, &factor, 0)};
  keel_tensor *product = call_op_on(device, context, "Mul", in, 2);
  release_all(in, 2);
  return product;
}

/* The outputs are x * 13, and z as it is. */
static keel_plan *plan_beside(void) {
  const float thirteen = 13;
  keel_builder *b = create_builder(context, "beside");
  keel_value x = keel_builder_input(b, "x", KD_F32, 1, dims);
  keel_value z = keel_builder_input(b, "z", KD_F32, 1, dims);
  keel_tensor *factor = create_tensor(context, KD_F32, 0, NULL, &thirteen);
  keel_builder_output(b, "y", op(b, "Mul", x, constant_of(b, factor)));
  keel_builder_output(b, "z", z);
  keel_program *program = finish_program(b);
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = queue));
  keel_program_release(program);
  return plan;
}

static void expect_first(bool good, bool part) {
  const char *plugins[] = {CPU_PLUGIN, TOY("queue"), TOY("echo")};
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, plugins, 3, .workers = 2);
  keel_context *before = context;
  expect_ok(keel_open(&params, &context));
  expect_ok(keel_device_find(context, "queue:0", &queue));
  keel_device *echo = find_device(context, "echo:0");
  keel_plan *plan = plan_beside();
  keel_tensor *in[] = {there(two), product_on(echo, good ? 2 : 13)};
  keel_tensor *out[2] = {NULL, NULL};
  expect_fails(
      keel_plan_run_with(plan, RUN_PARAMS(.flags = part ? KEEL_RUN_PARTIAL : 0),
                         in, 2, out, 2),
      KD_INTERNAL, "while queue:0 ran Mul");
  for (int i = 0; i < 2; i++)
    assert_true((out[i] != NULL) == part);
  if (part) {
    assert_int_equal(keel_tensor_query(out[0]), KD_INTERNAL);
    assert_int_equal(keel_tensor_query(out[1]), good ? KD_OK : KD_INTERNAL);
  }
  release_all(in, 2);
  release_all(out, 2);
  RELEASE(plan, context);
  context = before;
}

/* The first output's work fails on one device, and the second's, on another, ends well or fails
 * as well: the first failure is the run's, with its message. */
TEST_THAT(the_first_failure_of_several_counts) {
  expect_first(true, true);
  expect_first(true, false);
  expect_first(false, true);
  expect_first(false, false);
}

/* What a run has put into a variable is its work, too. */
TEST_THAT(a_variable_counts) {
  keel_tensor *zero = there((const float[]){0, 0}), *variable = NULL;
  variable = call_op_on(queue, context, "keel::Variable", &zero, 1);
  keel_builder *builder = create_builder(context, "assigns");
  keel_value at = keel_builder_resource(builder, "at");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, dims);
  keel_value factor = keel_builder_input(builder, "factor", KD_F32, 0, NULL);
  keel_value product = op(builder, "Mul", x, factor);
  keel_builder_output(builder, "y", op(builder, "Relu", x, KEEL_ABSENT));
  op(builder, "keel::VariableAssign", at, product);
  keel_program *program = finish_program(builder);
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = queue));
  keel_tensor *in[] = {variable, there(two), there(NULL)}, *y = NULL;
  expect_fails(keel_plan_run(plan, in, 3, &y, 1), KD_INTERNAL,
               "13; while queue:0 ran");
  assert_null(y);
  expect_fails(keel_plan_run_with(plan, RUN_PARAMS(.flags = KEEL_RUN_PARTIAL),
                                  in, 3, &y, 1),
               KD_INTERNAL, "13; while queue:0 ran");
  assert_non_null(y);
  release_all((keel_tensor *[]){zero, in[0], in[1], in[2], y}, 5);
  RELEASE(program, plan);
}

/* ---- another thread ---------------------------------------------------------------------- */

static atomic_bool stop;

static void *wait_always(void *told) {
  while (!atomic_load(&stop))
    if (keel_device_synchronize(queue) != KD_OK)
      atomic_fetch_add((atomic_int *)told, 1);
  return NULL;
}

TEST_THAT(every_run_that_fails_says_so) {
  enum { RUNS = 2000 };
  pthread_t thread;
  atomic_int told = 0;
  keel_plan *plan = plan_of_factor(13, true);
  keel_tensor *x = there(two), *y = NULL;
  atomic_store(&stop, false);
  pthread_create(&thread, NULL, wait_always, &told);
  int failed = 0;
  for (int i = 0; i < RUNS; i++) {
    failed += keel_plan_run(plan, &x, 1, &y, 1) == KD_INTERNAL;
    keel_tensor_release(y);
    y = NULL;
  }
  atomic_store(&stop, true);
  pthread_join(thread, NULL);
  assert_int_equal(failed, RUNS);
  RELEASE(x, plan);
  keel_device_synchronize(queue);
}

/* ---- waits ----------------------------------------------------------------------------- */

static void *wait_once(void *tensor) {
  expect_ok(keel_tensor_wait(tensor));
  return NULL;
}

static void run_once(keel_plan *plan) {
  keel_tensor *x = there(two), *y = output_of(plan, &x, 1);
  expect_floats(y, (const float[]){7, 0}, 2);
  RELEASE(x, y);
}

/* While one thread waits for the device, others give it work. */
TEST_THAT(who_waits_keeps_nobody_from_working) {
  toy_state *toy = toy_of(TOY("queue"));
  keel_plan *slow = plan_of_factor(7, false);
  keel_tensor *x = there(two), *y = NULL;
  pthread_t thread;
  atomic_store(&toy->gate, 1);
  expect_ok(keel_plan_run_with(slow, &enqueues, &x, 1, &y, 1));
  pthread_create(&thread, NULL, wait_once, y);
  for (int i = 0; i < 200;
       i++) { /* before and after the thread has begun to wait */
    keel_tensor *z = call("Relu", x, NULL);
    keel_tensor_release(z);
    sched_yield();
  }
  atomic_store(&toy->gate, 0);
  pthread_join(thread, NULL);
  expect_floats(y, (const float[]){7, 0}, 2);
  RELEASE(x, y);
  run_once(slow);
  keel_plan_release(slow);
}

/* A run's time is over though its device has all of it. */
TEST_THAT(a_wait_for_the_device_ends) {
  toy_state *toy = toy_of(TOY("queue"));
  keel_plan *slow = plan_of_factor(7, false);
  keel_tensor *x = there(two), *y = NULL;
  for (int round = 0; round < 5; round++) {
    atomic_store(&toy->gate, 1);
    assert_int_equal(
        keel_plan_run_with(slow, RUN_PARAMS(.timeout = 20000000), &x, 1, &y, 1),
        KD_DEADLINE_EXCEEDED);
    assert_null(y);
    expect_message(
        "past its deadline; while queue:0 completed its earlier work");
    atomic_store(&toy->gate, 0);
    run_once(slow);
  }
  RELEASE(x, slow);
}

static void *wait_for_all(void *status) {
  *(keel_status *)status = keel_device_synchronize(queue);
  return NULL;
}

/* Another thread waits for all of the stream, without a limit, and keeps its lock. */
TEST_THAT(a_limit_passes_beside_a_wait_without) {
  toy_state *toy = toy_of(TOY("queue"));
  keel_plan *slow = plan_of_factor(7, false);
  keel_builder *builder = create_builder(context, "as it is");
  keel_plan *same = plan_giving(
      builder, keel_builder_input(builder, "x", KD_F32, 1, dims), NULL);
  keel_tensor *x = there(two), *y = NULL, *z = NULL;
  keel_status waited = KD_INTERNAL;
  pthread_t thread;
  atomic_store(&toy->gate, 1);
  expect_ok(keel_plan_run_with(slow, &enqueues, &x, 1, &y, 1));
  pthread_create(&thread, NULL, wait_for_all, &waited);
  while (!pthread_mutex_trylock(&queue->stream_lock)) {
    pthread_mutex_unlock(&queue->stream_lock);
    sched_yield();
  }
  assert_int_equal(
      keel_plan_run_with(same, RUN_PARAMS(.timeout = 20000000), &y, 1, &z, 1),
      KD_DEADLINE_EXCEEDED);
  assert_null(z);
  atomic_store(&toy->gate, 0);
  pthread_join(thread, NULL);
  expect_ok(waited);
  expect_ok(keel_plan_run_with(same, NULL, &y, 1, &z, 1));
  expect_floats(z, (const float[]){7, 0}, 2);
  release_all((keel_tensor *[]){x, y, z}, 3);
  RELEASE(slow, same);
}

/* The work's own failure is not taken for a look that came too early. */
TEST_THAT(work_may_fail_as_late) {
  toy_state *toy = toy_of(TOY("queue"));
  keel_cancel *cancel = create_cancel(context);
  keel_plan *bad = plan_of_factor(13, false);
  keel_tensor *x = there(two), *y = NULL;
  atomic_store(&toy->fails, KD_DEADLINE_EXCEEDED);
  atomic_store(&toy->naps, 1);
  for (int run = 0; run < 4; run++) {
    expect_fails(
        keel_plan_run_with(bad, RUN_PARAMS(.cancel = cancel), &x, 1, &y, 1),
        KD_DEADLINE_EXCEEDED, "13; while queue:0 ran");
  }
  atomic_store(&toy->naps, 0);
  atomic_store(&toy->fails, 0);
  RELEASE(x, bad, cancel);
}

/* ---- memory ----------------------------------------------------------------------------- */

/* Two values fit into the device's MiB, the third does not. */
enum { MANY = 100000 };

static keel_tensor *many(void) {
  return create_tensor(context, KD_F32, DIMS(MANY), NULL);
}

SETUP(begin_full) {
  context = open_with(CPU_PLUGIN, TOY("full"), 2);
  expect_ok(keel_device_find(context, "full:0", &queue));
  return 0;
}

TEST_BETWEEN(no_memory_names_what_wanted_it, begin_full, close_context) {
  keel_tensor *in[] = {many(), many()}, *y = NULL;
  keel_tensor *large = create_tensor(context, KD_F32, DIMS(4 * MANY), NULL);
  expect_ok(keel_device_push(queue));
  for (int round = 0; round < 3; round++) {
    expect_fails(keel_call(context, "Add", NULL, 0, in, 2, &y, 1),
                 KD_OUT_OF_MEMORY,
                 "for output 0, f32[100000]; while full:0 ran Add"
                 " (f32[100000] f32[100000])");
    expect_fails(keel_call(context, "Relu", NULL, 0, &large, 1, &y, 1),
                 KD_OUT_OF_MEMORY,
                 "for input 0, f32[400000]; while full:0 ran Relu");
    expect_ok(keel_call(context, "Relu", NULL, 0, in, 1, &y, 1));
    keel_tensor_release(y);
  }
  keel_device_pop();
  release_all((keel_tensor *[]){in[0], in[1], large}, 3);
}

/* A program of x + y. */
static keel_program *sum_of(int64_t size) {
  keel_builder *builder = create_builder(context, "sums");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &size);
  keel_value y = keel_builder_input(builder, "y", KD_F32, 1, &size);
  expect_ok(keel_builder_node_name(builder, "sum"));
  keel_builder_output(builder, "z", op(builder, "Add", x, y));
  return finish_program(builder);
}

TEST_BETWEEN(a_plan_without_memory_names_it_too, begin_full, close_context) {
  const int64_t larger = 4 * MANY;
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = queue};
  keel_program *small = sum_of(MANY), *large = sum_of(larger);
  keel_plan *plan = create_plan(small, &params);
  keel_tensor *in[] = {many(), many()}, *z = NULL;
  for (int run = 0; run < 4; run++) {
    expect_fails(keel_plan_run(plan, in, 2, &z, 1), KD_OUT_OF_MEMORY,
                 "for output 0, f32[100000]; while full:0 ran Add \"sum\"");
  }
  keel_plan_release(plan);
  release_all(in, 2);
  plan = create_plan(large, &params);
  for (int i = 0; i < 2; i++)
    in[i] = create_tensor(context, KD_F32, 1, &larger, NULL);
  for (int run = 0; run < 4; run++) {
    expect_fails(keel_plan_run(plan, in, 2, &z, 1), KD_OUT_OF_MEMORY,
                 "f32[400000], was copied to full:0");
  }
  release_all(in, 2);
  RELEASE(plan, small, large);
}

int main(void) {
  around_each(begin, close_context);
  return tests_run(NULL, NULL);
}
