/* microsoft_heads_test.c - com.microsoft's attention by heads, tables in few bits and mixtures of
 * experts: what they give beside their definitions, in double, and what is refused.
 * microsoft_ops.py compares them with ONNX Runtime. */
#include <math.h>
#include <stdlib.h>

#define WORKERS 2
#include "with_cpu.h"

enum { INPUTS = 16, ROOM = 4096 };

static uint32_t state_of_random = 7;

static float uniform(void) {
  state_of_random = state_of_random * 1664525u + 1013904223u;
  return (float)(state_of_random >> 8) * 0x1p-24f - 0.5f;
}

/* ---- calls whose inputs are written as text ------------------------------------------------- */

/* "MoE k=5 activation_type=relu": an op, integers and texts;
 * "f32[2,5] - i32[3]": numbers from -0.5 to 0.5, zeros; -: absent. */
typedef struct call {
  const char *op, *inputs, *words; /* of the message */
} call;

static kd_dtype dtype_of(const char *word) {
  static const struct {
    const char *name;
    kd_dtype dtype;
  } names[] = {{"f32", KD_F32}, {"i32", KD_I32}, {"i64", KD_I64},
               {"u8", KD_U8},   {"i8", KD_I8},   {"f16", KD_F16}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strncmp(word, names[i].name, strlen(names[i].name)))
      return names[i].dtype;
  fail_msg("%s is no type", word);
  return KD_NONE;
}

static keel_tensor *input_of(const char *word) {
  static float numbers[ROOM];
  int64_t dims[KD_MAX_RANK];
  uint32_t rank = 0;
  kd_dtype dtype = dtype_of(word);
  for (const char *at = strchr(word, '[');
       at && at[1] && *at != ']' && at[1] != ']';) {
    char *end;
    dims[rank++] = strtoll(at + 1, &end, 10);
    at = end;
  }
  for (int i = 0; i < ROOM; i++)
    numbers[i] = dtype == KD_F32 ? uniform() : 0;
  assert_true(elements_of(rank, dims) <= ROOM);
  return create_tensor(context, dtype, rank, dims, numbers);
}

static uint32_t read_inputs(const char *text, keel_tensor **in) {
  uint32_t count = 0;
  char copy[400];
  snprintf(copy, sizeof copy, "%s", text);
  for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
    in[count++] = *word == '-' ? NULL : input_of(word);
  return count;
}

/* Cuts the text up, which the attributes keep; its first word is the op. */
static uint32_t read_attrs(char *text, keel_attr *attrs) {
  uint32_t count = 0;
  strtok(text, " ");
  for (char *name; (name = strtok(NULL, " ")); count++) {
    char *value = strchr(name, '='), *end = NULL;
    *value++ = 0;
    const int64_t number = strtoll(value, &end, 10);
    attrs[count] = *end ? (keel_attr)KEEL_STRING(name, value)
                        : (keel_attr)KEEL_INT(name, number);
  }
  return count;
}

/* A program of the one op, with dimensions that are known before the run or not. */
static keel_status run_op(const char *name, const keel_attr *attrs,
                          uint32_t attr_count, keel_tensor *const *in,
                          uint32_t count, bool open, keel_tensor **out,
                          uint32_t outputs) {
  static const int64_t any[KD_MAX_RANK] = {-1, -1, -1, -1, -1, -1, -1, -1};
  keel_tensor *given[INPUTS];
  keel_value values[INPUTS], made[4];
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  char op[64], text[16];
  uint32_t some = 0;
  keel_builder *builder = create_builder(context, "one");
  for (uint32_t i = 0; i < count; i++) {
    values[i] = KEEL_ABSENT;
    if (!in[i]) continue;
    snprintf(text, sizeof text, "x%u", (unsigned)i);
    values[i] = keel_builder_input(builder, text, keel_tensor_dtype(in[i]),
                                   keel_tensor_rank(in[i]),
                                   open ? any : keel_tensor_dims(in[i]));
    given[some++] = in[i];
  }
  snprintf(op, sizeof op, "com.microsoft::%s", name);
  keel_status status = keel_builder_op_n(builder, op, attrs, attr_count, values,
                                         count, made, outputs);
  for (uint32_t i = 0; i < outputs && status == KD_OK; i++) {
    snprintf(text, sizeof text, "y%u", (unsigned)i);
    status = keel_builder_output(builder, text, made[i]);
  }
  if (status == KD_OK) status = keel_builder_finish(builder, &program);
  keel_builder_destroy(builder);
  if (status == KD_OK) status = keel_plan_create(program, NULL, &plan);
  if (status == KD_OK) status = keel_plan_run(plan, given, some, out, outputs);
  if (status == KD_OK) status = keel_tensor_wait(out[0]);
  RELEASE(plan, program);
  return status;
}

