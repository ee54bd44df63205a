/* parts_test.c - slices, transposes and their kin that kernels read where they lie: equal
 * results with and without the pass, in first and later runs, and what stays a copy. */
#include "device/device.h"
#include "plan/memory_plan.h"
#include "plan/plan.h"
#include "toy/toy.h"
#define WORKERS 2
#include "with_cpu.h"

enum { TOKENS = 6, HEADS = 2, WIDTH = 4, HIDDEN = HEADS * WIDTH };

static uint32_t parts; /* that the pass made */

static void count_parts(void *unused, const char *pass, const char *text) {
  (void)unused, (void)pass;
  parts = 0;
  for (const char *at = text; (at = strstr(at, "\"keel.Part\"(")); at++)
    parts++;
}

static keel_plan *plan_of(keel_program *program, keel_device *device,
                          bool with_parts) {
  static const char *const skip[] = {"regions", "transposed", "parts"};
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = device,
                                   .skip = skip,
                                   .skip_count = with_parts ? 2 : 3,
                                   .on_pass = with_parts ? count_parts : NULL,
                                   .on_pass_name = "parts"};
  return create_plan(program, &params);
}

static keel_tensor *pattern(uint32_t rank, const int64_t *dims, int seed) {
  static float data[4096];
  int64_t count = elements_of(rank, dims);
  for (int64_t i = 0; i < count; i++)
    data[i] = (float)(i * 7 % (23 + seed)) - 11;
  return create_tensor(context, KD_F32, rank, dims, data);
}

static void read(keel_plan *plan, keel_tensor *in, float *out, uint64_t bytes) {
  keel_tensor *got = output_of(plan, &in, 1);
  expect_ok(keel_tensor_read(got, out, bytes));
  keel_tensor_release(got);
}

enum { INPUTS = 3 };     /* more than a static run has recordings */
enum { ANY_PARTS = 99 }; /* as many as there may be */

/* Ends the builder; the results of several runs, with inputs of some tensors in turn, are
 * those of copies, and the pass made so many parts. */
static void compare(keel_builder *builder, keel_device *device, uint32_t rank,
                    const int64_t *dims, uint64_t bytes, uint32_t wanted) {
  float want[INPUTS][192], got[192];
  keel_tensor *in[INPUTS];
  assert_true(bytes <= sizeof got);
  keel_program *program = finish_program(builder);
  keel_plan *plan = plan_of(program, device, true),
            *copies = plan_of(program, device, false);
  if (wanted != ANY_PARTS) assert_int_equal(parts, wanted);
  for (int i = 0; i < INPUTS; i++) {
    keel_tensor *here = pattern(rank, dims, 6 * i);
    expect_ok(keel_tensor_to(here, device, &in[i]));
    keel_tensor_release(here);
    read(copies, in[i], want[i], bytes);
  }
  for (int run = 0; run < 12; run++) {
    read(plan, in[run % INPUTS], got, bytes);
    assert_memory_equal(got, want[run % INPUTS], bytes);
  }
  if (wanted == ANY_PARTS)
    assert_non_null(keel_memory_plan_of(plan->main)); /* it makes no values */
  release_all(in, INPUTS);
  RELEASE(plan, copies, program);
}

static keel_value one_int(keel_builder *builder, int64_t value) {
  return add_constant(builder, KD_I64, 0, NULL, &value);
}

/* One row of the first dimension. */
static keel_value row(keel_builder *builder, keel_value value, int64_t index) {
  return op(builder, "Gather", value, one_int(builder, index));
}

static keel_value turn(keel_builder *builder, keel_value value, int64_t a,
                       int64_t b, int64_t c) {
  const int64_t perm[] = {a, b, c};
  const keel_attr attr = KEEL_INTS("perm", 3, perm);
  return keel_builder_op(builder, "Transpose", &attr, 1, &value, 1);
}

