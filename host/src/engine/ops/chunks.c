/* chunks.c - tensors that lie one behind the other in another. */
#include "ops/chunks.h"

#include <kd/help.h>

#include "memory/device_copy.h"

static bool chunks_fits(const keel_tensor *item) {
  return item->kind == KEEL_DATA && item->layout == KD_LAYOUT_ROW_MAJOR &&
         kd_dtype_size(item->type->dtype);
}

bool keel_chunks_fit(keel_tensor *const *items, uint32_t count) {
  if (!count || !keel_tensors_ready(items, count)) return false;
  const keel_device *device = keel_tensor_location(items[0]);
  bool fit = keel_device_can_copy(device);
  for (uint32_t i = 0; i < count && fit; i++)
    fit = chunks_fits(items[i]) && keel_tensor_location(items[i]) == device;
  return fit;
}

keel_status keel_chunks_join(keel_tensor *const *items, uint32_t count,
                             bool reverse, const keel_type *type,
                             keel_tensor **out_tensor) {
  keel_tensor *target = NULL;
  uint64_t at = 0;
  KEEL_TRY(keel_tensor_on(items[0]->buffer->heap, type, &target));
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < count && status == KD_OK; i++) {
    const keel_tensor *item = items[reverse ? count - 1 - i : i];
    status = keel_device_copy(item, 0, target, at, item->type->bytes);
    at += item->type->bytes;
  }
  if (status == KD_OK)
    *out_tensor = target;
  else
    keel_tensor_release(target);
  return status;
}

keel_status keel_chunk_take(keel_tensor *tensor, uint64_t offset,
                            const keel_type *type, keel_tensor **out_tensor) {
  keel_tensor *target = NULL;
  KEEL_TRY(keel_tensor_on(tensor->buffer->heap, type, &target));
  keel_status status = keel_device_copy(tensor, offset, target, 0, type->bytes);
  if (status == KD_OK)
    *out_tensor = target;
  else
    keel_tensor_release(target);
  return status;
}
