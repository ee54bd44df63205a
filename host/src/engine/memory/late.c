/* late.c - makes a copy of a constant in a device's memory when it is first used.
 *
 * The copy is work in the device's order, which nobody waits for. If work ahead of it fails, what it
 * wrote is not defined: the constant is kept until the copy is known to have succeeded, and copied
 * again to the same memory where it has not. */
#include "memory/late.h"

#include "device/device.h"
#include "device/failures.h"
#include "memory/copy.h"
#include "memory/transfer.h"

keel_status keel_late_create(keel_tensor *constant, keel_device *device,
                             keel_tensor **out_tensor) {
  keel_tensor *tensor = keel_tensor_new(constant->context);
  keel_late *late = tensor ? calloc(1, sizeof *late) : NULL;
  if (!late) {
    keel_tensor_release(tensor);
    return keel_no_memory(sizeof *late);
  }
  pthread_mutex_init(&late->lock, NULL);
  late->constant = keel_tensor_retain(constant);
  late->device = device;
  tensor->type = constant->type;
  tensor->late = late;
  *out_tensor = tensor;
  return KD_OK;
}

/* With the lock held. */
static keel_status late_make(keel_late *late) {
  keel_tensor *made = NULL;
  keel_status status = keel_share(late->constant, late->device, &made);
  if (status == KD_UNIMPLEMENTED)
    status = keel_transfer_begin(late->constant, late->device, &made);
  if (status != KD_OK) return status;
  /* release: publishes it */
  atomic_store_explicit(&late->there, made, memory_order_release);
  return KD_OK;
}

/* Finds out whether the copy has succeeded, if that is known by now; *out_failed: it has not. With the
 * lock held. */
static void late_check(keel_late *late, bool *out_failed) {
  const keel_buffer *buffer = late->there->buffer;
  uint64_t written =
      buffer ? atomic_load_explicit(&buffer->written, memory_order_relaxed) : 0;
  *out_failed = false;
  /* acquire: what was noted of it */
  if (atomic_load_explicit(&late->device->failures.settled,
                           memory_order_acquire) < written)
    return;
  *out_failed = keel_failures_check(buffer) != KD_OK;
  if (*out_failed) return;
  keel_tensor_release(late->constant);
  late->constant = NULL;
  atomic_store_explicit(&late->sure, true, memory_order_release);
}

/* With the lock held. */
static keel_status late_renew(keel_late *late) {
  bool failed = false;
  if (!late->there) return late_make(late);
  if (!late->sure) late_check(late, &failed);
  return failed ? keel_transfer_into(late->constant, late->there) : KD_OK;
}

keel_status keel_late_get(keel_tensor *tensor, keel_tensor **out_there) {
  keel_late *late = tensor->late;
  keel_status status = KD_OK;
  if (!atomic_load_explicit(&late->sure, memory_order_acquire)) {
    pthread_mutex_lock(&late->lock);
    status = late_renew(late);
    pthread_mutex_unlock(&late->lock);
  }
  *out_there = keel_late_there(tensor);
  return status;
}

bool keel_late_stays(const keel_tensor *tensor) {
  keel_late *late = tensor->late;
  bool failed = false;
  if (!late || atomic_load_explicit(&late->sure, memory_order_acquire))
    return true;
  pthread_mutex_lock(&late->lock);
  if (late->there) late_check(late, &failed);
  bool stays = !late->there || late->sure;
  pthread_mutex_unlock(&late->lock);
  return stays;
}
