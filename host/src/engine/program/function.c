/* function.c - creates, copies and sorts functions. */
#include "program/function.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/refs.h"
#include "device/device.h"
#include "program/region.h"

keel_status keel_program_create(keel_context *context,
                                keel_program **out_program) {
  keel_program *program = calloc(1, sizeof *program);
  if (!program) return keel_no_memory(sizeof *program);
  keel_refs_init(&program->refs);
  keel_refs_init(&program->weak_refs);
  program->context = context;
  *out_program = program;
  return KD_OK;
}

void keel_functions_release(keel_function *list) {
  for (; list; list = list->next) {
    for (uint32_t i = 0; i < list->value_count; i++) {
      keel_tensor_release(list->values[i].constant);
      keel_tensor_release(list->values[i].placed);
    }
    for (uint32_t i = 0; i < list->node_count; i++) {
      keel_opdef_release(list->nodes[i].op);
      keel_region_release(list->nodes[i].region);
    }
  }
}

void keel_program_weak_retain(keel_program *program) {
  keel_refs_take(&program->weak_refs);
}

void keel_program_weak_release(keel_program *program) {
  if (keel_refs_drop(&program->weak_refs)) free(program);
}

bool keel_program_lock(keel_program *program) {
  unsigned refs = atomic_load_explicit(&program->refs, memory_order_relaxed);
  /* relaxed: a weak reference holder has seen the program before */
  while (refs && !atomic_compare_exchange_weak_explicit(
                     &program->refs, &refs, refs + 1, memory_order_relaxed,
                     memory_order_relaxed)) {
  }
  return refs != 0;
}

void keel_program_release(keel_program *program) {
  /* counted down also by the last one, other than keel_refs_drop does: holders of weak
   * references ask. acquire and release: as there */
  if (!program ||
      atomic_fetch_sub_explicit(&program->refs, 1, memory_order_acq_rel) != 1)
    return;
  keel_functions_release(program->functions);
  keel_heap_shrink(program->context, NULL);
  keel_arena_free(&program->arena);
  keel_forms_free(&program->forms);
  keel_mapping_release(program->mapping);
  keel_program_weak_release(program);
}

keel_status keel_function_create(keel_context *context, keel_arena *arena,
                                 keel_function **list, const char *name,
                                 keel_function **out_function) {
  keel_function *function = keel_arena_take(arena, sizeof *function);
  if (!function) return KD_OUT_OF_MEMORY;
  function->context = context;
  function->arena = arena;
  function->name = keel_arena_copy(arena, name ? name : "");
  function->next = *list;
  *list = function;
  *out_function = function;
  return function->name ? KD_OK : KD_OUT_OF_MEMORY;
}

uint32_t keel_function_value(keel_function *function, const char *name) {
  if (!KEEL_ARENA_ROOM(function->arena, function->values, function->value_count,
                       function->value_capacity))
    return KEEL_ABSENT;
  keel_value_info *value = &function->values[function->value_count];
  *value = (keel_value_info){.producer = KEEL_ABSENT};
  value->name = name && *name ? keel_arena_copy(function->arena, name) : "";
  return value->name ? function->value_count++ : KEEL_ABSENT;
}

uint32_t keel_function_constant(keel_function *function, const char *name,
                                keel_tensor *tensor) {
  uint32_t value = keel_function_value(function, name);
  if (value != KEEL_ABSENT) {
    function->values[value].constant = keel_tensor_retain(tensor);
    function->values[value].type = tensor->type;
  }
  return value;
}

