/* lost.c - decides that a device is lost, and waits until no thread is inside it. */
#include "device/lost.h"
#include "device/context.h"
#include "device/failures.h"

#include <sched.h>

void keel_device_wait_unused(keel_device *device) {
  while (atomic_load(&device->users))
    sched_yield();
}

void keel_device_pin(keel_device *device) {
  if (device) atomic_fetch_add(&device->pins, 1);
}

void keel_device_unpin(keel_device *device) {
  assert(!device || atomic_load(&device->pins));
  /* release: pairs with the acquire in keel_device_reopen */
  if (device) atomic_fetch_sub_explicit(&device->pins, 1, memory_order_release);
}

keel_status keel_device_fail_lost(keel_device *device) {
  pthread_mutex_lock(&device->lost_lock);
  keel_fail(
      KD_DEVICE_LOST,
      "%s was lost: %s; its memory is gone; keel_device_reopen opens it again",
      device->name, device->lost_reason);
  pthread_mutex_unlock(&device->lost_lock);
  return KD_DEVICE_LOST;
}

/* Only the first loss since it was opened is reported. */
static void mark_lost(keel_device *device, const char *words) {
  pthread_mutex_lock(&device->lost_lock);
  bool first = !atomic_load(&device->lost);
  if (first) {
    snprintf(device->lost_reason, sizeof device->lost_reason, "%.*s",
             (int)sizeof device->lost_reason - 1, words);
    atomic_store(&device->lost, true);
    atomic_store_explicit(&device->ready, false, memory_order_release);
  }
  pthread_mutex_unlock(&device->lost_lock);
  if (first)
    keel_log_line(&device->context->log, KD_LOG_WARNING, "%s was lost: %s",
                  device->name, words);
}

/* Adds the work that was under way, unless a thread has the lock: if its own call reports that the
 * device is lost, that thread adds the work itself. */
static void name_work(keel_device *device) {
  if (!device->stream || pthread_mutex_trylock(&device->stream_lock)) return;
  keel_failures_while_all(device, KD_DEVICE_LOST);
  pthread_mutex_unlock(&device->stream_lock);
}

/* Asks the device itself rather than trusting the call's status: work that waited for
 * another device fails with that device's status. */
kd_status keel_device_check(keel_device *device, kd_status status) {
  if (status == KD_OK || status == KD_BUSY || !device->can_be_lost)
    return status;
  if (!atomic_load(&device->lost)) {
    char words[4096] = "";
    if (keel_has_error()) snprintf(words, sizeof words, "%s", keel_message());
    keel_clear_error();
    if (device->plugin->table.device_status(device->handle) != KD_DEVICE_LOST) {
      keel_clear_error();
      if (*words) keel_fail_text(status, words);
      return status;
    }
    if (*words)
      keel_fail_text(KD_DEVICE_LOST, words);
    else if (!keel_has_error())
      keel_fail_text(KD_DEVICE_LOST, "no reason given");
    name_work(device);
    mark_lost(device, keel_message());
  }
  return keel_device_fail_lost(device);
}
