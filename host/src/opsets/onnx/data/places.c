/* places.c - elements that are gathered from places, and scattered to them: shapes, forms of older
 * opsets, views, work, derivatives. The op itself, of the numbers of x's elements, says which one
 * each element of y is, and there its gradient is added. */
#include <kd/help.h>

#include "opsets/onnx/training/gradient.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/parts.h"
#include "passes/work.h"

/* ---- shapes ------------------------------------------------------------------ */

keel_status keel_shape_gather(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0), in->rank,
                           &axis));
  keel_dims dims = {0};
  if (in->rank + indices->rank - 1 > KD_MAX_RANK)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many dimensions");
  for (uint32_t i = 0; i < axis; i++)
    dims.dims[dims.rank++] = in->dims[i];
  for (uint32_t i = 0; i < indices->rank; i++)
    dims.dims[dims.rank++] = indices->dims[i];
  for (uint32_t i = axis + 1; i < in->rank; i++)
    dims.dims[dims.rank++] = in->dims[i];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_gather_elements(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1];
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0), in->rank,
                           &axis));
  bool fits = indices->rank == in->rank;
  for (uint32_t i = 0; fits && i < in->rank; i++)
    fits = i == axis || indices->dims[i] <= in->dims[i];
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "indices must fit into data beside axis %u",
                           (unsigned)axis);
  keel_dims dims = keel_dims_of(indices);
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_gather_nd(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1];
  int64_t batch = keel_attr_int(infer->op, "batch_dims", 0);
  if (!indices->rank || batch < 0 || batch >= (int64_t)indices->rank ||
      batch >= (int64_t)in->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "batch_dims is %lld; it must be 0 or more, and less "
                           "than the ranks of data and indices",
                           (long long)batch);
  int64_t depth = indices->dims[indices->rank - 1];
  if (depth < 1 || depth > (int64_t)in->rank - batch)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the last dimension of indices is %lld; it must be "
                           "from 1 to the rank of data less batch_dims",
                           (long long)depth);
  for (int64_t i = 0; i < batch; i++)
    if (in->dims[i] != indices->dims[i])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "batch dimension %lld of data and indices differs",
                             (long long)i);
  keel_dims dims = {0};
  if (indices->rank - 1 + in->rank - (uint32_t)(batch + depth) > KD_MAX_RANK)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many dimensions");
  for (uint32_t i = 0; i + 1 < indices->rank; i++)
    dims.dims[dims.rank++] = indices->dims[i];
  for (uint32_t i = (uint32_t)(batch + depth); i < in->rank; i++)
    dims.dims[dims.rank++] = in->dims[i];
  return keel_infer_dims(infer, 0, &dims);
}

/* ScatterND: updates are indices' dims but the last, then data's rest. */
static keel_status scatter_nd(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1],
                  *updates = infer->in[2];
  int64_t depth = indices->rank ? indices->dims[indices->rank - 1] : 0;
  bool fits = depth >= 1 && depth <= (int64_t)in->rank &&
              updates->rank == indices->rank - 1 + in->rank - (uint32_t)depth;
  for (uint32_t i = 0; fits && i < updates->rank; i++)
    fits = updates->dims[i] ==
           (i + 1 < indices->rank
                ? indices->dims[i]
                : in->dims[i - (indices->rank - 1) + (uint32_t)depth]);
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "updates do not fit data and indices");
  return keel_shape_same(infer);
}

keel_status keel_shape_scatter(keel_infer *infer) {
  const keel_type *in = infer->in[0], *indices = infer->in[1],
                  *updates = infer->in[2];
  uint32_t axis = 0;
  if (!strcmp(infer->op->schema->name, "ScatterND")) return scatter_nd(infer);
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0), in->rank,
                           &axis));
  bool fits = indices->rank == in->rank && updates->rank == in->rank;
  for (uint32_t i = 0; fits && i < in->rank; i++)
    fits = indices->dims[i] == updates->dims[i] &&
           (i == axis || indices->dims[i] <= in->dims[i]);
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "updates and indices must be alike and fit data");
  return keel_shape_same(infer);
}

/* ---- older opsets ------------------------------------------------------------ */

static keel_status old_scatter(keel_draft *draft) {
  draft->op = "ScatterElements";
  return KD_OK;
}

/* ---- views ------------------------------------------------------------------- */