/* Names of open dimensions; NULL where there are none. */
static keel_status keep_symbols(keel_arena *arena, const keel_port *port,
                                keel_port *out_port) {
  bool any = false;
  out_port->symbols = NULL;
  for (uint32_t i = 0; port->symbols && i < port->rank; i++)
    any |= port->dims[i] < 0 && port->symbols[i] && *port->symbols[i];
  if (!any) return KD_OK;
  const char **symbols = keel_arena_take(arena, port->rank * sizeof *symbols);
  if (!symbols) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < port->rank; i++) {
    const char *name = port->dims[i] < 0 ? port->symbols[i] : NULL;
    if (!name || !*name) continue;
    symbols[i] = keel_arena_copy(arena, name);
    if (!symbols[i]) return KD_OUT_OF_MEMORY;
  }
  out_port->symbols = symbols;
  return KD_OK;
}

keel_status keel_port_copy(keel_arena *arena, const keel_port *port,
                           const char *name, keel_port *out_port) {
  *out_port = port ? *port : (keel_port){.rank = KEEL_RANK_UNKNOWN};
  if (port && port->dims && port->rank != KEEL_RANK_UNKNOWN) {
    out_port->dims = keel_arena_copy_bytes(arena, port->dims,
                                           port->rank * sizeof *port->dims);
    if (!out_port->dims) return KD_OUT_OF_MEMORY;
    KEEL_TRY(keep_symbols(arena, port, out_port));
  }
  if (port && port->sharding) {
    out_port->sharding = keel_arena_copy(arena, port->sharding);
    if (!out_port->sharding) return KD_OUT_OF_MEMORY;
  }
  out_port->name =
      port && port->name ? keel_arena_copy(arena, port->name) : name;
  return out_port->name ? KD_OK : KD_OUT_OF_MEMORY;
}

keel_status keel_function_input(keel_function *function, uint32_t value,
                                const keel_port *port) {
  uint32_t capacity = function->input_capacity;
  if (!KEEL_ARENA_ROOM(function->arena, function->input_ports,
                       function->input_count, capacity) ||
      !KEEL_ARENA_ROOM(function->arena, function->inputs, function->input_count,
                       function->input_capacity))
    return KD_OUT_OF_MEMORY;
  assert(value < function->value_count);
  KEEL_TRY(keel_port_copy(function->arena, port, function->values[value].name,
                          &function->input_ports[function->input_count]));
  function->inputs[function->input_count++] = value;
  return KD_OK;
}

keel_status keel_function_output(keel_function *function, uint32_t value,
                                 const keel_port *port) {
  uint32_t capacity = function->output_capacity;
  if (!KEEL_ARENA_ROOM(function->arena, function->output_ports,
                       function->output_count, capacity) ||
      !KEEL_ARENA_ROOM(function->arena, function->outputs,
                       function->output_count, function->output_capacity))
    return KD_OUT_OF_MEMORY;
  assert(value < function->value_count);
  KEEL_TRY(keel_port_copy(function->arena, port, function->values[value].name,
                          &function->output_ports[function->output_count]));
  function->outputs[function->output_count++] = value;
  return KD_OK;
}

const keel_type *keel_port_type(const keel_port *port) {
  const keel_type *type = NULL;
  if (!keel_port_is_tensor(port) || port->rank == KEEL_RANK_UNKNOWN ||
      !port->dtype)
    return NULL;
  return keel_type_of(port->dtype, port->rank, port->dims, &type) == KD_OK
             ? type
             : NULL;
}

bool keel_function_is_open(const keel_function *function) {
  for (uint32_t i = 0; i < function->input_count; i++) {
    const keel_type *type = function->values[function->inputs[i]].type;
    if (!(function->input_ports[i].flags & KEEL_PORT_RESOURCE) &&
        (!type || !keel_type_known(type)))
      return true;
  }
  return false;
}

