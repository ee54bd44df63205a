/* open_types.c - the element types and ranks of values whose sizes are open, for compilers.
 *
 * Shape functions need sizes. So copies of the function get a size for all that is open, and
 * their types are inferred: two sizes of which halves of halves fit, and 1, which many models
 * do not take. Element type and rank are the function's where the copies agree. What ops of
 * KEEL_OP_RANKS make is left out: their ranks depend on sizes, of which there are others. */
#include "passes/passes.h"

static const int64_t sizes[] = {64, 160, 1};

/* NULL where the rank is open, too. */
static const keel_type *type_of_size(const keel_type *open, int64_t size) {
  const keel_type *type = NULL;
  int64_t dims[KD_MAX_RANK];
  if (!open || open->dtype == KD_NONE || open->rank > KD_MAX_RANK) return NULL;
  for (uint32_t i = 0; i < open->rank; i++)
    dims[i] = open->dims[i] < 0 ? size : open->dims[i];
  return keel_type_of(open->dtype, open->rank, dims, &type) == KD_OK ? type
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
  const keel_opdef *op = node->op;
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const keel_function *graph = op->attrs[i].graph;
    for (uint32_t k = 0; graph && k < graph->node_count; k++)
      if (!graph->nodes[k].dead && makes_rank_of_sizes(&graph->nodes[k]))
        return true;
  }
  return op->schema->traits & KEEL_OP_RANKS &&
         (node->input_count < 2 || node->inputs[1] == KEEL_ABSENT);
}

/* Notes the types that a copy has inferred: those of the first one; from the second, whether they
 * agree; from the last, in which little fits, whether any differs. */
static void take_types(keel_function *function, const keel_function *copy,
                       uint32_t which) {
  for (uint32_t i = 0; i < function->value_count; i++) {
    const keel_type *open = opened(copy->values[i].type);
    keel_value_info *info = &function->values[i];
    if (which == 0)
      info->open = open;
    else if (info->open != open && (open || which == 1))
      info->open = NULL;
  }
}

static keel_status infer_for(keel_function *function, uint32_t which) {
  const keel_pass_call call = {.sizes_only = true, .forgives = true};
  const int64_t size = sizes[which];
  keel_arena arena = {0};
  keel_function *list = NULL, *copy = NULL;
  keel_status status = keel_function_clone(function, &arena, &list, &copy);
  for (uint32_t i = 0; status == KD_OK && i < copy->input_count; i++)
    copy->values[copy->inputs[i]].type =
        type_of_size(function->values[function->inputs[i]].type, size);
  if (status == KD_OK) status = keel_pass_fold(list, &call);
  if (status == KD_OK) take_types(function, copy, which);
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
  for (uint32_t i = 0; i < KEEL_COUNT_OF(sizes); i++)
    KEEL_TRY(infer_for(function, i));
  forget_ranks_of_sizes(function);
  return KD_OK;
}
