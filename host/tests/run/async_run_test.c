/* async_run_test.c - runs that nobody waits for: what they give early, what they need
 * late. */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "one_context.h"
#include "toy/toy.h"

static const float first_pair[] = {1, -2};

static keel_tensor *promise(void) {
  return create_promise(context);
}

static void fulfil(keel_tensor *pending, const float *data, int64_t count) {
  keel_tensor *value = floats(context, count, data);
  expect_ok(keel_tensor_fulfil(pending, value));
  keel_tensor_release(value);
}

static void begin(keel_plan *plan, uint32_t flags, keel_tensor *const *in,
                  uint32_t n, keel_tensor **out, uint32_t m) {
  expect_ok(keel_plan_begin(plan, RUN_PARAMS(.flags = flags), in, n, out, m));
}

/* Waits, looks, and releases. */
static void expect_pair(keel_tensor *tensor, float a, float b) {
  expect_ok(keel_tensor_wait(tensor));
  expect_floats(tensor, (const float[]){a, b}, 2);
  keel_tensor_release(tensor);
}

static void expect_failed(keel_tensor *tensor, keel_status status,
                          const char *why) {
  expect_fails(keel_tensor_wait(tensor), status, why);
  keel_tensor_release(tensor);
}

/* Opens a runtime for y = -relu(a), z = relu(b) + y, w = relu(b): of pairs. */
static keel_plan *open_plan_of_two(int32_t workers) {
  const int64_t two = 2;
  context = open_with(CPU_PLUGIN, NULL, workers);
  keel_builder *g = create_builder(context, "two");
  keel_value a = keel_builder_input(g, "a", KD_F32, 1, &two);
  keel_value b = keel_builder_input(g, "b", KD_F32, 1, &two);
  keel_value y = op(g, "Neg", op(g, "Relu", a, KEEL_ABSENT), KEEL_ABSENT);
  keel_value w = op(g, "Relu", b, KEEL_ABSENT);
  keel_builder_output(g, "y", y);
  keel_builder_output(g, "z", op(g, "Add", w, y));
  keel_builder_output(g, "w", w);
  return finish_plan(g, NULL);
}

/* ---- many at once ------------------------------------------------------------------- */

static void many(int32_t workers) {
  enum { RUNS = 200 };
  static keel_tensor *out[RUNS][3];
  keel_plan *plan = open_plan_of_two(workers);
  for (int i = 0; i < RUNS; i++) {
    const float a[] = {(float)i, -1}, b[] = {(float)-i, 1};
    keel_tensor *in[] = {floats(context, 2, a), floats(context, 2, b)};
    begin(plan, 0, in, 2, out[i], 3);
    release_all(in, 2);
  }
  keel_plan_release(plan);
  for (int i = RUNS; i-- > 0;) {
    float n = (float)i;
    expect_pair(out[i][2], 0, 1);
    expect_pair(out[i][1], -n, 1);
    expect_pair(out[i][0], -n, 0);
  }
  keel_close(context);
}

TEST_THAT(runs_are_under_way_at_once) {
  many(KEEL_NO_WORKERS);
  many(1);
  many(3);
}

/* ---- functions that are told ---------------------------------------------------------- */

static atomic_uint told, wrong;

static void note_done(void *number, keel_tensor *tensor, keel_status status) {
  float pair[2] = {0};
  if (status != KD_OK || keel_tensor_read(tensor, pair, sizeof pair) != KD_OK ||
      pair[0] != *(const float *)number)
    atomic_fetch_add(&wrong, 1);
  atomic_fetch_add(&told, 1);
}

/* Nobody else has the values: they live until the functions were called. */
static void functions_are_told_of_all_outputs(int32_t workers) {
  enum { RUNS = 100 };
  static float numbers[RUNS][3];
  keel_plan *plan = open_plan_of_two(workers);
  told = wrong = 0;
  for (int i = 0; i < RUNS; i++) {
    const float a[] = {(float)i, -1};
    keel_tensor *in[] = {floats(context, 2, a), promise()}, *out[3];
    numbers[i][0] = (float)-i;
    numbers[i][1] = 5 - (float)i;
    numbers[i][2] = 5;
    begin(plan, 0, in, 2, out, 3);
    for (int k = 0; k < 3; k++)
      expect_ok(keel_tensor_on_done(out[k], note_done, &numbers[i][k]));
    release_all(out, 3);
    fulfil(in[1], (const float[]){5, 6}, 2);
    release_all(in, 2);
  }
  keel_plan_release(plan);
  keel_close(context); /* waits for runs */
  assert_int_equal(told, 3 * RUNS);
  assert_int_equal(wrong, 0);
}

