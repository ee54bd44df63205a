/* mapped.c - device memory that the host reads in place.
 *
 * All views of a buffer share one mapping of the whole buffer, which the last view ends, so
 * that plugins see a buffer mapped once at a time. */
#include "memory/mapped.h"
#include "device/context.h"
#include "device/failures.h"

#include "device/lost.h"
#include "memory/copy.h"
#include "trace/trace.h"

/* bytes; smaller tensors are copied just as fast */
#define LEAST (UINT64_C(1) << 20)

bool keel_mapped_fits(const keel_tensor *tensor) {
  const uint32_t visible = KD_SPACE_HOST_VISIBLE | KD_SPACE_CACHED;
  const keel_device *device = keel_tensor_location(tensor);
  if (!device || keel_device_addressable(device)) return false;
  const kd_memory_table *memory = &device->plugin->memory;
  return memory->map && memory->unmap &&
         (device->space.flags & visible) == visible &&
         tensor->layout == KD_LAYOUT_ROW_MAJOR &&
         tensor->type->bytes >= LEAST &&
         tensor->buffer->class < KEEL_HEAP_CLASSES;
}

/* Maps a buffer once more. */
static keel_status mapped_map(keel_device *device, keel_buffer *buffer) {
  kd_status status = KD_OK;
  pthread_mutex_lock(&device->map_lock);
  if (!buffer->maps) {
    keel_clear_error();
    status = device->plugin->memory.map(device->handle, buffer->handle, 0,
                                        buffer->size, KD_READ, &buffer->mapped);
  }
  if (status == KD_OK) buffer->maps++;
  pthread_mutex_unlock(&device->map_lock);
  if (status == KD_OK || status == KD_UNIMPLEMENTED ||
      status == KD_OUT_OF_MEMORY)
    return status;
  status = keel_device_check(device, status);
  if (!keel_has_error())
    keel_fail(status, "%s: mapping %llu bytes failed (%s)", device->name,
              (unsigned long long)buffer->size, keel_status_name(status));
  return status;
}

static void mapped_unmap(keel_device *device, keel_buffer *buffer) {
  pthread_mutex_lock(&device->map_lock);
  assert(buffer->maps && buffer->mapped);
  if (!--buffer->maps) {
    device->plugin->memory.unmap(device->handle, buffer->handle);
    buffer->mapped = NULL;
  }
  pthread_mutex_unlock(&device->map_lock);
}

/* The view has no references any more. */
static void mapped_end(void *view) {
  keel_buffer *buffer = view;
  keel_buffer *owner = buffer->owner;
  keel_device *device = owner->heap->device;
  keel_lost_enter(device);
  mapped_unmap(device, owner);
  keel_lost_leave(device);
  keel_buffer_release(owner);
  free(buffer);
}

/* Makes a view that holds the mapping. */
static keel_status view(keel_tensor *tensor, keel_tensor **out_view) {
  keel_buffer *owner = tensor->buffer, *buffer = NULL;
  KEEL_TRY(keel_heap_wrap(&tensor->context->host,
                          (char *)owner->mapped + tensor->offset,
                          tensor->type->bytes, NULL, NULL, &buffer));
  keel_status status = keel_tensor_in_buffer(buffer, tensor->type, out_view);
  if (status == KD_OK) {
    buffer->class = KEEL_MAPPED;
    buffer->done = mapped_end;
    buffer->owner = keel_buffer_retain(owner);
  }
  keel_buffer_release(buffer); /* the tensor holds it */
  return status;
}

/* KD_UNIMPLEMENTED, KD_OUT_OF_MEMORY: copy it instead. */
static keel_status map_and_view(keel_tensor *tensor, bool done,
                                keel_tensor **out_view) {
  keel_device *device = keel_tensor_location(tensor);
  uint64_t began = keel_tracing() ? keel_now() : 0;
  if (!done) KEEL_TRY(keel_failures_await(tensor->buffer));
  KEEL_TRY(mapped_map(device, tensor->buffer));
  keel_status status = view(tensor, out_view);
  if (status != KD_OK) mapped_unmap(device, tensor->buffer);
  if (began)
    keel_trace_copy(done ? "mapped" : "mapped, waited for", device->name,
                    tensor->type->bytes, began);
  return status;
}

keel_status keel_mapped_or_copy(keel_tensor *tensor, bool done,
                                keel_tensor **out_tensor) {
  keel_device *device = keel_tensor_location(tensor);
  if (!keel_mapped_fits(tensor)) return keel_copy_to(tensor, NULL, out_tensor);
  KEEL_TRY(keel_device_enter(device));
  keel_status status = map_and_view(tensor, done, out_tensor);
  keel_lost_leave(device);
  return status == KD_UNIMPLEMENTED || status == KD_OUT_OF_MEMORY
             ? keel_copy_to(tensor, NULL, out_tensor)
             : status;
}

keel_status keel_mapped_original(keel_tensor *tensor,
                                 keel_tensor **out_tensor) {
  keel_buffer *owner = tensor->buffer->owner;
  KEEL_TRY(keel_tensor_in_buffer(owner, tensor->type, out_tensor));
  /* mapped as long as `tensor` is held */
  uint64_t offset = (uint64_t)((char *)tensor->data - (char *)owner->mapped);
  (*out_tensor)->offset = offset;
  if (owner->address) (*out_tensor)->data = (char *)owner->address + offset;
  return KD_OK;
}
