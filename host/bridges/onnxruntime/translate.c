/* translate.c - a graph's nodes as a program of Keel.
 *
 * A question about one node and the program of a whole partition are made by
 * the same functions, so that the answer holds for the program. The branches of
 * If and the bodies of Loop and Scan are translations within one, which take
 * what they use of the graph around them from there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

#define SMALL 64 /* five such dimensions are not many elements */

ort_status *translation_begin(translation *one, keel_context *context,
                              const opsets *imports, const char *name,
                              const stand_in *question) {
  *one = (translation){
      .imports = imports, .context = context, .question = question != NULL};
  if (question) one->sizes = *question;
  TRY_KEEL(keel_builder_create(context, name, &one->builder));
  return NULL;
}

void translation_end(translation *one) {
  if (one->builder) keel_builder_destroy(one->builder);
  name_free(&one->values);
}

/* ---- values ------------------------------------------------------------------ */

static ort_status *remember(translation *one, const char *name,
                            keel_value value) {
  name_entry *entry = name_add(&one->values, name);
  if (!entry) return no_memory();
  entry->number = value;
  return NULL;
}

/* Notes what a question is asked with again. */
static void note_sizes(translation *one, uint32_t rank, const int64_t *dims) {
  while (one->outer)
    one = one->outer;
  if (rank == KEEL_RANK_UNKNOWN) {
    one->unranked = one->open = true;
    return;
  }
  for (uint32_t i = 0; i < rank; i++) {
    one->open |= dims[i] < 0;
    uint32_t at = 0;
    while (at < one->seen_count && one->seen[at] != dims[i])
      at++;
    if (at == one->seen_count && at < SIZES_SEEN && dims[i] > 2)
      one->seen[one->seen_count++] = dims[i];
  }
}

/* The size of an open dimension. Of large ones only two are large in a tensor,
 * the channels and the last: a device may refuse a tensor because of its size. */
static int64_t size_for(const stand_in *sizes, uint32_t rank, uint32_t index) {
  if (sizes->size <= SMALL) return sizes->size;
  if (index == 0 && rank > 1) return 1;
  return index > 1 && index + 1 < rank ? SMALL : sizes->size;
}

static void fill_open(const stand_in *sizes, value_type *type) {
  if (!sizes->size) return;
  bool unranked = type->rank == KEEL_RANK_UNKNOWN;
  if (unranked) type->rank = sizes->rank;
  for (uint32_t i = 0; i < type->rank; i++)
    if (unranked || type->dims[i] < 0)
      type->dims[i] = size_for(sizes, type->rank, i);
}

static ort_status *translate_input(translation *one,
                                   const ort_value_info *value) {
  const char *name = NULL;
  value_type type;
  TRY(value_name(value, &name));
  TRY(value_type_get(value, &type));
  note_sizes(one, type.rank, type.dims);
  fill_open(&one->sizes, &type);
  keel_value made =
      keel_builder_input(one->builder, name, type.dtype, type.rank, type.dims);
  if (made == KEEL_ABSENT) return keel_failure(KD_INVALID_ARGUMENT);
  return remember(one, name, made);
}

static ort_status *translate_add_constant(translation *one, const char *name,
                                          const ort_value *value) {
  keel_tensor *tensor = NULL;
  TRY(one->question ? value_wrap(one->context, value, &tensor)
                    : value_copy(one->context, value, &tensor));
  note_sizes(one, keel_tensor_rank(tensor), keel_tensor_dims(tensor));
  keel_value made = keel_builder_constant(one->builder, tensor);
  keel_tensor_release(tensor);
  if (made == KEEL_ABSENT) return keel_failure(KD_INVALID_ARGUMENT);
  return remember(one, name, made);
}

static ort_status *find_value(translation *one, const ort_value_info *value,
                              keel_value *out);

/* Whether the value reaches the program. */
static ort_status *check_capture(const translation *one,
                                 const ort_value_info *value,
                                 const char *name) {
  bool constant = false;
  if (ort_gives_captures || one->outer->outer) return NULL;
  TRY(ort->ValueInfo_IsConstantInitializer(value, &constant));
  if (constant) return NULL;
  return failure(ORT_NOT_IMPLEMENTED,
                 "Keel: a body takes %.200s from around it, which ONNX Runtime "
                 "before 1.27 does not hand over",
                 name);
}

