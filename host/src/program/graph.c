/* graph.c - lets plugins walk a function. */
#include "program/graph.h"

static uint32_t node_count(const kd_graph *graph) {
  return graph->node_count;
}

static const kd_node *node_at(const kd_graph *graph, uint32_t index) {
  return index < graph->node_count ? &graph->nodes[index] : NULL;
}

static uint32_t value_count(const kd_graph *graph) {
  return graph->function->value_count;
}

static const keel_node *member(const kd_graph *graph, uint32_t index) {
  return index < graph->node_count
             ? &graph->function->nodes[graph->members[index]]
             : NULL;
}

static uint32_t node_input(const kd_graph *graph, uint32_t node,
                           uint32_t index) {
  const keel_node *at = member(graph, node);
  return at && index < at->input_count ? at->inputs[index] : UINT32_MAX;
}

static uint32_t node_output(const kd_graph *graph, uint32_t node,
                            uint32_t index) {
  const keel_node *at = member(graph, node);
  return at && index < at->output_count ? at->outputs[index] : UINT32_MAX;
}

static uint32_t input_count(const kd_graph *graph) {
  return graph->input_count;
}

static uint32_t input_at(const kd_graph *graph, uint32_t index) {
  return index < graph->input_count ? graph->inputs[index] : UINT32_MAX;
}

static uint32_t output_count(const kd_graph *graph) {
  return graph->output_count;
}

static uint32_t output_at(const kd_graph *graph, uint32_t index) {
  return index < graph->output_count ? graph->outputs[index] : UINT32_MAX;
}

static kd_status value_type(const kd_graph *graph, uint32_t value,
                            kd_type *out_type) {
  *out_type = (kd_type){.rank = KD_RANK_UNKNOWN};
  if (value >= graph->function->value_count) return KD_OUT_OF_RANGE;
  const keel_type *type = graph->function->values[value].type;
  if (type) *out_type = keel_type_view(type);
  return KD_OK;
}

static kd_status value_constant(const kd_graph *graph, uint32_t value,
                                kd_tensor *out_tensor) {
  const keel_tensor *tensor = value < graph->function->value_count
                                  ? graph->function->values[value].constant
                                  : NULL;
  if (!tensor || !tensor->type || !keel_tensor_host_data(tensor))
    return KD_NOT_FOUND;
  *out_tensor = (kd_tensor){
      .data = tensor->data,
      .size = tensor->type->bytes,
      .dims = tensor->type->dims,
      .dtype = tensor->type->dtype,
      .rank = tensor->type->rank,
      .flags = KD_TENSOR_HOST | KD_TENSOR_CONSTANT,
  };
  return KD_OK;
}

const kd_graph_table keel_graph_table = {
    .struct_size = sizeof(kd_graph_table),
    .node_count = node_count,
    .node = node_at,
    .value_count = value_count,
    .node_input = node_input,
    .node_output = node_output,
    .input_count = input_count,
    .input = input_at,
    .output_count = output_count,
    .output = output_at,
    .value_type = value_type,
    .value_constant = value_constant,
};

static keel_status fill_nodes(const keel_function *function, uint32_t *members,
                              const keel_type **types, struct kd_graph *graph) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    const keel_type **in = types, **out = types + node->input_count;
    if (node->dead) continue;
    for (uint32_t k = 0; k < node->input_count; k++)
      *types++ = node->inputs[k] == KEEL_ABSENT
                     ? NULL
                     : function->values[node->inputs[k]].type;
    for (uint32_t k = 0; k < node->output_count; k++)
      *types++ = node->outputs[k] == KEEL_ABSENT
                     ? NULL
                     : function->values[node->outputs[k]].type;
    members[graph->node_count] = i;
    graph->nodes[graph->node_count++] = (struct kd_node){
        .op = node->op,
        .name = node->name,
        .input_count = node->input_count,
        .output_count = node->output_count,
        .inputs = in,
        .outputs = out,
    };
  }
  return KD_OK;
}

keel_status keel_graph_view(const keel_function *function,
                            struct kd_graph *out_graph) {
  size_t arguments = 0, n = function->node_count;
  for (uint32_t i = 0; i < n; i++)
    arguments +=
        function->nodes[i].input_count + function->nodes[i].output_count;
  /* one block: nodes, then types; another: members */
  struct kd_node *nodes =
      calloc(1, n * sizeof *nodes + (arguments + 1) * sizeof(keel_type *));
  uint32_t *members = calloc(n + 1, sizeof *members);
  if (!nodes || !members) {
    free(nodes);
    free(members);
    return keel_no_memory(n * sizeof *nodes);
  }
  *out_graph = (struct kd_graph){
      .function = function,
      .nodes = nodes,
      .members = members,
      .inputs = function->inputs,
      .input_count = function->input_count,
      .outputs = function->outputs,
      .output_count = function->output_count,
  };
  return fill_nodes(function, members, (const keel_type **)(nodes + n),
                    out_graph);
}

void keel_graph_drop(struct kd_graph *graph) {
  free(graph->nodes);
  free((void *)(uintptr_t)graph->members);
  *graph = (struct kd_graph){0};
}
