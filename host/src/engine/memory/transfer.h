/* transfer.h - asynchronous copies. */
#ifndef KEEL_TRANSFER_H
#define KEEL_TRANSFER_H

#include "device/device.h"
#include "values/tensor.h"

/* Whether work on `device` (NULL: the host) can read a ready tensor in place: it is in the
 * device's own memory, or both use host addresses and the device reads synchronously. A
 * device with a stream reads later, when pooled memory may have been reused; the
 * application's memory is not returned before (heap.c). */
static inline bool keel_transfer_reaches(const keel_tensor *tensor,
                                         const keel_device *device) {
  const keel_device *place = keel_tensor_location(tensor);
  if (tensor->buffer && tensor->buffer->class == KEEL_MISALIGNED) return false;
  if (place == device) return true;
  if (!keel_device_addressable(place) || !keel_device_addressable(device) ||
      (place && place->stream))
    return false;
  return !device || !device->stream ||
         (tensor->buffer && tensor->buffer->class == KEEL_UNPOOLED);
}

/* The same, if the data must also have the alignment of the device's own memory. */
static inline bool keel_transfer_in_place(const keel_tensor *tensor,
                                          const keel_device *device) {
  if (!keel_transfer_reaches(tensor, device)) return false;
  if (!device || keel_tensor_location(tensor) == device) return true;
  uint32_t alignment = device->space.alignment;
  return keel_aligned_to(tensor->data, alignment ? alignment : 64);
}

/* Starts copying a ready tensor to the memory of `device` (NULL: the host).
 *
 * For a copy out of a device, *out_tensor is pending until the data has arrived. For a copy
 * in, or between two devices of one plugin, it is ready: work that is enqueued from now on
 * finds the data. A tensor that is already there is retained. If the plugin cannot tell
 * when a copy has ended, this waits, as keel_copy_to does. Returns KD_OK, or why the copy
 * cannot start. */
keel_status keel_transfer_begin(keel_tensor *tensor, keel_device *device,
                                keel_tensor **out_tensor);

/* Overwrites a device's tensor, which has the same type and is row-major: work enqueued
 * from now on finds the new data, earlier work the old. Otherwise as above. */
keel_status keel_transfer_into(keel_tensor *tensor, keel_tensor *target);

/* Whether data can go from one device to the other without the host. */
bool keel_transfer_direct(const keel_device *from, const keel_device *to);

/* Waits for both streams after a failure: their work may use memory that is freed next. Returns
 * the reason of the failure, or KD_OK if it has been reported. */
keel_status keel_transfers_settle(keel_device *device);

/* Waits for all copies of the device, and for tasks that wait for the end of its work. */
void keel_transfers_end(keel_device *device);

#endif /* KEEL_TRANSFER_H */