static ort_status *capture(translation *one, const ort_value_info *value,
                           const char *name) {
  TRY(check_capture(one, value, name));
  keel_value outer = KEEL_ABSENT;
  TRY(find_value(one->outer, value, &outer));
  keel_value made = keel_builder_capture(one->builder, outer);
  if (made == KEEL_ABSENT) return keel_failure(KD_INVALID_ARGUMENT);
  return remember(one, name, made);
}

/* Adds a value that no node of the program makes. */
static ort_status *introduce(translation *one, const ort_value_info *value,
                             const char *name) {
  bool constant = false, from_outer = false;
  const ort_value *data = NULL;
  TRY(ort->ValueInfo_IsConstantInitializer(value, &constant));
  TRY(ort->ValueInfo_IsFromOuterScope(value, &from_outer));
  if (one->outer && (from_outer || !constant)) return capture(one, value, name);
  if (constant) TRY(ort->ValueInfo_GetInitializerValue(value, &data));
  if (data) return translate_add_constant(one, name, data);
  if (one->question) return translate_input(one, value);
  return failure(ORT_FAIL,
                 "Keel: %.200s is neither an input of its partition "
                 "nor made in it",
                 name);
}

static ort_status *find_value(translation *one, const ort_value_info *value,
                              keel_value *out) {
  const char *name = NULL;
  *out = KEEL_ABSENT;
  TRY(value_name(value, &name));
  if (!*name) return NULL;
  name_entry *entry = name_find(&one->values, name);
  if (!entry) {
    TRY(introduce(one, value, name));
    entry = name_find(&one->values, name);
  }
  *out = entry->number;
  return NULL;
}

ort_status *translate_output(translation *one, const ort_value_info *value) {
  const char *name = NULL;
  keel_value made = KEEL_ABSENT;
  TRY(value_name(value, &name));
  TRY(value_no_strings(value));
  TRY(find_value(one, value, &made));
  TRY_KEEL(keel_builder_output(one->builder, name, made));
  return NULL;
}

/* ---- opsets ------------------------------------------------------------------- */

ort_status *opsets_read(const ort_graph *graph, opsets *out) {
  *out = (opsets){0};
  TRY(ort->Graph_GetNumOperatorSets(graph, &out->count));
  out->domains = calloc(out->count + 1, sizeof *out->domains);
  out->versions = calloc(out->count + 1, sizeof *out->versions);
  ort_status *status = out->domains && out->versions
                           ? ort->Graph_GetOperatorSets(
                                 graph, out->domains, out->versions, out->count)
                           : no_memory();
  if (status) opsets_free(out);
  return status;
}

void opsets_free(opsets *one) {
  free(one->domains);
  free(one->versions);
  *one = (opsets){0};
}

static bool is_onnx(const char *domain) {
  return !*domain || !strcmp(domain, "ai.onnx");
}

/* What the model imports. A node's own version, which is that of the opset that
 * last changed its op, may be older: it says less. */
static ort_status *set_opset(translation *one, const ort_node *node,
                             const char *domain) {
  int since = 0;
  TRY(ort->Node_GetSinceVersion(node, &since));
  int64_t opset = since;
  for (size_t i = 0; i < one->imports->count; i++) {
    const char *imported = one->imports->domains[i];
    bool same = is_onnx(domain) ? is_onnx(imported) : !strcmp(domain, imported);
    if (same && one->imports->versions[i] > opset)
      opset = one->imports->versions[i];
  }
  TRY_KEEL(keel_builder_opset(one->builder, domain, opset));
  return NULL;
}

/* ---- nodes -------------------------------------------------------------------- */

/* A node that is being added. */
typedef struct node_call {
  value_list in, out;
  attributes attrs;
  keel_value *values;  /* of `in`, then of `out` */
  translation *bodies; /* of its graphs */
  size_t body_count;
  char op[256];
} node_call;

static void call_free(node_call *call) {
  for (size_t i = 0; i < call->body_count; i++)
    translation_end(&call->bodies[i]);
  free(call->bodies);
  attributes_free(&call->attrs);
  free(call->in.items);
  free(call->out.items);
  free(call->values);
}

static ort_status *translate_read_op(const ort_node *node, node_call *call,
                                     const char **out_domain) {
  const char *op = NULL;
  TRY(ort->Node_GetOperatorType(node, &op));
  TRY(ort->Node_GetDomain(node, out_domain));
  bool plain = is_onnx(*out_domain);
  int size = snprintf(call->op, sizeof call->op, "%s%s%s",
                      plain ? "" : *out_domain, plain ? "" : "::", op);
  if (size < 0 || (size_t)size >= sizeof call->op)
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: the name of op %.80s is longer than an op's", op);
  return NULL;
}

