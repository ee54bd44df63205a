/* lost.h - devices that stop working: who finds out, and who may still use their handles.
 *
 * Every failure of a device's call comes to keel_lost_judge, which alone decides that a
 * device is lost. From then on nothing new is begun on it, and what is under way fails; when
 * nobody holds anything of it any more, keel_device_reopen (context.c) gives all of it back
 * and opens it again. */
#ifndef KEEL_LOST_H
#define KEEL_LOST_H

#include "device/device.h"

/* What a device's call returned, or what its work failed with, with this thread's message,
 * if it left one. Returns the status; KD_DEVICE_LOST, with a message that has the device's
 * name and words, where the device is lost. Whoever calls holds something of the device, or
 * has entered it. */
kd_status keel_lost_judge(keel_device *device, kd_status status);

/* KD_DEVICE_LOST, with the same message. */
keel_status keel_lost_refuse(keel_device *device);

/* Between these two a device's handles stay as they are. Whether it is lost: then only
 * what frees something goes on. NULL is the host. */
static inline bool keel_lost_enter(keel_device *device) {
  if (!device || !device->losable) return false;
  /* Both are sequentially consistent: either this thread sees that the device is lost, or
   * keel_lost_await sees this thread. */
  atomic_fetch_add(&device->inside, 1);
  return atomic_load(&device->lost);
}
static inline void keel_lost_leave(keel_device *device) {
  /* release: who awaits sees what was done inside */
  if (device && device->losable)
    atomic_fetch_sub_explicit(&device->inside, 1, memory_order_release);
}

/* The same for who wants to use it. Returns KD_OK, or KD_DEVICE_LOST: it is not entered. */
static inline keel_status keel_device_enter(keel_device *device) {
  if (!keel_lost_enter(device)) return KD_OK;
  keel_lost_leave(device);
  return keel_lost_refuse(device);
}

/* A lost device is not opened again as long as somebody has such a hold: plans and what
 * they consist of, which keep copies of handles. NULL does nothing. */
void keel_device_hold(keel_device *device);
void keel_device_unhold(keel_device *device);

/* Waits until nobody is inside a device that is lost. */
void keel_lost_await(keel_device *device);

#endif /* KEEL_LOST_H */
