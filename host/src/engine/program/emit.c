/* emit.c - writes nodes into a function. */
#include "program/emit.h"

#include "ops/vendor.h"
#include "values/tensor.h"

uint32_t keel_emit_in(const keel_emit *e, uint32_t index) {
  return index < e->node.input_count ? e->node.inputs[index] : KEEL_ABSENT;
}

const keel_type *keel_emit_type(const keel_emit *e, uint32_t index) {
  uint32_t value = keel_emit_in(e, index);
  return value == KEEL_ABSENT ? NULL : e->function->values[value].type;
}

bool keel_emit_wants(const keel_emit *e, uint32_t index) {
  return index < e->node.output_count && e->node.outputs[index] != KEEL_ABSENT;
}

static keel_status emit_place(const keel_emit *e, keel_node *node) {
  node->device = e->node.device;
  node->group = e->node.group;
  node->ruled = e->node.ruled;
  return keel_function_infer(e->function, node);
}

/* The error of an op whose op set was left out of this libkeel. */
static keel_status emit_missing(const keel_context *context, const char *op) {
  const char *colons = strstr(op, "::");
  char domain[64];
  snprintf(domain, sizeof domain, "%.*s", colons ? (int)(colons - op) : 0, op);
  return keel_op_missing(context, domain, colons ? colons + 2 : op);
}

static keel_status emit_add(keel_emit *e, const char *op,
                            const keel_attr *attrs, uint32_t attr_count,
                            const uint32_t *inputs, uint32_t input_count,
                            uint32_t *outputs, uint32_t output_count) {
  keel_function *function = e->function;
  keel_opdef *made = NULL;
  keel_node *node = NULL;
  for (uint32_t i = 0; i < output_count; i++) {
    if (outputs[i] == KEEL_ABSENT)
      outputs[i] = keel_function_value(function, "");
    if (outputs[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  while (input_count && inputs[input_count - 1] == KEEL_ABSENT)
    input_count--;
  const keel_schema *schema = keel_schema_named(op);
  if (!schema) return emit_missing(function->context, op);
  KEEL_TRY(keel_opdef_create(function->context, schema, attrs, attr_count, NULL,
                             &made));
  KEEL_TRY(keel_function_node(function, made, e->node.name, inputs, input_count,
                              outputs, output_count, &node));
  return emit_place(e, node);
}

void keel_emit_node(keel_emit *e, const char *op, const keel_attr *attrs,
                    uint32_t attr_count, const uint32_t *inputs,
                    uint32_t input_count, uint32_t *outputs,
                    uint32_t output_count) {
  if (e->status == KD_OK)
    e->status = emit_add(e, op, attrs, attr_count, inputs, input_count, outputs,
                         output_count);
  for (uint32_t i = 0; e->status != KD_OK && i < output_count; i++)
    outputs[i] = KEEL_ABSENT;
}

uint32_t keel_emit_op(keel_emit *e, const char *op, const keel_attr *attrs,
                      uint32_t attr_count, const uint32_t *inputs,
                      uint32_t input_count) {
  uint32_t value = KEEL_ABSENT;
  keel_emit_node(e, op, attrs, attr_count, inputs, input_count, &value, 1);
  return value;
}

void keel_emit_again(keel_emit *e, keel_opdef *op, const uint32_t *inputs,
                     uint32_t input_count, uint32_t *outputs,
                     uint32_t output_count) {
  keel_node *node = NULL;
  for (uint32_t i = 0; i < output_count && e->status == KD_OK; i++) {
    if (outputs[i] == KEEL_ABSENT) continue;
    outputs[i] = keel_function_value(e->function, "");
    if (outputs[i] == KEEL_ABSENT) e->status = KD_OUT_OF_MEMORY;
  }
  if (e->status == KD_OK)
    e->status =
        keel_function_node(e->function, keel_opdef_retain(op), e->node.name,
                           inputs, input_count, outputs, output_count, &node);
  if (e->status == KD_OK) e->status = emit_place(e, node);
  for (uint32_t i = 0; e->status != KD_OK && i < output_count; i++)
    outputs[i] = KEEL_ABSENT;
}

uint32_t keel_emit_unary(keel_emit *e, const char *op, uint32_t a) {
  return keel_emit_op(e, op, NULL, 0, &a, 1);
}

uint32_t keel_emit_binary(keel_emit *e, const char *op, uint32_t a,
                          uint32_t b) {
  const uint32_t inputs[] = {a, b};
  return keel_emit_op(e, op, NULL, 0, inputs, 2);
}

uint32_t keel_emit_ints(keel_emit *e, const int64_t *list, int64_t count) {
  return keel_emit_constant(e, KD_I64, 1, &count, list);
}

uint32_t keel_emit_int(keel_emit *e, int64_t number) {
  return keel_emit_ints(e, &number, 1);
}

bool keel_emit_list(const keel_emit *e, const char *name, int64_t count,
                    int64_t otherwise, int64_t *out) {
  const int64_t *given = NULL;
  int64_t length = keel_attr_ints(e->node.op, name, &given);
  for (int64_t i = 0; i < count; i++)
    out[i] = length == count ? given[i] : otherwise;
  return length <= 0 || length == count;
}

/* Takes the tensor over, where there is one. */
static uint32_t emit_add_constant(keel_emit *e, keel_tensor *tensor) {
  if (e->status != KD_OK) return KEEL_ABSENT;
  uint32_t value = keel_function_constant(e->function, "", tensor);
  keel_tensor_release(tensor);
  if (value == KEEL_ABSENT) e->status = KD_OUT_OF_MEMORY;
  return value;
}

uint32_t keel_emit_constant(keel_emit *e, kd_dtype dtype, uint32_t rank,
                            const int64_t *dims, const void *data) {
  keel_tensor *tensor = NULL;
  if (e->status == KD_OK)
    e->status = keel_tensor_create(e->function->context, dtype, rank, dims,
                                   data, &tensor);
  return emit_add_constant(e, tensor);
}

uint32_t keel_emit_strings(keel_emit *e, const char *const *strings,
                           int64_t count) {
  keel_tensor *tensor = NULL;
  if (e->status == KD_OK)
    e->status = keel_strings_create(e->function->context, 1, &count, strings,
                                    NULL, &tensor);
  return emit_add_constant(e, tensor);
}

void keel_emit_fail(keel_emit *e, keel_status status, const char *format, ...) {
  char text[1024];
  va_list args;
  if (e->status != KD_OK) return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const char *op = e->node.op ? e->node.op->schema->name : "node";
  e->status = keel_fail(status, "%s \"%s\": %s", op,
                        e->node.name ? e->node.name : "", text);
}
