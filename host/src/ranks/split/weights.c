/* weights.c - a rank's shard of weights: of constants, of those in few bits, and of blocks of
 * others, which are copied when the rank's shard is known. */
#include <kd/help.h>

#include "memory/access.h"
#include "ranks/split/split.h"

/* ---- blocks ---------------------------------------------------------------------------------- */

static const keel_split_later *later_of(const keel_splitter *s,
                                        uint32_t value) {
  const keel_split_later *at = s->later;
  while (at && at->value != value)
    at = at->next;
  return at;
}

bool keel_split_is_later(const keel_splitter *s, uint32_t value) {
  return later_of(s, value) != NULL;
}

keel_status keel_split_copy_block(keel_tensor *whole,
                                  const keel_split_block *block,
                                  keel_tensor **out_tensor) {
  const keel_type *type = whole->type;
  const int64_t dims[] = {block->to[0] - block->from[0],
                          block->to[1] - block->from[1]};
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_to_host(whole, &here));
  keel_status status =
      keel_tensor_create(whole->context, type->dtype, type->rank,
                         dims + (2 - type->rank), NULL, out_tensor);
  uint64_t size = kd_dtype_size(type->dtype);
  uint64_t row = (uint64_t)type->dims[type->rank - 1] * size;
  for (int64_t i = 0; i < dims[0] && status == KD_OK; i++)
    memcpy((char *)(*out_tensor)->data + (uint64_t)(i * dims[1]) * size,
           (const char *)here->data + (uint64_t)(block->from[0] + i) * row +
               (uint64_t)block->from[1] * size,
           (uint64_t)dims[1] * size);
  keel_tensor_release(here);
  return status;
}

/* The rank's part of such weights. */
static keel_status copy_part(keel_splitter *s, const keel_split_later *from,
                             uint32_t axis, uint32_t *out_value) {
  keel_split_block block = from->block;
  keel_tensor *made = NULL;
  int64_t each = (block.to[axis] - block.from[axis]) / s->params->size;
  block.from[axis] += each * s->params->rank;
  block.to[axis] = block.from[axis] + each;
  KEEL_TRY(keel_split_copy_block(from->whole, &block, &made));
  return keel_split_add_constant(s, made, out_value);
}

keel_status keel_split_copy_now(keel_splitter *s, uint32_t value) {
  const keel_split_later *from = later_of(s, value);
  keel_tensor **to = &s->function->values[value].constant;
  return !from || *to ? KD_OK
                      : keel_split_copy_block(from->whole, &from->block, to);
}

/* ---- constants, and values made of them -------------------------------------------------------- */

/* Copies a rank's part of each of some pieces of a tensor along an axis. */
static keel_status cut_each(const keel_splitter *s, keel_tensor *from,
                            uint32_t axis, uint32_t pieces,
                            keel_tensor **out_tensor) {
  const keel_type *type = from->type;
  int64_t dims[KD_MAX_RANK];
  memcpy(dims, type->dims, type->rank * sizeof *dims);
  dims[axis] /= s->params->size;
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_to_host(from, &here));
  keel_status status = keel_tensor_create(from->context, type->dtype,
                                          type->rank, dims, NULL, out_tensor);
  uint64_t inner = kd_dtype_size(type->dtype), outer = 1;
  for (uint32_t i = 0; i < type->rank; i++)
    *(i < axis ? &outer : &inner) *= (uint64_t)dims[i];
  outer *= pieces;
  inner /= pieces;
  for (uint64_t i = 0; i < outer && status == KD_OK && inner; i++)
    memcpy((char *)(*out_tensor)->data + i * inner,
           (const char *)here->data +
               (i * s->params->size + s->params->rank) * inner,
           inner);
  keel_tensor_release(here);
  return status;
}

static keel_status weights_cut(const keel_splitter *s, keel_tensor *from,
                               uint32_t axis, keel_tensor **out_tensor) {
  return cut_each(s, from, axis, 1, out_tensor);
}

