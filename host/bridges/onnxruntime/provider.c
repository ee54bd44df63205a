/* provider.c - the provider of one session: what it claims, what it compiles. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

typedef struct provider {
  ort_ep base;
  ort_ep_factory *maker;
  runtime *held;
  target to;
  options given;
  char *compatible; /* what compiled models depend on */
} provider;

static const char *get_name(const ort_ep *base) {
  (void)base;
  return PROVIDER_NAME;
}

/* ---- claims -------------------------------------------------------------------- */

/* What a graph's nodes are to the provider. */
typedef struct claims {
  opsets imports;
  node_list nodes;
  bool *claimed;
  bool *compiled; /* Keel's of a compiled model: each is a partition */
  uint32_t *group;
  name_map makers; /* a value's name to its node's index */
  partition_edge *edges;
  size_t edge_count, edge_capacity;
} claims;

static void claims_free(claims *one) {
  opsets_free(&one->imports);
  free(one->nodes.items);
  free(one->claimed);
  free(one->compiled);
  free(one->group);
  free(one->edges);
  name_free(&one->makers);
}

static ort_status *note_outputs(claims *one, uint32_t node) {
  value_list out;
  TRY(node_outputs(one->nodes.items[node], &out));
  ort_status *status = NULL;
  for (size_t i = 0; i < out.count && !status; i++) {
    const char *name = NULL;
    status = value_name(out.items[i], &name);
    if (status || !*name) continue;
    name_entry *entry = name_add(&one->makers, name);
    if (entry)
      entry->number = node;
    else
      status = no_memory();
  }
  free(out.items);
  return status;
}

static ort_status *add_edge(claims *one, const ort_value_info *value,
                            uint32_t reader) {
  const char *name = NULL;
  TRY(value_name(value, &name));
  name_entry *maker = *name ? name_find(&one->makers, name) : NULL;
  if (!maker) return NULL;
  if (one->edge_count == one->edge_capacity) {
    size_t capacity = one->edge_capacity * 2 + 64;
    partition_edge *edges = realloc(one->edges, capacity * sizeof *edges);
    if (!edges) return no_memory();
    one->edges = edges;
    one->edge_capacity = capacity;
  }
  one->edges[one->edge_count++] = (partition_edge){maker->number, reader};
  return NULL;
}

static ort_status *note_inputs(claims *one, uint32_t node,
                               ort_status *(*list)(const ort_node *node,
                                                   value_list *out)) {
  value_list in;
  TRY(list(one->nodes.items[node], &in));
  ort_status *status = NULL;
  for (size_t i = 0; i < in.count && !status; i++)
    status = add_edge(one, in.items[i], node);
  free(in.items);
  return status;
}

/* A node that a provider has, this one or one before it, is not to be had. */
static ort_status *provider_claim(provider *self, claims *one, uint32_t node) {
  const char *owner = NULL;
  TRY(ort->Node_GetEpName(one->nodes.items[node], &owner));
  if (owner && *owner) return NULL;
  TRY(context_is_ours(one->nodes.items[node], &one->compiled[node]));
  if (one->compiled[node]) return NULL;
  one->claimed[node] =
      target_takes(&self->to, &one->imports, one->nodes.items[node]);
  return NULL;
}

static ort_status *read_graph(provider *self, const ort_graph *graph,
                              claims *out) {
  TRY(graph_nodes(graph, &out->nodes));
  uint32_t count = (uint32_t)out->nodes.count;
  out->claimed = calloc(out->nodes.count + 1, sizeof *out->claimed);
  out->compiled = calloc(out->nodes.count + 1, sizeof *out->compiled);
  out->group = calloc(out->nodes.count + 1, sizeof *out->group);
  if (!out->claimed || !out->compiled || !out->group) return no_memory();
  for (uint32_t i = 0; i < count; i++) {
    TRY(provider_claim(self, out, i));
    TRY(note_outputs(out, i));
  }
  for (uint32_t i = 0; i < count; i++) {
    TRY(note_inputs(out, i, node_inputs));
    TRY(note_inputs(out, i, node_captures));
  }
  return NULL;
}

