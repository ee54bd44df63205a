/* outline.c - lets a device record its ops between nodes that run elsewhere.
 *
 * A device that records launches a whole static run as one (run/replay.h), and one node on
 * another device, on the host, or of a kernel that can't be recorded would take that from all
 * nodes of the function. So each stretch of nodes between such nodes becomes a function of its
 * own, which a keel::Call runs: it is a static run, and is recorded.
 *
 * Nodes of one device are in one stretch if they are at the same stage: the most borders that a
 * path to the node crosses, from a node elsewhere, or from another device's stretch. So no path
 * leaves a stretch and enters it again.
 *
 * Inputs of a run may be pending, exchanges with other runs as well, and what does not need one does
 * not wait for it. So nodes are in one stretch only if they need the same inputs (of the main
 * function) and the same nodes with effects, exchanges among them. Those run in their order, so each
 * needs the ones before. */
#include <keel/debug.h>

#include "device/device.h"
#include "eager/call_site.h"
#include "passes/passes.h"
#include "program/graph.h"

/* Fewer kernels are launched one by one: a recording of them gains nothing. */
#define KERNELS_LEAST 3

typedef struct stretch {
  keel_device *device;
  uint32_t stage, kernels;
  const uint64_t *needs; /* of its nodes */
  uint32_t first, count; /* of its nodes, in `members` */
} stretch;

typedef struct outline {
  keel_function *function;
  keel_function **list;
  keel_device *device; /* of nodes that name none */
  /* by node: */
  keel_device **recorded; /* the device that may record it, or NULL */
  uint32_t *stage;
  uint64_t *needs; /* values that may be pending, by bit, in `words` */
  uint32_t *owner; /* its stretch, or KEEL_ABSENT */
  uint32_t capacity, words;
  uint32_t input_count; /* that may be pending: 0: all are known when it runs */
  stretch *stretches;
  uint32_t count, stretch_capacity;
  uint32_t *members;
  /* by value: its number in the new function, and the layout that it lies in */
  uint32_t *inside, *layouts;
  keel_readers readers;
} outline;

/* ---- recordable nodes ------------------------------------------------------------ */

static bool records(const keel_device *device) {
  return device && device->plugin->capture.begin;
}

static bool outline_is_known(const keel_function *function, uint32_t value) {
  const keel_type *type =
      value == KEEL_ABSENT ? NULL : function->values[value].type;
  return value == KEEL_ABSENT || (type && keel_type_known(type));
}

/* Whether a recording's kernel can have the argument: it is on the device, or constant. */
static bool takes_inputs(const keel_function *function, const keel_node *node,
                         const kd_kernel_def *def) {
  uint32_t wanted = node->op->schema->value_inputs | def->host_inputs;
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t value = node->inputs[i];
    if (value == KEEL_ABSENT || function->values[value].constant) continue;
    if (i < 32 && wanted >> i & 1) return false;
  }
  return true;
}

static keel_device *kernel_device(const outline *all, const keel_node *node) {
  const keel_function *function = all->function;
  keel_device *wanted = node->device ? node->device : all->device;
  keel_device *device = NULL;
  const kd_kernel_def *def = NULL;
  keel_view view;
  if (node->region) {
    device = node->region->device;
    def = &node->region->def;
  } else if (records(wanted)) {
    if (!keel_view_make(function, node, &view) ||
        keel_choose_kernel(function->context, wanted, &view.node, node->name,
                           &device, &def) != KD_OK)
      device = NULL;
    keel_view_drop(&view);
  }
  return records(device) &&
                 !(def->flags & (KD_KERNEL_NO_CAPTURE | KD_KERNEL_BLOCKING |
                                 KD_KERNEL_DYNAMIC_OUTPUT)) &&
                 !def->host_outputs && takes_inputs(function, node, def)
             ? device
             : NULL;
}