static keel_status run_call(const call *c, bool open, keel_tensor **out) {
  keel_tensor *in[INPUTS];
  keel_attr attrs[8];
  char op[100];
  uint32_t count = read_inputs(c->inputs, in);
  snprintf(op, sizeof op, "%s", c->op);
  uint32_t attr_count = read_attrs(op, attrs);
  keel_status status = run_op(op, attrs, attr_count, in, count, open, out, 1);
  release_all(in, count);
  return status;
}

/* ---- what is refused ------------------------------------------------------------------------ */

#define HEADS  "MultiHeadAttention num_heads=4"
#define PLAIN  "Attention num_heads=4"
#define BYTES  "QAttention num_heads=4"
#define EMBED  "EmbedLayerNormalization"
#define GATHER "GatherBlockQuantized block_size=16"
#define QKV    "f32[2,5,32] f32[2,5,32] f32[2,5,32]"
#define LAYERS "f32[3,8] f32[3,4] f32[4,6,8] - f32[4,8,6]"
#define PACKED "f32[3,32] f32[3,4] u8[4,16,16] f32[4,16] - u8[4,32,8] f32[4,32]"

static const call wrong[] = {
    {"MultiHeadAttention num_heads=0", QKV, "num_heads must be 1 or more"},
    {"MultiHeadAttention num_heads=5", QKV,
     "query must be [batch, rows, 5 * size]"},
    {HEADS, "f32[2,5,32]", "query must be"},
    {HEADS, "f32[2,5,4,2,8]", "query must be"},
    {HEADS, "f32[2,5,32] f32[2,5,24] f32[2,5,32]", "key and value must be"},
    {HEADS, "f32[2,5,32] f32[2,6,32] f32[2,5,32]", "key and value must be"},
    {HEADS, "f32[2,5,32] f32[2,5,32]", "key and value must be"},
    {HEADS, "f32[2,5,32] f32[2,4,6,8] f32[2,4,5,8]", "key and value must be"},
    {HEADS, QKV " f32[95]", "bias must be [96]"},
    {HEADS, QKV " - i32[3]", "the mask must be [2]"},
    {HEADS, QKV " - i32[2,4]", "the mask must be [2]"},
    {HEADS, QKV " - - f32[1,4,5,6]",
     "attention_bias must be [2 or 1,4 or 1,5,5]"},
    {HEADS, QKV " - - - f32[2,4,3,8]", "past_key and past_value must be"},
    {HEADS, QKV " - - - - f32[2,4,3,8]", "past_key and past_value must be"},
    {HEADS, QKV " - - - f32[2,4,3,8] f32[2,4,2,8]",
     "past_key and past_value must be"},
    {HEADS, QKV " - - - f32[2,4,3,8] f32[2,4,3,8] i32[1]",
     "of a cache that beams share"},
    {PLAIN, "f32[2,5,20] f32[21,96]", "input must be"},
    {PLAIN, "f32[2,5,20] f32[20,95]", "the 95 columns"},
    {PLAIN, "f32[2,5,20] f32[20,96] f32[90]", "the 96 columns"},
    {PLAIN, "f32[2,5,20] f32[20,96] - - f32[2,2,4,3,7]",
     "past must be [2,2,4,keys,8]"},
    {PLAIN, "f32[2,5,20] f32[20,96] - i32[2,1,9,9]",
     "a mask of four dimensions"},
    {PLAIN " do_rotary=1", "f32[2,5,20] f32[20,96]", "do_rotary other than 0"},
    {BYTES, "u8[2,5,20] i8[20,96] f32[96] f32[2] f32[]",
     "scales and zero points must be one number"},
    {BYTES, "u8[2,5,20] i8[20,96] f32[96] f32[] f32[95]",
     "scales and zero points must be one number"},
    {EMBED, "i32[2,3] i32[2,3] f32[9,4] f32[9,4] - f32[4] f32[4]",
     "segment_ids, which need a table"},
    {EMBED, "i32[2,3] - f32[9,4] f32[9,5] - f32[4] f32[4]",
     "input_ids must be [batch, rows]"},
    {EMBED, "i32[2,3] - f32[9,4] f32[9,4] - f32[4] f32[4] i32[2,4]",
     "must be [2,3]"},
    {"GatherBlockQuantized block_size=24", "u8[4,16] i64[2] f32[4,2]",
     "block_size must be a power of two"},
    {GATHER, "u8[4,16] i64[2] f32[4,3]", "scales and zero_points must have"},
    {GATHER, "u8[4,16] i64[2] f32[4,2] u8[4,2]",
     "scales and zero_points must have"},
    {GATHER " bits=3", "u8[4,16] i64[2] f32[4,2]", "bits must be 2, 4 or 8"},
    {GATHER " quantize_axis=0", "u8[16,4] i64[2] f32[1,8]",
     "blocks of u8 are supported"},
    {GATHER, "i32[4,16] i64[2] f32[4,1]", "data can be u8, i4, u4"},
    {"MoE", "f32[3,8] f32[2,4] f32[4,6,8] - f32[4,8,6]",
     "router_probs must be [3, experts]"},
    {"MoE k=5", LAYERS, "of which k, here 5"},
    {"MoE", "f32[3,8] f32[3,4] f32[4,6,7] - f32[4,8,6]",
     "fc1_experts_weights must be [4,6,8]"},
    {"MoE", "f32[3,8] f32[3,4] f32[4,6,8] f32[4,7] f32[4,8,6]",
     "fc1_experts_bias must be [4,6]"},
    {"MoE activation_type=swiglu", LAYERS, "swiglu needs FC3"},
    {"MoE activation_type=swiglu swiglu_fusion=1", LAYERS,
     "fc1_experts_weights must be [4,12,8]"},
    {"MoE activation_type=geglu", LAYERS, "activation_type can be"},
    {"QMoE", "f32[3,32] f32[3,4] u8[4,16,16] f32[4,16] - u8[4,32,7] f32[4,32]",
     "fc1_experts_weights must be [4,14,16]"},
    {"QMoE", "f32[3,32] f32[3,4] u8[4,16,16] f32[4,16] - u8[4,32,8] f32[4,31]",
     "fc2_scales must be [4,32]"},
    {"QMoE", "f32[3,32] f32[3,4] u8[4,16,16] - - u8[4,32,8] f32[4,32]",
     "each layer of weights needs its scales"},
    {"QMoE block_size=32", PACKED, "fc1_scales must be [4,16,1]"},
    {"QMoE block_size=64", PACKED, "not a multiple of block_size"},
    {"QMoE expert_weight_bits=3", PACKED, "weights of 3 bits"},
    {"QMoE expert_weight_bits=-4", PACKED, "weights of -4 bits"},
    {"QMoE quant_type=nvfp4", PACKED, "quant_type can be int"},
};