TEST_THAT(functions_are_told) {
  functions_are_told_of_all_outputs(KEEL_NO_WORKERS);
  functions_are_told_of_all_outputs(2);
}

/* ---- inputs that come late -------------------------------------------------------------- */

TEST_THAT(what_needs_no_pending_input_is_made) {
  keel_tensor *out[3];
  keel_plan *plan = open_plan_of_two(2);
  for (int i = 0; i < 50; i++) {
    keel_tensor *in[] = {floats(context, 2, first_pair), promise()};
    begin(plan, 0, in, 2, out, 3);
    expect_pair(out[0], -1, 0); /* b has not come */
    assert_int_equal(keel_tensor_query(out[1]), KD_BUSY);
    assert_int_equal(keel_tensor_query(out[2]), KD_BUSY);
    fulfil(in[1], (const float[]){-5, 6}, 2);
    expect_pair(out[1], -1, 6);
    expect_pair(out[2], 0, 6);
    release_all(in, 2);
  }
  RELEASE(plan, context);
}

/* Of a run that waits: with one input that is pending for ever. */
TEST_THAT(a_failed_input_counts_before_a_pending_one) {
  keel_tensor *out[3];
  keel_plan *plan = open_plan_of_two(KEEL_NO_WORKERS);
  keel_tensor *in[] = {promise(), promise()};
  keel_tensor_fail(in[1], KD_INTERNAL, "no second one");
  expect_fails(keel_plan_run(plan, in, 2, out, 3), KD_INTERNAL,
               "no second one");
  for (int i = 0; i < 3; i++)
    assert_null(out[i]);
  keel_tensor_fail(in[0], KD_INTERNAL, "no first one");
  release_all(in, 2);
  RELEASE(plan, context);
}

static void *fulfil_late(void *pending) {
  const float pair[] = {3, -4};
  keel_tensor *value = NULL;
  nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
  if (keel_tensor_create(context, KD_F32, DIMS(2), pair, &value) == KD_OK)
    keel_tensor_fulfil(pending, value);
  keel_tensor_release(value);
  return NULL;
}

TEST_THAT(a_partial_run_waits_beside_a_failed_input) {
  keel_tensor *out[3];
  pthread_t thread;
  keel_plan *plan = open_plan_of_two(KEEL_NO_WORKERS);
  keel_tensor *in[] = {promise(), promise()};
  keel_tensor_fail(in[1], KD_INTERNAL, "no second one");
  assert_int_equal(pthread_create(&thread, NULL, fulfil_late, in[0]), 0);
  assert_int_equal(
      keel_plan_run_with(plan, RUN_PARAMS(.flags = KEEL_RUN_PARTIAL), in, 2,
                         out, 3),
      KD_INTERNAL);
  pthread_join(thread, NULL);
  expect_pair(out[0], -3, 0);
  expect_failed(out[1], KD_INTERNAL, "no second one");
  expect_failed(out[2], KD_INTERNAL, "no second one");
  release_all(in, 2);
  RELEASE(plan, context);
}

TEST_THAT(one_pending_input_may_be_two) {
  keel_tensor *out[3], *late = NULL;
  keel_plan *plan = open_plan_of_two(KEEL_NO_WORKERS);
  late = promise();
  keel_tensor *in[] = {late, late};
  begin(plan, 0, in, 2, out, 3);
  keel_plan_release(plan);
  fulfil(late, (const float[]){3, -3}, 2);
  keel_tensor_release(late);
  expect_pair(out[0], -3, 0);
  expect_pair(out[1], 0, 0);
  expect_pair(out[2], 3, 0);
  keel_close(context);
}

