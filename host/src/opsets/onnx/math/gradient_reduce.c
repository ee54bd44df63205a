/* gradient_reduce.c - derivatives of ops that bring elements together: reductions, softmax,
 * normalisation, losses. */
#include "opsets/onnx/training/gradient_terms.h"
#include "opsets/tables.h"

/* ---- normalisation ------------------------------------------------------------------------------ */

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

/* ---- losses ------------------------------------------------------------------------------------- */

/* slope: of x before weights, by `one_hot`, [N,C,...]. A label counts as much as its class's weight,
 * and 0 where it is to be ignored; of a mean the weights add to 1. */
static void loss(keel_gradient *g, const char *slope) {
  int ignores = keel_attr_find(g->node.op, "ignore_index") != NULL;
  uint32_t one_hot = keel_gradient_text(
      g,
      "labels = i64($1);"
      "kept = %b ? Where(labels == {@ignore_index}, {0}, labels) : labels;"
      "OneHot[axis=1](kept, dims($0, 1, 2),"
      "               Concat[axis=0](Reshape(0~$0, {1}), Reshape(1~$0, {1})))",
      ignores);
  uint32_t share = keel_gradient_text(
      g,
      "labels = i64($1);"
      "kept = %b ? Where(labels == {@ignore_index}, {0}, labels) : labels;"
      "w = $2 ? Gather($2, kept) : Expand(1~$0, dims(kept));"
      "w = %b ? Where(labels == {@ignore_index}, 0~$0, w) : w;"
      "share = @reduction=mean ? ^0 * w / ReduceSum(w) : ^0 * w;"
      "Unsqueeze(share, {1})",
      ignores, ignores);
  keel_gradient_text(g, slope, one_hot, share);
}

static void likelihood_loss(keel_gradient *g) {
  if (keel_gradient_wants(g, 2))
    keel_gradient_refuse(g, "has no gradient in Keel for its weights");
  loss(g, "$0 = -(%v * %v)");
}

static void entropy_loss(keel_gradient *g) {
  if (keel_gradient_wants(g, 2) || keel_gradient_got(g, 1) != KEEL_ABSENT)
    keel_gradient_refuse(
        g, "has no gradient in Keel for its weights, nor of log_prob");
  if (keel_gradient_got(g, 0) != KEEL_ABSENT)
    loss(g, "$0 = (Softmax[axis=1]($0) - %v) * %v");
}

/* ---- rows ---- */

#define EMPTY "noop_with_empty_axes=@noop_with_empty_axes"
/* What was reduced, with the dimensions that it may have left out; and as large as x. */
#define KEPT(y) \
  "(@keepdims ? " y " : Reshape(" y ", dims(ReduceSum[" EMPTY "]($0, $1))))"
#define SPREAD(y) "Expand(" KEPT(y) ", dims($0))"
/* Shared by those that are as large as the result. */
#define EXTREME \
  "chosen = CastLike($0 == " KEPT("%0") ", ^0);"                          \
  "$0 = " KEPT("^0") " * (chosen / ReduceSum[keepdims=1, " EMPTY "]"      \
  "(chosen, $1))"

static const keel_op_rule rules[] = {
    {"ReduceSum", .slopes = "$0 = " SPREAD("^0")},
    {"ReduceMean",
     .slopes = "each = ^0 * (CastLike(Size(%0), ^0) / CastLike(Size($0), ^0));"
               "$0 = " SPREAD("each")},
    {"ReduceSumSquare", .slopes = "$0 = " KEPT("^0") " * ($0 * 2)"},
    {"ReduceL1", .slopes = "$0 = " KEPT("^0") " * Sign($0)"},
    /* x / y, and 0 where y is */
    {"ReduceL2",
     .slopes = "y = " KEPT("%0") ";"
                                 "$0 = " KEPT(
                                     "^0") " * ($0 / Where(y == 0, 1~y, y))"},
    {"ReduceLogSum", .slopes = "each = ^0 * Exp(-%0); $0 = " SPREAD("each")},
    {"ReduceLogSumExp",
     .slopes = "$0 = " KEPT("^0") " * Exp($0 - " KEPT("%0") ")"},
    {"ReduceMax", .slopes = EXTREME},
    {"ReduceMin", .slopes = EXTREME},
    {"Softmax", .slopes = "weighed = ^0 * %0;"
                          "$0 = weighed - %0 * ReduceSum(weighed, {@axis})"},
    {"LogSoftmax", .slopes = "$0 = ^0 - Exp(%0) * ReduceSum(^0, {@axis})"},
    {"LayerNormalization", .gradient = layer_norm},
    {"RMSNormalization", .gradient = rms_norm},
    {"BatchNormalization", .gradient = batch_norm},
    {"InstanceNormalization", .gradient = instance_norm},
    {"NegativeLogLikelihoodLoss", .gradient = likelihood_loss},
    {"SoftmaxCrossEntropyLoss", .gradient = entropy_loss},
};

const keel_op_table keel_ops_gradient_reduce = {KEEL_TABLE_RULES(rules)};
