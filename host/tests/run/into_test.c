/* into_test.c - outputs in the caller's memory: written there or copied, and memory that is refused. */
#include <string.h>

#include "one_context.h"
#include "toy/toy.h"

SETUP(begin) {
  context = open_with(CPU_PLUGIN, TOY("queue"), 2);
  return 0;
}

enum { WIDE = 16, MOST = 40 };

/* y = -(x + x), s = its sum along the first dimension, of x [?, WIDE]. */
static keel_plan *plan_of_two(keel_device *device) {
  keel_builder *b = create_builder(context, "two");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(-1, WIDE));
  keel_value y = op(b, "Neg", op(b, "Add", x, x), KEEL_ABSENT);
  const keel_attr keep = KEEL_INT("keepdims", 0);
  const keel_value both[] = {y, add_ints(b, 1, (const int64_t[]){0})};
  expect_ok(keel_builder_output(b, "y", y));
  expect_ok(keel_builder_output(
      b, "s", keel_builder_op(b, "ReduceSum", &keep, 1, both, 2)));
  return finish_plan(b, PLAN_PARAMS(.device = device));
}

static keel_tensor *rows_of(int64_t rows, float from) {
  float data[MOST * WIDE];
  for (int64_t i = 0; i < rows * WIDE; i++)
    data[i] = from + (float)(i % 7);
  return create_tensor(context, KD_F32, DIMS(rows, WIDE), data);
}

static void expect_rows(const void *memory, int64_t rows, float from) {
  for (int64_t i = 0; i < rows * WIDE; i++) {
    float got = 0;
    memcpy(&got, (const char *)memory + i * 4, sizeof got);
    assert_true(got == -2 * (from + (float)(i % 7)));
  }
}

typedef struct memory {
  _Alignas(64) char y[MOST * WIDE * 4 + 64];
  _Alignas(64) float s[WIDE + 1];
} memory;

/* A run into both, of the memory for y from a byte on; what lies behind stays. */
static void run_into(keel_plan *plan, int64_t rows, float from, size_t byte) {
  memory here;
  memset(&here, 0x5a, sizeof here);
  const keel_output_memory into[] = {{here.y + byte, sizeof here.y - byte},
                                     {here.s, sizeof here.s}};
  keel_tensor *x = rows_of(rows, from), *out[2] = {NULL, NULL};
  expect_ok(keel_plan_run_with(plan, RUN_PARAMS(.into = into, .into_count = 2),
                               &x, 1, out, 2));
  expect_rows(here.y + byte, rows, from);
  for (size_t i = byte + (size_t)rows * WIDE * 4; i < sizeof here.y; i++)
    assert_int_equal(here.y[i], 0x5a);
  for (size_t i = 0; i < byte; i++)
    assert_int_equal(here.y[i], 0x5a);
  assert_memory_equal(&here.s[WIDE], &(uint32_t){0x5a5a5a5a}, 4);
  if (rows) {
    assert_true((keel_tensor_data(out[0]) == here.y + byte) == (byte % 4 == 0));
    assert_ptr_equal(keel_tensor_data(out[1]), here.s);
  }
  expect_rows(rows ? keel_tensor_data(out[0]) : here.y, rows, from);
  release_all(out, 2);
  keel_tensor_release(x);
}

TEST_THAT(outputs_are_where_the_caller_wants_them) {
  keel_plan *plan = plan_of_two(NULL);
  for (int round = 0; round < 5; round++)
    for (int64_t rows = 0; rows <= MOST; rows += round < 3 ? 8 : 5)
      for (size_t byte = 0; byte < 12; byte += 3)
        run_into(plan, rows, (float)round, byte);
  keel_plan_release(plan);
}

TEST_THAT(a_device_with_other_memory_is_copied_from) {
  keel_plan *plan = plan_of_two(find_device(context, "queue:0"));
  for (int round = 0; round < 5; round++)
    run_into(plan, 3 + round % 2, (float)round, 0);
  keel_plan_release(plan);
}

/* Runs of planned memory write there themselves: nothing is allocated for the output. */
TEST_THAT(known_sizes_are_written_in_place) {
  static _Alignas(64) float here[1 << 18];
  const int64_t many = 1 << 18;
  keel_builder *b = create_builder(context, "neg");
  keel_value x = keel_builder_input(b, "x", KD_F32, 1, &many);
  keel_plan *plan = plan_giving(b, op(b, "Neg", x, KEEL_ABSENT), NULL);
  keel_tensor *in = create_tensor(context, KD_F32, 1, &many, NULL), *out = NULL;
  const keel_output_memory into = {here, sizeof here};
  keel_stats before, after;
  for (int round = 0; round < 4; round++) {
    keel_trim(context);
    keel_get_stats(context, &before);
    expect_ok(keel_plan_run_with(
        plan, RUN_PARAMS(.into = &into, .into_count = 1), &in, 1, &out, 1));
    keel_get_stats(context, &after);
    assert_ptr_equal(keel_tensor_data(out), here);
    if (round > 1) assert_int_equal(after.pooled_bytes, before.pooled_bytes);
    keel_tensor_release(out);
  }
  RELEASE(in, plan);
}

