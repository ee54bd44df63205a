/* graph.c - kd_graph_table over the suite's graphs. */
#include "suite/graph.h"

static uint32_t node_count(const kd_graph *graph) {
  return graph->node_count;
}

static const kd_node *node(const kd_graph *graph, uint32_t index) {
  return index < graph->node_count ? &graph->nodes[index]->node : NULL;
}

static uint32_t value_count(const kd_graph *graph) {
  return graph->value_count;
}

static uint32_t node_input(const kd_graph *graph, uint32_t at, uint32_t index) {
  if (at >= graph->node_count || index >= graph->nodes[at]->node.input_count)
    return UINT32_MAX;
  return graph->inputs[at][index];
}

static uint32_t node_output(const kd_graph *graph, uint32_t at,
                            uint32_t index) {
  if (at >= graph->node_count || index >= graph->nodes[at]->node.output_count)
    return UINT32_MAX;
  return graph->outputs[at][index];
}

static uint32_t graph_input_count(const kd_graph *graph) {
  return graph->input_count;
}

static uint32_t input(const kd_graph *graph, uint32_t index) {
  return index < graph->input_count ? graph->graph_inputs[index] : UINT32_MAX;
}

static uint32_t output_count(const kd_graph *graph) {
  return graph->output_count;
}

static uint32_t output(const kd_graph *graph, uint32_t index) {
  return index < graph->output_count ? graph->graph_outputs[index] : UINT32_MAX;
}

static kd_status value_type(const kd_graph *graph, uint32_t id,
                            kd_type *out_type) {
  *out_type = (kd_type){0};
  if (id >= graph->value_count) return KD_OUT_OF_RANGE;
  *out_type = keel_type_view(graph->types[id]);
  return KD_OK;
}

static kd_status value_constant(const kd_graph *graph, uint32_t id,
                                kd_tensor *out_tensor) {
  if (id >= graph->value_count || !graph->constants[id]) return KD_NOT_FOUND;
  const keel_type *type = graph->types[id];
  *out_tensor = (kd_tensor){.data = (void *)(uintptr_t)graph->constants[id],
                            .size = type->bytes,
                            .dims = type->dims,
                            .dtype = type->dtype,
                            .rank = type->rank,
                            .flags = KD_TENSOR_HOST | KD_TENSOR_CONSTANT};
  return KD_OK;
}

static uint32_t claimable(const kd_graph *graph, uint32_t at) {
  return at < graph->node_count && !graph->shown_only[at];
}

static const char *value_name(const kd_graph *graph, uint32_t id) {
  (void)graph;
  (void)id;
  return "";
}

const kd_graph_table kc_graph_table = {
    .struct_size = sizeof(kd_graph_table),
    .node_count = node_count,
    .node = node,
    .value_count = value_count,
    .node_input = node_input,
    .node_output = node_output,
    .input_count = graph_input_count,
    .input = input,
    .output_count = output_count,
    .output = output,
    .value_type = value_type,
    .value_constant = value_constant,
    .claimable = claimable,
    .value_name = value_name,
};
