/* cancel_test.c - runs that end early: asked to, out of time, or in part failed. */
#include <pthread.h>
#include <unistd.h>

#include "device/device.h"
#include "plan/plan.h"
#include "toy/toy.h"
#define BESIDE  TOY("queue")
#define WORKERS 2
#include "chain.h"

static keel_plan *plan_of(keel_builder *builder, keel_device *device) {
  return finish_plan(builder, PLAN_PARAMS(.device = device));
}

/* ---- asked to stop ------------------------------------------------------------- */

TEST_THAT(a_run_that_is_asked_ends) {
  keel_plan *plan = chain(50, 8);
  keel_tensor *x = zeros(8), *y = NULL;
  keel_cancel *cancel = create_cancel(context);
  keel_run_params params = {.struct_size = sizeof params, .cancel = cancel};
  for (int i = 0; i < 8; i++) { /* with values, then in static runs */
    expect_ok(keel_plan_run_with(plan, &params, &x, 1, &y, 1));
    keel_tensor_release(y);
  }
  keel_cancel_request(cancel, "the user left");
  keel_cancel_request(cancel, "again");
  for (int i = 0; i < 3; i++) {
    assert_int_equal(keel_plan_run_with(plan, &params, &x, 1, &y, 1),
                     KD_CANCELLED);
    assert_null(y);
    expect_message("the run was cancelled: the user left");
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    keel_tensor_release(y);
  }
  RELEASE(cancel, x, plan);
}

/* A run that begins behind the request fails, and what this thread had been told stays. */
TEST_THAT(a_run_begins_after_the_request) {
  keel_plan *plan = chain(3, 8);
  keel_tensor *x = zeros(8), *y = NULL;
  keel_cancel *cancel = create_cancel(context);
  keel_cancel_request(cancel, "too early");
  expect_fails(keel_plan_run(plan, &x, 0, &y, 1), KD_INVALID_ARGUMENT,
               "inputs");
  expect_ok(keel_plan_begin(plan, RUN_PARAMS(.cancel = cancel), &x, 1, &y, 1));
  expect_message("inputs");
  expect_fails(keel_tensor_wait(y), KD_CANCELLED, "too early");
  release_all((keel_tensor *[]){x, y}, 2);
  RELEASE(cancel, plan);
}

typedef struct asker {
  keel_cancel *cancel;
  unsigned after; /* microseconds */
} asker;

static void *ask_later(void *context_) {
  asker *self = context_;
  usleep(self->after);
  keel_cancel_request(self->cancel, NULL);
  return NULL;
}

/* In the midst of ops, at any time: each run ends, with a result or without. */
TEST_THAT(a_run_is_stopped_anywhere) {
  keel_plan *plan = chain(400, 20000);
  keel_tensor *x = zeros(20000), *y = NULL;
  int stopped = 0;
  for (int round = 0; round < 40; round++) {
    pthread_t thread;
    asker me = {.after = (unsigned)round * 20};
    expect_ok(keel_cancel_create(context, &me.cancel));
    keel_run_params params = {.struct_size = sizeof params,
                              .cancel = me.cancel};
    assert_int_equal(pthread_create(&thread, NULL, ask_later, &me), 0);
    keel_status status = KD_OK;
    while (status == KD_OK) {
      status = keel_plan_run_with(plan, &params, &x, 1, &y, 1);
      keel_tensor_release(y);
      stopped +=
          status == KD_OK ? 0 : strstr(keel_message(), "before Neg") != 0;
    }
    assert_int_equal(status, KD_CANCELLED);
    pthread_join(thread, NULL);
    keel_cancel_release(me.cancel);
  }
  assert_true(stopped > 5); /* in the midst, not before the first op */
  RELEASE(x, plan);
}

/* ---- out of time ------------------------------------------------------------------ */

