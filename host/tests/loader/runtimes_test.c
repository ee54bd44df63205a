/* runtimes_test.c - what other runtimes' authors and users say of theirs, and is not
 * here: each by a test that is called after it. (The list is that of TensorFlow's eager
 * runtime, by its own authors, and of ONNX Runtime's issues 22778, 17011 and 6725.) */
#include <sys/resource.h>
#include <unistd.h>

#include "device/context.h"
#include "device/device.h"
#include "eager/cache.h"
#include "one_context.h"
#include "toy/toy.h"

static keel_device *cpu, *queue;

SETUP(open_both) {
  context = open_with(CPU_PLUGIN, TOY("queue"), 2);
  expect_ok(keel_device_find(context, "cpu:0", &cpu));
  expect_ok(keel_device_find(context, "queue:0", &queue));
  return 0;
}

static uint64_t kernels(void) {
  keel_stats stats;
  keel_get_stats(context, &stats);
  return stats.kernels;
}

/* "String-keyed kernel cache entered per call": a prepared op goes on where the cache
 * has long forgotten its kernel. */
TEST_THAT(no_kernel_cache_is_entered_by_a_prepared_call) {
  const float numbers[] = {-1, 2}, want[] = {0, 2};
  keel_tensor *x = floats(context, 2, numbers), *y = NULL;
  keel_op *relu = prepare_op(context, "Relu", NULL, 0, cpu);
  expect_ok(keel_op_call(relu, &x, 1, &y, 1));
  keel_tensor_release(y);
  keel_kernel_cache *cache = context->kernels;
  context->kernels = NULL; /* whoever enters it now, falls */
  for (int i = 0; i < 100; i++) {
    expect_ok(keel_op_call(relu, &x, 1, &y, 1));
    expect_floats(y, want, 2);
    keel_tensor_release(y);
  }
  context->kernels = cache;
  RELEASE(x, relu);
}

/* "Inputs must be attached anew for each call of an op object": they are arguments. */
TEST_THAT(an_op_object_takes_its_inputs_as_arguments) {
  const float one[] = {1}, two[] = {2}, sums[] = {2, 3, 4};
  keel_tensor *a = floats(context, 1, one), *b = floats(context, 1, two);
  keel_tensor *const pairs[][2] = {{a, a}, {a, b}, {b, b}};
  keel_op *add = prepare_op(context, "Add", NULL, 0, cpu);
  for (int i = 0; i < 3; i++) {
    keel_tensor *y = NULL;
    expect_ok(keel_op_call(add, pairs[i], 2, &y, 1));
    expect_floats(y, &sums[i], 1);
    keel_tensor_release(y);
  }
  RELEASE(add, a, b);
}

/* "Asynchronous mode loses error messages": what fails later says op, argument and
 * shapes, and so does what depends on it. */
TEST_THAT(a_late_error_keeps_its_message) {
  const float three[] = {1, 2, 3}, two[] = {1, 2};
  keel_tensor *promise = NULL, *late = floats(context, 3, three);
  keel_tensor *b = floats(context, 2, two), *y = NULL, *z = NULL;
  expect_ok(keel_tensor_promise(context, &promise));
  keel_tensor *in[] = {promise, b};
  expect_ok(keel_call(context, "Add", NULL, 0, in, 2, &y, 1));
  expect_ok(keel_call(context, "Neg", NULL, 0, &y, 1, &z, 1));
  expect_ok(keel_tensor_fulfil(promise, late));
  expect_fails(keel_tensor_wait(z), KD_INVALID_ARGUMENT, "Add");
  expect_message("f32[3]");
  expect_message("f32[2]");
  RELEASE(z, y, promise, late, b);
}

/* "... and skips shape inference": a call on an asynchronous device that can't be is
 * refused at once, and the outputs' shapes are known while it works. */
TEST_THAT(shapes_are_inferred_on_asynchronous_devices) {
  const float three[] = {1, 2, 3}, two[] = {1, 2};
  keel_tensor *a = floats(context, 3, three), *b = floats(context, 2, two);
  keel_tensor *in[] = {a, b}, *same[] = {a, a}, *y = NULL;
  expect_ok(keel_device_push(queue));
  expect_fails(keel_call(context, "Add", NULL, 0, in, 2, &y, 1),
               KD_INVALID_ARGUMENT, "f32[3]");
  expect_ok(keel_call(context, "Add", NULL, 0, same, 2, &y, 1));
  assert_int_equal(keel_tensor_dims(y)[0], 3);
  keel_device_pop();
  RELEASE(y, a, b);
}

