/* rules.c - rules of ops that compute along other axes than the sharded one. */
#include "ranks/split/split.h"

static keel_status rules_unary(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  if (!keel_split_is_part(s, 0, &axis)) return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++)
    KEEL_TRY(keel_split_take_whole(s, i)); /* Clip's bounds */
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

/* As it is when nothing learns. */
static keel_status dropout(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  KEEL_TRY(rules_unary(s, out_done));
  if (!*out_done || !keel_split_is_part(s, 0, &axis)) return KD_OK;
  return keel_split_give(s, 1, KEEL_SHARE_PART, axis);
}

/* QuantizeLinear and DequantizeLinear: scales are one number, or are along an axis of their own. */
static keel_status quantise(keel_splitter *s, bool *out_done) {
  const keel_type *type = keel_split_type(s, 0), *scale = keel_split_type(s, 1);
  uint32_t axis = 0;
  if (!type || !scale || !keel_split_is_part(s, 0, &axis) || scale->rank > 1 ||
      keel_attr_int(s->node.op, "block_size", 0))
    return KD_OK;
  int64_t along = keel_attr_int(s->node.op, "axis", 1);
  if (along < 0) along += type->rank;
  bool parted = scale->rank && scale->dims[0] > 1 && along == axis;
  for (uint32_t i = 1; i < s->node.input_count; i++)
    KEEL_TRY(parted ? keel_split_take_part(s, i, 0)
                    : keel_split_take_whole(s, i));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

/* ---- elementwise, broadcast ------------------------------------------------------------------ */

/* Whether an input, whose axes are the result's last ones, is as long along an axis of it. */
static bool reaches(const keel_type *type, uint32_t rank, uint32_t axis,
                    uint32_t *out_axis) {
  if (type->rank < rank && axis < rank - type->rank) return false;
  *out_axis = axis - (rank - type->rank);
  return type->dims[*out_axis] != 1;
}

static bool all_sums(const keel_splitter *s) {
  for (uint32_t i = 0; i < s->node.input_count; i++)
    if (!keel_split_is_sum(s, i)) return false;
  return s->node.input_count > 0;
}

/* The axis of the result along which an input is split. */
static bool find_axis(const keel_splitter *s, const keel_type *out,
                      uint32_t *out_axis) {
  for (uint32_t i = 0; i < s->node.input_count; i++) {
    const keel_type *type = keel_split_type(s, i);
    uint32_t axis = 0;
    if (!type || !keel_split_is_part(s, i, &axis)) continue;
    *out_axis = axis + (out->rank - type->rank);
    return keel_split_divides(s, out->dims[*out_axis]);
  }
  return false;
}

static keel_status rules_broadcast(keel_splitter *s, bool *out_done) {
  const keel_type *out = keel_split_out_type(s, 0);
  uint32_t axis = 0, own = 0;
  if (!strcmp(s->node.op->schema->name, "Add") && all_sums(s)) {
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_SUM, 0);
  }
  if (!out || !find_axis(s, out, &axis)) return KD_OK;
  for (uint32_t i = 0; i < s->node.input_count; i++)
    if (!keel_split_type(s, i)) return KD_OK;
  for (uint32_t i = 0; i < s->node.input_count; i++)
    KEEL_TRY(reaches(keel_split_type(s, i), out->rank, axis, &own)
                 ? keel_split_take_part(s, i, own)
                 : keel_split_take_whole(s, i));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

/* ---- along one axis, or all behind it ---------------------------------------------------------- */

static int64_t rules_axis_of(const keel_splitter *s, int64_t fallback) {
  const keel_type *type = keel_split_type(s, 0);
  int64_t axis = keel_attr_int(s->node.op, "axis", fallback);
  return axis < 0 && type ? axis + type->rank : axis;
}

/* Softmax and its kin: all elements along the axis are the rank's. */
static keel_status rules_along(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  if (!keel_split_type(s, 0) || !keel_split_is_part(s, 0, &axis) ||
      rules_axis_of(s, -1) == axis)
    return KD_OK;
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

/* LayerNormalization: the axis and all behind it are the rank's. */
static keel_status behind(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  if (!keel_split_type(s, 0) || !keel_split_is_part(s, 0, &axis) ||
      rules_axis_of(s, -1) <= axis || s->node.output_count > 1)
    return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++)
    KEEL_TRY(keel_split_take_whole(s, i));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

/* Concat of shards along another axis; of a cache, the new rows are the shard. */
static keel_status concat(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0, part = 0;
  while (part < s->node.input_count && !keel_split_is_part(s, part, &axis))
    part++;
  if (!keel_split_out_type(s, 0) || part == s->node.input_count ||
      rules_axis_of(s, 0) == axis)
    return KD_OK;
  for (uint32_t i = 0; i < s->node.input_count; i++)
    if (!keel_split_type(s, i)) return KD_OK;
  for (uint32_t i = 0; i < s->node.input_count; i++)
    KEEL_TRY(keel_split_take_part(s, i, axis));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

/* Split along another axis. */
static keel_status rules_split(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  if (!keel_split_type(s, 0) || !keel_split_is_part(s, 0, &axis) ||
      rules_axis_of(s, 0) == axis)
    return KD_OK;
  KEEL_TRY(keel_split_take_whole(s, 1));
  for (uint32_t i = 0; i < s->node.output_count; i++)
    KEEL_TRY(keel_split_give(s, i, KEEL_SHARE_PART, axis));
  *out_done = true;
  return KD_OK;
}

/* ---- channels ---------------------------------------------------------------------------------- */

/* Pools: batch and channels stay apart. */
static keel_status pool(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  if (!keel_split_is_part(s, 0, &axis) || axis > 1 ||
      s->node.output_count > 1 || keel_attr_int(s->node.op, "channels_last", 0))
    return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++)
    KEEL_TRY(keel_split_take_whole(s, i)); /* scales and zero points */
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

/* BatchNormalization: numbers of each channel. */
static keel_status batch_norm(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  if (!keel_split_is_part(s, 0, &axis) || axis > 1 || s->node.output_count > 1)
    return KD_OK;
  /* in training, mean and variance are of the whole batch */
  if (!axis && keel_attr_int(s->node.op, "training_mode", 0)) return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++)
    if (!keel_split_type(s, i)) return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++)
    KEEL_TRY(axis ? keel_split_take_part(s, i, 0)
                  : keel_split_take_whole(s, i));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

/* LSTM, GRU and RNN: items of the batch. Of the sequence, lengths, and the states; of the outputs. */
static keel_status recurrent(keel_splitter *s, bool *out_done) {
  const bool first = keel_attr_int(s->node.op, "layout", 0) != 0;
  const uint32_t sequence = first ? 0 : 1, state = first ? 0 : 1;
  enum { X, LENGTHS = 4, H, C };
  uint32_t axis = 0;
  if (!keel_split_is_part(s, X, &axis) || axis != sequence) return KD_OK;
  for (uint32_t i = 1; i < s->node.input_count; i++)
    KEEL_TRY(i == LENGTHS       ? keel_split_take_part(s, i, 0)
             : i == H || i == C ? keel_split_take_part(s, i, state)
                                : keel_split_take_whole(s, i));
  *out_done = true;
  for (uint32_t i = 0; i < s->node.output_count; i++)
    KEEL_TRY(keel_split_give(s, i, KEEL_SHARE_PART,
                             i        ? state
                             : !first ? 2
                                      : 0));
  return KD_OK;
}

/* ---- reductions and tables ----------------------------------------------------------------------- */

/* Which axes a Reduce reduces, as bits; false: that is not known. */
static bool reduced_axes(const keel_splitter *s, uint32_t rank,
                         uint32_t *out_bits) {
  const keel_tensor *axes = keel_split_constant(s, 1);
  *out_bits = 0;
  if (!axes || axes->type->dtype != KD_I64 || !axes->type->elements)
    return false;
  for (int64_t i = 0; i < axes->type->elements; i++) {
    int64_t axis = ((const int64_t *)axes->data)[i];
    axis += axis < 0 ? rank : 0;
    if (axis < 0 || axis >= (int64_t)rank) return false;
    *out_bits |= UINT32_C(1) << axis;
  }
  return true;
}

static keel_status rules_reduce(keel_splitter *s, bool *out_done) {
  const keel_type *type = keel_split_type(s, 0);
  uint32_t axis = 0, bits = 0, before = 0;
  if (!type || !keel_split_out_type(s, 0) || !keel_split_is_part(s, 0, &axis) ||
      !reduced_axes(s, type->rank, &bits) || (bits >> axis & 1))
    return KD_OK;
  if (!keel_attr_int(s->node.op, "keepdims", 1))
    for (uint32_t i = 0; i < axis; i++)
      before += bits >> i & 1;
  KEEL_TRY(keel_split_take_whole(s, 1));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis - before);
}

/* Rows of a table by their numbers: a part of the numbers gives a part of the result, and a part
 * of the columns too. Along another axis than the one that is split, it is the rank's own. */
static keel_status rules_gather(keel_splitter *s, bool *out_done) {
  const keel_type *table = keel_split_type(s, 0);
  const keel_type *out = keel_split_out_type(s, 0);
  uint32_t axis = 0;
  bool rows = table && out && !rules_axis_of(s, 0);
  if (rows && keel_split_is_part(s, 1, &axis)) {
    KEEL_TRY(keel_split_take_whole(s, 0));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
  }
  if (table && out && keel_split_is_part(s, 0, &axis) &&
      rules_axis_of(s, 0) != axis) {
    const keel_type *indices = keel_split_type(s, 1);
    if (!indices) return KD_OK;
    KEEL_TRY(keel_split_take_whole(s, 1));
    *out_done = true;
    return keel_split_give(
        s, 0, KEEL_SHARE_PART,
        axis < rules_axis_of(s, 0) ? axis : axis + indices->rank - 1);
  }
  if (!keel_split_wants(s, 0, 1) || !rows || table->rank != 2 ||
      !keel_split_constant(s, 0) || keel_split_constant(s, 1) ||
      !keel_split_divides(s, table->dims[1]))
    return KD_OK;
  KEEL_TRY(keel_split_take_part(s, 0, 1));
  KEEL_TRY(keel_split_take_whole(s, 1));
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, out->rank - 1);
}