static ort_status *give_group(const claims *one, uint32_t group,
                              const ort_node **scratch, ort_support *support) {
  static const ort_fusion_options options = {
      .ort_version_supported = ORT_VERSION_USED,
      .drop_constant_initializers = true};
  size_t count = 0;
  for (size_t i = 0; i < one->nodes.count; i++)
    if (one->group[i] == group) scratch[count++] = one->nodes.items[i];
  return ort_ep_functions->EpGraphSupportInfo_AddNodesToFuse(support, scratch,
                                                             count, &options);
}

/* Its inputs are those of its program, even if one has become a constant. */
static ort_status *give_compiled(const ort_node *node, ort_support *support) {
  static const ort_fusion_options options = {.ort_version_supported =
                                                 ORT_VERSION_USED};
  return ort_ep_functions->EpGraphSupportInfo_AddNodesToFuse(support, &node, 1,
                                                             &options);
}

static ort_status *give_groups(provider *self, const claims *one,
                               ort_support *support) {
  size_t nodes = one->nodes.count, claimed = 0, compiled = 0;
  uint32_t groups = partition((uint32_t)nodes, one->claimed, one->edges,
                              one->edge_count, one->group);
  if (groups == NO_GROUP) return no_memory();
  const ort_node **scratch = calloc(nodes + 1, sizeof *scratch);
  if (!scratch) return no_memory();
  ort_status *status = NULL;
  for (uint32_t i = 0; i < groups && !status; i++)
    status = give_group(one, i, scratch, support);
  free(scratch);
  for (size_t i = 0; i < nodes && !status; i++) {
    claimed += one->claimed[i];
    if (!one->compiled[i]) continue;
    compiled++;
    status = give_compiled(one->nodes.items[i], support);
  }
  log_line(self->to.logger, ORT_LOGGING_LEVEL_INFO,
           "%s takes %zu of %zu nodes, in %u partitions, and %zu compiled "
           "partitions",
           self->to.name, claimed, nodes, groups, compiled);
  return status;
}

/* Whether to leave a graph alone: the body of an op that the device takes with
 * its bodies, or of an op that ONNX Runtime will expand into others, after which
 * what was claimed in it would be lost; or any body, while a compiled model is
 * written, as ONNX Runtime writes compiled nodes of the main graph only. */
static ort_status *provider_leave(provider *self, const opsets *imports,
                                  const ort_graph *graph, bool *out) {
  const ort_node *parent = NULL;
  const char *op = NULL, *domain = NULL;
  *out = false;
  TRY(ort->Graph_GetParentNode(graph, &parent));
  if (!parent) return NULL;
  if (self->given.context_write) {
    *out = true;
    return NULL;
  }
  TRY(ort->Node_GetOperatorType(parent, &op));
  TRY(ort->Node_GetDomain(parent, &domain));
  bool flow = !*domain &&
              (!strcmp(op, "If") || !strcmp(op, "Loop") || !strcmp(op, "Scan"));
  *out = !flow || target_takes(&self->to, imports, parent);
  return NULL;
}

static ort_status *get_capability(ort_ep *base, const ort_graph *graph,
                                  ort_support *support) {
  provider *self = (provider *)base;
  claims one = {0};
  bool left = false;
  ort_status *status = opsets_read(graph, &one.imports);
  if (!status) status = provider_leave(self, &one.imports, graph, &left);
  if (!status && !left) status = read_graph(self, graph, &one);
  if (!status && !left) status = give_groups(self, &one, support);
  claims_free(&one);
  return status;
}

/* ---- compiling ------------------------------------------------------------------- */

static void release_infos(ort_ep *base, ort_compute_info **infos,
                          size_t count) {
  (void)base;
  for (size_t i = 0; i < count; i++)
    compute_destroy(infos[i]);
}

