/* regions.c - shows devices' own compilers what is to run on them, and makes one op of
 * each part that they claim and compile. */
#include "context.h"
#include "eager/site.h"
#include "passes/passes.h"
#include "program/graph.h"
#include "program/region.h"

#define HIDDEN 0u /* owners: not for this device; shown; the first claim */
#define SHOWN  1u
#define CLAIM  2u
#define NOBODY UINT32_MAX

/* The nodes that read a value: list[first[value]] up to list[first[value + 1]]. */
typedef struct readers {
  uint32_t *first, *list;
} readers;

/* The first and the last node of a claim. */
typedef struct span {
  uint32_t first, last;
} span;

typedef struct regions {
  keel_function *function;
  keel_device *device;
  struct kd_graph *graph; /* what is shown */
  uint32_t *owner;        /* by node */
  uint32_t *next;         /* by node of a claim: another of it, in a circle */
  span *claims;           /* that were taken */
  uint32_t claim_count;
  readers readers;
  uint32_t
      *after; /* by node: the next that touches resources, or KEEL_ABSENT */
  /* a walk: who was met in which one, and who is to be looked at */
  uint32_t *met, walk;
  uint32_t *stack, depth;
} regions;

/* ---- what is shown ------------------------------------------------------------- */

static bool is_known(const keel_function *function, const uint32_t *values,
                     uint32_t count) {
  for (uint32_t i = 0; i < count; i++) {
    const keel_type *type =
        values[i] == KEEL_ABSENT ? NULL : function->values[values[i]].type;
    if (values[i] != KEEL_ABSENT && (!type || !keel_type_known(type)))
      return false;
  }
  return true;
}

/* Regions take rows and give rows. */
static bool touches_blocks(const keel_function *function,
                           const keel_node *node) {
  for (uint32_t i = 0; i < node->input_count; i++) {
    uint32_t value = node->inputs[i];
    uint32_t maker =
        value == KEEL_ABSENT ? KEEL_ABSENT : function->values[value].producer;
    if (maker != KEEL_ABSENT && function->nodes[maker].blocked_output)
      return true;
  }
  return node->blocked_output;
}

static bool is_shown(const regions *all, const keel_node *node,
                     keel_device *device) {
  const keel_schema *schema = node->op->schema;
  return !node->dead && !node->region && !schema->host &&
         (node->device ? node->device : device) == all->device &&
         !(schema->flags & (KEEL_OP_RANDOM | KEEL_OP_DYNAMIC)) &&
         is_known(all->function, node->inputs, node->input_count) &&
         is_known(all->function, node->outputs, node->output_count) &&
         !touches_blocks(all->function, node);
}

/* ---- who needs whom -------------------------------------------------------------- */

static keel_status list_readers(regions *all) {
  const keel_function *function = all->function;
  size_t reads = 0, values = function->value_count;
  for (uint32_t i = 0; i < function->node_count; i++)
    reads += function->nodes[i].input_count;
  uint32_t *first = calloc(values + 3, sizeof *first);
  all->readers = (readers){first, calloc(reads + 1, sizeof *first)};
  if (!first || !all->readers.list)
    return keel_no_memory((values + reads) * sizeof *first);
  for (int fill = 0; fill < 2; fill++) {
    for (uint32_t i = 0; i < function->node_count; i++) {
      const keel_node *node = &function->nodes[i];
      for (uint32_t k = 0; !node->dead && k < node->input_count; k++) {
        uint32_t value = node->inputs[k];
        if (value == KEEL_ABSENT) continue;
        if (fill)
          all->readers.list[first[value + 1]++] = i;
        else
          first[value + 2]++;
      }
    }
    for (size_t v = 0; v < values && !fill; v++)
      first[v + 2] += first[v + 1];
  }
  return KD_OK;
}

/* Nodes that touch resources stay in their order. */
static void chain_effects(regions *all) {
  uint32_t later = KEEL_ABSENT;
  for (uint32_t i = all->function->node_count; i-- > 0;) {
    const keel_node *node = &all->function->nodes[i];
    all->after[i] = KEEL_ABSENT;
    if (node->dead || !keel_node_touches(node)) continue;
    all->after[i] = later;
    later = i;
  }
}

