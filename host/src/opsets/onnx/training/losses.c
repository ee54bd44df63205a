/* losses.c - losses: shapes and derivatives. */
#include "opsets/onnx/training/gradient.h"
#include "opsets/tables.h"

/* ---- shapes ------------------------------------------------------------------ */

/* X is N,C,d1..; target is N,d1..; the loss is target's shape or a scalar. */
static keel_status loss_shape(keel_infer *infer) {
  const keel_type *x = infer->in[0], *target = infer->in[1];
  if (x->rank < 2 || target->rank != x->rank - 1)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "the target must have the input's dimensions without C");
  for (uint32_t i = 0; i < target->rank; i++)
    if (target->dims[i] != x->dims[i ? i + 1 : 0])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "dimension %u of the target is not the input's",
                             (unsigned)i);
  const keel_type *weight = keel_infer_in(infer, 2);
  if (weight && (weight->rank != 1 || weight->dims[0] != x->dims[1]))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "one weight is needed for each of %lld classes",
                           (long long)x->dims[1]);
  bool none = !strcmp(keel_attr_string(infer->op, "reduction", "mean"), "none");
  return keel_infer_out(infer, 0, none ? target->rank : 0, target->dims);
}

keel_status keel_shape_nll_loss(keel_infer *infer) {
  return loss_shape(infer);
}

keel_status keel_shape_sce_loss(keel_infer *infer) {
  KEEL_TRY(loss_shape(infer));
  keel_dims dims = keel_dims_of(infer->in[0]);
  return keel_infer_dims(infer, 1, &dims);
}

/* ---- derivatives ------------------------------------------------------------- */

/* slope: of x before weights, by `one_hot`, [N,C,...]. A label counts as much as its class's weight,
 * and 0 where it is to be ignored; of a mean the weights add to 1. */
static void loss_gradient(keel_gradient *g, const char *slope) {
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
  loss_gradient(g, "$0 = -(%v * %v)");
}

static void entropy_loss(keel_gradient *g) {
  if (keel_gradient_wants(g, 2) || keel_gradient_got(g, 1) != KEEL_ABSENT)
    keel_gradient_refuse(
        g, "has no gradient in Keel for its weights, nor of log_prob");
  if (keel_gradient_got(g, 0) != KEEL_ABSENT)
    loss_gradient(g, "$0 = (Softmax[axis=1]($0) - %v) * %v");
}

/* ---- rows -------------------------------------------------------------------- */

static const keel_op_rule rules[] = {
    {"NegativeLogLikelihoodLoss", .gradient = likelihood_loss},
    {"SoftmaxCrossEntropyLoss", .gradient = entropy_loss},
};

const keel_op_table keel_ops_losses = {KEEL_TABLE_RULES(rules)};