/* The node that makes a value of weights in few bits, which are a constant; or NULL. */
static const keel_node *unpacks(const keel_splitter *s, uint32_t value) {
  uint32_t producer = s->function->values[value].producer;
  const keel_node *node =
      producer == KEEL_ABSENT ? NULL : &s->function->nodes[producer];
  if (!node || node->op->schema->name[0] != 'D' ||
      strcmp(node->op->schema->name, "DequantizeLinear") != 0 ||
      keel_attr_int(node->op, "block_size", 0))
    return NULL;
  for (uint32_t i = 0; i < node->input_count; i++) {
    const keel_tensor *constant =
        node->inputs[i] == KEEL_ABSENT
            ? NULL
            : s->function->values[node->inputs[i]].constant;
    if (node->inputs[i] != KEEL_ABSENT &&
        (!constant || constant->kind != KEEL_DATA ||
         !kd_dtype_size(constant->type->dtype)))
      return NULL;
  }
  return node;
}

/* The rank's part of such weights: of the constant, and of its scales where they are along the
 * axis. */
static keel_status unpack_part(keel_splitter *s, const keel_node *node,
                               uint32_t axis, uint32_t *out_value) {
  uint32_t inputs[3] = {KEEL_ABSENT, KEEL_ABSENT, KEEL_ABSENT};
  keel_attr attrs[8];
  const keel_opdef *op = node->op;
  const uint32_t count = node->input_count, attr_count = op->attr_count;
  uint32_t values[3];
  memcpy(values, node->inputs, count * sizeof *values);
  for (uint32_t i = 0; i < attr_count; i++)
    attrs[i] = op->attrs[i].value;
  const keel_type *type = s->function->values[values[0]].constant->type;
  int64_t along = keel_attr_int(op, "axis", 1);
  if (along < 0) along += type->rank;
  for (uint32_t i = 0; i < count; i++) {
    keel_tensor *from = values[i] == KEEL_ABSENT
                            ? NULL
                            : s->function->values[values[i]].constant;
    keel_tensor *made = NULL;
    bool parted =
        from && (i == 0 || (from->type->rank && from->type->dims[0] > 1 &&
                            along == axis));
    inputs[i] = values[i];
    if (!parted) continue;
    KEEL_TRY(weights_cut(s, from, i ? 0 : axis, &made));
    KEEL_TRY(keel_split_add_constant(s, made, &inputs[i]));
  }
  *out_value = KEEL_ABSENT;
  return keel_split_add(s, "DequantizeLinear", attrs, attr_count, inputs, count,
                        out_value);
}

keel_status keel_split_take_part_of_each(keel_splitter *s, uint32_t input,
                                         uint32_t axis, uint32_t pieces) {
  keel_tensor *from = s->function->values[s->node.inputs[input]].constant;
  keel_tensor *made = NULL;
  uint32_t value = KEEL_ABSENT;
  KEEL_TRY(cut_each(s, from, axis, pieces, &made));
  KEEL_TRY(keel_split_add_constant(s, made, &value));
  keel_split_take(s, input, value);
  return KD_OK;
}

bool keel_split_makes_weights(const keel_splitter *s, uint32_t value) {
  return unpacks(s, value) || later_of(s, value);
}

keel_status keel_split_cut_weights(keel_splitter *s, uint32_t value,
                                   uint32_t axis, uint32_t *out_value,
                                   bool *out_done) {
  keel_tensor *constant = s->function->values[value].constant, *made = NULL;
  *out_done = true;
  if (constant && constant->kind == KEEL_DATA &&
      kd_dtype_size(constant->type->dtype)) {
    KEEL_TRY(weights_cut(s, constant, axis, &made));
    return keel_split_add_constant(s, made, out_value);
  }
  if (later_of(s, value))
    return copy_part(s, later_of(s, value), axis, out_value);
  if (unpacks(s, value))
    return unpack_part(s, unpacks(s, value), axis, out_value);
  *out_done = false;
  return KD_OK;
}
