/* open_types.c - the element types and ranks of values whose sizes are open, for compilers.
 *
 * Shape functions need sizes. So two copies of the function get sizes of their own choice for
 * what is open, the same for all, and their types are inferred; the sizes are such that
 * halves of halves fit. Element type and rank are the function's where both copies agree: no
 * op makes a rank of a size, but for those of KEEL_OP_RANKS. */
#include "passes/passes.h"

static const int64_t sizes[] = {64, 160};

static bool is_open(const keel_port *port) {
  if (!keel_port_is_tensor(port) || port->rank == KEEL_RANK_UNKNOWN)
    return true;
  for (uint32_t i = 0; i < port->rank; i++)
    if (port->dims[i] < 0) return true;
  return false;
}

bool keel_function_is_open(const keel_function *function) {
  for (uint32_t i = 0; i < function->input_count; i++)
    if (is_open(&function->input_ports[i])) return true;
  return false;
}

/* NULL where the rank is open, too. */
static const keel_type *type_of_size(const keel_port *port, int64_t size) {
  const keel_type *type = NULL;
  int64_t dims[KD_MAX_RANK];
  if (!keel_port_is_tensor(port) || port->dtype == KD_NONE ||
      port->rank > KD_MAX_RANK)
    return NULL;
  for (uint32_t i = 0; i < port->rank; i++)
    dims[i] = port->dims[i] < 0 ? size : port->dims[i];
  return keel_type_of(port->dtype, port->rank, dims, &type) == KD_OK ? type
                                                                     : NULL;
}

/* The same type with open dimensions; NULL: there is none. */
static const keel_type *opened(const keel_type *type) {
  const keel_type *open = NULL;
  int64_t dims[KD_MAX_RANK];
  if (!type || type->rank > KD_MAX_RANK) return NULL;
  for (uint32_t i = 0; i < type->rank; i++)
    dims[i] = -1;
  return keel_type_of(type->dtype, type->rank, dims, &open) == KD_OK ? open
                                                                     : NULL;
}

static bool makes_rank_of_sizes(const keel_node *node) {
  return node->op->schema->traits & KEEL_OP_RANKS && node->input_count < 2;
}

/* Notes the types that a copy has inferred: those of the first one, or whether they agree. */
static void take_types(keel_function *function, const keel_function *copy,
                       bool first) {
  for (uint32_t i = 0; i < function->value_count; i++) {
    const keel_type *open = opened(copy->values[i].type);
    keel_value_info *info = &function->values[i];
    info->open = first || info->open == open ? open : NULL;
  }
}

static keel_status infer_for(keel_function *function, int64_t size,
                             bool first) {
  const keel_pass_call call = {.sizes_only = true, .forgives = true};
  keel_arena arena = {0};
  keel_function *list = NULL, *copy = NULL;
  keel_status status = keel_function_clone(function, &arena, &list, &copy);
  for (uint32_t i = 0; status == KD_OK && i < copy->input_count; i++)
    copy->values[copy->inputs[i]].type =
        type_of_size(&copy->input_ports[i], size);
  if (status == KD_OK) status = keel_pass_fold(list, &call);
  if (status == KD_OK) take_types(function, copy, first);
  keel_functions_release(list);
  keel_arena_free(&arena);
  return status;
}

/* Forgets what depends on a rank that sizes make. */
static void forget_ranks_of_sizes(keel_function *function) {
  for (uint32_t n = 0; n < function->node_count; n++) {
    const keel_node *node = &function->nodes[n];
    bool unknown = makes_rank_of_sizes(node);
    for (uint32_t i = 0; i < node->input_count && !unknown; i++) {
      const keel_value_info *info = node->inputs[i] == KEEL_ABSENT
                                        ? NULL
                                        : &function->values[node->inputs[i]];
      unknown = info && !info->type && !info->open;
    }
    for (uint32_t i = 0; i < node->output_count && unknown && !node->dead; i++)
      if (node->outputs[i] != KEEL_ABSENT)
        function->values[node->outputs[i]].open = NULL;
  }
}

keel_status keel_function_open_types(keel_function *function) {
  KEEL_TRY(infer_for(function, sizes[0], true));
  KEEL_TRY(infer_for(function, sizes[1], false));
  forget_ranks_of_sizes(function);
  return KD_OK;
}
