/* heap_test.c - which memory is kept: small pieces of a device that one thread takes and another
 * frees, as to give them back would wait for the device, and sizes that come again, but not
 * those that tensors have grown out of. */
#include <pthread.h>

#include "device/context.h"
#include "device/device.h"
#include "one_context.h"
#include "toy/toy.h"

enum { COUNT = 100, KEPT = 16 };

static keel_device *device;

SETUP(open_queue) {
  context = open_with(CPU_PLUGIN, TOY("queue"), 1);
  device = find_device(context, "queue:0");
  return keel_device_ready(device);
}

static void *make(void *out) {
  keel_buffer **buffers = out;
  for (int i = 0; i < COUNT; i++)
    if (keel_heap_take(&device->heap, 256, &buffers[i]) != KD_OK) return NULL;
  return out;
}

static void make_elsewhere(keel_buffer **buffers) {
  pthread_t thread;
  void *made = NULL;
  assert_int_equal(pthread_create(&thread, NULL, make, buffers), 0);
  pthread_join(thread, &made);
  assert_non_null(made);
}

TEST_THAT(what_another_thread_frees_is_taken_again) {
  keel_buffer *buffers[COUNT];
  make_elsewhere(buffers);
  for (int round = 0; round < 5; round++) {
    const uint64_t pieces = atomic_load(&device->heap.pieces);
    for (int i = 0; i < COUNT; i++)
      keel_buffer_release(buffers[i]);
    assert_int_equal(atomic_load(&device->heap.pieces), pieces);
    make_elsewhere(buffers); /* but for what this thread keeps for itself */
    assert_true(atomic_load(&device->heap.pieces) <= COUNT + KEPT);
  }
  for (int i = 0; i < COUNT; i++)
    keel_buffer_release(buffers[i]);
}

enum { MIB = 1 << 20 };

static keel_stats stats_now(void) {
  keel_stats stats;
  keel_get_stats(context, &stats);
  return stats;
}

/* A piece is there until the next, larger one is. */
TEST_THAT(what_is_grown_out_of_is_not_kept) {
  enum { MOST = 64 };
  keel_buffer *old = NULL, *larger = NULL;
  for (int round = 0; round < 2; round++) {
    for (int i = 1; i <= MOST; i++) {
      expect_ok(keel_heap_take(&device->heap, (uint64_t)i * MIB, &larger));
      if (old) keel_buffer_release(old);
      old = larger;
    }
    keel_buffer_release(old);
    old = NULL;
    if (!round)
      assert_true(stats_now().peak_bytes <= UINT64_C(21) * MOST * MIB / 10);
  }
  /* the two largest were there when the others came again */
  assert_true(stats_now().peak_bytes <= UINT64_C(4) * MOST * MIB);
}

/* The first rounds may give back what a larger piece comes after. */
TEST_THAT(sizes_that_come_again_are_kept) {
  static const uint64_t sizes[] = {2, 1, 8, 4, 16, 32};
  enum { SIZES = sizeof sizes / sizeof *sizes };
  for (int round = 0; round < 2 * SIZES; round++) {
    uint64_t sum = 0;
    for (int i = 0; i < SIZES; i++) {
      keel_buffer *buffer = NULL;
      expect_ok(keel_heap_take(&device->heap, sizes[i] * MIB, &buffer));
      keel_buffer_release(buffer);
      sum += sizes[i] * MIB;
    }
    if (round >= SIZES) assert_int_equal(stats_now().pooled_bytes, sum);
  }
}

static void take_and_free(uint64_t size) {
  keel_buffer *buffer = NULL;
  expect_ok(keel_heap_take(&device->heap, size, &buffer));
  keel_buffer_release(buffer);
}

/* A kept one of less than twice the size serves; one of twice the size does not. */
TEST_THAT(a_larger_one_serves) {
  take_and_free(8 * MIB);
  for (uint64_t size = 7; size > 4; size--)
    take_and_free(size * MIB);
  assert_int_equal(stats_now().pooled_bytes, 8 * MIB);
  take_and_free(4 * MIB);
  assert_int_equal(stats_now().pooled_bytes, 12 * MIB);
}

