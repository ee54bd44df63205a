/* split_test.c - models that ranks share: the CPU and the simulated device run one each, and give
 * what one rank alone gives. */
#include <math.h>

#include "two_ranks.h"

enum { ROOM = 4096 };

/* Small integers: sums of them are exact in any order. */
static keel_value weights(keel_builder *builder, uint32_t rank,
                          const int64_t *dims, int64_t from) {
  static float data[ROOM];
  int64_t count = elements_of(rank, dims);
  assert_true(count <= ROOM);
  for (int64_t i = 0; i < count; i++)
    data[i] = (float)((from + i * 7) % 5 - 2);
  return add_constant(builder, KD_F32, rank, dims, data);
}

static keel_value op_of(keel_builder *builder, const char *name,
                        const keel_attr *attrs, uint32_t count, keel_value a,
                        keel_value b, keel_value c) {
  const keel_value inputs[] = {a, b, c};
  uint32_t n = c != KEEL_ABSENT ? 3 : b != KEEL_ABSENT ? 2 : 1;
  return keel_builder_op(builder, name, attrs, count, inputs, n);
}

/* ---- models ---------------------------------------------------------------------------- */

static keel_program *convolutions(void) {
  keel_builder *b = create_builder(context, "convolutions");
  const int64_t dims[] = {2, 3, 5, 5}, pads[] = {1, 1, 1, 1};
  const keel_attr padded = KEEL_INTS("pads", 4, pads);
  const keel_attr depth[] = {KEEL_INTS("pads", 4, pads), KEEL_INT("group", 4)};
  keel_value x = keel_builder_input(b, "x", KD_F32, 4, dims);
  keel_value y = op_of(b, "Conv", &padded, 1, x,
                       weights(b, DIMS(4, 3, 3, 3), 1), weights(b, DIMS(4), 2));
  y = op_of(b, "Conv", depth, 2, op(b, "Relu", y, KEEL_ABSENT),
            weights(b, DIMS(4, 1, 3, 3), 3), KEEL_ABSENT);
  y = op_of(b, "Conv", NULL, 0, y, weights(b, DIMS(6, 4, 1, 1), 4),
            weights(b, DIMS(6), 5));
  y = op(b, "Flatten", y, KEEL_ABSENT);
  return program_giving(b, y);
}

/* For rank 0 of two. */
static keel_program *split_in_two(const keel_program *program, uint32_t kind,
                                  keel_split_facts *facts) {
  const keel_split_params params = {
      .struct_size = sizeof params, .kind = kind, .size = 2};
  keel_program *own = NULL;
  expect_ok(keel_program_split(program, &params, &own, facts));
  return own;
}

#ifdef SIM_PLUGIN

static keel_program *products(void) {
  keel_builder *b = create_builder(context, "products");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(4, 6));
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(6, 8), 1));
  y = op(b, "Relu", op(b, "Add", y, weights(b, DIMS(8), 2)), KEEL_ABSENT);
  y = op(b, "MatMul", y, weights(b, DIMS(8, 4), 3));
  y = op(b, "Add", y, weights(b, DIMS(4), 4));
  const keel_attr turned = KEEL_INT("transB", 1);
  y = op_of(b, "Gemm", &turned, 1, y, weights(b, DIMS(10, 4), 5),
            weights(b, DIMS(10), 6));
  y = op_of(b, "Gemm", NULL, 0, y, weights(b, DIMS(10, 3), 7),
            weights(b, DIMS(3), 8));
  return program_giving(b, y);
}

static keel_value heads(keel_builder *b, keel_value x, int64_t from,
                        bool last) {
  const int64_t plain[] = {0, 2, 1, 3}, turned[] = {0, 2, 3, 1};
  const int64_t shape[] = {0, 0, 4, 2};
  const keel_attr perm = KEEL_INTS("perm", 4, last ? turned : plain);
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(8, 8), from));
  y = op(b, "Add", y, weights(b, DIMS(8), from + 1));
  y = op(b, "Reshape", y, add_ints(b, 4, shape));
  return keel_builder_op(b, "Transpose", &perm, 1, &y, 1);
}

static keel_program *attention(void) {
  keel_builder *b = create_builder(context, "attention");
  const int64_t dims[] = {2, 3, 8}, back[] = {0, 2, 1, 3}, flat[] = {0, 0, 8};
  const keel_attr perm = KEEL_INTS("perm", 4, back),
                  axis = KEEL_INT("axis", -1);
  keel_value x = keel_builder_input(b, "x", KD_F32, 3, dims);
  keel_value scores =
      op(b, "MatMul", heads(b, x, 1, false), heads(b, x, 3, true));
  keel_value shares = keel_builder_op(b, "Softmax", &axis, 1, &scores, 1);
  keel_value y = op(b, "MatMul", shares, heads(b, x, 5, false));
  y = keel_builder_op(b, "Transpose", &perm, 1, &y, 1);
  y = op(b, "Reshape", y, add_ints(b, 3, flat));
  y = op(b, "MatMul", y, weights(b, DIMS(8, 8), 7));
  y = op(b, "Add", y, x);
  const keel_attr of = KEEL_INT("axis", -1);
  y = op_of(b, "LayerNormalization", &of, 1, y, weights(b, DIMS(8), 8),
            weights(b, DIMS(8), 9));
  return program_giving(b, y);
}

