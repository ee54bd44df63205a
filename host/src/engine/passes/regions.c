/* regions.c - shows devices' own compilers the nodes that are to run on them, and makes one op of
 * each part that they claim and compile. */
#include <kd/help.h>

#include "device/context.h"
#include "device/device.h"
#include "device/lost.h"
#include "eager/call_site.h"
#include "passes/passes.h"
#include "program/graph.h"
#include "program/region.h"

#define HIDDEN 0u /* owners: dead; shown; the first claim */
#define SHOWN  1u
#define CLAIM  2u
#define NOBODY UINT32_MAX

/* Nodes that may be walked over, in all, to find out whether claims can be taken: so many
 * for each node of the function. More can be needed only where many claims span far. */
#define WALKED_MOST 64u

/* The first and the last node of a claim, and how many there are. */
typedef struct span {
  uint32_t first, last, count;
  uint64_t time; /* that it should take, nanoseconds; 0: not known */
  bool open;     /* KD_PART_ANY_SHAPE */
} span;

typedef struct regions {
  keel_function *function;
  keel_device *device;
  const keel_pass_call *call; /* NULL: nothing is compiled */
  bool open_only;             /* parts that are not for all sizes are left */
  struct kd_graph *graph;     /* the graph that is shown */
  uint32_t *owner;            /* by node */
  uint32_t *next; /* by node of a claim: another of it, in a circle */
  span *claims;   /* that were taken */
  uint32_t claim_count;
  uint8_t *claimable; /* by node */
  uint8_t *told;      /* by value: see tells_outputs */
  keel_readers readers;
  /* by node: the next that touches resources, or KEEL_ABSENT */
  uint32_t *after;
  /* by node: itself, or, inside of a claim's span but for its last, one that follows */
  uint32_t *beyond;
  uint32_t *root; /* by node of a claim: another that it is connected with */
  /* a walk: the nodes met in each one, and the nodes to visit */
  uint32_t *met, walk;
  uint32_t *stack, depth;
  uint64_t walked; /* nodes, in all walks */
} regions;

/* ---- claimable nodes ------------------------------------------------------------- */

/* Whether a value is a tensor in device memory for sure: no sequence, optional, resource,
 * nor strings. */
static bool is_data(const keel_function *function, uint32_t value) {
  const keel_value_info *info = &function->values[value];
  const keel_type *type = info->type ? info->type : info->open;
  if (type) return type->dtype != KD_STRING;
  if (info->producer != KEEL_ABSENT) {
    const keel_node *maker = &function->nodes[info->producer];
    for (uint32_t i = 0; i < maker->output_count; i++) {
      const keel_param *param = keel_schema_output(maker->op->schema, i);
      if (maker->outputs[i] == value)
        return param && param->types && !(param->types & KD_TYPES(KD_STRING));
    }
    return false;
  }
  for (uint32_t i = 0; i < function->input_count; i++)
    if (function->inputs[i] == value) {
      const keel_port *port = &function->input_ports[i];
      return keel_port_is_tensor(port) && port->dtype != KD_NONE &&
             port->dtype != KD_STRING;
    }
  return false;
}

static bool are_data(const keel_function *function, const uint32_t *values,
                     uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (values[i] != KEEL_ABSENT && !is_data(function, values[i])) return false;
  return true;
}

/* Regions take rows and give rows. */
static bool touches_layouts(const keel_function *function,
                            const keel_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t value = node->inputs[i];
    uint32_t maker =
        value == KEEL_ABSENT ? KEEL_ABSENT : function->values[value].producer;
    if (maker != KEEL_ABSENT && function->nodes[maker].output_layout)
      return true;
  }
  return node->output_layout != KD_LAYOUT_ROW_MAJOR;
}

static bool is_claimable(const regions *all, const keel_node *node,
                         keel_device *device) {
  const keel_function *function = all->function;
  return !node->region &&
         (node->device ? node->device : device) == all->device &&
         !keel_node_is_random(function, node) &&
         !keel_node_has(node, KEEL_OP_RANDOM | KEEL_OP_STATE) &&
         are_data(function, node->inputs, node->input_count) &&
         are_data(function, node->outputs, node->output_count) &&
         !touches_layouts(function, node);
}

/* ---- dependencies of nodes ------------------------------------------------------- */

