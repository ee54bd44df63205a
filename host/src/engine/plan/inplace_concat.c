/* inplace_concat.c - finds Concats that need no copies: from the last Concat to the
 * first, so that of several that share inputs the largest gets them. */
#include "plan/inplace_concat.h"

#include <kd/help.h>

#include "eager/launch.h"
#include "memory/layout.h"

typedef struct finding {
  const keel_memory_plan *memory_plan;
  const uint32_t *base;
  keel_inplace_concat *concats;
  bool *handed; /* by value: whether it, or a view of it, is an output */
} finding;

uint64_t keel_inplace_concat_bytes(const keel_device *device,
                                   const keel_type *type, uint32_t layout) {
  return layout ? keel_layout_size(device, type, layout) : type->bytes;
}

static const keel_type *inplace_concat_type_of(const finding *all,
                                               uint32_t value) {
  const keel_type *type =
      value == KEEL_ABSENT ? NULL : all->memory_plan->executable->types[value];
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
static bool is_inplace_concat(const finding *all, uint32_t index) {
  const keel_step *step = &all->memory_plan->executable->steps[index];
  const keel_specialisation *spec = all->memory_plan->steps[index].spec;
  const keel_schema *schema = step->site.op->schema;
  if (!spec || !(schema->traits & KEEL_OP_JOINS) || step->output_count != 1 ||
      step->outputs[0] == KEEL_ABSENT || all->handed[step->outputs[0]])
    return false;
  const kd_kernel_def *def = spec->instance->def;
  const keel_type *type = inplace_concat_type_of(all, step->outputs[0]);
  uint32_t layout = spec->node.output_layout;
  if (!type || !is_outermost(step, type) || def->host_inputs ||
      def->host_outputs || (layout && !(def->flags & KD_KERNEL_ADJOINS)))
    return false;
  for (uint32_t i = 0; i < step->input_count; i++)
    if (!inplace_concat_type_of(all, step->inputs[i]) ||
        keel_node_layout(&spec->node, i) != layout)
      return false;
  return true;
}

/* ---- which values ----------------------------------------------------------------- */

/* Whether a value covers all of its base value, in the same order. */
static bool is_whole(const finding *all, uint32_t value) {
  const keel_memory_plan *memory_plan = all->memory_plan;
  while (value != all->base[value]) {
    const keel_step *step =
        &memory_plan->executable->steps[memory_plan->assignment.maker[value]];
    if (step->site.part || step->copies) return false;
    value = step->inputs[0];
  }
  return true;
}

/* Whether its kernel can write it in this layout at any address. */
static bool may_lie(const finding *all, uint32_t value, uint32_t layout) {
  const keel_memory_plan *memory_plan = all->memory_plan;
  uint32_t maker = memory_plan->assignment.maker[value], output = 0;
  const keel_specialisation *spec =
      maker == KEEL_ABSENT ? NULL : memory_plan->steps[maker].spec;
  if (!spec || all->handed[value]) return false;
  const kd_kernel_def *def = spec->instance->def;
  while (memory_plan->executable->steps[maker].outputs[output] != value)
    output++;
  return output < 32 && !(def->host_outputs >> output & 1) &&
         keel_alias_needed(def, output) >= spec->input_count &&
         (output ? KD_LAYOUT_ROW_MAJOR : spec->node.output_layout) == layout;
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
  const keel_step *step = &all->memory_plan->executable->steps[index];
  const keel_specialisation *spec = all->memory_plan->steps[index].spec;
  uint32_t layout = spec->node.output_layout;
  uint64_t at = 0, total = keel_inplace_concat_bytes(
                       spec->device,
                       inplace_concat_type_of(all, step->outputs[0]), layout);
  for (uint32_t i = 0; i < step->input_count; i++) {
    uint32_t value = step->inputs[i];
    const keel_type *type = inplace_concat_type_of(all, value);
    if (!type->elements) continue;
    if (!is_whole(all, value)) return false;
    list->values[list->count] = all->base[value];
    list->offsets[list->count++] = at;
    at += keel_inplace_concat_bytes(spec->device, type, layout);
  }
  return list->count && at == total;
}

/* Whether they already are adjacent in a larger value. */
static bool are_adjacent(const finding *all, const pieces *list) {
  const keel_inplace_concat *concats = all->concats;
  uint32_t first = list->values[0], root = concats->root[first];
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t value = list->values[i];
    if (root == KEEL_ABSENT || concats->root[value] != root ||
        concats->offset[value] != concats->offset[first] + list->offsets[i])
      return false;
  }
  return true;
}