/* Queries, keys and values of one product: heads of each of [2, 3, 24]. */
typedef enum cut_by { BY_SPLIT, BY_SLICES, BY_GATHERS, BY_SQUEEZES } cut_by;

static void cut_axis(keel_builder *b, keel_value y, cut_by how,
                     keel_value *out) {
  const int64_t shape[] = {2, 3, 3, 4, 2}, turned[] = {2, 0, 3, 1, 4}, zero = 0;
  const keel_attr perm = KEEL_INTS("perm", 5, turned),
                  three = KEEL_INT("num_outputs", 3);
  y = op(b, "Reshape", y, add_ints(b, 5, shape));
  y = keel_builder_op(b, "Transpose", &perm, 1, &y, 1);
  if (how == BY_SQUEEZES)
    expect_ok(keel_builder_op_n(b, "Split", &three, 1, &y, 1, out, 3));
  for (int64_t i = 0; i < 3; i++)
    out[i] = how == BY_SQUEEZES
                 ? op(b, "Squeeze", out[i], add_ints(b, 1, &zero))
                 : op(b, "Gather", y, add_constant(b, KD_I64, 0, NULL, &i));
}

static void cut_columns(keel_builder *b, keel_value y, cut_by how,
                        keel_value *out) {
  const int64_t plain[] = {0, 2, 1, 3}, shape[] = {0, 0, 4, 2};
  const keel_attr perm = KEEL_INTS("perm", 4, plain);
  const keel_attr last[] = {KEEL_INT("axis", -1), KEEL_INT("num_outputs", 3)};
  const int64_t axis = 2;
  if (how == BY_SPLIT)
    expect_ok(keel_builder_op_n(b, "Split", last, 2, &y, 1, out, 3));
  for (int64_t i = 0; i < 3; i++) {
    const int64_t from = 8 * i, to = from + 8;
    const keel_value in[] = {y, add_ints(b, 1, &from), add_ints(b, 1, &to),
                             add_ints(b, 1, &axis)};
    if (how == BY_SLICES) out[i] = keel_builder_op(b, "Slice", NULL, 0, in, 4);
    out[i] = op(b, "Reshape", out[i], add_ints(b, 4, shape));
    out[i] = keel_builder_op(b, "Transpose", &perm, 1, &out[i], 1);
  }
}

static keel_program *joined(cut_by how, bool by_gemm) {
  keel_builder *b = create_builder(context, "joined");
  const int64_t dims[] = {2, 3, 8}, back[] = {0, 2, 1, 3}, flat[] = {0, 0, 8};
  const int64_t turned[] = {0, 1, 3, 2}, rows[] = {6, 8}, whole[] = {2, 3, 24};
  const keel_attr perm = KEEL_INTS("perm", 4, back),
                  last = KEEL_INTS("perm", 4, turned),
                  across = KEEL_INT("transB", 1);
  keel_value parts[3];
  keel_value x = keel_builder_input(b, "x", KD_F32, 3, dims), y = KEEL_ABSENT;
  if (by_gemm) {
    y = op(b, "Reshape", x, add_ints(b, 2, rows));
    y = op_of(b, "Gemm", &across, 1, y, weights(b, DIMS(24, 8), 1),
              weights(b, DIMS(24), 2));
    y = op(b, "Reshape", y, add_ints(b, 3, whole));
  } else {
    y = op(b, "MatMul", x, weights(b, DIMS(8, 24), 1));
    y = op(b, "Add", weights(b, DIMS(24), 2), y);
  }
  if (how == BY_SPLIT || how == BY_SLICES)
    cut_columns(b, y, how, parts);
  else
    cut_axis(b, y, how, parts);
  parts[1] = keel_builder_op(b, "Transpose", &last, 1, &parts[1], 1);
  y = op(b, "Relu", op(b, "MatMul", parts[0], parts[1]), KEEL_ABSENT);
  y = op(b, "MatMul", y, parts[2]);
  y = keel_builder_op(b, "Transpose", &perm, 1, &y, 1);
  y = op(b, "Reshape", y, add_ints(b, 3, flat));
  return program_giving(b, op(b, "MatMul", y, weights(b, DIMS(8, 4), 7)));
}

/* A batch as large as there are ranks: a part of it is 1, which Squeeze must not take. */
static keel_program *squeezed(void) {
  keel_builder *b = create_builder(context, "squeezed");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(2, 1, 8));
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(8, 4), 1));
  y = op(b, "Squeeze", y, KEEL_ABSENT);
  y = op(b, "MatMul", y, weights(b, DIMS(4, 4), 2));
  return program_giving(b, y);
}

