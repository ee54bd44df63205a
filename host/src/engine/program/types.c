/* types.c - the types of a function's values, as far as they can be inferred; those of functions
 * that If, Loop, Scan and Call run, at their node. */
#include "program/function.h"
#include "program/region.h"
#include "values/strings.h"

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

/* The outputs of both branches. */
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
static void types_forget(const keel_function *graph) {
  for (uint32_t i = 0; i < graph->value_count; i++)
    if (!graph->values[i].constant) graph->values[i].type = NULL;
}

/* Whether each round gives what it carries the type that it had: inputs from `first` on, and
 * outputs of the body behind its condition, where it has one. */
static bool keeps_types(const keel_function *function, const keel_node *node,
                        const keel_function *body, uint32_t carried,
                        uint32_t first) {
  for (uint32_t i = 0; i < carried; i++) {
    uint32_t from = node->inputs[first + i];
    const keel_type *type = output_type(body, (first > 0) + i);
    if (from == KEEL_ABSENT || !type || type != function->values[from].type)
      return false;
  }
  return true;
}

/* A scan output: `count` results of one type along a new axis. Nodes with a mismatch may never be
 * run. */
static void set_stacked(const keel_function *function, const keel_node *node,
                        uint32_t index, const keel_type *each, int64_t axis,
                        int64_t count) {
  const keel_type *type = NULL;
  if (each && keel_type_stack(each, axis, count, &type) == KD_OK)
    set_output(function, node, index, type);
}

static const keel_tensor *scalar_of(const keel_function *function,
                                    uint32_t value, kd_dtype dtype) {
  const keel_tensor *constant =
      value == KEEL_ABSENT ? NULL : function->values[value].constant;
  return constant && keel_is_tensor(constant) &&
                 constant->type->dtype == dtype &&
                 constant->type->elements == 1 &&
                 keel_tensor_host_data(constant)
             ? constant
             : NULL;
}

/* Whether a condition is always true: it is absent or constant, or what the body was given. */
static bool goes_on(const keel_function *function, uint32_t value,
                    uint32_t given) {
  while (value != KEEL_ABSENT && value != given) {
    const keel_tensor *constant = scalar_of(function, value, KD_BOOL);
    if (constant) return *(const uint8_t *)keel_tensor_host_data(constant) != 0;
    uint32_t maker = function->values[value].producer;
    if (maker == KEEL_ABSENT ||
        function->nodes[maker].op->schema->kind != KEEL_IDENTITY)
      return false;
    value = function->nodes[maker].inputs[0];
  }
  return true;
}

/* How many rounds a Loop has; -1 where a run decides. */
static int64_t rounds_of(const keel_function *function, const keel_node *node,
                         const keel_function *body) {
  const keel_tensor *most = scalar_of(function, node->inputs[0], KD_I64),
                    *cond = scalar_of(function, node->inputs[1], KD_BOOL);
  if (cond && !*(const uint8_t *)keel_tensor_host_data(cond)) return 0;
  int64_t rounds = most ? *(const int64_t *)keel_tensor_host_data(most) : -1;
  if (most && rounds <= 0) return 0;
  if ((node->inputs[1] != KEEL_ABSENT && !cond) || !body->output_count)
    return -1;
  return goes_on(body, body->outputs[0], body->inputs[1]) ? rounds : -1;
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
  /* a node with a mismatch may never be run, and fails then */
  if (keel_function_types(body) != KD_OK ||
      !keeps_types(function, node, body, carried, 2)) {
    types_forget(body);
    return KD_OK;
  }
  for (uint32_t i = 0; i < carried; i++)
    set_output(function, node, i, output_type(body, 1 + i));
  int64_t rounds = rounds_of(function, node, body);
  for (uint32_t i = carried; i < node->output_count && rounds >= 0; i++)
    set_stacked(function, node, i, output_type(body, 1 + i), 0, rounds);
  return KD_OK;
}

static int64_t list_entry(const keel_node *node, const char *name,
                          uint32_t index) {
  const int64_t *values = NULL;
  return (int64_t)index < keel_attr_ints(node->op, name, &values)
             ? values[index]
             : 0;
}

/* A round's slice of a scan input; `rounds`: so many are there, or -1: as many as it has.
 * NULL where it is not known, or does not fit. */
static const keel_type *slice_type(const keel_type *type, int64_t axis,
                                   int64_t *rounds) {
  const keel_type *slice = NULL;
  if (!type || !keel_type_known(type) ||
      keel_type_slice(type, axis, &slice) != KD_OK)
    return NULL;
  int64_t count = type->dims[axis < 0 ? axis + type->rank : axis];
  if (*rounds >= 0 && *rounds != count) return NULL;
  *rounds = count;
  return slice;
}

static keel_status infer_scan(const keel_function *function,
                              const keel_node *node) {
  keel_function *body = keel_attr_graph(node->op, "body");
  int64_t scans = keel_attr_int(node->op, "num_scan_inputs", 0), rounds = -1;
  if (!body || node->input_count != body->input_count || scans < 1 ||
      scans > (int64_t)(body->input_count - body->capture_count))
    return KD_OK;
  uint32_t own = body->input_count - body->capture_count;
  uint32_t states = own - (uint32_t)scans;
  for (int write = 0; write < 2;
       write++) /* all are known, or none is written */
    for (uint32_t i = 0; i < own; i++) {
      const keel_type *type = node->inputs[i] == KEEL_ABSENT
                                  ? NULL
                                  : function->values[node->inputs[i]].type;
      if (i >= states)
        type = slice_type(type, list_entry(node, "scan_input_axes", i - states),
                          &rounds);
      if (!type) return KD_OK;
      if (write) body->values[body->inputs[i]].type = type;
    }
  give_captures(function, node, body, own);
  if (keel_function_types(body) != KD_OK ||
      !keeps_types(function, node, body, states, 0)) {
    types_forget(body);
    return KD_OK;
  }
  for (uint32_t i = 0; i < node->output_count; i++)
    if (i < states)
      set_output(function, node, i, output_type(body, i));
    else
      set_stacked(function, node, i, output_type(body, i),
                  list_entry(node, "scan_output_axes", i - states), rounds);
  return KD_OK;
}

