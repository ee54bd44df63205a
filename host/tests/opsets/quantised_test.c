/* quantised_test.c - the pass that computes quantised models on bytes keeps their results. */
#include <math.h>

#define WORKERS 3
#include "with_cpu.h"

SETUP(open_regions) {
  const char *path = CPU_PLUGIN;
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, &path, 1, .workers = 3);
  return keel_open(&params, &context) != KD_OK;
}

enum { CHANNELS = 6, SIDE = 9, FILTERS = 10 };

static keel_value scaled(keel_builder *b, const char *op, keel_value x,
                         float scale, uint8_t zero) {
  keel_value three[] = {x, add_constant(b, KD_F32, 0, NULL, &scale),
                        add_constant(b, KD_U8, 0, NULL, &zero)};
  return keel_builder_op(b, op, NULL, 0, three, 3);
}

/* As floats, by way of bytes. */
static keel_value by_bytes(keel_builder *b, keel_value x, float scale,
                           uint8_t zero) {
  return scaled(b, "DequantizeLinear",
                scaled(b, "QuantizeLinear", x, scale, zero), scale, zero);
}

/* i8 weights from -40 to 39 with a scale for each line along `axis`, as floats. */
static keel_value weights(keel_builder *b, uint32_t rank, const int64_t *dims,
                          int64_t axis) {
  static int8_t w[1024 * 64];
  float scales[64];
  int8_t zeros[64] = {0};
  for (int64_t i = 0; i < elements_of(rank, dims); i++)
    w[i] = (int8_t)(i * 7919 % 401 % 80 - 40);
  const keel_attr attr = KEEL_INT("axis", axis);
  for (int i = 0; i < 64; i++)
    scales[i] = 0.002f + 0.0001f * (float)i;
  keel_value three[] = {add_constant(b, KD_I8, rank, dims, w),
                        add_constant(b, KD_F32, 1, &dims[axis], scales),
                        add_constant(b, KD_I8, 1, &dims[axis], zeros)};
  return keel_builder_op(b, "DequantizeLinear", &attr, 1, three, 3);
}

/* The results' scale. */
#define STEP 0.25f

static keel_value conv(keel_builder *b, keel_value x) {
  const int64_t dims[] = {FILTERS, CHANNELS, 3, 3}, pads[] = {1, 1, 1, 1};
  float bias[FILTERS];
  for (int i = 0; i < FILTERS; i++)
    bias[i] = 0.3f * (float)(i - 4);
  const keel_attr attr = KEEL_INTS("pads", 4, pads);
  keel_value three[] = {by_bytes(b, x, 0.04f, 100), weights(b, 4, dims, 0),
                        add_constant(b, KD_F32, DIMS(FILTERS), bias)};
  return keel_builder_op(b, "Conv", &attr, 1, three, 3);
}

static keel_value write_conv(keel_builder *b, keel_value x) {
  return by_bytes(b, conv(b, x), STEP, 90);
}

static keel_value write_relu(keel_builder *b, keel_value x) {
  return by_bytes(b, op(b, "Relu", conv(b, x), KEEL_ABSENT), STEP, 0);
}

/* Numbers below 0 can be told from 0, but for the Relu. */
static keel_value write_needed_relu(keel_builder *b, keel_value x) {
  return by_bytes(b, op(b, "Relu", conv(b, x), KEEL_ABSENT), STEP, 7);
}

/* Floats are needed, too. */
static keel_value write_twice(keel_builder *b, keel_value x) {
  x = conv(b, x);
  return op(b, "Add", by_bytes(b, x, STEP, 90), x);
}

static keel_value write_matmul(keel_builder *b, keel_value x) {
  const int64_t dims[] = {SIDE, 33};
  keel_value w = weights(b, 2, dims, 1);
  return by_bytes(b, op(b, "MatMul", by_bytes(b, x, 0.04f, 100), w), STEP, 90);
}

static keel_value write_moves(keel_builder *b, keel_value x) {
  const int64_t kernel[] = {2, 2}, perm[] = {0, 2, 3, 1};
  const keel_attr pool = KEEL_INTS("kernel_shape", 2, kernel);
  const keel_attr turn = KEEL_INTS("perm", 4, perm);
  x = by_bytes(b, x, 0.04f, 100);
  x = by_bytes(b, keel_builder_op(b, "MaxPool", &pool, 1, &x, 1), 0.04f, 100);
  x = keel_builder_op(b, "Transpose", &turn, 1, &x, 1);
  x = by_bytes(b, x, 0.04f, 100);
  return by_bytes(b, op(b, "Relu", x, KEEL_ABSENT), 0.04f, 100);
}

/* Another scale behind: elements change. */
static keel_value write_rescaled(keel_builder *b, keel_value x) {
  x = by_bytes(b, x, 0.04f, 100);
  return by_bytes(b, op(b, "Transpose", x, KEEL_ABSENT), 0.05f, 100);
}

typedef keel_value writer(keel_builder *builder, keel_value x);

static keel_plan *plan_without(keel_program *program, const char *skip) {
  keel_plan *plan = create_plan(
      program, PLAN_PARAMS(.skip = &skip, .skip_count = skip != NULL));
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  return plan;
}

