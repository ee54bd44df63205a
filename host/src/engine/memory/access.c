/* access.c - tensors filled, read and moved, wherever their memory is. */
#include "memory/access.h"
#include "device/context.h"

#include "device/failures.h"
#include "memory/copy.h"
#include "memory/device_copy.h"
#include "memory/late.h"
#include "memory/mapped.h"
#include "values/strings.h"

/* The pattern to repeat; elements smaller than a byte fill one byte. */
static uint32_t pattern_of(kd_dtype dtype, const void *element,
                           uint8_t *pattern) {
  uint32_t bits = kd_dtype_bits(dtype), size = bits < 8 ? 1 : bits / 8;
  memset(pattern, 0, size);
  if (!element) return size;
  memcpy(pattern, element, size);
  for (uint32_t shift = bits; bits < 8 && shift < 8; shift += bits)
    pattern[0] = (uint8_t)((pattern[0] & ((1u << shift) - 1)) |
                           (unsigned)pattern[0] << shift);
  return size;
}

/* The last byte's unused bits are zero. */
static void clear_rest(const keel_type *type, uint8_t *data) {
  uint64_t used = (uint64_t)type->elements * kd_dtype_bits(type->dtype) % 8;
  if (used) data[type->bytes - 1] &= (uint8_t)((1u << used) - 1);
}

/* A tensor whose last byte is partly used: filled on the host, then copied. */
static keel_status fill_parts(keel_tensor *target, const uint8_t *pattern) {
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_on(&target->context->host, target->type, &here));
  memset(here->data, pattern[0], target->type->bytes);
  clear_rest(target->type, here->data);
  keel_status status = keel_copy_into(here, target);
  keel_tensor_release(here);
  return status;
}

keel_status keel_tensor_fill(keel_context *context, keel_device *device,
                             kd_dtype dtype, uint32_t rank, const int64_t *dims,
                             const void *element, keel_tensor **out_tensor) {
  const keel_type *type = NULL;
  keel_tensor *target = NULL;
  uint8_t pattern[16];
  *out_tensor = NULL;
  KEEL_TRY(keel_tensor_type(dtype, rank, dims, &type));
  if (device) KEEL_TRY(keel_device_ready(device));
  KEEL_TRY(
      keel_tensor_on(device ? &device->heap : &context->host, type, &target));
  uint32_t size = pattern_of(dtype, element, pattern);
  keel_status status =
      type->bytes % size || (uint64_t)type->elements * kd_dtype_bits(dtype) % 8
          ? fill_parts(target, pattern)
          : keel_device_fill(target, pattern, size);
  if (status == KD_OK)
    *out_tensor = target;
  else
    keel_tensor_release(target);
  return status;
}

keel_status keel_tensor_to_host(keel_tensor *tensor, keel_tensor **out_tensor) {
  KEEL_TRY(keel_tensor_need_data(tensor));
  if (tensor->late) KEEL_TRY(keel_late_get(tensor, &tensor));
  if (tensor->layout == KD_LAYOUT_ROW_MAJOR && keel_tensor_host_data(tensor)) {
    KEEL_TRY(keel_failures_await(tensor->buffer));
    *out_tensor = keel_tensor_retain(tensor);
    return KD_OK;
  }
  return keel_mapped_or_copy(tensor, false, out_tensor);
}

keel_status keel_tensor_read(keel_tensor *tensor, void *target, uint64_t size) {
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_to_host(tensor, &here));
  uint64_t bytes = here->type->bytes;
  keel_status status = KD_OK;
  if (size != bytes)
    status =
        keel_fail(KD_INVALID_ARGUMENT,
                  "the tensor has %llu bytes, and the target has room for %llu",
                  (unsigned long long)bytes, (unsigned long long)size);
  else if (bytes)
    memcpy(target, here->data, bytes);
  keel_tensor_release(here);
  return status;
}

keel_status keel_tensor_to(keel_tensor *tensor, keel_device *device,
                           keel_tensor **out_tensor) {
  *out_tensor = NULL;
  KEEL_TRY(keel_tensor_wait_known(tensor));
  if (keel_is_strings(tensor)) { /* they stay in host memory */
    *out_tensor = keel_tensor_retain(tensor);
    return KD_OK;
  }
  KEEL_TRY(keel_tensor_need_data(tensor));
  if (tensor->layout == KD_LAYOUT_ROW_MAJOR &&
      keel_tensor_location(tensor) == device) {
    *out_tensor = keel_tensor_retain(tensor);
    return KD_OK;
  }
  if (device) KEEL_TRY(keel_device_ready(device));
  return keel_share_or_copy(tensor, device, out_tensor);
}
