/* conv_node.c - what a convolution's node asks for, where its tensors lie in blocks. */
#include "blocked.h"
#include "conv/conv.h"

bool cpu_read_conv(const kd_node *node, cpu_conv_node *out) {
  const kd_node_table *read = cpu_host->node;
  kd_type x, w, y, z;
  if (read->input_type(node, 0, &x) != KD_OK ||
      read->input_type(node, 1, &w) != KD_OK ||
      read->output_type(node, 0, &y) != KD_OK || x.rank < 3 || x.rank > 5)
    return false;
  for (uint32_t i = 0; i < x.rank; i++)
    if (y.dims[i] < 1 || x.dims[i] < 1 || w.dims[i] < 1) return false;
  *out = (cpu_conv_node){.groups = read->attr_int(node, "group", 1),
                         .images = x.dims[0],
                         .ins = w.dims[1],
                         .blocks_in = is_blocked(&x),
                         .blocks_out = is_blocked(&y)};
  out->has_sum =
      read->input_count(node) > 3 && read->input_type(node, 3, &z) == KD_OK;
  if (out->has_sum && is_blocked(&z) != is_blocked(&y)) return false;
  if (cpu_read_activation(node, &out->act) != KD_OK) return false;
  if (out->groups < 1 || w.dims[0] % out->groups || w.rank != x.rank ||
      x.dims[1] % out->groups || x.dims[1] / out->groups != w.dims[1])
    return false;
  out->outs = w.dims[0] / out->groups;
  kd_tensor in = {.dims = x.dims, .rank = x.rank};
  kd_tensor made = {.dims = y.dims, .rank = y.rank};
  if (!window_read(cpu_host, node, &in, &made, w.dims + 2, 0, &out->w))
    return false;
  window_fold(&out->w, out->groups > 1 ? CPU_NARROW_GROUPS : CPU_NARROW);
  return true;
}

kd_status cpu_make_conv(const cpu_conv_kind *kind, const kd_node *node,
                        kd_kernel **out_kernel) {
  kd_kernel *kernel = calloc(1, kind->size);
  if (!kernel) return FAIL(KD_OUT_OF_MEMORY, "no memory for a convolution");
  kd_status status = kind->read(node, kernel) ? KD_OK : KD_UNIMPLEMENTED;
  if (status == KD_OK) status = kind->make(kernel, node);
  if (status != KD_OK) {
    kind->destroy(kernel);
    return status;
  }
  *out_kernel = kernel;
  return KD_OK;
}
