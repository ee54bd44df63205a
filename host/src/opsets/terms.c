/* terms.c - frequent terms of ONNX's ops. */
#include "opsets/terms.h"

#include <math.h>

#include "base/float.h"

static uint32_t scalar(keel_emit *e, kd_dtype dtype, double number) {
  char bytes[8] = {0};
  keel_float_encode(dtype, number, bytes);
  return keel_emit_constant(e, dtype, 0, NULL, bytes);
}

/* Nodes that are looked at for an element type. */
#define MAKERS_MOST 64

/* The input whose element type an output of the node has, or KEEL_ABSENT. */
static uint32_t typed_like(const keel_node *node, const keel_param *param) {
  const char *name = node->op->schema->name;
  if (!strcmp(name, "Identity")) return node->inputs[0];
  if (!strcmp(name, "CastLike"))
    return node->input_count > 1 ? node->inputs[1] : KEEL_ABSENT;
  for (uint32_t i = 0; param->variable >= 0 && i < node->input_count; i++) {
    const keel_param *input = keel_schema_input(node->op->schema, i);
    if (input && !input->mixed && input->variable == param->variable &&
        node->inputs[i] != KEEL_ABSENT)
      return node->inputs[i];
  }
  return KEEL_ABSENT;
}

kd_dtype keel_emit_dtype(const keel_emit *e, uint32_t value) {
  for (int i = 0; i < MAKERS_MOST && value != KEEL_ABSENT; i++) {
    const keel_value_info *info = &e->function->values[value];
    if (info->type) return info->type->dtype;
    if (info->producer == KEEL_ABSENT) return KD_NONE;
    const keel_node *node = &e->function->nodes[info->producer];
    uint32_t output = 0;
    while (output < node->output_count && node->outputs[output] != value)
      output++;
    const keel_param *param = keel_schema_output(node->op->schema, output);
    if (!param) return KD_NONE;
    if (!strcmp(node->op->schema->name, "Cast") ||
        !strcmp(node->op->schema->name, "BitCast"))
      return (kd_dtype)keel_attr_int(node->op, "to", KD_NONE);
    if (keel_types_only(param->types) != KD_NONE)
      return keel_types_only(param->types);
    value = typed_like(node, param);
  }
  return KD_NONE;
}

uint32_t keel_emit_cast(keel_emit *e, uint32_t value, kd_dtype dtype) {
  const keel_attr attr = KEEL_INT("to", dtype);
  return keel_emit_dtype(e, value) == dtype
             ? value
             : keel_emit_op(e, "Cast", &attr, 1, &value, 1);
}

static bool is_integer(kd_dtype dtype) {
  return dtype == KD_BOOL || dtype == KD_U8 || dtype == KD_I8 ||
         dtype == KD_U16 || dtype == KD_I16 || dtype == KD_U32 ||
         dtype == KD_I32 || dtype == KD_U64 || dtype == KD_I64;
}

uint32_t keel_emit_number(keel_emit *e, double number, uint32_t like) {
  kd_dtype dtype = keel_emit_dtype(e, like);
  char bytes[8];
  if (keel_float_encode(dtype, number, bytes)) return scalar(e, dtype, number);
  if (is_integer(dtype) && fabs(number) < 0x1p62) {
    /* the low bytes are those of any width */
    int64_t integer = dtype == KD_BOOL ? number != 0 : (int64_t)number;
    return keel_emit_constant(e, dtype, 0, NULL, &integer);
  }
  return keel_emit_binary(e, "CastLike", scalar(e, KD_F32, number), like);
}

uint32_t keel_emit_dims(keel_emit *e, uint32_t value, int64_t begin,
                        int64_t end) {
  const keel_attr attrs[] = {KEEL_INT("start", begin), KEEL_INT("end", end)};
  return keel_emit_op(e, "Shape", attrs, end == INT64_MAX ? 1 : 2, &value, 1);
}

uint32_t keel_emit_concat(keel_emit *e, int64_t axis, const uint32_t *parts,
                          uint32_t count) {
  const keel_attr attr = KEEL_INT("axis", axis);
  return keel_emit_op(e, "Concat", &attr, 1, parts, count);
}

uint32_t keel_emit_where(keel_emit *e, uint32_t condition, uint32_t yes,
                         uint32_t no) {
  const uint32_t inputs[] = {condition, yes, no};
  return keel_emit_op(e, "Where", NULL, 0, inputs, 3);
}

uint32_t keel_emit_reshape(keel_emit *e, uint32_t value, const int64_t *dims,
                           int64_t rank) {
  return keel_emit_binary(e, "Reshape", value, keel_emit_ints(e, dims, rank));
}

