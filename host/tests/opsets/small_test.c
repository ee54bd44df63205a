/* small_test.c - types of eight bits or less: casts of all their elements, what does not fit,
 * and quantisation to and from them. */
#include <math.h>

#include <kd/help.h>

#define WORKERS 2
#include "with_cpu.h"

typedef struct facts {
  kd_dtype dtype;
  double largest, least; /* finite; above 0 */
} facts;

/* arXiv:2209.05433 table 1, arXiv:2206.02915, OCP Microscaling Formats 1.0 */
static const facts types[] = {
    {KD_F8E4M3FN, 448, 0x1p-9},
    {KD_F8E4M3FNUZ, 240, 0x1p-10},
    {KD_F8E5M2, 57344, 0x1p-16},
    {KD_F8E5M2FNUZ, 57344, 0x1p-17},
    {KD_F8E8M0, 0x1p127, 0x1p-127},
    {KD_F4E2M1, 6, 0.5},
    {KD_U4, 15, 1},
    {KD_I4, 7, 1},
    {KD_U2, 3, 1},
    {KD_I2, 1, 1},
};
enum { TYPES = sizeof types / sizeof *types };

static keel_tensor *call(const char *op, const keel_attr *attrs, uint32_t count,
                         keel_tensor *const *inputs, uint32_t input_count) {
  keel_tensor *out = call_op(context, op, attrs, count, inputs, input_count);
  expect_ok(keel_tensor_wait(out));
  return out;
}

/* Takes over x. */
static keel_tensor *cast(keel_tensor *x, kd_dtype to, bool saturate,
                         const char *round) {
  const keel_attr attrs[] = {KEEL_INT("to", to), KEEL_INT("saturate", saturate),
                             KEEL_STRING("round_mode", round)};
  keel_tensor *y = call("Cast", attrs, 3, &x, 1);
  keel_tensor_release(x);
  return y;
}

static keel_tensor *line(kd_dtype dtype, int64_t count, const void *data) {
  return create_tensor(context, dtype, 1, &count, data);
}

/* All elements of a type, packed. */
static keel_tensor *all_of(kd_dtype dtype, uint8_t *bytes) {
  uint32_t bits = kd_dtype_bits(dtype), count = 1u << bits, each = 8 / bits;
  memset(bytes, 0, 256);
  for (uint32_t i = 0; i < count; i++)
    bytes[i / each] |= (uint8_t)(i << i % each * bits);
  return line(dtype, count, bytes);
}

static void read_floats(keel_tensor *tensor, float *out) {
  expect_ok(keel_tensor_read(tensor, out, keel_tensor_size(tensor)));
  keel_tensor_release(tensor);
}

/* ---- tests ------------------------------------------------------------------------------ */

TEST_THAT(each_element_is_a_number_and_comes_back) {
  for (int t = 0; t < TYPES; t++) {
    const kd_dtype dtype = types[t].dtype;
    const int count = 1 << kd_dtype_bits(dtype);
    uint8_t bytes[256], back[256] = {0};
    float values[256];
    double largest = 0, least = INFINITY;
    read_floats(cast(all_of(dtype, bytes), KD_F32, true, "up"), values);
    for (int i = 0; i < count; i++) {
      double value = (double)values[i];
      if (isfinite(value) && value > largest) largest = value;
      if (value > 0 && value < least) least = value;
    }
    assert_true(largest == types[t].largest);
    assert_true(least == types[t].least);
    keel_tensor *y = cast(line(KD_F32, count, values), dtype, false, "nearest");
    assert_int_equal(keel_tensor_size(y), count * kd_dtype_bits(dtype) / 8);
    expect_ok(keel_tensor_read(y, back, keel_tensor_size(y)));
    for (uint64_t i = 0; i < keel_tensor_size(y); i++)
      if (kd_dtype_bits(dtype) < 8 || !isnan(values[i]))
        assert_int_equal(back[i], bytes[i]);
    keel_tensor_release(y);
  }
}

