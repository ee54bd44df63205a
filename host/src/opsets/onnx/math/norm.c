/* norm.c - normalisation and softmax: shapes, forms of older opsets, work, derivatives. */
#include "opsets/onnx/training/gradient.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/work.h"

/* ---- shapes ------------------------------------------------------------------ */

keel_status keel_shape_batch_norm(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t channels = in->rank > 1 ? in->dims[1] : 1;
  for (uint32_t i = 1; i < 5; i++)
    if (infer->in[i]->rank != 1 || infer->in[i]->dims[0] != channels)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT, "%s must have the %lld channels of X",
          infer->op->schema->inputs[i].name, (long long)channels);
  KEEL_TRY(keel_shape_same(infer));
  KEEL_TRY(keel_infer_out(infer, 1, 1, &channels));
  return keel_infer_out(infer, 2, 1, &channels);
}

/* The type that a normalisation's statistics are in: they are as exact as f32 at the
 * least, whatever is asked for. */
static keel_status check_stash(const keel_infer *infer) {
  int64_t type = keel_attr_int(infer->op, "stash_type", KD_F32);
  if (type == KD_F32 || type == KD_F16 || type == KD_BF16 ||
      (type == KD_F64 && infer->in[0]->dtype == KD_F64))
    return KD_OK;
  return keel_infer_fail(
      infer, KD_UNIMPLEMENTED,
      "stash_type is %lld; it can be f32 (1), f16 (10) or bf16 (16)",
      (long long)type);
}

keel_status keel_shape_group_norm(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t groups = keel_attr_int(infer->op, "num_groups", 0);
  KEEL_TRY(check_stash(infer));
  if (in->rank < 2 || groups < 1 || in->dims[1] % groups)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the channels of X are not in %lld groups",
                           (long long)groups);
  for (uint32_t i = 1; i < 3; i++)
    if (infer->in[i]->rank != 1 || infer->in[i]->dims[0] != in->dims[1])
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT, "%s must have the %lld channels of X",
          infer->op->schema->inputs[i].name, (long long)in->dims[1]);
  return keel_shape_same(infer);
}

keel_status keel_shape_layer_norm(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -1),
                           in->rank, &axis));
  KEEL_TRY(check_stash(infer));
  keel_dims dims = keel_dims_of(in);
  KEEL_TRY(keel_infer_dims(infer, 0, &dims));
  for (uint32_t i = axis; i < dims.rank; i++)
    dims.dims[i] = 1;
  infer->dtypes[1] = infer->dtypes[2] =
      (kd_dtype)keel_attr_int(infer->op, "stash_type", KD_F32);
  KEEL_TRY(keel_infer_dims(infer, 1, &dims));
  return keel_infer_dims(infer, 2, &dims);
}

/* The scale is broadcast to the dimensions from the axis on; one that repeats along the
 * last of them only, as all have it, is what kernels take. */
keel_status keel_shape_rms_norm(keel_infer *infer) {
  const keel_type *in = infer->in[0], *scale = infer->in[1];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -1),
                           in->rank, &axis));
  KEEL_TRY(check_stash(infer));
  bool fits = scale->rank <= in->rank - axis, ones = true;
  for (uint32_t i = 0; fits && i < scale->rank; i++) {
    int64_t own = scale->dims[i];
    ones &= own == 1;
    fits = ones || own == in->dims[in->rank - scale->rank + i];
  }
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "scale must have the last dimensions of X, from "
                           "axis %u on at most",
                           (unsigned)axis);
  const keel_dims dims = keel_dims_of(in);
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- older opsets ------------------------------------------------------------ */

/* Before 13, Softmax, LogSoftmax and Hardmax saw the input as a matrix, split
 * at `axis` (default 1): Flatten, op on the last axis, Reshape. */
static keel_status old_softmax(keel_draft *draft) {
  const keel_attr *given = keel_upgrade_attr(draft, "axis", KD_ATTR_INT);
  keel_attr axis = KEEL_INT("axis", given ? given->i : 1);
  uint32_t shape = 0;
  KEEL_TRY(keel_upgrade_need(draft, 1));
  if (axis.i == -1) {
    keel_upgrade_set_int(draft, "axis", -1);
    return KD_OK;
  }
  KEEL_TRY(keel_upgrade_text(draft, &shape, "dims($0)"));
  KEEL_TRY(keel_upgrade_text(draft, &draft->inputs[0],
                             "%s[axis=-1](Flatten[axis=%i]($0))", draft->op,
                             axis.i));
  draft->op = "Reshape";
  keel_upgrade_drop_all(draft);
  draft->inputs[1] = shape;
  draft->input_count = 2;
  return KD_OK;
}

static keel_status old_batch_norm(keel_draft *draft) {
  const keel_attr *spatial = keel_upgrade_attr(draft, "spatial", KD_ATTR_INT);
  if (spatial && spatial->i != 1)
    return keel_upgrade_bad(draft, KD_UNIMPLEMENTED,
                            "spatial = 0 is not supported");
  keel_upgrade_drop(draft, "spatial");
  keel_upgrade_drop(draft, "is_test");
  if (draft->output_count > 1)
    return keel_upgrade_bad(
        draft, KD_UNIMPLEMENTED,
        "training outputs before opset 14 are not supported");
  return KD_OK;
}

/* Scale and bias were one for each group; now they are one for each channel. */
static keel_status widen_groups(keel_draft *draft, uint32_t index,
                                int64_t groups) {
  uint32_t *input = &draft->inputs[index];
  return keel_upgrade_text(
      draft, input,
      "each = dims($0, 1, 2) / {%i};"
      "Reshape(Expand(Unsqueeze(%v, {1}), {1, each}), {-1})",
      groups, *input);
}