/* ---- which op has which ---------------------------------------------------------------------- */

static const struct {
  const char *op;
  keel_split_rule rule;
} rules[] = {
#define UNARY_OP(op, since, types, kernels, attributes) {#op, rules_unary},
#define BINARY_OP(op, since, types, attributes)         {#op, rules_broadcast},
#define COMPARE_OP(op, since, types)                    {#op, rules_broadcast},
#define KEEL_UNARY_OP(op, types)
#define KEEL_BINARY_OP(op, types)
#include "defs/elementwise.def"
    {"Identity", rules_unary},
    {"Cast", rules_unary},
    {"CastLike", rules_unary},
    {"IsInf", rules_unary},
    {"IsNaN", rules_unary},
    {"Clip", rules_unary},
    {"QuantizeLinear", quantise},
    {"DequantizeLinear", quantise},
    {"Dropout", dropout},
    {"Gelu", rules_unary},
    {"Not", rules_unary},
    {"BitShift", rules_broadcast},
    {"Mod", rules_broadcast},
    {"Pow", rules_broadcast},
    {"Where", rules_broadcast},
    {"Sum", rules_broadcast},
    {"Mean", rules_broadcast},
    {"Max", rules_broadcast},
    {"Min", rules_broadcast},
    {"Softmax", rules_along},
    {"LogSoftmax", rules_along},
    {"Hardmax", rules_along},
    {"LpNormalization", rules_along},
    {"LayerNormalization", behind},
    {"RMSNormalization", behind},
    {"Attention", keel_split_attention},
    {"RotaryEmbedding", keel_split_rotary},
    {"SimplifiedLayerNormalization", behind},
    {"ArgMax", keel_split_arg},
    {"ArgMin", keel_split_arg},
    {"CumSum", keel_split_cumsum},
    {"TopK", keel_split_topk},
    {"Slice", keel_split_slice},
    {"Pad", keel_split_pad},
    {"Expand", keel_split_expand},
    {"ConvTranspose", keel_split_batch_only},
    {"DepthToSpace", keel_split_batch_only},
    {"GroupNormalization", keel_split_batch_only},
    {"InstanceNormalization", keel_split_batch_only},
    {"LpPool", keel_split_batch_only},
    {"GlobalLpPool", keel_split_batch_only},
    {"LRN", keel_split_batch_only},
    {"SpaceToDepth", keel_split_batch_only},
    {"LSTM", recurrent},
    {"GRU", recurrent},
    {"RNN", recurrent},
    {"Concat", concat},
    {"Split", rules_split},
    {"MaxPool", pool},
    {"AveragePool", pool},
    {"GlobalAveragePool", pool},
    {"GlobalMaxPool", pool},
    {"BatchNormalization", batch_norm},
    {"ReduceSum", rules_reduce},
    {"ReduceMean", rules_reduce},
    {"ReduceMax", rules_reduce},
    {"ReduceMin", rules_reduce},
    {"ReduceL1", rules_reduce},
    {"ReduceL2", rules_reduce},
    {"ReduceProd", rules_reduce},
    {"ReduceSumSquare", rules_reduce},
    {"ReduceLogSum", rules_reduce},
    {"ReduceLogSumExp", rules_reduce},
    {"Gather", rules_gather},
    {"MatMul", keel_split_product},
    {"Gemm", keel_split_gemm},
    {"Conv", keel_split_conv},
    {"ConvInteger", keel_split_conv_integer},
    {"DynamicQuantizeLinear", keel_split_dynamic_quantise},
    {"MatMulInteger", keel_split_matmul_integer},
    {"QLinearConv", keel_split_qlinear_conv},
    {"QLinearMatMul", keel_split_qlinear_matmul},
    {"Reshape", keel_split_reshape},
    {"Flatten", keel_split_reshape},
    {"Transpose", keel_split_transpose},
    {"Squeeze", keel_split_squeeze},
    {"Unsqueeze", keel_split_squeeze},
};

