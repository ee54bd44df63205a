/* pieces.c - joining, cutting, repeating and padding: shapes, forms of older opsets, views,
 * derivatives. */
#include <kd/help.h>

#include "opsets/onnx/training/gradient.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/parts.h"

/* ---- shapes ------------------------------------------------------------------ */

keel_status keel_shape_expand(keel_infer *infer) {
  int64_t shape[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, shape, KD_MAX_RANK);
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (count < 0) return KD_INVALID_ARGUMENT;
  if (!keel_dims_broadcast(&dims, (uint32_t)count, shape))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the input does not broadcast to the shape");
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_concat(keel_infer *infer) {
  uint32_t axis = 0;
  keel_dims dims = keel_dims_of(infer->in[0]);
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0),
                           dims.rank, &axis));
  for (uint32_t i = 1; i < infer->input_count; i++) {
    const keel_type *in = infer->in[i];
    if (!in)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "input %u is missing",
                             (unsigned)i);
    bool fits = in->rank == dims.rank;
    for (uint32_t d = 0; fits && d < in->rank; d++)
      fits = d == axis || in->dims[d] == dims.dims[d];
    if (!fits)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT,
          "input %u differs in a dimension other than axis %u", (unsigned)i,
          (unsigned)axis);
    if (__builtin_add_overflow(dims.dims[axis], in->dims[axis],
                               &dims.dims[axis]))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "it is too long");
  }
  return keel_infer_dims(infer, 0, &dims);
}

/* Sizes of the parts, as the second input lists them or in equal parts; room is for
 * `parts`. */
static keel_status part_sizes(keel_infer *infer, int64_t total, uint32_t parts,
                              int64_t *sizes) {
  int64_t count = parts, sum = 0;
  int64_t named = keel_attr_int(infer->op, "num_outputs", parts);
  if (named != parts)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "num_outputs is %lld, and %u outputs are asked for",
                           (long long)named, (unsigned)parts);
  if (keel_infer_in(infer, 1)) {
    count = keel_infer_ints(infer, 1, sizes, parts);
    if (count < 0) return KD_INVALID_ARGUMENT;
    for (int64_t i = 0; i < count; i++)
      sum +=
          keel_is_plausible(sizes[i]) && sizes[i] >= 0 ? sizes[i] : total + 1;
  } else {
    int64_t each = total / parts + (total % parts != 0);
    for (int64_t i = 0; i < count; i++) {
      sizes[i] = total - sum < each ? total - sum : each;
      sum += sizes[i];
    }
  }
  if (count == parts && sum == total) return KD_OK;
  return keel_infer_fail(
      infer, KD_INVALID_ARGUMENT,
      "split asks for %lld parts of %lld elements in total, but"
      " there are %u parts of %lld",
      (long long)count, (long long)sum, (unsigned)parts, (long long)total);
}

keel_status keel_shape_split(keel_infer *infer) {
  uint32_t axis = 0, parts = infer->output_count;
  keel_dims dims = keel_dims_of(infer->in[0]);
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 0),
                           dims.rank, &axis));
  int64_t few[64], *sizes = few;
  if (parts > KEEL_COUNT_OF(few)) sizes = malloc(parts * sizeof *sizes);
  if (!sizes) return keel_no_memory(parts * sizeof *sizes);
  keel_status status = part_sizes(infer, dims.dims[axis], parts, sizes);
  kd_dtype dtype = infer->dtypes[0];
  for (uint32_t i = 0; i < parts && status == KD_OK && !infer->unknown; i++) {
    infer->dtypes[i < KEEL_COUNT_OF(infer->dtypes) ? i : 0] = dtype;
    dims.dims[axis] = sizes[i];
    status = keel_infer_dims(infer, i, &dims);
  }
  if (sizes != few) free(sizes);
  return status;
}

/* Elements of start, start + step, ... before end, in a dimension (ONNX Slice,
 * numpy's rule). */