TEST_THAT(a_run_ends_when_its_time_is_over) {
  keel_plan *plan = chain(2000, 50000);
  keel_tensor *x = zeros(50000), *y = NULL;
  int named = 0;
  keel_run_params params = {.struct_size = sizeof params, .timeout = 50000};
  for (int i = 0; i < 8; i++) {
    assert_int_equal(keel_plan_run_with(plan, &params, &x, 1, &y, 1),
                     KD_DEADLINE_EXCEEDED);
    assert_null(y);
    expect_message("past its deadline");
    /* on a busy machine it may be over before the first op */
    named += strstr(keel_message(), ", before Neg") != NULL;
    if (i == 3) { /* with values until then; in static runs after */
      expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
      keel_tensor_release(y);
      y = NULL;
    }
  }
  assert_true(named > 0);
  params.timeout = UINT64_MAX;
  expect_ok(keel_plan_run_with(plan, &params, &x, 1, &y, 1));
  keel_tensor_release(y);
  params.flags = 48;
  expect_fails(keel_plan_run_with(plan, &params, &x, 1, &y, 1),
               KD_INVALID_ARGUMENT, "no flags 0x30");
  RELEASE(x, plan);
}

/* A promise that nobody keeps, and a wish to stop while it is waited for. */
TEST_THAT(waiting_for_an_input_ends) {
  keel_plan *plan = chain(3, 8);
  keel_tensor *promise = NULL, *y = NULL;
  pthread_t thread;
  asker me = {.after = 3000};
  expect_ok(keel_tensor_promise(context, &promise));
  keel_run_params params = {.struct_size = sizeof params, .timeout = 2000000};
  assert_int_equal(keel_plan_run_with(plan, &params, &promise, 1, &y, 1),
                   KD_DEADLINE_EXCEEDED);
  params.flags = KEEL_RUN_PARTIAL;
  assert_int_equal(keel_plan_run_with(plan, &params, &promise, 1, &y, 1),
                   KD_DEADLINE_EXCEEDED);
  assert_int_equal(keel_tensor_query(y), KD_DEADLINE_EXCEEDED);
  keel_tensor_release(y);
  expect_ok(keel_cancel_create(context, &me.cancel));
  params = (keel_run_params){.struct_size = sizeof params, .cancel = me.cancel};
  assert_int_equal(pthread_create(&thread, NULL, ask_later, &me), 0);
  assert_int_equal(keel_plan_run_with(plan, &params, &promise, 1, &y, 1),
                   KD_CANCELLED);
  pthread_join(thread, NULL);
  expect_ok(keel_tensor_fail(promise, KD_ABORTED, "never"));
  assert_int_equal(keel_plan_run(plan, &promise, 1, &y, 1), KD_ABORTED);
  RELEASE(me.cancel, promise, plan);
}

/* A loop that would go on for ever, and whose body has no op. */
TEST_THAT(loops_end_too) {
  static const char text[] =
      "\"keel.program\"() ({\n^bb0(%0: tensor<2xf32>):\n"
      "%1 = \"keel.none\"() : () -> none\n"
      "%2 = \"onnx.Loop\"(%1, %1, %0) ({\n"
      "^bb0(%3: tensor<i64>, %4: tensor<i1>, %5: tensor<2xf32>):\n"
      "\"keel.return\"(%4, %5) : (tensor<i1>, tensor<2xf32>) -> ()\n"
      "}) {keel.graphs = [{attribute = \"body\", captures = 0 : i64}]} :"
      " (none, none, tensor<2xf32>) -> !keel.value\n"
      "\"keel.return\"(%2) : (!keel.value) -> ()\n}) : () -> ()\n";
  keel_tensor *x = zeros(2), *y = NULL;
  keel_program *program = load_text(context, text);
  keel_plan *plan = create_plan(program, NULL);
  expect_fails(
      keel_plan_run_with(plan, RUN_PARAMS(.timeout = 3000000), &x, 1, &y, 1),
      KD_DEADLINE_EXCEEDED, "past its deadline");
  RELEASE(plan, program, x);
}

/* ---- in part ------------------------------------------------------------------------- */

/* y = -x stands; z needs an index that is out of range; w depends on z. */
static keel_plan *half_bad(void) {
  const int64_t two = 2;
  keel_builder *builder = create_builder(context, "half");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &two);
  keel_value i = keel_builder_input(builder, "i", KD_I64, 1, &two);
  keel_value z = op(builder, "Gather", x, i);
  keel_builder_output(builder, "y", op(builder, "Neg", x, KEEL_ABSENT));
  keel_builder_output(builder, "z", z);
  keel_builder_output(builder, "w", op(builder, "Add", z, x));
  keel_builder_output(builder, "x", x);
  return plan_of(builder, NULL);
}

