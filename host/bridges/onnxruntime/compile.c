/* compile.c - a partition as a plan: made of its nodes, or of the program that a
 * compiled model holds. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* ---- from nodes ----------------------------------------------------------------- */

static ort_status *build(const target *to, const ort_graph *graph,
                         const ort_node *fused, keel_program **out) {
  const char *name = NULL;
  opsets imports;
  translation into;
  TRY(ort->Node_GetName(fused, &name));
  TRY(opsets_read(graph, &imports));
  ort_status *status =
      translation_begin(&into, to->context, &imports, name, NULL);
  if (!status) status = translate_graph(&into, graph, fused);
  if (!status) {
    keel_status made = keel_builder_finish(into.builder, out);
    if (made != KD_OK) status = keel_failure(made);
  }
  translation_end(&into);
  opsets_free(&imports);
  return status;
}

/* ---- from a compiled model ------------------------------------------------------ */

/* Where each of a compiled node's values is among the partition's: some may
 * have become the same, and some that nobody wants may have gone. */
static ort_status *map_values(const value_list *node, const value_list *part,
                              bool needed, uint32_t **out) {
  *out = calloc(node->count + 1, sizeof **out);
  if (!*out) return no_memory();
  for (size_t i = 0; i < node->count; i++) {
    const char *name = NULL, *other = NULL;
    TRY(value_name(node->items[i], &name));
    (*out)[i] = NO_PORT;
    for (size_t j = 0; j < part->count && (*out)[i] == NO_PORT; j++) {
      TRY(value_name(part->items[j], &other));
      if (*name && !strcmp(name, other)) (*out)[i] = (uint32_t)j;
    }
    if (needed && (*out)[i] == NO_PORT)
      return failure(ORT_INVALID_ARGUMENT,
                     "Keel: input %zu (\"%.200s\") of a compiled node is "
                     "missing",
                     i, name);
  }
  return NULL;
}

static ort_status *map_list(const ort_node *node, const ort_node *fused,
                            ort_status *(*list)(const ort_node *node,
                                                value_list *out),
                            uint32_t want, uint32_t **out) {
  value_list own = {0}, part = {0};
  ort_status *status = list(node, &own);
  bool inputs = list == node_inputs;
  if (!status) status = list(fused, &part);
  if (!status && own.count != want)
    status = failure(ORT_INVALID_ARGUMENT,
                     "Keel: a compiled node has %zu %s, and its program %u: "
                     "compile the model again (ep.context_enable)",
                     own.count, inputs ? "inputs" : "outputs", want);
  if (!status) status = map_values(&own, &part, inputs, out);
  free(own.items);
  free(part.items);
  return status;
}

static ort_status *compile_load(const options *given, const target *to,
                                const ort_graph *graph, const ort_node *node,
                                const ort_node *fused, port_map *ports,
                                keel_program **out) {
  TRY(context_read(given, to, graph, node, out));
  TRY(map_list(node, fused, node_inputs, keel_program_input_count(*out),
               &ports->inputs));
  return map_list(node, fused, node_outputs, keel_program_output_count(*out),
                  &ports->outputs);
}

/* ---- both ----------------------------------------------------------------------- */

/* The compiled node that is the whole partition, or NULL. */
static ort_status *find_compiled(const ort_graph *graph, const ort_node **out) {
  node_list nodes;
  bool ours = false;
  *out = NULL;
  TRY(graph_nodes(graph, &nodes));
  ort_status *status =
      nodes.count == 1 ? context_is_ours(nodes.items[0], &ours) : NULL;
  if (ours) *out = nodes.items[0];
  free(nodes.items);
  return status;
}

/* Compiles what was made of nodes, so that it can be kept. */
static ort_status *compile_program(const target *to, keel_program **program) {
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = to->device};
  keel_program *compiled = NULL;
  TRY_KEEL(keel_program_compile(*program, &params, &compiled));
  keel_program_release(*program);
  *program = compiled;
  return NULL;
}

static ort_status *make_program(const options *given, const target *to,
                                const ort_graph *graph, const ort_node *fused,
                                port_map *ports, keel_program **out) {
  const ort_node *node = NULL;
  TRY(find_compiled(graph, &node));
  if (node) return compile_load(given, to, graph, node, fused, ports, out);
  TRY(build(to, graph, fused, out));
  return given->context_write ? compile_program(to, out) : NULL;
}

ort_status *compile_partition(const options *given, const target *to,
                              const ort_graph *graph, const ort_node *fused,
                              ort_compute_info **out, ort_node **out_context) {
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = to->device};
  port_map ports = {0};
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  ort_status *status = make_program(given, to, graph, fused, &ports, &program);
  if (!status && given->context_write)
    status = context_write(given, to->name, program, graph, fused, out_context);
  if (!status) {
    keel_status made = keel_plan_create(program, &params, &plan);
    if (made != KD_OK) status = keel_failure(made);
  }
  keel_program_release(program);
  if (!status) return compute_create(to, plan, ports, out);
  free(ports.inputs);
  free(ports.outputs);
  return status;
}
