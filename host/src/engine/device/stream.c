/* stream.c - waiting for a device's work, and objects that are freed when it has passed. */
#include "device/stream.h"

#include "device/backoff.h"
#include "device/failures.h"
#include "device/lost.h"
#include "trace/trace.h"

/* ---- traces ----------------------------------------------------------------- */

static _Thread_local struct { const char *op, *where; } copies_for;

void keel_stream_for(const char *op, const char *where) {
  copies_for.op = op;
  copies_for.where = where;
}

void keel_stream_tag(const keel_device *device, kd_stream *stream) {
  if (!keel_tracing() || !stream || !device->plugin->streams.tag) return;
  const char *op = copies_for.op, *where = copies_for.where;
  device->plugin->streams.tag(
      stream, keel_trace_launch(op ? op : "copy", where ? where : ""));
}

/* ---- waiting ---------------------------------------------------------------- */

kd_status keel_stream_record(keel_device *device, kd_stream *stream,
                             kd_event *event) {
  const keel_plugin *plugin = device->plugin;
  keel_backoff backoff = {0};
  kd_status status;
  assert(stream != device->stream || KEEL_IS_LOCKED(&device->stream_lock));
  do
    status = plugin->events.record(event, stream);
  while (keel_backoff_retry(device, stream, &backoff, &status));
  return status == KD_OK && plugin->streams.flush
             ? plugin->streams.flush(stream)
             : status;
}

/* Waits until a lost device accesses no memory for the stream: an event that it refuses to record
 * counts as incomplete (kd/stream.h). */
static kd_status wait_for_lost(keel_device *device, kd_stream *stream) {
  const kd_event_table *events = &device->plugin->events;
  kd_event *event = device->last_waits[stream != device->stream];
  if (event && events->record(event, stream) == KD_DEVICE_LOST)
    events->wait(event, UINT64_MAX);
  return KD_DEVICE_LOST;
}

/* Waits for a stream. *out_waited: whether the work is done, though some may have failed;
 * false if the wait itself could not be set up. */
static kd_status wait_for_work(keel_device *device, kd_stream *stream,
                               bool *out_waited) {
  keel_plugin *plugin = device->plugin;
  kd_event *event = NULL;
  *out_waited = true;
  if (plugin->streams.synchronize) return plugin->streams.synchronize(stream);
  *out_waited = false;
  kd_status status = plugin->events.create(device->handle, 0, &event);
  if (status == KD_DEVICE_LOST) return wait_for_lost(device, stream);
  if (status != KD_OK) return status;
  status = keel_stream_record(device, stream, event);
  if (status == KD_OK) { /* poll first: blocking costs a context switch */
    status = plugin->events.query(event);
    if (status == KD_BUSY) status = plugin->events.wait(event, UINT64_MAX);
    *out_waited = true;
  } else if (status == KD_DEVICE_LOST) {
    plugin->events.wait(event, UINT64_MAX);
  }
  plugin->events.destroy(event);
  return status;
}

keel_status keel_stream_finish(keel_device *device, kd_stream *stream,
                               pthread_mutex_t *lock) {
  bool waited = false;
  keel_clear_error();
  pthread_mutex_lock(lock);
  kd_status status = wait_for_work(device, stream, &waited);
  /* The caller is about to reuse memory that the device may still read, so a transient
   * failure (no free event) is retried. */
  if (!waited) status = wait_for_work(device, stream, &waited);
  if (status != KD_OK && !keel_has_error())
    keel_fail(status, "%s: work failed (%s)", device->name,
              keel_status_name(status));
  if (waited && stream == device->stream) keel_failures_note(device, status);
  pthread_mutex_unlock(lock);
  return keel_device_check(device, status);
}

/* ---- work that has passed ----------------------------------------------------- */

void keel_stream_keep(keel_device *device, keel_task *task) {
  keel_transfers *all = &device->transfers;
  keel_task *head = atomic_load_explicit(&all->spent, memory_order_relaxed);
  do
    task->next = head;
  /* release: publishes what the callback's thread saw */
  while (!atomic_compare_exchange_weak_explicit(
      &all->spent, &head, task, memory_order_release, memory_order_relaxed));
}

void keel_stream_reap(keel_device *device) {
  keel_transfers *all = &device->transfers;
  if (!atomic_load_explicit(&all->spent, memory_order_relaxed)) return;
  keel_task *at =
      atomic_exchange_explicit(&all->spent, NULL, memory_order_acquire);
  for (keel_task *next; at; at = next) {
    next = at->next;
    at->run(at);
  }
}

keel_status keel_device_drain(keel_device *device) {
  if (!device) return KD_OK;
  keel_status status =
      device->stream
          ? keel_stream_finish(device, device->stream, &device->stream_lock)
          : KD_OK;
  if (device->stream) keel_stream_reap(device);
  return status == KD_OK && atomic_load(&device->lost)
             ? keel_device_fail_lost(device)
             : status;
}

void keel_device_drain_quietly(keel_device *device) {
  bool said = keel_has_error();
  if (!said && !atomic_load(&device->lost)) {
    keel_device_drain(device);
    return;
  }
  char text[4096];
  snprintf(text, sizeof text, "%s", keel_message());
  keel_device_drain(device);
  keel_fail_text(KD_DEVICE_LOST, text);
  if (!said) keel_clear_error();
}