static keel_status look(regions *all, keel_device *device) {
  const keel_function *function = all->function;
  size_t n = (size_t)function->node_count + 1;
  /* with room for the nodes that come */
  all->owner = calloc(2 * n, sizeof *all->owner);
  all->after = calloc(n, sizeof *all->after);
  all->next = calloc(n, sizeof *all->next);
  all->claims = calloc(n, sizeof *all->claims);
  all->met = calloc(n, sizeof *all->met);
  all->stack = calloc(n, sizeof *all->stack);
  if (!all->owner || !all->after || !all->next || !all->claims || !all->met ||
      !all->stack)
    return keel_no_memory(n * sizeof *all->owner);
  for (uint32_t i = 0; i < function->node_count; i++)
    all->owner[i] = is_shown(all, &function->nodes[i], device) ? SHOWN : HIDDEN;
  chain_effects(all);
  return list_readers(all);
}

static void drop(regions *all) {
  keel_graph_drop(all->graph);
  free(all->owner);
  free(all->after);
  free(all->next);
  free(all->claims);
  free(all->met);
  free(all->stack);
  free(all->readers.first);
  free(all->readers.list);
}

/* ---- claims ---------------------------------------------------------------------- */

static void begin_walk(regions *all) {
  all->walk++;
  all->depth = 0;
}

static void meet(regions *all, uint32_t node) {
  if (node == KEEL_ABSENT || all->met[node] == all->walk) return;
  all->met[node] = all->walk;
  all->stack[all->depth++] = node;
}

static void meet_readers(regions *all, uint32_t value, uint32_t but) {
  for (uint32_t i = all->readers.first[value];
       i < all->readers.first[value + 1]; i++)
    if (all->owner[all->readers.list[i]] != but)
      meet(all, all->readers.list[i]);
}

/* Those that come behind a node at once, but for those of an owner. */
static void meet_next(regions *all, uint32_t node, uint32_t but) {
  const keel_node *at = &all->function->nodes[node];
  for (uint32_t k = 0; k < at->output_count; k++)
    if (at->outputs[k] != KEEL_ABSENT) meet_readers(all, at->outputs[k], but);
  meet(all, all->after[node]);
}

/* How many of a claim hang together with one of it, by values that they share. */
static uint32_t count_connected(regions *all, uint32_t from) {
  const keel_function *function = all->function;
  uint32_t count = 0, id = all->owner[from];
  begin_walk(all);
  meet(all, from);
  while (all->depth) {
    uint32_t at = all->stack[--all->depth];
    const keel_node *node = &function->nodes[at];
    if (all->owner[at] != id) continue;
    count++;
    meet_next(all, at, NOBODY);
    for (uint32_t k = 0; k < node->input_count; k++) {
      uint32_t value = node->inputs[k];
      if (value == KEEL_ABSENT || function->values[value].constant) continue;
      meet(all, function->values[value].producer);
      meet_readers(all, value, NOBODY);
    }
  }
  return count;
}

/* No node behind this one has a way back to the claim: edges lead onwards but inside of
 * claims, each of which will be one op. */
static uint32_t last_to_look_at(const regions *all, uint32_t last) {
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < all->claim_count; i++)
      if (all->claims[i].first <= last && last < all->claims[i].last) {
        last = all->claims[i].last;
        more = true;
      }
  }
  return last;
}

/* Whether a path leaves the claim that begins with `first` and enters it again. */
static bool comes_back(regions *all, uint32_t first, uint32_t last) {
  uint32_t id = all->owner[first], at = first;
  uint32_t end = last_to_look_at(all, last);
  begin_walk(all);
  do {
    meet_next(all, at, id);
    at = all->next[at];
  } while (at != first);
  while (all->depth) {
    at = all->stack[--all->depth];
    if (all->owner[at] == id) return true;
    if (at > end) continue;
    meet_next(all, at, NOBODY);
    if (all->owner[at] >= CLAIM) meet(all, all->next[at]);
  }
  return false;
}

