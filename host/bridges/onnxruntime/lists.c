/* lists.c - what graphs and nodes hold, as lists. */
#include <stdlib.h>

#include "bridge.h"

/* Defines NAME(OWNER *, LIST *), which asks COUNT how many there are and GET
 * for all of them. */
#define LIST(NAME, OWNER, LIST_TYPE, COUNT, GET)                  \
  ort_status *NAME(const OWNER *owner, LIST_TYPE *out) {          \
    *out = (LIST_TYPE){0};                                        \
    TRY(ort->COUNT(owner, &out->count));                          \
    out->items = calloc(out->count + 1, sizeof *out->items);      \
    if (!out->items) return no_memory();                          \
    if (!out->count) return NULL;                                 \
    ort_status *status = ort->GET(owner, out->items, out->count); \
    if (!status) return NULL;                                     \
    free(out->items);                                             \
    out->items = NULL;                                            \
    return status;                                                \
  }

LIST(graph_nodes, ort_graph, node_list, Graph_GetNumNodes, Graph_GetNodes)
LIST(graph_inputs, ort_graph, value_list, Graph_GetNumInputs, Graph_GetInputs)
LIST(graph_outputs, ort_graph, value_list, Graph_GetNumOutputs,
     Graph_GetOutputs)
LIST(node_inputs, ort_node, value_list, Node_GetNumInputs, Node_GetInputs)
LIST(node_outputs, ort_node, value_list, Node_GetNumOutputs, Node_GetOutputs)
LIST(node_captures, ort_node, value_list, Node_GetNumImplicitInputs,
     Node_GetImplicitInputs)
LIST(node_attributes, ort_node, attr_list, Node_GetNumAttributes,
     Node_GetAttributes)

ort_status *node_graphs(const ort_node *node, graph_list *out) {
  *out = (graph_list){0};
  TRY(ort->Node_GetNumSubgraphs(node, &out->count));
  if (!out->count) return NULL;
  if (out->count > GRAPHS_MOST)
    return failure(ORT_NOT_IMPLEMENTED,
                   "Keel: a node has %zu graphs; at most %d are possible",
                   out->count, GRAPHS_MOST);
  return ort->Node_GetSubgraphs(node, out->items, out->count, out->names);
}