TEST_THAT(an_input_that_fails_is_told) {
  keel_tensor *out[3];
  keel_plan *plan = open_plan_of_two(1);
  for (int before = 0; before < 2; before++)
    for (int partial = 0; partial < 2; partial++) {
      keel_tensor *in[] = {floats(context, 2, first_pair), promise()};
      if (before) keel_tensor_fail(in[1], KD_ABORTED, "b is lost");
      begin(plan, partial ? KEEL_RUN_PARTIAL : 0, in, 2, out, 3);
      if (!before) keel_tensor_fail(in[1], KD_ABORTED, "b is lost");
      expect_failed(out[1], KD_ABORTED, "b is lost");
      expect_failed(out[2], KD_ABORTED, "b is lost");
      if (partial)
        expect_pair(out[0], -1, 0);
      else /* it may have been made before */
        keel_tensor_release(out[0]);
      RELEASE(in[0], in[1]);
    }
  RELEASE(plan, context);
}

/* A plan is made before a pending input shows its shape. */
TEST_THAT(a_late_input_is_what_was_declared) {
  const float three[] = {1, -2, 3};
  keel_tensor *out[3];
  keel_plan *plan = open_plan_of_two(1);
  for (int partial = 0; partial < 2; partial++) {
    keel_tensor *in[] = {floats(context, 2, three), promise()};
    begin(plan, partial ? KEEL_RUN_PARTIAL : 0, in, 2, out, 3);
    expect_pair(out[0], -1, 0); /* it is under way */
    fulfil(in[1], three, 3);
    for (int i = 1; i < 3; i++)
      expect_failed(out[i], KD_INVALID_ARGUMENT,
                    "input \"b\" is f32[3], and the program declares f32[2]");
    release_all(in, 2);
  }
  RELEASE(plan, context);
}

/* A run that has failed tells so although an input has not come. */
TEST_THAT(a_failure_waits_for_no_input) {
  const int64_t open = -1;
  keel_tensor *out[2];
  context = open_with(CPU_PLUGIN, NULL, 1);
  keel_builder *g = create_builder(context, "fails");
  keel_value a = keel_builder_input(g, "a", KD_F32, 1, &open);
  keel_value b = keel_builder_input(g, "b", KD_F32, 1, &open);
  keel_value c = keel_builder_input(g, "c", KD_F32, 1, &open);
  keel_builder_output(g, "x", op(g, "Add", a, b)); /* 2 and 3 floats */
  keel_builder_output(g, "y", op(g, "Neg", c, KEEL_ABSENT));
  keel_plan *plan = finish_plan(g, NULL);
  const float three[] = {1, 2, 3};
  keel_tensor *in[] = {floats(context, 2, three), floats(context, 3, three),
                       promise()};
  begin(plan, 0, in, 3, out, 2);
  expect_failed(out[0], KD_INVALID_ARGUMENT, "Add");
  expect_failed(out[1], KD_INVALID_ARGUMENT, "Add");
  begin(plan, KEEL_RUN_PARTIAL, in, 3, out, 2);
  expect_failed(out[0], KD_INVALID_ARGUMENT, "Add");
  assert_int_equal(keel_tensor_query(out[1]), KD_BUSY);
  fulfil(in[2], three, 2);
  expect_pair(out[1], -1, -2);
  release_all(in, 3);
  keel_plan_release(plan);
  keel_close(
      context); /* waits for the first, which had to see the input come */
}

/* ---- outputs that come early --------------------------------------------------------------- */

TEST_THAT(an_output_is_known_before_the_run_ends) {
  keel_tensor *out[2];
  context = open_with(CPU_PLUGIN, TOY("queue"), KEEL_NO_WORKERS);
  toy_state *toy = toy_of(TOY("queue"));
  keel_device *queue = find_device(context, "queue:0");
  keel_builder *g = create_builder(context, "early");
  const float seven = 7;
  keel_value x = keel_builder_input(g, "x", KD_F32, DIMS(2));
  expect_ok(keel_device_push(queue));
  keel_value late = op(g, "Mul", x, add_constant(g, KD_F32, 0, NULL, &seven));
  keel_device_pop();
  keel_builder_output(g, "late", op(g, "Neg", late, KEEL_ABSENT));
  keel_builder_output(g, "early", op(g, "Neg", x, KEEL_ABSENT));
  keel_plan *plan = finish_plan(g, NULL);
  keel_tensor *in = floats(context, 2, first_pair);
  atomic_store(&toy->gate, 1);
  begin(plan, 0, &in, 1, out, 2);
  expect_pair(out[1], -1, 2);
  assert_int_equal(keel_tensor_query(out[0]), KD_BUSY);
  atomic_store(&toy->gate, 0);
  expect_pair(out[0], -7, 14);
  RELEASE(in, plan, context);
}