/* Runs the program; returns how many elements came. */
static int64_t run_plan(keel_plan *plan, float *out, size_t capacity) {
  static float data[CHANNELS * SIDE * SIDE];
  const int64_t dims[] = {1, CHANNELS, SIDE, SIDE};
  int64_t count = 1;
  for (int i = 0; i < CHANNELS * SIDE * SIDE; i++)
    data[i] = (float)(i * 7919 % 401 - 200) / 50;
  keel_tensor *x = create_tensor(context, KD_F32, 4, dims, data);
  keel_tensor *y = output_of(plan, &x, 1);
  for (uint32_t i = 0; i < keel_tensor_rank(y); i++)
    count *= keel_tensor_dims(y)[i];
  assert_true((size_t)count <= capacity);
  expect_ok(keel_tensor_read(y, out, (size_t)count * sizeof *out));
  RELEASE(x, y);
  return count;
}

/* The program runs so many of the ops, and differs by `bound` from what it gives without the
 * pass; `open`: its batch is not known before it runs. */
static void expect(writer *write, const char *fused, uint32_t count,
                   const char *gone, uint32_t left, float bound, bool open) {
  static float want[16384], got[16384];
  const int64_t dims[] = {open ? -1 : 1, CHANNELS, SIDE, SIDE};
  keel_builder *builder = create_builder(context, "model");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 4, dims);
  keel_program *program = program_giving(builder, write(builder, x));
  keel_plan *plain = plan_without(program, "quantise");
  keel_plan *plan = plan_without(program, NULL);
  int64_t elements = run_plan(plain, want, 16384);
  assert_int_equal(run_plan(plan, got, 16384), elements);
  for (int64_t i = 0; i < elements; i++)
    if (fabsf(got[i] - want[i]) > bound)
      fail_msg("element %lld is %g, without the pass %g", (long long)i,
               (double)got[i], (double)want[i]);
  /* of the plan, and of the one for the batch that came first */
  uint32_t plans = open ? 2 : 1;
  assert_int_equal(runs_of(plan, fused), count * plans);
  assert_int_equal(runs_of(plan, gone), left * plans);
  RELEASE(plain, plan, program);
}

TEST_THAT(products_between_scales_are_of_bytes) {
  const float step = 1.001f * STEP;
  for (int open = 0; open < 2; open++) {
    expect(write_conv, "QLinearConv", 1, "Conv", 0, step, open);
    expect(write_relu, "QLinearConv", 1, "Relu", 0, step, open);
    expect(write_matmul, "QLinearMatMul", 1, "MatMul", 0, step, open);
  }
}

/* Not even while the plan is made. */
TEST_THAT(weights_are_never_floats) {
  const int64_t dims[] = {1024, 64}, one[] = {1, 1024};
  keel_stats before, after;
  keel_builder *b = create_builder(context, "model");
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, one);
  x = op(b, "MatMul", by_bytes(b, x, 0.04f, 100), weights(b, 2, dims, 1));
  keel_program *program = program_giving(b, by_bytes(b, x, STEP, 90));
  keel_get_stats(context, &before);
  keel_plan *plan = create_plan(program, NULL);
  keel_get_stats(context, &after);
  assert_true(after.peak_bytes < before.tensor_bytes + 4 * 1024 * 64);
  RELEASE(plan, program);
}

TEST_THAT(what_is_not_the_same_stays) {
  expect(write_needed_relu, "QLinearConv", 0, "QuantizeLinear", 2, 0, false);
  expect(write_twice, "QLinearConv", 0, "QuantizeLinear", 2, 0, false);
  expect(write_rescaled, "DequantizeLinear", 2, "QuantizeLinear", 2, 0, false);
}

TEST_THAT(bytes_are_moved_as_they_are) {
  expect(write_moves, "DequantizeLinear", 2, "QuantizeLinear", 2, 0, false);
}

/* Bytes of both types, without a zero point too, and floats between them. */
static keel_value write_chain(keel_builder *b, keel_value x) {
  const float scale = 0.05f;
  const int8_t zero = -9;
  keel_value step = add_constant(b, KD_F32, 0, NULL, &scale);
  keel_value three[] = {x, step, add_constant(b, KD_I8, 0, NULL, &zero)};
  keel_value a = keel_builder_op(b, "QuantizeLinear", NULL, 0, three, 3);
  keel_value two[] = {op(b, "Abs", x, KEEL_ABSENT), step};
  keel_value c = keel_builder_op(b, "QuantizeLinear", NULL, 0, two, 2);
  three[0] = a;
  two[0] = c;
  a = keel_builder_op(b, "DequantizeLinear", NULL, 0, three, 3);
  c = keel_builder_op(b, "DequantizeLinear", NULL, 0, two, 2);
  return by_bytes(b, op(b, "Sub", op(b, "Mul", a, c), x), 0.1f, 31);
}

static uint32_t run_chain(const char *skip, float *out, int64_t *out_count) {
  const int64_t dims[] = {1, CHANNELS, SIDE, SIDE};
  keel_builder *builder = create_builder(context, "chain");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 4, dims);
  keel_program *program = program_giving(builder, write_chain(builder, x));
  keel_plan *plan = plan_without(program, skip);
  *out_count = run_plan(plan, out, 16384);
  uint32_t regions = runs_of(plan, "Region");
  RELEASE(plan, program);
  return regions;
}

TEST_BETWEEN(a_chain_of_bytes_is_one_step, open_regions, close_context) {
  static float want[16384], got[16384];
  int64_t count = 0, same = 0;
  assert_int_equal(run_chain("regions", want, &count), 0);
  assert_int_equal(run_chain(NULL, got, &same), 1);
  assert_int_equal(same, count);
  assert_memory_equal(got, want, (size_t)count * sizeof *want);
}

int main(void) {
  around_each(open_cpu, close_context);
  return tests_run(NULL, NULL);
}
