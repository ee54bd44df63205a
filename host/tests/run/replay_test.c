/* replay_test.c - runs on a device with a stream: in static runs, and as recordings that
 * are launched, put to other memory, or given up; with results as one by one. */
#include <keel/debug.h>

#include <pthread.h>

#include "device/device.h"
#include "layers/layers.h"
#include "one_context.h"
#include "run/static_run.h"
#include "toy/toy.h"

enum { SIZE = 5 };

static keel_device *queue;
static toy_state *toy;
static int errors;

static void log_line(void *unused, uint32_t level, const char *line) {
  (void)unused;
  if (level == KD_LOG_ERROR) {
    errors++;
    fprintf(stderr, "%s\n", line);
  }
}

/* state: the layers, or NULL. */
static int open_queue(void **state) {
  const char *path = TOY("queue");
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, &path, 1, .workers = 1, .log = log_line);
  errors = 0;
  expect_ok(keel_layers_set(*state ? *state : ""));
  expect_ok(keel_open(&params, &context));
  queue = keel_device_at(context, 0);
  toy = toy_of(TOY("queue"));
  assert_non_null(toy);
  atomic_store(&toy->launches, 0);
  atomic_store(&toy->updates, 0);
  atomic_store(&toy->rebinds, 1);
  return 0;
}

SETUP(close_queue) {
  keel_close(context);
  keel_layers_set("");
  return errors; /* the plugin says what was left over */
}

static uint32_t flags; /* of plans */

static keel_plan *plan_of(keel_builder *builder) {
  static const char *const skip[] = {"fold", "cse", "fuse", "prune"};
  return finish_plan(builder, PLAN_PARAMS(.flags = flags, .device = queue,
                                          .skip = skip, .skip_count = 4));
}

/* z = relu(x + y) + (x + c); w = (x * s) + z */
static keel_plan *make_plan(void) {
  static const float ones[SIZE] = {1, 1, 1, 1, 1};
  const int64_t five = SIZE;
  keel_builder *builder = create_builder(context, "");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &five);
  keel_value y = keel_builder_input(builder, "y", KD_F32, 1, &five);
  keel_value s = keel_builder_input(builder, "s", KD_F32, 0, NULL);
  keel_value sum = op(builder, "Add", x, y);
  keel_value more =
      op(builder, "Add", x, constant_of(builder, floats(context, SIZE, ones)));
  keel_value z =
      op(builder, "Add", op(builder, "Relu", sum, KEEL_ABSENT), more);
  keel_value w = op(builder, "Add", op(builder, "Mul", x, s), z);
  keel_builder_output(builder, "z", z);
  keel_builder_output(builder, "w", w);
  return plan_of(builder);
}

static void expect(const float *x, const float *y, float s,
                   keel_tensor *const *out) {
  float z[SIZE], w[SIZE];
  for (int i = 0; i < SIZE; i++) {
    z[i] = (x[i] + y[i] > 0 ? x[i] + y[i] : 0) + x[i] + 1;
    w[i] = x[i] * s + z[i];
  }
  expect_floats(out[0], z, SIZE);
  expect_floats(out[1], w, SIZE);
}

typedef struct arguments {
  float x[SIZE], y[SIZE], s;
} arguments;

static arguments arguments_of(int round) {
  arguments a = {.s = (float)(round % 5 + 2)};
  if (a.s == 7) a.s = 8;
  for (int i = 0; i < SIZE; i++) {
    a.x[i] = (float)(round * 3 - i);
    a.y[i] = (float)(i * i - round * 4);
  }
  return a;
}

static void make_inputs(const arguments *a, keel_tensor **in) {
  in[0] = floats(context, SIZE, a->x);
  in[1] = floats(context, SIZE, a->y);
  expect_ok(keel_tensor_create(context, KD_F32, 0, NULL, &a->s, &in[2]));
}

static void release(keel_tensor **tensors, int count) {
  release_all(tensors, count);
}

/* Runs it with the arguments of a round; the caller has the outputs. */
static void run_round(keel_plan *plan, int round, keel_tensor **out) {
  arguments a = arguments_of(round);
  keel_tensor *in[3];
  make_inputs(&a, in);
  expect_ok(keel_plan_run(plan, in, 3, out, 2));
  release(in, 3);
}

