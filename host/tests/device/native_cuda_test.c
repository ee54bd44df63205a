/* native_cuda_test.c - an application with code of its own for CUDA: in Keel's context, on
 * tensors' memory, in Keel's stream and in one of its own. The driver is the stand-in. */
#include "api.h"
/**/
#include <dlfcn.h>

#include "native.h"

static cu_api own;

static bool begin_cuda(void) {
  static const char *const options[] = {
      "cuda.driver=" STANDINS "/standin_driver.so",
      "cuda.nvrtc=" STANDINS "/standin_nvrtc.so"};
  void *library = dlopen(STANDINS "/standin_driver.so", RTLD_NOW | RTLD_LOCAL);
  if (!library || !begin(CUDA_PLUGIN, "cuda:0", options, 2)) return false;
#define FIND(field, symbol, arguments) \
  *(void **)&own.field = dlsym(library, #symbol);
  CU_FUNCTIONS(FIND)
#undef FIND
  assert_int_equal(own.CtxPushCurrent(
                       (cu_context)(uintptr_t)handle_of(KD_NATIVE_CU_CONTEXT)),
                   CU_OK);
  assert_int_equal(handle_of(KD_NATIVE_CU_DEVICE), 0); /* a number */
  return true;
}

static void end_cuda(void) {
  cu_context mine = NULL;
  assert_int_equal(own.CtxPopCurrent(&mine), CU_OK);
  assert_ptr_equal(mine, (void *)(uintptr_t)handle_of(KD_NATIVE_CU_CONTEXT));
  end();
}

static cu_stream stream_made(void) {
  cu_stream stream = NULL;
  assert_int_equal(own.StreamCreateWithPriority(&stream, CU_NON_BLOCKING, 0),
                   CU_OK);
  return stream;
}

static cu_stream keels_stream(void) {
  return (cu_stream)(uintptr_t)queue_of(KD_NATIVE_CU_STREAM);
}

static cu_pointer pointer_of(keel_tensor *tensor, uint32_t access) {
  uint64_t offset = 0;
  cu_pointer pointer = memory_of(tensor, KD_NATIVE_CU_POINTER, access, &offset);
  return pointer + offset;
}

/* The application's work: a copy of y, enqueued. Takes y. apart: in another stream than
 * Keel's. */
static keel_tensor *copied(cu_stream stream, keel_tensor *y, bool apart) {
  keel_tensor *z = zeros();
  if (apart) expect_ok(keel_device_synchronize(device));
  assert_int_equal(own.MemcpyAsync(pointer_of(z, KD_WRITE),
                                   pointer_of(y, KD_READ), BYTES, stream),
                   CU_OK);
  keel_tensor_release(y);
  return z;
}

static atomic_bool gate;

static void wait_for_gate(void *unused) {
  (void)unused;
  while (!atomic_load(&gate))
    usleep(100);
}

/* The application's and Keel's work in turn, all of it behind a gate. */
static void check_order(cu_stream stream) {
  expect(computed("Neg", uploaded()), -1, 0); /* compiled */
  keel_tensor *y = uploaded();
  expect_ok(keel_device_synchronize(device));
  atomic_store(&gate, false);
  waits = 0;
  assert_int_equal(own.LaunchHostFunc(stream, wait_for_gate, NULL), CU_OK);
  for (int i = 0; i < 3; i++)
    y = computed("Neg", copied(stream, y, false));
  usleep(20000);
  assert_int_equal(own.StreamQuery(stream), CU_NOT_READY);
  assert_int_equal(waits, 0);
  atomic_store(&gate, true);
  expect(y, -1, 0);
}

/* The first launch of the process loses it. */
TEST_THAT(a_device_opened_again_has_its_own_stream) {
  cu_context mine = NULL;
  keel_tensor *y = NULL;
  if (!begin_cuda()) skip();
  LEAKS_OFF();
  cu_stream stream = stream_made();
  expect_ok(keel_device_use_queue(device, KD_NATIVE_CU_STREAM,
                                  (uint64_t)(uintptr_t)stream));
  setenv("STANDIN_LOSE", "1", 1);
  keel_tensor *x = uploaded();
  keel_op *neg = prepare_op(context, "Neg", NULL, 0, device);
  keel_status status = keel_op_call(neg, &x, 1, &y, 1);
  if (status == KD_OK) status = keel_tensor_read(y, got, sizeof got);
  expect_fails(status, KD_DEVICE_LOST, "CUDA_ERROR_ILLEGAL_ADDRESS");
  unsetenv("STANDIN_LOSE");
  expect_fails(keel_device_use_queue(device, 0, 0), KD_DEVICE_LOST,
               "CUDA_ERROR_ILLEGAL_ADDRESS");
  RELEASE(x, y, neg);
  assert_int_equal(own.CtxPopCurrent(&mine), CU_OK);

  expect_ok(keel_device_reopen(device));

  assert_ptr_not_equal(keels_stream(), stream);
  own.StreamDestroy(stream); /* before, its address could be another's */
  expect(computed("Neg", uploaded()), -1, 0);
  end();
  LEAKS_ON();
}

TEST_THAT(keels_stream_takes_the_applications_work) {
  if (!begin_cuda()) skip();
  check_order(keels_stream());
  end_cuda();
}

TEST_THAT(keel_works_in_the_applications_stream) {
  if (!begin_cuda()) skip();
  cu_stream stream = stream_made(), first = keels_stream();
  keel_plan *plan = planned();
  keel_tensor *x = uploaded();
  expect_ok(keel_device_use_queue(device, KD_NATIVE_CU_STREAM,
                                  (uint64_t)(uintptr_t)stream));
  assert_ptr_equal(keels_stream(), stream);
  assert_ptr_not_equal(stream, first);
  check_order(stream);
  for (int i = 0; i < 12; i++) { /* replayed, at last in another stream */
    if (i == 8) expect_ok(keel_device_use_queue(device, 0, 0));
    keel_tensor *y = output_of(plan, &x, 1);
    expect_ok(keel_tensor_read(y, got, sizeof got));
    for (int k = 0; k < COUNT; k += 997)
      assert_true(got[k] == (data[k] < 0 ? 2 * data[k] : 0));
    keel_tensor_release(y);
  }
  /* the application's alone again, and it works */
  keel_tensor *z = copied(stream, x, true);
  assert_int_equal(own.StreamSynchronize(stream), CU_OK);
  expect(z, 1, 0);
  assert_int_equal(own.StreamDestroy(stream), CU_OK);
  keel_plan_release(plan);
  end_cuda();
}

TEST_THAT(streams_that_do_not_fit_are_refused) {
  cu_context other = NULL, mine = NULL;
  if (!begin_cuda()) skip();
  assert_int_equal(own.DevicePrimaryCtxRetain(&other, 1), CU_OK);
  assert_int_equal(own.CtxPushCurrent(other), CU_OK);
  cu_stream elsewhere = stream_made();
  assert_int_equal(own.CtxPopCurrent(&mine), CU_OK);
  expect_fails(keel_device_use_queue(device, KD_NATIVE_CU_STREAM, 0),
               KD_INVALID_ARGUMENT, "a default stream of the driver's");
  expect_fails(keel_device_use_queue(device, KD_NATIVE_CU_STREAM,
                                     (uint64_t)(uintptr_t)elsewhere),
               KD_INVALID_ARGUMENT, "the stream is of another context");
  expect_fails(keel_device_use_queue(device, KD_NATIVE_CL_QUEUE, 1),
               KD_UNIMPLEMENTED, "CU_STREAM, and not of 0x120");
  assert_int_equal(own.StreamDestroy(elsewhere), CU_OK);
  assert_int_equal(own.DevicePrimaryCtxRelease(1), CU_OK);
  end_cuda();
}

RUN_TESTS(NULL, NULL)
