/* norm.c - normalisation of batches. */
#include "frontends/stablehlo/lower.h"

typedef struct norm {
  const vhlo_type *type;
  int64_t axis, count;       /* of features; elements of a feature */
  int64_t dims[KD_MAX_RANK]; /* of a vector that is broadcast */
  int64_t others[KD_MAX_RANK];
  double epsilon;
} norm;

static keel_status read_norm(hlo *h, const hlo_op *op, norm *n) {
  n->type = op->in_types[0];
  uint32_t rank = n->type->rank, count = 0;
  KEEL_TRY(hlo_axis(h, op, "feature_index", rank, &n->axis));
  KEEL_TRY(vhlo_float(&h->v, op->raw, "epsilon", &n->epsilon));
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
  return KD_OK;
}

/* WIDE: a vector, to be broadcast to all; SUMS: of each feature. */
#define DIMS    "dims_ = %l; others = %l;"
#define WIDE(v) "Reshape(" v ", dims_)"
#define SUMS(x) "ReduceSum[keepdims=0, noop_with_empty_axes=1](" x ", others)"
#define LISTS(n) \
  (n).dims, (int64_t)(n).type->rank, (n).others, (int64_t)(n).type->rank - 1

keel_status hlo_batch_norm_inference(hlo *h, const hlo_op *op) {
  norm n;
  KEEL_TRY(hlo_arity(h, op, 5, 1));
  KEEL_TRY(read_norm(h, op, &n));
  hlo_text(h, op,
           DIMS "x = ($0 - " WIDE("$3") ") / Sqrt(" WIDE("$4") " + %f);"
                "%0 = x * " WIDE("$1") " + " WIDE("$2"),
           LISTS(n), n.epsilon);
  return KD_OK;
}

keel_status hlo_batch_norm_training(hlo *h, const hlo_op *op) {
  norm n;
  KEEL_TRY(hlo_arity(h, op, 3, 3));
  KEEL_TRY(read_norm(h, op, &n));
  hlo_text(h, op,
           DIMS "%1 = " SUMS("$0") " / %f; x = $0 - " WIDE("%1") ";"
                "%2 = " SUMS("x * x") " / %f;"
                "x = x / Sqrt(" WIDE("%2") " + %f);"
                "%0 = x * " WIDE("$1") " + " WIDE("$2"),
           LISTS(n), (double)n.count, (double)n.count, n.epsilon);
  return KD_OK;
}

/* Of inputs x, scale, mean, variance and the gradient of the result. */
keel_status hlo_batch_norm_grad(hlo *h, const hlo_op *op) {
  norm n;
  KEEL_TRY(hlo_arity(h, op, 5, 3));
  KEEL_TRY(read_norm(h, op, &n));
  hlo_text(h, op,
           DIMS "x = $0 - " WIDE("$2") "; both = " WIDE("$3") " + %f;"
                "below = Sqrt(both); products = " SUMS("$4 * x") ";"
                "%2 = " SUMS("$4") "; %1 = " SUMS("$4 * x / below") ";"
                "y = $4 * %f - " WIDE("%2") " - " WIDE("products") " * x / both;"
                "%0 = " WIDE("$1") " / below / %f * y",
           LISTS(n), n.epsilon, (double)n.count, (double)n.count);
  return KD_OK;
}
