/* copy.c - copies between the memories of devices and the host.
 *
 * A device's work is ordered by its stream. Copies that leave the device (to the host or
 * another device) block here; transfer.c has the asynchronous ones. */
#include "memory/copy.h"
#include "device/stream.h"

#include "device/backoff.h"
#include "device/context.h"
#include "device/failures.h"
#include "device/lost.h"
#include "memory/external.h"
#include "memory/mapped.h"
#include "memory/transfer.h"
#include "trace/trace.h"

keel_status keel_copy_failed(keel_device *device, kd_status status,
                             const char *what, uint64_t size) {
  status = keel_device_check(device, status);
  if (status != KD_OK && !keel_has_error())
    keel_fail(status, "%s: %s of %llu bytes failed (%s)", device->name, what,
              (unsigned long long)size, keel_status_name(status));
  return status;
}

/* Notes a copy in the trace, which begins with 0 where nothing is noted. */
static void copy_note(const char *what, const keel_tensor *there,
                      uint64_t began) {
  const keel_device *device = keel_tensor_location(there);
  if (began && device)
    keel_trace_copy(what, device->name, there->type->bytes, began);
}

static keel_status move_in(keel_tensor *target, const void *source) {
  keel_device *device = keel_tensor_location(target);
  uint64_t size = target->type->bytes;
  if (!size) return KD_OK;
  if (keel_device_addressable(device)) {
    memcpy(target->data, source, size);
    return KD_OK;
  }
  /* Copies in stream order, because earlier work may still use the memory; then waits,
   * because the source is the caller's. */
  keel_clear_error();
  if (device->stream) pthread_mutex_lock(&device->stream_lock);
  keel_stream_tag(device, device->stream);
  keel_copy_begins(device, target->buffer, "a copy in", target->type);
  keel_backoff backoff = {0};
  kd_status status;
  do
    status = device->plugin->memory.copy_in(device->handle, device->stream,
                                            source, target->buffer->handle,
                                            target->offset, size);
  while (keel_backoff_retry(device, device->stream, &backoff, &status));
  if (device->stream) pthread_mutex_unlock(&device->stream_lock);
  if (status != KD_OK)
    return keel_copy_failed(device, status, "a copy in", size);
  return keel_failures_await(target->buffer);
}

static keel_status copy_in(keel_tensor *target, const void *source) {
  uint64_t began = keel_tracing() ? keel_now() : 0;
  keel_status status = move_in(target, source);
  copy_note("copy in, waited for", target, began);
  return status;
}

/* A call that waits may find the device full as well. */
static bool retry(keel_device *device, keel_backoff *backoff,
                  kd_status *status) {
  if (*status != KD_BUSY) return false;
  if (device->stream) pthread_mutex_lock(&device->stream_lock);
  bool again = keel_backoff_retry(device, device->stream, backoff, status);
  if (device->stream) pthread_mutex_unlock(&device->stream_lock);
  return again;
}

static keel_status move_out(keel_tensor *source, void *target) {
  keel_device *device = keel_tensor_location(source);
  uint64_t size = source->type->bytes;
  if (!size) return KD_OK;
  KEEL_TRY(keel_failures_await(source->buffer));
  if (keel_device_addressable(device)) {
    memcpy(target, source->data, size);
    return KD_OK;
  }
  keel_clear_error();
  keel_backoff backoff = {0};
  kd_status status;
  do
    status = device->plugin->memory.copy_out(device->handle, NULL,
                                             source->buffer->handle,
                                             source->offset, target, size);
  while (retry(device, &backoff, &status));
  return status == KD_OK ? KD_OK
                         : keel_copy_failed(device, status, "a copy out", size);
}

static keel_status copy_out(keel_tensor *source, void *target) {
  uint64_t began = keel_tracing() ? keel_now() : 0;
  keel_status status = move_out(source, target);
  copy_note("copy out, waited for", source, began);
  return status;
}

