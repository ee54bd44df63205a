/* external.h - memory shared between devices of different plugins by a descriptor. */
#ifndef KEEL_INSIDE_EXTERNAL_H
#define KEEL_INSIDE_EXTERNAL_H

#include "device/device.h"
#include "values/tensor.h"

/* Shares a tensor's memory with another device, without a copy, if the memory was allocated
 * for export and the other device accepts it. The new tensor keeps the memory alive.
 * Returns KD_OK, KD_UNIMPLEMENTED (it has to be copied), or the failure of the work that
 * makes the data. */
keel_status keel_external_share(keel_tensor *tensor, keel_device *device,
                                keel_tensor **out_tensor);

#endif /* KEEL_INSIDE_EXTERNAL_H */