/* Nodes that touch resources stay in their order. */
static void chain_effects(regions *all) {
  uint32_t later = KEEL_ABSENT;
  for (uint32_t i = all->function->node_count; i-- > 0;) {
    const keel_node *node = &all->function->nodes[i];
    all->after[i] = KEEL_ABSENT;
    if (node->dead || !keel_node_has_effects(node)) continue;
    all->after[i] = later;
    later = i;
  }
}

static keel_status regions_look(regions *all, keel_device *device) {
  const keel_function *function = all->function;
  size_t n = (size_t)function->node_count + 1;
  /* with room for the nodes that come */
  all->owner = calloc(2 * n, sizeof *all->owner);
  uint32_t **const arrays[] = {&all->after, &all->next, &all->beyond,
                               &all->root,  &all->met,  &all->stack};
  bool whole = all->owner != NULL;
  for (size_t i = 0; i < KEEL_COUNT_OF(arrays); i++)
    whole = (*arrays[i] = calloc(n, sizeof **arrays[i])) && whole;
  all->claims = calloc(n, sizeof *all->claims);
  all->claimable = calloc(n, sizeof *all->claimable);
  all->told = calloc((size_t)function->value_count + 1, sizeof *all->told);
  if (!whole || !all->claims || !all->claimable || !all->told)
    return keel_no_memory(n * sizeof *all->owner);
  for (uint32_t i = 0; i < n; i++)
    all->beyond[i] = i;
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_node *node = &function->nodes[i];
    all->owner[i] = node->dead ? HIDDEN : SHOWN;
    all->claimable[i] = !node->dead && is_claimable(all, node, device);
  }
  chain_effects(all);
  return keel_readers_make(function, &all->readers);
}

static void regions_drop(regions *all) {
  keel_graph_drop(all->graph);
  free(all->owner);
  free(all->after);
  free(all->next);
  free(all->claims);
  free(all->claimable);
  free(all->told);
  free(all->beyond);
  free(all->root);
  free(all->met);
  free(all->stack);
  keel_readers_drop(&all->readers);
}

/* ---- claims ---------------------------------------------------------------------- */

static void begin_walk(regions *all) {
  all->walk++;
  all->depth = 0;
}

static void regions_meet(regions *all, uint32_t node) {
  if (node == KEEL_ABSENT || all->met[node] == all->walk) return;
  all->met[node] = all->walk;
  all->walked++;
  all->stack[all->depth++] = node;
}

static void meet_readers(regions *all, uint32_t value, uint32_t but) {
  for (uint32_t i = all->readers.first[value];
       i < all->readers.first[value + 1]; i++)
    if (all->owner[all->readers.list[i]] != but)
      regions_meet(all, all->readers.list[i]);
}

/* Those that come behind a node at once, but for those of an owner. */
static void meet_next(regions *all, uint32_t node, uint32_t but) {
  const keel_node *at = &all->function->nodes[node];
  for (uint32_t k = 0; k < at->output_count; k++)
    if (at->outputs[k] != KEEL_ABSENT) meet_readers(all, at->outputs[k], but);
  regions_meet(all, all->after[node]);
}

/* The node that stands for all that is connected with this one (union-find). */
static uint32_t root_of(const regions *all, uint32_t node) {
  while (all->root[node] != node) {
    all->root[node] = all->root[all->root[node]];
    node = all->root[node];
  }
  return node;
}

/* Whether two were not connected yet. */
static bool regions_join(const regions *all, uint32_t a, uint32_t b) {
  uint32_t x = root_of(all, a), y = root_of(all, b);
  all->root[x] = y;
  return x != y;
}

/* A node of a claim that is not connected with the first one by values, or KEEL_ABSENT: all are
 * connected. */
static uint32_t find_apart(regions *all, const span *claim) {
  uint32_t id = all->owner[claim->first], parts = claim->count;
  uint32_t at = claim->first;
  do
    all->root[at] = at;
  while ((at = all->next[at]) != claim->first);
  all->readers.walk++;
  do {
    const keel_node *node = &all->function->nodes[at];
    uint32_t n = node->input_count, m = node->output_count;
    for (uint32_t k = 0; k < n + m; k++) {
      uint32_t value = k < n ? node->inputs[k] : node->outputs[k - n];
      if (value == KEEL_ABSENT || all->function->values[value].constant)
        continue;
      if (!keel_readers_visit(&all->readers, value, at))
        parts -= regions_join(all, at, all->readers.by[value]);
    }
    uint32_t after = all->after[at];
    if (after != KEEL_ABSENT && all->owner[after] == id)
      parts -= regions_join(all, at, after);
  } while ((at = all->next[at]) != claim->first);
  if (parts == 1) return KEEL_ABSENT;
  while (root_of(all, at) == root_of(all, claim->first))
    at = all->next[at];
  return at;
}