static keel_value input(keel_builder **out_builder, uint32_t rank,
                        const int64_t *dims) {
  expect_ok(keel_builder_create(context, "parts", out_builder));
  return keel_builder_input(*out_builder, "x", KD_F32, rank, dims);
}

static keel_value slice(keel_builder *builder, keel_value value, int64_t axis,
                        int64_t start, int64_t end, int64_t step) {
  const keel_value in[] = {
      value, add_ints(builder, 1, &start), add_ints(builder, 1, &end),
      add_ints(builder, 1, &axis), add_ints(builder, 1, &step)};
  return keel_builder_op(builder, "Slice", NULL, 0, in, 5);
}

/* ---- what becomes a part -------------------------------------------------------- */

/* Heads of attention: queries, keys and values are turned, and no one copied. */
TEST_THAT(products_read_transposes_where_they_lie) {
  const int64_t dims[] = {TOKENS, HEADS, WIDTH};
  keel_builder *builder = NULL;
  keel_value x = input(&builder, 3, dims);
  keel_value scores = op(builder, "MatMul", turn(builder, x, 1, 0, 2),
                         turn(builder, x, 1, 2, 0));
  keel_value y = op(builder, "MatMul", scores,
                    turn(builder, op(builder, "Neg", x, KEEL_ABSENT), 1, 0, 2));
  keel_builder_output(builder, "y", y);
  compare(builder, NULL, 3, dims, sizeof(float) * HEADS * TOKENS * WIDTH, 3);
}

TEST_THAT(slices_begin_anywhere) {
  const int64_t dims[] = {5, 7};
  keel_builder *builder = NULL;
  keel_value x = input(&builder, 2, dims);
  keel_value rows =
      slice(builder, x, 0, 1, 4, 1); /* packed: a part has a part */
  keel_value columns =
      slice(builder, x, 1, -6, 100, 2); /* a copy: Slice reads it */
  keel_value part = slice(builder, columns, 0, 2, 5, 1);
  keel_value sum = op(builder, "Add", slice(builder, rows, 1, 0, 3, 1), part);
  keel_builder_output(builder, "y", op(builder, "Mul", sum, sum));
  compare(builder, NULL, 2, dims, sizeof(float) * 9, 3);
}

/* A value and its dimensions. */
typedef struct seen {
  keel_value value;
  uint32_t rank;
  int64_t dims[7];
} seen;

enum { TURNED, ROWS, COLUMNS, ROW, TWICE, WAYS };

static void see_turned(keel_builder *builder, seen *at) {
  int64_t perm[7], dims[7];
  for (uint32_t i = 0; i < at->rank; i++) {
    perm[i] = (i + 1) % at->rank;
    dims[i] = at->dims[perm[i]];
  }
  const keel_attr attr = KEEL_INTS("perm", at->rank, perm);
  at->value = keel_builder_op(builder, "Transpose", &attr, 1, &at->value, 1);
  memcpy(at->dims, dims, sizeof *dims * at->rank);
}

static void see(keel_builder *builder, seen *at, int way) {
  static const int64_t ones[] = {2, 1, 1, 1, 1, 1, 1};
  uint32_t last = at->rank - 1;
  if (way == TURNED) see_turned(builder, at);
  if (way == ROWS && at->dims[0] > 1)
    at->value = slice(builder, at->value, 0, 1, at->dims[0]--, 1);
  if (way == COLUMNS && at->dims[last] > 1) {
    at->value = slice(builder, at->value, last, 1, at->dims[last], 2);
    at->dims[last] /= 2;
  }
  if (way == ROW) {
    at->value = row(builder, at->value, -1);
    memmove(at->dims, at->dims + 1, sizeof *at->dims * last);
    at->rank--;
  }
  if (way == TWICE) { /* in a dimension of its own */
    at->value =
        op(builder, "Expand", at->value, add_ints(builder, at->rank + 1, ones));
    memmove(at->dims + 1, at->dims, sizeof *at->dims * at->rank);
    at->dims[0] = 2;
    at->rank++;
  }
}