/* An op that copies nothing is in the stretch that makes its input. */
static keel_device *outline_device_of(const outline *all,
                                      const keel_node *node) {
  const keel_function *function = all->function;
  const keel_schema *schema = node->op->schema;
  uint32_t from = node->input_count ? node->inputs[0] : KEEL_ABSENT;
  if (node->dead || keel_node_has_effects(node)) return NULL;
  for (uint32_t i = 0; i < node->input_count; i++)
    if (!outline_is_known(function, node->inputs[i])) return NULL;
  for (uint32_t i = 0; i < node->output_count; i++)
    if (!outline_is_known(function, node->outputs[i])) return NULL;
  switch (schema->kind) {
    case KEEL_BY_KERNEL:
      return kernel_device(all, node);
    case KEEL_COPY:
      return !keel_attr_int(node->op, "host", 0) && records(node->device)
                 ? node->device
                 : NULL;
    case KEEL_IDENTITY:
    case KEEL_VIEW:
    case KEEL_PART:
      from =
          from == KEEL_ABSENT ? KEEL_ABSENT : function->values[from].producer;
      return from == KEEL_ABSENT ? NULL : all->recorded[from];
    default:
      return NULL;
  }
}

/* ---- stretches -------------------------------------------------------------------- */

/* The stage of a node behind node `before`. */
static uint32_t stage_behind(const outline *all, uint32_t before,
                             const keel_device *device) {
  bool crosses = device && all->recorded[before] != device;
  return all->stage[before] + crosses;
}

static uint64_t *needs_of(const outline *all, uint32_t node) {
  return &all->needs[(size_t)node * all->words];
}

static void add_needs(const outline *all, uint64_t *to, const uint64_t *from) {
  for (uint32_t i = 0; i < all->words; i++)
    to[i] |= from[i];
}

static void add_need(const outline *all, uint32_t node, uint32_t bit) {
  needs_of(all, node)[bit / 64] |= UINT64_C(1) << bit % 64;
}

/* Notes that a node reads an input of the function. */
static void outline_add_input(const outline *all, uint32_t node,
                              uint32_t value) {
  const keel_function *function = all->function;
  for (uint32_t i = 0; i < all->input_count; i++)
    if (function->inputs[i] == value && !function->values[value].constant)
      add_need(all, node, i);
}

static bool has_effects(const keel_node *node) {
  return !node->dead && keel_node_has_effects(node);
}

/* How many words the needs of a node take. */
static uint32_t count_words(const outline *all) {
  uint32_t count = all->input_count;
  for (uint32_t i = 0; i < all->function->node_count; i++)
    count += has_effects(&all->function->nodes[i]);
  return (count + 63) / 64;
}

static void find_needs(const outline *all) {
  const keel_function *function = all->function;
  uint32_t last = KEEL_ABSENT, next = all->input_count;
  for (uint32_t i = 0; all->words && i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (node->dead) continue;
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t value = node->inputs[k];
      if (value == KEEL_ABSENT) continue;
      uint32_t before = function->values[value].producer;
      if (before == KEEL_ABSENT)
        outline_add_input(all, i, value);
      else
        add_needs(all, needs_of(all, i), needs_of(all, before));
    }
    if (!has_effects(node)) continue;
    add_need(all, i, next++);
    if (last != KEEL_ABSENT)
      add_needs(all, needs_of(all, i), needs_of(all, last));
    last = i;
  }
}

static void find_stages(outline *all) {
  const keel_function *function = all->function;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (node->dead) continue;
    uint32_t stage = 0;
    all->recorded[i] = outline_device_of(all, node);
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t before = node->inputs[k] == KEEL_ABSENT
                            ? KEEL_ABSENT
                            : function->values[node->inputs[k]].producer;
      if (before == KEEL_ABSENT) continue;
      uint32_t behind = stage_behind(all, before, all->recorded[i]);
      if (behind > stage) stage = behind;
    }
    all->stage[i] = stage;
  }
}

/* The stretch of a node's stage, device and needs, which may be new. */
static keel_status find_stretch(outline *all, uint32_t node,
                                uint32_t *out_stretch) {
  uint32_t stage = all->stage[node];
  keel_device *device = all->recorded[node];
  const uint64_t *needs = needs_of(all, node);
  for (*out_stretch = all->count; (*out_stretch)-- > 0;) {
    const stretch *at = &all->stretches[*out_stretch];
    if (at->stage == stage && at->device == device &&
        !memcmp(at->needs, needs, all->words * sizeof *needs))
      return KD_OK;
  }
  if (!KEEL_ROOM(all->stretches, all->count, all->stretch_capacity))
    return KD_OUT_OF_MEMORY;
  *out_stretch = all->count++;
  all->stretches[*out_stretch] =
      (stretch){.device = device, .stage = stage, .needs = needs};
  return KD_OK;
}