/* No node behind this one has a way back to a claim that ends with `last`: edges lead
 * onwards but inside of claims, each of which will be one op. */
static uint32_t last_to_look_at(const regions *all, uint32_t last) {
  while (all->beyond[last] != last) {
    all->beyond[last] = all->beyond[all->beyond[last]];
    last = all->beyond[last];
  }
  return last;
}

static void note_span(const regions *all, const span *claim) {
  uint32_t at = last_to_look_at(all, claim->first);
  for (; at < claim->last; at = last_to_look_at(all, at))
    all->beyond[at] = at + 1;
}

/* The node where a path that has left the claim enters it again, or KEEL_ABSENT. *out_lost: it
 * would take too long to tell beyond the node. */
static uint32_t find_way_back(regions *all, const span *claim, bool *out_lost) {
  uint32_t id = all->owner[claim->first], at = claim->first;
  uint32_t end = last_to_look_at(all, claim->last);
  uint64_t most = WALKED_MOST * ((uint64_t)all->function->node_count + 1);
  *out_lost = false;
  begin_walk(all);
  do {
    meet_next(all, at, id);
    at = all->next[at];
  } while (at != claim->first);
  while (all->depth) {
    at = all->stack[--all->depth];
    if (all->owner[at] == id) return at;
    if (at > end) continue;
    *out_lost = all->walked > most;
    if (*out_lost) return at;
    meet_next(all, at, NOBODY);
    if (all->owner[at] >= CLAIM) regions_meet(all, all->next[at]);
  }
  return KEEL_ABSENT;
}

static keel_status refuse_node(const regions *all, uint32_t node) {
  if (node == KEEL_ABSENT)
    return keel_fail(KD_INVALID_ARGUMENT, "the graph has %u nodes",
                     (unsigned)all->graph->node_count);
  const keel_node *at = &all->function->nodes[node];
  return keel_fail(KD_INVALID_ARGUMENT,
                   all->claimable[node]
                       ? "%s \"%s\" is claimed twice"
                       : "%s \"%s\" is shown, and can't be claimed",
                   at->op->schema->name, at->name);
}

/* Makes the nodes of the graph one claim's, or, where one of them can't be, none. */
static keel_status take_nodes(regions *all, const uint32_t *nodes,
                              uint32_t count, uint32_t id, span *out_span) {
  *out_span = (span){.first = KEEL_ABSENT, .count = count};
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = nodes[i] < all->graph->node_count
                      ? all->graph->members[nodes[i]]
                      : KEEL_ABSENT;
    if (at == KEEL_ABSENT || all->owner[at] != SHOWN || !all->claimable[at]) {
      for (; i > 0; i--)
        all->owner[all->graph->members[nodes[i - 1]]] = SHOWN;
      return refuse_node(all, at);
    }
    all->owner[at] = id;
    all->next[at] = at;
    if (i) { /* into the circle */
      uint32_t before = all->graph->members[nodes[0]];
      all->next[at] = all->next[before];
      all->next[before] = at;
    }
    if (at < out_span->first) out_span->first = at;
    if (at > out_span->last) out_span->last = at;
  }
  return KD_OK;
}

#define TOLD_TYPE  1u /* from the types of inputs */
#define TOLD_VALUE 2u /* its elements too, as Shape's are */

/* The facts of a value that are known before the region runs. */
static uint8_t told(const regions *all, uint32_t value, uint32_t id) {
  const keel_value_info *info = &all->function->values[value];
  if (info->constant) return TOLD_TYPE | TOLD_VALUE;
  bool inside =
      info->producer != KEEL_ABSENT && all->owner[info->producer] == id;
  uint8_t known = info->type && keel_type_known(info->type) ? TOLD_TYPE : 0;
  return inside ? known | all->told[value] : TOLD_TYPE;
}

/* As constant folding does it when types have come (fold.c). */
static uint8_t regions_tell(const regions *all, const keel_node *node,
                            uint32_t id) {
  const keel_schema *schema = node->op->schema;
  uint8_t all_of = TOLD_TYPE | TOLD_VALUE;
  if (schema->flags & (KEEL_OP_DYNAMIC | KEEL_OP_CONTROL)) return 0;
  for (uint32_t i = 0; i < node->input_count; i++) {
    if (node->inputs[i] == KEEL_ABSENT) continue;
    uint8_t known = told(all, node->inputs[i], id);
    bool wanted = i < 32 && (schema->value_inputs >> i & 1);
    if (wanted && !(known & TOLD_VALUE)) return 0;
    all_of &= known;
  }
  bool of_type = schema->kind == KEEL_FACT;
  if (of_type && (all_of & TOLD_TYPE)) all_of |= TOLD_VALUE;
  return all_of & TOLD_TYPE ? all_of : 0;
}

