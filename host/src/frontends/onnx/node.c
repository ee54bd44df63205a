/* node.c - a NodeProto becomes a node, or the model's function that it calls is written out. */
#include "device/context.h"
#include "exchange.h"

#include "attribute.h"
#include "ops/vendor.h"
#include "opsets/onnx/upgrade.h"
#include "program/draft.h"

#define NESTING_MOST 100 /* functions that call functions, graphs in graphs */

/* The imports of the model, or of a function, which are indexed at first use. */
static keel_status imports_of(const scope *scope, const onnx_index **out_index,
                              Onnx__OperatorSetIdProto *const **out_list) {
  importer *all = scope->all;
  const onnx_model *model = all->model;
  bool inside = scope->body != KEEL_ABSENT;
  const onnx_function *body = inside ? model->functions[scope->body] : NULL;
  size_t count = inside ? body->n_opset_import : model->n_opset_import;
  onnx_index *index = inside ? &all->inner[scope->body] : &all->opsets;
  *out_list = inside ? body->opset_import : model->opset_import;
  *out_index = index;
  if (index->capacity) return KD_OK;
  for (size_t i = 0; i < count; i++) {
    const char *domain = (*out_list)[i]->domain;
    if (!domain || !strcmp(domain, "ai.onnx")) domain = "";
    KEEL_TRY(onnx_index_add(index, domain, "", "", (uint32_t)i));
  }
  return KD_OK;
}

/* The version of a domain that a node is written for; 0: not stated. */
static keel_status opset_of(const scope *from, const char *domain,
                            int64_t *out_opset) {
  const scope model = {.all = from->all, .body = KEEL_ABSENT};
  const onnx_index *index = NULL;
  Onnx__OperatorSetIdProto *const *list = NULL;
  *out_opset = 0;
  KEEL_TRY(imports_of(from, &index, &list));
  uint32_t at = onnx_index_find(index, domain, "", "");
  if (at == KEEL_ABSENT && from->body != KEEL_ABSENT) {
    KEEL_TRY(imports_of(&model, &index, &list));
    at = onnx_index_find(index, domain, "", "");
  }
  if (at != KEEL_ABSENT) *out_opset = list[at]->version;
  return KD_OK;
}

static bool device_has(const importer *all, const char *domain,
                       const char *op) {
  for (uint32_t i = 0; i < all->context->device_count; i++)
    if (keel_device_kernels(keel_devices(all->context)[i],
                            *domain ? domain : "ai.onnx", op))
      return keel_op_find(all->context, domain, op) != NULL;
  return false;
}

/* Inputs and outputs of a node, by name; room for those of an upgrade. */
static keel_status bind_values(scope *scope, const onnx_node *node,
                               keel_draft *draft) {
  keel_arena *arena = &scope->all->program->arena;
  draft->inputs = keel_arena_take(
      arena, (node->n_input + KEEL_DRAFT_EXTRA) * sizeof(uint32_t));
  draft->outputs =
      keel_arena_take(arena, (node->n_output + 1) * sizeof(uint32_t));
  if (!draft->inputs || !draft->outputs) return KD_OUT_OF_MEMORY;
  for (size_t i = 0; i < node->n_input; i++) {
    draft->inputs[i] = KEEL_ABSENT;
    if (!*node->input[i]) continue;
    keel_status status =
        onnx_scope_resolve(scope, node->input[i], &draft->inputs[i]);
    if (status == KD_NOT_FOUND)
      return onnx_bad(scope->all, KD_DATA_LOSS,
                      "node \"%s\" (%s) reads \"%s\", which nothing makes",
                      draft->name, draft->op, node->input[i]);
    KEEL_TRY(status);
  }
  draft->input_count = (uint32_t)node->n_input;
  while (draft->input_count &&
         draft->inputs[draft->input_count - 1] == KEEL_ABSENT)
    draft->input_count--;
  for (size_t i = 0; i < node->n_output; i++)
    draft->outputs[i] = *node->output[i]
                            ? onnx_scope_find(scope, node->output[i])
                            : KEEL_ABSENT;
  draft->output_count = draft->outputs_written = (uint32_t)node->n_output;
  while (draft->output_count &&
         draft->outputs[draft->output_count - 1] == KEEL_ABSENT)
    draft->output_count--;
  return KD_OK;
}