static int64_t slice_length(int64_t dim, int64_t start, int64_t end,
                            int64_t step) {
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1;
  start += start < 0 ? dim : 0;
  end += end < 0 ? dim : 0;
  start = start < low ? low : start > high ? high : start;
  end = end < low ? low : end > high ? high : end;
  int64_t span = step > 0 ? end - start : start - end;
  int64_t stride = step > 0 ? step : step == INT64_MIN ? INT64_MAX : -step;
  return span <= 0 ? 0 : (span - 1) / stride + 1;
}

keel_status keel_shape_slice(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t values[4][KD_MAX_RANK];
  int64_t counts[4] = {0};
  for (uint32_t i = 0; i < 4; i++) {
    counts[i] = keel_infer_ints(infer, i + 1, values[i], KD_MAX_RANK);
    if (counts[i] < 0) return KD_INVALID_ARGUMENT;
  }
  bool axes = keel_infer_in(infer, 3) != NULL;
  bool steps = keel_infer_in(infer, 4) != NULL;
  if (counts[0] != counts[1] || (axes && counts[2] != counts[0]) ||
      (steps && counts[3] != counts[0]) || counts[0] > (int64_t)in->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "starts, ends, axes and steps differ in length");
  keel_dims dims = keel_dims_of(in);
  uint32_t seen = 0;
  for (int64_t i = 0; i < counts[0]; i++) {
    uint32_t axis = 0;
    int64_t step = steps ? values[3][i] : 1;
    KEEL_TRY(keel_infer_new_axis(infer, axes ? values[2][i] : i, in->rank,
                                 &seen, &axis));
    if (step == 0)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "a step is 0");
    dims.dims[axis] =
        slice_length(in->dims[axis], values[0][i], values[1][i], step);
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_pad(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t pads[2 * KD_MAX_RANK], axes[KD_MAX_RANK];
  int64_t count = keel_infer_ints(infer, 1, pads, 2 * KD_MAX_RANK);
  int64_t named = keel_infer_ints(infer, 3, axes, KD_MAX_RANK);
  if (count < 0 || named < 0) return KD_INVALID_ARGUMENT;
  if (!keel_infer_in(infer, 3)) {
    named = in->rank;
    for (uint32_t i = 0; i < in->rank; i++)
      axes[i] = i;
  }
  if (count != 2 * named)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "pads has %lld entries, not %lld", (long long)count,
                           (long long)(2 * named));
  keel_dims dims = keel_dims_of(in);
  uint32_t seen = 0;
  for (int64_t i = 0; i < named; i++) {
    uint32_t axis = 0;
    KEEL_TRY(keel_infer_new_axis(infer, axes[i], in->rank, &seen, &axis));
    if (!keel_is_plausible(pads[i]) || !keel_is_plausible(pads[i + named]))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "pads are too large");
    dims.dims[axis] += pads[i] + pads[i + named];
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_tile(keel_infer *infer) {
  int64_t repeats[KD_MAX_RANK];
  keel_dims dims = keel_dims_of(infer->in[0]);
  int64_t count = keel_infer_ints(infer, 1, repeats, KD_MAX_RANK);
  if (count < 0) return KD_INVALID_ARGUMENT;
  if (count != dims.rank)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "repeats has %lld entries, and the input %u dimensions",
        (long long)count, (unsigned)dims.rank);
  for (uint32_t i = 0; i < dims.rank; i++)
    if (repeats[i] < 0 ||
        !keel_mul_i64(dims.dims[i], repeats[i], &dims.dims[i]))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "repeats[%u] is %lld, negative or too large",
                             (unsigned)i, (long long)repeats[i]);
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- older opsets ------------------------------------------------------------ */

static keel_status old_slice(keel_draft *draft) {
  KEEL_TRY(keel_upgrade_ints(draft, "starts", 1));
  KEEL_TRY(keel_upgrade_ints(draft, "ends", 2));
  return keel_upgrade_ints(draft, "axes", 3);
}

static keel_status old_pad(keel_draft *draft) {
  KEEL_TRY(keel_upgrade_ints(draft, "pads", 1));
  return keel_upgrade_float(draft, "value", 2);
}

