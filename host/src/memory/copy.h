/* copy.h - moving tensors between the host and devices. */
#ifndef KEEL_COPY_H
#define KEEL_COPY_H

#include "values/tensor.h"

/* A copy of a ready tensor, row-major, in the memory of `device` (NULL: of the
 * host). The shortest way is taken: an address that both reach, a peer copy,
 * else through host memory. */
keel_status keel_copy_to(keel_tensor *tensor, keel_device *device,
                         keel_tensor **out_tensor);

/* A copy in another layout, on the device that has it. */
keel_status keel_copy_layout(keel_tensor *tensor, uint32_t layout,
                             keel_tensor **out_tensor);

/* Waits until the device has done all that was enqueued. */
keel_status keel_device_drain(keel_device *device);

#endif /* KEEL_COPY_H */