/* Outputs after the last one that has a name are left out. */
static ort_status *translate_wanted(const value_list *out, size_t *count) {
  *count = 0;
  for (size_t i = 0; i < out->count; i++) {
    const char *name = NULL;
    TRY(value_name(out->items[i], &name));
    if (*name) *count = i + 1;
  }
  return NULL;
}

static ort_status *remember_outputs(translation *one, const value_list *out,
                                    size_t count, const keel_value *values) {
  for (size_t i = 0; i < count; i++) {
    const char *name = NULL;
    TRY(value_name(out->items[i], &name));
    if (*name) TRY(remember(one, name, values[i]));
  }
  return NULL;
}

static ort_status *translate_all(translation *one, const value_list *in,
                                 const node_list *nodes,
                                 const value_list *out) {
  for (size_t i = 0; i < in->count; i++)
    TRY(translate_input(one, in->items[i]));
  for (size_t i = 0; i < nodes->count; i++)
    TRY(translate_node(one, nodes->items[i]));
  for (size_t i = 0; i < out->count; i++)
    TRY(translate_output(one, out->items[i]));
  return NULL;
}

ort_status *translate_graph(translation *one, const ort_graph *graph,
                            const ort_node *fused) {
  value_list in = {0}, out = {0};
  node_list nodes = {0};
  ort_status *status =
      fused ? node_inputs(fused, &in) : graph_inputs(graph, &in);
  if (!status) status = graph_nodes(graph, &nodes);
  if (!status)
    status = fused ? node_outputs(fused, &out) : graph_outputs(graph, &out);
  if (!status) status = translate_all(one, &in, &nodes, &out);
  free(in.items);
  free(nodes.items);
  free(out.items);
  return status;
}

/* Adds the node's graphs to its attributes. */
static ort_status *add_bodies(translation *one, const ort_node *node,
                              node_call *call) {
  graph_list graphs;
  TRY(node_graphs(node, &graphs));
  if (!graphs.count) return NULL;
  call->bodies = calloc(graphs.count, sizeof *call->bodies);
  if (!call->bodies) return no_memory();
  for (size_t i = 0; i < graphs.count; i++) {
    translation *body = &call->bodies[call->body_count++];
    *body = (translation){.outer = one,
                          .imports = one->imports,
                          .context = one->context,
                          .question = one->question,
                          .sizes = one->sizes};
    TRY_KEEL(keel_builder_body(one->builder, graphs.names[i], &body->builder));
    TRY(translate_graph(body, graphs.items[i], NULL));
    call->attrs.list[call->attrs.count++] =
        (keel_attr)KEEL_BODY(graphs.names[i], body->builder);
  }
  return NULL;
}

static ort_status *translate_add_node(translation *one, const ort_node *node,
                                      node_call *call) {
  const char *domain = NULL, *name = NULL;
  size_t out_count = 0;
  TRY(translate_read_op(node, call, &domain));
  TRY(ort->Node_GetName(node, &name));
  TRY(node_inputs(node, &call->in));
  TRY(node_outputs(node, &call->out));
  TRY(attributes_read(one->context, node, &call->attrs));
  TRY(add_bodies(one, node, call));
  call->values =
      calloc(call->in.count + call->out.count + 1, sizeof *call->values);
  if (!call->values) return no_memory();
  for (size_t i = 0; i < call->in.count; i++)
    TRY(find_value(one, call->in.items[i], &call->values[i]));
  TRY(translate_wanted(&call->out, &out_count));
  TRY(set_opset(one, node, domain));
  TRY_KEEL(keel_builder_node_name(one->builder, name));
  keel_value *made = call->values + call->in.count;
  TRY_KEEL(keel_builder_op_n(
      one->builder, call->op, call->attrs.list, call->attrs.count, call->values,
      (uint32_t)call->in.count, made, (uint32_t)out_count));
  return remember_outputs(one, &call->out, out_count, made);
}

ort_status *translate_node(translation *one, const ort_node *node) {
  node_call call = {0};
  ort_status *status = translate_add_node(one, node, &call);
  call_free(&call);
  return status;
}