/* "Co-location groups move variables silently": an input that is copied for a device
 * stays where it is, and so does its holder's view of it. */
TEST_THAT(a_value_stays_where_it_was_put) {
  const float numbers[] = {-1, 2}, want[] = {0, 2};
  keel_tensor *x = floats(context, 2, numbers), *there = NULL, *y = NULL;
  expect_ok(keel_tensor_to(x, queue, &there));
  y = call_op_on(cpu, context, "Relu", &there, 1);
  assert_ptr_equal(keel_tensor_device(there), queue);
  assert_ptr_equal(keel_tensor_device(y), cpu);
  expect_floats(y, want, 2);
  RELEASE(y, there, x);
}

/* "int32 is pinned to the host by rule": it runs where it is asked to. */
TEST_THAT(int32_runs_on_the_device_that_is_named) {
  const int32_t numbers[] = {3, -4}, want[] = {6, -8};
  keel_tensor *x = create_tensor(context, KD_I32, DIMS(2), numbers);
  keel_tensor *in[] = {x, x};
  keel_tensor *y = call_op_on(cpu, context, "Add", in, 2);
  assert_ptr_equal(keel_tensor_device(y), cpu);
  assert_memory_equal(keel_tensor_data(y), want, sizeof want);
  RELEASE(x, y);
}

/* "Kernel cache unbounded". */
TEST_THAT(the_kernel_cache_is_bounded) {
  uint64_t most = 0;
  for (int64_t size = 1; size <= 6000; size++) {
    keel_tensor *x = create_tensor(context, KD_F32, 1, &size, NULL);
    const keel_attr axis = KEEL_INT("axis", 0);
    keel_tensor *y = call_op(context, "Softmax", &axis, 1, &x, 1);
    RELEASE(x, y);
    most = kernels() > most ? kernels() : most;
  }
  assert_true(most <= 4096);
}

/* "Random-number state hidden in kernels": the same seed, the same numbers, however
 * often and wherever; random_test.c has the rest. */
TEST_THAT(random_ops_have_no_state) {
  const int64_t shape = 16;
  const keel_attr attrs[] = {KEEL_INTS("shape", 1, &shape),
                             KEEL_FLOAT("seed", 5)};
  float first[16], next[16];
  for (int i = 0; i < 6; i++) {
    expect_ok(keel_device_push(i % 2 ? queue : cpu));
    keel_tensor *x = call_op(context, "RandomNormal", attrs, 2, NULL, 0);
    keel_device_pop();
    expect_ok(keel_tensor_read(x, i ? next : first, sizeof first));
    if (i) assert_memory_equal(first, next, sizeof first);
    keel_tensor_release(x);
  }
}

static uint64_t processor_time(void) {
  struct rusage use;
  getrusage(RUSAGE_SELF, &use);
  return ((uint64_t)use.ru_utime.tv_sec + (uint64_t)use.ru_stime.tv_sec) *
             1000000 +
         (uint64_t)use.ru_utime.tv_usec + (uint64_t)use.ru_stime.tv_usec;
}

/* "Idle spinning burns a core" (6725): in a fifth of a second that nothing runs, the
 * process takes less than a twentieth of a core. */
TEST_THAT(idle_workers_sleep) {
  const int64_t many = 1 << 20;
  keel_tensor *y = NULL;
  keel_tensor *x = create_tensor(context, KD_F32, 1, &many, NULL);
  keel_op *relu = prepare_op(context, "Relu", NULL, 0, cpu);
  expect_ok(keel_op_call(relu, &x, 1, &y, 1));
  usleep(50000); /* workers look for more work first, for a bounded time */
  uint64_t before = processor_time();
  usleep(200000);
  assert_true(processor_time() - before < 10000);
  RELEASE(x, y, relu);
}

/* "Two sessions in one process disturb each other by spinning pools" (22778, 17011):
 * there is one pool, however many contexts there are that ask for as many threads. */
