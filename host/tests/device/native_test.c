/* native_test.c - native handles where there is no driver: what is refused, and why. */
#include "native.h"
#include "toy/toy.h"

/* A plugin without the table, whose device has no queue. */
TEST_THAT(a_plugin_without_handles_is_named) {
  uint64_t handle = 5, offset = 6;
  assert_true(begin(CPU_PLUGIN, "cpu:0", NULL, 0));
  keel_tensor *x = floats(context, COUNT, data);
  expect_fails(
      keel_device_native(device, KD_NATIVE_CL_DEVICE, &handle),
      KD_UNIMPLEMENTED,
      "cpu:0: its plugin gives no native handles (the table kd.native/1");
  expect_fails(keel_device_queue(device, KD_NATIVE_CL_QUEUE, &handle),
               KD_UNIMPLEMENTED, "cpu:0: its plugin gives no native handles");
  expect_fails(keel_device_use_queue(device, KD_NATIVE_CL_QUEUE, 1),
               KD_UNIMPLEMENTED, "cpu:0: its plugin gives no native handles");
  expect_fails(keel_device_use_queue(device, 0, 0), KD_UNIMPLEMENTED,
               "cpu:0 has no queue: its work is done when a call returns");
  expect_fails(
      keel_tensor_native(x, KD_NATIVE_CL_MEM, KD_READ, &handle, &offset),
      KD_INVALID_ARGUMENT, "the tensor lies in host memory");
  expect_ok(keel_device_synchronize(device));
  assert_int_equal(handle, 5);
  assert_int_equal(offset, 6);
  keel_tensor_release(x);
  end();
}

/* One with a queue, and no table: Keel's own queue is there all the same. */
TEST_THAT(a_queue_of_keels_is_no_native_one) {
  uint64_t handle = 5, offset = 6;
  assert_true(begin(TOY("queue"), "queue:0", NULL, 0));
  expect_ok(keel_device_synchronize(device)); /* not open yet */
  keel_tensor *x = uploaded();
  expect_fails(
      keel_tensor_native(x, KD_NATIVE_CL_MEM, KD_READ, &handle, &offset),
      KD_UNIMPLEMENTED, "queue:0: its plugin gives no native handles");
  expect_ok(keel_device_use_queue(device, 0, 0));
  expect_ok(keel_device_synchronize(device));
  expect(x, 1, 0);
  end();
}

RUN_TESTS(NULL, NULL)
