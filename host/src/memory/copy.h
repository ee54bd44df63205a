/* copy.h - moving tensors between the host and devices. */
#ifndef KEEL_COPY_H
#define KEEL_COPY_H

#include "values/tensor.h"

/* The same data where work on `device` can read it: without a copy where the device takes
 * host memory as it is, which nobody may write to then. Else as keel_copy_to. */
keel_status keel_share_or_copy(keel_tensor *tensor, keel_device *device,
                               keel_tensor **out_tensor);

/* A copy of a ready tensor, row-major, in the memory of `device` (NULL: of the
 * host). The shortest way is taken: an address that both reach, a peer copy,
 * else through host memory. */
keel_status keel_copy_to(keel_tensor *tensor, keel_device *device,
                         keel_tensor **out_tensor);

/* The same into `target`, of the same type and row-major, in the order of its device's
 * work. */
keel_status keel_copy_into(keel_tensor *tensor, keel_tensor *target);

/* The value row-major: itself, or a copy that the device makes whose layout it has
 * (memory/layout.c). */
keel_status keel_copy_rows(keel_tensor *tensor, keel_tensor **out_tensor);

#endif /* KEEL_COPY_H */
