/* clocks.c - devices' clocks, and keel_trace_start, which uses all of them. */
#include "loader/clocks.h"
#include "device/context.h"

#include <keel/trace.h>

#include "base/params.h"
#include "loader/library.h"
#include "trace/trace.h"

static void clocks_start(keel_device *device) {
  keel_clock *clock = keel_device_clock(device);
  uint64_t ticks = 0, host = 0, frequency = 0;
  const kd_profile_table *table = &device->plugin->profile;
  keel_clear_error();
  if (table->clock(device->handle, &ticks, &host, &frequency) != KD_OK ||
      !frequency || table->start(device->handle) != KD_OK)
    return;
  clock->tick = 1e9 / (double)frequency;
  clock->ticks = ticks;
  clock->host = host;
  device->clocked = true;
}

void keel_clock_join(keel_device *device) {
  if (!device->plugin->profile.start) return;
  pthread_mutex_lock(&device->opening);
  if (!device->clocks++ && device->handle) clocks_start(device);
  pthread_mutex_unlock(&device->opening);
}

void keel_clock_opened(keel_device *device) {
  if (device->clocks) clocks_start(device);
}

void keel_clock_closes(keel_device *device) {
  if (device->clocked) device->plugin->profile.stop(device->handle);
  device->clocked = false;
}

void keel_clock_leave(keel_device *device) {
  if (!device->plugin->profile.start) return;
  pthread_mutex_lock(&device->opening);
  if (device->clocks && !--device->clocks) keel_clock_closes(device);
  pthread_mutex_unlock(&device->opening);
}

keel_status keel_trace_start(keel_context *context) {
  if (!keel_trace_begin())
    return keel_fail(KD_FAILED_PRECONDITION, "a trace is already running");
  for (uint32_t i = 0; i < context->device_count; i++)
    keel_clock_join(keel_devices(context)[i]);
  return KD_OK;
}

static keel_status clocks_stop(keel_context *context, keel_trace_part *part,
                               const char *path) {
  if (!keel_tracing())
    return keel_fail(KD_FAILED_PRECONDITION, "no trace is running");
  for (uint32_t i = 0; i < context->device_count; i++)
    keel_clock_leave(
        keel_devices(context)[i]); /* this delivers its last records */
  if (!keel_trace_end())
    return keel_fail(KD_FAILED_PRECONDITION, "no trace is running");
  if (path)
    return keel_file_replace(path, KEEL_FILE_MODE, keel_trace_write, part);
  keel_trace_forget();
  return KD_OK;
}

keel_status keel_trace_stop(keel_context *context, const char *path) {
  return clocks_stop(context, NULL, path);
}

keel_status keel_trace_stop_part(keel_context *context,
                                 const keel_trace_part *part,
                                 const char *path) {
  keel_trace_part own;
  KEEL_TRY(KEEL_READ_PARAMS(keel_trace_part, part,
                            offsetof(keel_trace_part, rank), &own));
  return clocks_stop(context, &own, path);
}
