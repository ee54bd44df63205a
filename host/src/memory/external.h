/* external.h - memory that goes from one plugin's device to another's as a descriptor. */
#ifndef KEEL_INSIDE_EXTERNAL_H
#define KEEL_INSIDE_EXTERNAL_H

#include "device/device.h"
#include "values/tensor.h"

/* The same data as a tensor of another device, which has it in the same memory: where that
 * was made to be exported, and the other device takes it. It holds the memory as long as it
 * lives. Returns KD_OK, KD_UNIMPLEMENTED (it has to be copied), or the failure of the work
 * that makes the data. */
keel_status keel_external_share(keel_tensor *tensor, keel_device *device,
                                keel_tensor **out_tensor);

#endif /* KEEL_INSIDE_EXTERNAL_H */
