/* reorder.c - keel::Reorder, made of the conversions of a plugin that has own layouts. */
#include "loader/loader.h"
#include "ops/node.h"

/* Row-major to row-major occurs if this device lacks the layout that the program was
 * planned for. */
static kd_status copy_plainly(const kd_launch *launch, kd_stream *stream) {
  const keel_plugin *plugin = launch->data;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  if (x->buffer && y->buffer && plugin->memory.copy)
    return x->size
               ? plugin->memory.copy(launch->device, stream, x->buffer,
                                     x->offset, y->buffer, y->offset, x->size)
               : KD_OK;
  if (stream || !x->data || !y->data)
    return keel_fail(
        KD_UNIMPLEMENTED,
        "%s cannot copy within its memory (slot memory.copy is NULL)",
        plugin->name);
  if (x->size) memcpy(y->data, x->data, x->size);
  return KD_OK;
}

static kd_status reorder_it(kd_kernel *kernel, kd_stream *stream,
                            const kd_launch *launch) {
  const keel_plugin *plugin = launch->data;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  (void)kernel;
  if (x->layout == y->layout) return copy_plainly(launch, stream);
  return x->layout == KD_LAYOUT_ROW_MAJOR
             ? plugin->layouts.from_rows(launch->device, stream, x, y)
             : plugin->layouts.to_rows(launch->device, stream, x, y);
}

static kd_status reorder_takes(kd_device *device, const kd_node *node) {
  uint32_t from = keel_node_layout(node, 0), to = node->output_layout;
  (void)device;
  return from == KD_LAYOUT_ROW_MAJOR || to == KD_LAYOUT_ROW_MAJOR
             ? KD_OK
             : keel_fail(KD_UNIMPLEMENTED,
                         "Reorder from layout %#x to layout %#x",
                         (unsigned)from, (unsigned)to);
}

void keel_reorder_kernel(keel_plugin *plugin, kd_kernel_def *def) {
  *def = (kd_kernel_def){.struct_size = sizeof *def,
                         .flags = KD_KERNEL_ANY_SHAPE | KD_KERNEL_OWN_LAYOUT,
                         .domain = "keel",
                         .op = "Reorder",
                         .opset_max = UINT32_MAX,
                         .data = plugin,
                         .supports = reorder_takes,
                         .enqueue = reorder_it};
  for (uint32_t i = 0; i < KD_MAX_TYPED_INPUTS; i++)
    def->input_types[i] = UINT64_MAX;
  for (uint32_t i = 0; i < KD_MAX_TYPED_OUTPUTS; i++)
    def->output_types[i] = UINT64_MAX;
}