static keel_status infer_call(const keel_function *function,
                              const keel_node *node) {
  keel_function *body = keel_attr_graph(node->op, "body");
  if (!body || node->input_count != body->input_count) return KD_OK;
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != KEEL_ABSENT)
      body->values[body->inputs[i]].type =
          function->values[node->inputs[i]].type;
  KEEL_TRY(keel_function_types(body));
  for (uint32_t i = 0; i < node->output_count; i++)
    set_output(function, node, i, output_type(body, i));
  return KD_OK;
}

static keel_status infer_nested(const keel_function *function,
                                const keel_node *node) {
  switch (node->op->schema->kind) {
    case KEEL_IF:
      return infer_if(function, node);
    case KEEL_SCAN:
      return infer_scan(function, node);
    case KEEL_CALL:
      return infer_call(function, node);
    case KEEL_LOOP:
      return infer_loop(function, node);
    default:
      return KD_OK;
  }
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

/* Of what takes any value. */
static void pass_type_on(const keel_function *function, const keel_node *node) {
  keel_op_kind kind = node->op->schema->kind;
  if (node->part)
    set_output(function, node, 0, node->part);
  else if ((kind == KEEL_IDENTITY || kind == KEEL_COPY) && node->input_count &&
           node->inputs[0] != KEEL_ABSENT)
    set_output(function, node, 0, function->values[node->inputs[0]].type);
}

/* Of a compiled region that serves all sizes. */
static keel_status infer_region(const keel_function *function,
                                const keel_node *node) {
  const keel_region *region = node->region;
  uint32_t n = node->input_count, m = node->output_count;
  const keel_type **types = calloc(n + m + 1, sizeof *types);
  keel_status status = types ? KD_OK : keel_no_memory(n * sizeof *types);
  bool known = types && region->shapes;
  for (uint32_t i = 0; known && i < n; i++) {
    types[i] = function->values[node->inputs[i]].type;
    known = types[i] && keel_type_known(types[i]);
  }
  if (known) status = region->infer(region, types, types + n);
  if (status == KD_UNIMPLEMENTED) { /* a launch says why */
    keel_clear_error();
    known = false;
    status = KD_OK;
  }
  for (uint32_t i = 0; known && status == KD_OK && i < m; i++)
    set_output(function, node, i, types[n + i]);
  free(types);
  return status;
}

keel_status keel_function_infer(keel_function *function,
                                const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  uint32_t n = node->input_count, m = node->output_count;
  if (node->region) return infer_region(function, node);
  if (schema->flags & KEEL_OP_CONTROL) return infer_nested(function, node);
  if (!schema->infer) {
    pass_type_on(function, node);
    return KD_OK;
  }
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

/* ---- what a round would give ---------------------------------------------------- */

/* Loops whose rounds a run decides have none. */
static keel_status end_loops(keel_function *function) {
  const int64_t none = 0;
  for (uint32_t n = 0; n < function->node_count; n++) {
    keel_node *node = &function->nodes[n];
    for (uint32_t i = 0; i < node->op->attr_count; i++)
      if (node->op->attrs[i].graph)
        KEEL_TRY(end_loops(node->op->attrs[i].graph));
    const keel_function *body = keel_attr_graph(node->op, "body");
    if (node->op->schema->kind != KEEL_LOOP || !body || node->input_count < 2 ||
        rounds_of(function, node, body) >= 0)
      continue;
    keel_tensor *zero = NULL;
    KEEL_TRY(
        keel_tensor_create(function->context, KD_I64, 0, NULL, &none, &zero));
    node->inputs[0] = keel_function_constant(function, "", zero);
    keel_tensor_release(zero);
    if (node->inputs[0] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  }
  return KD_OK;
}

static keel_status infer_scratch(keel_function *scratch,
                                 const keel_type *const *inputs,
                                 const keel_type **outputs) {
  KEEL_TRY(end_loops(scratch));
  types_forget(scratch);
  for (uint32_t i = 0; i < scratch->input_count; i++)
    scratch->values[scratch->inputs[i]].type = inputs[i];
  keel_status status = keel_function_types(scratch);
  for (uint32_t i = 0; i < scratch->output_count; i++)
    outputs[i] = output_type(scratch, i);
  return status == KD_OUT_OF_MEMORY ? status : KD_OK;
}

keel_status keel_function_results(const keel_function *function,
                                  const keel_type *const *inputs,
                                  const keel_type **outputs) {
  keel_arena arena = {0};
  keel_function *list = NULL, *scratch = NULL;
  keel_status status = keel_function_clone(function, &arena, &list, &scratch);
  if (status == KD_OK) status = infer_scratch(scratch, inputs, outputs);
  keel_functions_release(list);
  keel_arena_free(&arena);
  return status;
}
