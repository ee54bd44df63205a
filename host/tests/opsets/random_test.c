/* random_test.c - random numbers: known answers, distributions, and no hidden state. */
#include <math.h>

#include "opsets/onnx/math/random.h"
#include "threads/cancel.h"
#include "toy/toy.h"
#define BESIDE  TOY("queue")
#define WORKERS 1
#include "with_cpu.h"

/* Random123, kat_vectors: philox4x32, 10 rounds. */
TEST_THAT(philox_gives_the_known_answers) {
  static const uint32_t cases[][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
       0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
       0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
  for (size_t i = 0; i < 3; i++) {
    uint32_t words[4];
    keel_philox(&cases[i][4], cases[i], words);
    assert_memory_equal(words, &cases[i][6], sizeof words);
  }
}

enum { COUNT = 100000 };

static keel_tensor *call(const char *op_name, const keel_attr *attrs,
                         uint32_t attr_count, keel_tensor *const *in,
                         uint32_t n) {
  keel_tensor *out = call_op(context, op_name, attrs, attr_count, in, n);
  return out;
}

/* Mean and variance, and how many are below 0.25. */
static void measure(keel_tensor *tensor, double *mean, double *variance,
                    double *low) {
  const float *data = keel_tensor_data(tensor);
  double sum = 0, squares = 0;
  *low = 0;
  for (int i = 0; i < COUNT; i++) {
    sum += (double)data[i];
    squares += (double)data[i] * (double)data[i];
    *low += data[i] < 0.25f;
  }
  *mean = sum / COUNT;
  *variance = squares / COUNT - *mean * *mean;
  *low /= COUNT;
}

TEST_THAT(numbers_are_distributed_as_they_should) {
  const int64_t shape = COUNT;
  double mean, variance, low;
  const keel_attr uniform[] = {KEEL_INTS("shape", 1, &shape),
                               KEEL_FLOAT("seed", 7), KEEL_FLOAT("low", -1),
                               KEEL_FLOAT("high", 3)};
  keel_tensor *x = call("RandomUniform", uniform, 2, NULL, 0);
  measure(x, &mean, &variance, &low);
  assert_true(fabs(mean - 0.5) < 0.005 && fabs(variance - 1 / 12.0) < 0.002);
  assert_true(fabs(low - 0.25) < 0.006);
  keel_tensor_release(x);
  x = call("RandomUniform", uniform, 4, NULL, 0);
  measure(x, &mean, &variance, &low);
  assert_true(fabs(mean - 1) < 0.02 && fabs(variance - 16 / 12.0) < 0.03);
  const float *data = keel_tensor_data(x);
  for (int i = 0; i < COUNT; i++)
    assert_true(data[i] >= -1 && data[i] <= 3);
  const keel_attr normal[] = {KEEL_FLOAT("seed", 7), KEEL_FLOAT("mean", 2),
                              KEEL_FLOAT("scale", 3)};
  keel_tensor *y = call("RandomNormalLike", normal, 3, &x, 1);
  measure(y, &mean, &variance, &low);
  assert_true(fabs(mean - 2) < 0.04 && fabs(variance - 9) < 0.2);
  assert_true(fabs(low - 0.2798) < 0.006); /* of (0.25 - 2) / 3 */
  RELEASE(y, x);
}

TEST_THAT(chances_are_kept) {
  static float chances[COUNT];
  int64_t ones[3] = {0};
  for (int i = 0; i < COUNT; i++)
    chances[i] = i % 3 == 0 ? 0 : i % 3 == 1 ? 0.3f : 1;
  keel_tensor *p = floats(context, COUNT, chances);
  const keel_attr attrs[] = {KEEL_FLOAT("seed", 1), KEEL_INT("dtype", KD_I32)};
  keel_tensor *x = call("Bernoulli", attrs, 2, &p, 1);
  assert_int_equal(keel_tensor_dtype(x), KD_I32);
  const int32_t *bits = keel_tensor_data(x);
  for (int i = 0; i < COUNT; i++) {
    assert_true(bits[i] == 0 || bits[i] == 1);
    ones[i % 3] += bits[i];
  }
  assert_int_equal(ones[0], 0);
  assert_true(labs((long)ones[1] - 10000) < 400);
  assert_int_equal(ones[2], COUNT / 3);
  RELEASE(x, p);
}

/* keel::Normal(seed, counter, shape), on a device. */
static keel_tensor *counted(const char *device_name, int64_t seed,
                            int64_t counter, const int64_t *shape) {
  keel_tensor *in[3];
  keel_device *device = find_device(context, device_name);
  keel_tensor_create(context, KD_I64, 0, NULL, &seed, &in[0]);
  keel_tensor_create(context, KD_I64, 0, NULL, &counter, &in[1]);
  keel_tensor_create(context, KD_I64, DIMS(2), shape, &in[2]);
  expect_ok(keel_device_push(device));
  keel_tensor *out = call("keel::Normal", NULL, 0, in, 3);
  keel_device_pop();
  release_all(in, 3);
  return out;
}

TEST_THAT(seed_and_counter_are_values) {
  const int64_t shape[] = {3, 5}, other[] = {5, 3};
  float first[15], next[15];
  keel_tensor *x = counted("cpu:0", 3, 4, shape);
  assert_int_equal(keel_tensor_rank(x), 2);
  expect_ok(keel_tensor_read(x, first, sizeof first));
  keel_tensor_release(x);
  for (int i = 0; i < 4;
       i++) { /* again, elsewhere, another shape, and others */
    x = counted(i == 1 ? "queue:0" : "cpu:0", 3, i == 3 ? 5 : 4,
                i == 2 ? other : shape);
    expect_ok(keel_tensor_read(x, next, sizeof next));
    if (i < 3)
      assert_memory_equal(first, next, sizeof first);
    else
      assert_memory_not_equal(first, next, sizeof first);
    keel_tensor_release(x);
  }
}

TEST_THAT(numbers_without_a_seed_differ) {
  const int64_t shape = 8;
  const keel_attr attrs[] = {KEEL_INTS("shape", 1, &shape)};
  keel_tensor *x = call("RandomUniform", attrs, 1, NULL, 0);
  keel_tensor *y = call("RandomUniform", attrs, 1, NULL, 0);
  assert_memory_not_equal(keel_tensor_data(x), keel_tensor_data(y), 32);
  RELEASE(x, y);
  const keel_attr bad[] = {KEEL_INTS("shape", 1, &shape),
                           KEEL_INT("dtype", KD_I32)};
  expect_fails(keel_call(context, "RandomUniform", bad, 2, NULL, 0, &x, 1),
               KD_INVALID_ARGUMENT, "random numbers can't be i32");
}

static keel_tensor *classes_of(const float *scores, int64_t rows,
                               const keel_attr *attrs, uint32_t attr_count) {
  keel_tensor *in = create_tensor(context, KD_F32, DIMS(rows, 3), scores);
  keel_tensor *out = call("Multinomial", attrs, attr_count, &in, 1);
  keel_tensor_release(in);
  return out;
}

TEST_THAT(classes_are_drawn_by_their_scores) {
  const float scores[] = {-INFINITY,  1000, 1001.0986123f, /* 1 of 4, 3 of 4 */
                          0.6931472f, 0,    -80};          /* 2 of 3, 1 of 3 */
  const keel_attr attrs[] = {KEEL_INT("sample_size", 9999),
                             KEEL_FLOAT("seed", 3), KEEL_INT("dtype", KD_I64)};
  int64_t found[2][3] = {{0}};
  keel_tensor *y = classes_of(scores, 2, attrs, 3);
  assert_int_equal(keel_tensor_dtype(y), KD_I64);
  for (int i = 0; i < 2 * 9999; i++)
    found[i / 9999][((const int64_t *)keel_tensor_data(y))[i]]++;
  assert_int_equal(found[0][0], 0);
  assert_true(labs((long)found[0][1] - 2500) < 180);
  assert_true(labs((long)found[1][0] - 6667) < 200);
  assert_int_equal(found[1][2], 0);
  keel_tensor *again = classes_of(scores, 2, attrs, 3);
  assert_memory_equal(keel_tensor_data(y), keel_tensor_data(again), 79992);
  RELEASE(again, y);
  y = classes_of(scores, 1, NULL, 0);
  assert_int_equal(keel_tensor_dtype(y), KD_I32);
  assert_true(*(const int32_t *)keel_tensor_data(y) > 0);
  keel_tensor_release(y);
  const float none[] = {-INFINITY, -INFINITY, -INFINITY};
  expect_ok(keel_tensor_create(context, KD_F32, DIMS(1, 3), none, &y));
  keel_tensor *out = NULL;
  expect_fails(keel_call(context, "Multinomial", NULL, 0, &y, 1, &out, 1),
               KD_INVALID_ARGUMENT, "no class of row 0 can be drawn");
  keel_tensor_release(y);
}

/* Dropout in training mode, of ones, with a seed unless that is 0. out, mask: COUNT each. */
static keel_status drop_out(float ratio, int64_t seed, kd_dtype dtype,
                            keel_tensor *out[2]) {
  static float ones[COUNT];
  const uint8_t training = 1;
  const keel_attr attr = KEEL_INT("seed", seed);
  const keel_attr to = KEEL_INT("to", dtype);
  for (int i = 0; i < COUNT; i++)
    ones[i] = 1;
  keel_tensor *wide = NULL, *in[3];
  keel_tensor_create(context, KD_F32, DIMS(COUNT), ones, &wide);
  in[0] = call("Cast", &to, 1, &wide, 1);
  keel_tensor_create(context, KD_F32, 0, NULL, &ratio, &in[1]);
  keel_tensor_create(context, KD_BOOL, 0, NULL, &training, &in[2]);
  keel_status status =
      keel_call(context, "Dropout", &attr, seed != 0, in, 3, out, 2);
  keel_tensor_release(wide);
  release_all(in, 3);
  return status;
}

TEST_THAT(dropout_drops_its_share) {
  keel_tensor *out[2] = {0}, *again[2] = {0};
  int dropped = 0;
  expect_ok(drop_out(0.2f, 5, KD_F32, out));
  const float *y = keel_tensor_data(out[0]);
  const uint8_t *mask = keel_tensor_data(out[1]);
  assert_int_equal(keel_tensor_dtype(out[1]), KD_BOOL);
  for (int i = 0; i < COUNT; i++) {
    assert_true(y[i] == (mask[i] ? 1.25f : 0));
    dropped += !mask[i];
  }
  assert_true(abs(dropped - COUNT / 5) < 400); /* three times what is usual */
  expect_ok(drop_out(0.2f, 5, KD_F32, again));
  assert_memory_equal(y, keel_tensor_data(again[0]), COUNT * sizeof *y);
  release_all(again, 2);
  expect_ok(drop_out(0.2f, 6, KD_F32, again));
  assert_memory_not_equal(mask, keel_tensor_data(again[1]), COUNT);
  release_all(again, 2);
  release_all(out, 2);
  for (int i = 0; i < 2; i++) /* without a seed */
    expect_ok(drop_out(0.5f, 0, KD_F16, i ? again : out));
  assert_memory_not_equal(keel_tensor_data(out[0]), keel_tensor_data(again[0]),
                          COUNT);
  for (int i = 0; i < COUNT; i++) /* 2, of f16 */
    assert_int_equal(
        ((const uint16_t *)keel_tensor_data(out[0]))[i],
        ((const uint8_t *)keel_tensor_data(out[1]))[i] ? 0x4000 : 0);
  release_all(again, 2);
  release_all(out, 2);
  expect_fails(drop_out(1, 5, KD_F32, out), KD_INVALID_ARGUMENT,
               "at least 0 and less than 1");
}

/* Constants are not folded, nor two nodes made one; each run has other numbers. */
TEST_THAT(dropout_of_constants_is_not_folded) {
  static float ones[64], got[4][64];
  const uint8_t training = 1;
  keel_tensor *y[2];
  for (int i = 0; i < 64; i++)
    ones[i] = 1;
  keel_builder *builder = create_builder(context, "dropout");
  const keel_value in[] = {add_constant(builder, KD_F32, DIMS(64), ones),
                           KEEL_ABSENT,
                           add_constant(builder, KD_BOOL, 0, NULL, &training)};
  for (int i = 0; i < 2; i++)
    keel_builder_output(builder, i ? "y" : "z",
                        keel_builder_op(builder, "Dropout", NULL, 0, in, 3));
  keel_plan *plan = finish_plan(builder, NULL);
  for (int run = 0; run < 5; run++) {
    expect_ok(keel_plan_run(plan, NULL, 0, y, 2));
    for (int i = 0; i < 2; i++)
      expect_ok(keel_tensor_read(y[i], got[2 * (run % 2) + i], sizeof got[0]));
    release_all(y, 2);
    for (int i = 1; run && i < 4; i++)
      assert_memory_not_equal(got[0], got[i], sizeof got[0]);
  }
  keel_plan_release(plan);
}

TEST_THAT(drawing_ends_with_its_run) {
  static const char *const ops[] = {"RandomNormalLike", "RandomUniformLike",
                                    "Bernoulli", "Dropout"};
  const int64_t count = 200000;
  const keel_cancellation due = {.deadline = 1};
  float *halves = malloc((size_t)count * sizeof *halves);
  const float ratio = 0.5f;
  const bool training = true;
  keel_tensor *x[3] = {NULL}, *y = NULL;
  for (int64_t i = 0; i < count; i++)
    halves[i] = 0.5f;
  x[0] = create_tensor(context, KD_F32, 1, &count, halves);
  x[1] = create_tensor(context, KD_F32, 0, NULL, &ratio);
  x[2] = create_tensor(context, KD_BOOL, 0, NULL, &training);
  for (int i = 0; i < 4; i++) {
    const keel_cancellation *before = keel_cancellation_use(&due);
    assert_int_equal(
        keel_call(context, ops[i], NULL, 0, x, i < 3 ? 1 : 3, &y, 1),
        KD_DEADLINE_EXCEEDED);
    keel_cancellation_use(before);
    expect_message(ops[i]);
  }
  release_all(x, 3);
  free(halves);
}

RUN_TESTS(open_cpu, close_context)