static void expect_round(int round, keel_tensor *const *out) {
  arguments a = arguments_of(round);
  expect(a.x, a.y, a.s, out);
}

/* ---- recordings ------------------------------------------------------------------ */

TEST_THAT(runs_become_one_launch) {
  keel_plan *plan = make_plan();
  for (int round = 0; round < 20; round++) {
    keel_tensor *out[2];
    run_round(plan, round, out);
    expect_round(round, out);
    release(out, 2);
  }
  uint64_t planned = 0;
  expect_ok(keel_plan_memory(plan, &planned, NULL, NULL));
  assert_true(planned > 0);
  assert_int_equal(atomic_load(&toy->launches), 20 - 3);
  assert_int_equal(keel_plan_replays(plan), 20 - 3);
  assert_int_equal(atomic_load(&toy->updates), 0);
  keel_plan_release(plan);
}

TEST_THAT(a_plan_may_go_without) {
  flags = KEEL_PLAN_NO_REPLAY;
  keel_plan *plan = make_plan();
  flags = 0;
  for (int round = 0; round < 6; round++) {
    keel_tensor *out[2];
    run_round(plan, round, out);
    expect_round(round, out);
    release(out, 2);
  }
  expect_ok(keel_plan_memory(plan, NULL, NULL, NULL));
  assert_int_equal(keel_plan_replays(plan), 0);
  assert_int_equal(atomic_load(&toy->launches), 0);
  keel_plan_release(plan);
}

/* x + x, as often as that; with Min, which can't be recorded, as the last one. */
static keel_plan *make_chain(int adds, bool min) {
  keel_builder *builder = create_builder(context, "");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(-1)), y = x;
  for (int i = 0; i < adds; i++)
    y = op(builder, "Add", y, y);
  if (min) y = op(builder, "Min", y, x);
  keel_builder_output(builder, "y", y);
  return plan_of(builder);
}

static uint64_t replays_of(keel_plan *plan, int64_t size, float factor) {
  static const float ones[] = {1, 1, 1, 1, 1};
  keel_tensor *x = floats(context, size, ones), *y = NULL;
  uint64_t before = keel_plan_replays(plan);
  for (int round = 0; round < 8; round++) {
    float want[] = {factor, factor, factor, factor, factor};
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    expect_floats(y, want, (size_t)size);
    keel_tensor_release(y);
  }
  keel_tensor_release(x);
  return keel_plan_replays(plan) - before;
}

TEST_THAT(a_plan_of_open_sizes_may_go_without) {
  flags = KEEL_PLAN_NO_REPLAY;
  keel_plan *plan = make_chain(3, false);
  flags = 0;

  assert_int_equal(replays_of(plan, 5, 8), 0);
  assert_int_equal(replays_of(plan, 3, 8), 0);

  keel_plan_release(plan);
}

TEST_THAT(what_is_recorded_is_worth_it_and_can_be) {
  static const struct {
    int adds;
    bool min, recorded;
  } cases[] = {{1, false, false}, {2, false, false}, {3, false, true},
               {2, true, false},  {3, true, true},   {4, true, true}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    keel_plan *plan = make_chain(cases[i].adds, cases[i].min);
    float factor = cases[i].min ? 1 : (float)(1 << cases[i].adds);
    assert_int_equal(replays_of(plan, 4, factor) > 0, cases[i].recorded);
    keel_plan_release(plan);
  }
}

/* Ops run in one order there, so branches that could run beside each other share memory. */
TEST_THAT(branches_share_memory) {
  keel_builder *builder = create_builder(context, "");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(-1)), sum = x;
  for (int i = 0; i < 12; i++) {
    keel_value branch = op(builder, "Add", x, x);
    branch = op(builder, "Relu", branch, KEEL_ABSENT);
    sum = op(builder, "Add", sum, branch);
  }
  keel_builder_output(builder, "y", sum);
  keel_plan *plan = plan_of(builder);
  uint64_t planned = 0;
  assert_true(replays_of(plan, 5, 25) > 0);
  expect_ok(keel_plan_memory(plan, &planned, NULL, NULL));
  assert_true(planned <= 3 * 64); /* of 35 values, each aligned */
  keel_plan_release(plan);
}