TEST_THAT(what_does_not_fit_is_the_nearest_or_none) {
  const float x[] = {1e6F, -1e6F, INFINITY, -INFINITY, NAN};
  for (int t = 0; t < 4; t++) {
    const double most = types[t].largest;
    float y[5];
    read_floats(cast(cast(line(KD_F32, 5, x), types[t].dtype, true, "up"),
                     KD_F32, true, "up"),
                y);
    for (int i = 0; i < 4; i++)
      assert_true((double)y[i] == (i % 2 ? -most : most));
    assert_true(isnan(y[4]));
    read_floats(cast(cast(line(KD_F32, 5, x), types[t].dtype, false, "up"),
                     KD_F32, true, "up"),
                y);
    for (int i = 0; i < 4; i++)
      assert_true(types[t].dtype == KD_F8E5M2
                      ? y[i] == (i % 2 ? -INFINITY : INFINITY)
                      : isnan(y[i]));
  }
}

/* Ties go to even ones; 17 is between 16 and 18 in f8e4m3fn, and 19 between 18 and 20. */
TEST_THAT(what_is_between_goes_to_the_nearest) {
  const float x[] = {17, 17.01F, 19, -19, 0x1p-10F, 0x1.8p-9F};
  const float want[] = {16, 18, 20, -20, 0, 0x1p-8F};
  float y[6];
  read_floats(cast(cast(line(KD_F32, 6, x), KD_F8E4M3FN, true, "up"), KD_F32,
                   true, "up"),
              y);
  for (int i = 0; i < 6; i++)
    assert_true(y[i] == want[i]);
}

TEST_THAT(powers_are_rounded_as_is_said) {
  static const char *const modes[] = {"up", "down", "nearest"};
  const float x[] = {1, 1.25F, 1.5F, 1.75F, 3, 0x1.8p127F, 0};
  const float want[3][6] = {{1, 2, 2, 2, 4, 0x1p127F},
                            {1, 1, 1, 1, 2, 0x1p127F},
                            {1, 1, 2, 2, 4, 0x1p127F}};
  for (int m = 0; m < 3; m++) {
    float y[7];
    read_floats(cast(cast(line(KD_F32, 7, x), KD_F8E8M0, true, modes[m]),
                     KD_F32, true, "up"),
                y);
    for (int i = 0; i < 6; i++)
      assert_true(y[i] == want[m][i]);
    assert_true(y[6] == 0x1p-127F);
  }
}

/* Of integers the low bits, of an odd number: the last byte is filled up with zeros. */
TEST_THAT(integers_keep_their_low_bits) {
  const int8_t x[] = {1, -1, 7, -8, 20};
  const uint8_t want[] = {0xf1, 0x87, 0x04};
  uint8_t bytes[3];
  keel_tensor *y = cast(line(KD_I8, 5, x), KD_I4, true, "up");
  expect_ok(keel_tensor_read(y, bytes, sizeof bytes));
  assert_memory_equal(bytes, want, sizeof want);
  keel_tensor_release(y);
}