static keel_status old_group_norm(keel_draft *draft) {
  const keel_attr *groups = keel_upgrade_attr(draft, "num_groups", KD_ATTR_INT);
  KEEL_TRY(keel_upgrade_need(draft, 3));
  if (!groups || draft->input_count != 3 || groups->i < 1)
    return keel_upgrade_bad(
        draft, KD_DATA_LOSS,
        "needs X, scale, bias, and num_groups of 1 or more");
  const int64_t count = groups->i;
  KEEL_TRY(widen_groups(draft, 1, count));
  return widen_groups(draft, 2, count);
}

/* ---- work and derivatives ---------------------------------------------------- */

/* Its window is of channels. */
static uint64_t lrn_steps(const keel_work *work) {
  return keel_times(work->read, keel_work_dim(work->in[0], 1));
}

/* Dimensions of x from `begin` on, as axes; the rank may be open. */
#define AXES_FROM(begin) "range(dims(dims($0)) - " begin ") + " begin

/* The attribute's axis and those behind it. */
static uint32_t axes_from(keel_gradient *g) {
  int64_t axis = keel_attr_int(g->node.op, "axis", -1), axes[KD_MAX_RANK];
  int64_t count = 0;
  if (axis >= 0) return keel_gradient_text(g, AXES_FROM("{@axis}"));
  for (; axis < 0 && count < (int64_t)KD_MAX_RANK; axis++)
    axes[count++] = axis;
  return keel_emit_ints(g->all, axes, count);
}

/* y = even * scale + bias, even = (x - mean) / deviation; not centred: the mean is taken as 0. */
static void norm_of_last(keel_gradient *g, bool centred) {
  for (uint32_t i = 1; i < g->node.output_count; i++)
    if (keel_gradient_got(g, i) != KEEL_ABSENT)
      keel_gradient_refuse(g,
                           "has no gradient in Keel of its mean and deviation");
  keel_gradient_text(
      g,
      "axes = %v; x = %b ? $0 - ReduceMean($0, axes) : $0;"
      "inverse = Reciprocal(Sqrt(ReduceMean(x * x, axes) + @epsilon));"
      "even = x * inverse; got = ^0 * $1;"
      "left = got - even * ReduceMean(got * even, axes);"
      "$0 = (%b ? left - ReduceMean(got, axes) : left) * inverse;"
      "$1 ~= ^0 * even; $2 ~= ^0",
      axes_from(g), centred, centred);
}

static void layer_norm(keel_gradient *g) {
  norm_of_last(g, true);
}
static void rms_norm(keel_gradient *g) {
  norm_of_last(g, false);
}

/* A list of one number a channel, beside [N,C,...]. */
#define BY_CHANNEL(list) \
  "Reshape(CastLike(" list ", $0), {-1, Expand({1}, dims(dims($0, 2)))})"

/* By mean and variance of the batch in training, or of each image (each), or by those given. */
static void norm_of_channels(keel_gradient *g, bool each, bool given) {
  keel_gradient_text(
      g,
      "space = " AXES_FROM("{2}") "; no_channels = {0, space};"
      "axes = %b ? space : no_channels; got = ^0 * " BY_CHANNEL("$1") ";"
      "x = $0 - (%b ? " BY_CHANNEL("$3") " : ReduceMean($0, axes));"
      "variance = %b ? " BY_CHANNEL("$4") " : ReduceMean(x * x, axes);"
      "inverse = Reciprocal(Sqrt(variance + @epsilon)); even = x * inverse;"
      "left = %b ? got : got - even * ReduceMean(got * even, axes)"
      "                  - ReduceMean(got, axes);"
      "$0 = left * inverse;"
      "$1 = CastLike(ReduceSum[keepdims=0](^0 * even, no_channels), $1);"
      "$2 = CastLike(ReduceSum[keepdims=0](^0, no_channels), $2)",
      each, given, given, given);
}

static void batch_norm(keel_gradient *g) {
  bool training = keel_attr_int(g->node.op, "training_mode", 0) != 0;
  for (uint32_t i = 1; i < g->node.output_count; i++)
    if (keel_gradient_got(g, i) != KEEL_ABSENT)
      keel_gradient_refuse(g, "has no gradient in Keel of running means");
  if (keel_gradient_wants(g, 3) || keel_gradient_wants(g, 4))
    keel_gradient_refuse(g, "has no gradient in Keel for mean and variance");
  norm_of_channels(g, false, !training);
}

static void instance_norm(keel_gradient *g) {
  norm_of_channels(g, true, false);
}

/* ---- rows -------------------------------------------------------------------- */

static const keel_op_upgrade upgrades[] = {
    {"Softmax", 1, 13, old_softmax},
    {"LogSoftmax", 1, 13, old_softmax},
    {"Hardmax", 1, 13, old_softmax},
    {"BatchNormalization", 1, 14, old_batch_norm},
    {"GroupNormalization", 18, 21, old_group_norm},
};

static const keel_op_rule rules[] = {
    {"Softmax", .slopes = "weighed = ^0 * %0;"
                          "$0 = weighed - %0 * ReduceSum(weighed, {@axis})"},
    {"LogSoftmax", .slopes = "$0 = ^0 - Exp(%0) * ReduceSum(^0, {@axis})"},
    {"LayerNormalization", .gradient = layer_norm},
    {"RMSNormalization", .gradient = rms_norm},
    {"BatchNormalization", .gradient = batch_norm, .traits = KEEL_OP_HANDS_ON},
    {"InstanceNormalization", .gradient = instance_norm},
    {"LRN", .steps = lrn_steps},
};

const keel_op_table keel_ops_norm = {KEEL_TABLE_RULES(rules),
                                     KEEL_TABLE_UPGRADES(upgrades)};
