/* dynamic_quantise_test.c - DynamicQuantizeLinear where there is no range. */
#include "on_devices.h"

static void check(void *want, keel_tensor *const *out, const char *where) {
  uint8_t bytes[3], zero = 1;
  float scale = 0;
  (void)want;
  expect_ok(keel_tensor_read(out[0], bytes, sizeof bytes));
  expect_ok(keel_tensor_read(out[1], &scale, sizeof scale));
  expect_ok(keel_tensor_read(out[2], &zero, sizeof zero));
  if (bytes[0] || bytes[1] || bytes[2] || scale != 1 || zero)
    fail_msg("%s: scale %g, zero point %u", where, (double)scale,
             (unsigned)zero);
}

/* As ONNX Runtime: zeros divide by it later. */
TEST_THAT(the_scale_of_zeros_is_one) {
  const float zeros[] = {0, -0.0f, 0};
  call c = {.op = "DynamicQuantizeLinear",
            .in = {floats(context, 3, zeros)},
            .in_count = 1,
            .out_count = 3};
  call_everywhere(&c, check, NULL);
  keel_tensor_release(c.in[0]);
}

RUN_TESTS(open_all_devices, close_context)
