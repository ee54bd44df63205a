/* eager_test.c - single ops: results, errors, caches, threads, devices. */
#include <pthread.h>

#define WORKERS 1
#include "with_cpu.h"

static const float data[] = {-1, 2, -3, 4};
static const float relu[] = {0, 2, 0, 4};

static void a_prepared_op_can_be_called_again(void **state) {
  keel_op *op = NULL;
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  (void)state;
  assert_int_equal(keel_op_prepare(context, "Relu", NULL, 0, NULL, &op), KD_OK);
  for (int i = 0; i < 1000; i++) {
    assert_int_equal(keel_op_call(op, &x, 1, &y, 1), KD_OK);
    expect_floats(y, relu, 4);
    keel_tensor_release(y);
  }
  keel_op_release(op);
  keel_tensor_release(x);
}

static void many_shapes_pass_through_one_op(void **state) {
  keel_op *op = NULL;
  static float zeros[64];
  (void)state;
  assert_int_equal(keel_op_prepare(context, "Relu", NULL, 0, NULL, &op), KD_OK);
  for (int64_t n = 0; n < 60; n++) { /* more than a site remembers */
    keel_tensor *x = floats(context, n, zeros), *y = NULL;
    assert_int_equal(keel_op_call(op, &x, 1, &y, 1), KD_OK);
    assert_int_equal(keel_tensor_elements(y), n);
    keel_tensor_release(x);
    keel_tensor_release(y);
  }
  keel_op_release(op);
}

static void attributes_tell_calls_apart(void **state) {
  const keel_attr first = KEEL_FLOAT("alpha", 0.5f);
  const keel_attr second = KEEL_FLOAT("alpha", 2);
  const float half[] = {-0.5f, 2, -1.5f, 4}, twice[] = {-2, 2, -6, 4};
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  (void)state;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(keel_call(context, "LeakyRelu", &first, 1, &x, 1, &y, 1),
                     KD_OK);
    expect_floats(y, half, 4);
    keel_tensor_release(y);
    assert_int_equal(keel_call(context, "LeakyRelu", &second, 1, &x, 1, &y, 1),
                     KD_OK);
    expect_floats(y, twice, 4);
    keel_tensor_release(y);
  }
  keel_tensor_release(x);
}

static void mistakes_are_named(void **state) {
  const keel_attr wrong = KEEL_INT("alfa", 1), kind = KEEL_INT("alpha", 1);
  const int64_t three = 3;
  keel_tensor *x = floats(context, 4, data),
              *three_floats = floats(context, 3, data);
  keel_tensor *whole = NULL, *y = NULL;
  (void)state;
  assert_int_equal(keel_tensor_create(context, KD_I64, 1, &three, NULL, &whole),
                   KD_OK);
  assert_int_equal(keel_call(context, "Relux", NULL, 0, &x, 1, &y, 1),
                   KD_NOT_FOUND);
  expect_message("did you mean Relu");
  assert_int_equal(keel_call(context, "LeakyRelu", &wrong, 1, &x, 1, &y, 1),
                   KD_INVALID_ARGUMENT);
  expect_message("it has alpha");
  assert_int_equal(keel_call(context, "LeakyRelu", &kind, 1, &x, 1, &y, 1),
                   KD_INVALID_ARGUMENT);
  expect_message("is a float, not an int");
  keel_tensor *pair[] = {x, three_floats}, *mixed[] = {x, whole};
  assert_int_equal(keel_call(context, "Add", NULL, 0, pair, 2, &y, 1),
                   KD_INVALID_ARGUMENT);
  expect_message("Add(A f32[4], B f32[3])");
  assert_int_equal(keel_call(context, "Add", NULL, 0, mixed, 2, &y, 1),
                   KD_INVALID_ARGUMENT);
  expect_message("B is i64 and must be f32");
  assert_int_equal(keel_call(context, "Add", NULL, 0, pair, 1, &y, 1),
                   KD_INVALID_ARGUMENT);
  expect_message("takes 2");
  assert_int_equal(keel_call(context, "Not", NULL, 0, &x, 1, &y, 1),
                   KD_INVALID_ARGUMENT);
  expect_message("can't be f32");
  const keel_attr axis = KEEL_INT("axis", 0);
  keel_tensor *absent[] = {NULL, x};
  assert_int_equal(keel_call(context, "Concat", &axis, 1, absent, 2, &y, 1),
                   KD_INVALID_ARGUMENT);
  expect_message("inputs is missing");
  assert_int_equal(keel_call(context, "Split", &axis, 1, &x, 1, &y, 0),
                   KD_INVALID_ARGUMENT);
  expect_message("no output");
  assert_int_equal(keel_call(context, "Identity", NULL, 0, &x, 1, &y, 0),
                   KD_INVALID_ARGUMENT);
  assert_null(y);
  keel_tensor_release(x);
  keel_tensor_release(three_floats);
  keel_tensor_release(whole);
}