/* Each set of types has its own; so has what has no elements. */
TEST_THAT(shapes_have_recordings_of_their_own) {
  keel_plan *plan = make_chain(3, false);
  assert_true(replays_of(plan, 4, 8) > 0);
  assert_true(replays_of(plan, 2, 8) > 0);
  assert_true(replays_of(plan, 0, 8) <= 8);
  assert_true(replays_of(plan, 4, 8) > 0);
  keel_plan_release(plan);
}

/* Two stretches around a Min, which can't be recorded. What the first makes is memory of both
 * recordings, and stays; what Min makes is new memory in each run, to which one is put. */
TEST_THAT(stretches_share_memory) {
  keel_builder *builder = create_builder(context, "");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(SIZE));
  keel_value first = op(builder, "Add", x, x);
  first = op(builder, "Add", first, first);
  first = op(builder, "Relu", first, KEEL_ABSENT);
  keel_value second = op(builder, "Min", first, x);
  second = op(builder, "Add", second, second);
  second = op(builder, "Add", second, second);
  keel_builder_output(builder, "y", op(builder, "Add", second, first));
  keel_plan *plan = plan_of(builder);
  assert_int_equal(replays_of(plan, SIZE, 8), 2 * (8 - 3));
  int updates = atomic_load(&toy->updates);
  assert_int_equal(replays_of(plan, SIZE, 8), 2 * 8);
  assert_int_equal(atomic_load(&toy->updates) - updates, 8);
  keel_plan_release(plan);
}

/* Outputs of the last runs are still held: 0: none, 1: two recordings in turn, more:
 * recordings are put to other memory. */
static void hold_outputs(int held) {
  keel_plan *plan = make_plan();
  keel_tensor *out[8][2] = {{NULL}};
  atomic_store(&toy->launches, 0);
  atomic_store(&toy->updates, 0);
  for (int round = 0; round < 30; round++) {
    int at = round % (held + 1), before = (round + 1) % (held + 1);
    run_round(plan, round, out[at]);
    if (round >= held) { /* what was held is as it was */
      expect_round(round - held, out[before]);
      release(out[before], 2);
    }
  }
  for (int round = 30 - held; round < 30; round++)
    release(out[round % (held + 1)], 2);
  keel_plan_release(plan);
}

TEST_THAT(outputs_that_are_held_are_left_alone) {
  for (int held = 0; held < 2; held++) {
    hold_outputs(held);
    assert_int_equal(atomic_load(&toy->updates), 0);
    assert_int_equal(atomic_load(&toy->launches), 30 - 3);
  }
  for (int held = 2; held < 6; held++) {
    hold_outputs(held);
    assert_true(atomic_load(&toy->updates) > 10);
    assert_int_equal(atomic_load(&toy->launches), 30 - 3);
  }
}

TEST_THAT(who_updates_nothing_goes_without) {
  atomic_store(&toy->rebinds, 0);
  hold_outputs(1);
  assert_int_equal(atomic_load(&toy->launches), 30 - 3);
  hold_outputs(4);
  assert_true(atomic_load(&toy->launches) < 10);
}

/* ---- inputs ------------------------------------------------------------------------- */

static keel_tensor *on_queue(const float *data) {
  keel_tensor *host = floats(context, SIZE, data),
              *there = tensor_on(host, queue);
  keel_tensor_release(host);
  return there;
}

/* One output is the next run's input: two recordings take turns. */
TEST_THAT(outputs_go_in_again) {
  keel_plan *plan = make_plan();
  float x[SIZE] = {1, -2, 3, -4, 5};
  const float y[SIZE] = {-3, 1, 0, 2, -9}, s = 2;
  keel_tensor *in[3] = {on_queue(x), on_queue(y), NULL};
  expect_ok(keel_tensor_create(context, KD_F32, 0, NULL, &s, &in[2]));
  for (int round = 0; round < 12; round++) {
    keel_tensor *out[2];
    expect_ok(keel_plan_run(plan, in, 3, out, 2));
    expect(x, y, s, out);
    expect_ok(keel_tensor_read(out[0], x, sizeof x));
    for (int i = 0; i < SIZE; i++)
      assert_true(x[i] < 1e7F); /* sums stay exact */
    RELEASE(in[0], out[1]);
    in[0] = out[0];
  }
  assert_int_equal(atomic_load(&toy->launches), 12 - 3);
  assert_int_equal(atomic_load(&toy->updates), 0);
  release(in, 3);
  keel_plan_release(plan);
}

