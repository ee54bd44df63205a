/* external.c - memory of others, and memory for others, on devices that share theirs with
 * the host: a cl_mem over host memory, which the application has or a file is. */
#include "opencl.h"

static bool knows(const kd_device *d, uint32_t kind) {
  return (kind == KD_EXTERNAL_HOST_POINTER || kind == KD_EXTERNAL_SHARED_FD) &&
         d->unified &&
         !d->families.script; /* that has all data, by their copies */
}

static kd_status over(kd_device *d, cl_mem_flags access, char *at,
                      uint64_t size, kd_buffer **out_buffer) {
  cl_int code = CL_SUCCESS;
  kd_buffer *buffer = ocl_host->allocate(ocl_host, sizeof *buffer, 0);
  if (!buffer) return FAIL(KD_OUT_OF_MEMORY, "no memory for a buffer");
  *buffer = (kd_buffer){.size = size};
  buffer->memory = cl.CreateBuffer(d->context, access | CL_MEM_USE_HOST_PTR,
                                   (size_t)size, at, &code);
  if (!buffer->memory) {
    ocl_host->release(ocl_host, buffer);
    return ocl_failed(code, "clCreateBuffer of host memory");
  }
  *out_buffer = buffer;
  return KD_OK;
}

kd_status ocl_allocate_exported(kd_device *d, uint64_t size, uint32_t kind,
                                kd_buffer **out_buffer) {
  shared_memory shared = {NULL, 0, -1};
  if (kind != KD_EXTERNAL_SHARED_FD || !knows(d, kind))
    return FAIL(KD_UNIMPLEMENTED,
                "OpenCL: memory of %s can't be exported as kind %u", d->name,
                kind);
  int error = shared_make(size, &shared);
  if (error)
    return FAIL(KD_OUT_OF_MEMORY, "no file in memory of %llu bytes: %s",
                (unsigned long long)size, strerror(error));
  kd_status status = over(d, CL_MEM_READ_WRITE, shared.at, size, out_buffer);
  if (status != KD_OK) {
    shared_end(&shared);
    return status;
  }
  (*out_buffer)->shared = shared;
  (*out_buffer)->exported = true;
  return KD_OK;
}

static kd_status import_shared(kd_device *d, const kd_external *from,
                               kd_buffer **out_buffer) {
  shared_memory shared = {NULL, 0, -1};
  kd_status status = shared_open(ocl_host, from, &shared);
  if (status != KD_OK) return status;
  status = over(d, CL_MEM_READ_ONLY, shared.at + from->offset, from->size,
                out_buffer);
  if (status != KD_OK) /* the descriptor is still the caller's */
    munmap(shared.at, (size_t)shared.size);
  else
    (*out_buffer)->shared = shared;
  return status;
}

/* To be read only: what a kernel writes need not be in the host's memory before somebody
 * maps it. */
static kd_status opencl_external_import_memory(kd_device *d,
                                               const kd_external *from,
                                               kd_buffer **out_buffer,
                                               void **out_address) {
  char *at = (char *)(uintptr_t)from->handle + from->offset;
  bool host = from->kind == KD_EXTERNAL_HOST_POINTER;
  if (!knows(d, from->kind) || from->access != KD_READ || !from->size ||
      (host ? (uintptr_t)at : from->offset) % d->alignment)
    return FAIL(KD_UNIMPLEMENTED,
                "only host memory to be read is taken, at a multiple of %u, by"
                " devices that share it",
                d->alignment);
  kd_status status = host
                         ? over(d, CL_MEM_READ_ONLY, at, from->size, out_buffer)
                         : import_shared(d, from, out_buffer);
  if (status != KD_OK) return status;
  (*out_buffer)->imported = true;
  *out_address = NULL;
  return KD_OK;
}

/* A mapping puts what kernels wrote into the host's memory. */
static kd_status external_bring(kd_device *d, kd_buffer *buffer) {
  cl_int code = CL_SUCCESS;
  void *at = cl.EnqueueMapBuffer(d->queue, buffer->memory, CL_TRUE, CL_MAP_READ,
                                 0, (size_t)buffer->size, 0, NULL, NULL, &code);
  if (!at) return ocl_failed(code, "clEnqueueMapBuffer");
  OCL_TRY(
      "clEnqueueUnmapMemObject",
      cl.EnqueueUnmapMemObject(d->queue, buffer->memory, at, 0, NULL, NULL));
  OCL_TRY("clFinish", cl.Finish(d->queue));
  return KD_OK;
}

static kd_status opencl_external_export_memory(kd_device *d, kd_buffer *buffer,
                                               kd_external *out_memory) {
  if (!buffer->exported || out_memory->kind != KD_EXTERNAL_SHARED_FD)
    return FAIL(KD_UNIMPLEMENTED,
                "the buffer was not made to be exported as kind %u",
                out_memory->kind);
  kd_status status = external_bring(d, buffer);
  if (status != KD_OK) return status;
  int file = shared_descriptor(&buffer->shared);
  if (file < 0)
    return FAIL(KD_UNAVAILABLE, "no descriptor is left: %s", strerror(errno));
  out_memory->handle = (uint64_t)file;
  out_memory->offset = 0;
  out_memory->size = buffer->shared.size;
  out_memory->access = KD_READ;
  return KD_OK;
}

const kd_external_table ocl_external = {
    .struct_size = sizeof(kd_external_table),
    .import_memory = opencl_external_import_memory,
    .export_memory = opencl_external_export_memory,
};
