/* external.c - exports and imports tensors' memory.
 *
 * Memory that was exported to an unknown importer is never reused: the buffer is marked,
 * and returned to its device when the last tensor is released. Memory shared between
 * devices of the context holds the owner's buffer instead. */
#include "memory/external.h"
#include "device/failures.h"

#include <keel/external.h>
#include <unistd.h>

#include "device/lost.h"
#include "memory/copy.h"
#include "memory/device_copy.h"

static bool is_descriptor(uint32_t kind) {
  return kind == KD_EXTERNAL_OPAQUE_FD || kind == KD_EXTERNAL_DMA_BUF ||
         kind == KD_EXTERNAL_SHARED_FD;
}

static keel_status need_descriptor(uint32_t kind) {
  return is_descriptor(kind)
             ? KD_OK
             : keel_fail(
                   KD_INVALID_ARGUMENT,
                   "%u is not a kind of descriptor; KD_EXTERNAL_OPAQUE_FD,"
                   " _DMA_BUF and _SHARED_FD are, and host memory is for"
                   " keel_tensor_wrap and keel_tensor_data",
                   (unsigned)kind);
}

static keel_status judged(keel_device *device, kd_status status,
                          const char *what, uint32_t kind) {
  status = keel_device_check(device, status);
  if (status != KD_OK && !keel_has_error())
    keel_fail(status, "%s memory of kind %u failed (%s)", what, (unsigned)kind,
              keel_status_name(status));
  return status == KD_OK ? KD_OK
                         : keel_while(status, "while %s %s memory of kind %u",
                                      device->name, what, (unsigned)kind);
}

/* ---- out ------------------------------------------------------------------------------- */

static keel_status export_buffer(keel_device *device, keel_buffer *buffer,
                                 uint32_t kind, kd_external *out_memory) {
  kd_external memory = {.struct_size = sizeof memory, .kind = kind};
  KEEL_TRY(keel_device_enter(device));
  keel_clear_error();
  kd_status status = device->plugin->external.export_memory(
      device->handle, buffer->handle, &memory);
  status = judged(device, status, "exported", kind);
  keel_lost_leave(device);
  if (status != KD_OK) return status;
  memory.access = KD_READ;
  *out_memory = memory;
  return KD_OK;
}

/* Whether the whole buffer can be exported as it is. */
static bool is_made_for(const keel_tensor *tensor, uint32_t kind) {
  return tensor->buffer->class < KEEL_HEAP_CLASSES &&
         tensor->buffer->export_kind == kind && !tensor->offset &&
         tensor->layout == KD_LAYOUT_ROW_MAJOR;
}

static keel_status copy_for(keel_tensor *tensor, uint32_t kind,
                            keel_buffer **out_buffer) {
  keel_device *device = keel_tensor_location(tensor);
  keel_tensor *target = NULL;
  KEEL_TRY(keel_heap_take_exported(&device->heap, tensor->type->bytes, kind,
                                   out_buffer));
  keel_status status =
      keel_tensor_in_buffer(*out_buffer, tensor->type, &target);
  if (status == KD_OK && keel_device_can_copy(device) &&
      tensor->layout == KD_LAYOUT_ROW_MAJOR) {
    status = keel_device_copy(tensor, 0, target, 0, tensor->type->bytes);
    if (status == KD_OK) status = keel_failures_await(target->buffer);
  } else if (status == KD_OK) {
    status = keel_copy_into(tensor, target);
  }
  keel_tensor_release(target);
  if (status != KD_OK) keel_buffer_release(*out_buffer);
  return status;
}

static keel_status export_from(keel_device *device, keel_tensor *tensor,
                               uint32_t kind, kd_external *out_memory) {
  keel_buffer *buffer = NULL;
  KEEL_TRY(keel_failures_await(tensor->buffer));
  if (is_made_for(tensor, kind))
    buffer = keel_buffer_retain(tensor->buffer);
  else
    KEEL_TRY(copy_for(tensor, kind, &buffer));
  /* set before anyone else has it; ordered by the buffer's reference count */
  atomic_store_explicit(&buffer->exported, true, memory_order_relaxed);
  keel_status status = export_buffer(device, buffer, kind, out_memory);
  keel_buffer_release(buffer);
  return status;
}

static keel_status need_export(keel_device *device, uint32_t kind) {
  KEEL_TRY(need_descriptor(kind));
  KEEL_TRY(keel_device_ready(device));
  return device->plugin->external.export_memory
             ? KD_OK
             : keel_fail(KD_UNIMPLEMENTED, "the plugin of %s exports no memory",
                         device->name);
}