/* A run that begins as a whole gives nothing early: one input has not come. */
TEST_THAT(a_whole_run_waits_for_its_inputs) {
  for (int32_t workers = KEEL_NO_WORKERS; workers < 3; workers++) {
    keel_plan *plan = open_plan_of_two(workers);
    for (int i = 0; i < 40; i++) {
      keel_tensor *in[] = {i % 2 ? promise() : floats(context, 2, first_pair),
                           promise()};
      keel_tensor *out[3];
      expect_ok(keel_plan_begin(plan, RUN_PARAMS(.flags = KEEL_RUN_WHOLE), in,
                                2, out, 3));
      if (i % 2) fulfil(in[0], first_pair, 2);
      if (i < 2) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
      for (int k = 0; k < 3; k++)
        assert_int_equal(keel_tensor_query(out[k]), KD_BUSY);
      fulfil(in[1], (const float[]){5, 6}, 2);
      release_all(in, 2);
      expect_pair(out[0], -1, 0);
      expect_pair(out[1], 4, 6);
      expect_pair(out[2], 5, 6);
    }
    RELEASE(plan, context);
  }
}

/* Each run's input is the output of the one before: a long chain, begun at once. */
TEST_THAT(whole_runs_follow_each_other) {
  enum { RUNS = 3000 };
  const float none[] = {0, 0};
  for (int32_t workers = KEEL_NO_WORKERS; workers < 3; workers++) {
    keel_plan *plan = open_plan_of_two(workers);
    keel_tensor *first = promise(),
                *in[] = {keel_tensor_retain(first), floats(context, 2, none)};
    for (int i = 0; i < RUNS; i++) { /* y = -max(0, a): back and forth */
      keel_tensor *out[3];
      expect_ok(keel_plan_begin(plan, RUN_PARAMS(.flags = KEEL_RUN_WHOLE), in,
                                2, out, 3));
      keel_tensor_release(in[0]);
      release_all(out + 1, 2);
      in[0] = out[0];
    }
    fulfil(first, first_pair, 2);
    expect_pair(keel_tensor_retain(in[0]), 0, 0);
    release_all(in, 2);
    RELEASE(first, plan, context);
  }
}

static void *fulfil_then_open(void *second) {
  toy_state *toy = toy_of(TOY("queue"));
  nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
  fulfil(second, (const float[]){1, -2}, 2);
  nanosleep(&(struct timespec){.tv_sec = 4}, NULL);
  atomic_store(&toy->gate, 0);
  return NULL;
}

/* The same of single calls: a copy that is under way holds no thread, not even the only
 * one. */
TEST_THAT(a_called_copy_holds_no_thread) {
  const float seven_ = 7;
  keel_tensor *seven = NULL, *there = NULL, *here = NULL, *other = NULL;
  keel_device *queue = NULL;
  pthread_t thread;
  context = open_with(CPU_PLUGIN, TOY("queue"), KEEL_NO_WORKERS);
  toy_state *toy = toy_of(TOY("queue"));
  expect_ok(keel_device_find(context, "queue:0", &queue));
  keel_tensor_create(context, KD_F32, 0, NULL, &seven_, &seven);
  keel_tensor *first = promise(), *second = promise();
  keel_tensor *in[] = {first, seven};
  const keel_attr host = KEEL_INT("host", 1);
  atomic_store(&toy->gate, 1);
  there = call_op_on(queue, context, "Mul", in, 2);
  expect_ok(keel_call(context, "keel::Copy", &host, 1, &there, 1, &here, 1));
  expect_ok(keel_call(context, "Neg", NULL, 0, &second, 1, &other, 1));
  fulfil(first, first_pair, 2);
  pthread_create(&thread, NULL, fulfil_then_open, second);
  expect_pair(other, -1, 2);
  assert_int_equal(atomic_load(&toy->gate), 1);
  assert_int_equal(keel_tensor_query(here), KD_BUSY);
  atomic_store(&toy->gate, 0);
  expect_pair(here, 7, -14);
  pthread_join(thread, NULL);
  RELEASE(seven, there, first, second, context);
}