/* Mean and variance of the whole batch, between products. */
static keel_program *trained(void) {
  keel_builder *b = create_builder(context, "trained");
  const keel_attr training = KEEL_INT("training_mode", 1);
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(4, 6));
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(6, 4), 1));
  const keel_value in[] = {y, weights(b, DIMS(4), 1), weights(b, DIMS(4), 2),
                           weights(b, DIMS(4), 3), weights(b, DIMS(4), 4)};
  y = keel_builder_op(b, "BatchNormalization", &training, 1, in, 5);
  y = op(b, "MatMul", y, weights(b, DIMS(4, 2), 5));
  return program_giving(b, y);
}

/* Weights of bytes whose one scale is a list. */
static keel_program *unpacked(void) {
  keel_builder *b = create_builder(context, "unpacked");
  const int64_t dims[] = {4, 8}, square[] = {8, 4}, one = 1;
  static int8_t bytes[32];
  const float scale = 0.5f;
  for (int i = 0; i < 32; i++)
    bytes[i] = (int8_t)(i % 5 - 2);
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  keel_value w =
      op(b, "DequantizeLinear", add_constant(b, KD_I8, 2, square, bytes),
         add_constant(b, KD_F32, 1, &one, &scale));
  return program_giving(b, op(b, "MatMul", x, w));
}

/* Weights of bytes, or their zero points. */
static keel_value bytes(keel_builder *b, uint32_t rank, const int64_t *dims,
                        int from) {
  static int8_t data[ROOM];
  int64_t count = elements_of(rank, dims);
  assert_true(count <= ROOM);
  for (int i = 0; i < count; i++)
    data[i] = (int8_t)((from + i * 29) % 11 - 5);
  return add_constant(b, KD_I8, rank, dims, data);
}

/* Scales, of which each is another one. */
static keel_value scales(keel_builder *b, uint32_t rank, const int64_t *dims) {
  static float data[64];
  int64_t count = elements_of(rank, dims);
  assert_true(count <= 64);
  for (int i = 0; i < count; i++)
    data[i] = 0.25F + 0.125F * (float)(i % 5);
  return add_constant(b, KD_F32, rank, dims, data);
}

static keel_value to_float(keel_builder *b, keel_value x) {
  const keel_attr to = KEEL_INT("to", KD_F32);
  return keel_builder_op(b, "Cast", &to, 1, &x, 1);
}

/* The scale of a range, in which no NaN is, and not what a NaN becomes: that is the device's. */
static keel_program *range_of_nan(void) {
  keel_builder *b = create_builder(context, "range of nan");
  const int64_t dims[] = {4, 8}, eight = 8;
  const float shift[] = {0, 0, NAN, 0, 0, 0, 90, 0};
  keel_value range[3] = {KEEL_ABSENT};
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(8, 8), 1));
  y = op(b, "Add", y, add_constant(b, KD_F32, 1, &eight, shift));
  expect_ok(
      keel_builder_op_n(b, "DynamicQuantizeLinear", NULL, 0, &y, 1, range, 3));
  return program_giving(b, range[1]);
}

/* Activations whose range is found when they are there: that of all ranks' parts. odd: its second
 * range has outputs that are left out. */
static keel_program *found_ranges(bool odd) {
  keel_builder *b = create_builder(context, "found ranges");
  keel_value range[3] = {KEEL_ABSENT};
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(4, 8));
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(8, 8), 1));
  expect_ok(
      keel_builder_op_n(b, "DynamicQuantizeLinear", NULL, 0, &y, 1, range, 3));
  const keel_value first[] = {range[0], bytes(b, DIMS(8, 12), 1), range[2],
                              bytes(b, DIMS(12), 2)};
  y = to_float(b, keel_builder_op(b, "MatMulInteger", NULL, 0, first, 4));
  y = op(b, "Mul", op(b, "Mul", y, range[1]), scales(b, DIMS(12)));
  y = op(b, "Gelu", y, KEEL_ABSENT);
  range[2] = KEEL_ABSENT;
  expect_ok(keel_builder_op_n(b, "DynamicQuantizeLinear", NULL, 0, &y, 1, range,
                              odd ? 1 : 3));
  const keel_value second[] = {range[0], bytes(b, DIMS(12, 4), 3), range[2]};
  y = to_float(
      b, keel_builder_op(b, "MatMulInteger", NULL, 0, second, odd ? 2 : 3));
  if (!odd) y = op(b, "Mul", y, range[1]);
  return program_giving(b, y);
}

