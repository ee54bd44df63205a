/* views.c - ops whose results are elements of their first input, which kernels may read where they
 * lie (passes/parts.c). */
#include "opsets/tables.h"
#include "passes/parts.h"

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

static bool view_slice(const struct keel_parts *all, const keel_node *node,
                       uint32_t index, keel_strides *out) {
  const keel_type *in = keel_parts_type(all, node->inputs[0]);
  (void)index;
  int64_t values[4][KD_MAX_RANK], counts[4];
  for (uint32_t i = 0; i < 4; i++) {
    counts[i] = keel_parts_ints(all, node, i + 1, values[i], KD_MAX_RANK);
    if (counts[i] < 0) return false;
  }
  bool axes = node->input_count > 3 && node->inputs[3] != KEEL_ABSENT;
  bool steps = node->input_count > 4 && node->inputs[4] != KEEL_ABSENT;
  for (int64_t i = 0; i < counts[0]; i++) {
    int64_t axis = axes ? values[2][i] : i, step = steps ? values[3][i] : 1;
    axis += axis < 0 ? in->rank : 0;
    int64_t dim = in->dims[axis], start = values[0][i];
    start += start < 0 ? dim : 0;
    start = start < 0 ? 0 : start > dim ? dim : start;
    if (step < 1 || step > dim + 1) return false;
    out->offset += start * out->strides[axis];
    out->strides[axis] *= step;
  }
  return true;
}

static bool view_expand(const struct keel_parts *all, const keel_node *node,
                        uint32_t index, keel_strides *out) {
  const keel_type *in = keel_parts_type(all, node->inputs[0]);
  const keel_type *to = keel_parts_type(all, node->outputs[index]);
  keel_strides p = *out;
  out->rank = to->rank;
  for (uint32_t i = 0; i < to->rank; i++) {
    uint32_t lead = to->rank - in->rank;
    bool own = to->rank >= in->rank && i >= lead && in->dims[i - lead] != 1;
    out->strides[i] = own ? p.strides[i - lead] : 0;
  }
  return to->rank >= in->rank;
}

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

static bool view_split(const struct keel_parts *all, const keel_node *node,
                       uint32_t index, keel_strides *out) {
  const keel_type *in = keel_parts_type(all, node->inputs[0]);
  int64_t axis = keel_attr_int(node->op, "axis", 0);
  axis += axis < 0 ? in->rank : 0;
  for (uint32_t i = 0; i < index; i++) {
    const keel_type *before = keel_parts_type(all, node->outputs[i]);
    if (!before) return false;
    out->offset += before->dims[axis] * out->strides[axis];
  }
  return true;
}

static const keel_op_rule rules[] = {
    {"Transpose", .view = view_transpose}, {"Slice", .view = view_slice},
    {"Expand", .view = view_expand},       {"Gather", .view = view_gather},
    {"Split", .view = view_split},
};

const keel_op_table keel_ops_views = {KEEL_TABLE_RULES(rules)};
