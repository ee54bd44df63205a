/* gradient_reduce.c - derivatives of ops that bring elements together: reductions, softmax,
 * normalisation, losses. */
#include "opsets/onnx/training/gradient_terms.h"
#include "opsets/tables.h"

static uint32_t gradient_reduce_x_of(const keel_gradient *g) {
  return keel_gradient_in(g, 0);
}
static uint32_t y_of(const keel_gradient *g) {
  return keel_gradient_out(g, 0);
}
static uint32_t gradient_reduce_got_of(const keel_gradient *g) {
  return keel_gradient_got(g, 0);
}

/* A reduction of `value` over a list of axes, whose dimensions stay. */
static uint32_t kept(keel_gradient *g, const char *op, uint32_t value,
                     uint32_t axes) {
  const uint32_t inputs[] = {value, axes};
  return keel_emit_op(g->all, op, NULL, 0, inputs, 2);
}

/* ---- reductions ------------------------------------------------------------------------------ */

/* What the node reduced, with the dimensions that it may have left out. */
static uint32_t with_dims(keel_gradient *g, uint32_t value) {
  const keel_attr noop =
      KEEL_INT("noop_with_empty_axes",
               keel_attr_int(g->node.op, "noop_with_empty_axes", 0));
  const uint32_t inputs[] = {gradient_reduce_x_of(g), keel_gradient_in(g, 1)};
  if (keel_attr_int(g->node.op, "keepdims", 1)) return value;
  return keel_gradient_shaped_like(
      g, value, keel_emit_op(g->all, "ReduceSum", &noop, 1, inputs, 2));
}

static uint32_t gradient_reduce_spread(keel_gradient *g, uint32_t value) {
  return keel_gradient_wide(g, value,
                            keel_gradient_shape(g, gradient_reduce_x_of(g)));
}

/* x's gradient is y's by `slope`, which is broadcast to x or is of its shape. */
static void by(keel_gradient *g, uint32_t slope) {
  keel_gradient_give(g, 0,
                     mul(g, with_dims(g, gradient_reduce_got_of(g)), slope));
}

static void reduce_sum(keel_gradient *g) {
  keel_gradient_give(
      g, 0, gradient_reduce_spread(g, with_dims(g, gradient_reduce_got_of(g))));
}

static void reduce_mean(keel_gradient *g) {
  uint32_t all = two(g, "CastLike", of(g, "Size", gradient_reduce_x_of(g)),
                     gradient_reduce_got_of(g));
  uint32_t means =
      two(g, "CastLike", of(g, "Size", y_of(g)), gradient_reduce_got_of(g));
  uint32_t each = mul(g, gradient_reduce_got_of(g), over(g, means, all));
  keel_gradient_give(g, 0, gradient_reduce_spread(g, with_dims(g, each)));
}

static void reduce_sum_square(keel_gradient *g) {
  by(g, scaled(g, gradient_reduce_x_of(g), 2));
}

static void reduce_l1(keel_gradient *g) {
  by(g, of(g, "Sign", gradient_reduce_x_of(g)));
}

/* x / y, and 0 where y is. */
static void reduce_l2(keel_gradient *g) {
  uint32_t y = with_dims(g, y_of(g));
  uint32_t safe = keel_emit_where(g->all, compared(g, "Equal", y, 0),
                                  keel_emit_number(g->all, 1, y), y);
  by(g, over(g, gradient_reduce_x_of(g), safe));
}

static void reduce_log_sum(keel_gradient *g) {
  uint32_t slope = of(g, "Exp", of(g, "Neg", y_of(g)));
  keel_gradient_give(
      g, 0,
      gradient_reduce_spread(
          g, with_dims(g, mul(g, gradient_reduce_got_of(g), slope))));
}

static void reduce_log_sum_exp(keel_gradient *g) {
  by(g, of(g, "Exp", sub(g, gradient_reduce_x_of(g), with_dims(g, y_of(g)))));
}