static bool launches(const keel_node *node) {
  return !keel_schema_hosted(node->op->schema);
}

/* Gives nodes their stretches. *out_elsewhere: whether any node is in none. */
static keel_status assign(outline *all, bool *out_elsewhere) {
  const keel_function *function = all->function;
  *out_elsewhere = false;
  for (uint32_t i = 0; i < function->node_count; i++) {
    all->owner[i] = KEEL_ABSENT;
    *out_elsewhere |= !function->nodes[i].dead && !all->recorded[i];
    if (!all->recorded[i]) continue;
    KEEL_TRY(find_stretch(all, i, &all->owner[i]));
    stretch *own = &all->stretches[all->owner[i]];
    own->kernels += launches(&function->nodes[i]);
    *out_elsewhere |= own->device != all->stretches[0].device ||
                      own->stage != all->stretches[0].stage;
  }
  for (uint32_t i = 0; i < function->node_count; i++)
    if (all->owner[i] != KEEL_ABSENT &&
        all->stretches[all->owner[i]].kernels < KERNELS_LEAST)
      all->owner[i] = KEEL_ABSENT;
  return KD_OK;
}

/* ---- parts ------------------------------------------------------------------------ */

/* A keel::Part again, for the readers in one stretch (or in none). */
static keel_status repeat_part(outline *all, uint32_t part, uint32_t owner) {
  keel_function *function = all->function;
  const keel_node from = function->nodes[part];
  uint32_t value = from.outputs[0], count = function->node_count;
  uint32_t made = keel_function_value(function, function->values[value].name);
  keel_node *node = NULL;
  if (made == KEEL_ABSENT ||
      !KEEL_ROOM(all->owner, function->node_count, all->capacity))
    return KD_OUT_OF_MEMORY;
  function->values[made].type = function->values[value].type;
  KEEL_TRY(keel_function_node(function, keel_opdef_retain(from.op), from.name,
                              from.inputs, 1, &made, 1, &node));
  node->device = from.device;
  node->part = from.part;
  all->owner[count] = owner;
  for (uint32_t i = 0; i < count; i++) {
    const keel_node *reader = &function->nodes[i];
    for (uint32_t k = 0;
         !reader->dead && all->owner[i] == owner && k < reader->input_count;
         k++)
      if (reader->inputs[k] == value) reader->inputs[k] = made;
  }
  return KD_OK;
}

/* A part is not a value that could leave a function, as its begin is not recorded there: it stays
 * where its readers are. */
static keel_status move_part(outline *all, uint32_t part) {
  const keel_function *function = all->function;
  uint32_t value = function->nodes[part].outputs[0], own = KEEL_ABSENT;
  bool found = false;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *reader = &function->nodes[i];
    bool reads = false;
    for (uint32_t k = 0; !reader->dead && k < reader->input_count; k++)
      reads |= reader->inputs[k] == value;
    if (!reads || (found && all->owner[i] == own)) continue;
    if (found) {
      KEEL_TRY(repeat_part(all, part, all->owner[i]));
    } else {
      own = all->owner[i];
      found = true;
    }
  }
  all->owner[part] = own;
  return KD_OK;
}

static keel_status move_parts(outline *all) {
  for (uint32_t i = all->function->node_count; i-- > 0;)
    if (!all->function->nodes[i].dead && all->function->nodes[i].part)
      KEEL_TRY(move_part(all, i));
  return KD_OK;
}

/* ---- functions -------------------------------------------------------------------- */

static keel_port port_of(const keel_function *function, uint32_t value) {
  const keel_type *type = function->values[value].type;
  return (keel_port){
      .dtype = type->dtype, .rank = type->rank, .dims = type->dims};
}

