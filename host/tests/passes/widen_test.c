/* widen_test.c - models of f16 and bf16 stay f32 between ops that compute so: there are casts
 * at the ends and nowhere else, and results are what they were, rounded less often. */
#include <math.h>

#define WORKERS 0
#include "base/float.h"
#include "with_cpu.h"

enum { CHANNELS = 3, SIDE = 7, FILTERS = 5 };

static uint32_t seed = 7;

static double next_number(void) {
  seed = seed * 1664525u + 1013904223u;
  return ((double)(seed >> 16) - 32768) / 32768;
}

static keel_tensor *random_halves(kd_dtype dtype, uint32_t rank,
                                  const int64_t *dims) {
  static uint16_t codes[1024];
  int64_t count = elements_of(rank, dims);
  assert_true(count <= 1024);
  for (int64_t i = 0; i < count; i++)
    keel_float_encode(dtype, next_number(), &codes[i]);
  return create_tensor(context, dtype, rank, dims, codes);
}

static keel_value constant(keel_builder *b, kd_dtype dtype, uint32_t rank,
                           const int64_t *dims) {
  return constant_of(b, random_halves(dtype, rank, dims));
}

typedef keel_value writer(keel_builder *b, keel_value x, kd_dtype dtype);

static keel_value conv(keel_builder *b, keel_value x, kd_dtype dtype) {
  const int64_t dims[] = {FILTERS, CHANNELS, 3, 3}, filters = FILTERS;
  keel_value three[] = {x, constant(b, dtype, 4, dims),
                        constant(b, dtype, 1, &filters)};
  return keel_builder_op(b, "Conv", NULL, 0, three, 3);
}

/* Computes, moves and computes; two values are read twice. */
static keel_value write_chain(keel_builder *b, keel_value x, kd_dtype dtype) {
  keel_value y = op(b, "Sigmoid", conv(b, x, dtype), KEEL_ABSENT);
  keel_value z = op(b, "Transpose", y, KEEL_ABSENT);
  z = op(b, "Transpose", op(b, "Tanh", z, KEEL_ABSENT), KEEL_ABSENT);
  return op(b, "MatMul", op(b, "Mul", y, z), y);
}

/* A rounding that the model asks for itself. */
static keel_value write_cast(keel_builder *b, keel_value x, kd_dtype dtype) {
  const keel_attr to_f32 = KEEL_INT("to", KD_F32), back = KEEL_INT("to", dtype);
  x = conv(b, x, dtype);
  x = keel_builder_op(b, "Cast", &to_f32, 1, &x, 1);
  x = op(b, "Exp", x, KEEL_ABSENT);
  return keel_builder_op(b, "Cast", &back, 1, &x, 1);
}

static keel_value write_light(keel_builder *b, keel_value x, kd_dtype dtype) {
  (void)dtype;
  return op(b, "Relu", op(b, "Add", x, x), KEEL_ABSENT);
}

static keel_plan *plan_without(keel_program *program, const char *skip) {
  const char *both[] = {"regions", skip};
  keel_plan *plan = create_plan(
      program, PLAN_PARAMS(.skip = both, .skip_count = skip ? 2 : 1));
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  return plan;
}

static int64_t run_plan(keel_plan *plan, kd_dtype dtype, keel_tensor *x,
                        double *out) {
  static uint16_t codes[4096];
  int64_t count = 1;
  keel_tensor *y = output_of(plan, &x, 1);
  assert_int_equal(keel_tensor_dtype(y), dtype);
  for (uint32_t i = 0; i < keel_tensor_rank(y); i++)
    count *= keel_tensor_dims(y)[i];
  assert_true(count <= 4096);
  expect_ok(keel_tensor_read(y, codes, (size_t)count * 2));
  for (int64_t i = 0; i < count; i++) {
    uint64_t bits = 0;
    keel_float_decode(dtype, &codes[i], &out[i], &bits);
  }
  keel_tensor_release(y);
  return count;
}

/* So many casts run with the pass; results differ by some roundings from those without.
 * open: the batch is not known before it runs. */
static void expect(writer *write, kd_dtype dtype, uint32_t casts,
                   uint32_t casts_before, bool open) {
  static double want[4096], got[4096];
  const int64_t dims[] = {open ? -1 : 2, CHANNELS, SIDE, SIDE};
  const int64_t given[] = {2, CHANNELS, SIDE, SIDE};
  const double step = dtype == KD_F16 ? 0x1p-9 : 0x1p-6;
  keel_builder *builder = create_builder(context, "model");
  keel_value x = keel_builder_input(builder, "x", dtype, 4, dims);
  keel_program *program = program_giving(builder, write(builder, x, dtype));
  keel_plan *plain = plan_without(program, "widen");
  keel_plan *plan = plan_without(program, NULL);
  keel_tensor *input = random_halves(dtype, 4, given);
  int64_t count = run_plan(plain, dtype, input, want);
  assert_int_equal(run_plan(plan, dtype, input, got), count);
  for (int64_t i = 0; i < count; i++)
    if (!(fabs(got[i] - want[i]) <= step * (1 + fabs(want[i]))))
      fail_msg("element %lld is %g, without the pass %g", (long long)i, got[i],
               want[i]);
  /* of the plan, and of the one for the batch that came first */
  uint32_t plans = open ? 2 : 1;
  assert_int_equal(runs_of(plain, "Cast"), casts_before * plans);
  assert_int_equal(runs_of(plan, "Cast"), casts * plans);
  RELEASE(input, plain, plan, program);
}

TEST_THAT(casts_are_at_the_ends) {
  for (int open = 0; open < 2; open++) {
    expect(write_chain, KD_F16, 2, 0, open);
    expect(write_chain, KD_BF16, 2, 0, open);
  }
}

TEST_THAT(a_rounding_that_is_asked_for_stays) {
  expect(write_cast, KD_F16, 4, 2, false);
}

TEST_THAT(what_has_little_to_gain_stays) {
  expect(write_light, KD_F16, 0, 0, false);
}

RUN_TESTS(open_cpu, close_context)
