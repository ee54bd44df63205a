/* ended_test.c - how a server follows runs: it is asked whether one is to end (should_end), told
 * once when one has ended (done), and refuses shapes that are not declared (KEEL_RUN_DECLARED). */
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "toy/toy.h"
#define BESIDE  TOY("queue")
#define WORKERS 2
#include "chain.h"

/* ---- the caller is asked ------------------------------------------------------------- */

typedef struct asked {
  atomic_int times, after; /* how often; and so often it says no */
  atomic_bool gone;        /* it must not be asked */
  atomic_int wrong;
} asked;

static int ask(void *context_) {
  asked *self = context_;
  if (self->gone) self->wrong++;
  return self->times++ >= self->after;
}

TEST_THAT(a_run_that_should_end_ends) {
  keel_plan *plan = chain(400, 400000);
  keel_tensor *x = zeros(400000), *y = NULL;
  for (int round = 0; round < 6; round++) {
    asked me = {.after = round % 3};
    keel_status status = KD_OK;
    while (status ==
           KD_OK) { /* some are over before they are asked for the last time */
      status = keel_plan_run_with(
          plan, RUN_PARAMS(.should_end = ask, .should_end_context = &me), &x, 1,
          &y, 1);
      keel_tensor_release(y);
    }
    me.gone = true;
    assert_int_equal(status, KD_CANCELLED);
    expect_message("the run was cancelled: should_end said so");
    assert_true(me.times > me.after);
    usleep(25000);
    assert_int_equal(me.wrong, 0);
  }
  RELEASE(x, plan);
}

/* While it waits for an input that does not come. */
TEST_THAT(waits_end_as_well) {
  keel_plan *plan = chain(3, 8);
  keel_tensor *promise = create_promise(context), *y = NULL;
  asked me = {.after = 2};
  keel_run_params params = {.struct_size = sizeof params,
                            .should_end = ask,
                            .should_end_context = &me};
  expect_fails(keel_plan_run_with(plan, &params, &promise, 1, &y, 1),
               KD_CANCELLED, "should_end");
  me.times = 0;
  params.flags = KEEL_RUN_PARTIAL;
  assert_int_equal(keel_plan_run_with(plan, &params, &promise, 1, &y, 1),
                   KD_CANCELLED);
  assert_int_equal(keel_tensor_query(y), KD_CANCELLED);
  keel_tensor_release(y);
  expect_ok(keel_tensor_fail(promise, KD_ABORTED, "never"));
  RELEASE(promise, plan);
}

/* Beside a token and a time limit: the first of them ends the run. */
TEST_THAT(the_first_reason_counts) {
  keel_plan *plan = chain(3, 8);
  keel_tensor *promise = create_promise(context), *y = NULL;
  keel_cancel *cancel = create_cancel(context);
  asked never = {.after = INT32_MAX}, soon = {.after = 0};
  keel_run_params params = {.struct_size = sizeof params,
                            .cancel = cancel,
                            .timeout = 30000000,
                            .should_end = ask,
                            .should_end_context = &never};
  expect_fails(keel_plan_run_with(plan, &params, &promise, 1, &y, 1),
               KD_DEADLINE_EXCEEDED, "deadline");
  params.timeout = UINT64_MAX;
  params.should_end_context = &soon;
  expect_fails(keel_plan_run_with(plan, &params, &promise, 1, &y, 1),
               KD_CANCELLED, "should_end");
  keel_cancel_request(cancel, "by hand");
  expect_fails(keel_plan_run_with(plan, &params, &promise, 1, &y, 1),
               KD_CANCELLED, "by hand");
  expect_ok(keel_tensor_fail(promise, KD_ABORTED, "never"));
  RELEASE(cancel, promise, plan);
}

/* ---- the caller is told --------------------------------------------------------------- */

typedef struct told {
  atomic_int times, status;
  char text[200];
  asked *question; /* not asked any more; or NULL */
} told;

static void note(void *context_, keel_status status) {
  told *self = context_;
  if (self->question) self->question->gone = true;
  snprintf(self->text, sizeof self->text, "%s", keel_message());
  self->status = (int)status;
  self->times++;
}

static void expect_told(told *self, keel_status status, const char *text) {
  while (!self->times)
    usleep(100);
  usleep(2000);
  assert_int_equal(self->times, 1);
  assert_int_equal(self->status, status);
  assert_non_null(strstr(self->text, text));
}

/* y = -x on the device, z = -x on the host, and what a bad index leaves of w. */
static keel_plan *three(const char *device) {
  const int64_t two = 2;
  keel_builder *builder = create_builder(context, "three");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &two);
  keel_value i = keel_builder_input(builder, "i", KD_I64, 1, &two);
  keel_builder_output(builder, "y", op(builder, "Neg", x, KEEL_ABSENT));
  keel_builder_output(builder, "x", x);
  keel_builder_output(builder, "w", op(builder, "Gather", x, i));
  return finish_plan(builder,
                     PLAN_PARAMS(.device = find_device(context, device)));
}

