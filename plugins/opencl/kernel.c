/* kernel.c - passes of the families' plans as OpenCL kernels. */
#include "opencl.h"

static kd_status make_kernel(kd_device *d, const fam_pass *pass,
                             cl_kernel *out) {
  cl_program program = NULL;
  cl_int code = CL_SUCCESS;
  char *source = fam_opencl(ocl_host, &d->families.dialect, pass);
  if (!source) return FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel's source");
  kd_status status = ocl_program_get(d, source, &program);
  ocl_host->release(source);
  if (status != KD_OK) return status;
  *out = cl.CreateKernel(program, "family", &code);
  return *out ? KD_OK : ocl_failed(code, "clCreateKernel");
}

static kd_status compile(kd_device *d, const fam_pass *pass, void **out) {
  cl_kernel kernel = NULL;
  kd_status status = make_kernel(d, pass, &kernel);
  if (status == KD_OK) *out = kernel;
  return status;
}

static void drop(kd_device *d, void *kernel) {
  (void)d;
  cl.ReleaseKernel(kernel);
}

static kd_status set_arguments(cl_kernel kernel, const fam_pass *pass,
                               const kd_launch *launch) {
  cl_uint at = 0;
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    const kd_tensor *tensor = fam_tensor_of(launch, &pass->buffers[i]);
    cl_mem memory = tensor->buffer ? tensor->buffer->memory : NULL;
    cl_ulong offset = tensor->offset;
    OCL_TRY("clSetKernelArg",
            cl.SetKernelArg(kernel, at++, sizeof memory, &memory));
    OCL_TRY("clSetKernelArg",
            cl.SetKernelArg(kernel, at++, sizeof offset, &offset));
  }
  uint32_t count = pass->param_count ? pass->param_count : 1;
  OCL_TRY(
      "clSetKernelArg",
      cl.SetKernelArg(kernel, at, count * sizeof *pass->params, pass->params));
  return KD_OK;
}

/* A recording has kernels of its own, whose arguments stay. */
static kd_status record_pass(kd_device *d, kd_stream *stream,
                             const fam_pass *pass, const kd_launch *launch) {
  ocl_command command = {.kind = OCL_LAUNCH,
                         .items = (size_t)pass->groups * pass->group,
                         .group = pass->group,
                         .buffer_count = pass->buffer_count};
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    const kd_tensor *tensor = fam_tensor_of(launch, &pass->buffers[i]);
    command.buffers[i] = tensor->buffer;
    command.offsets[i] = tensor->offset;
  }
  kd_status status = make_kernel(d, pass, &command.kernel);
  if (status == KD_OK) status = set_arguments(command.kernel, pass, launch);
  if (status == KD_OK) status = ocl_record(stream, &command);
  if (status != KD_OK && command.kernel) cl.ReleaseKernel(command.kernel);
  return status;
}

static kd_status run_pass(kd_device *d, kd_stream *stream, void *kernel,
                          const fam_pass *pass, const kd_launch *launch) {
  if (stream && stream->recording) return record_pass(d, stream, pass, launch);
  size_t group = pass->group, items = (size_t)pass->groups * group;
  cl_event event = NULL;
  bool profiling = atomic_load_explicit(&d->profiling, memory_order_relaxed);
  kd_status status = set_arguments(kernel, pass, launch);
  if (status != KD_OK) return status;
  OCL_TRY("clEnqueueNDRangeKernel",
          cl.EnqueueNDRangeKernel(ocl_queue(d, stream), kernel, 1, NULL, &items,
                                  &group, 0, NULL, profiling ? &event : NULL));
  if (event)
    ocl_note(d, stream, event, KD_PROFILE_KERNEL, 0, launch->correlation);
  return KD_OK;
}

static kd_status settle(kd_device *d) {
  OCL_TRY("clFinish", cl.Finish(d->queue));
  return KD_OK;
}

void ocl_kernels_begin(kd_device *d) {
  d->families.host = ocl_host;
  d->families.name = d->name;
  d->families.compile = compile;
  d->families.release = drop;
  d->families.launch = run_pass;
  d->families.settle = settle;
}

const fam_driver *fam_driver_of(const kd_device *d) {
  return &d->families;
}
