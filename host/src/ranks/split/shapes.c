/* shapes.c - rules of ops that move axes. */
#include "ranks/split/split.h"

keel_status keel_split_transpose(keel_splitter *s, bool *out_done) {
  const keel_type *type = keel_split_type(s, 0);
  const int64_t *perm = NULL;
  uint32_t axis = 0;
  if (!type || !keel_split_is_part(s, 0, &axis)) return KD_OK;
  int64_t count = keel_attr_ints(s->node.op, "perm", &perm);
  if (count >= 0 && count != (int64_t)type->rank) return KD_OK;
  for (uint32_t i = 0; i < type->rank; i++) {
    int64_t from = count < 0 ? (int64_t)type->rank - 1 - i : perm[i];
    if (from != axis) continue;
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_PART, i);
  }
  return KD_OK;
}

/* Where an axis of one shape begins in another of as many elements: a dimension of it with as much
 * before it. False: there is none. */
static bool find_axis(const keel_type *from, uint32_t axis, const keel_type *to,
                      uint32_t *out_axis) {
  int64_t before = 1, there = 1;
  for (uint32_t i = 0; i < axis; i++)
    before *= from->dims[i];
  for (uint32_t i = 0; i < to->rank; i++) {
    if (there == before && to->dims[i] != 1) {
      *out_axis = i;
      return true;
    }
    there *= to->dims[i];
  }
  return false;
}

/* Heads of features, or the other way: parts of the one are parts of the other where their
 * dimensions begin at one place, and both can be shared. */
keel_status keel_split_reshape(keel_splitter *s, bool *out_done) {
  const keel_type *from = keel_split_type(s, 0);
  const keel_type *to = keel_split_out_type(s, 0);
  int64_t dims[KD_MAX_RANK];
  uint32_t axis = 0, there = 0, shape = KEEL_ABSENT;
  bool reshape = !strcmp(s->node.op->schema->name, "Reshape");
  if (!from || !to || !from->elements || !keel_split_is_part(s, 0, &axis) ||
      !find_axis(from, axis, to, &there) ||
      !keel_split_divides(s, to->dims[there]))
    return KD_OK;
  if (!reshape && there > 1) return KD_OK;
  if (reshape) {
    memcpy(dims, to->dims, to->rank * sizeof *dims);
    dims[there] /= s->params->size;
    KEEL_TRY(keel_split_ints(s, dims, to->rank, &shape));
    keel_split_take(s, 1, shape);
  }
  *out_done = true;
  return keel_split_give(s, 0, KEEL_SHARE_PART, there);
}

/* A Squeeze that names no axes takes those that are 1: of the whole, not of a part. */
static keel_status name_axes(keel_splitter *s, const keel_type *from) {
  keel_node *node = &s->function->nodes[s->index];
  int64_t axes[KD_MAX_RANK], count = 0;
  uint32_t list = KEEL_ABSENT;
  if (node->input_count > 1 && node->inputs[1] != KEEL_ABSENT)
    return keel_split_take_whole(s, 1);
  for (uint32_t i = 0; i < from->rank; i++)
    if (from->dims[i] == 1) axes[count++] = i;
  KEEL_TRY(keel_split_ints(s, axes, count, &list));
  uint32_t *inputs = keel_arena_take(s->function->arena, 2 * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  node = &s->function->nodes[s->index];
  inputs[0] = node->inputs[0];
  inputs[1] = list;
  node->inputs = inputs;
  node->input_count = 2;
  return KD_OK;
}

/* Dimensions of 1 come or go. */
keel_status keel_split_squeeze(keel_splitter *s, bool *out_done) {
  const keel_type *from = keel_split_type(s, 0);
  const keel_type *to = keel_split_out_type(s, 0);
  uint32_t axis = 0, there = 0;
  if (!from || !to || !from->elements || !keel_split_is_part(s, 0, &axis) ||
      from->dims[axis] == 1)
    return KD_OK;
  for (uint32_t i = 0; i < axis; i++)
    there += from->dims[i] != 1; /* dimensions that stay */
  uint32_t at = 0;
  for (uint32_t i = 0; i < to->rank; i++) {
    if (to->dims[i] == 1) continue;
    if (at++ < there) continue;
    KEEL_TRY(name_axes(s, from));
    *out_done = true;
    return keel_split_give(s, 0, KEEL_SHARE_PART, i);
  }
  return KD_OK;
}
