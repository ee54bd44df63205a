/* buffer.c - values on a device: to it and from it, and what they are. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* ---- types --------------------------------------------------------------------------- */

static const kd_dtype types[] = PJRT_TYPES;

kd_dtype pjrt_dtype(int type) {
  return type > 0 && type < (int)(sizeof types / sizeof *types) ? types[type]
                                                                : KD_NONE;
}

int pjrt_type(kd_dtype dtype) {
  for (int i = 1; i < (int)(sizeof types / sizeof *types); i++)
    if (types[i] == dtype) return i;
  return 0;
}

/* ---- making them --------------------------------------------------------------------- */

pjrt_error *pjrt_buffer_make(pjrt_device *device, keel_tensor *tensor, int type,
                             size_t rank, const int64_t *dims,
                             pjrt_buffer **out_buffer) {
  pjrt_buffer *buffer = calloc(1, sizeof *buffer);
  *out_buffer = buffer;
  if (!buffer) {
    keel_tensor_release(tensor);
    return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a buffer");
  }
  *buffer = (pjrt_buffer){
      .device = device, .tensor = tensor, .type = type, .rank = rank};
  pthread_mutex_init(&buffer->lock, NULL);
  for (size_t i = 0; i < rank; i++) {
    buffer->dims[i] = dims[i];
    buffer->order[i] = (int64_t)(rank - 1 - i);
  }
  return NULL;
}

/* Whether the elements lie row by row, without gaps. */
static bool buffer_is_packed(const Client_BufferFromHostBuffer_args *args,
                             size_t size) {
  int64_t step = (int64_t)size;
  for (size_t i = args->byte_stride_count; i-- > 0; step *= args->dims[i])
    if (args->dims[i] > 1 && args->byte_strides[i] != step) return false;
  return true;
}

/* Copies elements row by row; returns where the next one goes. */
static char *buffer_pack(char *to, const char *from, const int64_t *dims,
                         const int64_t *strides, size_t rank, size_t size) {
  if (!rank) {
    memcpy(to, from, size);
    return to + size;
  }
  for (int64_t i = 0; i < dims[0]; i++)
    to = buffer_pack(to, from + i * strides[0], dims + 1, strides + 1, rank - 1,
                     size);
  return to;
}

static keel_status make_tensor(const Client_BufferFromHostBuffer_args *args,
                               keel_context *context, kd_dtype dtype,
                               keel_tensor **out_tensor) {
  size_t size = keel_dtype_size(dtype), count = 1;
  if (buffer_is_packed(args, size))
    return keel_tensor_create(context, dtype, (uint32_t)args->rank, args->dims,
                              args->data, out_tensor);
  for (size_t i = 0; i < args->rank; i++)
    count *= (size_t)args->dims[i];
  char *packed = malloc(count * size + 1);
  if (!packed) return KD_OUT_OF_MEMORY;
  buffer_pack(packed, args->data, args->dims, args->byte_strides, args->rank,
              size);
  keel_status status = keel_tensor_create(context, dtype, (uint32_t)args->rank,
                                          args->dims, packed, out_tensor);
  free(packed);
  return status;
}

/* Copies: the caller's memory is its own again when the call returns. */
pjrt_error *pjrt_Client_BufferFromHostBuffer(
    Client_BufferFromHostBuffer_args *args) {
  pjrt_device *device = args->device   ? args->device
                        : args->memory ? args->memory->device
                                       : &args->object->devices[0];
  kd_dtype dtype = pjrt_dtype(args->type);
  keel_tensor *host = NULL, *there = NULL;
  if (!dtype)
    return pjrt_fail_text(KD_UNIMPLEMENTED,
                          "Keel has no tensors of PJRT's element type %d",
                          args->type);
  if (args->rank > KD_MAX_RANK)
    return pjrt_fail_text(KD_UNIMPLEMENTED,
                          "an array of %zu dimensions; Keel has up to %u",
                          args->rank, (unsigned)KD_MAX_RANK);
  PJRT_TRY(make_tensor(args, args->object->context, dtype, &host));
  keel_status status = keel_tensor_to(host, device->device, &there);
  keel_tensor_release(host);
  PJRT_TRY(status);
  pjrt_error *error = pjrt_buffer_make(device, there, args->type, args->rank,
                                       args->dims, &args->result);
  if (error) return error;
  args->done = pjrt_event_of(NULL, 0);
  if (args->done) return NULL;
  pjrt_Buffer_Destroy(&(Buffer_Destroy_args){.object = args->result});
  return pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory for a buffer");
}