static ort_status *provider_compile(ort_ep *base, const ort_graph **graphs,
                                    const ort_node **fused, size_t count,
                                    ort_compute_info **out,
                                    ort_node **out_contexts) {
  provider *self = (provider *)base;
  for (size_t i = 0; i < count; i++) {
    ort_status *status = compile_partition(&self->given, &self->to, graphs[i],
                                           fused[i], &out[i], &out_contexts[i]);
    if (!status) continue;
    release_infos(base, out, i);
    memset(out, 0, count * sizeof(ort_compute_info *));
    return status;
  }
  return NULL;
}

/* ---- its life -------------------------------------------------------------------- */

static ort_status *provider_begin(provider *self, const options *given,
                                  const char *device) {
  TRY_KEEL(keel_device_find(self->held->context, device, &self->to.device));
  keel_device_facts facts;
  keel_device_describe(self->to.device, &facts);
  self->to.name = facts.name;
  TRY(compatible_text(self->to.device, &self->compatible));
  if (given->trace) TRY_KEEL(keel_trace_start(self->held->context));
  return NULL;
}

/* ---- runs of the session --------------------------------------------------------- */

static ort_status *on_run_start(ort_ep *base, const ort_run_options *given) {
  terminate_run_begins(&((provider *)base)->to, given);
  return NULL;
}

static ort_status *on_run_end(ort_ep *base, const ort_run_options *given,
                              bool sync_stream) {
  (void)given;
  (void)sync_stream;
  terminate_run_ends(&((provider *)base)->to);
  return NULL;
}

/* ---- memory ---------------------------------------------------------------------- */

static ort_status *create_allocator(ort_ep *base, const ort_memory_info *info,
                                    ort_allocator **out) {
  provider *self = (provider *)base;
  TRY(memory_create(self->held, self->to.device, info, out));
  factory_retain(self->maker);
  return NULL;
}

static ort_status *get_kernel_registry(ort_ep *base,
                                       const ort_kernel_registry **out) {
  *out = factory_kernels(((const provider *)base)->maker);
  return NULL;
}

/* ---- compiled models ------------------------------------------------------------- */

static const char *get_compatibility(ort_ep *base, const ort_graph *graph) {
  (void)graph;
  return ((const provider *)base)->compatible;
}

ort_status *provider_create(ort_ep_factory *maker, runtime *held,
                            options *given, const char *device,
                            const ort_logger *logger, ort_ep **out) {
  provider *self = calloc(1, sizeof *self);
  if (!self) return no_memory();
  self->base = (ort_ep){
      .ort_version_supported = ORT_VERSION_USED,
      .GetName = get_name,
      .GetCapability = get_capability,
      .Compile = provider_compile,
      .ReleaseNodeComputeInfos = release_infos,
      .OnRunStart = on_run_start,
      .OnRunEnd = on_run_end,
      .CreateAllocator = create_allocator,
      .GetKernelRegistry = get_kernel_registry,
      .GetCompiledModelCompatibilityInfo = get_compatibility,
  };
  self->maker = maker;
  self->held = held;
  self->to = (target){.held = held, .context = held->context, .logger = logger};
  ort_status *status = provider_begin(self, given, device);
  if (status) {
    free(self->compatible);
    free(self);
    return status;
  }
  self->given = *given;
  *given = (options){0};
  *out = &self->base;
  return NULL;
}

void provider_destroy(ort_ep *base) {
  provider *self = (provider *)base;
  if (!self) return;
  const char *trace = self->given.trace;
  if (trace && keel_trace_stop(self->held->context, trace) != KD_OK)
    log_line(self->to.logger, ORT_LOGGING_LEVEL_ERROR, "Keel: no trace: %s",
             keel_message());
  options_free(&self->given);
  runtime_release(self->held);
  free(self->compatible);
  free(self);
}