/* All outputs go in again, two of one size and one of another: each has memory of its own. */
TEST_THAT(all_outputs_go_in_again) {
  enum { LARGE = 60 };
  const int64_t small = SIZE, large = LARGE;
  keel_builder *builder = create_builder(context, "loop");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &small);
  keel_value y = keel_builder_input(builder, "y", KD_F32, 1, &small);
  keel_value v = keel_builder_input(builder, "v", KD_F32, 1, &large);
  keel_builder_output(builder, "new_v", op(builder, "Add", v, v));
  keel_builder_output(builder, "new_x", op(builder, "Add", x, x));
  keel_builder_output(builder, "new_y", op(builder, "Add", y, x));
  keel_plan *plan = plan_of(builder);
  float a[SIZE], b[SIZE], c[LARGE];
  for (int i = 0; i < LARGE; i++) {
    if (i < SIZE) a[i] = (float)(i + 1);
    if (i < SIZE) b[i] = (float)(10 * i);
    c[i] = (float)(i % 7);
  }
  keel_tensor *host = floats(context, LARGE, c);
  keel_tensor *in[3] = {on_queue(a), on_queue(b), NULL}, *out[3];
  expect_ok(keel_tensor_to(host, queue, &in[2]));
  keel_tensor_release(host);
  for (int round = 0; round < 12; round++) {
    expect_ok(keel_plan_run(plan, in, 3, out, 3));
    release(in, 3);
    for (int i = 0; i < LARGE; i++) {
      c[i] *= 2;
      if (i < SIZE) b[i] += a[i];
      if (i < SIZE) a[i] *= 2;
    }
    expect_floats(out[0], c, LARGE);
    expect_floats(out[1], a, SIZE);
    expect_floats(out[2], b, SIZE);
    in[0] = out[1];
    in[1] = out[2];
    in[2] = out[0];
  }
  assert_int_equal(atomic_load(&toy->updates), 0);
  release(in, 3);
  keel_plan_release(plan);
}

/* Memory on the device and on the host, in turn; once the same for two arguments. */
TEST_THAT(inputs_come_from_anywhere) {
  keel_plan *plan = make_plan();
  for (int round = 0; round < 60; round++) {
    arguments a = arguments_of(round);
    keel_tensor *in[3], *out[2];
    make_inputs(&a, in);
    uint32_t kind = (uint32_t)round * 2654435761u >> 28;
    if (kind & 1) {
      keel_tensor_release(in[0]);
      in[0] = on_queue(a.x);
    }
    if (kind & 2) {
      keel_tensor_release(in[1]);
      in[1] = on_queue(a.y);
    }
    if (kind & 4) {
      keel_tensor_release(in[1]);
      in[1] = keel_tensor_retain(in[0]);
      memcpy(a.y, a.x, sizeof a.y);
    }
    expect_ok(keel_plan_run(plan, in, 3, out, 2));
    expect(a.x, a.y, a.s, out);
    release(in, 3);
    release(out, 2);
  }
  assert_true(atomic_load(&toy->launches) > 0);
  keel_plan_release(plan);
}

/* ---- threads -------------------------------------------------------------------------- */

typedef struct worker {
  keel_plan *plan;
  int from;
} worker;

static void *run_many(void *argument) {
  const worker *w = argument;
  for (int round = w->from; round < w->from + 40; round++) {
    keel_tensor *out[2];
    run_round(w->plan, round, out);
    expect_round(round, out);
    release(out, 2);
  }
  return NULL;
}

TEST_THAT(threads_have_frames_of_their_own) {
  keel_plan *plan = make_plan();
  pthread_t threads[4];
  worker workers[4];
  for (int i = 0; i < 4; i++) {
    workers[i] = (worker){plan, i * 7};
    pthread_create(&threads[i], NULL, run_many, &workers[i]);
  }
  for (int i = 0; i < 4; i++)
    pthread_join(threads[i], NULL);
  keel_plan_release(plan);
}

