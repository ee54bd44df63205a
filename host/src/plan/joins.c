/* joins.c - finds Concats that need no copies: from the last Concat to the first, so that
 * of several that share inputs the largest gets them. */
#include "plan/joins.h"

#include <kd/help.h>

#include "eager/launch.h"
#include "memory/layout.h"

typedef struct finding {
  const keel_framing *framing;
  const uint32_t *base;
  keel_joins *joins;
  bool *handed; /* by value: whether it, or a view of it, is an output */
} finding;

uint64_t keel_joins_bytes(const keel_device *device, const keel_type *type,
                          uint32_t layout) {
  return layout ? keel_layout_size(device, type, layout) : type->bytes;
}

static const keel_type *type_of(const finding *all, uint32_t value) {
  const keel_type *type =
      value == KEEL_ABSENT ? NULL : all->framing->fplan->types[value];
  return type && keel_type_known(type) && kd_dtype_size(type->dtype) ? type
                                                                     : NULL;
}

/* ---- which steps ------------------------------------------------------------------ */

static bool is_outermost(const keel_step *step, const keel_type *type) {
  int64_t axis = keel_attr_int(step->site.op, "axis", 0);
  axis += axis < 0 ? type->rank : 0;
  for (int64_t i = 0; i < axis && i < type->rank; i++)
    if (type->dims[i] != 1) return false;
  return axis >= 0 && axis < type->rank;
}

/* Whether a step's output is the concatenation of its inputs' bytes, in one layout. */
static bool is_join(const finding *all, uint32_t index) {
  const keel_step *step = &all->framing->fplan->steps[index];
  const keel_binding *binding = all->framing->steps[index].binding;
  const keel_schema *schema = step->site.op->schema;
  if (!binding || strcmp(schema->name, "Concat") != 0 ||
      strcmp(schema->domain, "ai.onnx") != 0 || step->output_count != 1 ||
      step->outputs[0] == KEEL_ABSENT || all->handed[step->outputs[0]])
    return false;
  const kd_kernel_def *def = binding->instance->def;
  const keel_type *type = type_of(all, step->outputs[0]);
  uint32_t layout = binding->node.output_layout;
  if (!type || !is_outermost(step, type) || def->host_inputs ||
      def->host_outputs || (layout && !(def->flags & KD_KERNEL_ADJOINS)))
    return false;
  for (uint32_t i = 0; i < step->input_count; i++)
    if (!type_of(all, step->inputs[i]) ||
        keel_node_layout(&binding->node, i) != layout)
      return false;
  return true;
}

/* ---- which values ----------------------------------------------------------------- */

/* Whether a value covers all of its base value, in the same order. */
static bool is_whole(const finding *all, uint32_t value) {
  const keel_framing *framing = all->framing;
  while (value != all->base[value]) {
    const keel_step *step =
        &framing->fplan->steps[framing->places.maker[value]];
    if (step->site.part || step->copies) return false;
    value = step->inputs[0];
  }
  return true;
}

/* Whether its kernel can write it in this layout at any address. */
static bool may_lie(const finding *all, uint32_t value, uint32_t layout) {
  const keel_framing *framing = all->framing;
  uint32_t maker = framing->places.maker[value], output = 0;
  const keel_binding *binding =
      maker == KEEL_ABSENT ? NULL : framing->steps[maker].binding;
  if (!binding || all->handed[value]) return false;
  const kd_kernel_def *def = binding->instance->def;
  while (framing->fplan->steps[maker].outputs[output] != value)
    output++;
  return output < 32 && !(def->host_outputs >> output & 1) &&
         keel_alias_needed(def, output) >= binding->input_count &&
         (output ? KD_LAYOUT_ROW_MAJOR : binding->node.output_layout) == layout;
}

static uint32_t alignment_of(const keel_device *device) {
  return device->space.alignment > 64 ? device->space.alignment : 64;
}

/* The base values of a Concat's inputs, and their offsets in its output. */
typedef struct pieces {
  uint32_t *values;
  uint64_t *offsets;
  uint32_t count; /* that are not empty */
} pieces;