uint32_t keel_emit_transpose(keel_emit *e, uint32_t value, const int64_t *perm,
                             uint32_t rank) {
  const keel_attr attr = KEEL_INTS("perm", rank, perm);
  return keel_emit_op(e, "Transpose", &attr, 1, &value, 1);
}

uint32_t keel_emit_slice(keel_emit *e, uint32_t value, int64_t axis,
                         int64_t begin, int64_t end, int64_t step) {
  const uint32_t inputs[] = {value, keel_emit_int(e, begin),
                             keel_emit_int(e, end), keel_emit_int(e, axis),
                             keel_emit_int(e, step)};
  return keel_emit_op(e, "Slice", NULL, 0, inputs, 5);
}

/* The part of a constant as its memory, or KEEL_ABSENT where that can't be. */
static uint32_t part_in_place(keel_emit *e, keel_tensor *whole, int64_t index,
                              uint32_t rank, const int64_t *dims) {
  const keel_type *type = NULL;
  keel_tensor *part = NULL;
  uint32_t value = KEEL_ABSENT;
  int64_t count = whole->kind == KEEL_DATA && whole->type && whole->type->rank
                      ? whole->type->dims[0]
                      : 0;
  if (index < 0 || index >= count || !whole->data ||
      whole->layout != KD_LAYOUT_ROW_MAJOR || keel_tensor_location(whole) ||
      keel_tensor_type(whole->type->dtype, rank, dims, &type) != KD_OK)
    return KEEL_ABSENT;
  uint64_t offset = (uint64_t)index * type->bytes;
  if (type->elements != whole->type->elements / count ||
      whole->type->bytes != (uint64_t)count * type->bytes || !type->bytes ||
      !keel_aligned_to((char *)whole->data + offset, 64))
    return KEEL_ABSENT;
  if (keel_tensor_part(whole, type, offset, NULL, &part) != KD_OK)
    return KEEL_ABSENT;
  value = keel_function_constant(e->function, "", part);
  keel_tensor_release(part);
  return value;
}

uint32_t keel_emit_part(keel_emit *e, uint32_t value, int64_t index,
                        uint32_t rank, const int64_t *dims) {
  if (e->status != KD_OK) return KEEL_ABSENT;
  keel_tensor *whole = e->function->values[value].constant;
  uint32_t part =
      whole ? part_in_place(e, whole, index, rank, dims) : KEEL_ABSENT;
  if (part != KEEL_ABSENT) return part;
  value = keel_emit_slice(e, value, 0, index, index + 1, 1);
  return keel_emit_reshape(e, value, dims, rank);
}

uint32_t keel_emit_within(keel_emit *e, uint32_t list, uint32_t least,
                          uint32_t most, const char *input) {
  const uint32_t inputs[] = {list, least, most};
  const keel_attr attrs[] = {KEEL_STRING("input", input),
                             KEEL_STRING("op", e->node.op->schema->name)};
  return keel_emit_op(e, "keel::Within", attrs, 2, inputs, 3);
}

uint32_t keel_emit_range(keel_emit *e, uint32_t count) {
  /* scalars, as the shape function reads them */
  static const int64_t ends[] = {0, 1};
  const uint32_t inputs[] = {keel_emit_constant(e, KD_I64, 0, NULL, &ends[0]),
                             keel_emit_unary(e, "Squeeze", count),
                             keel_emit_constant(e, KD_I64, 0, NULL, &ends[1])};
  return keel_emit_op(e, "Range", NULL, 0, inputs, 3);
}

static uint32_t of_integer(keel_emit *e, int64_t number, uint32_t like) {
  return keel_emit_binary(e, "CastLike", keel_emit_int(e, number), like);
}

uint32_t keel_emit_unpacked(keel_emit *e, uint32_t bytes, int64_t bits) {
  const keel_attr right = KEEL_STRING("direction", "RIGHT");
  uint32_t parts[4], axis = keel_emit_int(e, -1);
  int64_t count = 8 / bits;
  for (int64_t i = 0; i < count; i++) {
    uint32_t part = bytes;
    const uint32_t inputs[] = {bytes, of_integer(e, i * bits, bytes)};
    if (i) part = keel_emit_op(e, "BitShift", &right, 1, inputs, 2);
    if (i + 1 < count)
      part = keel_emit_binary(e, "BitwiseAnd", part,
                              of_integer(e, (1 << bits) - 1, bytes));
    parts[i] = keel_emit_binary(e, "Unsqueeze", part, axis);
  }
  return count == 1 ? parts[0]
                    : keel_emit_concat(e, -1, parts, (uint32_t)count);
}

void keel_emit_give(keel_emit *e, uint32_t index, uint32_t value) {
  if (!keel_emit_wants(e, index)) return;
  uint32_t output = e->node.outputs[index];
  keel_emit_node(e, "Identity", NULL, 0, &value, 1, &output, 1);
}
