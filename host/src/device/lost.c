/* lost.c - decides that a device is lost, and waits until no thread is inside it. */
#include "device/lost.h"
#include "device/context.h"

#include <sched.h>

void keel_lost_await(keel_device *device) {
  while (atomic_load(&device->inside))
    sched_yield();
}

void keel_device_hold(keel_device *device) {
  if (device) atomic_fetch_add(&device->held, 1);
}

void keel_device_unhold(keel_device *device) {
  /* release: pairs with the acquire in keel_device_reopen */
  if (device) atomic_fetch_sub_explicit(&device->held, 1, memory_order_release);
}

keel_status keel_lost_refuse(keel_device *device) {
  pthread_mutex_lock(&device->words_lock);
  keel_fail(
      KD_DEVICE_LOST,
      "%s was lost: %s; its memory is gone; keel_device_reopen opens it again",
      device->name, device->words);
  pthread_mutex_unlock(&device->words_lock);
  return KD_DEVICE_LOST;
}

/* Only the first loss since it was opened is reported. */
static void lose(keel_device *device, const char *words) {
  pthread_mutex_lock(&device->words_lock);
  bool first = !atomic_load(&device->lost);
  if (first) {
    snprintf(device->words, sizeof device->words, "%.*s",
             (int)sizeof device->words - 1, words);
    atomic_store(&device->lost, true);
    atomic_store_explicit(&device->ready, false, memory_order_release);
  }
  pthread_mutex_unlock(&device->words_lock);
  if (first)
    keel_log_line(&device->context->log, KD_LOG_WARNING, "%s was lost: %s",
                  device->name, words);
}

/* Asks the device itself rather than trusting the call's status: work that waited for
 * another device fails with that device's status. */
kd_status keel_lost_judge(keel_device *device, kd_status status) {
  if (status == KD_OK || status == KD_BUSY || !device->losable) return status;
  if (!atomic_load(&device->lost)) {
    char words[4096] = "";
    if (keel_said()) snprintf(words, sizeof words, "%s", keel_message());
    keel_hush();
    if (device->plugin->table.device_status(device->handle) != KD_DEVICE_LOST) {
      keel_hush();
      if (*words) keel_fail_text(status, words);
      return status;
    }
    lose(device, *words        ? words
                 : keel_said() ? keel_message()
                               : "no reason given");
  }
  return keel_lost_refuse(device);
}