/* A scale that is a summand of each rank, until all have it. */
static keel_program *pooled_bytes(void) {
  keel_builder *b = create_builder(context, "pooled bytes");
  const int64_t dims[] = {2, 3, 5, 5}, single[] = {1, 1};
  const uint8_t middle = 128;
  const int8_t none = 0;
  const float quarter = 0.25F;
  keel_value one = add_constant(b, KD_F32, 0, NULL, &quarter);
  keel_value zero = add_constant(b, KD_U8, 0, NULL, &middle);
  keel_value even = add_constant(b, KD_I8, 0, NULL, &none);
  keel_value x = keel_builder_input(b, "x", KD_F32, 4, dims);
  keel_value y = op_of(b, "QuantizeLinear", NULL, 0, x, one, zero);
  const keel_value conv[] = {y,   one,  zero, bytes(b, DIMS(4, 3, 3, 3), 1),
                             one, even, one,  zero};
  y = keel_builder_op(b, "QLinearConv", NULL, 0, conv, 8);
  keel_value scale = op(b, "Reshape", op(b, "ReduceMax", x, KEEL_ABSENT),
                        add_ints(b, 2, single));
  scale = op(b, "Abs", op(b, "MatMul", scale, weights(b, DIMS(1, 4), 3)),
             KEEL_ABSENT);
  scale = op(b, "MatMul", scale, scales(b, DIMS(4, 1)));
  const keel_value pool[] = {y, scale, zero, one, zero};
  y = keel_builder_op(b, "com.microsoft::QLinearGlobalAveragePool", NULL, 0,
                      pool, 5);
  const keel_value product[] = {op(b, "Flatten", y, KEEL_ABSENT),
                                bytes(b, DIMS(4, 4), 2), scale,
                                scales(b, DIMS(4)), zero};
  y = keel_builder_op(b, "com.microsoft::MatMulIntegerToFloat", NULL, 0,
                      product, 5);
  return program_giving(b, y);
}

/* Activations whose ranges the model has. */
static keel_program *known_ranges(void) {
  keel_builder *b = create_builder(context, "known ranges");
  const uint8_t middle = 128;
  const float quarter = 0.25F, wide = 3;
  keel_value one = add_constant(b, KD_F32, 0, NULL, &quarter);
  keel_value step = add_constant(b, KD_F32, 0, NULL, &wide);
  keel_value zero = add_constant(b, KD_U8, 0, NULL, &middle);
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(4, 8));
  keel_value y = op_of(b, "QuantizeLinear", NULL, 0, x, one, zero);
  const keel_value first[] = {y,
                              one,
                              zero,
                              bytes(b, DIMS(8, 12), 1),
                              scales(b, DIMS(12)),
                              bytes(b, DIMS(12), 2),
                              step,
                              zero};
  y = keel_builder_op(b, "QLinearMatMul", NULL, 0, first, 8);
  const keel_value sum[] = {y, step, zero, y, step, zero, step, zero};
  y = keel_builder_op(b, "com.microsoft::QLinearAdd", NULL, 0, sum, 8);
  const keel_attr turned = KEEL_INT("transB", 1);
  const keel_value second[] = {y,
                               step,
                               zero,
                               bytes(b, DIMS(4, 12), 3),
                               scales(b, DIMS(4)),
                               bytes(b, DIMS(4), 4),
                               KEEL_ABSENT,
                               step,
                               zero};
  y = keel_builder_op(b, "com.microsoft::QGemm", &turned, 1, second, 9);
  return program_giving(b,
                        op_of(b, "DequantizeLinear", NULL, 0, y, step, zero));
}

static keel_program *convolved_bytes(void) {
  keel_builder *b = create_builder(context, "convolved bytes");
  const int64_t dims[] = {2, 3, 5, 5}, pads[] = {1, 1, 1, 1};
  const keel_attr padded = KEEL_INTS("pads", 4, pads);
  const keel_attr depth[] = {KEEL_INTS("pads", 4, pads), KEEL_INT("group", 4)};
  const uint8_t middle = 128;
  const int8_t none = 0;
  const float quarter = 0.25F;
  keel_value one = add_constant(b, KD_F32, 0, NULL, &quarter);
  keel_value zero = add_constant(b, KD_U8, 0, NULL, &middle);
  keel_value even = add_constant(b, KD_I8, 0, NULL, &none);
  keel_value x = keel_builder_input(b, "x", KD_F32, 4, dims);
  keel_value y = op_of(b, "QuantizeLinear", NULL, 0, x, one, zero);
  const keel_value first[] = {
      y,    one, zero, bytes(b, DIMS(4, 3, 3, 3), 1), scales(b, DIMS(4)),
      even, one, zero};
  y = keel_builder_op(b, "QLinearConv", &padded, 1, first, 8);
  const keel_value second[] = {y,   one,  zero, bytes(b, DIMS(4, 1, 3, 3), 2),
                               one, even, one,  zero};
  y = keel_builder_op(b, "QLinearConv", depth, 2, second, 8);
  const keel_value third[] = {y, bytes(b, DIMS(6, 4, 1, 1), 3), zero};
  y = keel_builder_op(b, "ConvInteger", NULL, 0, third, 3);
  return program_giving(b, to_float(b, y));
}

