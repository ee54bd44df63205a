/* initializer_test.c - inputs of an ONNX model that have an initial value: constants until a caller
 * replaces them. */
#include <unistd.h>

#define WORKERS 0
#include "files.h"
#include "with_cpu.h"

/* y = x * k + s, of f32[2]; k is 10, 100 and s 1, 2 at first. Of IR version 8. */
static const uint8_t model[] = {
    0x08, 0x08, 0x3a, 0x9d, 0x01, 0x0a, 0x14, 0x0a, 0x01, 0x78, 0x0a, 0x01,
    0x6b, 0x12, 0x01, 0x6d, 0x1a, 0x02, 0x69, 0x74, 0x22, 0x03, 0x4d, 0x75,
    0x6c, 0x3a, 0x00, 0x0a, 0x14, 0x0a, 0x01, 0x6d, 0x0a, 0x01, 0x73, 0x12,
    0x01, 0x79, 0x1a, 0x02, 0x69, 0x74, 0x22, 0x03, 0x41, 0x64, 0x64, 0x3a,
    0x00, 0x12, 0x05, 0x67, 0x72, 0x61, 0x70, 0x68, 0x2a, 0x11, 0x08, 0x02,
    0x10, 0x01, 0x42, 0x01, 0x6b, 0x4a, 0x08, 0x00, 0x00, 0x20, 0x41, 0x00,
    0x00, 0xc8, 0x42, 0x2a, 0x11, 0x08, 0x02, 0x10, 0x01, 0x42, 0x01, 0x73,
    0x4a, 0x08, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0x40, 0x5a, 0x0f,
    0x0a, 0x01, 0x78, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a,
    0x02, 0x08, 0x02, 0x5a, 0x0f, 0x0a, 0x01, 0x6b, 0x12, 0x0a, 0x0a, 0x08,
    0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08, 0x02, 0x5a, 0x0f, 0x0a, 0x01,
    0x73, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01, 0x12, 0x04, 0x0a, 0x02, 0x08,
    0x02, 0x62, 0x0f, 0x0a, 0x01, 0x79, 0x12, 0x0a, 0x0a, 0x08, 0x08, 0x01,
    0x12, 0x04, 0x0a, 0x02, 0x08, 0x02, 0x42, 0x04, 0x0a, 0x00, 0x10, 0x11,
};

static keel_program *load(const uint8_t *bytes, size_t size) {
  keel_program *program = NULL;
  expect_ok(keel_program_load_memory(context, "model", bytes, size, &program));
  return program;
}

static keel_tensor *pair(float first, float second) {
  const float data[] = {first, second};
  keel_tensor *tensor = create_tensor(context, KD_F32, DIMS(2), data);
  return tensor;
}

/* Runs the program on inputs, which are released. */
static void gives(keel_program *program, keel_tensor **inputs, uint32_t count,
                  float first, float second) {
  float got[2];
  keel_plan *plan = create_plan(program, NULL);
  for (int run = 0; run < 3; run++) {
    keel_tensor *output = output_of(plan, inputs, count);
    expect_ok(keel_tensor_read(output, got, sizeof got));
    assert_float_equal(got[0], first, 0);
    assert_float_equal(got[1], second, 0);
    keel_tensor_release(output);
  }
  keel_plan_release(plan);
  for (uint32_t i = 0; i < count; i++)
    keel_tensor_release(inputs[i]);
}

TEST_THAT(count_as_constants) {
  keel_program *program = load(model, sizeof model);
  keel_tensor *x[] = {pair(1, 2)};

  assert_int_equal(keel_program_input_count(program), 1);
  gives(program, x, 1, 11, 202);

  keel_program_release(program);
}

TEST_THAT(are_listed_with_their_types) {
  keel_program *program = load(model, sizeof model);
  keel_port port;

  assert_int_equal(keel_program_initializer_count(program), 2);
  expect_ok(keel_program_initializer(program, 0, &port));
  assert_string_equal(port.name, "k");
  assert_int_equal(port.dtype, KD_F32);
  assert_int_equal(port.dims[0], 2);
  assert_int_equal(keel_program_initializer(program, 2, &port),
                   KD_OUT_OF_RANGE);

  keel_program_release(program);
}

TEST_THAT(are_replaced_one_by_one) {
  static const char *const names[] = {"k", "s"};
  keel_program *program = load(model, sizeof model);
  for (int which = 0; which < 2; which++) {
    keel_program *made = NULL;
    keel_tensor *inputs[] = {pair(1, 2), pair(3, 4)};
    expect_ok(keel_program_override(program, &names[which], 1, &made));

    assert_int_equal(keel_program_input_count(made), 2);
    assert_int_equal(keel_program_initializer_count(made), 1);
    if (which == 0)
      gives(made, inputs, 2, 4, 10);
    else
      gives(made, inputs, 2, 13, 204);

    keel_program_release(made);
  }
  keel_program_release(program);
}

TEST_THAT(are_replaced_after_the_first_program_is_gone) {
  static const char *const both[] = {"s", "k"}, *const one[] = {"k"};
  keel_program *program = load(model, sizeof model), *made = NULL, *more = NULL;
  keel_tensor *inputs[] = {pair(1, 2), pair(3, 4), pair(5, 6)};
  expect_ok(keel_program_override(program, one, 1, &made));
  keel_program_release(program);

  expect_ok(keel_program_override(made, both, 1, &more));
  keel_program_release(made);

  assert_int_equal(keel_program_input_count(more), 2);
  keel_tensor_release(inputs[2]);
  gives(more, inputs, 2, 13, 204); /* of "s" alone: each begins anew */
  keel_program_release(more);
}

TEST_THAT(of_another_name_are_refused_with_those_that_there_are) {
  (void)state;
  static const char *const names[] = {"k", "x"};
  keel_program *program = load(model, sizeof model), *made = NULL;

  assert_int_equal(keel_program_override(program, names, 2, &made),
                   KD_NOT_FOUND);

  assert_string_equal(
      keel_message(),
      "the program has no initializer \"x\" to replace; there are: k, s");
  assert_null(made);
  keel_program_release(program);
}

TEST_THAT(of_version_3_are_constants) {
  uint8_t old[sizeof model];
  memcpy(old, model, sizeof model);
  old[1] = 3; /* ir_version */
  keel_program *program = load(old, sizeof old);

  assert_int_equal(keel_program_initializer_count(program), 0);

  keel_program_release(program);
}

TEST_THAT(are_gone_in_keels_own_forms) {
  char path[] = "/tmp/keel-initializer-XXXXXX";
  keel_program *program = load(model, sizeof model), *again = NULL;
  keel_tensor *x[] = {pair(1, 2)};
  make_file(path);
  expect_ok(keel_program_save(program, path, KEEL_SAVE_TEXT));
  expect_ok(keel_program_load(context, path, &again));
  unlink(path);

  assert_int_equal(keel_program_initializer_count(again), 0);
  gives(again, x, 1, 11, 202);

  RELEASE(again, program);
}

RUN_TESTS(open_cpu, close_context)
