/* native_opencl_test.c - an application with code of its own for OpenCL: in Keel's context, on
 * tensors' memory, in Keel's queue and in one of its own. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>

#include "native.h"

/* clang-format off */
#define FUNCTIONS(X) \
  X(CreateContext) X(ReleaseContext) X(CreateCommandQueue) \
  X(ReleaseCommandQueue) X(GetCommandQueueInfo) X(CreateProgramWithSource) \
  X(BuildProgram) X(ReleaseProgram) X(CreateKernel) X(ReleaseKernel) \
  X(SetKernelArg) X(EnqueueNDRangeKernel) X(EnqueueReadBuffer) \
  X(EnqueueBarrierWithWaitList) X(EnqueueMarkerWithWaitList) X(CreateUserEvent) \
  X(SetUserEventStatus) X(GetEventInfo) X(ReleaseEvent) X(Flush) X(Finish)
/* clang-format on */

static struct {
#define FIELD(name) __typeof__(&cl##name) name;
  FUNCTIONS(FIELD)
#undef FIELD
} own;

static cl_context shared_context;
static cl_device_id id;
static cl_program program;
static cl_kernel kernel; /* to[i] = 2 * from[i] + 1 */

static bool find_functions(void) {
  void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return false;
#define FIND(name) *(void **)&own.name = dlsym(library, "cl" #name);
  FUNCTIONS(FIND)
#undef FIND
  return true;
}

static bool begin_opencl(void) {
  static const char *const source =
      "kernel void twice(global const float *from, global float *to) {"
      "  size_t i = get_global_id(0);"
      "  to[i] = 2 * from[i] + 1;"
      "}";
  cl_int code = CL_SUCCESS;
  if (!find_functions() || !begin(OPENCL_PLUGIN, "opencl:0", NULL, 0))
    return false;
  shared_context = (cl_context)(uintptr_t)handle_of(KD_NATIVE_CL_CONTEXT);
  id = (cl_device_id)(uintptr_t)handle_of(KD_NATIVE_CL_DEVICE);
  assert_true(handle_of(KD_NATIVE_CL_PLATFORM) != 0);
  program = own.CreateProgramWithSource(
      shared_context, 1, (const char **)(uintptr_t)&source, NULL, &code);
  assert_int_equal(code, CL_SUCCESS);
  assert_int_equal(own.BuildProgram(program, 1, &id, "", NULL, NULL),
                   CL_SUCCESS);
  kernel = own.CreateKernel(program, "twice", &code);
  assert_int_equal(code, CL_SUCCESS);
  return true;
}

static void end_opencl(void) {
  own.ReleaseKernel(kernel);
  own.ReleaseProgram(program);
  end();
}

static cl_command_queue queue_with(cl_command_queue_properties properties) {
  cl_int code = CL_SUCCESS;
  cl_command_queue queue =
      own.CreateCommandQueue(shared_context, id, properties, &code);
  assert_int_equal(code, CL_SUCCESS);
  return queue;
}

static cl_command_queue keels_queue(void) {
  return (cl_command_queue)(uintptr_t)queue_of(KD_NATIVE_CL_QUEUE);
}

static void enqueue_twice(cl_command_queue queue, keel_tensor *y,
                          keel_tensor *z) {
  uint64_t from_offset = 1, to_offset = 1;
  const size_t items = COUNT;
  cl_mem from =
      (cl_mem)(uintptr_t)memory_of(y, KD_NATIVE_CL_MEM, KD_READ, &from_offset);
  cl_mem to =
      (cl_mem)(uintptr_t)memory_of(z, KD_NATIVE_CL_MEM, KD_WRITE, &to_offset);
  assert_int_equal(from_offset, 0);
  assert_int_equal(to_offset, 0);
  assert_int_equal(own.SetKernelArg(kernel, 0, sizeof from, &from), CL_SUCCESS);
  assert_int_equal(own.SetKernelArg(kernel, 1, sizeof to, &to), CL_SUCCESS);
  assert_int_equal(own.EnqueueNDRangeKernel(queue, kernel, 1, NULL, &items,
                                            NULL, 0, NULL, NULL),
                   CL_SUCCESS);
}

/* 2 y + 1, in the queue that Keel works in. Takes y. */
static keel_tensor *twice(cl_command_queue queue, keel_tensor *y) {
  keel_tensor *z = zeros();
  enqueue_twice(queue, y, z);
  keel_tensor_release(y);
  return z;
}

/* The same in another queue, by waiting. */
static keel_tensor *twice_apart(cl_command_queue queue, keel_tensor *y) {
  keel_tensor *z = zeros();
  expect_ok(keel_device_synchronize(device));
  enqueue_twice(queue, y, z);
  assert_int_equal(own.Finish(queue), CL_SUCCESS);
  keel_tensor_release(y);
  return z;
}

