/* native.c - native driver handles of devices, tensors and queues, for applications. */
#include <keel/native.h>

#include "device/lost.h"
#include "device/stream.h"
#include "memory/copy.h"
#include "memory/transfer.h"

/* Checks that the plugin has the slot; `what` names its object. */
static keel_status need_slot(const keel_device *device, bool has,
                             const char *what) {
  if (has) return KD_OK;
  return keel_fail(
      KD_UNIMPLEMENTED,
      "%s: its plugin gives no native handles%s%s (%s of"
      " kd/native.h)",
      device->name, device->plugin->native.device ? " of " : "",
      device->plugin->native.device ? what : "",
      device->plugin->native.device ? "a slot" : "the table " KD_NATIVE);
}

/* Processes the status of a slot, and leaves the device that was entered. */
static keel_status judged(keel_device *device, kd_status status,
                          const char *what, kd_native_kind kind) {
  status = keel_device_check(device, status);
  if (status != KD_OK && !keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  keel_lost_leave(device);
  return status == KD_OK ? KD_OK
                         : keel_while(status,
                                      "while %s was asked for %s of native"
                                      " kind 0x%x",
                                      device->name, what, (unsigned)kind);
}

keel_status keel_device_native(keel_device *device, kd_native_kind kind,
                               uint64_t *out_handle) {
  const kd_native_table *native = &device->plugin->native;
  KEEL_TRY(need_slot(device, native->device, "a device"));
  KEEL_TRY(keel_device_ready(device));
  KEEL_TRY(keel_device_enter(device));
  keel_clear_error();
  return judged(device, native->device(device->handle, kind, out_handle),
                "a handle of itself", kind);
}

/* ---- tensors ------------------------------------------------------------------ */

static keel_status need_access(const keel_tensor *tensor, uint32_t access) {
  const keel_buffer *buffer = tensor->buffer;
  if (!access || access & ~(KD_READ | KD_WRITE))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "an access of 0x%x; it is KD_READ, KD_WRITE or both",
                     (unsigned)access);
  if (!(access & KD_WRITE) ||
      (keel_refs_unique(&tensor->refs) && keel_buffer_unique(buffer) &&
       buffer->class != KEEL_IMPORTED && buffer->class != KEEL_MAPPED))
    return KD_OK;
  return keel_fail(KD_FAILED_PRECONDITION,
                   "the tensor can't be written: it or its memory has another "
                   "reference; write to a new tensor (keel_tensor_fill)");
}

keel_status keel_tensor_native(keel_tensor *tensor, kd_native_kind kind,
                               uint32_t access, uint64_t *out_handle,
                               uint64_t *out_offset) {
  KEEL_TRY(keel_tensor_need_data(tensor));
  keel_device *device = keel_tensor_location(tensor);
  if (!device || !tensor->buffer->handle)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the tensor lies in host memory, of which there are no"
                     " native handles; keel_tensor_to brings it to a device");
  KEEL_TRY(need_access(tensor, access));
  const kd_native_table *native = &device->plugin->native;
  KEEL_TRY(need_slot(device, native->buffer, "a buffer"));
  KEEL_TRY(keel_device_enter(device));
  keel_clear_error();
  uint64_t handle = 0, begin = 0;
  KEEL_TRY(judged(device,
                  native->buffer(device->handle, tensor->buffer->handle, kind,
                                 &handle, &begin),
                  "a tensor's memory", kind));
  *out_handle = handle;
  *out_offset = begin + tensor->offset;
  return KD_OK;
}

/* ---- queues ------------------------------------------------------------------- */

static keel_status need_queue(const keel_device *device) {
  return device->stream
             ? KD_OK
             : keel_fail(
                   KD_UNIMPLEMENTED,
                   "%s has no queue: its work is done when a call returns",
                   device->name);
}

keel_status keel_device_queue(keel_device *device, kd_native_kind kind,
                              uint64_t *out_handle) {
  const kd_native_table *native = &device->plugin->native;
  KEEL_TRY(need_slot(device, native->stream, "a stream"));
  KEEL_TRY(keel_device_ready(device));
  KEEL_TRY(need_queue(device));
  KEEL_TRY(keel_device_enter(device));
  keel_clear_error();
  pthread_mutex_lock(&device->stream_lock);
  kd_status status = native->stream(device->stream, kind, out_handle);
  pthread_mutex_unlock(&device->stream_lock);
  return judged(device, status, "its queue", kind);
}

/* Of a device that was entered. */
static kd_status make_stream(keel_device *device, kd_native_kind kind,
                             uint64_t handle, kd_stream **out_stream) {
  const keel_plugin *plugin = device->plugin;
  return kind ? plugin->native.wrap(device->handle, kind, handle, out_stream)
              : plugin->streams.create(device->handle, 0, 0, out_stream);
}

keel_status keel_device_use_queue(keel_device *device, kd_native_kind kind,
                                  uint64_t handle) {
  kd_stream *made = NULL;
  KEEL_TRY(need_slot(device, !kind || device->plugin->native.wrap,
                     "queues that applications have"));
  KEEL_TRY(keel_device_ready(device));
  KEEL_TRY(need_queue(device));
  KEEL_TRY(keel_device_drain(device));
  KEEL_TRY(keel_device_enter(device));
  keel_clear_error();
  kd_status status = make_stream(device, kind, handle, &made);
  if (status == KD_OK) {
    pthread_mutex_lock(&device->stream_lock);
    kd_stream *old = device->stream;
    device->stream = made;
    pthread_mutex_unlock(&device->stream_lock);
    device->plugin->streams.destroy(old);
  }
  return judged(device, status, "work in a queue", kind);
}

keel_status keel_device_synchronize(keel_device *device) {
  if (!atomic_load_explicit(&device->ready, memory_order_acquire)) return KD_OK;
  KEEL_TRY(keel_device_drain(device));
  keel_transfers_end(device);
  return KD_OK;
}
