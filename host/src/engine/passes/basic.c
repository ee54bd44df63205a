/* basic.c - pruning, and functions that passes share. */
#include "eager/call_site.h"
#include "memory/mapping.h"
#include "passes/passes.h"

/* ---- facts of nodes and values ------------------------------------------------- */

bool keel_pass_is(const keel_node *node, const char *op) {
  return !node->dead && !strcmp(node->op->schema->name, op) &&
         !strcmp(node->op->schema->domain, "ai.onnx");
}

const keel_type *keel_pass_type(const keel_function *function, uint32_t value) {
  if (value == KEEL_ABSENT) return NULL;
  assert(value < function->value_count);
  const keel_type *type = function->values[value].type;
  return type && keel_type_known(type) ? type : NULL;
}

const keel_tensor *keel_pass_constant(const keel_function *function,
                                      uint32_t value) {
  if (value == KEEL_ABSENT) return NULL;
  assert(value < function->value_count);
  const keel_tensor *constant = function->values[value].constant;
  return constant && keel_tensor_host_data(constant) ? constant : NULL;
}

keel_node *keel_pass_maker(const keel_function *function, uint32_t value) {
  if (value == KEEL_ABSENT) return NULL;
  assert(value < function->value_count);
  uint32_t maker = function->values[value].producer;
  assert(maker == KEEL_ABSENT || maker < function->node_count);
  keel_node *node = maker == KEEL_ABSENT ? NULL : &function->nodes[maker];
  return node && !node->dead ? node : NULL;
}

/* ---- a node as kernels see it ------------------------------------------------- */

bool keel_view_make(const keel_function *function, const keel_node *node,
                    keel_view *out) {
  uint32_t n = node->input_count, m = node->output_count;
  out->types = calloc(n + m + 1, sizeof *out->types);
  out->constants = calloc(n + 1, sizeof(keel_tensor *));
  out->node = (struct kd_node){.op = node->op,
                               .name = node->name,
                               .input_count = n,
                               .output_count = m,
                               .inputs = out->types,
                               .outputs = out->types + n,
                               .constants = out->constants};
  bool known = out->types && out->constants;
  for (uint32_t i = 0; known && i < n; i++) {
    uint32_t value = node->inputs[i];
    if (value == KEEL_ABSENT) continue;
    out->types[i] = function->values[value].type;
    out->constants[i] = function->values[value].constant;
    known = out->types[i] && keel_type_known(out->types[i]);
  }
  for (uint32_t i = 0; known && i < m; i++)
    if (node->outputs[i] != KEEL_ABSENT)
      out->types[n + i] = function->values[node->outputs[i]].type;
  return known;
}

void keel_view_open(const keel_function *function, const keel_node *node,
                    keel_view *view) {
  for (uint32_t i = 0; view->types && i < node->input_count; i++)
    if (node->inputs[i] != KEEL_ABSENT)
      view->types[i] = function->values[node->inputs[i]].type;
}

void keel_view_drop(keel_view *view) {
  free(view->types);
  free(view->constants);
}

bool keel_pass_takes(const keel_function *function, keel_device *where,
                     const keel_node *node) {
  keel_view view;
  keel_device *device = NULL;
  const kd_kernel_def *def = NULL;
  bool taken = keel_view_make(function, node, &view) &&
               keel_choose_kernel(function->context, where, &view.node,
                                  node->name, &device, &def) == KD_OK &&
               device == where;
  keel_view_drop(&view);
  return taken;
}

bool keel_pass_may_take(const keel_function *function, keel_device *where,
                        const keel_node *node) {
  keel_view view;
  bool known = keel_view_make(function, node, &view), takes = false;
  if (!known && view.types && view.constants) {
    keel_view_open(function, node, &view);
    takes = keel_choose_may(where, &view.node);
  }
  keel_view_drop(&view);
  return known ? keel_pass_takes(function, where, node) : takes;
}

/* ---- channels ---- */

/* Where dimension `i` of `rank` comes from. first: from channels last to channels first. */
static int64_t moved_from(uint32_t i, uint32_t rank, bool first) {
  if (!i) return 0;
  if (first) return i == 1 ? rank - 1 : i - 1;
  return i == rank - 1 ? 1 : i + 1;
}

bool keel_pass_moves_channels(const keel_node *node, uint32_t rank,
                              bool first) {
  const int64_t *perm = NULL;
  if (rank < 3 || node->dead ||
      !(node->op->schema->traits & KEEL_OP_PERMUTES) ||
      keel_attr_ints(node->op, "perm", &perm) != (int64_t)rank)
    return false;
  for (uint32_t i = 0; i < rank; i++)
    if (perm[i] != moved_from(i, rank, first)) return false;
  return true;
}

/* ---- values without a reader ------------------------------------------------- */

static void basic_let_go(keel_value_info *value) {
  if (!value->constant) return;
  keel_mapping_evict(value->constant);
  keel_tensor_release(value->constant);
  value->constant = NULL;
}

void keel_pass_release_constant(keel_function *function, const keel_uses *uses,
                                uint32_t value) {
  if (value != KEEL_ABSENT &&
      (value >= uses->value_count || uses->counts[value] == 1))
    basic_let_go(&function->values[value]);
}

/* ---- pruning -------------------------------------------------------------- */

keel_status keel_pass_prune(keel_function *function) {
  keel_uses uses = {0};
  KEEL_TRY(keel_uses_count(function, &uses));
  for (uint32_t i = function->node_count; i-- > 0;) {
    keel_node *node = &function->nodes[i];
    bool needed = keel_node_changes(node);
    for (uint32_t k = 0; k < node->output_count; k++)
      needed |=
          node->outputs[k] != KEEL_ABSENT && uses.counts[node->outputs[k]] > 0;
    if (needed || node->dead) continue;
    node->dead = true;
    for (uint32_t k = 0; k < node->input_count; k++)
      if (node->inputs[k] != KEEL_ABSENT) uses.counts[node->inputs[k]]--;
  }
  for (uint32_t i = 0; i < function->value_count; i++)
    if (!uses.counts[i]) basic_let_go(&function->values[i]);
  keel_uses_drop(&uses);
  return KD_OK;
}
