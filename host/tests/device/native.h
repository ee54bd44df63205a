/* native.h - what the tests of native handles share: a device, tensors on it, ops. */
#ifndef KEEL_TESTS_NATIVE_H
#define KEEL_TESTS_NATIVE_H

#include <stdatomic.h>
#include <unistd.h>

#include "layers/layers.h"
#include "testing.h"

enum { COUNT = 1 << 16, BYTES = COUNT * (int)sizeof(float) };

static keel_context *context;
static keel_device *device;
static float data[COUNT], got[COUNT];
static const int64_t dims[] = {COUNT};
static atomic_int waits; /* calls that wait for the device */

static inline void count_waits(void *unused, uint32_t level, const char *line) {
  (void)unused;
  if (level == KD_LOG_ERROR) fprintf(stderr, "%s\n", line);
  if (strstr(line, "trace: stream.synchronize") ||
      strstr(line, "trace: event.wait"))
    waits++;
}

/* False where it is not there. */
static inline bool begin(const char *plugin, const char *name,
                         const char *const *options, uint32_t option_count) {
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, &plugin, 1,
            .options = options, .option_count = option_count,
            .workers = KEEL_NO_WORKERS, .log = count_waits);
  if (access(plugin, R_OK) != 0) return false;
  expect_ok(keel_layers_set("trace,validation"));
  expect_ok(keel_open(&params, &context));
  if (keel_device_find(context, name, &device) != KD_OK) {
    keel_close(context);
    return false;
  }
  for (int i = 0; i < COUNT; i++)
    data[i] = (float)i - (float)COUNT / 2;
  return true;
}

static inline void end(void) {
  keel_close(context);
  assert_int_equal(keel_layers_errors(), 0);
  expect_ok(keel_layers_set(""));
}

static inline uint64_t handle_of(kd_native_kind kind) {
  uint64_t handle = 0;
  expect_ok(keel_device_native(device, kind, &handle));
  return handle;
}

static inline uint64_t memory_of(keel_tensor *tensor, kd_native_kind kind,
                                 uint32_t access, uint64_t *out_offset) {
  uint64_t handle = 0;
  expect_ok(keel_tensor_native(tensor, kind, access, &handle, out_offset));
  assert_true(handle != 0);
  return handle;
}

static inline uint64_t queue_of(kd_native_kind kind) {
  uint64_t handle = 0;
  expect_ok(keel_device_queue(device, kind, &handle));
  assert_true(handle != 0);
  return handle;
}

/* `data` on the device. */
static inline keel_tensor *uploaded(void) {
  keel_tensor *host = floats(context, COUNT, data),
              *there = tensor_on(host, device);
  keel_tensor_release(host);
  return there;
}

/* Zeros on the device, for the application to write. */
static inline keel_tensor *zeros(void) {
  keel_tensor *tensor = NULL;
  expect_ok(keel_tensor_fill(context, device, KD_F32, 1, dims, NULL, &tensor));
  return tensor;
}

/* Takes x. */
static inline keel_tensor *computed(const char *op, keel_tensor *x) {
  keel_tensor *y = call_op_on(device, context, op, &x, 1);
  assert_ptr_equal(keel_tensor_device(y), device);
  keel_tensor_release(x);
  return y;
}

/* Each element is scale * data + added; takes the tensor. */
static inline void expect(keel_tensor *tensor, float scale, float added) {
  memset(got, 0, sizeof got);
  expect_ok(keel_tensor_read(tensor, got, sizeof got));
  for (int i = 0; i < COUNT; i++)
    if (got[i] != scale * data[i] + added)
      fail_msg("element %d is %g, and not %g", i, (double)got[i],
               (double)(scale * data[i] + added));
  keel_tensor_release(tensor);
}

/* y = -(-x) by a plan, on the device. */
static inline keel_plan *planned(void) {
  keel_builder *builder = create_builder(context, "negated");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, dims);
  keel_value abs = op(builder, "Abs", x, KEEL_ABSENT);
  return plan_giving(builder, op(builder, "Sub", x, abs),
                     PLAN_PARAMS(.device = device));
}

#endif /* KEEL_TESTS_NATIVE_H */
