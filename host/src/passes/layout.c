/* layout.c - lets chains of convolutions keep the device's blocked layout.
 *
 * Forward through the function: a node whose kernel gives the blocked layout
 * gives it; one that takes any layout passes it on; before all others, and at
 * the function's outputs, keel::Reorder brings rows back. A convolution that could
 * do it but for rows that it is given gets them reordered, where it has windows:
 * what it does to each element is worth it. */
#include "context.h"
#include "eager/site.h"
#include "passes/passes.h"

typedef struct layout {
  keel_function *function;
  keel_device *device;
  bool *blocked;   /* by value */
  uint32_t *twin;  /* by value: the same in the other layout, or KEEL_ABSENT */
  uint32_t values; /* that the two arrays have room for */
} layout;

static bool may_block(const layout *all, uint32_t value) {
  const keel_type *type =
      value == KEEL_ABSENT ? NULL : all->function->values[value].type;
  return type && keel_type_known(type) && type->dtype == KD_F32 &&
         type->rank >= 3 && type->rank <= 5 && type->elements > 0 &&
         type->dims[1] % all->device->info.channel_block == 0;
}

/* Whether the device runs the node with these layouts, by a kernel of these
 * flags. */
static bool takes(const layout *all, const keel_node *node, bool output,
                  uint32_t flags) {
  keel_view view;
  keel_device *device = NULL;
  const kd_kernel_def *def = NULL;
  bool known = keel_view_make(all->function, node, &view) &&
               (!node->device || node->device == all->device);
  view.node.blocked_output = output;
  for (uint32_t i = 0; known && i < node->input_count && i < 32; i++)
    if (node->inputs[i] < all->values && all->blocked[node->inputs[i]])
      view.node.blocked_inputs |= UINT32_C(1) << i;
  bool fits =
      known && (view.node.blocked_inputs || output) &&
      keel_choose_kernel(all->function->context, all->device, &view.node,
                         node->name, &device, &def) == KD_OK &&
      device == all->device && (def->flags & flags);
  keel_view_drop(&view);
  return fits;
}

static bool reads_blocked(const layout *all, const keel_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] < all->values && all->blocked[node->inputs[i]])
      return true;
  return false;
}

/* All inputs blocked and of the output's shape: order of elements is no
 * matter. */
static bool all_alike(const layout *all, const keel_node *node) {
  const keel_type *type = all->function->values[node->outputs[0]].type;
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t value = node->inputs[i];
    if (value == KEEL_ABSENT || value >= all->values || !all->blocked[value] ||
        all->function->values[value].type != type)
      return false;
  }
  return true;
}

/* The same value in the other layout. */
static keel_status twin_of(layout *all, uint32_t value, uint32_t *out_twin) {
  if (all->twin[value] == KEEL_ABSENT) {
    keel_function *function = all->function;
    keel_opdef *op = NULL;
    keel_node *node = NULL;
    uint32_t twin = keel_function_value(function, "");
    if (twin == KEEL_ABSENT) return KD_OUT_OF_MEMORY;
    function->values[twin].type = function->values[value].type;
    KEEL_TRY(keel_opdef_create(function->context,
                               keel_schema_find("keel", "Reorder"), NULL, 0,
                               NULL, &op));
    KEEL_TRY(keel_function_node(function, op, "", &value, 1, &twin, 1, &node));
    node->blocked_output = !all->blocked[value];
    all->twin[value] = twin;
  }
  *out_twin = all->twin[value];
  return KD_OK;
}

/* A convolution that looks at more than a point, or at single channels. */
static bool has_windows(const layout *all, const keel_node *node) {
  const char *name = node->op->schema->name;
  if ((strcmp(name, "Conv") != 0 && strcmp(name, "FusedConv") != 0) ||
      node->input_count < 2 || node->inputs[1] == KEEL_ABSENT)
    return false;
  const keel_type *weights = all->function->values[node->inputs[1]].type;
  int64_t taps = 1;
  for (uint32_t i = 2; weights && i < weights->rank; i++)
    taps *= weights->dims[i];
  return taps > 1 || keel_attr_int(node->op, "group", 1) > 1;
}

