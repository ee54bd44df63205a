/* chains.h - parts of a graph that one loop over the elements can compute: elementwise
 * ops of one shape, of which only the last one's result is needed elsewhere. No device
 * code: every plugin may use it. */
#ifndef KEEL_FAMILIES_CHAINS_H
#define KEEL_FAMILIES_CHAINS_H

#include <kd/kd.h>
#include <stdbool.h>

#define CHAIN_NODES  24u
#define CHAIN_INPUTS 8u

/* Whether a node is elementwise, with one output, and the plugin can compute it as a part
 * of a chain; *out_type: the type that it is computed in, one for a chain. */
typedef bool (*chain_fits)(void *context, const kd_node *node,
                           kd_dtype *out_type);

/* Claims all chains of two nodes and more (kd_region_table.claim). */
kd_status chains_claim(const kd_host *host, const kd_graph *graph,
                       chain_fits fits, void *context, kd_claim take,
                       void *take_context);

/* What a node of a chain reads: input `index` of the graph, or, where `node`, what node
 * `index` makes. */
typedef struct chain_operand {
  bool node;
  uint32_t index;
} chain_operand;

/* Where node `node` of a graph that is one chain takes its input `input` from. Returns
 * KD_OK, KD_UNIMPLEMENTED (nobody before it makes that value). */
kd_status chain_find(const kd_host *host, const kd_graph *graph, uint32_t node,
                     uint32_t input, chain_operand *out_operand);

/* Whether a graph is one: some nodes, one output, which the last node makes, and whose
 * shape all have or are broadcast to. Returns KD_OK, KD_UNIMPLEMENTED. */
kd_status chain_check(const kd_host *host, const kd_graph *graph);

#endif /* KEEL_FAMILIES_CHAINS_H */
