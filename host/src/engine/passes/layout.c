/* layout.c - lets kernels hand on tensors in layouts of the device's own.
 *
 * Forward through the function: the plugin says of each node that may have a kernel
 * for its layouts how it likes inputs and output 0; what comes otherwise goes through
 * keel::Reorder. An elementwise kernel passes on what all its inputs have. Before all
 * others, other devices' among them, and at the function's outputs, values are brought to rows.
 * So each device that has nodes is gone through, the plan's first. */
#include "memory/layout.h"
#include "device/context.h"
#include "device/device.h"
#include "device/lost.h"
#include "eager/call_site.h"
#include "passes/passes.h"
#include "program/emit.h"
#include "program/graph.h"

/* A replica of a value in another layout. */
typedef struct replica {
  uint32_t layout, value, next; /* next: of the same value, or KEEL_ABSENT */
} replica;

typedef struct pass {
  keel_function *function;
  keel_device *device; /* entered */
  bool is_main;        /* the plan's: nodes without a device are its */
  uint32_t *layouts;   /* by value: that it is made in */
  uint32_t *first;     /* by value: its first replica, or KEEL_ABSENT */
  uint32_t values;     /* that the two arrays have room for */
  replica *replicas;
  uint32_t replica_count, replica_capacity;
  keel_readers readers; /* as they were when the pass began */
  uint32_t *wanted;     /* by input of the node at hand */
  uint32_t wanted_capacity;
} pass;

static bool runs_here(const pass *all, const keel_node *node) {
  return node->device ? node->device == all->device : all->is_main;
}

static uint32_t layout_of(const pass *all, uint32_t value) {
  return value < all->values ? all->layouts[value] : KD_LAYOUT_ROW_MAJOR;
}

static bool reads_layouts(const pass *all, const keel_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++)
    if (layout_of(all, node->inputs[i])) return true;
  return false;
}

/* ---- the plugin's answers ----------------------------------------------------- */

static bool has_kernel(const pass *all, const keel_node *node, uint32_t flag) {
  const keel_schema *schema = node->op->schema;
  const keel_kernel_list *list =
      keel_schema_hosted(schema)
          ? NULL
          : keel_device_kernels(all->device, schema->domain, schema->name);
  for (uint32_t i = 0; list && i < list->count; i++)
    if (list->defs[i]->flags & flag) return true;
  return false;
}

/* A layout that the plugin prefers, where it has a size in it. */
static uint32_t sane(const pass *all, const keel_type *type, uint32_t layout) {
  return layout && keel_layout_size(all->device, type, layout)
             ? layout
             : KD_LAYOUT_ROW_MAJOR;
}

/* How far is_wanted looks: nodes one behind the other, and readers of each value. */
#define NODES_AHEAD 6
#define READERS     4

static bool has_trait(const keel_node *node, uint32_t trait) {
  return !node->dead && node->op->schema->traits & trait;
}

/* Ops that accept inputs in a layout, but gain nothing by it. */
static bool hands_on(const pass *all, const keel_node *node) {
  return has_trait(node, KEEL_OP_HANDS_ON) ||
         has_kernel(all, node, KD_KERNEL_LAYOUT_AGNOSTIC);
}

static bool is_wanted(const pass *all, uint32_t value, int depth);

/* Whether a node may gain by reading a value in a layout of the device's own; or else a reader
 * of its output, where it keeps the layout. */
static bool gains(const pass *all, const keel_node *node, uint32_t value,
                  int depth) {
  if (has_trait(node, KEEL_OP_PERMUTES)) {
    const keel_type *type = all->function->values[value].type;
    return type && keel_pass_moves_channels(node, type->rank, false);
  }
  if (hands_on(all, node))
    return node->output_count && is_wanted(all, node->outputs[0], depth + 1);
  return has_kernel(all, node, KD_KERNEL_OWN_LAYOUT);
}

/* Whether a value has a reader that gains. */
static bool is_wanted(const pass *all, uint32_t value, int depth) {
  if (value >= all->values || depth == NODES_AHEAD) return false;
  uint32_t from = all->readers.first[value];
  uint32_t to = all->readers.first[value + 1];
  for (uint32_t r = from; r < to && r < from + READERS; r++) {
    const keel_node *node = &all->function->nodes[all->readers.list[r]];
    if (!node->dead && runs_here(all, node) && gains(all, node, value, depth))
      return true;
  }
  return false;
}