/* False if they do not fill the output, or if one is only a part of its base. */
static bool list_pieces(const finding *all, uint32_t index, pieces *list) {
  const keel_step *step = &all->framing->fplan->steps[index];
  const keel_binding *binding = all->framing->steps[index].binding;
  uint32_t layout = binding->node.output_layout;
  uint64_t at = 0, total = keel_joins_bytes(
                       binding->device, type_of(all, step->outputs[0]), layout);
  for (uint32_t i = 0; i < step->input_count; i++) {
    uint32_t value = step->inputs[i];
    const keel_type *type = type_of(all, value);
    if (!type->elements) continue;
    if (!is_whole(all, value)) return false;
    list->values[list->count] = all->base[value];
    list->offsets[list->count++] = at;
    at += keel_joins_bytes(binding->device, type, layout);
  }
  return list->count && at == total;
}

/* Whether they already are adjacent in a larger value. */
static bool are_joined(const finding *all, const pieces *list) {
  const keel_joins *joins = all->joins;
  uint32_t first = list->values[0], root = joins->root[first];
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t value = list->values[i];
    if (root == KEEL_ABSENT || joins->root[value] != root ||
        joins->offset[value] != joins->offset[first] + list->offsets[i])
      return false;
  }
  return true;
}

/* Whether they can all be produced in place, from offset `begin` on. */
static bool can_be_joined(const finding *all, const pieces *list,
                          uint64_t begin, const keel_binding *binding) {
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t value = list->values[i];
    if (all->joins->root[value] != KEEL_ABSENT ||
        !may_lie(all, value, binding->node.output_layout) ||
        (begin + list->offsets[i]) % alignment_of(binding->device))
      return false;
    for (uint32_t k = 0; k < i; k++)
      if (list->values[k] == value) return false;
  }
  return true;
}

static void visit(const finding *all, uint32_t index, pieces *list) {
  keel_joins *joins = all->joins;
  uint32_t whole = all->framing->fplan->steps[index].outputs[0];
  bool within = joins->root[whole] != KEEL_ABSENT;
  list->count = 0;
  if (!list_pieces(all, index, list)) return;
  if (!within && are_joined(all, list)) {
    joins->root[whole] = joins->root[list->values[0]];
    joins->offset[whole] = joins->offset[list->values[0]];
    joins->nothing[index] = true;
    return;
  }
  if (!can_be_joined(all, list, joins->offset[whole],
                     all->framing->steps[index].binding))
    return;
  if (!within) joins->root[whole] = whole;
  for (uint32_t i = 0; i < list->count; i++) {
    joins->root[list->values[i]] = joins->root[whole];
    joins->offset[list->values[i]] = joins->offset[whole] + list->offsets[i];
  }
  joins->nothing[index] = true;
}

/* ---- all -------------------------------------------------------------------------- */

static void find(finding *all, pieces *list) {
  const keel_fplan *fplan = all->framing->fplan;
  for (uint32_t v = 0; v < fplan->value_count; v++)
    all->joins->root[v] = all->joins->block[v] = KEEL_ABSENT;
  for (uint32_t i = 0; i < fplan->output_count; i++)
    all->handed[all->base[fplan->outputs[i]]] = true;
  for (uint32_t i = fplan->step_count; i-- > 0;)
    if (is_join(all, i)) visit(all, i, list);
}

keel_status keel_joins_find(const keel_framing *framing, const uint32_t *base,
                            keel_joins *joins) {
  const keel_fplan *fplan = framing->fplan;
  size_t values = (size_t)fplan->value_count + 1, most = 1;
  for (uint32_t i = 0; i < fplan->step_count; i++)
    if (fplan->steps[i].input_count > most) most = fplan->steps[i].input_count;
  joins->root = malloc(values * sizeof *joins->root);
  joins->offset = calloc(values, sizeof *joins->offset);
  joins->block = malloc(values * sizeof *joins->block);
  joins->nothing = calloc((size_t)fplan->step_count + 1, sizeof(bool));
  pieces list = {.values = malloc(most * sizeof *list.values),
                 .offsets = malloc(most * sizeof *list.offsets)};
  finding all = {.framing = framing,
                 .base = base,
                 .joins = joins,
                 .handed = calloc(values, sizeof(bool))};
  bool enough = joins->root && joins->offset && joins->block &&
                joins->nothing && list.values && list.offsets && all.handed;
  if (enough) find(&all, &list);
  free(list.values);
  free(list.offsets);
  free(all.handed);
  return enough ? KD_OK : keel_no_memory(values * sizeof *joins->offset);
}

void keel_joins_drop(keel_joins *joins) {
  free(joins->root);
  free(joins->offset);
  free(joins->block);
  free(joins->nothing);
}