/* What is enqueued from now on waits until the event is set. */
static cl_event close_gate(cl_command_queue queue) {
  cl_int code = CL_SUCCESS;
  cl_event gate = own.CreateUserEvent(shared_context, &code);
  assert_int_equal(code, CL_SUCCESS);
  assert_int_equal(own.EnqueueBarrierWithWaitList(queue, 1, &gate, NULL),
                   CL_SUCCESS);
  return gate;
}

static bool is_done(cl_event event) {
  cl_int state = CL_QUEUED;
  assert_int_equal(own.GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS,
                                    sizeof state, &state, NULL),
                   CL_SUCCESS);
  return state == CL_COMPLETE;
}

/* ---- by waiting ------------------------------------------------------------------------- */

TEST_THAT(an_application_works_on_tensors_memory) {
  if (!begin_opencl()) skip();
  cl_command_queue queue = queue_with(0);
  keel_tensor *z = twice_apart(queue, computed("Neg", uploaded()));
  expect(computed("Neg", z), 2, -1);
  own.ReleaseCommandQueue(queue);
  end_opencl();
}

/* ---- in one queue ----------------------------------------------------------------------- */

/* The application's and Keel's work in turn, all of it behind a gate: so nobody waits, and
 * what comes out is right only where the two work in one order. */
static void check_order(cl_command_queue queue) {
  cl_event last = NULL;
  /* compiled; and the device's own memory, which is let go without a wait */
  expect(computed("Neg", twice(queue, computed("Neg", uploaded()))), 2, -1);
  keel_tensor *y = computed("Neg", uploaded());
  expect_ok(keel_device_synchronize(device));
  waits = 0;
  cl_event gate = close_gate(queue);
  for (int i = 0; i < 3; i++)
    y = computed("Neg", twice(queue, computed("Neg", y)));
  assert_int_equal(own.EnqueueMarkerWithWaitList(queue, 0, NULL, &last),
                   CL_SUCCESS);
  own.Flush(queue);
  usleep(20000);
  assert_false(is_done(last));
  assert_int_equal(waits, 0);
  assert_int_equal(own.SetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
  expect(y, -8, -7);
  assert_true(is_done(last));
  own.ReleaseEvent(last);
  own.ReleaseEvent(gate);
}

TEST_THAT(keels_queue_takes_the_applications_work) {
  if (!begin_opencl()) skip();
  check_order(keels_queue());
  end_opencl();
}

/* Who holds the queue, after work of the application's. */
static cl_uint holders_of(cl_command_queue queue) {
  cl_uint holders = 0;
  expect(twice_apart(queue, computed("Neg", uploaded())), -2, 1);
  assert_int_equal(own.GetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT,
                                           sizeof holders, &holders, NULL),
                   CL_SUCCESS);
  return holders;
}

TEST_THAT(keel_works_in_the_applications_queue) {
  if (!begin_opencl()) skip();
  for (int timed = 0; timed < 2; timed++) {
    cl_command_queue queue = queue_with(timed ? CL_QUEUE_PROFILING_ENABLE : 0);
    cl_command_queue first = keels_queue();
    cl_uint holders = holders_of(queue);
    expect_ok(keel_device_use_queue(device, KD_NATIVE_CL_QUEUE,
                                    (uint64_t)(uintptr_t)queue));
    assert_ptr_equal(keels_queue(), queue);
    assert_ptr_not_equal(first, queue);
    check_order(queue);
    expect_ok(keel_device_use_queue(device, 0, 0));
    assert_ptr_not_equal(keels_queue(), queue);
    /* it is there, and let go: by PoCL's thread after the work that it has done, too */
    for (int i = 0; i < 5000 && holders_of(queue) != holders; i++)
      usleep(1000);
    assert_int_equal(holders_of(queue), holders);
    own.ReleaseCommandQueue(queue);
  }
  end_opencl();
}

/* The application lets go of the queue while Keel works in it. */
TEST_THAT(plans_go_by_it) {
  if (!begin_opencl()) skip();
  cl_command_queue queue = queue_with(0);
  keel_plan *plan = planned();
  keel_tensor *x = uploaded();
  for (int i = 0; i < 12;
       i++) { /* some are recorded, and replayed in either queue */
    if (i == 6)
      expect_ok(keel_device_use_queue(device, KD_NATIVE_CL_QUEUE,
                                      (uint64_t)(uintptr_t)queue));
    if (i == 6) own.ReleaseCommandQueue(queue);
    keel_tensor *y = output_of(plan, &x, 1);
    expect_ok(keel_tensor_read(y, got, sizeof got));
    for (int k = 0; k < COUNT; k += 997)
      assert_true(got[k] == (data[k] < 0 ? 2 * data[k] : 0));
    keel_tensor_release(y);
  }
  RELEASE(x, plan);
  end_opencl();
}

