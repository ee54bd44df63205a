/* graph.c - lets plugins walk a part of a function. */
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

/* ---- making one ---------------------------------------------------------------- */

static keel_status make_room(const keel_function *function,
                             const uint32_t *owner, uint32_t id,
                             struct kd_graph *graph) {
  size_t inputs = 0, outputs = 0, nodes = 0;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (node->dead || owner[i] != id) continue;
    nodes++;
    inputs += node->input_count;
    outputs += node->output_count;
  }
  graph->nodes = calloc(nodes + 1, sizeof *graph->nodes);
  graph->members = calloc(nodes + 1, sizeof *graph->members);
  graph->inputs = calloc(inputs + 1, sizeof *graph->inputs);
  graph->outputs = calloc(outputs + 1, sizeof *graph->outputs);
  graph->types = calloc(inputs + outputs + 1, sizeof *graph->types);
  graph->constants = calloc(inputs + 1, sizeof *graph->constants);
  return graph->nodes && graph->members && graph->inputs && graph->outputs &&
                 graph->types && graph->constants
             ? KD_OK
             : keel_no_memory((inputs + outputs) * sizeof *graph->types);
}

static void fill_nodes(const keel_function *function, const uint32_t *owner,
                       uint32_t id, struct kd_graph *graph) {
  const keel_type **types = graph->types;
  keel_tensor **constants = graph->constants;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    uint32_t n = node->input_count, m = node->output_count;
    if (node->dead || owner[i] != id) continue;
    for (uint32_t k = 0; k < n + m; k++) {
      uint32_t value = k < n ? node->inputs[k] : node->outputs[k - n];
      if (value == KEEL_ABSENT) continue;
      types[k] = function->values[value].type;
      if (k < n) constants[k] = function->values[value].constant;
    }
    graph->members[graph->node_count] = i;
    graph->nodes[graph->node_count++] = (struct kd_node){
        .op = node->op,
        .name = node->name,
        .input_count = n,
        .output_count = m,
        .inputs = types,
        .outputs = types + n,
        .constants = constants,
    };
    types += n + m;
    constants += n;
  }
}

enum { SEEN = 1, INSIDE = 2, NEEDED = 4 };

/* What of each value is known: made or read inside, needed elsewhere. */
static void mark_values(const keel_function *function, const uint32_t *owner,
                        uint32_t id, uint8_t *marks) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    bool member = owner[i] == id;
    if (node->dead) continue;
    for (uint32_t k = 0; member && k < node->output_count; k++)
      if (node->outputs[k] != KEEL_ABSENT) marks[node->outputs[k]] |= INSIDE;
    for (uint32_t k = 0; !member && k < node->input_count; k++)
      if (node->inputs[k] != KEEL_ABSENT) marks[node->inputs[k]] |= NEEDED;
  }
  for (uint32_t i = 0; i < function->output_count; i++)
    marks[function->outputs[i]] |= NEEDED;
}

static void find_borders(struct kd_graph *graph, uint8_t *marks) {
  for (uint32_t i = 0; i < graph->node_count; i++) {
    const keel_node *node = &graph->function->nodes[graph->members[i]];
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t value = node->inputs[k];
      if (value == KEEL_ABSENT || (marks[value] & (SEEN | INSIDE))) continue;
      marks[value] |= SEEN;
      graph->inputs[graph->input_count++] = value;
    }
    for (uint32_t k = 0; k < node->output_count; k++)
      if (node->outputs[k] != KEEL_ABSENT && (marks[node->outputs[k]] & NEEDED))
        graph->outputs[graph->output_count++] = node->outputs[k];
  }
}

keel_status keel_graph_part(const keel_function *function,
                            const uint32_t *owner, uint32_t id,
                            struct kd_graph *out_graph) {
  *out_graph = (struct kd_graph){.function = function};
  uint8_t *marks = calloc((size_t)function->value_count + 1, 1);
  if (!marks) return keel_no_memory(function->value_count);
  keel_status status = make_room(function, owner, id, out_graph);
  if (status == KD_OK) {
    fill_nodes(function, owner, id, out_graph);
    mark_values(function, owner, id, marks);
    find_borders(out_graph, marks);
  }
  free(marks);
  return status;
}

void keel_graph_drop(struct kd_graph *graph) {
  free(graph->nodes);
  free(graph->members);
  free(graph->inputs);
  free(graph->outputs);
  free(graph->types);
  free(graph->constants);
  *graph = (struct kd_graph){0};
}