keel_status keel_function_node(keel_function *function, keel_opdef *op,
                               const char *name, const uint32_t *inputs,
                               uint32_t input_count, const uint32_t *outputs,
                               uint32_t output_count, keel_node **out_node) {
  keel_arena *arena = function->arena;
  for (uint32_t i = 0; i < input_count; i++)
    assert(inputs[i] == KEEL_ABSENT || inputs[i] < function->value_count);
  for (uint32_t i = 0; i < output_count; i++)
    assert(outputs[i] == KEEL_ABSENT || outputs[i] < function->value_count);
  if (!KEEL_ARENA_ROOM(arena, function->nodes, function->node_count,
                       function->node_capacity)) {
    keel_opdef_release(op);
    return KD_OUT_OF_MEMORY;
  }
  keel_node *node = &function->nodes[function->node_count++];
  *node = (keel_node){
      .op = op, .input_count = input_count, .output_count = output_count};
  node->name = name && *name ? keel_arena_copy(arena, name) : "";
  node->inputs =
      keel_arena_copy_bytes(arena, inputs, input_count * sizeof *inputs);
  node->outputs =
      keel_arena_copy_bytes(arena, outputs, output_count * sizeof *outputs);
  if (!node->name || !node->inputs || !node->outputs) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < output_count; i++)
    if (outputs[i] != KEEL_ABSENT)
      function->values[outputs[i]].producer = function->node_count - 1;
  if (out_node) *out_node = node;
  return KD_OK;
}

/* ---- copying -------------------------------------------------------------- */

static bool has_graphs(const keel_opdef *op) {
  for (uint32_t i = 0; i < op->attr_count; i++)
    if (op->attrs[i].graph) return true;
  return false;
}

/* The op again, with clones of its nested functions; plain ops are shared. */
static keel_status clone_op(const keel_opdef *from, keel_arena *arena,
                            keel_function **list, keel_opdef **out_op) {
  if (!has_graphs(from)) {
    *out_op = keel_opdef_retain((keel_opdef *)(uintptr_t)from);
    return KD_OK;
  }
  uint32_t count = from->attr_count;
  keel_attr *attrs = keel_arena_take(arena, (count + 1) * sizeof *attrs);
  keel_function **graphs = keel_arena_take(arena, (count + 1) * sizeof *graphs);
  if (!attrs || !graphs) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < count; i++) {
    attrs[i] = from->attrs[i].value;
    if (from->attrs[i].graph)
      KEEL_TRY(
          keel_function_clone(from->attrs[i].graph, arena, list, &graphs[i]));
  }
  return keel_opdef_create(from->context, from->schema, attrs, count, graphs,
                           out_op);
}

