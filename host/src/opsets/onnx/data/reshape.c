/* reshape.c - the same elements in another shape or order: shapes, forms of older opsets, views,
 * derivatives. */
#include <kd/help.h>

#include "opsets/onnx/training/gradient.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/parts.h"

/* ---- shapes ------------------------------------------------------------------ */

keel_status keel_shape_transpose(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  const int64_t *perm = NULL;
  int64_t count = keel_attr_ints(infer->op, "perm", &perm);
  keel_dims dims = {.rank = in->rank};
  bool used[KD_MAX_RANK] = {false};
  if (count >= 0 && count != in->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "perm has %lld entries, and the input %u dimensions",
                           (long long)count, (unsigned)in->rank);
  for (uint32_t i = 0; i < in->rank; i++) {
    int64_t from = count >= 0 ? perm[i] : (int64_t)in->rank - 1 - i;
    if (from < 0 || from >= (int64_t)in->rank || used[from])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "perm is not a permutation");
    used[from] = true;
    dims.dims[i] = in->dims[from];
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_reshape(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  keel_dims dims = {0};
  int64_t count = keel_infer_ints(infer, 1, dims.dims, KD_MAX_RANK);
  bool zero = keel_attr_int(infer->op, "allowzero", 0) != 0;
  int64_t product = 1, open = -1;
  if (count < 0) return KD_INVALID_ARGUMENT;
  dims.rank = (uint32_t)count;
  for (uint32_t i = 0; i < dims.rank; i++) {
    if (dims.dims[i] == 0 && !zero) {
      if (i >= in->rank)
        return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                               "shape[%u] is 0, and data has no such dimension",
                               (unsigned)i);
      dims.dims[i] = in->dims[i];
    }
    if (dims.dims[i] == -1 && open < 0)
      open = i;
    else if (dims.dims[i] < 0 || !keel_mul_i64(product, dims.dims[i], &product))
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT,
          "shape[%u] is %lld; it can be 0 or more, or -1 once", (unsigned)i,
          (long long)dims.dims[i]);
  }
  if (open >= 0) {
    if (product == 0 || in->elements % product)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "%lld elements do not fill the shape",
                             (long long)in->elements);
    dims.dims[open] = in->elements / product;
    product = in->elements;
  }
  if (product != in->elements)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the shape has %lld elements and the data %lld",
                           (long long)product, (long long)in->elements);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_flatten(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t axis = keel_attr_int(infer->op, "axis", 1);
  if (axis < -(int64_t)in->rank || axis > (int64_t)in->rank)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT, "axis is %lld; it can be from -%u to %u",
        (long long)axis, (unsigned)in->rank, (unsigned)in->rank);
  if (axis < 0) axis += in->rank;
  keel_dims dims = {.rank = 2, .dims = {1, 1}};
  for (uint32_t i = 0; i < in->rank; i++)
    dims.dims[i >= axis] *= in->dims[i];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_squeeze(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t axes[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, axes, KD_MAX_RANK);
  uint32_t gone = 0;
  if (count < 0) return KD_INVALID_ARGUMENT;
  bool all = !keel_infer_in(infer, 1);
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = 0;
    KEEL_TRY(keel_infer_new_axis(infer, axes[i], in->rank, &gone, &axis));
    if (in->dims[axis] != 1)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "axis %u has %lld elements, not 1", (unsigned)axis,
                             (long long)in->dims[axis]);
  }
  keel_dims dims = {0};
  for (uint32_t i = 0; i < in->rank; i++)
    if (!(gone >> i & 1) && !(all && in->dims[i] == 1))
      dims.dims[dims.rank++] = in->dims[i];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_unsqueeze(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t axes[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, axes, KD_MAX_RANK);
  uint32_t fresh = 0;
  if (count < 0) return KD_INVALID_ARGUMENT;
  keel_dims dims = {.rank = in->rank + (uint32_t)count};
  if (dims.rank > KD_MAX_RANK)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many dimensions");
  for (int64_t i = 0; i < count; i++) {
    uint32_t axis = 0;
    KEEL_TRY(keel_infer_new_axis(infer, axes[i], dims.rank, &fresh, &axis));
  }
  for (uint32_t i = 0, from = 0; i < dims.rank; i++)
    dims.dims[i] = fresh >> i & 1 ? 1 : in->dims[from++];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_reverse_sequence(keel_infer *infer) {
  const keel_type *in = infer->in[0], *lengths = infer->in[1];
  int64_t batch = keel_attr_int(infer->op, "batch_axis", 1);
  int64_t time = keel_attr_int(infer->op, "time_axis", 0);
  if (in->rank < 2 || batch < 0 || batch > 1 || time != 1 - batch)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "batch_axis is %lld and time_axis %lld, and one has to"
        " be 0, the other 1",
        (long long)batch, (long long)time);
  if (lengths->rank != 1 || lengths->dims[0] != in->dims[batch])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "one length is needed for each of %lld sequences",
                           (long long)in->dims[batch]);
  return keel_shape_same(infer);
}

