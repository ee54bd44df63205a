/* chains.c - finding chains: from each last node back to what it alone needs. */
#include "families/chains.h"

#include <string.h>

#define NOBODY UINT32_MAX

typedef struct place {
  chain_role role;
  bool taken;
  kd_dtype type;
  uint32_t value; /* that it makes */
} place;

typedef struct value {
  uint32_t maker;
  uint32_t reads;  /* by all nodes */
  uint32_t inside; /* by those of the chain at hand */
  bool outside;    /* the graph's output */
} value;

typedef struct search {
  const kd_host *host;
  const kd_graph *graph;
  uint32_t node_count, value_count;
  place *nodes;
  value *values;
  uint32_t chain[CHAIN_NODES], count;
} search;

/* ---- the graph -------------------------------------------------------------------- */

static uint32_t chains_input_count(const search *all, uint32_t node) {
  return all->host->node->input_count(all->host->graph->node(all->graph, node));
}

/* The value that a node reads, or NOBODY. */
static uint32_t input_of(const search *all, uint32_t node, uint32_t index) {
  uint32_t at = all->host->graph->node_input(all->graph, node, index);
  return at < all->value_count ? at : NOBODY;
}

/* Hosts that don't know the slot show only what may be claimed. */
static bool is_claimable(const search *all, uint32_t node) {
  const kd_graph_table *read = all->host->graph;
  return !KD_HAS(read, claimable) || read->claimable(all->graph, node);
}

static bool is_known(const kd_type *type) {
  if (type->rank > KD_MAX_RANK) return false;
  for (uint32_t i = 0; i < type->rank; i++)
    if (type->dims[i] < 0) return false;
  return true;
}

/* Whether no size of a node's arguments is open: two that are may differ. */
static bool is_sized(const search *all, const kd_node *node) {
  const kd_node_table *read = all->host->node;
  kd_type type;
  for (uint32_t i = 0; i < read->input_count(node); i++)
    if (read->input_type(node, i, &type) == KD_OK && !is_known(&type))
      return false;
  return read->output_type(node, 0, &type) == KD_OK && is_known(&type);
}

static void read_graph(search *all, chain_fits fits, void *context) {
  const kd_graph_table *read = all->host->graph;
  for (uint32_t v = 0; v < all->value_count; v++)
    all->values[v].maker = NOBODY;
  for (uint32_t i = 0; i < all->node_count; i++) {
    const kd_node *node = read->node(all->graph, i);
    place *at = &all->nodes[i];
    at->role = is_claimable(all, i) &&
                       all->host->node->output_count(node) == 1 &&
                       is_sized(all, node)
                   ? fits(context, node, &at->type)
                   : CHAIN_NOTHING;
    at->value = read->node_output(all->graph, i, 0);
    if (at->value >= all->value_count)
      at->role = CHAIN_NOTHING;
    else
      all->values[at->value].maker = i;
    for (uint32_t k = 0; k < chains_input_count(all, i); k++) {
      uint32_t from = input_of(all, i, k);
      if (from != NOBODY) all->values[from].reads++;
    }
  }
  for (uint32_t i = 0; i < read->output_count(all->graph); i++) {
    uint32_t out = read->output(all->graph, i);
    if (out < all->value_count) all->values[out].outside = true;
  }
}

static bool same_shape(const search *all, uint32_t a, uint32_t b) {
  const kd_graph_table *read = all->host->graph;
  kd_type x = {0}, y = {0};
  if (read->value_type(all->graph, all->nodes[a].value, &x) != KD_OK ||
      read->value_type(all->graph, all->nodes[b].value, &y) != KD_OK ||
      x.rank != y.rank || x.rank > KD_MAX_RANK)
    return false;
  for (uint32_t i = 0; i < x.rank; i++)
    if (x.dims[i] != y.dims[i]) return false;
  return true;
}

/* ---- one chain ------------------------------------------------------------------------ */

static bool is_member(const search *all, uint32_t node) {
  for (uint32_t i = 0; i < all->count; i++)
    if (all->chain[i] == node) return true;
  return false;
}

