/* basic.c - types, constant folding, pruning. */
#include "context.h"
#include "eager/site.h"
#include "ops/shapes.h"
#include "passes/passes.h"

#define FOLDED_MOST (UINT64_C(64) << 20) /* bytes of one folded value */

keel_status keel_uses_count(const keel_function *function,
                            keel_uses *out_uses) {
  uint32_t n = function->value_count + 1;
  out_uses->counts = calloc(n, sizeof *out_uses->counts);
  out_uses->reader = malloc(n * sizeof *out_uses->reader);
  if (!out_uses->counts || !out_uses->reader) {
    keel_uses_drop(out_uses);
    return keel_no_memory(n * sizeof(uint32_t));
  }
  for (uint32_t i = 0; i < n; i++)
    out_uses->reader[i] = KEEL_ABSENT;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    for (uint32_t k = 0; !node->dead && k < node->input_count; k++)
      if (node->inputs[k] != KEEL_ABSENT) {
        out_uses->counts[node->inputs[k]]++;
        out_uses->reader[node->inputs[k]] = i;
      }
  }
  for (uint32_t i = 0; i < function->output_count; i++)
    out_uses->counts[function->outputs[i]]++;
  return KD_OK;
}

void keel_uses_drop(keel_uses *uses) {
  free(uses->counts);
  free(uses->reader);
  *uses = (keel_uses){0};
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

void keel_view_drop(keel_view *view) {
  free(view->types);
  free(view->constants);
}

/* ---- types ---------------------------------------------------------------- */

keel_status keel_pass_infer(keel_function *function, const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  uint32_t n = node->input_count, m = node->output_count;
  if (schema->infer == keel_shape_control) return KD_OK;
  const keel_type **types = calloc(n + m + 1, sizeof *types);
  keel_tensor **values = calloc(n + 1, sizeof(keel_tensor *));
  bool known = types && values;
  for (uint32_t i = 0; known && i < n; i++) {
    if (node->inputs[i] == KEEL_ABSENT) continue;
    const keel_value_info *value = &function->values[node->inputs[i]];
    types[i] = value->type;
    values[i] = value->constant;
    known = value->type && keel_type_known(value->type);
  }
  keel_infer infer = {
      .op = node->op,
      .where = node->name,
      .input_count = n,
      .output_count = m,
      .in = types,
      .values = values,
      .out = types + n,
  };
  keel_status status = known ? keel_infer_types(&infer) : KD_OK;
  for (uint32_t i = 0; known && status == KD_OK && i < m; i++)
    if (node->outputs[i] != KEEL_ABSENT && types[n + i] && !infer.unknown)
      function->values[node->outputs[i]].type = types[n + i];
  free(types);
  free(values);
  return status;
}

keel_status keel_pass_types(keel_function *function) {
  for (uint32_t i = 0; i < function->node_count; i++)
    if (!function->nodes[i].dead)
      KEEL_TRY(keel_pass_infer(function, &function->nodes[i]));
  return KD_OK;
}

/* ---- folding -------------------------------------------------------------- */

static bool all_constant(const keel_function *function, const keel_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++)
    if (node->inputs[i] != KEEL_ABSENT &&
        !function->values[node->inputs[i]].constant)
      return false;
  return true;
}

static bool foldable(const keel_function *function, const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  if (schema->flags & (KEEL_OP_RANDOM | KEEL_OP_CONTROL | KEEL_OP_STATE))
    return false;
  if ((!strcmp(schema->name, "Shape") || !strcmp(schema->name, "Size")) &&
      node->input_count == 1 && node->inputs[0] != KEEL_ABSENT) {
    const keel_type *type = function->values[node->inputs[0]].type;
    if (type && keel_type_known(type)) return true;
  }
  if (!all_constant(function, node)) return false;
  for (uint32_t i = 0; i < node->output_count; i++) {
    const keel_type *type = node->outputs[i] == KEEL_ABSENT
                                ? NULL
                                : function->values[node->outputs[i]].type;
    if (type && type->bytes > FOLDED_MOST) return false;
  }
  return true;
}

