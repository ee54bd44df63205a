/* layout.h - tensors in layouts of a plugin's own: only the device whose memory they lie
 * in knows how, and how large they are. */
#ifndef KEEL_LAYOUT_H
#define KEEL_LAYOUT_H

#include "device/device.h"
#include "values/tensor.h"

/* Bytes of a tensor of this type in an own layout of the device, which is entered; 0:
 * there is no such layout, or not for it. */
uint64_t keel_layout_size(const keel_device *device, const keel_type *type,
                          uint32_t layout);

/* A tensor in that layout; KD_UNIMPLEMENTED: there is none. The device is entered. */
keel_status keel_layout_make(keel_device *device, const keel_type *type,
                             uint32_t layout, keel_tensor **out_tensor);

#endif /* KEEL_LAYOUT_H */
