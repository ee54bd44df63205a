/* graph.h - small graphs for plugins that compile regions. */
#ifndef KC_GRAPH_H
#define KC_GRAPH_H

#include "suite/run.h"

#define KC_NODES  32u
#define KC_VALUES 64u

struct kd_graph {
  kc_node *nodes[KC_NODES];
  uint32_t inputs[KC_NODES][KC_PORTS], outputs[KC_NODES][KC_PORTS];
  uint32_t node_count;
  const keel_type *types[KC_VALUES];
  const void *constants[KC_VALUES];
  uint32_t value_count;
  uint32_t graph_inputs[KC_PORTS], graph_outputs[KC_PORTS];
  uint32_t input_count, output_count;
  bool shown_only[KC_NODES]; /* by node: it may not be claimed */
};

extern const kd_graph_table kc_graph_table;

#endif /* KC_GRAPH_H */