TEST_THAT(what_does_not_fit_is_refused) {
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    keel_tensor *out[1] = {NULL};
    if (run_call(&wrong[i], false, out) == KD_OK)
      fail_msg("%s(%s) was not refused", wrong[i].op, wrong[i].inputs);
    expect_message(wrong[i].words);
    /* with open dimensions something else may notice it, or nothing */
    if (run_call(&wrong[i], true, out) == KD_OK) keel_tensor_release(out[0]);
  }
}

/* ---- MultiHeadAttention ---------------------------------------------------------------------- */

enum {
  BATCH = 2,
  ROWS = 3,
  BEFORE = 2,
  COUNT = 2,
  SIZE = 4,
  WIDE = COUNT * SIZE,
  KEYS = BEFORE + ROWS
};

static float q[BATCH * ROWS * WIDE], k[BATCH * ROWS * WIDE],
    v[BATCH * ROWS * WIDE], bias[3 * WIDE],
    past_k[BATCH * COUNT * BEFORE * SIZE],
    past_v[BATCH * COUNT * BEFORE * SIZE];
static const int32_t mask[BATCH * KEYS] = {1, 1, 0, 1, 1, 0, 1, 1, 1, 0};

static void fill(float *list, size_t count) {
  for (size_t i = 0; i < count; i++)
    list[i] = uniform();
}

static double kept(const float *past, const float *fresh, const float *more,
                   int b, int head, int at, int i) {
  int row = at - BEFORE;
  return row < 0 ? (double)past[((b * COUNT + head) * BEFORE + at) * SIZE + i]
                 : (double)fresh[(b * ROWS + row) * WIDE + head * SIZE + i] +
                       (double)more[head * SIZE + i];
}

static double attended(int b, int row, int head, int i) {
  double sum = 0, y = 0;
  for (int at = 0; at <= BEFORE + row; at++) {
    double score = 0;
    for (int j = 0; j < SIZE; j++)
      score += ((double)q[(b * ROWS + row) * WIDE + head * SIZE + j] +
                (double)bias[head * SIZE + j]) *
               kept(past_k, k, bias + WIDE, b, head, at, j);
    double weight = exp(score * 0.7) * (mask[b * KEYS + at] ? 1 : exp(-3));
    sum += weight;
    y += weight * kept(past_v, v, bias + 2 * (ptrdiff_t)WIDE, b, head, at, i);
  }
  return y / sum;
}

