/* copy.h - copies of tensors between the host and devices. */
#ifndef KEEL_COPY_H
#define KEEL_COPY_H

#include "device/work.h"
#include "values/tensor.h"

/* Makes the data readable for work on `device` without a copy, if the device can use the memory where
 * it is: nothing may write to it then. Returns KD_UNIMPLEMENTED if it can't. */
keel_status keel_share(keel_tensor *tensor, keel_device *device,
                       keel_tensor **out_tensor);

/* Makes the data readable for work on `device`: without a copy if the device can use host
 * memory directly (nothing may write to it then); otherwise like keel_copy_to. */
keel_status keel_share_or_copy(keel_tensor *tensor, keel_device *device,
                               keel_tensor **out_tensor);

/* Copies a ready tensor, row-major, to the memory of `device` (NULL: the host), by the
 * shortest way: a common address, a peer copy, or through host memory. */
keel_status keel_copy_to(keel_tensor *tensor, keel_device *device,
                         keel_tensor **out_tensor);

/* The same into `target`, which has the same type and is row-major, in its device's stream
 * order. */
keel_status keel_copy_into(keel_tensor *tensor, keel_tensor *target);

/* The value in row-major layout: itself, or a copy that the device makes whose layout it
 * has (memory/layout.c). */
keel_status keel_copy_rows(keel_tensor *tensor, keel_tensor **out_tensor);

/* A failed copy's or fill's status (KD_OK: it was none), with the device's own message, or
 * what failed. Judges whether the device is lost. */
keel_status keel_copy_failed(keel_device *device, kd_status status,
                             const char *what, uint64_t size);

/* A ticket for the copy or fill that the caller enqueues next, which writes a buffer, and is
 * noted as `what`. With the stream's lock held until then. */
static inline uint64_t keel_copy_begins(keel_device *device,
                                        keel_buffer *target, const char *what,
                                        const keel_type *type) {
  const keel_work_name name = {what, "", &type, 1, keel_type_text};
  uint64_t ticket = keel_failures_ticket(device);
  keel_failures_writes(target, ticket);
  keel_work_note(device, ticket, &name);
  return ticket;
}

#endif /* KEEL_COPY_H */