/* Whether they can all be produced in place, from offset `begin` on. */
static bool can_be_adjacent(const finding *all, const pieces *list,
                            uint64_t begin, const keel_specialisation *spec) {
  for (uint32_t i = 0; i < list->count; i++) {
    uint32_t value = list->values[i];
    if (all->concats->root[value] != KEEL_ABSENT ||
        !may_lie(all, value, spec->node.output_layout) ||
        (begin + list->offsets[i]) % alignment_of(spec->device))
      return false;
    for (uint32_t k = 0; k < i; k++)
      if (list->values[k] == value) return false;
  }
  return true;
}

static void inplace_concat_visit(const finding *all, uint32_t index,
                                 pieces *list) {
  keel_inplace_concat *concats = all->concats;
  uint32_t whole = all->memory_plan->executable->steps[index].outputs[0];
  bool within = concats->root[whole] != KEEL_ABSENT;
  list->count = 0;
  if (!list_pieces(all, index, list)) return;
  if (!within && are_adjacent(all, list)) {
    concats->root[whole] = concats->root[list->values[0]];
    concats->offset[whole] = concats->offset[list->values[0]];
    concats->nothing[index] = true;
    return;
  }
  if (!can_be_adjacent(all, list, concats->offset[whole],
                       all->memory_plan->steps[index].spec))
    return;
  if (!within) concats->root[whole] = whole;
  for (uint32_t i = 0; i < list->count; i++) {
    concats->root[list->values[i]] = concats->root[whole];
    concats->offset[list->values[i]] =
        concats->offset[whole] + list->offsets[i];
  }
  concats->nothing[index] = true;
}

/* ---- all -------------------------------------------------------------------------- */

static void inplace_concat_find(finding *all, pieces *list) {
  const keel_executable *executable = all->memory_plan->executable;
  for (uint32_t v = 0; v < executable->value_count; v++)
    all->concats->root[v] = all->concats->block[v] = KEEL_ABSENT;
  for (uint32_t i = 0; i < executable->output_count; i++)
    all->handed[all->base[executable->outputs[i]]] = true;
  for (uint32_t i = executable->step_count; i-- > 0;)
    if (is_inplace_concat(all, i)) inplace_concat_visit(all, i, list);
}

keel_status keel_inplace_concat_find(const keel_memory_plan *memory_plan,
                                     const uint32_t *base,
                                     keel_inplace_concat *concats) {
  const keel_executable *executable = memory_plan->executable;
  size_t values = (size_t)executable->value_count + 1, most = 1;
  for (uint32_t i = 0; i < executable->step_count; i++)
    if (executable->steps[i].input_count > most)
      most = executable->steps[i].input_count;
  concats->root = malloc(values * sizeof *concats->root);
  concats->offset = calloc(values, sizeof *concats->offset);
  concats->block = malloc(values * sizeof *concats->block);
  concats->nothing = calloc((size_t)executable->step_count + 1, sizeof(bool));
  pieces list = {.values = malloc(most * sizeof *list.values),
                 .offsets = malloc(most * sizeof *list.offsets)};
  finding all = {.memory_plan = memory_plan,
                 .base = base,
                 .concats = concats,
                 .handed = calloc(values, sizeof(bool))};
  bool enough = concats->root && concats->offset && concats->block &&
                concats->nothing && list.values && list.offsets && all.handed;
  if (enough) inplace_concat_find(&all, &list);
  free(list.values);
  free(list.offsets);
  free(all.handed);
  return enough ? KD_OK : keel_no_memory(values * sizeof *concats->offset);
}

void keel_inplace_concat_drop(keel_inplace_concat *concats) {
  free(concats->root);
  free(concats->offset);
  free(concats->block);
  free(concats->nothing);
}