TEST_THAT(outputs_beside_a_failure_are_given) {
  keel_plan *plan = half_bad();
  const float numbers[] = {1, 2}, minus[] = {-1, -2}, twice[] = {2, 4};
  const int64_t two = 2, good[] = {0, 1}, bad[] = {0, 9};
  for (int round = 0; round < 12; round++) {
    bool fails = round % 3 == 2;
    keel_tensor *in[2] = {floats(context, 2, numbers), NULL}, *out[4];
    expect_ok(keel_tensor_create(context, KD_I64, 1, &two, fails ? bad : good,
                                 &in[1]));
    keel_status status = keel_plan_run_with(
        plan, RUN_PARAMS(.flags = KEEL_RUN_PARTIAL), in, 2, out, 4);
    assert_int_equal(status == KD_OK, !fails);
    expect_floats(out[0], minus, 2);
    expect_floats(out[3], numbers, 2);
    if (fails) {
      for (int i = 1; i < 3; i++) {
        expect_fails(keel_tensor_query(out[i]), status, "Gather");
      }
    } else {
      expect_floats(out[1], numbers, 2);
      expect_floats(out[2], twice, 2);
    }
    release_all(out, 4);
    if (fails) { /* the usual run gives nothing */
      assert_int_equal(keel_plan_run(plan, in, 2, out, 4), status);
      for (int i = 0; i < 4; i++)
        assert_null(out[i]);
    }
    release_all(in, 2);
  }
  keel_plan_release(plan);
}

TEST_THAT(inputs_may_have_failed) {
  keel_plan *plan = half_bad();
  const float numbers[] = {1, 2}, minus[] = {-1, -2};
  keel_tensor *in[2] = {floats(context, 2, numbers), NULL}, *out[4];
  expect_ok(keel_tensor_promise(context, &in[1]));
  expect_ok(keel_tensor_fail(in[1], KD_DATA_LOSS, "no index came"));
  expect_fails(keel_plan_run_with(plan, RUN_PARAMS(.flags = KEEL_RUN_PARTIAL),
                                  in, 2, out, 4),
               KD_DATA_LOSS, "no index came");
  expect_floats(out[0], minus, 2);
  assert_int_equal(keel_tensor_query(out[1]), KD_DATA_LOSS);
  assert_int_equal(keel_tensor_query(out[2]), KD_DATA_LOSS);
  release_all(out, 4);
  release_all(in, 2);
  keel_plan_release(plan);
}

/* Across devices: copies to and from the queue are parts that wait. */
TEST_THAT(runs_over_devices_stop) {
  keel_device *queue = NULL, *cpu = NULL;
  const int64_t count = 1000;
  expect_ok(keel_device_find(context, "queue:0", &queue));
  expect_ok(keel_device_find(context, "cpu:0", &cpu));
  keel_builder *builder = create_builder(context, "both");
  keel_value y = keel_builder_input(builder, "x", KD_F32, 1, &count);
  for (int i = 0; i < 40; i++) {
    expect_ok(keel_device_push(i % 2 ? cpu : queue));
    y = op(builder, i % 2 ? "Neg" : "Relu", y, KEEL_ABSENT);
    keel_device_pop();
  }
  keel_builder_output(builder, "y", y);
  keel_plan *plan = plan_of(builder, cpu);
  keel_tensor *x = zeros(count), *out = NULL;
  int ended = 0;
  for (int round = 0; round < 60; round++) {
    keel_status status = keel_plan_run_with(
        plan, RUN_PARAMS(.timeout = 1000u + (uint64_t)round * 20000u), &x, 1,
        &out, 1);
    assert_true(status == KD_OK || status == KD_DEADLINE_EXCEEDED);
    ended += status == KD_OK;
    keel_tensor_release(out);
    expect_ok(keel_plan_run(plan, &x, 1, &out, 1));
    keel_tensor_release(out);
  }
  assert_true(ended < 60);
  RELEASE(x, plan);
}

/* ---- all of it, for long ----------------------------------------------------------------- */

enum { LAYERS = 40, WIDE = 25 };

/* Layers of ops that read two of the layer before; each tenth layer gathers, by an index
 * that may be wrong. */