/* ---- ends ------------------------------------------------------------------------------------ */

TEST_THAT(a_stop_is_told_to_all_outputs) {
  keel_tensor *out[3];
  keel_plan *plan = open_plan_of_two(1);
  keel_cancel *cancel = create_cancel(context);
  keel_tensor *in[] = {floats(context, 2, first_pair), promise()};
  expect_ok(keel_plan_begin(plan, RUN_PARAMS(.cancel = cancel), in, 2, out, 3));
  keel_cancel_request(cancel, "no more");
  keel_cancel_release(cancel);
  fulfil(in[1], first_pair, 2);
  expect_failed(out[2], KD_CANCELLED, "no more");
  expect_failed(out[1], KD_CANCELLED, "no more");
  RELEASE(out[0], in[0], in[1], plan, context);
}

/* Outputs fail while the input that they need has not come; it comes when all is known. */
typedef enum ending { ASKED, ASKED_BEFORE, LATE } ending;

static void over_while_an_input_is_waited_for(int32_t workers, ending how,
                                              uint32_t flags) {
  bool by_time = how == LATE;
  keel_tensor *out[3];
  keel_plan *plan = open_plan_of_two(workers);
  keel_cancel *cancel = create_cancel(context);
  keel_tensor *in[] = {floats(context, 2, first_pair), promise()};
  if (how == ASKED_BEFORE) keel_cancel_request(cancel, "enough");
  expect_ok(keel_plan_begin(
      plan,
      RUN_PARAMS(.flags = flags, .cancel = by_time ? NULL : cancel,
                 .timeout = by_time ? 20000000 : 0),
      in, 2, out, 3));
  if (how == ASKED) keel_cancel_request(cancel, "enough");
  keel_status status = by_time ? KD_DEADLINE_EXCEEDED : KD_CANCELLED;
  const char *why = by_time ? "past its deadline" : "cancelled: enough";
  expect_failed(out[2], status, why);
  expect_failed(out[1], status, why);
  keel_tensor_release(out[0]); /* it may have been made */
  fulfil(in[1], first_pair, 2);
  release_all(in, 2);
  RELEASE(cancel, plan, context);
}

TEST_THAT(the_end_is_told_while_an_input_is_waited_for) {
  for (ending how = ASKED; how <= LATE; how++) {
    over_while_an_input_is_waited_for(KEEL_NO_WORKERS, how, 0);
    over_while_an_input_is_waited_for(1, how, 0);
    over_while_an_input_is_waited_for(2, how, KEEL_RUN_PARTIAL);
    over_while_an_input_is_waited_for(1, how, KEEL_RUN_WHOLE);
  }
}

/* Deadlines that pass at any time, and one stop for all the rest. */
TEST_THAT(ends_come_at_any_time) {
  enum { RUNS = 600 };
  static keel_tensor *out[RUNS][3];
  uint32_t made = 0, late = 0, stopped = 0;
  keel_plan *plan = open_plan_of_two(2);
  keel_cancel *cancel = create_cancel(context);
  for (int i = 0; i < RUNS; i++) {
    const float pair[] = {(float)i, -1};
    keel_tensor *in[] = {floats(context, 2, pair), promise()};
    expect_ok(keel_plan_begin(
        plan,
        RUN_PARAMS(.cancel = cancel,
                   .timeout = i % 3 == 0   ? 1000u * (uint64_t)(i % 50 + 1)
                              : i % 3 == 1 ? UINT64_MAX
                                           : 0),
        in, 2, out[i], 3));
    if (i == RUNS - 100) keel_cancel_request(cancel, NULL);
    fulfil(in[1], pair, 2);
    release_all(in, 2);
  }
  RELEASE(cancel, plan);
  for (int i = 0; i < RUNS; i++)
    for (int k = 0; k < 3; k++) {
      keel_status status = keel_tensor_wait(out[i][k]);
      made += status == KD_OK;
      late += status == KD_DEADLINE_EXCEEDED;
      stopped += status == KD_CANCELLED;
      if (i > RUNS - 100) assert_true(status != KD_OK || k != 1);
      keel_tensor_release(out[i][k]);
    }
  assert_int_equal(made + late + stopped, 3 * RUNS);
  assert_true(stopped >= 99); /* those that began behind the wish */
  keel_close(context);
}

