/* partition.c - which claimed nodes become one.
 *
 * The nodes are put in an order in which each comes after those that it reads,
 * and claimed nodes stand together as far as that goes: while a claimed node
 * can come next, it does, and only then the others have their turn. A run of
 * claimed nodes is a group. All nodes between two of a group are of the group,
 * so nothing leaves it and comes back, and the order of the groups is an order
 * of the contracted graph. No order has fewer changes of turn, given who
 * begins; both beginnings are tried. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

typedef struct graph {
  uint32_t count;
  const bool *claimed;
  uint32_t *first;   /* of each node, in `next`; count + 1 entries */
  uint32_t *next;    /* who reads it */
  uint32_t *degree;  /* how many it reads */
  uint32_t *pending; /* of these, how many have not been put in order */
  uint32_t *ready;   /* two queues: claimed from the front, others behind */
} graph;

static void graph_free(graph *one) {
  free(one->first);
  free(one->next);
  free(one->degree);
  free(one->pending);
  free(one->ready);
}

static bool graph_make(graph *out, uint32_t count, const bool *claimed,
                       const partition_edge *edges, size_t edge_count) {
  *out = (graph){.count = count, .claimed = claimed};
  out->first = calloc((size_t)count + 2, sizeof *out->first);
  out->next = calloc(edge_count + 1, sizeof *out->next);
  out->degree = calloc((size_t)count + 1, sizeof *out->degree);
  out->pending = calloc((size_t)count + 1, sizeof *out->pending);
  out->ready = calloc((size_t)count * 2 + 1, sizeof *out->ready);
  if (!out->first || !out->next || !out->degree || !out->pending || !out->ready)
    return false;

  for (size_t i = 0; i < edge_count; i++) {
    out->first[edges[i].from + 2]++;
    out->degree[edges[i].to]++;
  }
  for (uint32_t i = 2; i <= count + 1; i++)
    out->first[i] += out->first[i - 1];
  for (size_t i = 0; i < edge_count; i++)
    out->next[out->first[edges[i].from + 1]++] = edges[i].to;
  return true;
}

/* Two queues of nodes whose inputs are all in order, by turn. */
typedef struct queue {
  uint32_t *items, head, tail;
} queue;

static void partition_put(graph *g, queue *queues, uint32_t node) {
  queue *at = &queues[g->claimed[node]];
  at->items[at->tail++] = node;
}

static void partition_take(graph *g, queue *queues, bool claimed,
                           uint32_t group, uint32_t *out_group) {
  queue *at = &queues[claimed];
  uint32_t node = at->items[at->head++];
  out_group[node] = claimed ? group : NO_GROUP;
  for (uint32_t i = g->first[node]; i < g->first[node + 1]; i++)
    if (--g->pending[g->next[i]] == 0) partition_put(g, queues, g->next[i]);
}

/* Orders the nodes; returns how many groups there are, or NO_GROUP. */
static uint32_t partition_order(graph *g, bool claimed_begin,
                                uint32_t *out_group) {
  queue queues[2] = {{.items = g->ready}, {.items = g->ready + g->count}};
  memcpy(g->pending, g->degree, g->count * sizeof *g->pending);
  for (uint32_t i = 0; i < g->count; i++)
    if (!g->pending[i]) partition_put(g, queues, i);

  bool turn = claimed_begin;
  uint32_t groups = 0, done = 0;
  while (done < g->count) {
    queue *at = &queues[turn];
    if (at->head == at->tail && queues[!turn].head == queues[!turn].tail)
      return NO_GROUP; /* a cycle */
    uint32_t before = done;
    for (; at->head < at->tail; done++)
      partition_take(g, queues, turn, groups, out_group);
    groups += turn && done > before;
    turn = !turn;
  }
  return groups;
}

uint32_t partition(uint32_t count, const bool *claimed,
                   const partition_edge *edges, size_t edge_count,
                   uint32_t *out_group) {
  graph g;
  uint32_t groups = NO_GROUP;
  if (graph_make(&g, count, claimed, edges, edge_count)) {
    uint32_t other = partition_order(&g, false, out_group);
    groups = partition_order(&g, true, out_group);
    if (other < groups) groups = partition_order(&g, false, out_group);
  }
  graph_free(&g);
  return groups;
}