TEST_THAT(a_run_tells_once) {
  const char *devices[] = {"cpu:0", "queue:0"};
  const int64_t two = 2, good[] = {0, 1}, bad[] = {0, 9};
  for (int k = 0; k < 400; k++) {
    static keel_plan *plans[2];
    keel_plan **plan = &plans[k & 1];
    bool fails = k % 3 == 0, partial = k % 5 == 0;
    told me = {0};
    if (!*plan) *plan = three(devices[k & 1]);
    keel_tensor *in[] = {
        zeros(2), create_tensor(context, KD_I64, 1, &two, fails ? bad : good)};
    keel_tensor *out[3] = {NULL};
    expect_ok(
        keel_plan_begin(*plan,
                        RUN_PARAMS(.flags = partial ? KEEL_RUN_PARTIAL : 0,
                                   .done = note, .done_context = &me),
                        in, 2, out, 3));
    release_all(in, 2);
    if (k % 2) release_all(out, 3); /* before it has ended, or after */
    expect_told(&me, fails ? KD_OUT_OF_RANGE : KD_OK, fails ? "9" : "");
    if (k % 2 == 0) {
      assert_int_equal(keel_tensor_query(out[2]), me.status);
      release_all(out, 3);
    }
    if (k >= 398) keel_plan_release(*plan);
  }
}

TEST_THAT(a_begun_run_that_should_end_tells) {
  keel_plan *plan = chain(3, 8);
  for (int k = 0; k < 6; k++) {
    keel_tensor *promise = create_promise(context), *y = NULL;
    asked question = {.after = k % 3};
    told me = {.question = &question};
    bool late = k & 1;
    expect_ok(keel_plan_begin(
        plan,
        RUN_PARAMS(.timeout = late ? 15000000 : 0, .should_end = ask,
                   .should_end_context = &question, .done = note,
                   .done_context = &me),
        &promise, 1, &y, 1));
    while (!me.times)
      usleep(1000);
    assert_true(me.status == KD_CANCELLED ||
                (late && me.status == KD_DEADLINE_EXCEEDED));
    assert_int_equal(keel_tensor_query(y), me.status);
    usleep(25000); /* not asked any more, though the input has not come */
    assert_int_equal(question.wrong, 0);
    assert_int_equal(me.times, 1);
    expect_ok(keel_tensor_fail(promise, KD_ABORTED, "never"));
    RELEASE(promise, y);
  }
  keel_plan_release(plan);
}

/* An input that arrives while the caller is asked: the run ends as it would. */
TEST_THAT(a_run_ends_beside_the_question) {
  keel_plan *plan = chain(3, 8);
  for (int k = 0; k < 60; k++) {
    keel_tensor *promise = create_promise(context), *x = zeros(8), *y = NULL;
    asked question = {.after = INT32_MAX};
    told me = {.question = &question};
    expect_ok(keel_plan_begin(
        plan,
        RUN_PARAMS(.should_end = ask, .should_end_context = &question,
                   .done = note, .done_context = &me),
        &promise, 1, &y, 1));
    usleep((unsigned)(k % 20) * 700);
    expect_ok(keel_tensor_fulfil(promise, x));
    expect_told(&me, KD_OK, "");
    assert_int_equal(question.wrong, 0);
    RELEASE(promise, x, y);
  }
  keel_plan_release(plan);
}

TEST_THAT(a_run_that_is_waited_for_tells_nobody) {
  keel_plan *plan = chain(3, 8);
  keel_tensor *x = zeros(8), *y = NULL;
  told me = {0};
  expect_fails(
      keel_plan_run_with(plan, RUN_PARAMS(.done = note, .done_context = &me),
                         &x, 1, &y, 1),
      KD_INVALID_ARGUMENT, "keel_plan_begin");
  expect_fails(
      keel_plan_begin(plan, RUN_PARAMS(.done = note, .done_context = &me), &x,
                      0, &y, 1),
      KD_INVALID_ARGUMENT, "inputs");
  assert_int_equal(me.times, 0);
  RELEASE(x, plan);
}

/* ---- shapes that are declared ---------------------------------------------------------- */

TEST_THAT(another_shape_is_refused) {
  keel_plan *fixed = chain(3, 8), *open = chain(3, -1);
  const int64_t grid[] = {2, 4};
  keel_tensor *eight = zeros(8), *nine = zeros(9), *y = NULL;
  keel_tensor *square = create_tensor(context, KD_F32, 2, grid, NULL);
  keel_run_params params = {.struct_size = sizeof params,
                            .flags = KEEL_RUN_DECLARED};
  struct {
    keel_plan *plan;
    keel_tensor *x;
    bool fits;
  } cases[] = {{fixed, eight, true},   {fixed, nine, false},
               {fixed, square, false}, {open, eight, true},
               {open, nine, true},     {open, square, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    keel_status status =
        keel_plan_run_with(cases[i].plan, &params, &cases[i].x, 1, &y, 1);
    assert_int_equal(status, cases[i].fits ? KD_OK : KD_INVALID_ARGUMENT);
    if (cases[i].fits)
      keel_tensor_release(y);
    else
      expect_message("declared shapes alone");
    expect_ok(keel_plan_begin(cases[i].plan, &params, &cases[i].x, 1, &y, 1));
    assert_int_equal(keel_tensor_wait(y),
                     cases[i].fits ? KD_OK : KD_INVALID_ARGUMENT);
    keel_tensor_release(y);
    /* without the flag, a plan that keeps its program runs other shapes */
    if (cases[i].plan == fixed && !cases[i].fits) continue;
    expect_ok(keel_plan_run(cases[i].plan, &cases[i].x, 1, &y, 1));
    keel_tensor_release(y);
  }
  release_all((keel_tensor *[]){eight, nine, square}, 3);
  RELEASE(fixed, open);
}

RUN_TESTS(open_cpu, close_context)
