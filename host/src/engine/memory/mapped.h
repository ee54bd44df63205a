/* mapped.h - device memory that the host reads in place.
 *
 * Host-visible, cached device memory has no address that both sides may use at any time,
 * but the plugin can map it. The host's view is a tensor of its own: while it lives, it
 * retains the device's buffer, and nothing writes to that. */
#ifndef KEEL_MAPPED_H
#define KEEL_MAPPED_H

#include "device/device.h"
#include "values/tensor.h"

/* Whether the host can map a tensor's memory, and that is cheaper than a copy. */
bool keel_mapped_fits(const keel_tensor *tensor);

/* Makes the data readable for the host, row-major: mapped if possible, otherwise copied.
 * done: its work is already complete; otherwise waits for the device. */
keel_status keel_mapped_or_copy(keel_tensor *tensor, bool done,
                                keel_tensor **out_tensor);

/* Whether `device` (NULL: the host) may read a mapping like host memory: only if it reads
 * synchronously. */
static inline bool keel_device_reads_mapped(const keel_device *device) {
  return !device || (keel_device_addressable(device) && !device->stream);
}

/* Whether a tensor is the host's view of a device's memory; and a tensor of that memory
 * itself. */
static inline bool keel_mapped_of(const keel_tensor *tensor,
                                  const keel_device *device) {
  return tensor->buffer && tensor->buffer->class == KEEL_MAPPED &&
         tensor->buffer->owner->heap->device == device;
}
keel_status keel_mapped_original(keel_tensor *tensor, keel_tensor **out_tensor);

#endif /* KEEL_MAPPED_H */