static keel_plan *layers(uint64_t *state) {
  const int64_t two = 2;
  keel_value last[WIDE], next[WIDE];
  keel_builder *builder = create_builder(context, "layers");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &two);
  keel_value index = keel_builder_input(builder, "i", KD_I64, 1, &two);
  for (int i = 0; i < WIDE; i++)
    last[i] = x;
  for (int layer = 0; layer < LAYERS; layer++) {
    for (int i = 0; i < WIDE; i++) {
      *state = *state * UINT64_C(6364136223846793005) + 1;
      keel_value a = last[(*state >> 33) % WIDE],
                 b = last[(*state >> 40) % WIDE];
      next[i] = layer % 10 == 9 && i == 0 ? op(builder, "Gather", a, index)
                : *state >> 63            ? op(builder, "Max", a, b)
                                          : op(builder, "Sub", a, b);
    }
    memcpy(last, next, sizeof last);
  }
  for (int i = 0; i < WIDE; i++)
    keel_builder_output(builder, "y", last[i]);
  keel_plan_params params = {.struct_size = sizeof params};
  const char *const skipped[] = {"cse", "prune"};
  params.skip = skipped;
  params.skip_count = 2;
  return finish_plan(builder, &params);
}

typedef struct stress {
  keel_plan *plan;
  uint64_t state;
  long runs, ended[4]; /* well, failed, stopped, late */
  bool wrong;
} stress;

static void run_one(stress *self) {
  const float numbers[] = {1, 2};
  const int64_t two = 2;
  self->state = self->state * UINT64_C(6364136223846793005) + 1;
  unsigned kind = (unsigned)(self->state >> 33) % 8;
  const int64_t index[] = {0, kind == 1 ? 9 : 1};
  keel_cancel *cancel = NULL;
  keel_tensor *in[2] = {NULL, NULL}, *out[WIDE] = {NULL};
  keel_run_params params = {.struct_size = sizeof params};
  self->wrong |=
      keel_tensor_create(context, KD_F32, 1, &two, numbers, &in[0]) != KD_OK ||
      keel_tensor_create(context, KD_I64, 1, &two, index, &in[1]) != KD_OK ||
      keel_cancel_create(context, &cancel) != KD_OK;
  params.cancel = cancel;
  params.flags = kind & 1 && self->state >> 63 ? KEEL_RUN_PARTIAL : 0;
  if (kind == 2) params.timeout = self->state % 20000;
  if (kind == 3) keel_cancel_request(cancel, NULL);
  keel_status status =
      keel_plan_run_with(self->plan, &params, in, 2, out, WIDE);
  self->ended[status == KD_OK                  ? 0
              : status == KD_CANCELLED         ? 2
              : status == KD_DEADLINE_EXCEEDED ? 3
                                               : 1]++;
  for (int i = 0; i < WIDE; i++) {
    self->wrong |= (status == KD_OK || params.flags) != (out[i] != NULL);
    keel_tensor_release(out[i]);
  }
  release_all(in, 2);
  keel_cancel_release(cancel);
}

static void *run_all(void *context_) {
  stress *self = context_;
  for (long i = 0; i < self->runs; i++)
    run_one(self);
  return NULL;
}

/* KEEL_STRESS: how many nodes; 10^7 is the long form. */
TEST_THAT(many_nodes_fail_and_stop) {
  const char *wanted = getenv("KEEL_STRESS");
  long nodes = wanted ? strtol(wanted, NULL, 10) : 500000;
  uint64_t seed = 3;
  stress both[2];
  pthread_t thread;
  (void)state;
  keel_plan *plan = layers(&seed);
  for (int i = 0; i < 2; i++)
    both[i] = (stress){.plan = plan,
                       .state = (uint64_t)i + 7,
                       .runs = nodes / (2 * LAYERS * WIDE)};
  for (int i = 0; i < 8; i++)
    run_one(&both[0]);
  keel_scheduler_fix(&plan->main->scheduler, KEEL_PARALLEL);
  assert_int_equal(pthread_create(&thread, NULL, run_all, &both[1]), 0);
  run_all(&both[0]);
  pthread_join(thread, NULL);
  for (int i = 0; i < 2; i++) {
    assert_false(both[i].wrong);
    assert_true(both[i].ended[0] && both[i].ended[1] && both[i].ended[2]);
  }
  keel_plan_release(plan);
}

RUN_TESTS(open_cpu, close_context)