TEST_THAT(quantised_by_axis_and_by_block) {
  enum { ROWS = 3, COLUMNS = 5, COUNT = ROWS * COLUMNS };
  const int64_t dims[] = {ROWS, COLUMNS}, five = COLUMNS, blocks[] = {ROWS, 2};
  const float scales[] = {1, 2, 0.5F, 4, 0.25F, 8};
  static const kd_dtype tried[] = {KD_I4, KD_U4,       KD_I2,
                                   KD_U2, KD_F8E4M3FN, KD_F4E2M1};
  for (int t = 0; t < 6; t++)
    for (int by_block = 0; by_block < 2; by_block++) {
      const kd_dtype dtype = tried[t];
      const keel_attr attrs[] = {KEEL_INT("axis", 1),
                                 KEEL_INT("block_size", by_block ? 3 : 0),
                                 KEEL_INT("output_dtype", dtype)};
      float x[COUNT], y[COUNT];
      for (int i = 0; i < COUNT; i++) { /* multiples of the scale that fit */
        int s = by_block ? i / COLUMNS * 2 + i % COLUMNS / 3 : i % COLUMNS;
        int n = dtype == KD_I2 ? i % 4 - 2 : i % 4;
        x[i] = (float)n * scales[s];
      }
      keel_tensor *in[] = {
          create_tensor(context, KD_F32, 2, dims, x),
          by_block ? create_tensor(context, KD_F32, 2, blocks, scales)
                   : create_tensor(context, KD_F32, 1, &five, scales)};
      keel_tensor *q = call("QuantizeLinear", attrs, 3, in, 2);
      assert_int_equal(keel_tensor_dtype(q), dtype);
      keel_tensor_release(in[0]);
      in[0] = q;
      keel_tensor *z = call("DequantizeLinear", attrs, 2, in, 2);
      read_floats(z, y);
      for (int i = 0; i < COUNT; i++)
        if (y[i] != x[i])
          fail_msg("%s, %s: element %d is %g, and was %g", kd_dtype_name(dtype),
                   by_block ? "by block" : "by axis", i, (double)y[i],
                   (double)x[i]);
      release_all(in, 2);
    }
}

/* Blocks of f4e2m1 whose scales are powers of two. */
TEST_THAT(microscaling) {
  const int64_t dims[] = {1, 6}, blocks[] = {1, 2};
  const float x[] = {6, -12, 1, 0.5F, -0.25F, 1.5F};
  const uint8_t scales[] = {128, 126}; /* 2, 1/2 */
  const float want[] = {6, -12, 1, 0.5F, -0.25F, 1.5F};
  const keel_attr attrs[] = {KEEL_INT("axis", 1), KEEL_INT("block_size", 3),
                             KEEL_INT("output_dtype", KD_F4E2M1)};
  const keel_attr back[] = {KEEL_INT("axis", 1), KEEL_INT("block_size", 3),
                            KEEL_INT("output_dtype", KD_F32)};
  float y[6];
  keel_tensor *in[] = {create_tensor(context, KD_F32, 2, dims, x),
                       create_tensor(context, KD_F8E8M0, 2, blocks, scales)};
  keel_tensor *q = call("QuantizeLinear", attrs, 3, in, 2);
  assert_int_equal(keel_tensor_size(q), 3);
  keel_tensor_release(in[0]);
  in[0] = q;
  read_floats(call("DequantizeLinear", back, 3, in, 2), y);
  for (int i = 0; i < 6; i++)
    assert_true(y[i] == want[i]);
  release_all(in, 2);
}

TEST_THAT(numbers_become_integers_toward_zero) {
  const float x[] = {1.75F, -1.75F, 6.5F, INFINITY};
  const uint8_t want[] = {0xf1, 0x06};
  uint8_t bytes[2];
  keel_tensor *y = cast(line(KD_F32, 4, x), KD_I4, true, "up");
  expect_ok(keel_tensor_read(y, bytes, sizeof bytes));
  assert_memory_equal(bytes, want, sizeof want);
  keel_tensor_release(y);
}

/* Out of range, with a zero point. */
TEST_THAT(quantised_integers_are_saturated) {
  const int64_t count = 5;
  const float x[] = {-100, -1, 0, 1, 100}, scale = 0.5F;
  const uint8_t three = 3, want[] = {0x10, 0x53, 0x0f};
  uint8_t bytes[3];
  keel_tensor *in[] = {line(KD_F32, count, x),
                       create_tensor(context, KD_F32, 0, NULL, &scale),
                       create_tensor(context, KD_U4, 0, NULL, &three)};
  keel_tensor *y = call("QuantizeLinear", NULL, 0, in, 3);
  expect_ok(keel_tensor_read(y, bytes, sizeof bytes));
  assert_memory_equal(bytes, want, sizeof want);
  keel_tensor_release(y);
  release_all(in, 3);
}

RUN_TESTS(open_cpu, close_context)