keel_status keel_function_clone(const keel_function *from, keel_arena *arena,
                                keel_function **list,
                                keel_function **out_function) {
  keel_function *to = NULL;
  KEEL_TRY(keel_function_create(from->context, arena, list, from->name, &to));
  for (uint32_t i = 0; i < from->value_count; i++) {
    uint32_t value = keel_function_value(to, from->values[i].name);
    if (value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    to->values[value].type = from->values[i].type;
    to->values[value].open = from->values[i].open;
    to->values[value].constant = keel_tensor_retain(from->values[i].constant);
  }
  for (uint32_t i = 0; i < from->input_count; i++)
    KEEL_TRY(keel_function_input(to, from->inputs[i], &from->input_ports[i]));
  for (uint32_t i = 0; i < from->output_count; i++)
    KEEL_TRY(
        keel_function_output(to, from->outputs[i], &from->output_ports[i]));
  to->capture_count = from->capture_count;
  for (uint32_t i = 0; i < from->node_count; i++) {
    const keel_node *node = &from->nodes[i];
    keel_opdef *op = NULL;
    if (node->dead) continue;
    KEEL_TRY(clone_op(node->op, arena, list, &op));
    keel_node *copy = NULL;
    KEEL_TRY(keel_function_node(to, op, node->name, node->inputs,
                                node->input_count, node->outputs,
                                node->output_count, &copy));
    copy->device = node->device;
    copy->group = node->group;
    copy->region = keel_region_retain(node->region);
  }
  *out_function = to;
  return KD_OK;
}

/* The values of `to` for all of `from`. */
static keel_status map_values(keel_function *to, const keel_function *from,
                              const uint32_t *inputs, uint32_t *map) {
  for (uint32_t i = 0; i < from->value_count; i++)
    map[i] = KEEL_ABSENT;
  for (uint32_t i = 0; i < from->input_count; i++)
    map[from->inputs[i]] = inputs[i];
  for (uint32_t i = 0; i < from->value_count; i++) {
    const keel_value_info *info = &from->values[i];
    if (map[i] != KEEL_ABSENT) continue;
    map[i] = info->constant
                 ? keel_function_constant(to, info->name, info->constant)
                 : keel_function_value(to, info->name);
    if (map[i] == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    to->values[map[i]].type = info->type;
  }
  return KD_OK;
}

static keel_status inline_node(keel_function *to, const keel_node *node,
                               keel_function **list, const uint32_t *map) {
  uint32_t n = node->input_count, m = node->output_count;
  uint32_t *values = keel_arena_take(to->arena, (n + m + 1) * sizeof *values);
  keel_opdef *op = NULL;
  keel_node *copy = NULL;
  if (!values) return KD_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < n + m; k++) {
    uint32_t value = k < n ? node->inputs[k] : node->outputs[k - n];
    values[k] = value == KEEL_ABSENT ? KEEL_ABSENT : map[value];
  }
  KEEL_TRY(clone_op(node->op, to->arena, list, &op));
  KEEL_TRY(
      keel_function_node(to, op, node->name, values, n, values + n, m, &copy));
  copy->device = node->device;
  copy->group = node->group;
  copy->region = keel_region_retain(node->region);
  return KD_OK;
}

keel_status keel_function_inline(keel_function *to, const keel_function *from,
                                 keel_function **list, const uint32_t *inputs,
                                 uint32_t *outputs) {
  uint32_t *map =
      keel_arena_take(to->arena, (from->value_count + 1) * sizeof *map);
  if (!map) return KD_OUT_OF_MEMORY;
  KEEL_TRY(map_values(to, from, inputs, map));
  for (uint32_t i = 0; i < from->node_count; i++)
    if (!from->nodes[i].dead)
      KEEL_TRY(inline_node(to, &from->nodes[i], list, map));
  for (uint32_t i = 0; i < from->output_count; i++)
    outputs[i] = map[from->outputs[i]];
  return KD_OK;
}

/* ---- sorting -------------------------------------------------------------- */

typedef struct sorting {
  const keel_function *function;
  uint32_t *before; /* by node: the one that touches resources before it */
  uint32_t *stack, *next; /* open nodes, and by node: which need is looked at */
  uint8_t *state;         /* by node: 0, open, done */
  keel_node *nodes;       /* in their order */
  uint32_t done;
} sorting;

/* Need `index` of a node: another node, or KEEL_ABSENT. A dead node needs nothing. */
static uint32_t need_of(const sorting *all, uint32_t node, uint32_t index) {
  const keel_node *at = &all->function->nodes[node];
  if (index == at->input_count) return all->before[node];
  uint32_t value = at->dead ? KEEL_ABSENT : at->inputs[index];
  return value == KEEL_ABSENT ? KEEL_ABSENT
                              : all->function->values[value].producer;
}

static bool is_sorted(const sorting *all) {
  const keel_function *function = all->function;
  for (uint32_t i = 0; i < function->node_count; i++)
    for (uint32_t k = 0; k < function->nodes[i].input_count; k++) {
      uint32_t from = need_of(all, i, k);
      if (from != KEEL_ABSENT && from >= i) return false;
    }
  return true;
}

/* A node behind all that it needs; false: they go in a circle. */
static bool place_node(sorting *all, uint32_t node) {
  uint32_t depth = 0;
  if (all->state[node]) return true;
  all->stack[depth++] = node;
  all->state[node] = 1;
  while (depth) {
    uint32_t at = all->stack[depth - 1];
    if (all->next[at] > all->function->nodes[at].input_count) {
      all->nodes[all->done++] = all->function->nodes[at];
      all->state[at] = 2;
      depth--;
      continue;
    }
    uint32_t need = need_of(all, at, all->next[at]++);
    if (need == KEEL_ABSENT || all->state[need] == 2) continue;
    if (all->state[need]) return false;
    all->stack[depth++] = need;
    all->state[need] = 1;
  }
  return true;
}

/* Whether exchanges and nodes with other effects are different nodes: then neither waits for the
 * other, unless values require it. */
static bool meets_apart(const keel_function *function) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (!node->dead && keel_node_has(node, KEEL_OP_MEETS) &&
        !(node->op->schema->flags & KEEL_OP_MEETS))
      return false; /* in a body */
  }
  return true;
}

