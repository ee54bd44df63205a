/* device_copy.h - copies and fills within a device's own memory, in stream order. */
#ifndef KEEL_DEVICE_COPY_H
#define KEEL_DEVICE_COPY_H

#include "device/device.h"
#include "values/tensor.h"

/* Whether the device can copy within its own memory (NULL is the host: false). Synchronous
 * devices that work on host addresses use memcpy instead. */
static inline bool keel_device_can_copy(const keel_device *device) {
  return device && device->plugin->memory.copy &&
         (device->stream || !keel_device_addressable(device));
}

/* Copies bytes between two tensors of a device that can copy (see above), in stream order.
 * The source is ready. Both tensors may be released at once. Returns KD_OK, or why the
 * device cannot. */
keel_status keel_device_copy(const keel_tensor *source, uint64_t source_offset,
                             const keel_tensor *target, uint64_t target_offset,
                             uint64_t size);

/* Fills a tensor with a pattern of 1, 2, 4, 8 or 16 bytes, in stream order. The tensor's
 * size is a multiple of the pattern's. A device that cannot fill gets a copy. */
keel_status keel_device_fill(keel_tensor *target, const void *pattern,
                             uint32_t pattern_size);

#endif /* KEEL_DEVICE_COPY_H */