/* Whether a node might make an output in a layout of the device's own without such a reader: a
 * Resize that makes more than it reads, as its input costs less to convert, or a Transpose of
 * rows. */
static bool is_for_rows(const pass *all, const keel_node *node,
                        const struct kd_node *asked) {
  bool grows = has_trait(node, KEEL_OP_RESIZES) && asked->inputs[0] &&
               asked->outputs[0] &&
               asked->outputs[0]->elements > asked->inputs[0]->elements;
  bool turns =
      has_trait(node, KEEL_OP_PERMUTES) && !layout_of(all, node->inputs[0]);
  return (grows || turns) && !is_wanted(all, node->outputs[0], 0);
}

/* Fills all->wanted and node->output_layout. */
static void layout_ask(pass *all, const keel_node *node,
                       struct kd_node *asked) {
  uint32_t (*preferred)(kd_device *, const kd_node *, uint32_t) =
      all->device->plugin->layouts.preferred;
  kd_device *device = all->device->handle;
  asked->layouts = all->wanted;
  asked->output_layout = KD_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < node->input_count; i++)
    all->wanted[i] = layout_of(all, node->inputs[i]);
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (!asked->inputs[i] || all->function->values[node->inputs[i]].constant)
      continue;
    all->wanted[i] = sane(all, asked->inputs[i], preferred(device, asked, i));
  }
  if (node->outputs[0] < all->values)
    asked->output_layout = sane(all, asked->outputs[0],
                                preferred(device, asked, node->input_count));
}

/* The layout that all inputs have, which are of the output's type; rows: they have not. */
static uint32_t common(const pass *all, const keel_node *node,
                       const struct kd_node *asked) {
  uint32_t layout = layout_of(all, node->inputs[0]);
  for (uint32_t i = 0; i < node->input_count; i++)
    if (layout_of(all, node->inputs[i]) != layout ||
        asked->inputs[i] != asked->outputs[0])
      return KD_LAYOUT_ROW_MAJOR;
  return layout;
}

/* Whether the device runs the node with the layouts that it has, by a kernel of these
 * flags. */
static bool layout_takes(const pass *all, const keel_node *node,
                         struct kd_node *asked, uint32_t flags) {
  keel_device *device = NULL;
  const kd_kernel_def *def = NULL;
  bool own = asked->output_layout != KD_LAYOUT_ROW_MAJOR;
  for (uint32_t i = 0; i < node->input_count; i++)
    own |= all->wanted[i] != KD_LAYOUT_ROW_MAJOR;
  return own &&
         keel_choose_kernel(all->function->context, all->device, asked,
                            node->name, &device, &def) == KD_OK &&
         device == all->device && (def->flags & flags);
}

/* Fills all->wanted; rows for all where no kernel takes others. *out_layout: of output
 * 0. */
static keel_status decide(pass *all, const keel_node *node,
                          uint32_t *out_layout) {
  keel_view view;
  if (node->input_count > all->wanted_capacity) {
    uint32_t *more =
        realloc(all->wanted, node->input_count * sizeof *all->wanted);
    if (!more) return keel_no_memory(node->input_count * sizeof *more);
    all->wanted = more;
    all->wanted_capacity = node->input_count;
  }
  *out_layout = KD_LAYOUT_ROW_MAJOR;
  bool fits = false;
  bool own = has_kernel(all, node, KD_KERNEL_OWN_LAYOUT);
  bool agnostic = node->input_count && reads_layouts(all, node) &&
                  has_kernel(all, node, KD_KERNEL_LAYOUT_AGNOSTIC);
  if ((own || agnostic) && runs_here(all, node)) {
    bool known = keel_view_make(all->function, node, &view);
    if (known && own && !is_for_rows(all, node, &view.node)) {
      layout_ask(all, node, &view.node);
      fits = layout_takes(all, node, &view.node, KD_KERNEL_OWN_LAYOUT);
    }
    if (known && !fits && agnostic) {
      view.node.layouts = all->wanted;
      view.node.output_layout = common(all, node, &view.node);
      for (uint32_t i = 0; i < node->input_count; i++)
        all->wanted[i] = view.node.output_layout;
      fits = layout_takes(all, node, &view.node, KD_KERNEL_LAYOUT_AGNOSTIC);
    }
    if (fits) *out_layout = view.node.output_layout;
    keel_view_drop(&view);
  }
  for (uint32_t i = 0; !fits && i < node->input_count; i++)
    all->wanted[i] = KD_LAYOUT_ROW_MAJOR;
  return KD_OK;
}

