/* graph.h - a part of a function as plugins read it through kd_graph_table. */
#ifndef KEEL_GRAPH_H
#define KEEL_GRAPH_H

#include "program/function.h"

/* A view of a part of a function, or of all of it. */
struct kd_graph {
  const keel_function *function;
  struct kd_node *nodes; /* of the part, with their types */
  uint32_t *members;     /* by node of the part: the function's node */
  uint32_t node_count;
  uint32_t *inputs, *outputs; /* values */
  uint32_t input_count, output_count;
  const keel_type **types;    /* of the nodes' arguments */
  keel_tensor **constants;    /* of their inputs */
  struct kd_graph *graphs;    /* attributes of its nodes, owned */
  struct kd_graph **graph_of; /* by attribute of the nodes that have any */
  uint32_t graph_count;
  const uint8_t *claimable; /* by node of the function; NULL: all are */
};

extern const kd_graph_table keel_graph_table;

/* The readers of a function's values, made once for all its parts. */
typedef struct keel_readers {
  uint32_t *first,
      *list;        /* nodes: list[first[value]] up to list[first[value + 1]] */
  uint8_t *outputs; /* by value: 1: it is the function's */
  uint32_t *seen,
      *by; /* by value: the last walk that visited it, and for which node */
  uint32_t walk;
} keel_readers;

keel_status keel_readers_make(const keel_function *function,
                              keel_readers *out_readers);
void keel_readers_drop(keel_readers *readers);

/* Whether a walk visits a value for the first time; if so, records `node` for it. A walk
 * starts by incrementing readers->walk. */
static inline bool keel_readers_visit(keel_readers *readers, uint32_t value,
                                      uint32_t node) {
  if (readers->seen[value] == readers->walk) return false;
  readers->seen[value] = readers->walk;
  readers->by[value] = node;
  return true;
}

/* Whether a value is read by nodes of other owners, or is an output of the function. */
bool keel_readers_need(const keel_readers *readers, const uint32_t *owner,
                       uint32_t id, uint32_t value);

/* Makes a graph of `count` ascending nodes: exactly those whose entry in `owner` (one per
 * node) is `id`. Its inputs are the values from outside, constants included; its outputs
 * are those needed outside. Takes time proportional to the part. Call keel_graph_drop in
 * any case. */
keel_status keel_graph_part(const keel_function *function,
                            keel_readers *readers, const uint32_t *owner,
                            const uint32_t *members, uint32_t count,
                            struct kd_graph *out_graph);
void keel_graph_drop(struct kd_graph *graph);

#endif /* KEEL_GRAPH_H */