static void expect_heads(bool open) {
  const int64_t x[] = {BATCH, ROWS, WIDE}, wide = 3 * WIDE;
  const int64_t past[] = {BATCH, COUNT, BEFORE, SIZE};
  const keel_attr attrs[] = {
      KEEL_INT("num_heads", COUNT), KEEL_FLOAT("scale", 0.7f),
      KEEL_FLOAT("mask_filter_value", -3), KEEL_INT("unidirectional", 1)};
  float y[BATCH * ROWS * WIDE];
  fill(q, sizeof q / sizeof *q);
  fill(k, sizeof k / sizeof *k);
  fill(v, sizeof v / sizeof *v);
  fill(bias, sizeof bias / sizeof *bias);
  fill(past_k, sizeof past_k / sizeof *past_k);
  fill(past_v, sizeof past_v / sizeof *past_v);
  keel_tensor *in[] = {create_tensor(context, KD_F32, 3, x, q),
                       create_tensor(context, KD_F32, 3, x, k),
                       create_tensor(context, KD_F32, 3, x, v),
                       create_tensor(context, KD_F32, 1, &wide, bias),
                       create_tensor(context, KD_I32, DIMS(BATCH, KEYS), mask),
                       NULL,
                       create_tensor(context, KD_F32, 4, past, past_k),
                       create_tensor(context, KD_F32, 4, past, past_v)};
  keel_tensor *out[3];
  expect_ok(run_op("MultiHeadAttention", attrs, 4, in, 8, open, out, 3));
  expect_ok(keel_tensor_read(out[0], y, sizeof y));
  assert_int_equal(keel_tensor_dims(out[2])[2], KEYS);
  for (int b = 0; b < BATCH; b++)
    for (int row = 0; row < ROWS; row++)
      for (int i = 0; i < WIDE; i++)
        assert_float_equal(y[(b * ROWS + row) * WIDE + i],
                           (float)attended(b, row, i / SIZE, i % SIZE), 1e-5f);
  release_all(out, 3);
  release_all(in, 8);
}

TEST_THAT(heads_attend_as_defined) {
  expect_heads(false);
  expect_heads(true);
}

/* ---- mixtures of experts --------------------------------------------------------------------- */

/* Four experts that give 1, 2, 3 and 4 times their rows, of which two are taken: FC1 is the unit,
 * FC2 so many times it. */
TEST_THAT(experts_get_their_rows) {
  enum { EXPERTS = 4, LONG = 16 };
  static uint8_t first[EXPERTS * LONG * LONG], second[EXPERTS * LONG * LONG];
  static float ones[EXPERTS * LONG], x[3 * LONG];
  static const float router[3 * EXPERTS] = {0, 5, 1,  5, 9, 1,
                                            1, 9, -2, 0, 0, -2};
  static const float want[] = {3, 2.5f,
                               2.5f}; /* of experts 1 and 3; 0 and 3; 1 and 2 */
  const int64_t rows[] = {3, LONG}, wanted[] = {3, EXPERTS};
  const int64_t w[] = {EXPERTS, LONG, LONG}, s[] = {EXPERTS, LONG};
  const keel_attr attrs[] = {KEEL_INT("k", 2),
                             KEEL_INT("expert_weight_bits", 8),
                             KEEL_STRING("activation_type", "identity")};
  memset(first, 128, sizeof first);
  memset(second, 128, sizeof second);
  fill(x, 3 * (size_t)LONG);
  for (int i = 0; i < EXPERTS * LONG; i++) {
    ones[i] = 1;
    first[i * LONG + i % LONG] = 129;
    second[i * LONG + i % LONG] = (uint8_t)(129 + i / LONG);
  }
  keel_tensor *in[] = {create_tensor(context, KD_F32, 2, rows, x),
                       create_tensor(context, KD_F32, 2, wanted, router),
                       create_tensor(context, KD_U8, 3, w, first),
                       create_tensor(context, KD_F32, 2, s, ones),
                       NULL,
                       create_tensor(context, KD_U8, 3, w, second),
                       create_tensor(context, KD_F32, 2, s, ones)};
  keel_tensor *y = NULL;
  float got[3 * LONG];
  expect_ok(run_op("QMoE", attrs, 3, in, 7, false, &y, 1));
  expect_ok(keel_tensor_read(y, got, sizeof got));
  for (int i = 0; i < 3 * LONG; i++)
    assert_float_equal(got[i], want[i / LONG] * x[i], 1e-5f);
  keel_tensor_release(y);
  release_all(in, 7);
}

RUN_TESTS(open_cpu, close_context)