/* com.microsoft's Attention, which has its projections in it, or QAttention. */
static keel_program *projected(bool of_bytes) {
  keel_builder *b = create_builder(context, "projected");
  const int64_t dims[] = {4, 3, 8}, masked[] = {4, 3};
  const int32_t mask[] = {1, 1, 0, 1, 0, 1, 1, 1, 1, 0, 1, 1};
  const uint8_t middle = 128;
  const float eighth = 0.125F;
  const keel_attr count = KEEL_INT("num_heads", 4);
  keel_value one = add_constant(b, KD_F32, 0, NULL, &eighth);
  keel_value zero = add_constant(b, KD_U8, 0, NULL, &middle);
  keel_value seen = add_constant(b, KD_I32, 2, masked, mask);
  keel_value x = keel_builder_input(b, "x", KD_F32, 3, dims);
  const keel_value plain[] = {x, weights(b, DIMS(8, 24), 1),
                              weights(b, DIMS(24), 2), seen};
  const keel_value quantised[] = {
      op_of(b, "QuantizeLinear", NULL, 0, x, one, zero),
      bytes(b, DIMS(8, 24), 1),
      weights(b, DIMS(24), 2),
      one,
      scales(b, DIMS(24)),
      seen,
      zero,
      bytes(b, DIMS(24), 3)};
  keel_value y = of_bytes ? keel_builder_op(b, "com.microsoft::QAttention",
                                            &count, 1, quantised, 8)
                          : keel_builder_op(b, "com.microsoft::Attention",
                                            &count, 1, plain, 4);
  y = op(b, "MatMul", y, weights(b, DIMS(8, 4), 3));
  return program_giving(b, y);
}

/* Heads that are turned by their positions. */
static keel_program *turned(const char *name, bool microsoft) {
  keel_builder *b = create_builder(context, "turned");
  const int64_t dims[] = {4, 3, 8}, rows[] = {4, 3};
  const int64_t places[] = {0, 1, 2, 2, 1, 0, 3, 4, 4, 0, 0, 1};
  const keel_attr count = KEEL_INT("num_heads", 4);
  keel_value x = keel_builder_input(b, "x", KD_F32, 3, dims);
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(8, 8), 1));
  keel_value cosines = weights(b, DIMS(5, 1), 2),
             sines = weights(b, DIMS(5, 1), 3);
  keel_value at = add_constant(b, KD_I64, 2, rows, places);
  const keel_value first[] = {y, cosines, sines, at},
                   second[] = {y, at, cosines, sines};
  y = keel_builder_op(b, name, &count, 1, microsoft ? second : first, 4);
  y = op(b, "MatMul", y, weights(b, DIMS(8, 4), 4));
  return program_giving(b, y);
}

enum { WORDS = 4096, WIDE = 8 };

/* A table that is too large for each rank to have all of it. */
static keel_value words(keel_builder *b) {
  static float table[WORDS * WIDE];
  for (int i = 0; i < WORDS * WIDE; i++)
    table[i] = (float)(i % 11);
  return add_constant(b, KD_F32, DIMS(WORDS, WIDE), table);
}

/* Numbers of words. */
static keel_value ids_of(keel_builder *b, keel_value x, kd_dtype dtype) {
  const keel_attr to = KEEL_INT("to", dtype);
  keel_value ids = op(b, "Abs", x, KEEL_ABSENT);
  return keel_builder_op(b, "Cast", &to, 1, &ids, 1);
}

/* com.microsoft's EmbedLayerNormalization: tables and what follows in one op. */
static keel_program *embedded(void) {
  keel_builder *b = create_builder(context, "embedded");
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(4, 6));
  const keel_value in[] = {
      ids_of(b, x, KD_I32),      KEEL_ABSENT, words(b),
      weights(b, DIMS(6, 8), 1), KEEL_ABSENT, weights(b, DIMS(8), 2),
      weights(b, DIMS(8), 3)};
  keel_value y = KEEL_ABSENT;
  expect_ok(keel_builder_op_n(b, "com.microsoft::EmbedLayerNormalization", NULL,
                              0, in, 7, &y, 1));
  return program_giving(b, y);
}

/* A mask of each element of the batch, which all of them are looked up in: made again of the whole
 * input, it is no exchange. */
static keel_program *masked(void) {
  keel_builder *b = create_builder(context, "masked");
  const int64_t dims[] = {4, 6}, order[] = {3, 1, 0, 2}, four = 4;
  const int64_t axis = 1;
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  keel_value axes = add_ints(b, 1, &axis);
  keel_value sums = op(b, "ReduceSum", op(b, "Abs", x, KEEL_ABSENT), axes);
  sums = op(b, "Gather", op(b, "Flatten", sums, KEEL_ABSENT),
            add_constant(b, KD_I64, 1, &four, order));
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(6, 4), 1));
  return program_giving(b, op(b, "Add", y, sums));
}

/* A table whose columns are shared though all of a row is needed next: it is too large for each to
 * have all of it. */