keel_status keel_tensor_export(keel_tensor *tensor, uint32_t kind,
                               kd_external *out_memory) {
  KEEL_TRY(keel_tensor_need_data(tensor));
  keel_device *device = keel_tensor_location(tensor);
  if (!device)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "the tensor is in host memory; keel_tensor_to a device"
                     " that exports it");
  if (!tensor->type->bytes)
    return keel_fail(KD_INVALID_ARGUMENT, "the tensor has no data to export");
  KEEL_TRY(need_export(device, kind));
  return export_from(device, tensor, kind, out_memory);
}

keel_status keel_device_export(keel_device *device, uint32_t kind) {
  keel_buffer *trial = NULL;
  if (kind) {
    KEEL_TRY(need_export(device, kind));
    KEEL_TRY(keel_heap_take_exported(&device->heap, 4096, kind, &trial));
    keel_buffer_release(trial);
  }
  atomic_store_explicit(&device->heap.export_kind, kind, memory_order_relaxed);
  keel_heap_trim(&device->heap); /* pooled buffers are of the other kind */
  return KD_OK;
}

/* ---- in --------------------------------------------------------------------------------- */

/* Allocates the holder first, so that nothing can fail after the import. */
static keel_status import_to(keel_device *device, const kd_external *from,
                             keel_buffer *owner, const keel_type *type,
                             keel_tensor **out_tensor) {
  keel_buffer *buffer = calloc(1, sizeof *buffer);
  keel_tensor *tensor = keel_tensor_new(device->context);
  keel_status status = buffer && tensor ? keel_device_enter(device)
                                        : keel_no_memory(sizeof *buffer);
  if (status == KD_OK) {
    keel_clear_error();
    status = device->plugin->external.import_memory(
        device->handle, from, &buffer->handle, &buffer->address);
    if (status == KD_OK)
      atomic_fetch_add_explicit(&device->heap.pieces, 1, memory_order_relaxed);
    status = judged(device, status, "imported", from->kind);
    keel_lost_leave(device);
  }
  if (status != KD_OK) {
    free(buffer);
    keel_tensor_release(tensor);
    return status;
  }
  keel_refs_init(&buffer->refs);
  buffer->class = KEEL_IMPORTED;
  buffer->heap = &device->heap;
  buffer->size = type->bytes;
  buffer->owner = owner ? keel_buffer_retain(owner) : NULL;
  tensor->type = type;
  tensor->buffer = buffer;
  tensor->data = buffer->address;
  *out_tensor = tensor;
  return KD_OK;
}

keel_status keel_tensor_import(keel_device *device, const kd_external *memory,
                               kd_dtype dtype, uint32_t rank,
                               const int64_t *dims, keel_tensor **out_tensor) {
  const keel_type *type = NULL;
  *out_tensor = NULL;
  KEEL_TRY(keel_type_of(dtype, rank, dims, &type));
  KEEL_TRY(need_descriptor(memory->kind));
  if (!keel_type_known(type) || !type->bytes || memory->size < type->bytes)
    return keel_fail(
        KD_INVALID_ARGUMENT, "the memory has %llu bytes, and the tensor %llu",
        (unsigned long long)memory->size, (unsigned long long)type->bytes);
  KEEL_TRY(keel_device_ready(device));
  if (!device->plugin->external.import_memory)
    return keel_fail(KD_UNIMPLEMENTED, "the plugin of %s imports no memory",
                     device->name);
  kd_external from = *memory;
  from.struct_size = sizeof from;
  from.access = KD_READ;
  return import_to(device, &from, NULL, type, out_tensor);
}

/* ---- from one device to another ----------------------------------------------------------- */

static bool reaches(const keel_device *from, uint32_t kind,
                    const keel_device *to) {
  static const uint8_t none[16];
  if (!to->plugin->external.import_memory) return false;
  if (kind != KD_EXTERNAL_OPAQUE_FD) return true;
  return memcmp(from->info.uuid, none, sizeof none) != 0 &&
         !memcmp(from->info.uuid, to->info.uuid, sizeof none) &&
         from->info.driver && to->info.driver &&
         !strcmp(from->info.driver, to->info.driver);
}

keel_status keel_external_share(keel_tensor *tensor, keel_device *device,
                                keel_tensor **out_tensor) {
  keel_device *from = keel_tensor_location(tensor);
  kd_external memory;
  if (!from || !tensor->buffer->export_kind || from->plugin == device->plugin ||
      !is_made_for(tensor, tensor->buffer->export_kind) ||
      !reaches(from, tensor->buffer->export_kind, device))
    return KD_UNIMPLEMENTED;
  KEEL_TRY(keel_failures_await(tensor->buffer));
  if (export_buffer(from, tensor->buffer, tensor->buffer->export_kind,
                    &memory) != KD_OK)
    return KD_UNIMPLEMENTED;
  if (import_to(device, &memory, tensor->buffer, tensor->type, out_tensor) ==
      KD_OK)
    return KD_OK;
  close((int)memory.handle);
  return KD_UNIMPLEMENTED;
}