/* Shared by those that are as large as the result. */
static void reduce_extreme(keel_gradient *g) {
  const keel_attr attrs[] = {
      KEEL_INT("keepdims", 1),
      KEEL_INT("noop_with_empty_axes",
               keel_attr_int(g->node.op, "noop_with_empty_axes", 0))};
  uint32_t equal =
      two(g, "Equal", gradient_reduce_x_of(g), with_dims(g, y_of(g)));
  uint32_t chosen = two(g, "CastLike", equal, gradient_reduce_got_of(g));
  const uint32_t inputs[] = {chosen, keel_gradient_in(g, 1)};
  uint32_t count = keel_emit_op(g->all, "ReduceSum", attrs, 2, inputs, 2);
  by(g, over(g, chosen, count));
}

/* ---- softmax ---------------------------------------------------------------------------------- */

static uint32_t gradient_reduce_axis_of(keel_gradient *g) {
  return keel_emit_int(g->all, keel_attr_int(g->node.op, "axis", -1));
}

static void softmax(keel_gradient *g) {
  uint32_t y = y_of(g), weighed = mul(g, gradient_reduce_got_of(g), y);
  uint32_t sum = kept(g, "ReduceSum", weighed, gradient_reduce_axis_of(g));
  keel_gradient_give(g, 0, sub(g, weighed, mul(g, y, sum)));
}

static void log_softmax(keel_gradient *g) {
  uint32_t sum = kept(g, "ReduceSum", gradient_reduce_got_of(g),
                      gradient_reduce_axis_of(g));
  keel_gradient_give(
      g, 0,
      sub(g, gradient_reduce_got_of(g), mul(g, of(g, "Exp", y_of(g)), sum)));
}

/* ---- normalisation ------------------------------------------------------------------------------ */

/* What a normalisation is of x: (x - mean) / deviation over some axes. */
typedef struct norm {
  uint32_t axes, even,
      inverse; /* a list; x normalised; one over the deviation */
} norm;

/* centred: less the mean. */
static norm normalised(keel_gradient *g, uint32_t axes, double epsilon,
                       bool centred) {
  uint32_t x = gradient_reduce_x_of(g);
  if (centred) x = sub(g, x, kept(g, "ReduceMean", x, axes));
  uint32_t variance = kept(g, "ReduceMean", mul(g, x, x), axes);
  norm n = {.axes = axes,
            .inverse =
                of(g, "Reciprocal", of(g, "Sqrt", plus(g, variance, epsilon)))};
  n.even = mul(g, x, n.inverse);
  return n;
}

/* x's gradient of that of what is normalised. */
static void give_back(keel_gradient *g, const norm *n, uint32_t got,
                      bool centred) {
  uint32_t along = kept(g, "ReduceMean", mul(g, got, n->even), n->axes);
  uint32_t left = sub(g, got, mul(g, n->even, along));
  if (centred) left = sub(g, left, kept(g, "ReduceMean", got, n->axes));
  keel_gradient_give(g, 0, mul(g, left, n->inverse));
}

/* begin, begin + 1 ... up to the rank, which may be open. */
static uint32_t axes_up(keel_gradient *g, int64_t begin) {
  uint32_t shape = keel_gradient_shape(g, gradient_reduce_x_of(g));
  uint32_t first = keel_emit_int(g->all, begin);
  uint32_t count = sub(g, keel_gradient_shape(g, shape), first);
  return add(g, keel_emit_range(g->all, count), first);
}

/* All axes from the attribute's on. */
static uint32_t axes_from(keel_gradient *g) {
  int64_t axis = keel_attr_int(g->node.op, "axis", -1), axes[KD_MAX_RANK];
  int64_t count = 0;
  if (axis >= 0) return axes_up(g, axis);
  for (; axis < 0 && count < (int64_t)KD_MAX_RANK; axis++)
    axes[count++] = axis;
  return keel_emit_ints(g->all, axes, count);
}

