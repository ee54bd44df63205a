/* graph.h - graphs of tasks, for Keel and its peers alike. */
#ifndef KEEL_BENCH_GRAPH_H
#define KEEL_BENCH_GRAPH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Node i waits for before[first[i]] ... before[first[i + 1] - 1], all less than i. The
 * last node waits for all that nobody else waits for. */
typedef struct graph {
  const char *name;
  uint32_t count;
  uint32_t *first, *before;
} graph;

enum { GRAPH_COUNT = 4, GRAPH_WARM = 8 /* runs that do not count */ };

/* Chain, independent, tree, layered: about a thousand nodes each. Ends the program
 * where memory runs out. */
graph graph_make(int index);
void graph_free(graph *graph);

/* What a node does: nothing (0), or some rounds of a loop, in a register: memory that
 * is written and read again is not equally fast everywhere. */
static inline void graph_spin(uint32_t rounds) {
  uint32_t x = rounds;
  for (uint32_t i = 0; i < rounds; i++) {
    x = x * 1664525u + 1013904223u;
    __asm__ volatile("" : "+r"(x));
  }
}

/* What nodes do when it is said node by node, and may change between runs. Node i takes
 * spins[i % GRAPH_COSTS] rounds; its address is the option "costs" of the nodes' plugin. */
enum { GRAPH_COSTS = 1000 };
typedef struct graph_costs {
  uint32_t spins[GRAPH_COSTS];
} graph_costs;

/* A peer: runs the graph `runs` times on as many threads, after GRAPH_WARM that don't
 * count; returns the nanoseconds of one run, or a negative number where it was not
 * built. */
double openmp_run(const graph *graph, int threads, uint32_t spins, int runs);
double tbb_run(const graph *graph, int threads, uint32_t spins, int runs);

#ifdef __cplusplus
}
#endif

#endif /* KEEL_BENCH_GRAPH_H */
