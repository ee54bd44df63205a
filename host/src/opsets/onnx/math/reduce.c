/* reduce.c - reductions, running sums and the largest elements: shapes, forms of older opsets,
 * derivatives. */
#include "opsets/onnx/training/gradient.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"

/* ---- shapes ------------------------------------------------------------------ */

keel_status keel_shape_reduce(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t axes[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, axes, KD_MAX_RANK);
  if (count < 0) return KD_INVALID_ARGUMENT;
  bool keep = keel_attr_int(infer->op, "keepdims", 1) != 0;
  uint32_t gone = 0;
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = 0;
    KEEL_TRY(keel_infer_new_axis(infer, axes[i], in->rank, &gone, &axis));
  }
  bool all = count == 0 && !keel_attr_int(infer->op, "noop_with_empty_axes", 0);
  keel_dims dims = {0};
  for (uint32_t i = 0; i < in->rank; i++) {
    if (!(gone >> i & 1) && !all)
      dims.dims[dims.rank++] = in->dims[i];
    else if (keep)
      dims.dims[dims.rank++] = 1;
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_arg_reduce(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0), in->rank,
                           &axis));
  keel_dims dims = {0};
  for (uint32_t i = 0; i < in->rank; i++) {
    if (i != axis)
      dims.dims[dims.rank++] = in->dims[i];
    else if (keel_attr_int(infer->op, "keepdims", 1))
      dims.dims[dims.rank++] = 1;
  }
  if (in->dims[axis] == 0)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "axis %u is empty",
                           (unsigned)axis);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_top_k(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t k = 0;
  uint32_t axis = 0;
  int64_t count = keel_infer_ints(infer, 1, &k, 1);
  if (count < 0) return KD_INVALID_ARGUMENT;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -1),
                           in->rank, &axis));
  if (count != 1 || k < 0 || k > in->dims[axis])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "K is %lld, and axis %u has %lld", (long long)k,
                           (unsigned)axis, (long long)in->dims[axis]);
  keel_dims dims = keel_dims_of(in);
  dims.dims[axis] = k;
  KEEL_TRY(keel_infer_dims(infer, 0, &dims));
  return keel_infer_dims(infer, 1, &dims);
}

/* ---- older opsets ------------------------------------------------------------ */

static keel_status old_top_k(keel_draft *draft) {
  const keel_attr *k = keel_upgrade_attr(draft, "k", KD_ATTR_INT);
  if (k) {
    KEEL_TRY(keel_upgrade_input(draft, 1, KD_I64, 1, 1, &k->i));
    keel_upgrade_drop(draft, "k");
  }
  return KD_OK;
}

/* ---- rows -------------------------------------------------------------------- */

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

static const keel_op_upgrade upgrades[] = {
    {"TopK", 1, 10, old_top_k},
    {"ReduceSum", 1, 13, keel_upgrade_axes},
    {"ReduceL1", 1, 18, keel_upgrade_axes},
    {"ReduceL2", 1, 18, keel_upgrade_axes},
    {"ReduceLogSum", 1, 18, keel_upgrade_axes},
    {"ReduceLogSumExp", 1, 18, keel_upgrade_axes},
    {"ReduceMax", 1, 18, keel_upgrade_axes},
    {"ReduceMean", 1, 18, keel_upgrade_axes},
    {"ReduceMin", 1, 18, keel_upgrade_axes},
    {"ReduceProd", 1, 18, keel_upgrade_axes},
    {"ReduceSumSquare", 1, 18, keel_upgrade_axes},
};

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
    {"CumSum", .slopes = "$0 = @reverse ? CumSum[exclusive=@exclusive](^0, $1)"
                         "  : CumSum[exclusive=@exclusive, reverse=1](^0, $1)"},
};

const keel_op_table keel_ops_reduce = {KEEL_TABLE_RULES(rules),
                                       KEEL_TABLE_UPGRADES(upgrades)};
