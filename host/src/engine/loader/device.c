/* device.c - opening and closing a plugin's devices. */
#include "loader/device.h"

#include "device/failures.h"
#include "device/lost.h"
#include "device/stream.h"
#include "loader/clocks.h"
#include "loader/library.h"

/* Without one a wait for the lost device has nothing to wait for; the device is opened
 * nonetheless. */
static void create_last_waits(keel_device *device) {
  const keel_plugin *plugin = device->plugin;
  for (int i = 0; i < 2 && !plugin->streams.synchronize; i++)
    if (plugin->events.create(device->handle, 0, &device->last_waits[i]) !=
        KD_OK)
      device->last_waits[i] = NULL;
}

keel_status keel_device_open_locked(keel_device *device) {
  keel_plugin *plugin = device->plugin;
  kd_status status =
      keel_library_device(plugin, device->index, &device->handle);
  if (status == KD_OK && plugin->streams.create &&
      !(device->info.flags & KD_DEVICE_INLINE)) {
    keel_clear_error();
    status = plugin->streams.create(device->handle, 0, 0, &device->stream);
    if (status != KD_OK) {
      if (!keel_has_error())
        keel_fail(status, "no reason given (%s)", keel_status_name(status));
      keel_library_device_drop(plugin, device->index, false);
    } else
      create_last_waits(device);
  }
  if (status != KD_OK) {
    device->handle = NULL;
    return keel_while(status, "while %s was opened", device->name);
  }
  keel_clock_opened(device);
  keel_heap_enlist(&device->heap);
  atomic_store(&device->lost, false);
  atomic_store_explicit(&device->ready, true, memory_order_release);
  return KD_OK;
}

keel_status keel_device_open(keel_device *device) {
  /* not under the lock: keel_device_reopen holds it while it waits for threads inside */
  if (atomic_load(&device->lost)) return keel_device_fail_lost(device);
  pthread_mutex_lock(&device->opening);
  keel_status status = KD_OK;
  if (atomic_load(&device->lost))
    status = keel_device_fail_lost(device);
  else if (!atomic_load_explicit(&device->ready, memory_order_acquire))
    status = keel_device_open_locked(device);
  pthread_mutex_unlock(&device->opening);
  return status;
}

void keel_device_leave(keel_device *device) {
  const kd_stream_table *streams = &device->plugin->streams;
  for (int i = 0; i < 2; i++)
    if (device->last_waits[i])
      device->plugin->events.destroy(device->last_waits[i]);
  device->last_waits[0] = device->last_waits[1] = NULL;
  kd_event *spare = atomic_exchange(&device->spare_event, NULL);
  if (spare) device->plugin->events.destroy(spare);
  if (device->transfers.stream) streams->destroy(device->transfers.stream);
  if (device->stream) streams->destroy(device->stream);
  if (device->handle)
    keel_library_device_drop(device->plugin, device->index,
                             atomic_load(&device->lost));
  device->transfers.stream = NULL;
  device->stream = NULL;
  device->handle = NULL;
}

void keel_device_close(keel_device *device) {
  keel_device_drain(device);
  keel_clock_closes(device);
  keel_heap_deinit(&device->heap);
  keel_device_leave(device);
  keel_failures_free(device);
  pthread_mutex_destroy(&device->opening);
  pthread_mutex_destroy(&device->stream_lock);
  pthread_mutex_destroy(&device->transfers.lock);
  pthread_mutex_destroy(&device->watch_lock);
  pthread_mutex_destroy(&device->map_lock);
  pthread_mutex_destroy(&device->lost_lock);
}

const void *keel_device_extension(const keel_device *device, const char *name) {
  const keel_plugin *plugin = device->plugin;
  return plugin->table.extension
             ? plugin->table.extension(plugin->shared->instance, name)
             : NULL;
}
