/* late.h - copies of constants in a device's memory that are made at their first use: a kernel that
 * has taken its constants never uses them, and kernels are created before. */
#ifndef KEEL_LATE_H
#define KEEL_LATE_H

#include "values/tensor.h"

/* Makes a ready tensor that stands for a constant in the memory of `device`. It has no data. Those that
 * may meet one ask for the copy: launches and views in a step's call, memory plans and recordings,
 * keel_tensor_to_host. */
keel_status keel_late_create(keel_tensor *constant, keel_device *device,
                             keel_tensor **out_tensor);

/* The copy that a tensor stands for, or the tensor itself; NULL: the copy is not made yet. The tensor
 * keeps it. Acquire: its content. */
static inline keel_tensor *keel_late_there(const keel_tensor *tensor) {
  return tensor->late
             ? atomic_load_explicit(&tensor->late->there, memory_order_acquire)
             : (keel_tensor *)(uintptr_t)tensor;
}

/* The same; makes the copy if nobody has, and again if it has failed. Work on the device that is
 * enqueued from now on finds the data. Any thread. */
keel_status keel_late_get(keel_tensor *tensor, keel_tensor **out_there);

/* Whether the copy, if there is one, is known to have succeeded: readers may keep its address. */
bool keel_late_stays(const keel_tensor *tensor);

#endif /* KEEL_LATE_H */