static keel_status add_captures(keel_draft *draft, const scope *inner,
                                keel_arena *arena) {
  uint32_t count = draft->input_count + inner->captured_count;
  uint32_t *inputs =
      keel_arena_take(arena, (count + KEEL_DRAFT_EXTRA) * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  memcpy(inputs, draft->inputs, draft->input_count * sizeof *inputs);
  if (inner->captured_count)
    memcpy(inputs + draft->input_count, inner->captured,
           inner->captured_count * sizeof *inputs);
  draft->inputs = inputs;
  draft->input_count = count;
  return KD_OK;
}

/* The graph of an attribute, which is written in the scope `from`. */
static keel_status read_graph(scope *scope, const struct scope *from,
                              const onnx_graph *graph, keel_draft *draft) {
  struct scope inner = {.all = scope->all,
                        .around = scope,
                        .written = from == scope ? NULL : (struct scope *)from,
                        .call = from->call,
                        .caller = from->caller,
                        .body = from->body};
  keel_status status = onnx_import_graph(graph, &inner);
  draft->graphs[draft->attr_count - 1] = inner.function;
  if (status == KD_OK)
    status = add_captures(draft, &inner, &scope->all->program->arena);
  onnx_scope_free(&inner);
  return status;
}

static keel_status add_attr(scope *scope, const onnx_node *node,
                            const onnx_attr *attr, keel_draft *draft) {
  importer *all = scope->all;
  struct scope *from = scope;
  const onnx_attr *value = NULL;
  if (!attr->name)
    return onnx_bad(all, KD_DATA_LOSS,
                    "node \"%s\" has an attribute without a name", draft->name);
  KEEL_TRY(onnx_resolve_attr(&from, node, attr, &value));
  if (!value) return KD_OK;
  if (draft->attr_count == KEEL_DRAFT_ATTRS)
    return onnx_bad(all, KD_DATA_LOSS,
                    "node \"%s\" has more than %d attributes", draft->name,
                    KEEL_DRAFT_ATTRS);
  keel_attr *to = &draft->attrs[draft->attr_count];
  KEEL_TRY(onnx_read_attr(from, node, value, to));
  to->name = attr->name;
  if (value->sparse_tensor && !strcmp(to->name, "sparse_value"))
    to->name = "value"; /* it was made dense */
  draft->attr_count++;
  return to->kind == KD_ATTR_GRAPH ? read_graph(scope, from, value->g, draft)
                                   : KD_OK;
}

/* The attributes of a node. function: of the model, instead of which the node runs an op of
 * a plugin; NULL: none. The op gets the defaults that the function has. */
static keel_status read_attrs(scope *scope, const onnx_node *node,
                              const onnx_function *function,
                              keel_draft *draft) {
  for (size_t i = 0; i < node->n_attribute; i++)
    KEEL_TRY(add_attr(scope, node, node->attribute[i], draft));
  for (size_t i = 0; function && i < function->n_attribute_proto; i++) {
    const onnx_attr *usual = function->attribute_proto[i];
    if (usual->name &&
        !onnx_find_attr(node->attribute, node->n_attribute, usual->name))
      KEEL_TRY(add_attr(scope, node, usual, draft));
  }
  return KD_OK;
}

/* Adds the value of this graph that has the name to a draft's inputs. */
static keel_status add_named(const scope *scope, const char *name,
                             keel_draft *draft) {
  uint32_t value = onnx_scope_find(scope, name);
  if (value == KEEL_ABSENT)
    return onnx_bad(scope->all, KD_DATA_LOSS,
                    "node \"%s\" (%s): its graph has no value \"%s\"",
                    draft->name, draft->op, name);
  draft->inputs[draft->input_count++] = value;
  return KD_OK;
}

/* A Gradient names the values between which it is taken; they become inputs, behind its own: xs,
 * zs, y. */
static keel_status add_gradient_inputs(const scope *scope, keel_draft *draft) {
  static const char *const lists[] = {"xs", "zs", "y"};
  uint32_t count = draft->input_count + KEEL_DRAFT_EXTRA + 1;
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (draft->attrs[i].kind == KD_ATTR_STRINGS) count += draft->attrs[i].count;
  uint32_t *inputs =
      keel_arena_take(&scope->all->program->arena, count * sizeof *inputs);
  if (!inputs) return KD_OUT_OF_MEMORY;
  memcpy(inputs, draft->inputs, draft->input_count * sizeof *inputs);
  draft->inputs = inputs;
  for (int k = 0; k < 3; k++)
    for (uint32_t i = 0; i < draft->attr_count; i++) {
      const keel_attr *attr = &draft->attrs[i];
      if (strcmp(attr->name, lists[k]) != 0) continue;
      for (uint32_t n = 0; attr->kind == KD_ATTR_STRINGS && n < attr->count;
           n++)
        KEEL_TRY(add_named(scope, attr->strings[n], draft));
      if (attr->kind == KD_ATTR_STRING && k == 2)
        KEEL_TRY(add_named(scope, attr->s, draft));
      break;
    }
  return KD_OK;
}

static bool is_gradient(const keel_draft *draft) {
  return !strcmp(draft->op, "Gradient") &&
         !strcmp(draft->domain, "ai.onnx.preview.training");
}

/* Control ops need their own inputs at fixed places before the captures. */
static void pad_inputs(keel_draft *draft) {
  uint32_t least = !strcmp(draft->op, "Loop") ? 2 : 0;
  while (draft->input_count < least)
    draft->inputs[draft->input_count++] = KEEL_ABSENT;
}

/* Counts what a node, or a call, adds; fails where that is more than such a file may. */
static keel_status count_nodes(importer *all, uint64_t count) {
  all->nodes += count;
  if (all->nodes <= all->most) return KD_OK;
  return onnx_bad(
      all, KD_DATA_LOSS,
      "has more than %llu nodes with its functions written out, too many"
      " for a file of its size",
      (unsigned long long)all->most);
}

keel_status onnx_enter(importer *all, const char *name) {
  if (++all->depth <= NESTING_MOST) return KD_OK;
  return onnx_bad(all, KD_DATA_LOSS,
                  "\"%s\" is nested deeper than %d, or calls itself",
                  name ? name : "", NESTING_MOST);
}

/* The body's outputs are the call's values. */
static keel_status bind_outputs(scope *inner, const onnx_function *function,
                                const keel_draft *draft) {
  for (size_t i = 0; i < function->n_output; i++) {
    const char *name = function->output[i];
    const entry *known = inner->capacity ? onnx_scope_slot(inner, name) : NULL;
    if (i >= draft->output_count || draft->outputs[i] == KEEL_ABSENT) continue;
    if (known && known->name && known->value == KEEL_ABSENT)
      return onnx_bad(
          inner->all, KD_DATA_LOSS,
          "node \"%s\" wants output \"%s\" of function \"%s\", which is"
          " an input that the node leaves out",
          draft->name, name, function->name);
    if (known && known->name) continue; /* see pass_through */
    KEEL_TRY(onnx_scope_add(inner, name, draft->outputs[i]));
    onnx_scope_slot(inner, name)->open = true;
  }
  return KD_OK;
}

/* An output that is an input, or another output, is a copy of it. */
static keel_status pass_through(scope *inner, const onnx_function *function,
                                const keel_draft *draft) {
  for (size_t i = 0; i < function->n_output; i++) {
    if (i >= draft->output_count || draft->outputs[i] == KEEL_ABSENT) continue;
    const entry *made = onnx_scope_slot(inner, function->output[i]);
    keel_opdef *op = NULL;
    if (made->open)
      return onnx_bad(inner->all, KD_DATA_LOSS,
                      "function \"%s\": output \"%s\" is made by no node",
                      function->name, made->name);
    if (made->value == draft->outputs[i]) continue;
    KEEL_TRY(keel_opdef_create(inner->all->context,
                               keel_schema_find("", "Identity"), NULL, 0, NULL,
                               &op));
    KEEL_TRY(keel_function_node(inner->function, op, draft->name, &made->value,
                                1, &draft->outputs[i], 1, NULL));
  }
  return KD_OK;
}

static keel_status write_out(scope *outer, const onnx_node *node, uint32_t at,
                             keel_draft *draft) {
  importer *all = outer->all;
  const onnx_function *function = all->model->functions[at];
  if (draft->input_count > function->n_input ||
      draft->output_count > function->n_output)
    return onnx_bad(
        all, KD_DATA_LOSS,
        "node \"%s\" has %u inputs and %u outputs, and function \"%s\""
        " %zu and %zu",
        draft->name, (unsigned)draft->input_count,
        (unsigned)draft->output_count, function->name, function->n_input,
        function->n_output);
  KEEL_TRY(count_nodes(all, (function->n_input + function->n_output) / 4));
  KEEL_TRY(onnx_enter(all, function->name));
  scope inner = {.all = all,
                 .function = outer->function,
                 .call = node,
                 .caller = outer,
                 .body = at};
  keel_status status = KD_OK;
  for (size_t i = 0; i < function->n_input && status == KD_OK; i++)
    status =
        onnx_scope_add(&inner, function->input[i],
                       i < draft->input_count ? draft->inputs[i] : KEEL_ABSENT);
  if (status == KD_OK) status = bind_outputs(&inner, function, draft);
  if (status == KD_OK)
    status = onnx_import_nodes(&inner, function->node, function->n_node);
  if (status == KD_OK) status = pass_through(&inner, function, draft);
  onnx_scope_free(&inner);
  all->depth--;
  return status;
}

static keel_status node_add(const keel_draft *draft) {
  keel_status status = keel_draft_check(draft);
  if (status == KD_OK) status = keel_draft_add(draft, NULL);
  return status == KD_OK ? KD_OK
                         : keel_while(status, "while reading %s, node \"%s\"",
                                      draft->path, draft->name);
}

/* The model's function that a node calls, or KEEL_ABSENT. */
static keel_status find_function(const importer *all, const onnx_node *node,
                                 const keel_draft *draft, uint32_t *out_place) {
  const char *overload = node->overload ? node->overload : "";
  *out_place =
      onnx_index_find(&all->functions, draft->domain, draft->op, overload);
  if (*out_place != KEEL_ABSENT || !*overload ||
      keel_op_find(all->context, draft->domain, draft->op))
    return KD_OK;
  return onnx_bad(
      all, KD_DATA_LOSS,
      "node \"%s\" calls overload \"%s\" of %s::%s, which the model does"
      " not have",
      draft->name, overload, *draft->domain ? draft->domain : "ai.onnx",
      draft->op);
}

static keel_status import_draft(scope *scope, const onnx_node *node,
                                keel_draft *draft) {
  importer *all = scope->all;
  uint32_t place = KEEL_ABSENT;
  KEEL_TRY(bind_values(scope, node, draft));
  if (!draft->output_count) return KD_OK; /* it can't be read */
  KEEL_TRY(find_function(all, node, draft, &place));
  const onnx_function *function =
      place == KEEL_ABSENT ? NULL : all->model->functions[place];
  if (function && ((node->overload && *node->overload) ||
                   !device_has(all, draft->domain, draft->op)))
    return write_out(scope, node, place, draft);
  pad_inputs(draft);
  KEEL_TRY(read_attrs(scope, node, function, draft));
  if (keel_onnx_is_exchange(draft)) {
    uint32_t member = KEEL_ABSENT;
    KEEL_TRY(onnx_scope_member(scope, &member));
    KEEL_TRY(keel_onnx_exchange(draft, member));
  }
  if (is_gradient(draft)) KEEL_TRY(add_gradient_inputs(scope, draft));
  KEEL_TRY(keel_draft_upgrade(draft));
  return node_add(draft);
}

static keel_status import_node(scope *scope, const onnx_node *node) {
  importer *all = scope->all;
  KEEL_TRY(count_nodes(all, 1));
  if (!node->op_type || !*node->op_type)
    return onnx_bad(all, KD_DATA_LOSS, "node \"%s\" has no op",
                    node->name ? node->name : "");
  const char *domain = node->domain ? node->domain : "";
  if (!strcmp(domain, "ai.onnx")) domain = "";
  keel_draft *draft = calloc(1, sizeof *draft);
  if (!draft) return keel_no_memory(sizeof *draft);
  draft->function = scope->function;
  draft->path = all->path;
  draft->name = node->name ? node->name : "";
  draft->op = node->op_type;
  draft->domain = domain;
  keel_status status = opset_of(scope, domain, &draft->opset);
  if (status == KD_OK && !*domain && !draft->opset &&
      all->model->n_opset_import)
    status = onnx_bad(all, KD_DATA_LOSS,
                      "node \"%s\" (%s): the model does not say which opset of"
                      " ai.onnx it uses",
                      draft->name, draft->op);
  if (status == KD_OK) status = import_draft(scope, node, draft);
  for (uint32_t i = 0; i < draft->attr_count; i++)
    if (draft->attrs[i].kind == KD_ATTR_TENSOR)
      keel_tensor_release(draft->attrs[i].tensor);
  free(draft);
  return status;
}

keel_status onnx_import_nodes(scope *scope, onnx_node *const *nodes,
                              size_t count) {
  for (size_t i = 0; i < count; i++)
    for (size_t k = 0; k < nodes[i]->n_output; k++) {
      const char *name = nodes[i]->output[k];
      if (*name) KEEL_TRY(onnx_scope_make(scope, name));
    }
  for (size_t i = 0; i < count; i++)
    KEEL_TRY(import_node(scope, nodes[i]));
  return KD_OK;
}
