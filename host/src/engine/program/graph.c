/* graph.c - the graphs that plugins read: parts of functions. */
#include "program/graph.h"

/* A value's type as plugins see it; NULL: nothing is known of it. */
static const keel_type *graph_type(const keel_function *function,
                                   uint32_t value) {
  const keel_value_info *info = &function->values[value];
  return info->type ? info->type : info->open;
}

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

static uint32_t graph_input_count(const kd_graph *graph) {
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
  const keel_type *type = graph_type(graph->function, value);
  if (type) *out_type = keel_type_view(type);
  return KD_OK;
}

static kd_status value_constant(const kd_graph *graph, uint32_t value,
                                kd_tensor *out_tensor) {
  keel_tensor *tensor = value < graph->function->value_count
                            ? graph->function->values[value].constant
                            : NULL;
  if (!tensor || !tensor->type || !keel_tensor_host_data(tensor))
    return KD_NOT_FOUND;
  return keel_constant_view(tensor, out_tensor);
}

static uint32_t is_claimable(const kd_graph *graph, uint32_t node) {
  return node < graph->node_count &&
         (!graph->claimable || graph->claimable[graph->members[node]]);
}

static const char *value_name(const kd_graph *graph, uint32_t value) {
  const char *name = value < graph->function->value_count
                         ? graph->function->values[value].name
                         : NULL;
  return name ? name : "";
}

const kd_graph_table keel_graph_table = {
    .struct_size = sizeof(kd_graph_table),
    .node_count = node_count,
    .node = node_at,
    .value_count = value_count,
    .node_input = node_input,
    .node_output = node_output,
    .input_count = graph_input_count,
    .input = input_at,
    .output_count = output_count,
    .output = output_at,
    .value_type = value_type,
    .value_constant = value_constant,
    .claimable = is_claimable,
    .value_name = value_name,
};

/* ---- readers of values --------------------------------------------------------- */

static void list_readers(const keel_function *function, keel_readers *all) {
  uint32_t *first = all->first;
  for (int fill = 0; fill < 2; fill++) {
    for (uint32_t i = 0; i < function->node_count; i++) {
      const keel_node *node = &function->nodes[i];
      for (uint32_t k = 0; !node->dead && k < node->input_count; k++) {
        uint32_t value = node->inputs[k];
        if (value == KEEL_ABSENT) continue;
        if (fill)
          all->list[first[value + 1]++] = i;
        else
          first[value + 2]++;
      }
    }
    for (size_t v = 0; v < function->value_count && !fill; v++)
      first[v + 2] += first[v + 1];
  }
}

keel_status keel_readers_make(const keel_function *function,
                              keel_readers *out_readers) {
  size_t reads = 0, values = function->value_count;
  for (uint32_t i = 0; i < function->node_count; i++)
    reads += function->nodes[i].input_count;
  keel_readers *all = out_readers;
  *all = (keel_readers){.first = calloc(values + 3, sizeof *all->first),
                        .list = calloc(reads + 1, sizeof *all->list),
                        .outputs = calloc(values + 1, sizeof *all->outputs),
                        .seen = calloc(values + 1, sizeof *all->seen),
                        .by = calloc(values + 1, sizeof *all->by)};
  if (!all->first || !all->list || !all->outputs || !all->seen || !all->by) {
    keel_readers_drop(all);
    return keel_no_memory((values + reads) * sizeof *all->first);
  }
  list_readers(function, all);
  for (uint32_t i = 0; i < function->output_count; i++)
    all->outputs[function->outputs[i]] = 1;
  return KD_OK;
}

void keel_readers_drop(keel_readers *readers) {
  free(readers->first);
  free(readers->list);
  free(readers->outputs);
  free(readers->seen);
  free(readers->by);
  *readers = (keel_readers){0};
}

/* ---- making one ---------------------------------------------------------------- */

static uint32_t count_graphs(const keel_opdef *op) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < op->attr_count; i++)
    count += op->attrs[i].graph != NULL;
  return count;
}

static keel_status graph_make_room(const keel_function *function,
                                   const uint32_t *members, uint32_t count,
                                   struct kd_graph *graph) {
  size_t inputs = 0, outputs = 0, nodes = count, attrs = 0, graphs = 0;
  for (uint32_t i = 0; i < count; i++) {
    const keel_node *node = &function->nodes[members[i]];
    inputs += node->input_count;
    outputs += node->output_count;
    uint32_t nested = count_graphs(node->op);
    graphs += nested;
    attrs += nested ? node->op->attr_count : 0;
  }
  graph->nodes = calloc(nodes + 1, sizeof *graph->nodes);
  graph->members = calloc(nodes + 1, sizeof *graph->members);
  graph->inputs = calloc(inputs + 1, sizeof *graph->inputs);
  graph->outputs = calloc(outputs + 1, sizeof *graph->outputs);
  graph->types = calloc(inputs + outputs + 1, sizeof *graph->types);
  graph->constants = calloc(inputs + 1, sizeof *graph->constants);
  graph->graphs = calloc(graphs + 1, sizeof *graph->graphs);
  graph->graph_of = calloc(attrs + 1, sizeof *graph->graph_of);
  return graph->nodes && graph->members && graph->inputs && graph->outputs &&
                 graph->types && graph->constants && graph->graphs &&
                 graph->graph_of
             ? KD_OK
             : keel_no_memory((inputs + outputs) * sizeof *graph->types);
}

