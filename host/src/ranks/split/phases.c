/* phases.c - a program's computations between its exchanges. */
#include <keel/phases.h>

#include "passes/cost.h"
#include "passes/passes.h"

/* Ops that move nothing: shapes of a value, and views of its memory. */
static bool is_free(const keel_node *node) {
  keel_op_kind kind = node->op->schema->kind;
  return kind == KEEL_VIEW || kind == KEEL_IDENTITY || kind == KEEL_FACT;
}

/* Whether it has an output whose size only a run will know. */
static bool is_unknown(const keel_function *f, const keel_node *node) {
  if (!node->output_count || node->outputs[0] == KEEL_ABSENT ||
      (node->op->schema->flags & KEEL_OP_STATE))
    return false;
  const keel_type *type = f->values[node->outputs[0]].type;
  return !type || !keel_type_known(type);
}

static double flops_of(const keel_function *f, const keel_node *node,
                       double bytes_as) {
  if (is_free(node)) return 0;
  double flops = keel_cost_flops(f, node);
  double moved = keel_cost_bytes(f, node) * bytes_as;
  return flops > moved ? flops : moved;
}

/* Whether a body, or one in it, exchanges something. */
static bool meets(const keel_function *f) {
  for (uint32_t i = 0; i < f->node_count; i++) {
    const keel_node *node = &f->nodes[i];
    if (node->dead) continue;
    if (node->op->schema->flags & KEEL_OP_MEETS) return true;
    for (uint32_t k = 0; k < node->op->attr_count; k++)
      if (node->op->attrs[k].graph && meets(node->op->attrs[k].graph))
        return true;
  }
  return false;
}

static keel_status check_bodies(const keel_node *node) {
  for (uint32_t k = 0; k < node->op->attr_count; k++)
    if (node->op->attrs[k].graph && meets(node->op->attrs[k].graph))
      return keel_fail(KD_UNIMPLEMENTED,
                       "%s \"%s\" exchanges values in a body, and how often"
                       " that runs is known when it does",
                       node->op->schema->name, node->name);
  return KD_OK;
}

/* The value that the rank contributes; for Receive, the value that it receives. */
static const keel_type *exchanged_type(const keel_function *f,
                                       const keel_node *node) {
  uint32_t value = node->input_count > 1 ? node->inputs[1] : node->outputs[0];
  return value == KEEL_ABSENT ? NULL : f->values[value].type;
}

static keel_status read_ranks(const keel_node *node, keel_phase *phase) {
  const int64_t *ranks = NULL;
  int64_t size = keel_attr_int(node->op, "size", 0);
  int64_t count = keel_attr_ints(node->op, "ranks", &ranks);
  if (count > 0 && size != count)
    return keel_fail(
        KD_UNIMPLEMENTED,
        "%s \"%s\" is among subgroups of %lld ranks, and not among all ranks",
        phase->exchange, node->name, (long long)size);
  int64_t other = keel_attr_int(node->op, "to", -1);
  if (other < 0) other = keel_attr_int(node->op, "from", 0);
  phase->size = (uint32_t)size;
  phase->peer = (uint32_t)(count > 0 ? ranks[0] : other);
  count = keel_attr_ints(node->op, "pairs", &phase->pairs);
  phase->pair_count = count > 0 ? (uint32_t)count / 2 : 0;
  return KD_OK;
}

static keel_status read_exchange(const keel_function *f, const keel_node *node,
                                 keel_phase *phase) {
  const keel_type *type = exchanged_type(f, node);
  phase->exchange = node->op->schema->name;
  phase->name = node->name;
  if (!type || !keel_type_known(type))
    return keel_fail(KD_FAILED_PRECONDITION,
                     "the size of exchange %s \"%s\" is not known; give open "
                     "dimensions their sizes",
                     phase->exchange, node->name);
  phase->dtype = type->dtype;
  phase->count = (uint64_t)type->elements;
  return read_ranks(node, phase);
}

static keel_status list(const keel_function *f, double bytes_as,
                        void (*found)(void *context, const keel_phase *phase),
                        void *context) {
  keel_phase phase = {0};
  for (uint32_t i = 0; i < f->node_count; i++) {
    const keel_node *node = &f->nodes[i];
    if (node->dead) continue;
    KEEL_TRY(check_bodies(node));
    if (!(node->op->schema->flags & KEEL_OP_MEETS)) {
      phase.flops += flops_of(f, node, bytes_as);
      phase.unknown += is_unknown(f, node);
      continue;
    }
    KEEL_TRY(read_exchange(f, node, &phase));
    found(context, &phase);
    phase = (keel_phase){0};
  }
  found(context, &phase);
  return KD_OK;
}

/* Sizes that are computed from others are found; the program itself may be another's, too. */
static keel_status find_sizes(keel_function *functions, keel_function *main) {
  const keel_plan_params none = {.struct_size = sizeof none};
  const keel_pass_call call = {
      .params = &none, .main = main, .sizes_only = true};
  KEEL_TRY(keel_function_sort(main));
  KEEL_TRY(keel_function_types(main));
  return keel_pass_fold(functions, &call);
}

keel_status keel_program_phases(const keel_program *program, double bytes_as,
                                void (*found)(void *context,
                                              const keel_phase *phase),
                                void *context) {
  keel_program *copy = NULL;
  KEEL_TRY(keel_program_create(program->context, &copy));
  keel_status status = keel_function_clone(program->main, &copy->arena,
                                           &copy->functions, &copy->main);
  if (status == KD_OK) status = find_sizes(copy->functions, copy->main);
  if (status == KD_OK) status = list(copy->main, bytes_as, found, context);
  keel_program_release(copy);
  return status;
}
