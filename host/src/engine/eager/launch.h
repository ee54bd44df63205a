/* launch.h - one launch of a kernel. */
#ifndef KEEL_LAUNCH_H
#define KEEL_LAUNCH_H

#include <keel/program.h>

#include "device/device.h"
#include "device/work.h"
#include "eager/call_site.h"
#include "memory/transfer.h"
#include "values/tensor.h"

/* Runs a specialisation. out_types: NULL for each output whose shape the kernel sets. */
keel_status keel_launch_run(keel_call_site *site,
                            const keel_specialisation *spec,
                            const keel_type *const *out_types,
                            keel_tensor *const *inputs, keel_tensor **outputs,
                            uint32_t donated);

/* Whether a kernel on `device` can read the tensor in place, as an argument in host memory
 * (host_argument) or in device memory. */
static inline bool keel_launch_in_place(const keel_tensor *tensor,
                                        const keel_device *device,
                                        bool host_argument) {
  return keel_transfer_in_place(tensor, host_argument ? NULL : device);
}

/* Points a view at a tensor's data. The view has the tensor's type, or one of as many
 * elements. */
static inline void keel_launch_point(kd_tensor *view,
                                     const keel_tensor *tensor) {
  const keel_buffer *buffer = tensor->buffer;
  view->buffer = buffer ? buffer->handle : NULL;
  view->data = tensor->data;
  view->offset = tensor->offset;
  view->flags = !buffer || !buffer->heap->device ? KD_TENSOR_HOST : 0;
}

/* Whether a value may be overwritten once its readers have ended: it has no other reference, and is
 * alone in pooled memory of the heap, packed. */
static inline bool keel_launch_may_reuse(const keel_tensor *tensor,
                                         const keel_heap *heap) {
  return tensor->buffer && !tensor->strides && tensor->buffer->heap == heap &&
         tensor->buffer->class < KEEL_HEAP_CLASSES && tensor->offset == 0 &&
         keel_refs_unique(&tensor->refs) && keel_buffer_unique(tensor->buffer);
}

/* Bit i: the output may or must share the memory of input i. */
static inline uint32_t keel_alias_inputs(const kd_kernel_def *def,
                                         uint32_t output) {
  uint32_t inputs = output ? 0 : def->inplace;
  for (uint32_t i = 0; i < def->alias_count; i++)
    if (def->aliases[i].output == output)
      inputs |= UINT32_C(1) << def->aliases[i].input;
  return inputs;
}

/* The input whose memory the output must share, or KEEL_ABSENT. */
static inline uint32_t keel_alias_needed(const kd_kernel_def *def,
                                         uint32_t output) {
  for (uint32_t i = 0; i < def->alias_count; i++)
    if (def->aliases[i].output == output &&
        (def->aliases[i].flags & KD_ALIAS_MUST))
      return def->aliases[i].input;
  return KEEL_ABSENT;
}

/* What a launch is, in messages. */
static inline keel_work_name keel_launch_name(const keel_call_site *site,
                                              const keel_specialisation *spec) {
  return (keel_work_name){site->op->schema->name, site->where, spec->types,
                          spec->input_count, keel_type_text};
}

/* Adds to this thread's message, if the kernel left one, what was run. Returns `status`. */
keel_status keel_launch_failed(const keel_call_site *site,
                               const keel_specialisation *spec,
                               kd_status status);

/* kd_host.set_output */
kd_status keel_launch_set_output(const kd_launch *view, uint32_t index,
                                 uint32_t rank, const int64_t *dims,
                                 kd_tensor *out_tensor);

#endif /* KEEL_LAUNCH_H */
