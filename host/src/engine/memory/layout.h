/* layout.h - tensors in a plugin's own layouts: only the device that holds them knows their
 * layout and size. */
#ifndef KEEL_LAYOUT_H
#define KEEL_LAYOUT_H

#include "device/device.h"
#include "values/tensor.h"

/* Bytes of a tensor of this type in one of the device's own layouts; 0 if there is no such
 * layout for it. The device has been entered. */
uint64_t keel_layout_size(const keel_device *device, const keel_type *type,
                          uint32_t layout);

/* Makes a tensor in that layout. Returns KD_UNIMPLEMENTED if there is none. The device has
 * been entered. */
keel_status keel_layout_make(keel_device *device, const keel_type *type,
                             uint32_t layout, keel_tensor **out_tensor);

#endif /* KEEL_LAYOUT_H */