static keel_status sort_nodes(sorting *all, keel_function *function) {
  uint32_t n = function->node_count, last[] = {KEEL_ABSENT, KEEL_ABSENT};
  bool apart = meets_apart(function);
  for (uint32_t i = 0; i < n; i++) {
    const keel_node *node = &function->nodes[i];
    all->before[i] = KEEL_ABSENT;
    if (node->dead || !keel_node_has_effects(node)) continue;
    uint32_t *own = &last[apart && keel_node_has(node, KEEL_OP_MEETS)];
    all->before[i] = *own;
    *own = i;
  }
  if (is_sorted(all)) return KD_OK;
  for (uint32_t i = 0; i < n; i++)
    if (!place_node(all, i))
      return keel_fail(KD_DATA_LOSS, "the graph has a cycle");
  memcpy(function->nodes, all->nodes, n * sizeof *all->nodes);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < all->nodes[i].output_count; k++)
      if (all->nodes[i].outputs[k] != KEEL_ABSENT)
        function->values[all->nodes[i].outputs[k]].producer = i;
  return KD_OK;
}

/* A stable topological sort: keeps the order where it is already right, and otherwise puts a node's
 * producers right before it. Nodes that access resources keep their order. */
keel_status keel_function_sort(keel_function *function) {
  size_t n = (size_t)function->node_count + 1;
  sorting all = {.function = function,
                 .before = malloc(n * sizeof *all.before),
                 .stack = malloc(n * sizeof *all.stack),
                 .next = calloc(n, sizeof *all.next),
                 .state = calloc(n, sizeof *all.state),
                 .nodes = malloc(n * sizeof *all.nodes)};
  keel_status status =
      all.before && all.stack && all.next && all.state && all.nodes
          ? sort_nodes(&all, function)
          : keel_no_memory(n * sizeof *all.nodes);
  free(all.before);
  free(all.stack);
  free(all.next);
  free(all.state);
  free(all.nodes);
  return status;
}

/* ---- random nodes, and nodes with effects ----------------------------------- */

/* Whether an input is a constant of nothing but zeros. */
static bool input_is_zero(const keel_function *function, const keel_node *node,
                          uint32_t index) {
  const uint32_t value =
      index < node->input_count ? node->inputs[index] : KEEL_ABSENT;
  const keel_tensor *data =
      value == KEEL_ABSENT ? NULL : function->values[value].constant;
  if (!data || data->kind != KEEL_DATA || !data->data || !data->type->bytes)
    return false;
  for (uint64_t i = 0; i < data->type->bytes; i++)
    if (((const uint8_t *)data->data)[i]) return false;
  return true;
}

bool keel_node_is_random(const keel_function *function, const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  if (schema->flags & KEEL_OP_RANDOM) return true;
  return schema->traits & KEEL_OP_DROPS && node->input_count > 2 &&
         node->inputs[2] != KEEL_ABSENT && !input_is_zero(function, node, 2) &&
         !input_is_zero(function, node, 1);
}

