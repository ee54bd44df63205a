/* settle.c - which constants of a model stay where its file has them.
 *
 * Data begin at any byte there. Kernels of products and convolutions bring their weights
 * into a form of their own when they are made, and look at them never again: these weights
 * are copied then, one by one, and leave memory (memory/mapping.h). All others that begin where
 * kernels can't read them are copied once and for all. */
#include "device/context.h"
#include "import.h"

/* Whether kernels of the op may take constants. */
static bool may_take(const keel_context *context, const keel_schema *schema) {
  for (uint32_t i = 0; i < context->device_count; i++) {
    const keel_kernel_list *list = keel_device_kernels(
        keel_devices(context)[i], schema->domain, schema->name);
    for (uint32_t k = 0; list && k < list->count; k++)
      if (list->defs[k]->taken) return true;
  }
  return false;
}

/* Products and convolutions of so many dimensions have them as input 1. */
static bool weighs(const keel_schema *schema, uint32_t rank) {
  if (strcmp(schema->domain, "ai.onnx") != 0) return false;
  if (!strcmp(schema->name, "Conv")) return rank > 2;
  return rank == 2 &&
         (!strcmp(schema->name, "MatMul") || !strcmp(schema->name, "Gemm"));
}

/* By value: whether a BatchNormalization reads it, which goes into the weights before. */
static bool *find_normed(const keel_function *function) {
  bool *normed = calloc((size_t)function->value_count + 1, sizeof *normed);
  for (uint32_t i = 0; normed && i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (!strcmp(node->op->schema->name, "BatchNormalization") &&
        node->input_count && node->inputs[0] != KEEL_ABSENT)
      normed[node->inputs[0]] = true;
  }
  return normed;
}

static bool may_stay(const keel_function *function, const bool *normed,
                     const keel_node *node, uint32_t input) {
  const keel_type *type = function->values[node->inputs[input]].type;
  return input == 1 && weighs(node->op->schema, type->rank) &&
         type->dtype == KD_F32 && node->output_count == 1 &&
         node->outputs[0] != KEEL_ABSENT && !normed[node->outputs[0]] &&
         may_take(function->context, node->op->schema);
}

/* The tensor itself is moved: all its holders see that, and no other thread has it yet. */
static keel_status settle_move(keel_tensor *tensor) {
  keel_buffer *buffer = NULL;
  KEEL_TRY(
      keel_heap_take(&tensor->context->host, tensor->type->bytes, &buffer));
  keel_mapping_take(tensor, buffer->address);
  keel_buffer_release(tensor->buffer);
  tensor->buffer = buffer;
  tensor->data = buffer->address;
  return KD_OK;
}

static keel_status settle_value(const keel_function *function, uint32_t value) {
  keel_tensor *tensor =
      value == KEEL_ABSENT ? NULL : function->values[value].constant;
  return tensor && keel_tensor_misaligned(tensor) ? settle_move(tensor) : KD_OK;
}

static keel_status settle_function(const keel_function *function,
                                   const bool *normed) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t value = node->inputs[k];
      if (value != KEEL_ABSENT && function->values[value].constant &&
          !may_stay(function, normed, node, k))
        KEEL_TRY(settle_value(function, value));
    }
  }
  for (uint32_t i = 0; i < function->output_count; i++)
    KEEL_TRY(settle_value(function, function->outputs[i]));
  return KD_OK;
}

keel_status keel_onnx_settle(keel_program *program) {
  for (const keel_function *at = program->functions; at; at = at->next) {
    bool *normed = find_normed(at);
    keel_status status =
        normed ? settle_function(at, normed) : keel_no_memory(at->value_count);
    free(normed);
    if (status != KD_OK) return status;
  }
  return KD_OK;
}