TEST_THAT(contexts_of_one_number_share_a_pool) {
  int32_t workers = (int32_t)keel_worker_count(context) - 1;
  keel_context *same = open_with(CPU_PLUGIN, NULL, workers);
  keel_context *other = open_with(CPU_PLUGIN, NULL, workers + 1);
  assert_ptr_equal(same->pool, context->pool);
  assert_ptr_not_equal(other->pool, context->pool);
  assert_int_equal(keel_worker_count(other), workers + 2);
  RELEASE(other, same);
}

/* Callers that never help leave all the threads to the pool. */
TEST_THAT(callers_apart_do_not_count) {
  close_context(NULL);
  const char *was = getenv("KEEL_THREADS");
  char *kept = was ? strdup(was) : NULL;
  setenv("KEEL_THREADS", "3", 1);
  context = open_with(CPU_PLUGIN, NULL, 0);
  assert_int_equal(keel_worker_count(context), 3);
  keel_close(context);
  context = open_with(CPU_PLUGIN, NULL, KEEL_CALLERS_APART);
  assert_int_equal(keel_worker_count(context), 4);
  keel_close(context);
  setenv("KEEL_THREADS", "1", 1);
  context = open_with(CPU_PLUGIN, NULL, KEEL_CALLERS_APART);
  assert_int_equal(keel_worker_count(context), 2);
  if (kept)
    setenv("KEEL_THREADS", kept, 1);
  else
    unsetenv("KEEL_THREADS");
  free(kept);
}

/* "The executor cannot run single-threaded": everything on the caller, devices that
 * work asynchronously included. */
TEST_THAT(no_workers_are_enough) {
  const float numbers[] = {-1, 2}, want[] = {0, 4};
  close_context(NULL);
  context = open_with(CPU_PLUGIN, TOY("queue"), KEEL_NO_WORKERS);
  expect_ok(keel_device_find(context, "cpu:0", &cpu));
  expect_ok(keel_device_find(context, "queue:0", &queue));
  assert_int_equal(keel_worker_count(context), 1);
  keel_builder *builder = create_builder(context, "one");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(2));
  keel_device_push(queue);
  keel_value y = op(builder, "Relu", x, KEEL_ABSENT);
  keel_device_pop();
  keel_device_push(cpu);
  keel_builder_output(builder, "y", op(builder, "Add", y, y));
  keel_device_pop();
  keel_plan *plan = finish_plan(builder, NULL);
  for (int i = 0; i < 20; i++) {
    expect_run(context, plan, numbers, want, 2);
  }
  keel_plan_release(plan);
}

/* Nothing waits for a device with a thread of its own: a thousand copies are on their
 * way at once, and one worker is enough. */
TEST_THAT(a_thousand_pending_events_hold_no_thread) {
  enum { BRANCHES = 1000 };
  static keel_tensor *out[BRANCHES];
  const float number = 2;
  close_context(NULL);
  context = open_with(CPU_PLUGIN, TOY("queue"), 1);
  expect_ok(keel_device_find(context, "cpu:0", &cpu));
  expect_ok(keel_device_find(context, "queue:0", &queue));
  keel_builder *builder = create_builder(context, "many");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(1));
  for (int i = 0; i < BRANCHES; i++) {
    float bias = (float)i;
    keel_value b = constant_of(builder, floats(context, 1, &bias));
    keel_device_push(queue);
    keel_value there = op(builder, "Add", x, b);
    keel_device_pop();
    keel_device_push(cpu);
    keel_builder_output(builder, "y", op(builder, "Neg", there, KEEL_ABSENT));
    keel_device_pop();
  }
  keel_plan *plan = finish_plan(builder, NULL);
  for (int round = 0; round < 3; round++) {
    keel_tensor *in = floats(context, 1, &number);
    expect_ok(keel_plan_run(plan, &in, 1, out, BRANCHES));
    for (int i = 0; i < BRANCHES; i++) {
      const float want = -(number + (float)i);
      expect_floats(out[i], &want, 1);
      keel_tensor_release(out[i]);
    }
    keel_tensor_release(in);
  }
  keel_plan_release(plan);
}

/* "It picks ready nodes blindly" is the_longest_way_comes_first of static_run_test.c. */

RUN_TESTS(open_both, close_context)
