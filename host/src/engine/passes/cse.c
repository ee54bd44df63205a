/* cse.c - common subexpressions: ops that compute the same from the same values become one, and
 * constants of equal type and bytes are one value. Ops of chance, of state and control stay as they
 * are. */
#include "passes/passes.h"

#define SMALL 4096 /* bytes of constants that are compared */

/* Open addressing; an entry is a node, or a constant's value, + 1. */
typedef struct table {
  uint32_t *entries;
  uint32_t mask;
} table;

typedef struct search {
  keel_function *function;
  uint32_t *same; /* by value: what stands for it */
  table nodes, constants;
} search;

static keel_status make_table(table *t, uint32_t count) {
  uint32_t capacity = 16;
  while (capacity < 2 * count)
    capacity *= 2;
  t->entries = calloc(capacity, sizeof *t->entries);
  t->mask = capacity - 1;
  return t->entries ? KD_OK : keel_no_memory(capacity * sizeof *t->entries);
}

/* ---- constants ------------------------------------------------------------ */

static const keel_tensor *small_constant(const keel_function *function,
                                         uint32_t value) {
  const keel_tensor *constant = function->values[value].constant;
  return constant && constant->kind == KEEL_DATA &&
                 constant->layout == KD_LAYOUT_ROW_MAJOR &&
                 constant->type->bytes <= SMALL &&
                 keel_tensor_host_data(constant)
             ? constant
             : NULL;
}

static void join_constant(search *all, uint32_t value) {
  const keel_tensor *constant = small_constant(all->function, value);
  if (!constant) return;
  size_t size = (size_t)constant->type->bytes;
  uint64_t hash = keel_hash(KEEL_HASH_SEED, &constant->type,
                            sizeof constant->type); /* types are interned */
  hash = keel_hash(hash, constant->data, size);
  for (uint64_t at = hash & all->constants.mask;;
       at = (at + 1) & all->constants.mask) {
    uint32_t *entry = &all->constants.entries[at];
    if (!*entry) {
      *entry = value + 1;
      return;
    }
    const keel_tensor *other = all->function->values[*entry - 1].constant;
    if (other->type != constant->type ||
        memcmp(other->data, constant->data, size) != 0)
      continue;
    all->same[value] = *entry - 1;
    return;
  }
}

/* ---- nodes ---------------------------------------------------------------- */

static bool may_join(const keel_function *function, const keel_node *node) {
  return !node->dead && node->op->shareable &&
         !(node->op->schema->flags & (KEEL_OP_CONTROL | KEEL_OP_STATE)) &&
         !keel_node_is_random(function, node);
}

static bool alike(const keel_node *a, const keel_node *b) {
  if (a->input_count != b->input_count || a->output_count != b->output_count ||
      a->device != b->device ||
      memcmp(a->inputs, b->inputs, a->input_count * sizeof *a->inputs) != 0)
    return false;
  for (uint32_t i = 0; i < a->output_count; i++)
    if (a->outputs[i] == KEEL_ABSENT && b->outputs[i] != KEEL_ABSENT)
      return false;
  return keel_opdef_equal(a->op, b->op);
}

static void join_node(search *all, uint32_t index) {
  keel_node *node = &all->function->nodes[index];
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != KEEL_ABSENT)
      node->inputs[i] = all->same[node->inputs[i]];
  if (!may_join(all->function, node)) return;
  uint64_t hash = keel_hash(node->op->hash, node->inputs,
                            node->input_count * sizeof *node->inputs);
  hash = keel_hash(hash, &node->device, sizeof(keel_device *));
  for (uint64_t at = hash & all->nodes.mask;; at = (at + 1) & all->nodes.mask) {
    uint32_t *entry = &all->nodes.entries[at];
    if (!*entry) {
      *entry = index + 1;
      return;
    }
    const keel_node *first = &all->function->nodes[*entry - 1];
    if (!alike(first, node)) continue;
    for (uint32_t i = 0; i < node->output_count; i++)
      if (node->outputs[i] != KEEL_ABSENT)
        all->same[node->outputs[i]] = first->outputs[i];
    node->dead = true;
    return;
  }
}

keel_status keel_pass_cse(keel_function *function) {
  search all = {.function = function};
  all.same = malloc((function->value_count + 1) * sizeof *all.same);
  keel_status status =
      all.same ? make_table(&all.nodes, function->node_count)
               : keel_no_memory(function->value_count * sizeof *all.same);
  if (status == KD_OK)
    status = make_table(&all.constants, function->value_count);
  for (uint32_t i = 0; status == KD_OK && i < function->value_count; i++)
    all.same[i] = i;
  for (uint32_t i = 0; status == KD_OK && i < function->value_count; i++)
    join_constant(&all, i);
  for (uint32_t i = 0; status == KD_OK && i < function->node_count; i++)
    if (!function->nodes[i].dead) join_node(&all, i);
  for (uint32_t i = 0; status == KD_OK && i < function->output_count; i++)
    function->outputs[i] = all.same[function->outputs[i]];
  free(all.same);
  free(all.nodes.entries);
  free(all.constants.entries);
  return status;
}
