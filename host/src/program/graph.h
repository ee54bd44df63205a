/* graph.h - a function as plugins read it through kd_graph_table. */
#ifndef KEEL_GRAPH_H
#define KEEL_GRAPH_H

#include "program/function.h"

/* A view of a function, or of a part of it. */
struct kd_graph {
  const keel_function *function;
  struct kd_node *nodes;   /* of the part, with their types */
  const uint32_t *members; /* by node of the part: the function's node */
  uint32_t node_count;
  const uint32_t *inputs, *outputs; /* values */
  uint32_t input_count, output_count;
};

extern const kd_graph_table keel_graph_table;

/* Views a whole function whose types were inferred; freed at once by `free` of
 * graph->nodes and graph->members. */
keel_status keel_graph_view(const keel_function *function,
                            struct kd_graph *out_graph);
void keel_graph_drop(struct kd_graph *graph);

#endif /* KEEL_GRAPH_H */
