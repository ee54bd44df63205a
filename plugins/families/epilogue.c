/* epilogue.c - what stands behind a product or a convolution. */
#include "families/epilogue.h"

#include <string.h>

#include "families/rows.h"
#include "families/strided.h"

bool fam_is_root(const fam_op *op) {
  void (*plan)(const fam_op *, fam_plan *) = op->row->plan;
  return (plan == fam_plan_matmul || plan == fam_plan_gemm ||
          plan == fam_plan_conv || plan == fam_plan_conv_transpose) &&
         fam_is_float(op->out[0].dtype) && op->out[0].count;
}

bool fam_block_of(const kd_type *out, const kd_type *operand,
                  int64_t *out_inner, int64_t *out_count) {
  strided space;
  if (operand->rank > out->rank) return false;
  strided_begin(&space, out->dims, out->rank);
  strided_broadcast(&space, operand->dims, operand->rank);
  if (!strided_count(&space)) return false;
  strided_simplify(&space);
  const int64_t *steps = space.steps[0];
  int last = space.rank - 1, at = steps[last] ? last : last - 1;
  *out_inner = at == last ? 1 : space.dims[last];
  *out_count = at < 0 ? 1 : space.dims[at];
  for (int d = 0; d < at; d++)
    if (steps[d]) return false;
  return true;
}

/* ---- what libraries know ---------------------------------------------------------- */

/* The only node that reads a value, and what else it reads (FAM_NO_VALUE: nothing). */
static uint32_t reader_of(const kd_host *host, const kd_graph *graph,
                          uint32_t value, const uint32_t *nodes, uint32_t count,
                          uint32_t *out_other) {
  const kd_graph_table *read = host->graph;
  uint32_t found = FAM_NO_VALUE;
  *out_other = FAM_NO_VALUE;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t inputs = host->node->input_count(read->node(graph, nodes[i]));
    uint32_t other = FAM_NO_VALUE;
    bool reads = false;
    for (uint32_t k = 0; k < inputs; k++) {
      uint32_t from = read->node_input(graph, nodes[i], k);
      if (from == value)
        reads = true;
      else
        other = from;
    }
    if (!reads) continue;
    if (inputs > 2 || found != FAM_NO_VALUE) return FAM_NO_VALUE;
    found = nodes[i];
    *out_other = other;
  }
  return found;
}

static bool add_operand(const kd_host *host, const kd_graph *graph,
                        const kd_type *out, uint32_t value, fam_epilogue *e) {
  kd_type type = {0};
  int64_t inner = 0, count = 0, all = 1;
  if (host->graph->value_type(graph, value, &type) != KD_OK ||
      !fam_block_of(out, &type, &inner, &count) || inner != 1 || !out->rank)
    return false;
  for (uint32_t i = 0; i < out->rank; i++)
    all *= out->dims[i];
  bool is_row = count == out->dims[out->rank - 1] && e->row == FAM_NO_VALUE;
  if (is_row && (count != all || e->added != FAM_NO_VALUE))
    e->row = value;
  else if (count == all && e->added == FAM_NO_VALUE)
    e->added = value;
  else
    return false;
  return true;
}

/* Not Relu: cuBLASLt's makes 0 of NaN
 * (https://forums.developer.nvidia.com/t/329783), and the op does not. */
bool fam_epilogue_of(const kd_host *host, const kd_graph *graph, uint32_t root,
                     const uint32_t *nodes, uint32_t count,
                     fam_epilogue *out_epilogue) {
  fam_epilogue e = {FAM_NO_VALUE, FAM_NO_VALUE, FAM_PLAIN};
  uint32_t value = host->graph->node_output(graph, root, 0);
  kd_type out = {0};
  if (host->graph->value_type(graph, value, &out) != KD_OK) return false;
  for (uint32_t done = 0; done < count; done++) {
    uint32_t other = FAM_NO_VALUE;
    uint32_t at = reader_of(host, graph, value, nodes, count, &other);
    if (at == FAM_NO_VALUE || e.activation != FAM_PLAIN) return false;
    const kd_node *node = host->graph->node(graph, at);
    const char *op = host->node->op(node);
    if (strcmp(host->node->domain(node), "ai.onnx") != 0) return false;
    if (!strcmp(op, "Add")) {
      if (!add_operand(host, graph, &out, other, &e)) return false;
    } else if (!strcmp(op, "Gelu") &&
               !strcmp(host->node->attr_string(node, "approximate", "none"),
                       "tanh")) {
      e.activation = FAM_GELU;
    } else {
      return false;
    }
    value = host->graph->node_output(graph, at, 0);
  }
  *out_epilogue = e;
  return true;
}