bool keel_node_has(const keel_node *node, uint32_t flags) {
  const keel_opdef *op = node->op;
  if (op->schema->flags & flags) return true;
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const keel_function *graph = op->attrs[i].graph;
    for (uint32_t k = 0; graph && k < graph->node_count; k++)
      if (!graph->nodes[k].dead &&
          (keel_node_has(&graph->nodes[k], flags) ||
           ((flags & KEEL_OP_RANDOM) &&
            keel_node_is_random(graph, &graph->nodes[k]))))
        return true;
  }
  return false;
}

bool keel_node_has_effects(const keel_node *node) {
  return keel_node_has(node, KEEL_OP_READS | KEEL_OP_WRITES);
}

bool keel_node_changes(const keel_node *node) {
  return keel_node_has(node, KEEL_OP_WRITES);
}

/* ---- asking --------------------------------------------------------------- */

keel_status keel_function_port(const keel_function *function, bool output,
                               uint32_t index, keel_port *out_port) {
  uint32_t count = output ? function->output_count : function->input_count;
  if (index >= count)
    return keel_fail(KD_OUT_OF_RANGE, "the program has %u %s", (unsigned)count,
                     output ? "outputs" : "inputs");
  *out_port =
      output ? function->output_ports[index] : function->input_ports[index];
  return KD_OK;
}

uint32_t keel_program_input_count(const keel_program *program) {
  return program->main->input_count;
}

uint32_t keel_program_output_count(const keel_program *program) {
  return program->main->output_count;
}

keel_status keel_program_input(const keel_program *program, uint32_t index,
                               keel_port *out_port) {
  return keel_function_port(program->main, false, index, out_port);
}

keel_status keel_program_output(const keel_program *program, uint32_t index,
                                keel_port *out_port) {
  return keel_function_port(program->main, true, index, out_port);
}

uint32_t keel_program_op_count(const keel_program *program) {
  uint32_t count = 0;
  for (const keel_function *at = program->functions; at; at = at->next)
    count += at->node_count;
  return count;
}

void keel_program_regions(const keel_program *program, uint32_t *out_held,
                          uint64_t *out_size, uint32_t *out_bare) {
  const keel_forms *forms = &program->forms;
  uint64_t size = 0;
  for (uint32_t i = 0; i < forms->count; i++)
    size += forms->list[i].size;
  if (out_held) *out_held = forms->count;
  if (out_size) *out_size = size;
  if (out_bare) *out_bare = forms->bare;
}

int keel_program_is_random(const keel_program *program) {
  for (const keel_function *at = program->functions; at; at = at->next)
    for (uint32_t i = 0; i < at->node_count; i++)
      if (keel_node_is_random(at, &at->nodes[i])) return 1;
  return 0;
}

/* ---- readers of values --------------------------------------------------------- */

keel_status keel_uses_count(const keel_function *function,
                            keel_uses *out_uses) {
  uint32_t n = function->value_count + 1;
  out_uses->counts = calloc(n, sizeof *out_uses->counts);
  out_uses->reader = malloc(n * sizeof *out_uses->reader);
  if (!out_uses->counts || !out_uses->reader) {
    keel_uses_drop(out_uses);
    return keel_no_memory(n * sizeof(uint32_t));
  }
  out_uses->value_count = function->value_count;
  for (uint32_t i = 0; i < n; i++)
    out_uses->reader[i] = KEEL_ABSENT;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    for (uint32_t k = 0; !node->dead && k < node->input_count; k++)
      if (node->inputs[k] != KEEL_ABSENT) {
        out_uses->counts[node->inputs[k]]++;
        out_uses->reader[node->inputs[k]] = i;
      }
  }
  for (uint32_t i = 0; i < function->output_count; i++)
    out_uses->counts[function->outputs[i]]++;
  return KD_OK;
}

void keel_uses_drop(keel_uses *uses) {
  free(uses->counts);
  free(uses->reader);
  *uses = (keel_uses){0};
}
