/* along_axes.c - rules of ops that work along some axes, independently for each position of the
 * others. */
#include "ranks/split/split.h"

/* All outputs are parts along the axis; all other inputs are wholes. */
static keel_status give_all(keel_splitter *s, uint32_t axis, bool *out_done) {
  for (uint32_t i = 1; i < s->node.input_count; i++)
    KEEL_TRY(keel_split_take_whole(s, i));
  for (uint32_t i = 0; i < s->node.output_count; i++)
    KEEL_TRY(keel_split_give(s, i, KEEL_SHARE_PART, axis));
  *out_done = true;
  return KD_OK;
}

/* An axis of the first input, counted from its end if it is below 0; false: it does not exist. */
static bool read_axis(const keel_splitter *s, int64_t from,
                      uint32_t *out_axis) {
  const keel_type *type = keel_split_type(s, 0);
  if (!type) return false;
  int64_t axis = from < 0 ? from + type->rank : from;
  *out_axis = (uint32_t)axis;
  return axis >= 0 && axis < (int64_t)type->rank;
}

/* TopK: along its axis. */
keel_status keel_split_topk(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0, own = 0;
  if (!keel_split_is_part(s, 0, &axis) ||
      !read_axis(s, keel_attr_int(s->node.op, "axis", -1), &own) || own == axis)
    return KD_OK;
  return give_all(s, axis, out_done);
}

/* ArgMax, ArgMin: the axis goes, or stays with one element. */
keel_status keel_split_arg(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0, own = 0;
  if (!keel_split_is_part(s, 0, &axis) ||
      !read_axis(s, keel_attr_int(s->node.op, "axis", 0), &own) || own == axis)
    return KD_OK;
  bool gone = !keel_attr_int(s->node.op, "keepdims", 1) && own < axis;
  return give_all(s, axis - gone, out_done);
}

/* An input of integers that are known; NULL: it is none. */
static const int64_t *known_ints(const keel_splitter *s, uint32_t input,
                                 int64_t *out_count) {
  const keel_tensor *list = keel_split_constant(s, input);
  if (!list || list->type->dtype != KD_I64) return NULL;
  *out_count = list->type->elements;
  return list->data;
}

/* Whether an input names axes, and this one is not among them. */
static bool leaves_axis(const keel_splitter *s, uint32_t input, uint32_t axis) {
  int64_t count = 0;
  const int64_t *axes = known_ints(s, input, &count);
  uint32_t own = 0;
  for (int64_t i = 0; axes && i < count; i++)
    if (!read_axis(s, axes[i], &own) || own == axis) return false;
  return axes && count;
}

/* CumSum: its second input is the axis. */
keel_status keel_split_cumsum(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  if (!keel_split_is_part(s, 0, &axis) || !leaves_axis(s, 1, axis))
    return KD_OK;
  return give_all(s, axis, out_done);
}

keel_status keel_split_slice(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  if (!keel_split_is_part(s, 0, &axis) || !leaves_axis(s, 3, axis))
    return KD_OK;
  return give_all(s, axis, out_done);
}

/* Nothing is put before or behind along the axis. */
keel_status keel_split_pad(keel_splitter *s, bool *out_done) {
  const keel_type *type = keel_split_type(s, 0);
  uint32_t axis = 0;
  int64_t count = 0;
  const int64_t *pads = known_ints(s, 1, &count);
  bool axes = s->node.input_count > 3 && s->node.inputs[3] != KEEL_ABSENT;
  if (!type || !pads || !keel_split_is_part(s, 0, &axis)) return KD_OK;
  bool plain = axes ? leaves_axis(s, 3, axis)
                    : count == 2 * (int64_t)type->rank && !pads[axis] &&
                          !pads[axis + type->rank];
  return plain ? give_all(s, axis, out_done) : KD_OK;
}

/* To a shape that is as long along the axis: the rank's part of it. */
keel_status keel_split_expand(keel_splitter *s, bool *out_done) {
  const keel_type *from = keel_split_type(s, 0),
                  *to = keel_split_out_type(s, 0);
  int64_t dims[KD_MAX_RANK];
  uint32_t axis = 0, shape = KEEL_ABSENT;
  if (!from || !to || !keel_split_is_part(s, 0, &axis)) return KD_OK;
  axis += to->rank - from->rank;
  if (!keel_split_divides(s, to->dims[axis])) return KD_OK;
  memcpy(dims, to->dims, to->rank * sizeof *dims);
  dims[axis] /= s->params->size;
  KEEL_TRY(keel_split_ints(s, dims, to->rank, &shape));
  keel_split_take(s, 1, shape);
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, axis);
}

/* Each of the batch alone; what it does along channels and places stays. */
keel_status keel_split_batch_only(keel_splitter *s, bool *out_done) {
  uint32_t axis = 0;
  if (!keel_split_is_part(s, 0, &axis) || axis) return KD_OK;
  return give_all(s, axis, out_done);
}