/* Copies between two devices of one plugin that can reach each other. */
static keel_status copy_peer(keel_tensor *source, keel_tensor *target) {
  keel_device *from = keel_tensor_location(source),
              *to = keel_tensor_location(target);
  if (!from || !to || from->plugin != to->plugin || !from->plugin->peer.copy ||
      !from->plugin->peer.reachable(from->handle, to->handle))
    return KD_UNIMPLEMENTED;
  KEEL_TRY(keel_failures_await(source->buffer));
  if (to->stream) pthread_mutex_lock(&to->stream_lock);
  keel_copy_begins(to, target->buffer, "a copy from another device",
                   target->type);
  keel_backoff backoff = {0};
  kd_status status;
  do
    status = from->plugin->peer.copy(from->handle, source->buffer->handle,
                                     source->offset, to->handle, to->stream,
                                     target->buffer->handle, target->offset,
                                     target->type->bytes);
  while (keel_backoff_retry(to, to->stream, &backoff, &status));
  if (to->stream) pthread_mutex_unlock(&to->stream_lock);
  /* the source's memory may be reused only in its own stream's order */
  return status == KD_OK ? keel_failures_await(target->buffer)
                         : keel_device_check(to, status);
}

static keel_status copy_content(keel_tensor *source, keel_tensor *target) {
  void *to = keel_tensor_host_data(target);
  if (to) { /* earlier work of the target's device may still use the memory */
    KEEL_TRY(keel_device_drain(keel_tensor_location(target)));
    return copy_out(source, to);
  }
  const void *from = keel_tensor_host_data(source);
  if (from) {
    KEEL_TRY(keel_failures_await(source->buffer));
    return copy_in(target, from);
  }
  if (copy_peer(source, target) == KD_OK) return KD_OK;
  keel_tensor *between = NULL;
  KEEL_TRY(keel_copy_to(source, NULL, &between));
  keel_status status = copy_in(target, between->data);
  keel_tensor_release(between);
  return status;
}

keel_status keel_copy_into(keel_tensor *tensor, keel_tensor *target) {
  keel_tensor *plain = NULL;
  KEEL_TRY(keel_copy_rows(tensor, &plain));
  keel_status status = copy_content(plain, target);
  keel_tensor_release(plain);
  return status;
}

keel_status keel_share(keel_tensor *tensor, keel_device *device,
                       keel_tensor **out_tensor) {
  const keel_device *place = keel_tensor_location(tensor);
  if (keel_mapped_of(tensor, device))
    return keel_mapped_original(tensor, out_tensor);
  if (tensor->buffer && tensor->layout == KD_LAYOUT_ROW_MAJOR &&
      !keel_buffer_borrowed(tensor->buffer) && keel_device_addressable(place) &&
      (!place || !place->stream)) {
    keel_buffer *buffer = NULL;
    keel_status status =
        keel_heap_import(&device->heap, tensor->buffer, tensor->data,
                         tensor->type->bytes, &buffer);
    if (status == KD_OK) {
      status = keel_tensor_in_buffer(buffer, tensor->type, out_tensor);
      keel_buffer_release(buffer); /* the tensor holds it */
    }
    if (status != KD_UNIMPLEMENTED) return status;
  }
  return keel_external_share(tensor, device, out_tensor);
}

keel_status keel_share_or_copy(keel_tensor *tensor, keel_device *device,
                               keel_tensor **out_tensor) {
  if (!device) return keel_mapped_or_copy(tensor, false, out_tensor);
  keel_status status = keel_share(tensor, device, out_tensor);
  return status == KD_UNIMPLEMENTED ? keel_copy_to(tensor, device, out_tensor)
                                    : status;
}

keel_status keel_copy_to(keel_tensor *tensor, keel_device *device,
                         keel_tensor **out_tensor) {
  keel_tensor *target = NULL;
  keel_heap *heap = device ? &device->heap : &tensor->context->host;
  KEEL_TRY(keel_tensor_on(heap, tensor->type, &target));
  keel_status status = keel_copy_into(tensor, target);
  if (status != KD_OK) {
    keel_tensor_release(target);
    return status;
  }
  *out_tensor = target;
  return KD_OK;
}
