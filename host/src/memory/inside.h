/* inside.h - copies and patterns in a device's own memory, in the order of its work. */
#ifndef KEEL_INSIDE_H
#define KEEL_INSIDE_H

#include "device/device.h"
#include "values/tensor.h"

/* Whether the device copies in its own memory (NULL, the host, is no device). What works
 * on host addresses at once has memcpy. */
static inline bool keel_inside_copies(const keel_device *device) {
  return device && device->plugin->memory.copy &&
         (device->stream || !keel_device_addressable(device));
}

/* Copies bytes of a ready tensor into another of the same device, for which
 * keel_inside_copies: behind the work that the device has, before what it is given from now
 * on. Both may be released at once. Returns KD_OK, or why the device can't. */
keel_status keel_inside_copy(const keel_tensor *source, uint64_t source_offset,
                             const keel_tensor *target, uint64_t target_offset,
                             uint64_t size);

/* Repeats a pattern of 1, 2, 4, 8 or 16 bytes over all of a tensor, whose size is a multiple
 * of it, in the same order. On a device that can't it is copied in. */
keel_status keel_inside_fill(keel_tensor *target, const void *pattern,
                             uint32_t pattern_size);

#endif /* KEEL_INSIDE_H */