/* Values that come from outside of the chain, and of one more node (NOBODY: of it). */
static uint32_t count_inputs(const search *all, uint32_t more) {
  uint32_t met[CHAIN_INPUTS], count = 0;
  for (uint32_t i = 0; i <= all->count; i++) {
    uint32_t node = i < all->count ? all->chain[i] : more;
    for (uint32_t k = 0; node != NOBODY && k < chains_input_count(all, node);
         k++) {
      uint32_t from = input_of(all, node, k), at = 0;
      if (from == NOBODY) continue;
      uint32_t maker = all->values[from].maker;
      if (maker != NOBODY && (maker == more || is_member(all, maker))) continue;
      while (at < count && met[at] != from)
        at++;
      if (at < count) continue;
      if (count == CHAIN_INPUTS) return CHAIN_INPUTS + 1;
      met[count++] = from;
    }
  }
  return count;
}

static void chains_add(search *all, uint32_t node) {
  all->chain[all->count++] = node;
  for (uint32_t k = 0; k < chains_input_count(all, node); k++) {
    uint32_t from = input_of(all, node, k);
    if (from != NOBODY) all->values[from].inside++;
  }
}

/* Whether a node of that role can come before those of the chain: they alone need it. */
static bool joins(const search *all, uint32_t node, chain_role role) {
  const place *at = &all->nodes[node], *last = &all->nodes[all->chain[0]];
  const value *made = &all->values[at->value];
  return at->role == role && !at->taken && at->type == last->type &&
         all->count < CHAIN_NODES && !made->outside &&
         made->inside == made->reads && made->maker == node &&
         !is_member(all, node) && same_shape(all, node, all->chain[0]) &&
         count_inputs(all, node) <= CHAIN_INPUTS;
}

static void chains_grow(search *all) {
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < all->count; i++)
      for (uint32_t k = 0; k < chains_input_count(all, all->chain[i]); k++) {
        uint32_t from = input_of(all, all->chain[i], k);
        uint32_t maker = from == NOBODY ? NOBODY : all->values[from].maker;
        if (maker == NOBODY || !joins(all, maker, CHAIN_STEP)) continue;
        chains_add(all, maker);
        more = true;
      }
  }
}

/* Adds the first root that it can be computed on. It needs none of them: nobody but they
 * reads what they make, except the last one. */
static void find_root(search *all, chain_rooted rooted, void *context) {
  for (uint32_t i = 0; i < all->count; i++)
    for (uint32_t k = 0; k < chains_input_count(all, all->chain[i]); k++) {
      uint32_t from = input_of(all, all->chain[i], k);
      uint32_t maker = from == NOBODY ? NOBODY : all->values[from].maker;
      if (maker == NOBODY || !joins(all, maker, CHAIN_ROOT) ||
          !rooted(context, all->graph, maker, all->chain, all->count))
        continue;
      chains_add(all, maker);
      return;
    }
}

/* Claims it, in the graph's order, and forgets it. */
static void chains_finish(search *all, kd_claim take, void *context) {
  for (uint32_t i = 1; i < all->count; i++)
    for (uint32_t k = i; k && all->chain[k] < all->chain[k - 1]; k--) {
      uint32_t node = all->chain[k];
      all->chain[k] = all->chain[k - 1];
      all->chain[k - 1] = node;
    }
  const kd_part part = {.struct_size = sizeof part,
                        .nodes = all->chain,
                        .node_count = all->count};
  bool taken = all->count > 1 && take(context, &part) == KD_OK;
  for (uint32_t i = 0; i < all->count; i++) {
    all->nodes[all->chain[i]].taken = taken;
    for (uint32_t k = 0; k < chains_input_count(all, all->chain[i]); k++) {
      uint32_t from = input_of(all, all->chain[i], k);
      if (from != NOBODY) all->values[from].inside = 0;
    }
  }
}

