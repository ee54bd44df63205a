/* kernels.c - kernel definitions behind the layers. */
#include "device/context.h"
#include "layers/layer.h"

static kd_status layers_kernels_create(kd_device *device,
                                       const kd_kernel_def *def,
                                       const kd_node *node,
                                       kd_kernel **out_kernel) {
  const wrapped_def *own = def->data;
  kd_kernel *made = NULL;
  keel_layer_about("%s", own->inner.op);
  CALL(own->layer, "kernel.create",
       own->inner.create(device, &own->inner, node, &made));
  object *o = keel_layer_track(own->layer, made, OBJECT_KERNEL, device, 0);
  if (o) o->def = own;
  *out_kernel = made;
  return KD_OK;
}

static void kernels_destroy(kd_kernel *kernel) {
  const object *o = keel_layer_find(kernel, OBJECT_KERNEL);
  keel_layers_enter("kernel.destroy");
  if (!o) {
    keel_layer_report(NULL,
                      "kernel.destroy: there is no such instance, or it was"
                      " destroyed");
    return;
  }
  const wrapped_def *own = o->def;
  keel_layer_untrack(kernel, OBJECT_KERNEL);
  own->inner.destroy(kernel);
}

kd_status keel_layer_launch_good(const layer *l, const char *slot,
                                 kd_stream *stream, const kd_launch *launch,
                                 bool made_later) {
  if (!settings.validation) return KD_OK;
  REFUSE(keel_layer_stream_good(l, slot, launch->device, stream),
         "validation refused %s", slot);
  for (uint32_t i = 0; i < launch->input_count; i++)
    if (launch->inputs[i].buffer &&
        !keel_layer_range_good(
            l, slot, launch->device, launch->inputs[i].buffer,
            launch->inputs[i].offset,
            launch->inputs[i].strides ? 0 : launch->inputs[i].size))
      return keel_fail(KD_INVALID_ARGUMENT, "validation refused input %u", i);
  for (uint32_t i = 0; !made_later && i < launch->output_count; i++)
    if (launch->outputs[i].buffer &&
        !keel_layer_range_good(
            l, slot, launch->device, launch->outputs[i].buffer,
            launch->outputs[i].offset, launch->outputs[i].size))
      return keel_fail(KD_INVALID_ARGUMENT, "validation refused output %u", i);
  return KD_OK;
}

/* set_output finds the host's launch by the address that it gave: the launch
 * itself is passed on, its data exchanged for the call. */
static kd_status layers_kernels_enqueue(kd_kernel *kernel, kd_stream *stream,
                                        const kd_launch *launch) {
  const wrapped_def *own = launch->data;
  layer *l = own->layer;
  KEEL_TRY(keel_layer_launch_good(l, "kernel.enqueue", stream, launch,
                                  own->inner.flags & KD_KERNEL_DYNAMIC_OUTPUT));
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  open->data = own->inner.data;
  keel_layer_about("%s", own->inner.op);
  kd_status status = keel_layers_enter("kernel.enqueue");
  uint64_t began = settings.trace ? keel_now() : 0;
  if (status == KD_OK) {
    object *inside = keel_layer_stream_enter(l, "kernel.enqueue", stream);
    status = keel_layer_stream_leave(
        inside, own->inner.enqueue(kernel, stream, launch));
  }
  open->data = own;
  keel_layer_check_call(l, "kernel.enqueue", began, status);
  return status;
}

static uint64_t taken(kd_kernel *kernel) {
  const object *o = keel_layer_find(kernel, OBJECT_KERNEL);
  return o ? o->def->inner.taken(kernel) : 0;
}

static uint64_t layers_kernels_workspace(kd_kernel *kernel,
                                         const kd_launch *launch) {
  const wrapped_def *own = launch->data;
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  open->data = own->inner.data;
  uint64_t size = own->inner.workspace(kernel, launch);
  open->data = own;
  return size;
}

keel_status keel_layer_wrap_kernels(keel_plugin *plugin, layer *l) {
  wrapped_def *defs = keel_arena_take(
      &plugin->context->arena, (plugin->kernel_count + 1) * sizeof *defs);
  if (!defs) return KD_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < plugin->kernel_count; i++) {
    kd_kernel_def *def = &plugin->kernels[i];
    defs[i].inner = *def;
    defs[i].layer = l;
    def->data = &defs[i];
    def->enqueue = layers_kernels_enqueue;
    if (def->create) def->create = layers_kernels_create;
    if (def->destroy) def->destroy = kernels_destroy;
    if (def->taken) def->taken = taken;
    if (def->workspace) def->workspace = layers_kernels_workspace;
  }
  return KD_OK;
}