/* An input and a constant that are outputs, and a value that is two of them. */
TEST_THAT(what_no_kernel_writes_is_copied) {
  _Alignas(64) float here[3][4] = {{0}};
  keel_builder *b = create_builder(context, "same");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(4));
  keel_value y = op(b, "Neg", x, KEEL_ABSENT);
  expect_ok(keel_builder_output(b, "x1", x));
  expect_ok(keel_builder_output(b, "y", y));
  expect_ok(keel_builder_output(b, "y1", y));
  keel_plan *plan = finish_plan(b, NULL);
  const keel_output_memory into[] = {
      {here[0], 16}, {here[1], 16}, {here[2], 16}};
  keel_tensor *in = equal_floats(context, 4, 3), *out[3];
  for (int round = 0; round < 4; round++) {
    memset(here, 0, sizeof here);
    expect_ok(keel_plan_run_with(
        plan, RUN_PARAMS(.into = into, .into_count = 3), &in, 1, out, 3));
    for (int i = 0; i < 3; i++) {
      assert_ptr_equal(keel_tensor_data(out[i]), here[i]);
      expect_equal_floats(out[i], i ? -3 : 3, 4);
    }
    release_all(out, 3);
    /* of two alone: the last has memory of its own */
    expect_ok(keel_plan_run_with(
        plan, RUN_PARAMS(.into = into, .into_count = 2), &in, 1, out, 3));
    expect_equal_floats(out[2], -3, 4);
    assert_ptr_not_equal(keel_tensor_data(out[2]), here[1]);
    release_all(out, 3);
  }
  RELEASE(in, plan);
}

TEST_THAT(memory_that_does_not_do_is_refused) {
  static _Alignas(64) char here[8192];
  keel_plan *plan = plan_of_two(NULL);
  keel_tensor *x = rows_of(2, 1), *out[3] = {NULL};
  keel_output_memory into[3] = {{here, 127}, {here + 4096, 4096}};
  for (int round = 0; round < 4; round++)
    expect_fails(
        keel_plan_run_with(plan, RUN_PARAMS(.into = into, .into_count = 2), &x,
                           1, out, 2),
        KD_OUT_OF_RANGE,
        "output 0 takes 128 bytes, and the memory for it has"
        " 127");
  assert_null(out[0]);
  into[0].size = 4097;
  expect_fails(
      keel_plan_run_with(plan, RUN_PARAMS(.into = into, .into_count = 2), &x, 1,
                         out, 2),
      KD_INVALID_ARGUMENT, "outputs 0 and 1 overlaps");
  into[0] = (keel_output_memory){(void *)(uintptr_t)keel_tensor_data(x), 128};
  expect_fails(
      keel_plan_run_with(plan, RUN_PARAMS(.into = into, .into_count = 2), &x, 1,
                         out, 2),
      KD_INVALID_ARGUMENT, "output 0 overlaps input 0");
  into[0] = (keel_output_memory){(void *)(UINTPTR_MAX - 63), 128};
  expect_fails(
      keel_plan_run_with(plan, RUN_PARAMS(.into = into, .into_count = 2), &x, 1,
                         out, 2),
      KD_INVALID_ARGUMENT, "leaves the address space");
  expect_fails(
      keel_plan_run_with(plan, RUN_PARAMS(.into = into, .into_count = 3), &x, 1,
                         out, 2),
      KD_INVALID_ARGUMENT, "given for 3 outputs, and there are 2");
  expect_fails(
      keel_plan_run_with(plan, RUN_PARAMS(.into_count = 2), &x, 1, out, 2),
      KD_INVALID_ARGUMENT, "is NULL");
  into[0] = (keel_output_memory){here, 4096};
  expect_fails(keel_plan_run_with(plan,
                                  RUN_PARAMS(.flags = KEEL_RUN_ENQUEUES,
                                             .into = into, .into_count = 2),
                                  &x, 1, out, 2),
               KD_INVALID_ARGUMENT, "waited for");
  expect_fails(keel_plan_begin(plan, RUN_PARAMS(.into = into, .into_count = 2),
                               &x, 1, out, 2),
               KD_INVALID_ARGUMENT, "for keel_plan_run_with");
  RELEASE(x, plan);
}

/* Strings have no memory of a caller's. */
TEST_THAT(strings_are_refused) {
  static char here[64];
  const char *const words[] = {"a", "b"};
  keel_builder *b = create_builder(context, "words");
  keel_value x = keel_builder_input(b, "x", KD_STRING, DIMS(2));
  const keel_value two[] = {x, x};
  keel_plan *plan =
      plan_giving(b, keel_builder_op(b, "StringConcat", NULL, 0, two, 2), NULL);
  keel_tensor *in = NULL, *out = NULL;
  expect_ok(keel_strings_create(context, DIMS(2), words, NULL, &in));
  const keel_output_memory into = {here, sizeof here};
  expect_fails(
      keel_plan_run_with(plan, RUN_PARAMS(.into = &into, .into_count = 1), &in,
                         1, &out, 1),
      KD_INVALID_ARGUMENT, "output 0 is not a tensor of plain data");
  RELEASE(in, plan);
}

int main(void) {
  around_each(begin, close_context);
  return tests_run(NULL, NULL);
}
