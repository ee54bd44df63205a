/* lost.h - lost devices: how a loss is detected, and which calls may still use their handles.
 *
 * Every failure of a device's call goes to keel_device_check, which alone decides that a device is
 * lost. From then on nothing new starts on it, and running work fails. When it has no references
 * any more, keel_device_reopen (context.c) frees all of it and opens it again. */
#ifndef KEEL_LOST_H
#define KEEL_LOST_H

#include "device/device.h"

/* Checks the status of a device's call or work; this thread's message may have details. Returns the
 * status, or, if the device is lost, KD_DEVICE_LOST with a message that has the device's name and
 * reason. The caller holds something of the device, or has entered it. */
kd_status keel_device_check(keel_device *device, kd_status status);

/* Fails with KD_DEVICE_LOST and the same message. */
keel_status keel_device_fail_lost(keel_device *device);

/* Between enter and leave the device's handles stay valid. Returns whether it is lost; the
 * caller may then only free things. NULL is the host. */
static inline bool keel_lost_enter(keel_device *device) {
  if (!device || !device->can_be_lost) return false;
  /* Both are seq_cst: either this thread sees that the device is lost, or
   * keel_device_wait_unused sees this thread. */
  atomic_fetch_add(&device->users, 1);
  return atomic_load(&device->lost);
}
static inline void keel_lost_leave(keel_device *device) {
  /* release: pairs with the load in keel_device_wait_unused */
  if (!device || !device->can_be_lost) return;
  assert(atomic_load(&device->users));
  atomic_fetch_sub_explicit(&device->users, 1, memory_order_release);
}

/* Enters a device to use it. Returns KD_OK, or KD_DEVICE_LOST (it has not been entered). */
static inline keel_status keel_device_enter(keel_device *device) {
  if (!keel_lost_enter(device)) return KD_OK;
  keel_lost_leave(device);
  return keel_device_fail_lost(device);
}

/* A lost device is not reopened while it is pinned: by plans and their parts, which keep
 * copies of its handles. NULL does nothing. */
void keel_device_pin(keel_device *device);
void keel_device_unpin(keel_device *device);

/* Waits until no thread is inside a lost device. */
void keel_device_wait_unused(keel_device *device);

#endif /* KEEL_LOST_H */