/* The inputs of a stretch: constants, and inputs; the latter also into `inputs`. */
static keel_status outline_add_inputs(outline *all,
                                      const struct kd_graph *graph,
                                      keel_function *to, uint32_t *inputs) {
  const keel_function *from = all->function;
  to->input_layouts = keel_arena_take(
      to->arena, ((size_t)graph->input_count + 1) * sizeof *to->input_layouts);
  if (!to->input_layouts) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < graph->input_count; i++) {
    uint32_t value = graph->inputs[i];
    const keel_value_info *info = &from->values[value];
    uint32_t made = info->constant
                        ? keel_function_constant(to, info->name, info->constant)
                        : keel_function_value(to, info->name);
    if (made == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    all->inside[value] = made;
    to->values[made].type = info->type;
    to->values[made].placed = keel_tensor_retain(info->placed);
    if (info->constant) continue;
    const keel_port port = port_of(from, value);
    inputs[to->input_count] = value;
    to->input_layouts[to->input_count] = all->layouts[value];
    KEEL_TRY(keel_function_input(to, made, &port));
  }
  return KD_OK;
}

/* A node's outputs, before any node that reads them. */
static keel_status add_results(outline *all, const keel_node *node,
                               keel_function *to) {
  for (uint32_t k = 0; k < node->output_count; k++) {
    uint32_t value = node->outputs[k];
    if (value == KEEL_ABSENT) continue;
    const keel_value_info *info = &all->function->values[value];
    uint32_t made = keel_function_value(to, info->name);
    if (made == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    to->values[made].type = info->type;
    all->inside[value] = made;
  }
  return KD_OK;
}

static keel_status move_node(outline *all, uint32_t index, keel_function *to) {
  keel_node *node = &all->function->nodes[index], *made = NULL;
  uint32_t n = node->input_count, m = node->output_count;
  uint32_t *values = keel_arena_take(to->arena, (n + m + 1) * sizeof *values);
  if (!values) return KD_OUT_OF_MEMORY;
  for (uint32_t k = 0; k < n + m; k++) {
    uint32_t value = k < n ? node->inputs[k] : node->outputs[k - n];
    values[k] = value == KEEL_ABSENT ? KEEL_ABSENT : all->inside[value];
  }
  KEEL_TRY(keel_function_node(to, keel_opdef_retain(node->op), node->name,
                              values, n, values + n, m, &made));
  made->device = node->device;
  made->output_layout = node->output_layout;
  made->part = node->part;
  made->region = node->region;
  node->region = NULL;
  node->dead = true;
  return KD_OK;
}

static keel_status add_call(outline *all, keel_function *body,
                            const uint32_t *inputs,
                            const struct kd_graph *graph) {
  keel_function *function = all->function;
  const keel_attr attr = {.name = "body", .kind = KD_ATTR_GRAPH};
  keel_opdef *op = NULL;
  if (!KEEL_ROOM(all->owner, function->node_count, all->capacity))
    return KD_OUT_OF_MEMORY;
  all->owner[function->node_count] = KEEL_ABSENT;
  KEEL_TRY(keel_opdef_create(function->context, keel_schema_of_kind(KEEL_CALL),
                             &attr, 1, &body, &op));
  return keel_function_node(function, op, "", inputs, body->input_count,
                            graph->outputs, graph->output_count, NULL);
}

static keel_status move_out(outline *all, uint32_t index,
                            const struct kd_graph *graph) {
  const stretch *at = &all->stretches[index];
  keel_function *function = all->function, *body = NULL;
  uint32_t *inputs = keel_arena_take(
      function->arena, ((size_t)graph->input_count + 1) * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  KEEL_TRY(keel_function_create(function->context, function->arena, all->list,
                                function->name, &body));
  body->recorded_on = at->device;
  KEEL_TRY(outline_add_inputs(all, graph, body, inputs));
  const uint32_t *members = all->members + at->first;
  for (uint32_t i = 0; i < at->count; i++)
    KEEL_TRY(add_results(all, &function->nodes[members[i]], body));
  for (uint32_t i = 0; i < at->count; i++)
    KEEL_TRY(move_node(all, members[i], body));
  KEEL_TRY(keel_function_sort(body)); /* parts may be behind their readers */
  for (uint32_t i = 0; i < graph->output_count; i++) {
    const keel_port port = port_of(function, graph->outputs[i]);
    KEEL_TRY(keel_function_output(body, all->inside[graph->outputs[i]], &port));
  }
  return add_call(all, body, inputs, graph);
}

/* Constants that only stretches read are theirs now. */
static keel_status release_constants(keel_function *function) {
  keel_uses uses;
  KEEL_TRY(keel_uses_count(function, &uses));
  for (uint32_t i = 0; i < function->value_count; i++) {
    if (uses.counts[i]) continue;
    keel_value_info *value = &function->values[i];
    keel_tensor_release(value->constant);
    keel_tensor_release(value->placed);
    value->constant = value->placed = NULL;
  }
  keel_uses_drop(&uses);
  return KD_OK;
}

static keel_status note_layouts(outline *all) {
  const keel_function *function = all->function;
  size_t values = (size_t)function->value_count + 1;
  all->inside = calloc(values, sizeof *all->inside);
  all->layouts = calloc(values, sizeof *all->layouts);
  if (!all->inside || !all->layouts) return keel_no_memory(values);
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    if (!node->dead && node->output_layout && node->outputs[0] != KEEL_ABSENT)
      all->layouts[node->outputs[0]] = node->output_layout;
  }
  return KD_OK;
}

/* Sorts the nodes by stretch into `members`. */
static keel_status list_members(outline *all) {
  uint32_t count = all->function->node_count, at = 0;
  all->members = calloc((size_t)count + 1, sizeof *all->members);
  if (!all->members) return keel_no_memory(count);
  for (uint32_t i = 0; i < count; i++)
    if (all->owner[i] != KEEL_ABSENT) all->stretches[all->owner[i]].count++;
  for (uint32_t i = 0; i < all->count; i++) {
    all->stretches[i].first = at;
    at += all->stretches[i].count;
    all->stretches[i].count = 0;
  }
  for (uint32_t i = 0; i < count; i++) {
    if (all->owner[i] == KEEL_ABSENT) continue;
    stretch *own = &all->stretches[all->owner[i]];
    all->members[own->first + own->count++] = i;
  }
  return KD_OK;
}

static keel_status move_all_out(outline *all) {
  KEEL_TRY(note_layouts(all));
  KEEL_TRY(list_members(all));
  KEEL_TRY(keel_readers_make(all->function, &all->readers));
  for (uint32_t i = 0; i < all->count; i++) {
    const stretch *at = &all->stretches[i];
    struct kd_graph graph = {0};
    if (!at->count) continue;
    keel_status status =
        keel_graph_part(all->function, &all->readers, all->owner,
                        all->members + at->first, at->count, &graph);
    if (status == KD_OK && graph.output_count)
      status = move_out(all, i, &graph);
    keel_graph_drop(&graph);
    KEEL_TRY(status);
  }
  KEEL_TRY(release_constants(all->function));
  return keel_function_sort(all->function);
}

/* ---- the pass --------------------------------------------------------------------- */

static keel_status outline_run(outline *all) {
  size_t capacity = (size_t)all->function->node_count + 1;
  bool elsewhere = false, any = false;
  all->recorded = calloc(capacity, sizeof(keel_device *));
  all->stage = calloc(capacity, sizeof *all->stage);
  all->owner = calloc(capacity, sizeof *all->owner);
  all->words = count_words(all);
  all->needs = calloc(capacity * all->words + 1, sizeof *all->needs);
  if (!all->recorded || !all->stage || !all->owner || !all->needs)
    return keel_no_memory(capacity * sizeof *all->stage);
  all->capacity = (uint32_t)capacity;
  find_stages(all);
  find_needs(all);
  KEEL_TRY(assign(all, &elsewhere));
  for (uint32_t i = 0; i < all->function->node_count; i++)
    any |= all->owner[i] != KEEL_ABSENT;
  if (!elsewhere || !any) return KD_OK;
  KEEL_TRY(move_parts(all));
  return move_all_out(all);
}

static void outline_drop(outline *all) {
  free(all->recorded);
  free(all->stage);
  free(all->needs);
  free(all->owner);
  free(all->stretches);
  free(all->members);
  free(all->inside);
  free(all->layouts);
  keel_readers_drop(&all->readers);
}

keel_status keel_pass_outline(keel_function *functions,
                              const keel_pass_call *call) {
  keel_status status = KD_OK;
  if (call->params->flags & KEEL_PLAN_NO_REPLAY) return KD_OK;
  for (keel_function *f = functions; f && status == KD_OK; f = f->next) {
    /* the list begins with the same function as before */
    outline all = {
        .function = f, .list = &functions->next, .device = call->device};
    if (f->recorded_on) continue;
    if (f == call->main) all.input_count = f->input_count;
    status = outline_run(&all);
    outline_drop(&all);
  }
  return status;
}