static keel_status run_node(keel_function *function, keel_node *node,
                            keel_tensor **outputs) {
  keel_tensor *stand_in = NULL;
  keel_tensor **inputs = calloc(node->input_count + 1, sizeof(keel_tensor *));
  keel_status status = inputs ? KD_OK : keel_no_memory(8);
  for (uint32_t i = 0; inputs && i < node->input_count; i++)
    if (node->inputs[i] != KEEL_ABSENT)
      inputs[i] = function->values[node->inputs[i]].constant;
  if (inputs && !all_constant(function, node)) {
    /* Shape and Size look at the type alone */
    stand_in = keel_tensor_new(function->context);
    if (stand_in)
      stand_in->type = function->values[node->inputs[0]].type;
    else
      status = KD_OUT_OF_MEMORY;
    inputs[0] = stand_in;
  }
  keel_site site;
  keel_site_init(&site, node->op, node->name, NULL);
  if (status == KD_OK)
    status = keel_site_call(&site, function->context->default_device, inputs,
                            node->input_count, outputs, node->output_count, 0);
  keel_site_deinit(&site);
  keel_tensor_release(stand_in);
  free(inputs);
  return status;
}

static keel_status fold_node(keel_function *function, keel_node *node) {
  keel_tensor **outputs = calloc(node->output_count + 1, sizeof(keel_tensor *));
  if (!outputs) return keel_no_memory(node->output_count * sizeof *outputs);
  keel_status status = run_node(function, node, outputs);
  bool whole = status == KD_OK;
  for (uint32_t i = 0; whole && i < node->output_count; i++)
    whole = outputs[i]->kind == KEEL_DATA;
  for (uint32_t i = 0; i < node->output_count; i++) {
    keel_tensor *here = NULL;
    if (whole && node->outputs[i] != KEEL_ABSENT &&
        (status = keel_tensor_to_host(outputs[i], &here)) == KD_OK) {
      function->values[node->outputs[i]].constant = here;
      function->values[node->outputs[i]].type = here->type;
      function->values[node->outputs[i]].producer = KEEL_ABSENT;
    }
    keel_tensor_release(outputs[i]);
  }
  node->dead = whole && status == KD_OK;
  free(outputs);
  /* what can't run now says so when the program runs */
  return status == KD_OUT_OF_MEMORY ? status : KD_OK;
}

static void replace_value(keel_function *function, uint32_t from, uint32_t to) {
  for (uint32_t i = 0; i < function->node_count; i++)
    for (uint32_t k = 0; k < function->nodes[i].input_count; k++)
      if (function->nodes[i].inputs[k] == from)
        function->nodes[i].inputs[k] = to;
  for (uint32_t i = 0; i < function->output_count; i++)
    if (function->outputs[i] == from) function->outputs[i] = to;
}

static void drop_identity(keel_function *function, keel_node *node) {
  if (strcmp(node->op->schema->name, "Identity") != 0 ||
      node->outputs[0] == KEEL_ABSENT || node->inputs[0] == KEEL_ABSENT)
    return;
  replace_value(function, node->outputs[0], node->inputs[0]);
  node->dead = true;
}

keel_status keel_pass_fold(keel_function *function) {
  for (uint32_t i = 0; i < function->node_count; i++) {
    keel_node *node = &function->nodes[i];
    if (node->dead) continue;
    if (node->input_count == 1 && node->output_count == 1)
      drop_identity(function, node);
    if (node->dead) continue;
    KEEL_TRY(keel_pass_infer(function, node));
    if (foldable(function, node)) KEEL_TRY(fold_node(function, node));
  }
  return KD_OK;
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
  keel_uses_drop(&uses);
  return KD_OK;
}