/* ---- what is refused -------------------------------------------------------------------- */

TEST_THAT(kinds_of_others_are_refused) {
  uint64_t handle = 5, offset = 6;
  if (!begin_opencl()) skip();
  keel_tensor *y = uploaded();
  expect_fails(keel_device_native(device, KD_NATIVE_VK_DEVICE, &handle),
               KD_UNIMPLEMENTED,
               "a device has the native kinds CL_PLATFORM, CL_DEVICE and"
               " CL_CONTEXT, and not 0x202");
  expect_message("while opencl:0 was asked for a handle of itself");
  expect_fails(
      keel_tensor_native(y, KD_NATIVE_CU_POINTER, KD_READ, &handle, &offset),
      KD_UNIMPLEMENTED, "CL_MEM, and not 0x310");
  expect_fails(keel_device_queue(device, KD_NATIVE_OWN, &handle),
               KD_UNIMPLEMENTED, "CL_QUEUE, and not 0x80000000");
  expect_fails(keel_device_use_queue(device, KD_NATIVE_VK_QUEUE, 1),
               KD_UNIMPLEMENTED, "CL_QUEUE, and not of 0x220");
  assert_int_equal(handle, 5);
  assert_int_equal(offset, 6);
  keel_tensor_release(y);
  end_opencl();
}

TEST_THAT(queues_that_do_not_fit_are_refused) {
  cl_int code = CL_SUCCESS;
  if (!begin_opencl()) skip();
  cl_command_queue before = keels_queue();
  cl_context other = own.CreateContext(NULL, 1, &id, NULL, NULL, &code);
  assert_int_equal(code, CL_SUCCESS);
  cl_command_queue elsewhere = own.CreateCommandQueue(other, id, 0, &code);
  assert_int_equal(code, CL_SUCCESS);
  cl_command_queue loose = queue_with(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  expect_fails(keel_device_use_queue(device, KD_NATIVE_CL_QUEUE, 0),
               KD_INVALID_ARGUMENT, "the queue is NULL");
  expect_fails(keel_device_use_queue(device, KD_NATIVE_CL_QUEUE,
                                     (uint64_t)(uintptr_t)elsewhere),
               KD_INVALID_ARGUMENT, "the queue is of another context");
  expect_fails(keel_device_use_queue(device, KD_NATIVE_CL_QUEUE,
                                     (uint64_t)(uintptr_t)loose),
               KD_INVALID_ARGUMENT, "works out of order");
  assert_ptr_equal(keels_queue(), before);
  own.ReleaseCommandQueue(loose);
  own.ReleaseCommandQueue(elsewhere);
  own.ReleaseContext(other);
  end_opencl();
}

TEST_THAT(what_others_hold_is_not_written) {
  uint64_t handle = 0, offset = 0;
  if (!begin_opencl()) skip();
  keel_tensor *z = zeros(), *view = NULL;
  const int64_t rows[] = {2, COUNT / 2};
  expect_ok(keel_tensor_native(z, KD_NATIVE_CL_MEM, KD_READ | KD_WRITE, &handle,
                               &offset));
  keel_tensor_retain(z);
  expect_fails(
      keel_tensor_native(z, KD_NATIVE_CL_MEM, KD_WRITE, &handle, &offset),
      KD_FAILED_PRECONDITION, "has another reference");
  keel_tensor_release(z);
  keel_tensor *shape = NULL, *pair[2] = {z, NULL};
  shape = create_tensor(context, KD_I64, DIMS(2), rows);
  pair[1] = shape;
  expect_ok(keel_call(context, "Reshape", NULL, 0, pair, 2, &view, 1));
  expect_fails(
      keel_tensor_native(z, KD_NATIVE_CL_MEM, KD_WRITE, &handle, &offset),
      KD_FAILED_PRECONDITION, "keel_tensor_fill");
  expect_ok(keel_tensor_native(z, KD_NATIVE_CL_MEM, KD_READ, &handle, &offset));
  keel_tensor_release(view);
  expect_ok(
      keel_tensor_native(z, KD_NATIVE_CL_MEM, KD_WRITE, &handle, &offset));
  expect_fails(keel_tensor_native(z, KD_NATIVE_CL_MEM, 8, &handle, &offset),
               KD_INVALID_ARGUMENT, "an access of 0x8");
  expect_fails(
      keel_tensor_native(shape, KD_NATIVE_CL_MEM, KD_READ, &handle, &offset),
      KD_INVALID_ARGUMENT, "lies in host memory");
  RELEASE(shape, z);
  end_opencl();
}

RUN_TESTS(NULL, NULL)