static void norm_of_last(keel_gradient *g, bool centred) {
  double epsilon = (double)keel_attr_float(g->node.op, "epsilon", 1e-5f);
  for (uint32_t i = 1; i < g->node.output_count; i++)
    if (keel_gradient_got(g, i) != KEEL_ABSENT)
      keel_gradient_refuse(g,
                           "has no gradient in Keel of its mean and deviation");
  uint32_t axes = axes_from(g);
  norm n = normalised(g, axes, epsilon, centred);
  give_back(g, &n, mul(g, gradient_reduce_got_of(g), keel_gradient_in(g, 1)),
            centred);
  if (keel_gradient_wants(g, 1))
    keel_gradient_give_wide(g, 1, mul(g, gradient_reduce_got_of(g), n.even));
  keel_gradient_give_wide(g, 2, gradient_reduce_got_of(g));
}

static void layer_norm(keel_gradient *g) {
  norm_of_last(g, true);
}
static void rms_norm(keel_gradient *g) {
  norm_of_last(g, false);
}

/* A list of one number a channel, beside [N,C,...]; and the axes that are no channels, of images
 * alone where each has its own. */
static uint32_t by_channel(keel_gradient *g, uint32_t value) {
  uint32_t space =
      keel_emit_dims(g->all, gradient_reduce_x_of(g), 2, INT64_MAX);
  const uint32_t dims[] = {keel_emit_int(g->all, -1),
                           keel_gradient_wide(g, keel_emit_int(g->all, 1),
                                              keel_gradient_shape(g, space))};
  return two(g, "Reshape", value, keel_emit_concat(g->all, 0, dims, 2));
}

static uint32_t no_channels(keel_gradient *g, bool each) {
  const uint32_t axes[] = {keel_emit_int(g->all, 0), axes_up(g, 2)};
  return each ? axes[1] : keel_emit_concat(g->all, 0, axes, 2);
}

/* Scale and bias: sums over all that is no channel. */
static void give_scale_and_bias(keel_gradient *g, uint32_t even) {
  const keel_attr flat = KEEL_INT("keepdims", 0);
  uint32_t values[] = {mul(g, gradient_reduce_got_of(g), even),
                       gradient_reduce_got_of(g)};
  uint32_t axes = no_channels(g, false);
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t inputs[] = {values[i], axes};
    if (keel_gradient_wants(g, 1 + i))
      keel_gradient_give(
          g, 1 + i,
          two(g, "CastLike",
              keel_emit_op(g->all, "ReduceSum", &flat, 1, inputs, 2),
              keel_gradient_in(g, 1 + i)));
  }
}