/* Whether the host can allocate a claim's outputs, once the types of its inputs are known. */
static keel_status tells_outputs(const regions *all, const span *claim,
                                 uint32_t id) {
  const keel_function *function = all->function;
  for (uint32_t i = claim->first; i <= claim->last; i++) {
    const keel_node *node = &function->nodes[i];
    if (all->owner[i] != id) continue;
    uint8_t known = regions_tell(all, node, id);
    for (uint32_t k = 0; k < node->output_count; k++) {
      uint32_t value = node->outputs[k];
      if (value == KEEL_ABSENT) continue;
      all->told[value] = known;
      if ((told(all, value, id) & TOLD_TYPE) ||
          !keel_readers_need(&all->readers, all->owner, id, value))
        continue;
      return keel_fail(
          KD_UNIMPLEMENTED,
          "the shape of an output of %s \"%s\" is not known before it"
          " runs, and something outside the claim reads it",
          node->op->schema->name, node->name);
    }
  }
  return KD_OK;
}

/* Whether a claim is connected, and no path leaves it and enters it again. */
static keel_status check_paths(regions *all, const span *claim) {
  bool lost = false;
  uint32_t node = find_apart(all, claim);
  bool apart = node != KEEL_ABSENT;
  if (!apart) node = find_way_back(all, claim, &lost);
  if (node == KEEL_ABSENT) return KD_OK;
  const keel_node *at = &all->function->nodes[node];
  return keel_fail(
      lost ? KD_FAILED_PRECONDITION : KD_INVALID_ARGUMENT,
      apart  ? "the nodes are not connected: %s \"%s\" shares no value with the"
               " first"
      : lost ? "the claims of this graph span too many nodes to check this one"
               " beyond %s \"%s\""
             : "a path leaves the claim and enters it again at %s \"%s\"",
      at->op->schema->name, at->name);
}

static keel_status take_part(regions *all, const kd_part *part) {
  uint32_t id = CLAIM + all->claim_count, count = part->node_count;
  const uint32_t *nodes = part->nodes;
  span claim;
  if (part->flags & ~KD_HINTS)
    return keel_fail(KD_UNIMPLEMENTED,
                     "a claim has flags 0x%x, which this host does not know",
                     (unsigned)part->flags);
  if (!count || !nodes)
    return keel_fail(KD_INVALID_ARGUMENT, "a claim without nodes");
  if (count > all->graph->node_count) /* each is claimed once */
    return keel_fail(KD_INVALID_ARGUMENT,
                     "a claim of %u nodes, and the graph has %u",
                     (unsigned)count, (unsigned)all->graph->node_count);
  KEEL_TRY(take_nodes(all, nodes, count, id, &claim));
  keel_status status = check_paths(all, &claim);
  if (status == KD_OK) status = tells_outputs(all, &claim, id);
  if (status == KD_OK) {
    if (part->cost && KD_HAS(part->cost, time)) claim.time = part->cost->time;
    claim.open = part->flags & KD_PART_ANY_SHAPE;
    all->claims[all->claim_count++] = claim;
    note_span(all, &claim);
  } else {
    for (uint32_t i = 0; i < count; i++)
      all->owner[all->graph->members[nodes[i]]] = SHOWN;
  }
  return status;
}

/* A plugin that goes on does not say why it was refused. */
static kd_status regions_take(void *context, const kd_part *part) {
  regions *all = context;
  keel_status status = take_part(all, part);
  if (status != KD_OK)
    keel_log_line(&all->device->context->log, KD_LOG_DEBUG,
                  "a claim of %s is refused: %s", all->device->name,
                  keel_message());
  return status;
}