static keel_program *looked_up(void) {
  keel_builder *b = create_builder(context, "looked up");
  const keel_attr last = KEEL_INT("axis", -1);
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(4, 6));
  keel_value y = op(b, "Gather", words(b), ids_of(b, x, KD_I64));
  y = keel_builder_op(b, "Softmax", &last, 1, &y, 1);
  return program_giving(b, y);
}

/* Half of the batch, which is no part of each rank's. */
static keel_program *sliced(void) {
  keel_builder *b = create_builder(context, "sliced");
  const int64_t dims[] = {4, 6}, from = 1, to = 3, axis = 0;
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(6, 4), 1));
  const keel_value in[] = {y, add_ints(b, 1, &from), add_ints(b, 1, &to),
                           add_ints(b, 1, &axis)};
  y = keel_builder_op(b, "Slice", NULL, 0, in, 4);
  return program_giving(b, y);
}

/* One place of the middle dimension: what is split behind it moves up. */
static keel_program *picked(void) {
  keel_builder *b = create_builder(context, "picked");
  const int64_t dims[] = {2, 3, 8}, place = 1;
  const keel_attr axis = KEEL_INT("axis", 1);
  keel_value x = keel_builder_input(b, "x", KD_F32, 3, dims);
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(8, 6), 1));
  const keel_value in[] = {y, add_constant(b, KD_I64, 0, NULL, &place)};
  y = keel_builder_op(b, "Gather", &axis, 1, in, 2);
  y = op(b, "MatMul", y, weights(b, DIMS(6, 4), 2));
  return program_giving(b, y);
}

/* What is between two products; with weights that are made of others. */
static keel_program *between(const char *name, bool second) {
  keel_builder *b = create_builder(context, name);
  const int64_t dims[] = {4, 8}, turned[] = {1, 0};
  const keel_attr perm = KEEL_INTS("perm", 2, turned);
  const float two = 2;
  keel_value number = add_constant(b, KD_F32, 0, NULL, &two);
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  keel_value w = weights(b, DIMS(16, 8), 1);
  keel_value y =
      op(b, "MatMul", x, keel_builder_op(b, "Transpose", &perm, 1, &w, 1));
  y = op(b, name, y, second ? number : KEEL_ABSENT);
  y = op(b, "MatMul", y, weights(b, DIMS(16, 8), 2));
  return program_giving(b, y);
}

/* Numbers that differ from run to run, less what a product by ones along the diagonal gives of
 * them: 0, where all ranks have the same. */
static keel_program *chance(const char *name) {
  keel_builder *b = create_builder(context, "chance");
  const int64_t dims[] = {4, 8}, square[] = {8, 8};
  const float half = 0.5f;
  const uint8_t yes = 1;
  static float ones[64];
  for (int i = 0; i < 8; i++)
    ones[9 * i] = 1;
  keel_value x = keel_builder_input(b, "x", KD_F32, 2, dims);
  const keel_value in[] = {x, add_constant(b, KD_F32, 0, NULL, &half),
                           add_constant(b, KD_BOOL, 0, NULL, &yes)};
  keel_value r =
      keel_builder_op(b, name, NULL, 0, in, strcmp(name, "Dropout") ? 1 : 3);
  keel_value y = op(b, "MatMul", r, add_constant(b, KD_F32, 2, square, ones));
  return program_giving(b, op(b, "Sub", y, r));
}

/* com.microsoft's MultiHeadAttention, whose mask has the keys' ends, and then their starts. */
static keel_program *ends_and_starts(void) {
  keel_builder *b = create_builder(context, "ends");
  const int64_t dims[] = {2, 3, 8}, four = 4;
  const int32_t mask[] = {3, 2, 1, 0};
  const keel_attr count = KEEL_INT("num_heads", 2);
  keel_value x = keel_builder_input(b, "x", KD_F32, 3, dims);
  const keel_value in[] = {x, x, x, KEEL_ABSENT,
                           add_constant(b, KD_I32, 1, &four, mask)};
  return program_giving(
      b, keel_builder_op(b, "com.microsoft::MultiHeadAttention", &count, 1, in,
                         5));
}

/* ---- runs ------------------------------------------------------------------------------- */

/* Both ranks have what one alone gives; the program goes. */
static void expect_same(keel_program *program, uint32_t kind, float within,
                        uint32_t exchanges, uint64_t part) {
  static float want[ROOM], got[ROOM];
  keel_tensor *x = input_of(program), *y = NULL, *out[2] = {NULL};
  keel_split_facts facts[2];
  keel_plan *plan = create_plan(program, NULL);
  expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
  uint64_t size = keel_tensor_size(y);
  expect_ok(keel_tensor_read(y, want, size));
  run_split(program, kind, x, out, facts);
  for (uint32_t r = 0; r < 2; r++) {
    assert_int_equal(keel_tensor_size(out[r]), size);
    expect_ok(keel_tensor_read(out[r], got, size));
    for (uint64_t i = 0; i < size / sizeof *got; i++)
      if (!(fabsf(got[i] - want[i]) <= within * fmaxf(1, fabsf(want[i]))))
        fail_msg("rank %u has %g at %llu, not %g", (unsigned)r, (double)got[i],
                 (unsigned long long)i, (double)want[i]);
  }
  assert_int_equal(facts[1].exchanges, exchanges);
  if (part)
    assert_true(facts[1].weights_here * part <= facts[1].weights + 256 * part);
  release_all(out, 2);
  RELEASE(x, y, plan, program);
}

