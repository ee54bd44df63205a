/* native.c - CUDA's own handles of the plugin's objects, and streams in streams that
 * applications have. */
#include "common/native.h"
#include "cudev.h"

static kd_status device_handle(kd_device *d, kd_native_kind kind,
                               uint64_t *out_handle) {
  const native_handle handles[] = {
      {KD_NATIVE_CU_DEVICE, (uint64_t)d->id},
      {KD_NATIVE_CU_CONTEXT, native_number(d->context)}};
  return native_give(
      cuda_host, "CUDA: a device has the native kinds CU_DEVICE and CU_CONTEXT",
      handles, 2, kind, out_handle);
}

static kd_status buffer_handle(kd_device *d, kd_buffer *buffer,
                               kd_native_kind kind, uint64_t *out_handle,
                               uint64_t *out_offset) {
  const native_handle handle = {KD_NATIVE_CU_POINTER, buffer->memory};
  (void)d;
  kd_status status =
      native_give(cuda_host, "CUDA: a buffer has the native kind CU_POINTER",
                  &handle, 1, kind, out_handle);
  if (status == KD_OK) *out_offset = 0;
  return status;
}

static kd_status stream_handle(kd_stream *stream, kd_native_kind kind,
                               uint64_t *out_handle) {
  const native_handle handle = {KD_NATIVE_CU_STREAM,
                                native_number(stream->lane.queue)};
  return native_give(cuda_host, "CUDA: a stream has the native kind CU_STREAM",
                     &handle, 1, kind, out_handle);
}

/* In the context. The driver's three default streams can't be recorded, or are another one in
 * each thread. */
static kd_status check_queue(kd_device *d, cu_stream queue) {
  cu_context context = NULL;
  if ((uintptr_t)queue <= 2)
    return FAIL(KD_INVALID_ARGUMENT,
                "CUDA: a default stream of the driver's can't be a stream of"
                " its own; make one by cuStreamCreate");
  CU_TRY(d, "cuStreamGetCtx", cu.StreamGetCtx(queue, &context));
  return context == d->context
             ? KD_OK
             : FAIL(KD_INVALID_ARGUMENT,
                    "CUDA: the stream is of another context; make it with that"
                    " of KD_NATIVE_CU_CONTEXT");
}

static kd_status cuda_native_wrap(kd_device *d, kd_native_kind kind,
                                  uint64_t handle, kd_stream **out_stream) {
  if (kind != KD_NATIVE_CU_STREAM)
    return FAIL(KD_UNIMPLEMENTED,
                "CUDA: streams are made of the native kind CU_STREAM, and not"
                " of 0x%x",
                (unsigned)kind);
  CU_ENTER(d);
  kd_status status = check_queue(d, (cu_stream)(uintptr_t)handle);
  cuda_leave();
  return status == KD_OK ? cuda_stream_over(d, (cu_stream)(uintptr_t)handle,
                                            true, out_stream)
                         : status;
}

const kd_native_table cuda_native = {
    .struct_size = sizeof(kd_native_table),
    .device = device_handle,
    .buffer = buffer_handle,
    .stream = stream_handle,
    .wrap = cuda_native_wrap,
};