TEST_THAT(what_cannot_begin_is_refused) {
  keel_tensor *out[3];
  keel_plan *plan = open_plan_of_two(1);
  keel_tensor *in[] = {floats(context, 2, first_pair), NULL};
  expect_fails(keel_plan_begin(plan, NULL, in, 2, out, 3), KD_INVALID_ARGUMENT,
               "input 1 is missing");
  assert_null(out[0]);
  assert_int_equal(keel_plan_begin(plan, NULL, in, 1, out, 3),
                   KD_INVALID_ARGUMENT);
  expect_fails(keel_plan_begin(plan, RUN_PARAMS(.flags = 16), in, 2, out, 3),
               KD_INVALID_ARGUMENT, "0x10");
  RELEASE(in[0], plan, context);
}

/* Nobody looks at the outputs, and the context is closed at once. */
TEST_THAT(closing_waits_for_runs) {
  for (int round = 0; round < 20; round++) {
    keel_plan *plan = open_plan_of_two(round % 3);
    for (int i = 0; i < 20; i++) {
      keel_tensor *in[] = {floats(context, 2, first_pair),
                           floats(context, 2, first_pair)};
      keel_tensor *out[3];
      begin(plan, 0, in, 2, out, 3);
      release_all(out, 3);
      release_all(in, 2);
    }
    RELEASE(plan, context);
  }
}

/* ---- from many threads ------------------------------------------------------------------------- */

enum { INPUTS = 6, LINKS = 40 };

static void *fulfil_all(void *argument) {
  keel_tensor **in = argument;
  for (int i = INPUTS; i-- > 0;) {
    const float data[] = {(float)i, 1};
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    fulfil(in[i], data, 2);
  }
  return NULL;
}

/* Sums of pairs of what came before, over inputs that come from another thread while
 * outputs of one run are inputs of the next. */
TEST_THAT(promises_meet_from_all_sides) {
  uint64_t random = 5;
  float want[INPUTS + LINKS];
  context = open_with(CPU_PLUGIN, NULL, 3);
  keel_builder *g = create_builder(context, "web");
  keel_value values[INPUTS + LINKS];
  for (int i = 0; i < INPUTS; i++) {
    values[i] = keel_builder_input(g, "x", KD_F32, DIMS(2));
    want[i] = (float)i;
  }
  for (int i = INPUTS; i < INPUTS + LINKS; i++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    int a = (int)((random >> 33) % (uint64_t)i), b = i - 1 - i % 3;
    values[i] = op(g, "Max", values[a], values[b]);
    want[i] = want[a] > want[b] ? want[a] : want[b];
  }
  for (int i = 0; i < INPUTS; i++)
    keel_builder_output(g, "y", values[INPUTS + LINKS - 1 - i]);
  keel_plan *plan = finish_plan(g, NULL);
  for (int round = 0; round < 40; round++) {
    keel_tensor *in[INPUTS], *first[INPUTS], *second[INPUTS];
    pthread_t thread;
    for (int i = 0; i < INPUTS; i++)
      in[i] = promise();
    begin(plan, round % 2 ? KEEL_RUN_PARTIAL : 0, in, INPUTS, first, INPUTS);
    begin(plan, 0, first, INPUTS, second, INPUTS);
    pthread_create(&thread, NULL, fulfil_all, in);
    for (int i = 0; i < INPUTS; i++)
      expect_pair(first[i], want[INPUTS + LINKS - 1 - i], 1);
    pthread_join(thread, NULL);
    for (int i = 0; i < INPUTS; i++) {
      expect_ok(keel_tensor_wait(second[i]));
      RELEASE(second[i], in[i]);
    }
  }
  RELEASE(plan, context);
}

RUN_TESTS(NULL, NULL)