TEST_THAT(products_are_shared) {
  expect_same(products(), KEEL_SPLIT_TENSOR, 0, 2, 2);
  expect_same(products(), KEEL_SPLIT_DATA, 0, 1, 0);
}

TEST_THAT(channels_are_shared) {
  expect_same(convolutions(), KEEL_SPLIT_TENSOR, 0, 1, 2);
  expect_same(convolutions(), KEEL_SPLIT_DATA, 0, 1, 0);
}

TEST_THAT(heads_are_shared) {
  expect_same(attention(), KEEL_SPLIT_TENSOR, 1e-5F, 1, 2);
  expect_same(attention(), KEEL_SPLIT_DATA, 1e-5F, 1, 0);
  for (int of_bytes = 0; of_bytes < 2; of_bytes++) {
    expect_same(projected(of_bytes), KEEL_SPLIT_TENSOR, 1e-5F, 1, 2);
    expect_same(projected(of_bytes), KEEL_SPLIT_DATA, 1e-5F, 1, 0);
  }
  expect_same(turned("RotaryEmbedding", false), KEEL_SPLIT_TENSOR, 0, 1, 2);
  expect_same(turned("RotaryEmbedding", false), KEEL_SPLIT_DATA, 0, 1, 0);
  expect_same(turned("com.microsoft::RotaryEmbedding", true), KEEL_SPLIT_TENSOR,
              0, 1, 2);
  expect_same(turned("com.microsoft::RotaryEmbedding", true), KEEL_SPLIT_DATA,
              0, 1, 0);
}

TEST_THAT(what_is_light_is_made_again) {
  expect_same(masked(), KEEL_SPLIT_DATA, 0, 1, 0);
  expect_same(looked_up(), KEEL_SPLIT_TENSOR, 1e-6F, 1, 2);
  expect_same(embedded(), KEEL_SPLIT_TENSOR, 1e-5F, 1, 2);
  expect_same(picked(), KEEL_SPLIT_TENSOR, 0, 1, 2);
  expect_same(picked(), KEEL_SPLIT_DATA, 0, 1, 0);
}

TEST_THAT(what_a_part_lacks_is_kept) {
  expect_same(sliced(), KEEL_SPLIT_DATA, 0, 1, 0);
  expect_same(squeezed(), KEEL_SPLIT_DATA, 0, 1, 0);
  expect_same(trained(), KEEL_SPLIT_DATA, 1e-5F, 1, 0);
  expect_same(unpacked(), KEEL_SPLIT_TENSOR, 0, 1, 0);
}

/* Each rank has its heads of all three, as where there are three products. */
TEST_THAT(one_product_may_give_three) {
  for (int how = BY_SPLIT; how <= BY_SQUEEZES; how++)
    for (int by_gemm = 0; by_gemm < 2; by_gemm++) {
      expect_same(joined((cut_by)how, by_gemm), KEEL_SPLIT_TENSOR, 0, 1, 2);
      expect_same(joined((cut_by)how, by_gemm), KEEL_SPLIT_DATA, 0, 1, 0);
    }
}

/* Of three pieces there is no sixth: what Gather refuses stays. */
TEST_THAT(no_piece_is_made_of_nothing) {
  keel_builder *b = create_builder(context, "sixth");
  const int64_t dims[] = {2, 3, 8}, shape[] = {2, 3, 3, 4, 2};
  const int64_t turned[] = {2, 0, 3, 1, 4}, places[] = {0, 5};
  const keel_attr perm = KEEL_INTS("perm", 5, turned);
  keel_value x = keel_builder_input(b, "x", KD_F32, 3, dims);
  keel_value y = op(b, "MatMul", x, weights(b, DIMS(8, 24), 1));
  y = op(b, "Reshape", y, add_ints(b, 5, shape));
  y = keel_builder_op(b, "Transpose", &perm, 1, &y, 1);
  for (int i = 0; i < 2; i++) {
    keel_value at = add_constant(b, KD_I64, 0, NULL, &places[i]);
    expect_ok(keel_builder_output(b, i ? "z" : "y", op(b, "Gather", y, at)));
  }
  keel_split_facts facts;
  keel_program *program = finish_program(b);
  keel_program *own = split_in_two(program, KEEL_SPLIT_TENSOR, &facts);
  assert_int_equal(facts.exchanges, 1); /* of all pieces, as they are */
  RELEASE(own, program);
}

