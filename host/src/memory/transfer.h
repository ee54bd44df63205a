/* transfer.h - copies that nobody waits for. */
#ifndef KEEL_TRANSFER_H
#define KEEL_TRANSFER_H

#include "device/device.h"
#include "values/tensor.h"

/* Whether work on `device` (NULL: of the host) can read a ready tensor where it lies: it is
 * the device's own, or both go by host addresses, and nothing is late. A device with a
 * stream reads late, so that pooled memory could be somebody else's by then; what is the
 * application's is not given back before (heap.c). */
static inline bool keel_transfer_reaches(const keel_tensor *tensor,
                                         const keel_device *device) {
  const keel_device *place = keel_tensor_place(tensor);
  if (tensor->buffer && tensor->buffer->class == KEEL_RAGGED) return false;
  if (place == device) return true;
  if (!keel_device_addressable(place) || !keel_device_addressable(device) ||
      (place && place->stream))
    return false;
  return !device || !device->stream ||
         (tensor->buffer && tensor->buffer->class == KEEL_UNPOOLED);
}

/* The same where the data must also begin where the device's own memory would. */
static inline bool keel_transfer_in_place(const keel_tensor *tensor,
                                          const keel_device *device) {
  if (!keel_transfer_reaches(tensor, device)) return false;
  if (!device || keel_tensor_place(tensor) == device) return true;
  uint32_t alignment = device->space.alignment;
  return keel_aligned_to(tensor->data, alignment ? alignment : 64);
}

/* Begins to copy a ready tensor to the memory of `device` (NULL: the host's).
 *
 * Out of a device, *out_tensor is pending until the data has come. Into one, or
 * between two of one plugin, it is ready: work that is given to the device from
 * now on finds the data. What lies there already is retained. Where a plugin can
 * say nothing of when a copy has ended, it is waited for here, as in
 * keel_copy_to. Returns KD_OK, or why the copy can't begin. */
keel_status keel_transfer_begin(keel_tensor *tensor, keel_device *device,
                                keel_tensor **out_tensor);

/* Overwrites `target`, of the same type and row-major, which is a device's: work that is
 * given to the device from now on finds the data, and earlier work has not. Otherwise as
 * above. */
keel_status keel_transfer_into(keel_tensor *tensor, keel_tensor *target);

/* Whether data goes from one device to the other without the host. */
bool keel_transfer_direct(const keel_device *from, const keel_device *to);

/* Waits for all copies of the device to end. */
void keel_transfers_end(keel_device *device);

#endif /* KEEL_TRANSFER_H */
