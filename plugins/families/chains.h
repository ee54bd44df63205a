/* chains.h - parts of a graph that one loop over the elements can compute: elementwise
 * ops of one shape, of which only the last one's result is needed elsewhere. No device
 * code: every plugin may use it. */
#ifndef KEEL_FAMILIES_CHAINS_H
#define KEEL_FAMILIES_CHAINS_H

#include <kd/kd.h>
#include <stdbool.h>

#define CHAIN_NODES   24u
#define CHAIN_INPUTS  8u
#define CHAIN_NO_ROOT UINT32_MAX

/* What a node can be in a chain. */
typedef enum chain_role {
  CHAIN_NOTHING,
  CHAIN_STEP, /* elementwise, with one output */
  CHAIN_ROOT  /* its kernel can have an epilogue: a product, a convolution */
} chain_role;

/* The role that the plugin can give a node; *out_type: the type to compute it in, the same
 * for a whole chain. */
typedef chain_role (*chain_fits)(void *context, const kd_node *node,
                                 kd_dtype *out_type);

/* Whether the root's kernel can absorb `nodes` (in no order) as its epilogue. */
typedef bool (*chain_rooted)(void *context, const kd_graph *graph,
                             uint32_t root, const uint32_t *nodes,
                             uint32_t count);

/* Claims all chains of two nodes and more (kd_region_table.claim). `rooted` NULL: there
 * are no roots. */
kd_status chains_claim(const kd_host *host, const kd_graph *graph,
                       chain_fits fits, chain_rooted rooted, void *context,
                       kd_claim take, void *take_context);

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
 * shape all have or are broadcast to, but for the inputs of `root` (CHAIN_NO_ROOT: there is
 * none). Returns KD_OK, KD_UNIMPLEMENTED. */
kd_status chain_check(const kd_host *host, const kd_graph *graph,
                      uint32_t root);

#endif /* KEEL_FAMILIES_CHAINS_H */