/* The same to the last bit: sums of whole numbers are exact in any order. */
TEST_THAT(whole_numbers_are_shared) {
  for (int odd = 0; odd < 2; odd++) {
    expect_same(found_ranges(odd), KEEL_SPLIT_TENSOR, 0, 3, 2);
    expect_same(found_ranges(odd), KEEL_SPLIT_DATA, 0, 3, 0);
  }
  expect_same(range_of_nan(), KEEL_SPLIT_TENSOR, 0, 1, 0);
  expect_same(range_of_nan(), KEEL_SPLIT_DATA, 0, 1, 0);
  expect_same(pooled_bytes(), KEEL_SPLIT_TENSOR, 0, 3, 0);
  expect_same(known_ranges(), KEEL_SPLIT_TENSOR, 0, 2, 2);
  expect_same(known_ranges(), KEEL_SPLIT_DATA, 0, 1, 0);
  expect_same(convolved_bytes(), KEEL_SPLIT_TENSOR, 0, 1, 2);
  expect_same(convolved_bytes(), KEEL_SPLIT_DATA, 0, 1, 0);
}

TEST_THAT(elementwise_ops_stay_in_parts) {
  expect_same(between("Pow", true), KEEL_SPLIT_TENSOR, 0, 1, 2);
  expect_same(between("Gelu", false), KEEL_SPLIT_TENSOR, 1e-5F, 1, 2);
  expect_same(between("Dropout", false), KEEL_SPLIT_TENSOR, 0, 1, 2);
}

TEST_THAT(all_ranks_have_the_same_random_numbers) {
  static const char *const names[] = {"RandomUniformLike", "RandomNormalLike",
                                      "Dropout"};
  for (int i = 0; i < 3; i++) {
    /* of rank 0's numbers, and of the result */
    expect_same(chance(names[i]), KEEL_SPLIT_TENSOR, 0, 2, 0);
    expect_same(chance(names[i]), KEEL_SPLIT_DATA, 0, 1, 0);
  }
}

TEST_THAT(lists_of_other_lengths_stay_whole) {
  expect_same(ends_and_starts(), KEEL_SPLIT_DATA, 1e-6F, 0, 0);
}

#endif

/* A variable takes what comes of an exchange, and is read before. */
TEST_THAT(a_state_may_need_exchanges) {
  static const uint32_t kinds[] = {KEEL_SPLIT_TENSOR, KEEL_SPLIT_DATA};
  (void)state;
  for (int i = 0; i < 2; i++) {
    keel_builder *b = create_builder(context, "state");
    keel_value v = keel_builder_resource(b, "v");
    keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(4, 8));
    keel_value y = op(b, "MatMul", x, weights(b, DIMS(8, 8), 1));
    op(b, "keel::VariableAssign", v, y);
    keel_program *program = program_giving(b, y);
    RELEASE(split_in_two(program, kinds[i], NULL), program);
  }
}

/* A number before the batch is for all ranks. */
TEST_THAT(a_number_is_no_batch) {
  keel_builder *b = create_builder(context, "number");
  keel_value k = keel_builder_input(b, "k", KD_F32, 0, NULL);
  keel_value x = keel_builder_input(b, "x", KD_F32, DIMS(4, 8));
  keel_program *program = program_giving(b, op(b, "Mul", x, k));
  RELEASE(split_in_two(program, KEEL_SPLIT_DATA, NULL), program);
}

/* ---- what is refused ----------------------------------------------------------------------- */

TEST_THAT(what_cannot_be_shared_is_refused) {
  keel_program *program = convolutions(), *own = NULL;
  keel_split_params params = {.struct_size = sizeof params,
                              .kind = KEEL_SPLIT_DATA,
                              .rank = 2,
                              .size = 2};
  assert_int_equal(keel_program_split(program, &params, &own, NULL),
                   KD_INVALID_ARGUMENT);
  params.rank = 0;
  params.size = 4;
  expect_fails(keel_program_split(program, &params, &own, NULL),
               KD_INVALID_ARGUMENT,
               "a batch of 2, which 4 ranks can't share evenly");
  params.kind = 7;
  assert_int_equal(keel_program_split(program, &params, &own, NULL),
                   KD_INVALID_ARGUMENT);
  params.kind = KEEL_SPLIT_TENSOR;
  params.struct_size = 3;
  assert_int_equal(keel_program_split(program, &params, &own, NULL),
                   KD_INVALID_ARGUMENT);
  /* a split program has its exchanges */
  params.size = 2;
  params.struct_size = offsetof(keel_split_params, parts); /* an older one */
  expect_ok(keel_program_split(program, &params, &own, NULL));
  params.struct_size = sizeof params;
  keel_program *again = NULL;
  assert_int_equal(keel_program_split(own, &params, &again, NULL),
                   KD_FAILED_PRECONDITION);
  RELEASE(own, program);
}

RUN_TESTS(open_cpu, close_context)
