/* verify.c - checks a program that comes from a file. */
#include "program/verify.h"
#include "ops/vendor.h"

#include "device/device.h"
#include "program/function.h"

#define NESTING_MOST 100 /* as a model's graphs in graphs */

static keel_status verify_bad(const char *path, const keel_function *function,
                              const char *node, const char *text,
                              unsigned number) {
  return keel_fail(KD_DATA_LOSS, "%s: %s%s%s%s%s%s%u%s", path,
                   *function->name ? "function \"" : "", function->name,
                   *function->name ? "\", " : "", *node ? "node \"" : "", node,
                   *node ? "\": " : "", number, text);
}

/* The producer of each value; `made` has room for all. */
static keel_status check_makers(keel_function *function, const char *path,
                                uint8_t *made) {
  uint32_t n = function->value_count;
  for (uint32_t i = 0; i < n; i++)
    made[i] = function->values[i].constant != NULL;
  for (uint32_t i = 0; i < function->input_count; i++) {
    uint32_t value = function->inputs[i];
    if (value >= n || made[value]++)
      return verify_bad(path, function, "",
                        " is an input's value, and no new one", value);
  }
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (!node->output_count)
      return verify_bad(path, function, node->name, " outputs: an op needs one",
                        0);
    for (uint32_t k = 0; k < node->output_count; k++) {
      uint32_t value = node->outputs[k];
      if (value == KEEL_ABSENT) continue;
      if (value >= n || made[value]++)
        return verify_bad(path, function, node->name,
                          " is made here, and is not a new value", value);
      function->values[value].producer = i;
    }
  }
  return KD_OK;
}

/* Nested functions take their captures from the last inputs of their node. */
static keel_status check_captures(const keel_function *function,
                                  const keel_node *node, const char *path) {
  uint64_t captures = 0;
  for (uint32_t i = 0; i < node->op->attr_count; i++) {
    const keel_function *graph = node->op->attrs[i].graph;
    if (node->op->attrs[i].value.kind == KD_ATTR_GRAPH && !graph)
      return verify_bad(path, function, node->name,
                        " of its attributes has no graph", i);
    captures += graph ? graph->capture_count : 0;
  }
  return captures <= node->input_count
             ? KD_OK
             : verify_bad(path, function, node->name,
                          " inputs are fewer than its graphs capture",
                          node->input_count);
}

static keel_status check_reads(const keel_function *function, const char *path,
                               const uint8_t *made) {
  uint32_t n = function->value_count;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t value = node->inputs[k];
      if (value != KEEL_ABSENT && (value >= n || !made[value]))
        return verify_bad(path, function, node->name,
                          " is read here, and nothing makes it", value);
    }
    KEEL_TRY(check_captures(function, node, path));
  }
  for (uint32_t i = 0; i < function->output_count; i++)
    if (function->outputs[i] >= n || !made[function->outputs[i]])
      return verify_bad(path, function, "",
                        " is an output, and nothing makes it",
                        function->outputs[i]);
  return KD_OK;
}

static keel_status verify(keel_function *function, const char *path) {
  uint8_t *made = calloc(function->value_count + 1, 1);
  if (!made) return keel_no_memory(function->value_count);
  keel_status status = check_makers(function, path, made);
  if (status == KD_OK) status = check_reads(function, path, made);
  free(made);
  if (status == KD_OK && function->capture_count > function->input_count)
    status =
        verify_bad(path, function, "", " captures are more than its inputs",
                   function->capture_count);
  if (status != KD_OK) return status;
  status = keel_function_sort(function);
  return status == KD_OK ? KD_OK : keel_while(status, "while reading %s", path);
}

static bool nested_within(const keel_function *function, uint32_t levels) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_opdef *op = function->nodes[i].op;
    for (uint32_t k = 0; k < op->attr_count; k++) {
      const keel_function *graph = op->attrs[k].graph;
      if (graph && (!levels || !nested_within(graph, levels - 1))) return false;
    }
  }
  return true;
}

keel_status keel_program_verify(keel_program *program, const char *path) {
  if (!program->main->output_count)
    return keel_fail(KD_DATA_LOSS, "%s: the program has no output", path);
  if (program->main->capture_count)
    return keel_fail(KD_DATA_LOSS, "%s: the program captures values", path);
  if (!nested_within(program->main, NESTING_MOST))
    return keel_fail(KD_DATA_LOSS,
                     "%s: its functions are nested deeper than %d", path,
                     NESTING_MOST);
  for (keel_function *at = program->functions; at; at = at->next)
    KEEL_TRY(verify(at, path));
  /* types go from a node into its graphs, so all are sound before */
  keel_status status = KD_OK;
  for (keel_function *at = program->functions; at && status == KD_OK;
       at = at->next)
    status = keel_function_types(at);
  return status == KD_OK ? KD_OK : keel_while(status, "while reading %s", path);
}

keel_status keel_verify_op(const keel_context *context, const char *path,
                           const char *domain, const char *name, uint32_t since,
                           const keel_schema **out_schema) {
  const keel_schema *schema = keel_op_find(context, domain, name);
  *out_schema = schema;
  if (!schema) {
    keel_status status = keel_op_missing(context, domain, name);
    if (status == KD_NOT_FOUND) status = KD_UNIMPLEMENTED;
    return keel_while(status, "while reading %s", path);
  }
  if (schema->since == since) return KD_OK;
  return keel_fail(KD_INCOMPATIBLE,
                   "%s: was written with %s as it is since opset %u, and this"
                   " Keel has it as since %u; compile the model again",
                   path, name, (unsigned)since, (unsigned)schema->since);
}

keel_status keel_verify_device(keel_context *context, const char *path,
                               const char *name, keel_device **out_device) {
  *out_device = NULL;
  if (!*name) return KD_OK;
  keel_status status = keel_device_find(context, name, out_device);
  return status == KD_OK
             ? KD_OK
             : keel_while(status,
                          "while reading %s, which is compiled for it: compile"
                          " the model again for another",
                          path);
}
