/* device_copy.c - copies and fills within a device's own memory, in stream order.
 *
 * Nothing waits here: pooled memory is reused in stream order, and is returned to the
 * device only after the stream has completed (heap.c). */
#include "memory/device_copy.h"
#include "device/context.h"

#include "device/backoff.h"
#include "device/failures.h"
#include "device/lost.h"
#include "memory/copy.h"

static void device_copy_begin(keel_device *device) {
  keel_clear_error();
  if (device->stream) pthread_mutex_lock(&device->stream_lock);
}

static keel_status device_copy_end(keel_device *device, kd_status status,
                                   const char *what, uint64_t size) {
  if (device->stream) pthread_mutex_unlock(&device->stream_lock);
  return keel_copy_failed(device, status, what, size);
}

keel_status keel_device_copy(const keel_tensor *source, uint64_t source_offset,
                             const keel_tensor *target, uint64_t target_offset,
                             uint64_t size) {
  keel_device *device = keel_tensor_location(target);
  keel_backoff backoff = {0};
  kd_status status;
  if (!size) return KD_OK;
  device_copy_begin(device);
  status = keel_failures_check_locked(source->buffer);
  if (status != KD_OK) return device_copy_end(device, status, "a copy", size);
  keel_copy_begins(device, target->buffer, "a copy", target->type);
  do
    status = device->plugin->memory.copy(
        device->handle, device->stream, source->buffer->handle,
        source->offset + source_offset, target->buffer->handle,
        target->offset + target_offset, size);
  while (keel_backoff_retry(device, device->stream, &backoff, &status));
  return device_copy_end(device, status, "a copy on the device", size);
}

/* Fills exclusive memory by doubling the filled part. */
static void repeat(char *at, uint64_t size, const void *pattern,
                   uint32_t pattern_size) {
  if (!size) return;
  memcpy(at, pattern, pattern_size);
  for (uint64_t done = pattern_size; done < size;) {
    uint64_t more = done < size - done ? done : size - done;
    memcpy(at + done, at, more);
    done += more;
  }
}

static keel_status fill_by_copy(keel_tensor *target, const void *pattern,
                                uint32_t pattern_size) {
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_on(&target->context->host, target->type, &here));
  repeat(here->data, target->type->bytes, pattern, pattern_size);
  keel_status status = keel_copy_into(here, target);
  keel_tensor_release(here);
  return status;
}

keel_status keel_device_fill(keel_tensor *target, const void *pattern,
                             uint32_t pattern_size) {
  keel_device *device = keel_tensor_location(target);
  uint64_t size = target->type->bytes;
  if (!size) return KD_OK;
  if (!device || (keel_device_addressable(device) && !device->stream)) {
    repeat(target->data, size, pattern, pattern_size);
    return KD_OK;
  }
  if (!device->plugin->memory.fill)
    return fill_by_copy(target, pattern, pattern_size);
  keel_backoff backoff = {0};
  kd_status status;
  device_copy_begin(device);
  keel_copy_begins(device, target->buffer, "a fill", target->type);
  do
    status = device->plugin->memory.fill(device->handle, device->stream,
                                         target->buffer->handle, target->offset,
                                         size, pattern, pattern_size);
  while (keel_backoff_retry(device, device->stream, &backoff, &status));
  return device_copy_end(device, status, "a fill", size);
}
