/* expansion.c - what expansions are written with. */
#include "passes/expansion.h"

#include "base/float.h"

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
static keel_status add(keel_expansion *all, const char *op,
                       const keel_attr *attrs, uint32_t attr_count,
                       const uint32_t *inputs, uint32_t input_count,
                       const uint32_t *values, uint32_t count) {
  keel_function *function = all->function;
  keel_opdef *made = NULL;
  keel_node *node = NULL;
  for (uint32_t i = 0; i < count; i++)
    if (values[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_opdef_create(function->context, keel_schema_find("", op), attrs,
                             attr_count, NULL, &made));
  KEEL_TRY(keel_function_node(function, made, all->node.name, inputs,
                              input_count, values, count, &node));
  node->device = all->node.device;
  node->group = all->node.group;
  node->ruled = all->node.ruled;
  return keel_function_infer(function, node);
}

uint32_t keel_expansion_op(keel_expansion *all, const char *op,
                           const keel_attr *attrs, uint32_t attr_count,
                           const uint32_t *inputs, uint32_t input_count) {
  if (all->status != KD_OK) return KEEL_ABSENT;
  uint32_t value = keel_function_value(all->function, "");
  while (input_count && inputs[input_count - 1] == KEEL_ABSENT)
    input_count--;
  all->status = add(all, op, attrs, attr_count, inputs, input_count, &value, 1);
  return all->status == KD_OK ? value : KEEL_ABSENT;
}

void keel_expansion_op_n(keel_expansion *all, const char *op,
                         const uint32_t *inputs, uint32_t input_count,
                         uint32_t *outputs, uint32_t output_count) {
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = all->status == KD_OK ? keel_function_value(all->function, "")
                                      : KEEL_ABSENT;
  if (all->status == KD_OK)
    all->status =
        add(all, op, NULL, 0, inputs, input_count, outputs, output_count);
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

static uint32_t scalar(keel_expansion *all, kd_dtype dtype, double number) {
  char bytes[8] = {0};
  uint32_t value = KEEL_ABSENT;
  keel_tensor *tensor = NULL;
  if (all->status != KD_OK) return KEEL_ABSENT;
  keel_float_encode(dtype, number, bytes);
  all->status = keel_tensor_create(all->function->context, dtype, 0, NULL,
                                   bytes, &tensor);
  if (all->status != KD_OK) return KEEL_ABSENT;
  value = keel_function_constant(all->function, "", tensor);
  keel_tensor_release(tensor);
  if (value == KEEL_ABSENT) all->status = KD_OUT_OF_MEMORY;
  return value;
}

uint32_t keel_expansion_number(keel_expansion *all, double number,
                               uint32_t like) {
  const keel_type *type =
      like == KEEL_ABSENT ? NULL : all->function->values[like].type;
  char bytes[8];
  if (type && keel_float_encode(type->dtype, number, bytes))
    return scalar(all, type->dtype, number);
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

uint32_t keel_expansion_range(keel_expansion *all, uint32_t count) {
  uint32_t zero = keel_expansion_of(all, "Squeeze", keel_expansion_int(all, 0));
  uint32_t one = keel_expansion_of(all, "Squeeze", keel_expansion_int(all, 1));
  const uint32_t inputs[] = {zero, keel_expansion_of(all, "Squeeze", count),
                             one};
  return keel_expansion_op(all, "Range", NULL, 0, inputs, 3);
}

void keel_expansion_give(keel_expansion *all, uint32_t index, uint32_t value) {
  if (all->status == KD_OK && keel_expansion_wants(all, index))
    all->status =
        add(all, "Identity", NULL, 0, &value, 1, &all->node.outputs[index], 1);
}
