/* graph.c - chain, independent, tree, layered. */
#include "graph.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { NODES = 1000, LAYERS = 50, WIDTH = 20, LEAVES = 512 };

static void add(graph *graph, uint32_t before) {
  graph->before[graph->first[graph->count + 1]++] = before;
}

/* The next node's predecessors follow. */
static void next(graph *graph) {
  graph->count++;
  graph->first[graph->count + 1] = graph->first[graph->count];
}

static void chain(graph *graph) {
  for (uint32_t i = 0; i < NODES; i++) {
    if (i) add(graph, i - 1);
    next(graph);
  }
}

static void independent(graph *graph) {
  for (uint32_t i = 0; i < NODES; i++)
    next(graph);
}

/* Leaves, then each node from two, down to one. */
static void tree(graph *graph) {
  uint32_t from = 0;
  for (uint32_t i = 0; i < LEAVES; i++)
    next(graph);
  for (; from + 1 < graph->count; from += 2) {
    add(graph, from);
    add(graph, from + 1);
    next(graph);
  }
}

/* Each node waits for one to three of the layer before. */
static void layered(graph *graph) {
  uint32_t random = 1;
  for (uint32_t i = 0; i < LAYERS * WIDTH; i++) {
    uint32_t layer = i / WIDTH, taken[3];
    uint32_t wanted = layer ? 1 + i % 3 : 0, have = 0;
    while (have < wanted) {
      random = random * 1664525u + 1013904223u; /* Numerical Recipes' */
      uint32_t before = (layer - 1) * WIDTH + (random >> 16) % WIDTH;
      bool twice = false;
      for (uint32_t k = 0; k < have; k++)
        twice |= taken[k] == before;
      if (twice) continue;
      taken[have++] = before;
      add(graph, before);
    }
    next(graph);
  }
}

/* One that waits for all that nobody waits for. */
static void join(graph *graph) {
  bool *waited = calloc(graph->count + 1, sizeof *waited);
  if (!waited) abort();
  for (uint32_t i = 0; i < graph->first[graph->count]; i++)
    waited[graph->before[i]] = true;
  for (uint32_t i = 0, n = graph->count; i < n; i++)
    if (!waited[i]) add(graph, i);
  next(graph);
  free(waited);
}

graph graph_make(int index) {
  static const struct {
    const char *name;
    void (*make)(graph *graph);
  } kinds[GRAPH_COUNT] = {{"chain", chain},
                          {"independent", independent},
                          {"tree", tree},
                          {"layered", layered}};
  graph made = {.name = kinds[index].name};
  made.first = calloc(4 * NODES, sizeof *made.first);
  made.before = calloc(8 * NODES, sizeof *made.before);
  if (!made.first || !made.before) {
    fprintf(stderr, "bench: no memory\n");
    exit(1);
  }
  kinds[index].make(&made);
  join(&made);
  return made;
}

void graph_free(graph *graph) {
  free(graph->first);
  free(graph->before);
}
