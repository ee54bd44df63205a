/* native.c - OpenCL's own handles of the plugin's objects, and streams in queues that
 * applications have. */
#include "common/native.h"
#include "opencl.h"

static kd_status device_handle(kd_device *d, kd_native_kind kind,
                               uint64_t *out_handle) {
  const native_handle handles[] = {
      {KD_NATIVE_CL_PLATFORM, native_number(d->platform)},
      {KD_NATIVE_CL_DEVICE, native_number(d->id)},
      {KD_NATIVE_CL_CONTEXT, native_number(d->context)}};
  return native_give(ocl_host,
                     "OpenCL: a device has the native kinds CL_PLATFORM,"
                     " CL_DEVICE and CL_CONTEXT",
                     handles, 3, kind, out_handle);
}

static kd_status buffer_handle(kd_device *d, kd_buffer *buffer,
                               kd_native_kind kind, uint64_t *out_handle,
                               uint64_t *out_offset) {
  const native_handle handle = {KD_NATIVE_CL_MEM,
                                native_number(buffer->memory)};
  (void)d;
  kd_status status =
      native_give(ocl_host, "OpenCL: a buffer has the native kind CL_MEM",
                  &handle, 1, kind, out_handle);
  if (status == KD_OK) *out_offset = 0;
  return status;
}

static kd_status stream_handle(kd_stream *stream, kd_native_kind kind,
                               uint64_t *out_handle) {
  const native_handle handle = {KD_NATIVE_CL_QUEUE,
                                native_number(stream->queue)};
  return native_give(ocl_host, "OpenCL: a stream has the native kind CL_QUEUE",
                     &handle, 1, kind, out_handle);
}

/* Whether it can be a stream of the device; *out_properties as the driver has them. */
static kd_status check_queue(kd_device *d, cl_command_queue queue,
                             cl_command_queue_properties *out_properties) {
  cl_context context = NULL;
  cl_device_id id = NULL;
  cl_int code = cl.GetCommandQueueInfo(queue, CL_QUEUE_CONTEXT,
                                       sizeof(cl_context), &context, NULL);
  if (code == CL_SUCCESS)
    code = cl.GetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(cl_device_id),
                                  &id, NULL);
  if (code == CL_SUCCESS)
    code = cl.GetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES,
                                  sizeof *out_properties, out_properties, NULL);
  if (code != CL_SUCCESS)
    return FAIL(KD_INVALID_ARGUMENT,
                "OpenCL: clGetCommandQueueInfo: %s: it is not a queue",
                ocl_error_name(code));
  if (context != d->context || id != d->id)
    return FAIL(KD_INVALID_ARGUMENT,
                "OpenCL: the queue is of another %s; make it with that of"
                " KD_NATIVE_CL_%s",
                context != d->context ? "context" : "device",
                context != d->context ? "CONTEXT" : "DEVICE");
  if (*out_properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    return FAIL(KD_INVALID_ARGUMENT,
                "OpenCL: the queue works out of order; make it without"
                " CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE");
  return KD_OK;
}

static kd_status opencl_native_wrap(kd_device *d, kd_native_kind kind,
                                    uint64_t handle, kd_stream **out_stream) {
  cl_command_queue queue = (cl_command_queue)(uintptr_t)handle;
  cl_command_queue_properties properties = 0;
  if (kind != KD_NATIVE_CL_QUEUE)
    return FAIL(KD_UNIMPLEMENTED,
                "OpenCL: streams are made of the native kind CL_QUEUE, and not"
                " of 0x%x",
                (unsigned)kind);
  if (!queue) return FAIL(KD_INVALID_ARGUMENT, "OpenCL: the queue is NULL");
  kd_status status = check_queue(d, queue, &properties);
  if (status != KD_OK) return status;
  OCL_TRY("clRetainCommandQueue", cl.RetainCommandQueue(queue));
  return ocl_stream_over(d, queue, properties & CL_QUEUE_PROFILING_ENABLE, true,
                         out_stream);
}

const kd_native_table ocl_native = {
    .struct_size = sizeof(kd_native_table),
    .device = device_handle,
    .buffer = buffer_handle,
    .stream = stream_handle,
    .wrap = opencl_native_wrap,
};