static keel_status regions_ask(regions *all) {
  keel_clear_error();
  kd_status status = all->device->plugin->regions.claim(
      all->device->handle, all->graph, regions_take, all);
  if (status == KD_OK) return KD_OK;
  if (!keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  return keel_while(status, "while %s looked for regions", all->device->name);
}

/* ---- one op for each ---------------------------------------------------------------- */

/* keel::Region with the names of its nodes. */
static keel_status regions_make_op(const struct kd_graph *graph,
                                   keel_opdef **out_op) {
  const char **names = calloc(graph->node_count + 1, sizeof *names);
  if (!names) return keel_no_memory(graph->node_count * sizeof *names);
  for (uint32_t i = 0; i < graph->node_count; i++)
    names[i] = graph->nodes[i].op->schema->name;
  const keel_attr ops = {.name = "ops",
                         .kind = KD_ATTR_STRINGS,
                         .count = graph->node_count,
                         .strings = names};
  keel_status status = keel_opdef_create(graph->function->context,
                                         keel_schema_find("keel", "Region"),
                                         &ops, 1, NULL, out_op);
  free(names);
  if (status == KD_OK) (*out_op)->shareable = false;
  return status;
}

/* "MatMul+Add+Relu act1": its ops, and the last one's name, where it has one. */
static void name_region(const struct kd_graph *part, char *text, size_t size) {
  enum { SHOWN_OPS = 6 };
  const char *last = part->nodes[part->node_count - 1].name;
  size_t at = 0;
  for (uint32_t i = 0; i < part->node_count && at < size; i++) {
    bool more = i == SHOWN_OPS - 1 && part->node_count > SHOWN_OPS;
    const char *op = part->nodes[i].op->schema->name;
    at += (size_t)(more ? snprintf(text + at, size - at, "+%u more",
                                   part->node_count - i)
                        : snprintf(text + at, size - at, "%s%s", i ? "+" : "",
                                   op));
    if (more) break;
  }
  if (*last && at < size) snprintf(text + at, size - at, " %s", last);
}

static keel_status regions_replace(regions *all, const struct kd_graph *part,
                                   keel_region *region) {
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  char name[256];
  keel_status status = regions_make_op(part, &op);
  name_region(part, name, sizeof name);
  if (status == KD_OK)
    status = keel_function_node(all->function, op, name, part->inputs,
                                part->input_count, part->outputs,
                                part->output_count, &node);
  if (status != KD_OK) {
    keel_region_release(region);
    return status;
  }
  node->region = region;
  node->device = all->device;
  for (uint32_t i = 0; i < part->node_count; i++)
    all->function->nodes[part->members[i]].dead = true;
  return KD_OK;
}

static int ascending(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return x < y ? -1 : x > y;
}

/* The nodes of a claim, in order, into all->stack; how many. */
static uint32_t list_nodes(regions *all, const span *claim) {
  uint32_t count = 0, at = claim->first;
  do
    all->stack[count++] = at;
  while ((at = all->next[at]) != claim->first);
  qsort(all->stack, count, sizeof *all->stack, ascending);
  return count;
}

/* The types of a region's outputs in a launch: those of the part when its shapes are known and
 * constants are folded. */
static keel_status infer_outputs(const keel_region *region,
                                 const keel_type *const *in,
                                 const keel_type **out) {
  const keel_pass_call call = {0};
  keel_arena arena = {0};
  keel_function *functions = NULL, *part = NULL;
  keel_status status =
      keel_function_clone(region->shapes, &arena, &functions, &part);
  for (uint32_t i = 0; status == KD_OK && i < region->input_count; i++)
    if (region->fed[i] != KEEL_ABSENT)
      part->values[region->fed[i]].type = in[i];
  if (status == KD_OK) status = keel_pass_fold(functions, &call);
  for (uint32_t i = 0; status == KD_OK && i < region->output_count; i++) {
    out[i] = part->values[part->outputs[i]].type;
    if (!out[i] || !keel_type_known(out[i]))
      status = keel_fail(
          KD_UNIMPLEMENTED,
          "the type of output %u of a region on %s is not known before"
          " it runs; without the pass \"regions\" its ops run one by"
          " one",
          (unsigned)i, region->device->name);
  }
  keel_functions_release(functions);
  keel_arena_free(&arena);
  return status;
}

static keel_status compile_claim(regions *all, const span *claim) {
  struct kd_graph part;
  keel_region *region = NULL;
  uint32_t *members = all->stack, count = list_nodes(all, claim);
  keel_status status = keel_graph_part(all->function, &all->readers, all->owner,
                                       members, count, &part);
  if (status == KD_OK && part.output_count)
    status = keel_region_compile(all->device, &part, infer_outputs,
                                 all->call->forms, all->call->takes, &region);
  if (region) status = regions_replace(all, &part, region);
  keel_graph_drop(&part);
  return status;
}

/* All live nodes, on any device. */
static keel_status show(regions *all) {
  uint32_t *members = all->stack, count = 0;
  for (uint32_t i = 0; i < all->function->node_count; i++)
    if (all->owner[i] == SHOWN) members[count++] = i;
  KEEL_TRY(keel_graph_part(all->function, &all->readers, all->owner, members,
                           count, all->graph));
  all->graph->claimable = all->claimable;
  return KD_OK;
}

/* The device's claims among nodes that are placed nowhere else; `device` has those that name
 * none. */
static keel_status claims_of(regions *all, keel_device *device) {
  KEEL_TRY(regions_look(all, device));
  if (!memchr(all->claimable, 1, all->function->node_count)) return KD_OK;
  KEEL_TRY(show(all));
  KEEL_TRY(keel_device_ready(all->device));
  KEEL_TRY(keel_device_enter(all->device));
  keel_status asked = regions_ask(all);
  keel_lost_leave(all->device);
  return asked;
}

static bool is_compiled(const regions *all, const span *claim) {
  return claim->open || !all->open_only;
}

/* Without a form to be had there is nothing that could be made ahead. */
static bool only_counts(const regions *all) {
  return all->call->takes && !all->device->plugin->regions.serialize;
}

static keel_status regions_run(regions *all) {
  KEEL_TRY(claims_of(all, all->call->device));
  if (only_counts(all)) {
    for (uint32_t i = 0; i < all->claim_count; i++)
      all->call->takes->bare += is_compiled(all, &all->claims[i]);
    return KD_OK;
  }
  for (uint32_t i = 0; i < all->claim_count; i++) {
    if (!is_compiled(all, &all->claims[i])) continue;
    const keel_node *first = &all->function->nodes[all->claims[i].first];
    KEEL_TRY(
        keel_cancellation_check_planning(first->op->schema->name, first->name));
    KEEL_TRY(compile_claim(all, &all->claims[i]));
  }
  return all->claim_count ? keel_function_sort(all->function) : KD_OK;
}

keel_status keel_regions_offer(keel_function *function, keel_device *device,
                               keel_region_offer offer, void *context) {
  struct kd_graph graph = {0};
  regions all = {.function = function, .device = device, .graph = &graph};
  keel_status status = claims_of(&all, device);
  for (uint32_t i = 0; i < all.claim_count && status == KD_OK; i++) {
    uint32_t count = list_nodes(&all, &all.claims[i]);
    offer(context, all.stack, count, all.claims[i].time);
  }
  regions_drop(&all);
  return status;
}

static keel_status find_regions(keel_function *function,
                                const keel_pass_call *call, bool open_only) {
  keel_context *context = function->context;
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < context->device_count && status == KD_OK; i++) {
    struct kd_graph graph = {0};
    regions all = {.function = function,
                   .device = keel_devices(context)[i],
                   .call = call,
                   .open_only = open_only,
                   .graph = &graph};
    if (!all.device->plugin->regions.claim) continue;
    status = regions_run(&all);
    regions_drop(&all);
  }
  return status;
}

