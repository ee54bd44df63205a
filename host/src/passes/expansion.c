/* expansion.c - what expansions are written with. */
#include "passes/expansion.h"

#include "base/float.h"
#include "values/tensor.h"

uint32_t keel_expansion_in(const keel_expansion *all, uint32_t index) {
  return index < all->node.input_count ? all->node.inputs[index] : KEEL_ABSENT;
}

const keel_type *keel_expansion_type(const keel_expansion *all,
                                     uint32_t index) {
  uint32_t value = keel_expansion_in(all, index);
  return value == KEEL_ABSENT ? NULL : all->function->values[value].type;
}

bool keel_expansion_wants(const keel_expansion *all, uint32_t index) {
  return index < all->node.output_count &&
         all->node.outputs[index] != KEEL_ABSENT;
}

/* The node that makes `values`. */
static keel_status add(keel_expansion *all, const keel_schema *schema,
                       const keel_attr *attrs, uint32_t attr_count,
                       const uint32_t *inputs, uint32_t input_count,
                       const uint32_t *values, uint32_t count) {
  keel_function *function = all->function;
  keel_opdef *made = NULL;
  keel_node *node = NULL;
  for (uint32_t i = 0; i < count; i++)
    if (values[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_opdef_create(function->context, schema, attrs, attr_count, NULL,
                             &made));
  KEEL_TRY(keel_function_node(function, made, all->node.name, inputs,
                              input_count, values, count, &node));
  node->device = all->node.device;
  node->group = all->node.group;
  node->ruled = all->node.ruled;
  return keel_function_infer(function, node);
}

static uint32_t add_op(keel_expansion *all, const keel_schema *schema,
                       const keel_attr *attrs, uint32_t attr_count,
                       const uint32_t *inputs, uint32_t input_count) {
  if (all->status != KD_OK) return KEEL_ABSENT;
  uint32_t value = keel_function_value(all->function, "");
  while (input_count && inputs[input_count - 1] == KEEL_ABSENT)
    input_count--;
  all->status =
      add(all, schema, attrs, attr_count, inputs, input_count, &value, 1);
  return all->status == KD_OK ? value : KEEL_ABSENT;
}

uint32_t keel_expansion_op(keel_expansion *all, const char *op,
                           const keel_attr *attrs, uint32_t attr_count,
                           const uint32_t *inputs, uint32_t input_count) {
  return add_op(all, keel_schema_find("", op), attrs, attr_count, inputs,
                input_count);
}

uint32_t keel_expansion_own(keel_expansion *all, const char *op,
                            const keel_attr *attrs, uint32_t attr_count,
                            const uint32_t *inputs, uint32_t input_count) {
  return add_op(all, keel_schema_find("keel", op), attrs, attr_count, inputs,
                input_count);
}

uint32_t keel_expansion_microsoft(keel_expansion *all, const char *op,
                                  const keel_attr *attrs, uint32_t attr_count,
                                  const uint32_t *inputs,
                                  uint32_t input_count) {
  return add_op(all, keel_schema_find("com.microsoft", op), attrs, attr_count,
                inputs, input_count);
}

void keel_expansion_op_n(keel_expansion *all, const char *op,
                         const uint32_t *inputs, uint32_t input_count,
                         uint32_t *outputs, uint32_t output_count) {
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = all->status == KD_OK ? keel_function_value(all->function, "")
                                      : KEEL_ABSENT;
  if (all->status == KD_OK)
    all->status = add(all, keel_schema_find("", op), NULL, 0, inputs,
                      input_count, outputs, output_count);
  for (uint32_t i = 0; all->status != KD_OK && i < output_count; i++)
    outputs[i] = KEEL_ABSENT;
}

void keel_expansion_again(keel_expansion *all, keel_opdef *op,
                          const uint32_t *inputs, uint32_t input_count,
                          uint32_t *outputs, uint32_t output_count) {
  keel_function *function = all->function;
  keel_node *node = NULL;
  for (uint32_t i = 0; i < output_count && all->status == KD_OK; i++) {
    if (outputs[i] == KEEL_ABSENT) continue;
    outputs[i] = keel_function_value(function, "");
    if (outputs[i] == KEEL_ABSENT) all->status = KD_OUT_OF_MEMORY;
  }
  if (all->status == KD_OK)
    all->status =
        keel_function_node(function, keel_opdef_retain(op), all->node.name,
                           inputs, input_count, outputs, output_count, &node);
  if (all->status == KD_OK) {
    node->device = all->node.device;
    node->group = all->node.group;
    node->ruled = all->node.ruled;
    all->status = keel_function_infer(function, node);
  }
  for (uint32_t i = 0; all->status != KD_OK && i < output_count; i++)
    outputs[i] = KEEL_ABSENT;
}

uint32_t keel_expansion_of(keel_expansion *all, const char *op, uint32_t a) {
  return keel_expansion_op(all, op, NULL, 0, &a, 1);
}

uint32_t keel_expansion_of_two(keel_expansion *all, const char *op, uint32_t a,
                               uint32_t b) {
  const uint32_t inputs[] = {a, b};
  return keel_expansion_op(all, op, NULL, 0, inputs, 2);
}

uint32_t keel_expansion_ints(keel_expansion *all, const int64_t *list,
                             int64_t count) {
  uint32_t value = KEEL_ABSENT;
  if (all->status == KD_OK)
    all->status = keel_pass_integers(all->function, list, count, &value);
  return value;
}

uint32_t keel_expansion_int(keel_expansion *all, int64_t number) {
  return keel_expansion_ints(all, &number, 1);
}

bool keel_expansion_list(const keel_expansion *all, const char *name,
                         int64_t count, int64_t otherwise, int64_t *out) {
  const int64_t *given = NULL;
  int64_t length = keel_attr_ints(all->node.op, name, &given);
  for (int64_t i = 0; i < count; i++)
    out[i] = length == count ? given[i] : otherwise;
  return length <= 0 || length == count;
}

uint32_t keel_expansion_constant(keel_expansion *all, kd_dtype dtype,
                                 uint32_t rank, const int64_t *dims,
                                 const void *data) {
  uint32_t value = KEEL_ABSENT;
  keel_tensor *tensor = NULL;
  if (all->status != KD_OK) return KEEL_ABSENT;
  all->status = keel_tensor_create(all->function->context, dtype, rank, dims,
                                   data, &tensor);
  if (all->status != KD_OK) return KEEL_ABSENT;
  value = keel_function_constant(all->function, "", tensor);
  keel_tensor_release(tensor);
  if (value == KEEL_ABSENT) all->status = KD_OUT_OF_MEMORY;
  return value;
}

uint32_t keel_expansion_strings(keel_expansion *all, const char *const *strings,
                                int64_t count) {
  uint32_t value = KEEL_ABSENT;
  keel_tensor *tensor = NULL;
  if (all->status != KD_OK) return KEEL_ABSENT;
  all->status = keel_strings_create(all->function->context, 1, &count, strings,
                                    NULL, &tensor);
  if (all->status != KD_OK) return KEEL_ABSENT;
  value = keel_function_constant(all->function, "", tensor);
  keel_tensor_release(tensor);
  if (value == KEEL_ABSENT) all->status = KD_OUT_OF_MEMORY;
  return value;
}

static uint32_t scalar(keel_expansion *all, kd_dtype dtype, double number) {
  char bytes[8] = {0};
  keel_float_encode(dtype, number, bytes);
  return keel_expansion_constant(all, dtype, 0, NULL, bytes);
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

kd_dtype keel_expansion_dtype(const keel_expansion *all, uint32_t value) {
  for (int i = 0; i < MAKERS_MOST && value != KEEL_ABSENT; i++) {
    const keel_value_info *info = &all->function->values[value];
    if (info->type) return info->type->dtype;
    if (info->producer == KEEL_ABSENT) return KD_NONE;
    const keel_node *node = &all->function->nodes[info->producer];
    uint32_t output = 0;
    while (output < node->output_count && node->outputs[output] != value)
      output++;
    const keel_param *param = keel_schema_output(node->op->schema, output);
    if (!param) return KD_NONE;
    if (!strcmp(node->op->schema->name, "Cast"))
      return (kd_dtype)keel_attr_int(node->op, "to", KD_NONE);
    if (keel_types_only(param->types) != KD_NONE)
      return keel_types_only(param->types);
    value = typed_like(node, param);
  }
  return KD_NONE;
}

uint32_t keel_expansion_cast(keel_expansion *all, uint32_t value,
                             kd_dtype dtype) {
  const keel_attr attr = KEEL_INT("to", dtype);
  return keel_expansion_dtype(all, value) == dtype
             ? value
             : keel_expansion_op(all, "Cast", &attr, 1, &value, 1);
}

uint32_t keel_expansion_number(keel_expansion *all, double number,
                               uint32_t like) {
  kd_dtype dtype = keel_expansion_dtype(all, like);
  char bytes[8];
  if (keel_float_encode(dtype, number, bytes))
    return scalar(all, dtype, number);
  return keel_expansion_of_two(all, "CastLike", scalar(all, KD_F32, number),
                               like);
}

uint32_t keel_expansion_dims(keel_expansion *all, uint32_t value, int64_t begin,
                             int64_t end) {
  const keel_attr attrs[] = {KEEL_INT("start", begin), KEEL_INT("end", end)};
  return keel_expansion_op(all, "Shape", attrs, end == INT64_MAX ? 1 : 2,
                           &value, 1);
}

uint32_t keel_expansion_concat(keel_expansion *all, int64_t axis,
                               const uint32_t *parts, uint32_t count) {
  const keel_attr attr = KEEL_INT("axis", axis);
  return keel_expansion_op(all, "Concat", &attr, 1, parts, count);
}

uint32_t keel_expansion_where(keel_expansion *all, uint32_t condition,
                              uint32_t yes, uint32_t no) {
  const uint32_t inputs[] = {condition, yes, no};
  return keel_expansion_op(all, "Where", NULL, 0, inputs, 3);
}

uint32_t keel_expansion_transpose(keel_expansion *all, uint32_t value,
                                  const int64_t *perm, uint32_t rank) {
  const keel_attr attr = KEEL_INTS("perm", rank, perm);
  return keel_expansion_op(all, "Transpose", &attr, 1, &value, 1);
}

uint32_t keel_expansion_slice(keel_expansion *all, uint32_t value, int64_t axis,
                              int64_t begin, int64_t end, int64_t step) {
  const uint32_t inputs[] = {
      value, keel_expansion_int(all, begin), keel_expansion_int(all, end),
      keel_expansion_int(all, axis), keel_expansion_int(all, step)};
  return keel_expansion_op(all, "Slice", NULL, 0, inputs, 5);
}

/* The part of a constant as its memory, or KEEL_ABSENT where that can't be. */
static uint32_t part_in_place(keel_expansion *all, keel_tensor *whole,
                              int64_t index, uint32_t rank,
                              const int64_t *dims) {
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
  value = keel_function_constant(all->function, "", part);
  keel_tensor_release(part);
  return value;
}

uint32_t keel_expansion_part(keel_expansion *all, uint32_t value, int64_t index,
                             uint32_t rank, const int64_t *dims) {
  if (all->status != KD_OK) return KEEL_ABSENT;
  keel_tensor *whole = all->function->values[value].constant;
  uint32_t part =
      whole ? part_in_place(all, whole, index, rank, dims) : KEEL_ABSENT;
  if (part != KEEL_ABSENT) return part;
  value = keel_expansion_slice(all, value, 0, index, index + 1, 1);
  return keel_expansion_of_two(all, "Reshape", value,
                               keel_expansion_ints(all, dims, rank));
}

uint32_t keel_expansion_within(keel_expansion *all, uint32_t list,
                               uint32_t least, uint32_t most,
                               const char *input) {
  const uint32_t inputs[] = {list, least, most};
  const keel_attr attrs[] = {KEEL_STRING("input", input),
                             KEEL_STRING("op", all->node.op->schema->name)};
  return keel_expansion_own(all, "Within", attrs, 2, inputs, 3);
}

uint32_t keel_expansion_range(keel_expansion *all, uint32_t count) {
  uint32_t zero = keel_expansion_of(all, "Squeeze", keel_expansion_int(all, 0));
  uint32_t one = keel_expansion_of(all, "Squeeze", keel_expansion_int(all, 1));
  const uint32_t inputs[] = {zero, keel_expansion_of(all, "Squeeze", count),
                             one};
  return keel_expansion_op(all, "Range", NULL, 0, inputs, 3);
}

static uint32_t of_integer(keel_expansion *all, int64_t number, uint32_t like) {
  return keel_expansion_of_two(all, "CastLike", keel_expansion_int(all, number),
                               like);
}

uint32_t keel_expansion_unpacked(keel_expansion *all, uint32_t bytes,
                                 int64_t bits) {
  const keel_attr right = KEEL_STRING("direction", "RIGHT");
  uint32_t parts[4], axis = keel_expansion_int(all, -1);
  int64_t count = 8 / bits;
  for (int64_t i = 0; i < count; i++) {
    uint32_t part = bytes;
    const uint32_t inputs[] = {bytes, of_integer(all, i * bits, bytes)};
    if (i) part = keel_expansion_op(all, "BitShift", &right, 1, inputs, 2);
    if (i + 1 < count)
      part = keel_expansion_of_two(all, "BitwiseAnd", part,
                                   of_integer(all, (1 << bits) - 1, bytes));
    parts[i] = keel_expansion_of_two(all, "Unsqueeze", part, axis);
  }
  return count == 1 ? parts[0]
                    : keel_expansion_concat(all, -1, parts, (uint32_t)count);
}

void keel_expansion_give(keel_expansion *all, uint32_t index, uint32_t value) {
  if (all->status == KD_OK && keel_expansion_wants(all, index))
    all->status = add(all, keel_schema_find("", "Identity"), NULL, 0, &value, 1,
                      &all->node.outputs[index], 1);
}

void keel_expansion_fail(keel_expansion *all, keel_status status,
                         const char *format, ...) {
  char text[1024];
  va_list args;
  if (all->status != KD_OK) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  all->status = keel_fail(status, "%s \"%s\": %s", all->node.op->schema->name,
                          all->node.name ? all->node.name : "", text);
}