static void fill_nodes(const keel_function *function, const uint32_t *members,
                       uint32_t count, struct kd_graph *graph) {
  const keel_type **types = graph->types;
  keel_tensor **constants = graph->constants;
  for (uint32_t i = 0; i < count; i++) {
    const keel_node *node = &function->nodes[members[i]];
    uint32_t n = node->input_count, m = node->output_count;
    for (uint32_t k = 0; k < n + m; k++) {
      uint32_t value = k < n ? node->inputs[k] : node->outputs[k - n];
      if (value == KEEL_ABSENT) continue;
      types[k] = graph_type(function, value);
      if (!types[k]) types[k] = &keel_type_unknown;
      if (k < n) constants[k] = function->values[value].constant;
    }
    graph->members[graph->node_count] = members[i];
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

static keel_status whole_graph(const keel_function *function,
                               struct kd_graph *out_graph);

/* The branches and bodies of its nodes, each with those of its own. */
static keel_status fill_graphs(struct kd_graph *graph) {
  struct kd_graph **at = graph->graph_of;
  for (uint32_t i = 0; i < graph->node_count; i++) {
    const keel_opdef *op = graph->nodes[i].op;
    if (!count_graphs(op)) continue;
    graph->nodes[i].graphs = at;
    for (uint32_t k = 0; k < op->attr_count; k++, at++) {
      if (!op->attrs[k].graph) continue;
      *at = &graph->graphs[graph->graph_count++];
      KEEL_TRY(whole_graph(op->attrs[k].graph, *at));
    }
  }
  return KD_OK;
}

static uint32_t *graph_copy_of(const uint32_t *values, uint32_t count) {
  uint32_t *copy = calloc((size_t)count + 1, sizeof *copy);
  if (copy && count) memcpy(copy, values, count * sizeof *copy);
  return copy;
}

static keel_status whole_graph(const keel_function *function,
                               struct kd_graph *out_graph) {
  uint32_t count = 0, n = function->node_count;
  *out_graph = (struct kd_graph){.function = function};
  uint32_t *members = calloc((size_t)n + 1, sizeof *members);
  if (!members) return keel_no_memory(n * sizeof *members);
  for (uint32_t i = 0; i < n; i++)
    if (!function->nodes[i].dead) members[count++] = i;
  keel_status status = graph_make_room(function, members, count, out_graph);
  if (status == KD_OK) fill_nodes(function, members, count, out_graph);
  free(members);
  if (status != KD_OK) return status;
  /* its inputs and outputs may be more than its nodes' */
  free(out_graph->inputs);
  free(out_graph->outputs);
  out_graph->input_count = function->input_count;
  out_graph->output_count = function->output_count;
  out_graph->inputs = graph_copy_of(function->inputs, function->input_count);
  out_graph->outputs = graph_copy_of(function->outputs, function->output_count);
  if (!out_graph->inputs || !out_graph->outputs)
    return keel_no_memory(function->input_count * sizeof(uint32_t));
  return fill_graphs(out_graph);
}

bool keel_readers_need(const keel_readers *readers, const uint32_t *owner,
                       uint32_t id, uint32_t value) {
  if (readers->outputs[value]) return true;
  for (uint32_t i = readers->first[value]; i < readers->first[value + 1]; i++)
    if (owner[readers->list[i]] != id) return true;
  return false;
}

static void find_borders(struct kd_graph *graph, keel_readers *readers,
                         const uint32_t *owner, uint32_t id) {
  const keel_function *function = graph->function;
  readers->walk++;
  for (uint32_t i = 0; i < graph->node_count; i++) {
    const keel_node *node = &function->nodes[graph->members[i]];
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t value = node->inputs[k];
      if (value == KEEL_ABSENT) continue;
      uint32_t maker = function->values[value].producer;
      bool inside = maker != KEEL_ABSENT && owner[maker] == id;
      if (!inside && keel_readers_visit(readers, value, i))
        graph->inputs[graph->input_count++] = value;
    }
    for (uint32_t k = 0; k < node->output_count; k++)
      if (node->outputs[k] != KEEL_ABSENT &&
          keel_readers_need(readers, owner, id, node->outputs[k]))
        graph->outputs[graph->output_count++] = node->outputs[k];
  }
}

keel_status keel_graph_part(const keel_function *function,
                            keel_readers *readers, const uint32_t *owner,
                            const uint32_t *members, uint32_t count,
                            struct kd_graph *out_graph) {
  *out_graph = (struct kd_graph){.function = function};
  KEEL_TRY(graph_make_room(function, members, count, out_graph));
  if (!count) return KD_OK;
  fill_nodes(function, members, count, out_graph);
  find_borders(out_graph, readers, owner, owner[members[0]]);
  return fill_graphs(out_graph);
}

void keel_graph_drop(struct kd_graph *graph) {
  for (uint32_t i = 0; i < graph->graph_count; i++)
    keel_graph_drop(&graph->graphs[i]);
  free(graph->graphs);
  free(graph->graph_of);
  free(graph->nodes);
  free(graph->members);
  free(graph->inputs);
  free(graph->outputs);
  free(graph->types);
  free(graph->constants);
  *graph = (struct kd_graph){0};
}
