/* kernel.c - passes of the families' plans as OpenCL kernels. */
#include <string.h>

#include "opencl.h"

static ocl_program *kernel_make(const ocl_program *like, uint32_t param_count) {
  size_t size = sizeof(ocl_program) + param_count * sizeof(uint32_t);
  ocl_program *p = ocl_host->allocate(ocl_host, size, 0);
  if (!p) return NULL;
  memset(p, 0, size);
  if (like) memcpy(p, like, size);
  p->kernel = NULL;
  p->param_count = param_count;
  p->bound_in = UINT64_MAX; /* nothing is bound */
  return p;
}

/* Its kernel, with the parameters behind the buffers. */
static kd_status kernel_begin(ocl_program *p, uint32_t buffer_count) {
  cl_int code = CL_SUCCESS;
  p->kernel = cl.CreateKernel(p->source, "family", &code);
  if (!p->kernel) return ocl_failed(code, "clCreateKernel");
  OCL_TRY("clSetKernelArg",
          cl.SetKernelArg(p->kernel, 2 * buffer_count,
                          p->param_count * sizeof *p->params, p->params));
  return KD_OK;
}

static void opencl_kernel_drop(kd_device *d, void *program) {
  ocl_program *p = program;
  (void)d;
  if (p->kernel) cl.ReleaseKernel(p->kernel);
  ocl_host->release(ocl_host, p);
}

static kd_status kernel_finish(kd_status status, ocl_program *p,
                               ocl_program **out) {
  if (status == KD_OK)
    *out = p;
  else
    opencl_kernel_drop(NULL, p);
  return status;
}

kd_status ocl_program_twin(const ocl_program *program, ocl_program **out_twin) {
  ocl_program *p = kernel_make(program, program->param_count);
  if (!p) return FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel");
  return kernel_finish(kernel_begin(p, program->buffer_count), p, out_twin);
}

static kd_status opencl_kernel_compile(kd_device *d, const fam_pass *pass,
                                       void **out) {
  uint32_t count = pass->param_count ? pass->param_count : 1;
  ocl_program *p = kernel_make(NULL, count), *made = NULL;
  char *source = fam_opencl(ocl_host, &d->families.dialect, pass);
  kd_status status =
      p && source ? KD_OK
                  : FAIL(KD_OUT_OF_MEMORY, "no memory for a kernel's source");
  if (status == KD_OK) status = ocl_program_get(d, source, &p->source);
  if (source) ocl_host->release(ocl_host, source);
  if (!p) return status;
  p->items = (size_t)pass->groups * pass->group;
  p->group = pass->group;
  p->buffer_count = pass->buffer_count;
  memcpy(p->params, pass->params, count * sizeof *p->params);
  if (status == KD_OK) status = kernel_begin(p, pass->buffer_count);
  status = kernel_finish(status, p, &made);
  *out = made;
  return status;
}

static kd_status kernel_bind(ocl_program *p, uint32_t at, kd_buffer *buffer,
                             uint64_t offset) {
  cl_mem memory = buffer ? buffer->memory : NULL;
  cl_ulong from = offset;
  OCL_TRY("clSetKernelArg",
          cl.SetKernelArg(p->kernel, 2 * at, sizeof memory, &memory));
  OCL_TRY("clSetKernelArg",
          cl.SetKernelArg(p->kernel, 2 * at + 1, sizeof from, &from));
  p->buffers[at] = buffer;
  p->offsets[at] = offset;
  return KD_OK;
}

kd_status ocl_program_bind(kd_device *d, ocl_program *p, const fam_command *m) {
  /* Behind a release, a handle may stand for another buffer than the one that the
   * driver saw. relaxed: the buffers of this launch were made before it began. */
  uint64_t now = atomic_load_explicit(&d->generation, memory_order_relaxed);
  bool all = p->bound_in != now;
  p->bound_in = UINT64_MAX; /* unless all is well */
  for (uint32_t i = 0; i < m->buffer_count; i++) {
    if (!all && p->buffers[i] == m->buffers[i] &&
        p->offsets[i] == m->offsets[i])
      continue;
    kd_status status = kernel_bind(p, i, m->buffers[i], m->offsets[i]);
    if (status != KD_OK) return status;
  }
  p->bound_in = now;
  return KD_OK;
}

static kd_status kernel_run(kd_device *d, kd_stream *stream,
                            const fam_command *m, uint64_t correlation) {
  return ocl_enqueue(d, stream, m, correlation, !stream);
}

void ocl_kernels_begin(kd_device *d) {
  d->families.host = ocl_host;
  d->families.name = d->name;
  d->families.source = fam_opencl;
  d->families.compile = opencl_kernel_compile;
  d->families.release = opencl_kernel_drop;
  d->families.run = kernel_run;
  d->families.memory = &ocl_memory;
  d->families.streams = &ocl_streams;
  d->families.marks = &ocl_marks;
  d->families.recorder = &ocl_recorder;
  if (ocl_gives_forms(d)) d->families.programs = &d->programs;
}
