/* heap_test.c - small memory of a device that one thread takes and another frees is kept for
 * both: to give it back would wait for the device. */
#include <pthread.h>

#include "device/context.h"
#include "device/device.h"
#include "testing.h"
#include "toy/toy.h"

enum { COUNT = 100, KEPT = 16 };

static keel_device *device;

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

static void what_another_thread_frees_is_taken_again(void **state) {
  keel_buffer *buffers[COUNT];
  (void)state;
  keel_context *context = open_with(CPU_PLUGIN, TOY("queue"), 1);
  expect_ok(keel_device_find(context, "queue:0", &device));
  expect_ok(keel_device_ready(device));
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
  keel_close(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_another_thread_frees_is_taken_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