kd_status chains_claim(const kd_host *host, const kd_graph *graph,
                       chain_fits fits, chain_rooted rooted, void *context,
                       kd_claim take, void *take_context) {
  search all = {.host = host,
                .graph = graph,
                .node_count = host->graph->node_count(graph),
                .value_count = host->graph->value_count(graph)};
  size_t nodes = all.node_count * sizeof *all.nodes;
  size_t values = all.value_count * sizeof *all.values;
  if (!all.node_count) return KD_OK;
  char *memory = host->allocate(host, nodes + values + 1, 0);
  if (!memory)
    return host->fail(KD_OUT_OF_MEMORY, "no memory for a graph of %u nodes",
                      all.node_count);
  memset(memory, 0, nodes + values);
  all.values = (value *)(void *)memory;
  all.nodes = (place *)(void *)(memory + values);
  read_graph(&all, fits, context);
  for (uint32_t i = all.node_count; i-- > 0;) {
    if (all.nodes[i].role != CHAIN_STEP || all.nodes[i].taken) continue;
    all.count = 0;
    chains_add(&all, i);
    if (count_inputs(&all, NOBODY) <= CHAIN_INPUTS) chains_grow(&all);
    if (rooted) find_root(&all, rooted, context);
    chains_finish(&all, take, take_context);
  }
  host->release(host, memory);
  return KD_OK;
}

/* ---- what was claimed -------------------------------------------------------------------- */

kd_status chain_find(const kd_host *host, const kd_graph *graph, uint32_t node,
                     uint32_t input, chain_operand *out_operand) {
  const kd_graph_table *read = host->graph;
  uint32_t from = read->node_input(graph, node, input);
  for (uint32_t i = 0; from != UINT32_MAX && i < read->input_count(graph); i++)
    if (read->input(graph, i) == from) {
      *out_operand = (chain_operand){false, i};
      return KD_OK;
    }
  for (uint32_t i = 0; from != UINT32_MAX && i < node; i++)
    if (read->node_output(graph, i, 0) == from) {
      *out_operand = (chain_operand){true, i};
      return KD_OK;
    }
  return host->fail(KD_UNIMPLEMENTED,
                    "input %u of node %u (%s) is not made by a node before it",
                    input, node, host->node->op(read->node(graph, node)));
}

/* Whether a node's result, and its arguments, where they are there and it is no root, are
 * what one loop over `out` takes. */
static bool is_over(const kd_host *host, const kd_node *node, bool root,
                    const kd_type *out) {
  kd_type type = {0};
  if (host->node->output_type(node, 0, &type) != KD_OK ||
      type.rank != out->rank)
    return false;
  for (uint32_t i = 0; i < out->rank; i++)
    if (type.dims[i] != out->dims[i]) return false;
  for (uint32_t k = 0; !root && k < host->node->input_count(node); k++) {
    if (host->node->input_type(node, k, &type) != KD_OK) continue;
    if (type.rank > out->rank) return false;
    for (uint32_t i = 0; i < type.rank; i++)
      if (type.dims[i] != 1 &&
          type.dims[i] != out->dims[out->rank - type.rank + i])
        return false;
  }
  return true;
}

kd_status chain_check(const kd_host *host, const kd_graph *graph,
                      uint32_t root) {
  const kd_graph_table *read = host->graph;
  uint32_t nodes = read->node_count(graph), inputs = read->input_count(graph);
  uint32_t outputs = read->output_count(graph);
  if (!nodes || nodes > CHAIN_NODES || inputs > CHAIN_INPUTS || outputs != 1)
    return host->fail(KD_UNIMPLEMENTED,
                      "%u nodes, %u inputs, %u outputs: a chain has 1 to %u, at"
                      " most %u, and 1",
                      nodes, inputs, outputs, CHAIN_NODES, CHAIN_INPUTS);
  if (read->output(graph, 0) != read->node_output(graph, nodes - 1, 0))
    return host->fail(KD_UNIMPLEMENTED,
                      "the last node does not make the output");
  kd_type out = {0};
  kd_status status =
      host->node->output_type(read->node(graph, nodes - 1), 0, &out);
  if (status != KD_OK || out.rank > KD_MAX_RANK)
    return host->fail(KD_UNIMPLEMENTED, "the output's shape is not known");
  for (uint32_t i = 0; i < nodes; i++)
    if (!is_over(host, read->node(graph, i), i == root, &out))
      return host->fail(KD_UNIMPLEMENTED,
                        "node %u (%s) is not over the output's elements", i,
                        host->node->op(read->node(graph, i)));
  return KD_OK;
}