/* One index of a dimension, which goes. */
static bool view_gather(const struct keel_parts *all, const keel_node *node,
                        uint32_t output, keel_strides *out) {
  const keel_type *in = keel_parts_type(all, node->inputs[0]);
  int64_t axis = keel_attr_int(node->op, "axis", 0), index = 0;
  (void)output;
  const keel_type *indices = keel_parts_type(all, node->inputs[1]);
  axis += axis < 0 ? in->rank : 0;
  if (!indices || indices->rank ||
      keel_parts_ints(all, node, 1, &index, 1) != 1)
    return false;
  index += index < 0 ? in->dims[axis] : 0;
  if (index < 0 || index >= in->dims[axis]) return false;
  out->offset = index * out->strides[axis];
  out->rank--;
  for (uint32_t i = (uint32_t)axis; i < out->rank; i++)
    out->strides[i] = out->strides[i + 1];
  return true;
}

/* ---- derivatives ------------------------------------------------------------- */

/* The node's op on 0, 1, 2 ... in the shape of x. */
static uint32_t gradient_places_of(keel_gradient *g) {
  uint32_t n = g->node.input_count, place = 0;
  uint32_t *inputs = keel_arena_take(g->all->function->arena,
                                     (n + (size_t)1) * sizeof *inputs);
  if (!inputs) {
    g->all->status = KD_OUT_OF_MEMORY;
    return KEEL_ABSENT;
  }
  inputs[0] =
      keel_gradient_text(g, "Reshape(range(Reshape(Size($0), {1})), dims($0))");
  for (uint32_t i = 1; i < n; i++)
    inputs[i] = keel_gradient_in(g, i);
  keel_emit_again(g->all, g->node.op, inputs, n, &place, 1);
  return place;
}

/* Zeros in the shape of x, and to each place its gradient added. */
void keel_gradient_by_places(keel_gradient *g) {
  keel_gradient_text(
      g,
      "sums = ScatterElements[reduction=add]("
      "    Reshape(Expand(0~$0, dims($0)), {-1}), Reshape(%v, {-1}),"
      "    Reshape(^0, {-1}));"
      "$0 = Reshape(sums, dims($0))",
      gradient_places_of(g));
}

/* The data's is gone where updates took its place, and there is that of the updates. */
static void scattered(keel_gradient *g, const char *text) {
  const char *how = keel_attr_string(g->node.op, "reduction", "none");
  if (strcmp(how, "none") != 0 && strcmp(how, "add") != 0)
    keel_gradient_refuse(g,
                         "has a gradient in Keel with reduction none and"
                         " add only");
  else
    keel_gradient_text(g, text);
}

#define OF_DATA \
  "$0 = @reduction=none ? self(^0, $1, Expand(0~$2, dims($2))) : ^0"
static void scatter_elements(keel_gradient *g) {
  scattered(g, "$2 = GatherElements[axis=@axis](^0, $1); " OF_DATA);
}
static void gradient_scatter_nd(keel_gradient *g) {
  scattered(g, "$2 = GatherND(^0, $1); " OF_DATA);
}

/* ---- rows -------------------------------------------------------------------- */

static const keel_op_upgrade upgrades[] = {
    {"Scatter", 1, 99, old_scatter},
};

static const keel_op_rule rules[] = {
    {"Gather", .gradient = keel_gradient_by_places, .view = view_gather,
     .traits = KEEL_OP_STRINGS | KEEL_OP_PICKS},
    {"GatherElements", .gradient = keel_gradient_by_places,
     .traits = KEEL_OP_STRINGS | KEEL_OP_PICKS},
    {"GatherND", .gradient = keel_gradient_by_places,
     .traits = KEEL_OP_STRINGS | KEEL_OP_PICKS},
    {"ScatterElements", .gradient = scatter_elements,
     .traits = KEEL_OP_STRINGS},
    {"ScatterND", .gradient = gradient_scatter_nd, .traits = KEEL_OP_STRINGS},
    {"NonMaxSuppression", .steps = keel_work_square},
    {"Unique", .steps = keel_work_square, .traits = KEEL_OP_STRINGS},
    {"Compress", .traits = KEEL_OP_STRINGS},
};

const keel_op_table keel_ops_places = {KEEL_TABLE_RULES(rules),
                                       KEEL_TABLE_UPGRADES(upgrades)};