/* By the batch's own mean and variance, in training, or by those that are given. */
static void norm_of_channels(keel_gradient *g, bool each, bool given) {
  double epsilon = (double)keel_attr_float(g->node.op, "epsilon", 1e-5f);
  uint32_t scale = by_channel(
      g, two(g, "CastLike", keel_gradient_in(g, 1), gradient_reduce_x_of(g)));
  uint32_t got = mul(g, gradient_reduce_got_of(g), scale);
  norm n = {.axes = KEEL_ABSENT};
  if (given) {
    uint32_t parts[2];
    for (uint32_t i = 0; i < 2; i++)
      parts[i] = by_channel(g, two(g, "CastLike", keel_gradient_in(g, 3 + i),
                                   gradient_reduce_x_of(g)));
    n.inverse = of(g, "Reciprocal", of(g, "Sqrt", plus(g, parts[1], epsilon)));
    n.even = mul(g, sub(g, gradient_reduce_x_of(g), parts[0]), n.inverse);
    keel_gradient_give(g, 0, mul(g, got, n.inverse));
  } else {
    n = normalised(g, no_channels(g, each), epsilon, true);
    give_back(g, &n, got, true);
  }
  give_scale_and_bias(g, n.even);
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

/* How much each label counts: its class's weight, and 0 where it is to be ignored. */
typedef struct labelled {
  uint32_t one_hot, weights; /* [N,C,...] and [N,1,...] */
} labelled;

static labelled read_labels(keel_gradient *g) {
  const keel_attr axis = KEEL_INT("axis", 1);
  const keel_node_attr *ignored = keel_attr_find(g->node.op, "ignore_index");
  uint32_t x = gradient_reduce_x_of(g), labels = keel_gradient_in(g, 1);
  uint32_t weights = keel_gradient_in(g, 2);
  const keel_attr to = KEEL_INT("to", KD_I64);
  labels = keel_emit_op(g->all, "Cast", &to, 1, &labels, 1);
  uint32_t skipped = KEEL_ABSENT;
  if (ignored) {
    uint32_t which = keel_emit_int(g->all, ignored->value.i);
    skipped = two(g, "Equal", labels, which);
    labels = keel_emit_where(g->all, skipped, keel_emit_int(g->all, 0), labels);
  }
  const uint32_t ends[] = {keel_gradient_zero(g, x),
                           keel_emit_number(g->all, 1, x)};
  uint32_t list[2];
  for (int i = 0; i < 2; i++)
    list[i] = two(g, "Reshape", ends[i], keel_emit_int(g->all, 1));
  const uint32_t inputs[] = {labels, keel_emit_dims(g->all, x, 1, 2),
                             keel_emit_concat(g->all, 0, list, 2)};
  labelled result = {.one_hot =
                         keel_emit_op(g->all, "OneHot", &axis, 1, inputs, 3)};
  const uint32_t one =
      keel_gradient_wide(g, ends[1], keel_gradient_shape(g, labels));
  result.weights =
      weights == KEEL_ABSENT ? one : two(g, "Gather", weights, labels);
  if (skipped != KEEL_ABSENT)
    result.weights = keel_emit_where(g->all, skipped, ends[0], result.weights);
  return result;
}

/* Of what stands before the labels: got by weights, which add to 1 for a mean. */
static uint32_t shares_of(keel_gradient *g, uint32_t weights) {
  const char *how = keel_attr_string(g->node.op, "reduction", "mean");
  uint32_t share = mul(g, gradient_reduce_got_of(g), weights);
  if (!strcmp(how, "mean")) share = over(g, share, of(g, "ReduceSum", weights));
  return two(g, "Unsqueeze", share, keel_emit_int(g->all, 1));
}

static void likelihood_loss(keel_gradient *g) {
  if (keel_gradient_wants(g, 2))
    keel_gradient_refuse(g, "has no gradient in Keel for its weights");
  labelled l = read_labels(g);
  keel_gradient_give(g, 0,
                     of(g, "Neg", mul(g, l.one_hot, shares_of(g, l.weights))));
}

static void entropy_loss(keel_gradient *g) {
  const keel_attr axis = KEEL_INT("axis", 1);
  uint32_t x = gradient_reduce_x_of(g);
  if (keel_gradient_wants(g, 2) || keel_gradient_got(g, 1) != KEEL_ABSENT)
    keel_gradient_refuse(
        g, "has no gradient in Keel for its weights, nor of log_prob");
  if (gradient_reduce_got_of(g) == KEEL_ABSENT) return;
  labelled l = read_labels(g);
  uint32_t chances = keel_emit_op(g->all, "Softmax", &axis, 1, &x, 1);
  keel_gradient_give(
      g, 0, mul(g, sub(g, chances, l.one_hot), shares_of(g, l.weights)));
}

static const keel_op_rule rules[] = {
    {"ReduceSum", .gradient = reduce_sum},
    {"ReduceMean", .gradient = reduce_mean},
    {"ReduceSumSquare", .gradient = reduce_sum_square},
    {"ReduceL1", .gradient = reduce_l1},
    {"ReduceL2", .gradient = reduce_l2},
    {"ReduceLogSum", .gradient = reduce_log_sum},
    {"ReduceLogSumExp", .gradient = reduce_log_sum_exp},
    {"ReduceMax", .gradient = reduce_extreme},
    {"ReduceMin", .gradient = reduce_extreme},
    {"Softmax", .gradient = softmax},
    {"LogSoftmax", .gradient = log_softmax},
    {"LayerNormalization", .gradient = layer_norm},
    {"RMSNormalization", .gradient = rms_norm},
    {"BatchNormalization", .gradient = batch_norm},
    {"InstanceNormalization", .gradient = instance_norm},
    {"NegativeLogLikelihoodLoss", .gradient = likelihood_loss},
    {"SoftmaxCrossEntropyLoss", .gradient = entropy_loss},
};

const keel_op_table keel_ops_gradient_reduce = {KEEL_TABLE_RULES(rules)};
