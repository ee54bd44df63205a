/* mapped.h - device memory that the host reads where it lies.
 *
 * A device's memory that is host visible and cached has no address that both sides may use
 * at any time, but its plugin maps it. The host's view of a tensor is another tensor: while
 * one is held, so is the device's buffer, which nobody writes to then. */
#ifndef KEEL_MAPPED_H
#define KEEL_MAPPED_H

#include "device/device.h"
#include "values/tensor.h"

/* Whether the host may map a tensor's memory, and that is less work than a copy. */
bool keel_mapped_fits(const keel_tensor *tensor);

/* The same data, row-major, where the host reads it: mapped, where it can be, else copied.
 * done: its work is; else the device's work is waited for. */
keel_status keel_mapped_or_copy(keel_tensor *tensor, bool done,
                                keel_tensor **out_tensor);

/* Whether `device` (NULL: the host) reads what is mapped as it reads the host's memory:
 * nothing that it reads late. */
static inline bool keel_device_reads_mapped(const keel_device *device) {
  return !device || (keel_device_addressable(device) && !device->stream);
}

/* Whether a tensor is the host's view of a device's memory; and that memory again. */
static inline bool keel_mapped_of(const keel_tensor *tensor,
                                  const keel_device *device) {
  return tensor->buffer && tensor->buffer->class == KEEL_MAPPED &&
         tensor->buffer->owner->heap->device == device;
}
keel_status keel_mapped_home(keel_tensor *tensor, keel_tensor **out_tensor);

#endif /* KEEL_MAPPED_H */
