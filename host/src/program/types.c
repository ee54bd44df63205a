/* types.c - the types of a function's values, as far as they can be told; those of what If
 * and Loop run, where the node stands. */
#include "ops/shapes.h"
#include "program/function.h"

/* ---- nested functions ------------------------------------------------------- */

/* Hands a graph the types of what it captures: its last inputs, and of the node's inputs
 * those from `first` on. */
static void give_captures(const keel_function *function, const keel_node *node,
                          const keel_function *graph, uint32_t first) {
  uint32_t own = graph->input_count - graph->capture_count;
  for (uint32_t i = 0; i < graph->capture_count; i++) {
    uint32_t from = node->inputs[first + i];
    if (from != KEEL_ABSENT)
      graph->values[graph->inputs[own + i]].type = function->values[from].type;
  }
}

static const keel_type *output_type(const keel_function *graph,
                                    uint32_t index) {
  const keel_type *type = index < graph->output_count
                              ? graph->values[graph->outputs[index]].type
                              : NULL;
  return type && keel_type_known(type) ? type : NULL;
}

static void set_output(const keel_function *function, const keel_node *node,
                       uint32_t index, const keel_type *type) {
  if (index < node->output_count && node->outputs[index] != KEEL_ABSENT && type)
    function->values[node->outputs[index]].type = type;
}

/* What both branches make. */
static keel_status infer_if(const keel_function *function,
                            const keel_node *node) {
  keel_function *branches[2] = {NULL, NULL};
  uint32_t first = 1;
  for (uint32_t i = 0; i < node->op->attr_count; i++) {
    keel_function *graph = node->op->attrs[i].graph;
    bool is_then = !strcmp(node->op->attrs[i].value.name, "then_branch");
    if (!graph || graph->capture_count > node->input_count - first)
      return KD_OK;
    give_captures(function, node, graph, first);
    KEEL_TRY(keel_function_types(graph));
    branches[is_then] = graph;
    first += graph->capture_count;
  }
  if (!branches[0] || !branches[1]) return KD_OK;
  for (uint32_t i = 0; i < node->output_count; i++) {
    const keel_type *type = output_type(branches[0], i);
    set_output(function, node, i,
               type == output_type(branches[1], i) ? type : NULL);
  }
  return KD_OK;
}

/* Types that a body's values have only as long as what it carries keeps its type. */
static void forget(const keel_function *graph) {
  for (uint32_t i = 0; i < graph->value_count; i++)
    if (!graph->values[i].constant) graph->values[i].type = NULL;
}

/* Whether each round gives what it carries the type that it had. */
static bool keeps_types(const keel_function *function, const keel_node *node,
                        const keel_function *body, uint32_t carried) {
  for (uint32_t i = 0; i < carried; i++) {
    uint32_t from = node->inputs[2 + i];
    const keel_type *type = output_type(body, 1 + i);
    if (from == KEEL_ABSENT || !type || type != function->values[from].type)
      return false;
  }
  return true;
}

static keel_status infer_loop(const keel_function *function,
                              const keel_node *node) {
  keel_function *body = keel_attr_graph(node->op, "body");
  const keel_type *scalars[2] = {NULL, NULL};
  if (!body || body->input_count < 2 + body->capture_count ||
      node->input_count != body->input_count)
    return KD_OK;
  uint32_t carried = body->input_count - body->capture_count - 2;
  KEEL_TRY(keel_type_of(KD_I64, 0, NULL, &scalars[0]));
  KEEL_TRY(keel_type_of(KD_BOOL, 0, NULL, &scalars[1]));
  give_captures(function, node, body, 2 + carried);
  for (uint32_t i = 0; i < 2; i++)
    body->values[body->inputs[i]].type = scalars[i];
  for (uint32_t i = 0; i < carried; i++)
    if (node->inputs[2 + i] != KEEL_ABSENT)
      body->values[body->inputs[2 + i]].type =
          function->values[node->inputs[2 + i]].type;
  /* what does not fit may never be run, and says so then */
  if (keel_function_types(body) != KD_OK ||
      !keeps_types(function, node, body, carried)) {
    forget(body);
    return KD_OK;
  }
  for (uint32_t i = 0; i < carried; i++)
    set_output(function, node, i, output_type(body, 1 + i));
  return KD_OK;
}

static keel_status infer_nested(const keel_function *function,
                                const keel_node *node) {
  const char *name = node->op->schema->name;
  if (!strcmp(name, "If")) return infer_if(function, node);
  return !strcmp(name, "Loop") ? infer_loop(function, node) : KD_OK;
}

/* ---- functions --------------------------------------------------------------- */

/* Passes read what an op must have, also where types are not known yet. */
static keel_status check_missing(const keel_infer *infer,
                                 const keel_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++) {
    const keel_param *param = keel_schema_input(node->op->schema, i);
    if (node->inputs[i] == KEEL_ABSENT && param && !param->optional &&
        !param->mixed)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "%s is missing",
                             param->name);
  }
  return KD_OK;
}

keel_status keel_function_infer(keel_function *function,
                                const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  uint32_t n = node->input_count, m = node->output_count;
  if (schema->flags & KEEL_OP_CONTROL) return infer_nested(function, node);
  if (!schema->infer) return KD_OK;
  const keel_type **types = calloc(n + m + 1, sizeof *types);
  keel_tensor **values = calloc(n + 1, sizeof(keel_tensor *));
  bool known = types && values;
  for (uint32_t i = 0; known && i < n; i++) {
    if (node->inputs[i] == KEEL_ABSENT) continue;
    const keel_value_info *value = &function->values[node->inputs[i]];
    types[i] = value->type;
    values[i] = value->constant;
    known = keel_schema_takes_resource(schema, i) ||
            (value->type && keel_type_known(value->type));
  }
  keel_infer infer = {
      .op = node->op,
      .where = node->name,
      .input_count = n,
      .output_count = m,
      .in = types,
      .values = values,
      .out = types + n,
  };
  keel_status status = KD_OUT_OF_MEMORY;
  if (types && values) status = check_missing(&infer, node);
  if (status == KD_OK)
    status = known ? keel_infer_types(&infer) : keel_infer_counts(&infer);
  for (uint32_t i = 0; known && status == KD_OK && i < m; i++)
    if (node->outputs[i] != KEEL_ABSENT && types[n + i] && !infer.unknown)
      function->values[node->outputs[i]].type = types[n + i];
  free(types);
  free(values);
  return status;
}

keel_status keel_function_types(keel_function *function) {
  for (uint32_t i = 0; i < function->node_count; i++)
    if (!function->nodes[i].dead)
      KEEL_TRY(keel_function_infer(function, &function->nodes[i]));
  return KD_OK;
}