/* ---- failures --------------------------------------------------------------------------- */

/* Mul by 13 fails, late: the run says so and names the recording, the next run goes well, and who
 * did not wait is told by what reads. */
TEST_THAT(what_fails_in_a_recording_is_told) {
  keel_plan *plan = make_plan();
  int named = 0;
  for (int round = 0; round < 16; round++) {
    arguments a = arguments_of(round);
    float got[SIZE];
    if (round % 3 == 2) a.s = 13;
    keel_tensor *in[3], *out[2];
    make_inputs(&a, in);
    bool waits = round % 2 || a.s != 13;
    keel_status status = keel_plan_run_with(
        plan, RUN_PARAMS(.flags = waits ? 0 : KEEL_RUN_ENQUEUES), in, 3, out,
        2);
    assert_int_equal(status, a.s == 13 && waits ? KD_INTERNAL : KD_OK);
    if (!waits)
      assert_int_equal(keel_tensor_read(out[1], got, sizeof got), KD_INTERNAL);
    if (a.s == 13) {
      expect_message("can't multiply by 13");
      named += strstr(keel_message(), "launches of a recording of ") != NULL;
    } else {
      expect(a.x, a.y, a.s, out);
    }
    release(in, 3);
    release(out, 2);
  }
  assert_true(atomic_load(&toy->launches) > 8);
  assert_true(named > 2);
  keel_plan_release(plan);
}

/* A device that can't record this is given the steps; a launch that fails is told. */
static void faults_of_recording_do_no_harm(void **state) {
  bool told = strstr(*state, "launch") != NULL;
  int failed = 0;
  keel_plan *plan = make_plan();
  for (int round = 0; round < 10; round++) {
    arguments a = arguments_of(round);
    keel_tensor *in[3], *out[2];
    make_inputs(&a, in);
    keel_status status = keel_plan_run(plan, in, 3, out, 2);
    if (status == KD_OK) {
      expect(a.x, a.y, a.s, out);
      release(out, 2);
    } else {
      expect_message("while queue:0 launched a recording of the program");
      assert_int_equal(status, KD_UNAVAILABLE);
      failed++;
    }
    release(in, 3);
  }
  assert_int_equal(keel_layers_faults() > 0, 1);
  assert_int_equal(failed, told);
  assert_int_equal(atomic_load(&toy->launches) > 0, told);
  keel_plan_release(plan);
}

/* The second kernel of the run that is recorded: the run is made step by step then. */
LISTED_TEST(what_fails_while_recording_is_not_launched) {
  keel_plan *plan = make_plan();
  for (int round = 0; round < 10; round++) {
    keel_tensor *out[2];
    run_round(plan, round, out);
    expect_round(round, out);
    release(out, 2);
  }
  assert_int_equal(keel_layers_faults(), 1);
  assert_int_equal(atomic_load(&toy->launches), 0);
  keel_plan_release(plan);
}

LISTED_TEST(updates_that_fail_make_it_anew) {
  hold_outputs(3);
  assert_int_equal(keel_layers_faults() > 0, 1);
  assert_int_equal(atomic_load(&toy->launches), 30 - 3);
}

int main(void) {
#define WITH(check, layers)                                                \
  cmocka_unit_test_prestate_setup_teardown(check, open_queue, close_queue, \
                                           layers)
  static char valid[] = "validation", begin[] = "fault:capture.begin=1",
              end[] = "validation,fault:capture.end=1",
              launch[] = "validation,fault:capture.launch=2:UNAVAILABLE",
              update[] = "validation,fault:capture.update=3",
              kernel[] = "validation,fault:kernel.enqueue=20";
  const struct CMUnitTest layered[] = {
      WITH(outputs_that_are_held_are_left_alone, valid),
      WITH(inputs_come_from_anywhere, valid),
      WITH(faults_of_recording_do_no_harm, begin),
      WITH(faults_of_recording_do_no_harm, end),
      WITH(faults_of_recording_do_no_harm, launch),
      WITH(updates_that_fail_make_it_anew, update),
      WITH(what_fails_while_recording_is_not_launched, kernel),
  };
  around_each(open_queue, close_queue);
  return tests_run(NULL, NULL) + cmocka_run_group_tests(layered, NULL, NULL);
}
