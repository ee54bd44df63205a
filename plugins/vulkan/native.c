/* native.c - Vulkan's own handles of the plugin's objects.
 *
 * No stream is made of an application's queue: a queue belongs to its VkDevice, and all of
 * the plugin's are the plugin's already. */
#include "common/native.h"
#include "vlk.h"

static kd_status device_handle(kd_device *d, kd_native_kind kind,
                               uint64_t *out_handle) {
  const native_handle handles[] = {
      {KD_NATIVE_VK_INSTANCE, native_number(vlk_vulkan)},
      {KD_NATIVE_VK_PHYSICAL_DEVICE, native_number(d->physical)},
      {KD_NATIVE_VK_DEVICE, native_number(d->device)},
      {KD_NATIVE_VK_QUEUE_FAMILY, d->family}};
  return native_give(vlk_host,
                     "Vulkan: a device has the native kinds VK_INSTANCE,"
                     " VK_PHYSICAL_DEVICE, VK_DEVICE and VK_QUEUE_FAMILY",
                     handles, 4, kind, out_handle);
}

static kd_status buffer_handle(kd_device *d, kd_buffer *buffer,
                               kd_native_kind kind, uint64_t *out_handle,
                               uint64_t *out_offset) {
  /* a pointer, or a number */
  const native_handle handle = {KD_NATIVE_VK_BUFFER,
                                (uint64_t)buffer->block->buffer};
  (void)d;
  kd_status status =
      native_give(vlk_host, "Vulkan: a buffer has the native kind VK_BUFFER",
                  &handle, 1, kind, out_handle);
  if (status == KD_OK) *out_offset = buffer->offset;
  return status;
}

/* From now on somebody else submits to the queue, whose work `finish` and events wait for. */
static kd_status stream_handle(kd_stream *stream, kd_native_kind kind,
                               uint64_t *out_handle) {
  const native_handle handle = {KD_NATIVE_VK_QUEUE,
                                native_number(stream->lane->queue)};
  uint64_t queue = 0; /* out-parameters are for KD_OK alone */
  kd_status status =
      native_give(vlk_host, "Vulkan: a stream has the native kind VK_QUEUE",
                  &handle, 1, kind, &queue);
  if (status == KD_OK) status = vlk_stream_submit_all(stream);
  if (status != KD_OK) return status;
  stream->shared = true;
  *out_handle = queue;
  return KD_OK;
}

const kd_native_table vlk_native = {
    .struct_size = sizeof(kd_native_table),
    .device = device_handle,
    .buffer = buffer_handle,
    .stream = stream_handle,
};