/* Of com.microsoft. */
static const struct {
  const char *op;
  keel_split_rule rule;
} microsoft[] = {
    {"Attention", keel_split_projected},
    {"BiasGelu", rules_broadcast},
    {"DynamicQuantizeMatMul", keel_split_dynamic_matmul},
    {"FastGelu", rules_broadcast},
    {"Gelu", rules_unary},
    {"GroupQueryAttention", keel_split_grouped},
    {"MatMulIntegerToFloat", keel_split_matmul_to_float},
    {"MatMulNBits", keel_split_few_bits},
    {"MultiHeadAttention", keel_split_multi_head},
    {"QAttention", keel_split_quantised_projected},
    {"QGemm", keel_split_qgemm},
    {"QLinearAdd", rules_broadcast},
    {"QLinearAveragePool", pool},
    {"QLinearGlobalAveragePool", pool},
    {"QLinearLeakyRelu", rules_unary},
    {"QLinearMul", rules_broadcast},
    {"QLinearSigmoid", rules_unary},
    {"QuickGelu", rules_unary},
    {"RotaryEmbedding", keel_split_microsoft_rotary},
    {"SkipLayerNormalization", keel_split_skip_norm},
    {"SkipSimplifiedLayerNormalization", keel_split_skip_norm},
};

keel_split_rule keel_split_rule_of(const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  bool onnx = !strcmp(schema->domain, "ai.onnx");
  for (size_t i = 0; onnx && i < KEEL_COUNT_OF(rules); i++)
    if (!strcmp(rules[i].op, schema->name)) return rules[i].rule;
  if (strcmp(schema->domain, "com.microsoft") != 0) return NULL;
  for (size_t i = 0; i < KEEL_COUNT_OF(microsoft); i++)
    if (!strcmp(microsoft[i].op, schema->name)) return microsoft[i].rule;
  return NULL;
}
