/* native.c - Vulkan's own handles of the plugin's objects.
 *
 * No stream is made of an application's queue: a queue belongs to its VkDevice, and all of
 * the plugin's are the plugin's already. */
#include "vlk.h"

static uint64_t number_of(const void *handle) {
  return (uint64_t)(uintptr_t)handle;
}

static kd_status device_handle(kd_device *d, kd_native_kind kind,
                               uint64_t *out_handle) {
  switch (kind) {
    case KD_NATIVE_VK_INSTANCE:
      *out_handle = number_of(vlk_vulkan);
      return KD_OK;
    case KD_NATIVE_VK_PHYSICAL_DEVICE:
      *out_handle = number_of(d->physical);
      return KD_OK;
    case KD_NATIVE_VK_DEVICE:
      *out_handle = number_of(d->device);
      return KD_OK;
    case KD_NATIVE_VK_QUEUE_FAMILY:
      *out_handle = d->family;
      return KD_OK;
    default:
      return FAIL(KD_UNIMPLEMENTED,
                  "Vulkan: a device has the native kinds VK_INSTANCE,"
                  " VK_PHYSICAL_DEVICE, VK_DEVICE and VK_QUEUE_FAMILY, and not"
                  " 0x%x",
                  (unsigned)kind);
  }
}

static kd_status buffer_handle(kd_device *d, kd_buffer *buffer,
                               kd_native_kind kind, uint64_t *out_handle,
                               uint64_t *out_offset) {
  (void)d;
  if (kind != KD_NATIVE_VK_BUFFER)
    return FAIL(KD_UNIMPLEMENTED,
                "Vulkan: a buffer has the native kind VK_BUFFER, and not 0x%x",
                (unsigned)kind);
  *out_handle = (uint64_t)buffer->block->buffer; /* a pointer, or a number */
  *out_offset = buffer->offset;
  return KD_OK;
}

/* From now on somebody else submits to the queue, whose work `finish` and events wait for. */
static kd_status stream_handle(kd_stream *stream, kd_native_kind kind,
                               uint64_t *out_handle) {
  if (kind != KD_NATIVE_VK_QUEUE)
    return FAIL(KD_UNIMPLEMENTED,
                "Vulkan: a stream has the native kind VK_QUEUE, and not 0x%x",
                (unsigned)kind);
  kd_status status = vlk_stream_submit_all(stream);
  if (status != KD_OK) return status;
  stream->shared = true;
  *out_handle = number_of(stream->lane->queue);
  return KD_OK;
}

const kd_native_table vlk_native = {
    .struct_size = sizeof(kd_native_table),
    .device = device_handle,
    .buffer = buffer_handle,
    .stream = stream_handle,
};
