/* failures_test.c - nobody reads the output of failed work as a result, whoever was told of
 * the failure first: in single calls, in programs, and beside a thread that always waits. On
 * the toy's queue a product by 13 fails, after the call has returned. */
#include <pthread.h>
#include <stdatomic.h>

#include "testing.h"
#include "toy/toy.h"

static keel_context *context;
static keel_device *queue;
static const float two[2] = {1, -2};
static const int64_t dims[1] = {2};

static void begin(void) {
  context = open_with(CPU_PLUGIN, TOY("queue"), 2);
  expect_ok(keel_device_find(context, "queue:0", &queue));
}

static keel_tensor *there(const float *values) {
  keel_tensor *here = create_tensor(context, KD_F32, values ? 1 : 0, dims,
                                    values ? values : (const float[]){13});
  keel_tensor *moved = NULL;
  expect_ok(keel_tensor_to(here, queue, &moved));
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

static void who_reads_second_is_told_too(void **state) {
  (void)state;
  begin();
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
    keel_tensor_release(good);
    keel_tensor_release(bad);
  }
  keel_tensor_release(kept);
  keel_tensor_release(x);
  keel_tensor_release(thirteen);
  keel_close(context);
}

static void what_another_wait_was_told_is_not_lost(void **state) {
  (void)state;
  begin();
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
  keel_tensor_release(bad);
  keel_tensor_release(x);
  keel_tensor_release(thirteen);
  keel_close(context);
}

/* A copy out of the device that succeeds settles all work before it. */
static keel_plan *plan_of_factor(float factor, bool to_host);
static void what_came_before_a_good_copy_stays_good(void **state) {
  (void)state;
  begin();
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
  keel_close(context);
}

/* ---- programs --------------------------------------------------------------------------- */

static keel_plan *plan_of_factor(float factor, bool to_host) {
  keel_builder *builder = create_builder(context, "by");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, dims);
  keel_value y = op(builder, "Relu", x, KEEL_ABSENT);
  y = op(
      builder, "Mul", y,
      constant_of(builder, create_tensor(context, KD_F32, 0, NULL, &factor)));
  y = op(builder, "Relu", y, KEEL_ABSENT);
  if (to_host) y = op(builder, "Neg", y, KEEL_ABSENT);
  keel_builder_output(builder, "y", y);
  keel_program *program = finish_program(builder);
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = queue};
  keel_plan *plan = create_plan(program, &params);
  keel_program_release(program);
  return plan;
}

static void a_program_s_output_and_input(void **state) {
  (void)state;
  begin();
  keel_plan *bad = plan_of_factor(13, false), *good = plan_of_factor(2, false);
  keel_tensor *x = there(two), *y = NULL, *z = NULL;
  for (int run = 0; run < 6; run++) { /* dynamic, static, then recorded */
    expect_ok(keel_plan_run(good, &x, 1, &z, 1));
    expect_floats(z, (const float[]){2, 0}, 2);
    keel_tensor_release(z);
    /* the output stays on the device, whose work fails later */
    if (keel_plan_run(bad, &x, 1, &y, 1) != KD_OK) continue;
    assert_int_equal(keel_device_synchronize(queue), KD_INTERNAL);
    assert_int_equal(keel_plan_run(good, &y, 1, &z, 1), KD_INTERNAL);
    assert_non_null(strstr(keel_message(), "13"));
    expect_bad(y);
    keel_tensor_release(y);
  }
  keel_tensor_release(x);
  keel_plan_release(bad);
  keel_plan_release(good);
  keel_close(context);
}

/* ---- another thread ---------------------------------------------------------------------- */

static atomic_bool stop;

static void *wait_always(void *told) {
  while (!atomic_load(&stop))
    if (keel_device_synchronize(queue) != KD_OK)
      atomic_fetch_add((atomic_int *)told, 1);
  return NULL;
}

static void every_run_that_fails_says_so(void **state) {
  enum { RUNS = 2000 };
  (void)state;
  begin();
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
  keel_tensor_release(x);
  keel_plan_release(plan);
  keel_device_synchronize(queue);
  keel_close(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_reads_second_is_told_too),
      cmocka_unit_test(what_another_wait_was_told_is_not_lost),
      cmocka_unit_test(what_came_before_a_good_copy_stays_good),
      cmocka_unit_test(a_program_s_output_and_input),
      cmocka_unit_test(every_run_that_fails_says_so),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