pjrt_error *pjrt_Buffer_Destroy(Buffer_Destroy_args *args) {
  keel_tensor_release(args->object->tensor);
  keel_tensor_release(args->object->host);
  keel_tensor_release(args->object->kept);
  pthread_mutex_destroy(&args->object->lock);
  free(args->object);
  return NULL;
}

keel_tensor *pjrt_buffer_take(pjrt_buffer *buffer) {
  pthread_mutex_lock(&buffer->lock);
  keel_tensor *tensor =
      buffer->tensor ? keel_tensor_retain(buffer->tensor) : NULL;
  pthread_mutex_unlock(&buffer->lock);
  return tensor;
}

bool pjrt_buffer_give(pjrt_buffer *buffer, keel_tensor *tensor) {
  pthread_mutex_lock(&buffer->lock);
  bool given = buffer->tensor == tensor;
  if (given) {
    buffer->tensor = NULL;
    if (buffer->outside) buffer->kept = keel_tensor_retain(tensor);
  }
  pthread_mutex_unlock(&buffer->lock);
  return given;
}

void pjrt_buffer_put_back(pjrt_buffer *buffer, keel_tensor *tensor) {
  pthread_mutex_lock(&buffer->lock);
  keel_tensor *kept = buffer->kept;
  buffer->kept = NULL;
  buffer->tensor = tensor;
  pthread_mutex_unlock(&buffer->lock);
  keel_tensor_release(kept);
}

pjrt_error *pjrt_Buffer_Delete(Buffer_Delete_args *args) {
  pjrt_buffer *buffer = args->object;
  pthread_mutex_lock(&buffer->lock);
  keel_tensor *tensor = buffer->tensor;
  buffer->tensor = NULL;
  pthread_mutex_unlock(&buffer->lock);
  keel_tensor_release(tensor);
  return NULL;
}

pjrt_error *pjrt_Buffer_IsDeleted(Buffer_IsDeleted_args *args) {
  keel_tensor *tensor = pjrt_buffer_take(args->object);
  args->result = !tensor;
  keel_tensor_release(tensor);
  return NULL;
}

static pjrt_error *is_gone(void) {
  return pjrt_fail_text(KD_FAILED_PRECONDITION,
                        "the buffer has been deleted or donated");
}

/* ---- what they are ------------------------------------------------------------------- */

PJRT_GIVES(Buffer_ElementType, args->object->type)

pjrt_error *pjrt_Buffer_Dimensions(Buffer_Dimensions_args *args) {
  args->dims = args->object->dims;
  args->rank = args->object->rank;
  return NULL;
}

pjrt_error *pjrt_Buffer_UnpaddedDimensions(
    Buffer_UnpaddedDimensions_args *args) {
  args->dims = args->object->dims;
  args->rank = args->object->rank;
  return NULL;
}

PJRT_GIVES_LIST(Buffer_DynamicDimensionIndices, NULL, 0)

pjrt_error *pjrt_Buffer_GetMemoryLayout(Buffer_GetMemoryLayout_args *args) {
  const pjrt_buffer *buffer = args->object;
  args->result.kind = 0;
  args->result.as.tiled =
      (pjrt_tiled_layout){.struct_size = sizeof(pjrt_tiled_layout),
                          .minor_to_major = buffer->order,
                          .minor_to_major_size = buffer->rank};
  return NULL;
}

static size_t buffer_size_of(const pjrt_buffer *buffer) {
  size_t size = keel_dtype_size(pjrt_dtype(buffer->type));
  for (size_t i = 0; i < buffer->rank; i++)
    size *= (size_t)buffer->dims[i];
  return size;
}

PJRT_GIVES(Buffer_OnDeviceSizeInBytes, buffer_size_of(args->object))
PJRT_GIVES(Buffer_Device, args->object->device)
PJRT_GIVES(Buffer_Memory, &args->object->device->memory)
/* Its memory is not XLA's own CPU's, which would be read without asking. */
PJRT_GIVES(Buffer_IsOnCpu, false)

pjrt_error *pjrt_Buffer_ReadyEvent(Buffer_ReadyEvent_args *args) {
  keel_tensor *tensor = pjrt_buffer_take(args->object);
  if (!tensor) return is_gone();
  args->result = pjrt_event_of(&tensor, 1);
  keel_tensor_release(tensor);
  return args->result ? NULL : pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory");
}