static void what_depends_on_a_failure_fails_with_it(void **state) {
  keel_tensor *promise = NULL, *y = NULL, *z = NULL;
  (void)state;
  assert_int_equal(keel_tensor_promise(context, &promise), KD_OK);
  assert_int_equal(keel_call(context, "Relu", NULL, 0, &promise, 1, &y, 1),
                   KD_OK);
  assert_int_equal(keel_tensor_query(y), KD_BUSY);
  assert_int_equal(keel_tensor_fail(promise, KD_ABORTED, "no more data"),
                   KD_OK);
  assert_int_equal(keel_tensor_wait(y), KD_ABORTED);
  expect_message("no more data");
  assert_int_equal(keel_call(context, "Relu", NULL, 0, &y, 1, &z, 1), KD_OK);
  assert_int_equal(keel_tensor_query(z), KD_ABORTED);
  keel_tensor_release(promise);
  keel_tensor_release(y);
  keel_tensor_release(z);
}

static void calls_on_a_promise_run_when_it_is_kept(void **state) {
  keel_tensor *x = floats(context, 4, data), *promise = NULL, *y = NULL;
  (void)state;
  assert_int_equal(keel_tensor_promise(context, &promise), KD_OK);
  assert_int_equal(keel_call(context, "Relu", NULL, 0, &promise, 1, &y, 1),
                   KD_OK);
  assert_int_equal(keel_tensor_fulfil(promise, x), KD_OK);
  expect_floats(y, relu, 4);
  keel_tensor_release(promise);
  keel_tensor_release(x);
  keel_tensor_release(y);
}

static void a_late_shape_error_reaches_the_output(void **state) {
  keel_tensor *x = floats(context, 3, data), *promise = NULL, *y = NULL;
  (void)state;
  assert_int_equal(keel_tensor_promise(context, &promise), KD_OK);
  keel_tensor *four = floats(context, 4, data), *pair[] = {four, promise};
  assert_int_equal(keel_call(context, "Add", NULL, 0, pair, 2, &y, 1), KD_OK);
  assert_int_equal(keel_tensor_fulfil(promise, x), KD_OK);
  assert_int_equal(keel_tensor_wait(y), KD_INVALID_ARGUMENT);
  expect_message("Add(A f32[4], B f32[3])");
  keel_tensor_release(promise);
  keel_tensor_release(four);
  keel_tensor_release(x);
  keel_tensor_release(y);
}

static keel_op *shared;

static void *call_often(void *argument) {
  for (int i = 0; i < 2000; i++) {
    keel_tensor *x = floats(context, 4, data), *y = NULL, *z = NULL;
    bool good = keel_op_call(shared, &x, 1, &y, 1) == KD_OK &&
                keel_call(context, "Neg", NULL, 0, &y, 1, &z, 1) == KD_OK;
    const float *got = good ? keel_tensor_data(z) : NULL;
    if (!got || got[1] != -2) return argument;
    keel_tensor_release(x);
    keel_tensor_release(y);
    keel_tensor_release(z);
  }
  return NULL;
}

static void threads_may_share_an_op(void **state) {
  pthread_t threads[4];
  (void)state;
  assert_int_equal(keel_op_prepare(context, "Relu", NULL, 0, NULL, &shared),
                   KD_OK);
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, call_often, &shared);
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
  keel_op_release(shared);
}

/* Pieces over 64 KiB go through the heap's own lists. */
static void *call_with_large(void *argument) {
  enum { COUNT = 40000 };
  float *numbers = malloc(COUNT * sizeof *numbers);
  for (int i = 0; i < COUNT; i++)
    numbers[i] = (float)(i % 7 - 3);
  for (int i = 0; i < 300; i++) {
    keel_tensor *x = floats(context, COUNT - i % 3 * 9000, numbers);
    keel_tensor *y = NULL, *z = NULL;
    bool good = keel_call(context, "Relu", NULL, 0, &x, 1, &y, 1) == KD_OK &&
                keel_call(context, "Neg", NULL, 0, &y, 1, &z, 1) == KD_OK;
    const float *got = good ? keel_tensor_data(z) : NULL;
    if (!got || got[6] != -3 ||
        got[20000] != -numbers[20000] * (numbers[20000] > 0))
      return argument;
    keel_tensor_release(x);
    keel_tensor_release(y);
    keel_tensor_release(z);
  }
  free(numbers);
  return NULL;
}

static void threads_share_large_memory(void **state) {
  pthread_t threads[4];
  (void)state;
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], NULL, call_with_large, &shared);
  for (int i = 0; i < 4; i++) {
    void *wrong = NULL;
    pthread_join(threads[i], &wrong);
    assert_null(wrong);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_prepared_op_can_be_called_again),
      cmocka_unit_test(many_shapes_pass_through_one_op),
      cmocka_unit_test(attributes_tell_calls_apart),
      cmocka_unit_test(mistakes_are_named),
      cmocka_unit_test(what_depends_on_a_failure_fails_with_it),
      cmocka_unit_test(calls_on_a_promise_run_when_it_is_kept),
      cmocka_unit_test(a_late_shape_error_reaches_the_output),
      cmocka_unit_test(threads_may_share_an_op),
      cmocka_unit_test(threads_share_large_memory),
  };
  return cmocka_run_group_tests(tests, open_cpu, close_cpu);
}
