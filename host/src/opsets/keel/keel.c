/* keel.c - rows of domain "keel": what StableHLO has and ONNX has not, what passes make, and what
 * plans add. */
#include "opsets/tables.h"

keel_status keel_shape_trees(keel_infer *infer) {
  int64_t rows = 0, targets = keel_attr_int(infer->op, "targets", 0);
  KEEL_TRY(keel_infer_rows(infer, &rows));
  if (targets < 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "targets is %lld, and must be 1 or more",
                           (long long)targets);
  return keel_infer_out(infer, 0, 2, (int64_t[]){rows, targets});
}

keel_status keel_shape_couple(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  int64_t classes = keel_attr_int(infer->op, "classes", 0);
  if (classes < 2 || classes > 1 << 20 || x->rank != 2 ||
      x->dims[1] != classes * (classes - 1) / 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X must be [rows, pairs] of the pairs of %lld"
                           " classes",
                           (long long)classes);
  return keel_infer_out(infer, 0, 2, (int64_t[]){x->dims[0], classes});
}

#define KEEL(name, params, attrs, shape)                             \
  {                                                                  \
    "keel", name, 1, "any", params, attrs, keel_shape_##shape, 0, 0, \
        KEEL_BY_KERNEL, NULL                                         \
  }

static const keel_schema_row rows[] = {
#define KEEL_UNARY_OP(op, types)                              \
  {"keel",          #op, 1, #types,         "X:T -> Y:T", "", \
   keel_shape_same, 0,   0, KEEL_BY_KERNEL, NULL},
#define KEEL_BINARY_OP(op, types) \
  {"keel",                        \
   #op,                           \
   1,                             \
   #types,                        \
   "A:T B:T -> C:T",              \
   "",                            \
   keel_shape_broadcast,          \
   0,                             \
   0,                             \
   KEEL_BY_KERNEL,                \
   NULL},
#include "defs/elementwise.def"
#define KEEL_OP(op, types, params, attrs, shape)                            \
  {"keel",         #op, 1, #types, params, attrs, keel_shape_##shape, 0, 0, \
   KEEL_BY_KERNEL, NULL},
#define MS_OP(op, types, params, attrs, shape, values)
#include "defs/ops.def"

    {"keel", "Copy", 1, "any", "X:any -> Y:any", "host:i=0", keel_shape_none, 0,
     0, KEEL_COPY, keel_run_copy},
    /* StableHLO's bitcast_convert: as BitCast, and between elements of different sizes with a
     * last dimension for the parts of the larger one */
    {"keel", "Bitcast", 1, "any", "X:any -> Y:any", "to:i!", keel_shape_bitcast,
     0, 0, KEEL_VIEW, keel_run_view},
    /* what a device records, of a function with nodes elsewhere (passes/outline.c) */
    {"keel", "Call", 1, "any", "inputs:any% -> outputs:any%", "body:g!",
     keel_shape_none, 0, KEEL_OP_CONTROL, KEEL_CALL, NULL},
    /* elements of X where they lie; plans make it (passes/parts.c) */
    {"keel", "Part", 1, "any", "X:any -> Y:any", "offset:i=0 strides:I",
     keel_shape_none, 0, 0, KEEL_PART, keel_run_part},
    /* along which a shape is broadcast to another, in which it fits: for gradients */
    {"keel", "BroadcastAxes", 1, "i64", "wide:T narrow:T -> axes:T", "",
     keel_shape_by_content, 0, 0, KEEL_BY_HOST, keel_run_broadcast_axes},
    KEEL("Reorder", "X:T -> Y:T", "", same),
    /* what a device compiled as a whole; plans make it (passes/regions.c) */
    KEEL("Region", "inputs:any% -> outputs:any%", "ops:S", region),
};

static const keel_op_rule rules[] = {{"keel::Find", .traits = KEEL_OP_STRINGS}};

const keel_op_table keel_ops_keel = {KEEL_TABLE_ROWS(rows),
                                     KEEL_TABLE_RULES(rules)};