/* A function, then the functions nested in the remaining nodes: a claim of a node includes its
 * graphs. */
static keel_status find_all(keel_function *function,
                            const keel_pass_call *call) {
  KEEL_TRY(find_regions(function, call, false));
  for (uint32_t i = 0; i < function->node_count; i++) {
    const keel_opdef *op = function->nodes[i].op;
    for (uint32_t k = 0; !function->nodes[i].dead && k < op->attr_count; k++)
      if (op->attrs[k].graph) KEEL_TRY(find_all(op->attrs[k].graph, call));
  }
  return KD_OK;
}

static keel_function *main_of(keel_function *functions,
                              const keel_pass_call *call) {
  while (functions && functions != call->main)
    functions = functions->next;
  return functions;
}

keel_status keel_pass_regions(keel_function *functions,
                              const keel_pass_call *call) {
  keel_function *main = main_of(functions, call);
  return main ? find_all(main, call) : KD_OK;
}

bool keel_any_compiler(const keel_context *context) {
  for (uint32_t i = 0; i < context->device_count; i++)
    if (keel_devices(context)[i]->plugin->regions.claim) return true;
  return false;
}

keel_status keel_pass_open_regions(keel_function *functions,
                                   const keel_pass_call *call) {
  keel_function *main = main_of(functions, call);
  if (!main || !keel_any_compiler(main->context)) return KD_OK;
  KEEL_TRY(keel_function_open_types(main));
  return find_regions(main, call, true);
}
