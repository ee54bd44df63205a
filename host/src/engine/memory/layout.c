/* layout.c - sizes and conversions of plugins' own layouts. */
#include "memory/layout.h"

#include "device/backoff.h"
#include "device/failures.h"
#include "device/lost.h"
#include "memory/copy.h"

/* A size over this factor times the row-major size, plus a page, is treated as a plugin's
 * mistake. */
#define MOST_TIMES 4096

uint64_t keel_layout_size(const keel_device *device, const keel_type *type,
                          uint32_t layout) {
  const keel_plugin *plugin = device->plugin;
  if (!plugin->layouts.size || layout < KD_LAYOUT_OWN || !type ||
      !keel_type_known(type))
    return 0;
  kd_type view = keel_type_view(type);
  view.layout = layout;
  uint64_t size = plugin->layouts.size(device->handle, &view);
  bool sane = size >= type->bytes &&
              (size - type->bytes) / MOST_TIMES <= type->bytes + UINT64_C(4096);
  return sane ? size : 0;
}

keel_status keel_layout_make(keel_device *device, const keel_type *type,
                             uint32_t layout, keel_tensor **out_tensor) {
  uint64_t size = keel_layout_size(device, type, layout);
  char text[128];
  if (!size)
    return keel_fail(KD_UNIMPLEMENTED, "%s has no layout %#x for %s",
                     device->name, (unsigned)layout,
                     keel_type_text(type, text, sizeof text));
  keel_buffer *buffer = NULL;
  KEEL_TRY(keel_heap_take(&device->heap, size, &buffer));
  keel_status status = keel_tensor_in_buffer(buffer, type, out_tensor);
  keel_buffer_release(buffer); /* the tensor holds it */
  if (status != KD_OK) return status;
  (*out_tensor)->layout = layout;
  (*out_tensor)->layout_bytes = size;
  return KD_OK;
}

static kd_tensor view_of(const keel_tensor *tensor) {
  const keel_type *type = tensor->type;
  const keel_buffer *buffer = tensor->buffer;
  return (kd_tensor){
      .buffer = buffer ? buffer->handle : NULL,
      .data = tensor->data,
      .offset = tensor->offset,
      .size = tensor->layout ? tensor->layout_bytes : type->bytes,
      .dims = type->dims,
      .dtype = type->dtype,
      .rank = type->rank,
      .layout = tensor->layout};
}

static kd_status to_rows(keel_device *device, keel_tensor *source,
                         keel_tensor *target) {
  const kd_tensor from = view_of(source), to = view_of(target);
  kd_stream *stream = device->stream;
  keel_backoff backoff = {0};
  kd_status status;
  keel_clear_error();
  if (stream) pthread_mutex_lock(&device->stream_lock);
  keel_copy_begins(device, target->buffer, "a copy to rows", target->type);
  status = keel_failures_check_locked(source->buffer);
  while (status == KD_OK) {
    status =
        device->plugin->layouts.to_rows(device->handle, stream, &from, &to);
    if (!keel_backoff_retry(device, stream, &backoff, &status)) break;
  }
  if (stream) pthread_mutex_unlock(&device->stream_lock);
  if (status == KD_OK) return KD_OK;
  status = keel_device_check(device, status);
  if (!keel_has_error())
    keel_fail(status,
              "%s: a tensor of layout %#x was not converted to row-major (%s)",
              device->name, (unsigned)source->layout, keel_status_name(status));
  return status;
}

keel_status keel_copy_rows(keel_tensor *tensor, keel_tensor **out_tensor) {
  if (tensor->layout == KD_LAYOUT_ROW_MAJOR) {
    *out_tensor = keel_tensor_retain(tensor);
    return KD_OK;
  }
  keel_device *device = keel_tensor_location(tensor);
  if (!device || !device->plugin->layouts.to_rows)
    return keel_fail(KD_INTERNAL, "%s: a tensor has the unknown layout %#x",
                     device ? device->name : "the host",
                     (unsigned)tensor->layout);
  keel_tensor *target = NULL;
  KEEL_TRY(keel_device_enter(device));
  keel_status status = keel_tensor_on(&device->heap, tensor->type, &target);
  if (status == KD_OK) status = to_rows(device, tensor, target);
  keel_lost_leave(device);
  if (status == KD_OK)
    *out_tensor = target;
  else
    keel_tensor_release(target);
  return status;
}