/* ---- the conversions ------------------------------------------------------------ */

static keel_status note_replica(pass *all, uint32_t value, uint32_t layout,
                                uint32_t made) {
  if (!KEEL_ROOM(all->replicas, all->replica_count, all->replica_capacity))
    return KD_OUT_OF_MEMORY;
  all->replicas[all->replica_count] =
      (replica){layout, made, all->first[value]};
  all->first[value] = all->replica_count++;
  return KD_OK;
}

static keel_status layout_reorder(pass *all, uint32_t from, uint32_t layout,
                                  uint32_t *out_value) {
  keel_function *function = all->function;
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  *out_value = keel_function_value(function, "");
  if (*out_value == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
  function->values[*out_value].type = function->values[from].type;
  KEEL_TRY(keel_opdef_create(function->context,
                             keel_schema_find("keel", "Reorder"), NULL, 0, NULL,
                             &op));
  KEEL_TRY(keel_function_node(function, op, "", &from, 1, out_value, 1, &node));
  node->output_layout = layout;
  if (!all->is_main) node->device = all->device;
  return KD_OK;
}

/* The same value in another layout; from one of the device's own to another by way of
 * rows. May move the nodes. */
static keel_status replica_of(pass *all, uint32_t value, uint32_t layout,
                              uint32_t *out_replica) {
  uint32_t from = value;
  for (uint32_t i = all->first[value]; i != KEEL_ABSENT;
       i = all->replicas[i].next) {
    *out_replica = all->replicas[i].value;
    if (all->replicas[i].layout == layout) return KD_OK;
    if (!all->replicas[i].layout) from = *out_replica;
  }
  if (layout && all->layouts[value] && from == value) {
    KEEL_TRY(layout_reorder(all, value, KD_LAYOUT_ROW_MAJOR, &from));
    KEEL_TRY(note_replica(all, value, KD_LAYOUT_ROW_MAJOR, from));
  }
  KEEL_TRY(layout_reorder(all, from, layout, out_replica));
  return note_replica(all, value, layout, *out_replica);
}

/* ---- a Split in a layout: as Slices, which have one output each --------------------- */

/* Slice of the Split's input that makes its output `which`. May move the nodes. */
static keel_status add_slice(pass *all, uint32_t split, uint32_t which,
                             int64_t axis, int64_t begin, int64_t end) {
  keel_function *function = all->function;
  keel_emit e = keel_emit_for(function, &function->nodes[split]);
  uint32_t out = e.node.outputs[which];
  const uint32_t in[] = {e.node.inputs[0], keel_emit_int(&e, begin),
                         keel_emit_int(&e, end), keel_emit_int(&e, axis)};
  keel_emit_node(&e, "Slice", NULL, 0, in, 4, &out, 1);
  return e.status;
}

static keel_status add_slices(pass *all, uint32_t split) {
  const keel_node node = all->function->nodes[split];
  int64_t axis = keel_attr_int(node.op, "axis", 0), begin = 0;
  for (uint32_t i = 0; i < node.output_count; i++) {
    const keel_type *type = all->function->values[node.outputs[i]].type;
    uint32_t at = (uint32_t)(axis < 0 ? axis + type->rank : axis);
    KEEL_TRY(add_slice(all, split, i, axis, begin, begin + type->dims[at]));
    begin += type->dims[at];
  }
  return KD_OK;
}

static bool has_known_outputs(const pass *all, const keel_node *node) {
  for (uint32_t i = 0; i < node->output_count; i++) {
    const keel_type *type = node->outputs[i] == KEEL_ABSENT
                                ? NULL
                                : all->function->values[node->outputs[i]].type;
    if (!type || !keel_type_known(type)) return false;
  }
  return true;
}

static keel_status layout_visit(pass *all, uint32_t index);

/* Puts Slices in the place of a Split, if the device has them all in the layout that its input
 * comes in. */
static keel_status cut_up(pass *all, uint32_t split) {
  keel_function *function = all->function;
  uint32_t first = function->node_count;
  bool fit = true;
  KEEL_TRY(add_slices(all, split));
  for (uint32_t i = first; i < function->node_count && fit; i++) {
    uint32_t layout = KD_LAYOUT_ROW_MAJOR;
    KEEL_TRY(decide(all, &function->nodes[i], &layout));
    fit = layout == layout_of(all, function->nodes[i].inputs[0]);
  }
  function->nodes[split].dead = fit;
  for (uint32_t i = first, count = function->node_count; i < count; i++) {
    function->nodes[i].dead = !fit;
    if (fit) {
      KEEL_TRY(layout_visit(all, i));
    } else { /* its output is the Split's again, also for sorting */
      function->values[function->nodes[i].outputs[0]].producer = split;
      function->nodes[i].output_count = 0;
    }
  }
  return KD_OK;
}

static keel_status layout_visit(pass *all, uint32_t index) {
  keel_node *node = &all->function->nodes[index];
  uint32_t layout = node->output_layout;
  bool here = runs_here(all, node);
  if (here && (layout || !strcmp(node->op->schema->name, "Reorder"))) {
    /* planned before, when the file was made */
    if (node->outputs[0] < all->values) all->layouts[node->outputs[0]] = layout;
    return KD_OK;
  }
  if (here && has_trait(node, KEEL_OP_CUTS) && reads_layouts(all, node) &&
      has_known_outputs(all, node)) {
    KEEL_TRY(cut_up(all, index));
    node = &all->function->nodes[index];
    if (node->dead) return KD_OK;
  }
  KEEL_TRY(decide(all, node, &layout));
  if (here) node->output_layout = layout;
  if (here && node->outputs[0] < all->values)
    all->layouts[node->outputs[0]] = layout;
  for (uint32_t i = 0; i < all->function->nodes[index].input_count; i++) {
    uint32_t value = all->function->nodes[index].inputs[i], made = 0;
    if (value >= all->values || layout_of(all, value) == all->wanted[i])
      continue;
    KEEL_TRY(replica_of(all, value, all->wanted[i], &made));
    all->function->nodes[index].inputs[i] = made;
  }
  return KD_OK;
}

static keel_status layout_run(pass *all) {
  keel_function *function = all->function;
  uint32_t count = function->node_count;
  for (uint32_t i = 0; i < count; i++)
    if (!function->nodes[i].dead && function->nodes[i].output_count)
      KEEL_TRY(layout_visit(all, i));
  for (uint32_t i = 0; i < function->output_count; i++) {
    uint32_t value = function->outputs[i];
    if (layout_of(all, value))
      KEEL_TRY(
          replica_of(all, value, KD_LAYOUT_ROW_MAJOR, &function->outputs[i]));
  }
  return keel_function_sort(function);
}

static keel_status run_inside(pass *all) {
  all->layouts = calloc(all->values + 1, sizeof *all->layouts);
  all->first = malloc((all->values + 1) * sizeof *all->first);
  keel_status status = all->layouts && all->first
                           ? keel_readers_make(all->function, &all->readers)
                           : keel_no_memory(all->values * sizeof *all->first);
  for (uint32_t i = 0; all->first && i < all->values; i++)
    all->first[i] = KEEL_ABSENT;
  if (status == KD_OK) status = layout_run(all);
  keel_readers_drop(&all->readers);
  free(all->layouts);
  free(all->first);
  free(all->replicas);
  free(all->wanted);
  return status;
}

static keel_status layout_lay_out(keel_function *function, keel_device *device,
                                  bool is_main) {
  if (!device->plugin->layouts.preferred || keel_device_ready(device) != KD_OK)
    return KD_OK;
  pass all = {.function = function,
              .device = device,
              .is_main = is_main,
              .values = function->value_count};
  KEEL_TRY(keel_device_enter(device));
  keel_status status = run_inside(&all);
  keel_lost_leave(device);
  return status;
}

static bool has_node(const keel_function *function, const keel_device *device) {
  for (uint32_t i = 0; i < function->node_count; i++)
    if (!function->nodes[i].dead && function->nodes[i].device == device)
      return true;
  return false;
}

keel_status keel_pass_layout(keel_function *function, keel_device *device) {
  uint32_t count = function->context->device_count;
  if (device) KEEL_TRY(layout_lay_out(function, device, true));
  for (uint32_t i = 0; i < count; i++) {
    keel_device *other = keel_devices(function->context)[i];
    if (other != device && has_node(function, other))
      KEEL_TRY(layout_lay_out(function, other, false));
  }
  return KD_OK;
}