/* Its data and what is added, where those are rows; false: one can't be otherwise. */
static bool list_rows(const layout *all, const keel_node *node,
                      uint32_t *out_inputs, uint32_t *out_count) {
  *out_count = 0;
  for (uint32_t i = 0; i < node->input_count && i < 4; i += 3) {
    uint32_t value = node->inputs[i];
    if (value == KEEL_ABSENT || (value < all->values && all->blocked[value]))
      continue;
    if (value >= all->values || !may_block(all, value)) return false;
    out_inputs[(*out_count)++] = i;
  }
  return true;
}

static keel_status enter(layout *all, uint32_t index, bool *out_entered) {
  keel_node *node = &all->function->nodes[index];
  uint32_t inputs[2], count = 0, twin = 0;
  *out_entered = false;
  if (!has_windows(all, node) || !list_rows(all, node, inputs, &count))
    return KD_OK;
  for (uint32_t i = 0; i < count; i++)
    all->blocked[node->inputs[inputs[i]]] = true;
  bool fits = takes(all, node, true, KD_KERNEL_BLOCKED_LAYOUT);
  for (uint32_t i = 0; i < count; i++)
    all->blocked[node->inputs[inputs[i]]] = false;
  for (uint32_t i = 0; fits && i < count; i++) {
    uint32_t value = all->function->nodes[index].inputs[inputs[i]];
    KEEL_TRY(twin_of(all, value, &twin)); /* may move the nodes */
    all->function->nodes[index].inputs[inputs[i]] = twin;
  }
  *out_entered = fits;
  return KD_OK;
}

static keel_status visit(layout *all, uint32_t index) {
  keel_node *node = &all->function->nodes[index];
  bool reads = reads_blocked(all, node);
  uint32_t out = node->output_count == 1 ? node->outputs[0] : KEEL_ABSENT;
  if (may_block(all, out) &&
      (takes(all, node, true, KD_KERNEL_BLOCKED_LAYOUT) ||
       (reads && all_alike(all, node) &&
        takes(all, node, true, KD_KERNEL_LAYOUT_AGNOSTIC)))) {
    node->blocked_output = true;
    all->blocked[out] = true;
    return KD_OK;
  }
  bool entered = false;
  if (may_block(all, out)) KEEL_TRY(enter(all, index, &entered));
  node = &all->function->nodes[index];
  if (entered) {
    node->blocked_output = true;
    all->blocked[out] = true;
    return KD_OK;
  }
  if (!reads || takes(all, node, false, KD_KERNEL_BLOCKED_LAYOUT)) return KD_OK;
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t value = all->function->nodes[index].inputs[i], plain = 0;
    if (value >= all->values || !all->blocked[value]) continue;
    KEEL_TRY(twin_of(all, value, &plain)); /* may move the nodes */
    all->function->nodes[index].inputs[i] = plain;
  }
  return KD_OK;
}

static keel_status run(layout *all) {
  keel_function *function = all->function;
  uint32_t count = function->node_count;
  for (uint32_t i = 0; i < count; i++)
    if (!function->nodes[i].dead) KEEL_TRY(visit(all, i));
  for (uint32_t i = 0; i < function->output_count; i++) {
    uint32_t value = function->outputs[i];
    if (value < all->values && all->blocked[value])
      KEEL_TRY(twin_of(all, value, &function->outputs[i]));
  }
  return keel_function_sort(function);
}

keel_status keel_pass_layout(keel_function *function, keel_device *device) {
  if (!device || !device->info.channel_block ||
      !keel_device_kernels(device, "keel", "Reorder"))
    return KD_OK;
  layout all = {
      .function = function, .device = device, .values = function->value_count};
  all.blocked = calloc(all.values + 1, sizeof *all.blocked);
  all.twin = malloc((all.values + 1) * sizeof *all.twin);
  keel_status status = all.blocked && all.twin
                           ? KD_OK
                           : keel_no_memory(all.values * sizeof *all.twin);
  for (uint32_t i = 0; all.twin && i < all.values; i++)
    all.twin[i] = KEEL_ABSENT;
  if (status == KD_OK) status = run(&all);
  free(all.blocked);
  free(all.twin);
  return status;
}