/* A part of a part is one of the memory, whatever the first has made of it. */
TEST_THAT(parts_of_parts) {
  for (int ways = 0; ways < WAYS * WAYS * WAYS; ways++) {
    const int64_t dims[] = {1, 4, 2, 3};
    keel_builder *builder = NULL;
    seen at = {input(&builder, 4, dims), 4, {1, 4, 2, 3}};
    for (int i = ways, left = 3; left; i /= WAYS, left--)
      see(builder, &at, i % WAYS);
    float one = 1;
    keel_value more = add_constant(builder, KD_F32, 0, NULL, &one);
    keel_builder_output(builder, "y", op(builder, "Add", at.value, more));
    compare(builder, NULL, 4, dims,
            sizeof(float) * (uint64_t)elements_of(at.rank, at.dims), ANY_PARTS);
  }
}

TEST_THAT(split_expand_and_gather_are_parts) {
  const int64_t dims[] = {4, 6}, sizes[] = {1, 5}, wide[] = {3, 4, 5};
  const keel_attr axis = KEEL_INT("axis", 1);
  keel_builder *builder = NULL;
  keel_value x = input(&builder, 2, dims), pieces[2];
  const keel_value in[] = {x, add_ints(builder, 2, sizes)};
  expect_ok(keel_builder_op_n(builder, "Split", &axis, 1, in, 2, pieces, 2));
  keel_value sum = op(builder, "Add", pieces[1], pieces[0]); /* 4 x 5 */
  const keel_value up[] = {pieces[1], add_ints(builder, 3, wide)};
  keel_value all =
      op(builder, "Mul", keel_builder_op(builder, "Expand", NULL, 0, up, 2),
         op(builder, "Expand", op(builder, "Neg", sum, KEEL_ABSENT), up[1]));
  keel_builder_output(builder, "y",
                      op(builder, "Max", row(builder, all, -2), sum));
  /* pieces[1] is apart and read more than once: both pieces are copies */
  compare(builder, NULL, 2, dims, sizeof(float) * 4 * 5, 3);
}

/* ---- other devices ------------------------------------------------------------- */

/* Ops on parts of the input and of a value, enough of them to be recorded. */
static void try_device(const char *plugin, uint32_t wanted) {
  const int64_t dims[] = {5, 7};
  keel_context *cpu = context;
  context = open_with(CPU_PLUGIN, plugin, KEEL_NO_WORKERS);
  keel_device *device = keel_device_at(context, 1);
  if (device) {
    keel_builder *builder = NULL;
    keel_value x = input(&builder, 2, dims);
    keel_value a = op(builder, "Add", row(builder, x, 1), row(builder, x, 2));
    const int64_t perm[] = {1, 0}, column[] = {7, 1};
    const keel_attr turned = KEEL_INTS("perm", 2, perm);
    keel_value t = op(builder, "Abs",
                      keel_builder_op(builder, "Transpose", &turned, 1, &x, 1),
                      KEEL_ABSENT); /* 7 x 5 */
    keel_value b = op(builder, "Add", row(builder, t, 3), row(builder, t, -1));
    a = op(builder, "Reshape", a, add_ints(builder, 2, column));
    keel_builder_output(builder, "y", op(builder, "Add", a, b));
    compare(builder, device, 2, dims, sizeof(float) * 35, wanted);
  } else {
    print_message("no device: %s\n", plugin);
  }
  keel_close(context);
  context = cpu;
}

/* Recordings are put to the next input's memory, or made anew. */
TEST_THAT(recorded_steps_read_parts) {
#ifdef SIM_PLUGIN
  try_device(SIM_PLUGIN, 5);
#endif
}

TEST_THAT(gpus_read_parts_that_are_packed) {
  try_device(OPENCL_PLUGIN, 4);
  try_device(VULKAN_PLUGIN, 4);
}

/* ---- what stays a copy ------------------------------------------------------------ */