/* The copy in host memory that the buffer keeps; it is made at the first question. */
static keel_status host_copy(pjrt_buffer *buffer, keel_tensor *tensor,
                             const void **out_data) {
  pthread_mutex_lock(&buffer->lock);
  keel_status status =
      buffer->host ? KD_OK : keel_tensor_to(tensor, NULL, &buffer->host);
  if (status == KD_OK) *out_data = keel_tensor_data(buffer->host);
  pthread_mutex_unlock(&buffer->lock);
  return status;
}

/* In host memory, where the buffer has none of its own. */
pjrt_error *pjrt_Buffer_UnsafePointer(Buffer_UnsafePointer_args *args) {
  keel_tensor *tensor = pjrt_buffer_take(args->object);
  const void *data = NULL;
  if (!tensor) return is_gone();
  keel_status status = keel_tensor_wait(tensor);
  if (status == KD_OK) data = keel_tensor_data(tensor);
  if (status == KD_OK && !data) status = host_copy(args->object, tensor, &data);
  keel_tensor_release(tensor);
  args->result = (uintptr_t)data;
  return pjrt_fail(status);
}

pjrt_error *pjrt_Buffer_IncreaseExternalReferenceCount(
    Buffer_IncreaseExternalReferenceCount_args *args) {
  pthread_mutex_lock(&args->object->lock);
  args->object->outside++;
  pthread_mutex_unlock(&args->object->lock);
  return NULL;
}

pjrt_error *pjrt_Buffer_DecreaseExternalReferenceCount(
    Buffer_DecreaseExternalReferenceCount_args *args) {
  pjrt_buffer *buffer = args->object;
  keel_tensor *kept = NULL;
  pthread_mutex_lock(&buffer->lock);
  if (buffer->outside && --buffer->outside == 0) {
    kept = buffer->kept;
    buffer->kept = NULL;
  }
  pthread_mutex_unlock(&buffer->lock);
  keel_tensor_release(kept);
  return NULL;
}

/* ---- copies -------------------------------------------------------------------------- */

static pjrt_error *copy_to(pjrt_buffer *buffer, pjrt_device *device,
                           pjrt_buffer **out_buffer) {
  keel_tensor *tensor = pjrt_buffer_take(buffer), *there = NULL;
  if (!tensor) return is_gone();
  keel_status status = keel_tensor_to(tensor, device->device, &there);
  keel_tensor_release(tensor);
  PJRT_TRY(status);
  return pjrt_buffer_make(device, there, buffer->type, buffer->rank,
                          buffer->dims, out_buffer);
}

pjrt_error *pjrt_Buffer_CopyToDevice(Buffer_CopyToDevice_args *args) {
  return copy_to(args->object, args->device, &args->result);
}

pjrt_error *pjrt_Buffer_CopyToMemory(Buffer_CopyToMemory_args *args) {
  return copy_to(args->object, args->memory->device, &args->result);
}

/* Whether elements are wanted row by row. */
static bool wants_rows(const pjrt_layout *layout, size_t rank) {
  if (!layout) return true;
  if (layout->kind != 0 || layout->as.tiled.tile_count) return false;
  for (size_t i = 0; i < layout->as.tiled.minor_to_major_size; i++)
    if (layout->as.tiled.minor_to_major[i] != (int64_t)(rank - 1 - i))
      return false;
  return true;
}

/* Waits for the value: who asks for it on the host has nothing to do without. */
pjrt_error *pjrt_Buffer_ToHostBuffer(Buffer_ToHostBuffer_args *args) {
  size_t size = buffer_size_of(args->object);
  if (!args->data) {
    args->size = size;
    return NULL;
  }
  if (args->size < size)
    return pjrt_fail_text(KD_INVALID_ARGUMENT,
                          "%zu bytes do not fit into a buffer of %zu", size,
                          args->size);
  if (!wants_rows(args->layout, args->object->rank))
    return pjrt_fail_text(KD_UNIMPLEMENTED,
                          "values are read row by row only, without tiles");
  keel_tensor *tensor = pjrt_buffer_take(args->object);
  if (!tensor) return is_gone();
  keel_status status = size ? keel_tensor_read(tensor, args->data, size)
                            : keel_tensor_wait(tensor);
  keel_tensor_release(tensor);
  PJRT_TRY(status);
  args->done = pjrt_event_of(NULL, 0);
  return args->done ? NULL : pjrt_fail_text(KD_OUT_OF_MEMORY, "no memory");
}