/* A new one replaces no more of the smaller than it takes. */
TEST_THAT(a_new_one_replaces_its_own_size) {
  for (uint64_t size = 2; size <= 16; size *= 2)
    take_and_free(size * MIB); /* 16 replaces 8, and 8 has replaced the rest */
  assert_int_equal(stats_now().pooled_bytes, 16 * MIB);
  for (uint64_t size = 8; size >= 2; size /= 2)
    take_and_free(size * MIB);
  assert_int_equal(stats_now().pooled_bytes, 30 * MIB);
  take_and_free(24 * MIB);
  assert_int_equal(stats_now().pooled_bytes, (24 + 4 + 2) * MIB);
}

/* What is too large to be kept is allocated each time: smaller pieces stay nevertheless. */
TEST_THAT(what_is_never_kept_replaces_nothing) {
  context->pool_limit = 8 * MIB;
  take_and_free(16 * MIB);
  take_and_free(2 * MIB);
  for (int round = 0; round < 3; round++) {
    take_and_free(16 * MIB);
    assert_int_equal(stats_now().pooled_bytes, 2 * MIB);
  }
}

/* As many at once as there have been: by as many runs. */
TEST_THAT(as_many_as_before_replace_nothing) {
  keel_buffer *both[2] = {NULL, NULL};
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 2; i++)
      expect_ok(keel_heap_take(&device->heap, 16 * MIB, &both[i]));
    if (round) assert_int_equal(stats_now().pooled_bytes, 2 * MIB);
    for (int i = 0; i < 2; i++)
      keel_buffer_release(both[i]);
    keel_heap_trim(&device->heap);
    take_and_free(2 * MIB);
  }
}

/* To free a buffer that is not kept waits for the device; the message of a failure before stays. */
TEST_THAT(a_message_outlives_what_is_freed) {
  keel_buffer *buffer = NULL;
  context->pool_limit = 0;
  expect_ok(keel_heap_take(&device->heap, MIB, &buffer));
  keel_fail(KD_INTERNAL, "what failed before");
  keel_buffer_release(buffer);
  expect_message("what failed before");
  assert_true(keel_has_error());
}

TEST_THAT(what_is_exported_replaces_nothing) {
  keel_buffer *exported = NULL;
  take_and_free(2 * MIB);
  expect_ok(keel_heap_take_exported(&device->heap, 16 * MIB,
                                    KD_EXTERNAL_OPAQUE_FD, &exported));
  assert_int_equal(stats_now().pooled_bytes, 2 * MIB);
  keel_buffer_release(exported);
}

static keel_program *growing_program(int64_t step) {
  keel_builder *b = create_builder(context, "growing");
  const keel_attr axis = KEEL_INT("axis", 0);
  keel_value x = keel_builder_input(b, "x", KD_F32, 1, &step);
  keel_value in[] = {keel_builder_input(b, "rounds", KD_I64, 0, NULL),
                     KEEL_ABSENT, add_constant(b, KD_F32, DIMS(0), NULL)};
  keel_builder *body = create_body(b, "body");
  keel_builder_input(body, "i", KD_I64, 0, NULL);
  keel_value go = keel_builder_input(body, "go", KD_BOOL, 0, NULL);
  keel_value both[] = {keel_builder_input(body, "s", KD_F32, DIMS(-1)),
                       keel_builder_capture(body, x)};
  keel_builder_output(body, "more", op(body, "Identity", go, KEEL_ABSENT));
  keel_builder_output(body, "grown",
                      keel_builder_op(body, "Concat", &axis, 1, both, 2));
  const keel_attr attr = KEEL_BODY("body", body);
  keel_value y = keel_builder_op(b, "Loop", &attr, 1, in, 3);
  keel_builder_destroy(body);
  return program_giving(b, y);
}

TEST_THAT(a_growing_state_takes_twice_its_size) {
  enum { STEP = MIB / 16, ROUNDS = 128, WHOLE = 4 * STEP * ROUNDS };
  static float list[STEP];
  const int64_t step = STEP, rounds = ROUNDS;
  keel_program *program = growing_program(STEP);
  keel_plan *plan = create_plan(program, NULL);
  keel_tensor *in[] = {create_tensor(context, KD_F32, 1, &step, list),
                       create_tensor(context, KD_I64, 0, NULL, &rounds)};
  keel_tensor *y = output_of(plan, in, 2);
  expect_ok(keel_tensor_wait(y));
  assert_int_equal(keel_tensor_size(y), WHOLE);
  assert_true(stats_now().peak_bytes <= UINT64_C(21) * WHOLE / 10);
  keel_tensor_release(y);
  release_all(in, 2);
  RELEASE(plan, program);
}

int main(void) {
  around_each(open_queue, close_context);
  return tests_run(NULL, NULL);
}
