/* norm.c - normalisation of batches. */
#include "frontends/stablehlo/lower.h"

typedef struct norm {
  const vhlo_type *type;
  int64_t axis, count;       /* of features; elements of a feature */
  int64_t dims[KD_MAX_RANK]; /* of a vector that is broadcast */
  int64_t others[KD_MAX_RANK];
  keel_value epsilon;
} norm;

static keel_status read_norm(hlo *h, const hlo_op *op, norm *n) {
  double epsilon = 0;
  n->type = op->in_types[0];
  uint32_t rank = n->type->rank, count = 0;
  KEEL_TRY(hlo_axis(h, op, "feature_index", rank, &n->axis));
  KEEL_TRY(vhlo_float(&h->v, op->raw, "epsilon", &epsilon));
  if (!hlo_is_float(n->type->dtype) || n->type->dynamic || !n->type->elements)
    return hlo_refuse(h, op, "%s, or sizes that are 0 or not known",
                      n->type->what);
  for (uint32_t i = 1; i < op->input_count; i++)
    if (op->in_types[i]->dtype != n->type->dtype)
      return hlo_refuse(h, op, "inputs of several types");
  for (uint32_t i = 0; i < rank; i++) {
    n->dims[i] = i == n->axis ? n->type->dims[i] : 1;
    if (i != n->axis) n->others[count++] = i;
  }
  n->count = n->type->elements / n->type->dims[n->axis];
  n->epsilon = hlo_number(h, n->type->dtype, epsilon);
  return KD_OK;
}

static keel_value norm_wide(hlo *h, const norm *n, keel_value vector) {
  return hlo_reshape(h, vector, n->type->rank, n->dims);
}

/* The sum of each feature. */
static keel_value norm_sum_of(hlo *h, const norm *n, keel_value value) {
  const keel_attr drop = KEEL_INT("keepdims", 0);
  const keel_value in[] = {value, hlo_i64s(h, n->type->rank - 1, n->others)};
  return n->type->rank > 1 ? hlo_node(h, "ReduceSum", &drop, 1, in, 2) : value;
}

static keel_value mean_of(hlo *h, const norm *n, keel_value value) {
  return HLO(h, "Div", norm_sum_of(h, n, value),
             hlo_number(h, n->type->dtype, (double)n->count));
}

static keel_value deviation(hlo *h, const norm *n, keel_value variance) {
  return HLO(h, "Sqrt", HLO(h, "Add", norm_wide(h, n, variance), n->epsilon));
}

static keel_value normalised(hlo *h, const norm *n, const keel_value *in,
                             keel_value mean, keel_value variance) {
  keel_value x = HLO(h, "Sub", in[0], norm_wide(h, n, mean));
  x = HLO(h, "Div", x, deviation(h, n, variance));
  x = HLO(h, "Mul", x, norm_wide(h, n, in[1]));
  return HLO(h, "Add", x, norm_wide(h, n, in[2]));
}

keel_status hlo_batch_norm_inference(hlo *h, const hlo_op *op) {
  norm n;
  KEEL_TRY(hlo_arity(h, op, 5, 1));
  KEEL_TRY(read_norm(h, op, &n));
  op->out[0] = normalised(h, &n, op->in, op->in[3], op->in[4]);
  return KD_OK;
}

keel_status hlo_batch_norm_training(hlo *h, const hlo_op *op) {
  norm n;
  KEEL_TRY(hlo_arity(h, op, 3, 3));
  KEEL_TRY(read_norm(h, op, &n));
  op->out[1] = mean_of(h, &n, op->in[0]);
  keel_value x = HLO(h, "Sub", op->in[0], norm_wide(h, &n, op->out[1]));
  op->out[2] = mean_of(h, &n, HLO(h, "Mul", x, x));
  op->out[0] = normalised(h, &n, op->in, op->out[1], op->out[2]);
  return KD_OK;
}

/* Of inputs x, scale, mean, variance and the gradient of the result. */
keel_status hlo_batch_norm_grad(hlo *h, const hlo_op *op) {
  norm n;
  KEEL_TRY(hlo_arity(h, op, 5, 3));
  KEEL_TRY(read_norm(h, op, &n));
  keel_value count = hlo_number(h, n.type->dtype, (double)n.count);
  keel_value grad = op->in[4], scale = norm_wide(h, &n, op->in[1]);
  keel_value x = HLO(h, "Sub", op->in[0], norm_wide(h, &n, op->in[2]));
  keel_value below = deviation(h, &n, op->in[3]);
  keel_value products = norm_sum_of(h, &n, HLO(h, "Mul", grad, x));
  keel_value both = HLO(h, "Add", norm_wide(h, &n, op->in[3]), n.epsilon);
  op->out[2] = norm_sum_of(h, &n, grad);
  op->out[1] = norm_sum_of(h, &n, HLO(h, "Div", HLO(h, "Mul", grad, x), below));
  keel_value part = HLO(h, "Mul", norm_wide(h, &n, products), x);
  keel_value y =
      HLO(h, "Sub", HLO(h, "Mul", grad, count), norm_wide(h, &n, op->out[2]));
  y = HLO(h, "Sub", y, HLO(h, "Div", part, both));
  scale = HLO(h, "Div", HLO(h, "Div", scale, below), count);
  op->out[0] = HLO(h, "Mul", scale, y);
  return KD_OK;
}
