/* graph.h - a part of a function as plugins read it through kd_graph_table. */
#ifndef KEEL_GRAPH_H
#define KEEL_GRAPH_H

#include "program/function.h"

/* A view of a part of a function. */
struct kd_graph {
  const keel_function *function;
  struct kd_node *nodes; /* of the part, with their types */
  uint32_t *members;     /* by node of the part: the function's node */
  uint32_t node_count;
  uint32_t *inputs, *outputs; /* values */
  uint32_t input_count, output_count;
  const keel_type **types; /* of the nodes' arguments */
  keel_tensor **constants; /* of their inputs */
};

extern const kd_graph_table keel_graph_table;

/* Views the live nodes whose entry in `owner` (one a node) is `id`, in the function's
 * order. Inputs are the values that come from elsewhere, constants among them; outputs
 * are those that are needed elsewhere. To be dropped in any case. */
keel_status keel_graph_part(const keel_function *function,
                            const uint32_t *owner, uint32_t id,
                            struct kd_graph *out_graph);
void keel_graph_drop(struct kd_graph *graph);

#endif /* KEEL_GRAPH_H */