keel_status keel_shape_depth_to_space(keel_infer *infer) {
  int64_t b = keel_attr_int(infer->op, "blocksize", 0);
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (dims.rank != 4 || b < 1 || b > 65536 || dims.dims[1] % (b * b))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs N,C,H,W with C a multiple of blocksize %lld"
                           " squared",
                           (long long)b);
  dims.dims[1] /= b * b;
  KEEL_TRY(keel_infer_grow(infer, &dims.dims[2], b));
  KEEL_TRY(keel_infer_grow(infer, &dims.dims[3], b));
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_space_to_depth(keel_infer *infer) {
  int64_t b = keel_attr_int(infer->op, "blocksize", 0);
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (dims.rank != 4 || b < 1 || b > 65536 || dims.dims[2] % b ||
      dims.dims[3] % b)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs N,C,H,W with H and W multiples of blocksize"
                           " %lld",
                           (long long)b);
  KEEL_TRY(keel_infer_grow(infer, &dims.dims[1], b * b));
  dims.dims[2] /= b;
  dims.dims[3] /= b;
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- views and derivatives --------------------------------------------------- */

static bool view_transpose(const struct keel_parts *all, const keel_node *node,
                           uint32_t index, keel_strides *out) {
  const keel_type *in = keel_parts_type(all, node->inputs[0]);
  (void)index;
  const int64_t *perm = NULL;
  keel_strides p = *out;
  int64_t count = keel_attr_ints(node->op, "perm", &perm);
  for (uint32_t i = 0; i < in->rank; i++)
    out->strides[i] =
        p.strides[count >= 0 ? (uint32_t)perm[i] : in->rank - 1 - i];
  return true;
}

static void transpose(keel_gradient *g) {
  const int64_t *perm = NULL;
  int64_t back[KD_MAX_RANK] = {0};
  int64_t rank = keel_attr_ints(g->node.op, "perm", &perm);
  for (int64_t i = 0; i < rank && rank <= KD_MAX_RANK; i++)
    if (perm[i] >= 0 && perm[i] < rank) back[perm[i]] = i;
  /* without perm it is the other way round: again */
  keel_gradient_text(g, "$0 = %b ? Transpose(^0) : Transpose[perm=%l](^0)",
                     rank < 0, back, rank);
}

/* ---- rows -------------------------------------------------------------------- */

#define RESHAPED "$0 = Reshape(^0, dims($0))"

static const keel_op_upgrade upgrades[] = {
    {"Squeeze", 1, 13, keel_upgrade_axes},
    {"Unsqueeze", 1, 13, keel_upgrade_axes},
};

static const keel_op_rule rules[] = {
    {"Reshape", .slopes = RESHAPED, .traits = KEEL_OP_STRINGS | KEEL_OP_MOVES},
    {"Flatten", .slopes = RESHAPED, .traits = KEEL_OP_STRINGS | KEEL_OP_MOVES},
    {"Squeeze", .slopes = RESHAPED,
     .traits = KEEL_OP_STRINGS | KEEL_OP_MOVES | KEEL_OP_RANKS},
    {"Unsqueeze", .slopes = RESHAPED,
     .traits = KEEL_OP_STRINGS | KEEL_OP_MOVES},
    {"Transpose", .gradient = transpose, .view = view_transpose,
     .traits = KEEL_OP_STRINGS | KEEL_OP_MOVES | KEEL_OP_PERMUTES},
    {"DepthToSpace", .gradient = keel_gradient_by_places,
     .traits = KEEL_OP_STRINGS},
    {"SpaceToDepth", .gradient = keel_gradient_by_places,
     .traits = KEEL_OP_STRINGS},
    {"ReverseSequence", .gradient = keel_gradient_by_places,
     .traits = KEEL_OP_STRINGS},
};

const keel_op_table keel_ops_reshape = {KEEL_TABLE_RULES(rules),
                                        KEEL_TABLE_UPGRADES(upgrades)};