TEST_THAT(outputs_and_views_are_no_parts) {
  const int64_t dims[] = {2, 3, 4}, flat[] = {24};
  keel_builder *builder = NULL;
  keel_value x = input(&builder, 3, dims);
  keel_value y = op(builder, "Reshape", turn(builder, x, 2, 0, 1),
                    add_ints(builder, 1, flat));
  keel_builder_output(builder, "y", y);
  compare(builder, NULL, 3, dims, sizeof(float) * 24, 0);

  x = input(&builder, 3, dims);
  keel_builder_output(builder, "y", turn(builder, x, 2, 0, 1));
  compare(builder, NULL, 3, dims, sizeof(float) * 24, 0);
}

TEST_THAT(kernels_without_strides_get_copies) {
  const int64_t dims[] = {4, 6};
  keel_builder *builder = NULL;
  keel_value x = input(&builder, 2, dims);
  keel_value y =
      op(builder, "Softmax", slice(builder, x, 1, 1, 4, 1), KEEL_ABSENT);
  keel_builder_output(builder, "y", y);
  compare(builder, NULL, 2, dims, sizeof(float) * 12, 0);

  x = input(&builder, 2, dims); /* what is packed begins anywhere */
  y = op(builder, "Softmax", slice(builder, x, 0, 1, 3, 1), KEEL_ABSENT);
  keel_builder_output(builder, "y", y);
  compare(builder, NULL, 2, dims, sizeof(float) * 12, 1);
}

/* A result must not go where a part of other strides lies. */
TEST_THAT(a_part_is_not_overwritten) {
  const int64_t dims[] = {3, 4, 4};
  keel_builder *builder = NULL;
  keel_value x = input(&builder, 3, dims);
  keel_value own = op(builder, "Neg", x, KEEL_ABSENT);
  keel_value y = op(builder, "Abs", turn(builder, own, 0, 2, 1), KEEL_ABSENT);
  y = op(builder, "Neg", y, KEEL_ABSENT);
  keel_builder_output(builder, "y", y);
  compare(builder, NULL, 3, dims, sizeof(float) * 48, 1);
}

/* The input lies in another device's memory, whose copies take a while. */
TEST_THAT(parts_of_what_comes_from_afar) {
  const int64_t dims[] = {3, 4};
  static const float data[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  static const float want[] = {30, 70, 110, 70, 174, 278, 110, 278, 446};
  keel_context *both = open_with(CPU_PLUGIN, TOY("queue"), WORKERS);
  keel_device *near = NULL, *far = NULL;
  keel_tensor *here = NULL, *there = NULL, *out = NULL;
  expect_ok(keel_device_find(both, "cpu:0", &near));
  expect_ok(keel_device_find(both, "queue:0", &far));
  atomic_store(&toy_of(TOY("queue"))->naps, 1);
  keel_builder *builder = create_builder(both, "afar");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 2, dims);
  keel_program *program = program_giving(
      builder,
      op(builder, "MatMul", x, op(builder, "Transpose", x, KEEL_ABSENT)));
  keel_plan *plan = plan_of(program, near, true);
  assert_int_equal(parts, 1);
  here = create_tensor(both, KD_F32, 2, dims, data);
  expect_ok(keel_tensor_to(here, far, &there));
  for (int run = 0; run < 4; run++) {
    expect_ok(keel_plan_run(plan, &there, 1, &out, 1));
    expect_floats(out, want, 9);
    keel_tensor_release(out);
  }
  RELEASE(here, there, plan, program, both);
}

TEST_THAT(programs_from_outside_have_no_parts) {
  const int64_t dims[] = {4};
  const keel_attr offset = KEEL_INT("offset", 1000);
  keel_tensor *in = pattern(1, dims, 0), *out = NULL;
  assert_int_equal(
      keel_call(context, "keel::Part", &offset, 1, &in, 1, &out, 1),
      KD_INVALID_ARGUMENT);
  assert_non_null(strstr(keel_message(), "it occurs in plans only"));
  keel_tensor_release(in);
}

RUN_TESTS(open_cpu, close_context)
