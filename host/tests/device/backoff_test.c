/* backoff_test.c - back-pressure: a device with a ring of four jobs, which says KD_BUSY
 * to each call that takes a stream, and what runs on it all the same. */
#include <pthread.h>

#include "device/device.h"
#include "one_context.h"
#include "toy/toy.h"

enum { RING = 4, SIZE = 8, THREADS = 4 };

static keel_device *queue;
static keel_op *add; /* on it */
static toy_state *toy;

SETUP(open_queue) {
  context = open_with(CPU_PLUGIN, TOY("queue"), 1);
  queue = keel_device_at(context, 1);
  expect_ok(keel_op_prepare(context, "Add", NULL, 0, queue, &add));
  toy = toy_of(TOY("queue"));
  assert_non_null(toy);
  atomic_store(&toy->ring, RING);
  atomic_store(&toy->refused, 0);
  return 0;
}

SETUP(close_queue) {
  atomic_store(&toy->ring, 0);
  atomic_store(&toy->naps, 1);
  RELEASE(add, context);
  return 0;
}

/* x + one, `times` times, op by op. */
static keel_tensor *count_up(keel_tensor *x, keel_tensor *one, int times) {
  keel_tensor *at = keel_tensor_retain(x);
  for (int i = 0; i < times; i++) {
    keel_tensor *pair[] = {at, one}, *next = NULL;
    keel_status status = keel_op_call(add, pair, 2, &next, 1);
    keel_tensor_release(at);
    if (status != KD_OK) fail_msg("Add %d: %s", i, keel_message());
    at = next;
  }
  return at;
}

static keel_tensor *all_of(float value) {
  return equal_floats(context, SIZE, value);
}

static void expect_all(keel_tensor *tensor, float want) {
  expect_equal_floats(tensor, want, SIZE);
}

TEST_THAT(eager_ops_wait_for_room) {
  keel_tensor *x = all_of(0), *one = all_of(1);
  keel_tensor *y = count_up(x, one, 200);
  expect_all(y, 200);
  assert_true(atomic_load(&toy->refused) > 0);
  RELEASE(y, one, x);
}

/* Static runs and recordings are longer than the ring; copies go in and out beside them. */
TEST_THAT(planned_runs_wait_for_room) {
  keel_builder *builder = create_builder(context, "adds");
  keel_value x = keel_builder_input(builder, "x", KD_F32, DIMS(SIZE)), y = x;
  for (int i = 0; i < 20; i++)
    y = op(builder, "Add", op(builder, "Relu", y, KEEL_ABSENT), x);
  keel_program *program = program_giving(builder, y);
  keel_plan *plan = create_plan(program, PLAN_PARAMS(.device = queue));
  for (int i = 0; i < 30; i++) {
    keel_tensor *in = all_of((float)i), *out = NULL;
    if (keel_plan_run(plan, &in, 1, &out, 1) != KD_OK)
      fail_msg("run %d: %s", i, keel_message());
    expect_all(out, 21 * (float)i);
    RELEASE(out, in);
  }
  assert_true(atomic_load(&toy->refused) > 0);
  assert_true(keel_plan_replays(plan) > 0);
  RELEASE(plan, program);
}

static void *add_many(void *times) {
  keel_tensor *x = all_of(1), *one = all_of(1);
  keel_tensor *y = count_up(x, one, *(const int *)times);
  float data[SIZE] = {0};
  keel_status status = keel_tensor_read(y, data, sizeof data);
  RELEASE(y, one, x);
  bool right = status == KD_OK;
  for (int i = 0; i < SIZE; i++)
    right = right && data[i] == (float)(*(const int *)times + 1);
  return right ? times : NULL;
}

/* KEEL_ROOM_LAUNCHES: of all threads. */
TEST_THAT(threads_share_the_ring) {
  const char *given = getenv("KEEL_ROOM_LAUNCHES");
  int times = (given ? (int)strtol(given, NULL, 10) : 40000) / THREADS;
  pthread_t threads[THREADS];
  atomic_store(&toy->naps, 0);
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, add_many, &times), 0);
  for (int i = 0; i < THREADS; i++) {
    void *right = NULL;
    pthread_join(threads[i], &right);
    assert_non_null(right);
  }
  assert_true(atomic_load(&toy->refused) > 0);
}

TEST_THAT(a_device_that_never_has_room_is_an_error) {
  keel_tensor *x = all_of(0), *one = all_of(1), *out = NULL;
  keel_tensor *y = count_up(x, one, 1);
  atomic_store(&toy->ring, -1);
  keel_tensor *pair[] = {y, y};
  assert_int_equal(keel_op_call(add, pair, 2, &out, 1), KD_BUSY);
  assert_non_null(strstr(keel_message(), "queue:0 accepts no work (KD_BUSY)"));
  atomic_store(&toy->ring, RING);
  expect_all(y, 1);
  RELEASE(y, one, x);
}

int main(void) {
  around_each(open_queue, close_queue);
  return tests_run(NULL, NULL);
}
