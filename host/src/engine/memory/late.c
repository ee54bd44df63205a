/* late.c - makes a copy of a constant in a device's memory when it is first used. */
#include "memory/late.h"

#include "device/device.h"
#include "memory/copy.h"

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
  /* waited for: work ahead of it that fails would leave a copy that nobody makes again */
  if (status == KD_UNIMPLEMENTED)
    status = keel_copy_to(late->constant, late->device, &made);
  if (status != KD_OK) return status;
  keel_tensor_release(late->constant); /* its memory may go before the copy's */
  late->constant = NULL;
  /* release: publishes it */
  atomic_store_explicit(&late->there, made, memory_order_release);
  return KD_OK;
}

keel_status keel_late_get(keel_tensor *tensor, keel_tensor **out_there) {
  keel_late *late = tensor->late;
  *out_there = keel_late_there(tensor);
  if (*out_there) return KD_OK;
  pthread_mutex_lock(&late->lock);
  keel_status status =
      keel_late_there(tensor) ? KD_OK : late_make(late); /* others wait */
  pthread_mutex_unlock(&late->lock);
  *out_there = keel_late_there(tensor);
  return status;
}