/* Makes the nodes of the graph one claim's, or, where one of them can't be, none. */
static keel_status take_nodes(regions *all, const uint32_t *nodes,
                              uint32_t count, uint32_t id, span *out_span) {
  *out_span = (span){KEEL_ABSENT, 0};
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = nodes[i] < all->graph->node_count
                      ? all->graph->members[nodes[i]]
                      : KEEL_ABSENT;
    if (at == KEEL_ABSENT || all->owner[at] != SHOWN) {
      for (; i > 0; i--)
        all->owner[all->graph->members[nodes[i - 1]]] = SHOWN;
      return at == KEEL_ABSENT
                 ? keel_fail(KD_INVALID_ARGUMENT, "the graph has %u nodes",
                             (unsigned)all->graph->node_count)
                 : keel_fail(KD_INVALID_ARGUMENT, "a node is claimed twice");
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

static kd_status take(void *context, const uint32_t *nodes, uint32_t count,
                      const kd_cost *cost) {
  regions *all = context;
  uint32_t id = CLAIM + all->claim_count;
  span claim;
  (void)cost; /* the host's own way would have to be measured to be compared */
  if (!count || !nodes)
    return keel_fail(KD_INVALID_ARGUMENT, "a claim of no nodes");
  KEEL_TRY(take_nodes(all, nodes, count, id, &claim));
  keel_status status = KD_OK;
  if (count_connected(all, claim.first) != count)
    status = keel_fail(KD_INVALID_ARGUMENT, "the nodes do not hang together");
  else if (comes_back(all, claim.first, claim.last))
    status = keel_fail(KD_INVALID_ARGUMENT,
                       "what one of the nodes needs, from outside, needs"
                       " another of them");
  if (status == KD_OK)
    all->claims[all->claim_count++] = claim;
  else
    for (uint32_t i = 0; i < count; i++)
      all->owner[all->graph->members[nodes[i]]] = SHOWN;
  return status;
}

static keel_status ask(regions *all) {
  keel_hush();
  kd_status status = all->device->plugin->regions.claim(all->device->handle,
                                                        all->graph, take, all);
  if (status == KD_OK) return KD_OK;
  if (!keel_said())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  return keel_while(status, "while %s looked for regions", all->device->name);
}

/* ---- one op for each ---------------------------------------------------------------- */

/* keel::Region with the names of what it stands for. */
static keel_status make_op(const struct kd_graph *graph, keel_opdef **out_op) {
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

static keel_status replace(regions *all, const struct kd_graph *part,
                           keel_region *region) {
  keel_opdef *op = NULL;
  keel_node *node = NULL;
  char name[256];
  keel_status status = make_op(part, &op);
  name_region(part, name, sizeof name);
  if (status == KD_OK)
    status = keel_function_node(all->function, op, name, part->inputs,
                                part->input_count, part->outputs,
                                part->output_count, &node);
  if (status != KD_OK) {
    keel_region_free(region);
    return status;
  }
  node->region = region;
  node->device = all->device;
  for (uint32_t i = 0; i < part->node_count; i++)
    all->function->nodes[part->members[i]].dead = true;
  return KD_OK;
}

static keel_status compile_claim(regions *all, uint32_t id) {
  struct kd_graph part;
  keel_region *region = NULL;
  keel_status status = keel_graph_part(all->function, all->owner, id, &part);
  if (status == KD_OK && part.output_count)
    status = keel_region_compile(all->device, &part, &region);
  if (region) status = replace(all, &part, region);
  keel_graph_drop(&part);
  return status;
}

static keel_status run(regions *all, keel_device *device) {
  KEEL_TRY(look(all, device));
  KEEL_TRY(keel_graph_part(all->function, all->owner, SHOWN, all->graph));
  if (!all->graph->node_count) return KD_OK;
  KEEL_TRY(keel_device_ready(all->device));
  KEEL_TRY(ask(all));
  for (uint32_t i = 0; i < all->claim_count; i++)
    KEEL_TRY(compile_claim(all, CLAIM + i));
  return all->claim_count ? keel_function_sort(all->function) : KD_OK;
}

keel_status keel_pass_regions(keel_function *function, keel_device *device) {
  keel_context *context = function->context;
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < context->device_count && status == KD_OK; i++) {
    struct kd_graph graph = {0};
    regions all = {
        .function = function, .device = context->devices[i], .graph = &graph};
    if (!all.device->plugin->regions.claim) continue;
    status = run(&all, device);
    drop(&all);
  }
  return status;
}