/* How many parts there are depends on how many outputs are written, whether or not
 * anything reads them. */
static keel_status new_split(keel_draft *draft) {
  draft->output_count = draft->outputs_written;
  for (uint32_t i = 0; i < draft->output_count; i++) {
    if (draft->outputs[i] != KEEL_ABSENT) continue;
    draft->outputs[i] = keel_function_value(draft->function, "");
    if (draft->outputs[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  return KD_OK;
}

static keel_status old_split(keel_draft *draft) {
  KEEL_TRY(keel_upgrade_ints(draft, "split", 1));
  return new_split(draft);
}

/* ---- views ------------------------------------------------------------------- */

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

/* ---- derivatives ------------------------------------------------------------- */

static void concat(keel_gradient *g) {
  uint32_t begin = keel_emit_int(g->all, 0);
  for (uint32_t i = 0; i < g->node.input_count; i++) {
    uint32_t end = keel_gradient_text(g, "%v + Gather(dims(%v), {@axis})",
                                      begin, keel_gradient_in(g, i));
    keel_gradient_give(
        g, i, keel_gradient_text(g, "Slice(^0, %v, %v, {@axis})", begin, end));
    begin = end;
  }
}

/* Parts without a reader have a gradient of 0. */
static void gradient_split(keel_gradient *g) {
  uint32_t n = g->node.output_count;
  uint32_t *parts =
      keel_arena_take(g->all->function->arena, (n + (size_t)1) * sizeof *parts);
  if (!parts) {
    g->all->status = KD_OUT_OF_MEMORY;
    return;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t out = keel_gradient_out(g, i), got = keel_gradient_got(g, i);
    if (out == KEEL_ABSENT) {
      keel_gradient_refuse(g,
                           "has an output without a name, and no gradient"
                           " so; name all of them");
      return;
    }
    parts[i] = got != KEEL_ABSENT
                   ? got
                   : keel_gradient_text(g, "Expand(0~%v, dims(%v))", out, out);
  }
  int64_t axis = keel_attr_int(g->node.op, "axis", 0);
  keel_gradient_give(g, 0, keel_emit_concat(g->all, axis, parts, n));
}

/* With constants it is cut off again, which is padding by less than nothing. */
static void pad(keel_gradient *g) {
  if (keel_gradient_wants(g, 2))
    keel_gradient_refuse(g, "has no gradient in Keel for its constant");
  else if (!strcmp(keel_attr_string(g->node.op, "mode", "constant"),
                   "constant"))
    keel_gradient_text(g, "$0 = Pad(^0, -$1, _, $3)");
  else
    keel_gradient_by_places(g);
}

/* ---- rows -------------------------------------------------------------------- */

static const keel_op_upgrade upgrades[] = {
    {"Slice", 1, 10, old_slice},
    {"Pad", 1, 11, old_pad},
    {"Split", 1, 13, old_split},
    {"Split", 13, 99, new_split},
};

static const keel_op_rule rules[] = {
    {"Expand", .slopes = "$0 ~= ^0", .view = view_expand,
     .traits = KEEL_OP_STRINGS},
    {"Concat", .gradient = concat,
     .traits = KEEL_OP_STRINGS | KEEL_OP_JOINS | KEEL_OP_HANDS_ON},
    {"Split", .gradient = gradient_split, .view = view_split,
     .traits = KEEL_OP_STRINGS | KEEL_OP_CUTS | KEEL_OP_HANDS_ON},
    {"Slice", .gradient = keel_gradient_by_places, .view = view_slice,
     .traits = KEEL_OP_STRINGS | KEEL_OP_HANDS_ON | KEEL_OP_PICKS},
    {"Pad", .gradient = pad, .traits = KEEL_OP_STRINGS},
    {"Tile", .gradient = keel_gradient_by_places, .traits = KEEL_OP_STRINGS},
    {"Trilu", .slopes = "$0 = self(^0, $1)"},
};

const keel_op_table keel_ops_pieces = {KEEL_TABLE_RULES(rules),
                                       KEEL_TABLE_UPGRADES(upgrades)};
