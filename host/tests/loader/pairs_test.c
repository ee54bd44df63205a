/* pairs_test.c - libkeel with a plugin of the first ABI version, and with one of a version
 * that does not exist yet: what both know works, what the host can't know is left alone. */
#include "device/device.h"
#include "testing.h"

#define PAIR(name) PAIRS "/pair_" name ".so"

/* Calls an op with f32[4]; y may be NULL. */
static keel_status call(keel_context *context, const char *name, float *y) {
  const float data[4] = {-4, -1, 0, 3};
  keel_device *device = keel_device_at(context, 0);
  keel_op *op = NULL;
  keel_tensor *in = floats(context, 4, data), *out = NULL;
  keel_status status = keel_op_prepare(context, name, NULL, 0, device, &op);
  if (status == KD_OK) status = keel_op_call(op, &in, 1, &out, 1);
  if (status == KD_OK && y) expect_ok(keel_tensor_read(out, y, 4 * sizeof *y));
  RELEASE(in, out, op);
  return status;
}

static void expect_numbers(keel_context *context) {
  float y[4];
  expect_ok(call(context, "Relu", y));
  assert_true(y[0] == 0 && y[1] == 0 && y[2] == 0 && y[3] == 3);
  expect_ok(call(context, "LeakyRelu", y));
  assert_true(y[0] < 0 && y[0] > -0.1f && y[3] == 3); /* alpha is 0.01 */
}

/* Its own ops, options and properties: arrays of longer structs, and longer answers. */
static void expect_what_it_brings(keel_context *context) {
  keel_option_facts option;
  keel_property property;
  float y[4];
  expect_ok(call(context, "x.pair::Scaled", y));
  assert_true(y[0] == -12 && y[1] == -3 && y[2] == 0 && y[3] == 9);
  expect_ok(call(context, "x.pair::Twice", NULL));
  expect_ok(keel_plugin_option(context, 0, 1, &option));
  assert_string_equal(option.name, "power");
  assert_string_equal(option.choices, "low|high");
  assert_int_equal(keel_plugin_option(context, 0, 2, &option), KD_OUT_OF_RANGE);
  expect_ok(keel_device_find_property(keel_device_at(context, 0), "clock",
                                      &property));
  assert_int_equal(property.integer, 1000);
}

TEST_THAT(a_plugin_of_the_first_version_works) {
  keel_context *context = open_with(PAIR("old"), NULL, KEEL_NO_WORKERS);
  expect_numbers(context);
  expect_what_it_brings(context);
  expect_ok(call(context, "Identity", NULL));
  keel_kernel_facts facts; /* no bound: what its headers knew, no more */
  expect_ok(keel_device_kernel(keel_device_at(context, 0), 2, &facts));
  assert_string_equal(facts.op, "Identity");
  assert_int_equal(facts.opset_max, 28);
  keel_close(context);
}

TEST_THAT(a_plugin_of_a_later_version_works) {
  keel_context *context = open_with(PAIR("later"), NULL, KEEL_NO_WORKERS);
  keel_plugin_info info;
  keel_plugin_at(context, 0, &info);
  expect_ok(info.status);
  expect_numbers(context);
  expect_what_it_brings(context);
  /* types, a version and a bit that nobody knows: no kernel for any node */
  assert_int_equal(call(context, "Abs", NULL), KD_UNIMPLEMENTED);
  assert_int_equal(call(context, "Exp", NULL), KD_UNIMPLEMENTED);
  assert_int_equal(call(context, "Sqrt", NULL), KD_UNIMPLEMENTED);
  /* a status that nobody knows keeps its number and its message */
  assert_int_equal(call(context, "Neg", NULL), 40);
  expect_message("says status 40");
  keel_close(context);
}

TEST_THAT(a_later_plugins_bit_is_refused_by_number_and_version) {
  keel_context *context = open_with(PAIR("refused"), NULL, KEEL_NO_WORKERS);
  keel_plugin_info info;
  keel_plugin_at(context, 0, &info);
  assert_int_equal(info.status, KD_UNIMPLEMENTED);
  if (!strstr(info.reason, "kd_plugin has bit 22") ||
      !strstr(info.reason, "built for ABI 0.99"))
    fail_msg("it says \"%s\"", info.reason);
  keel_close(context);
}

RUN_TESTS(NULL, NULL)
