/* memory.c - buffers.
 *
 * A buffer is a cl_mem; it has no address. Space 0 is the device's, which `map` gives where
 * the device shares its memory with the host; space 1 is host memory that the driver pins,
 * and that `map` gives without a copy. */
#include "opencl.h"

static kd_status opencl_memory_make(kd_device *d, uint32_t space, uint64_t size,
                                    kd_buffer **out_buffer) {
  cl_int code = CL_SUCCESS;
  kd_buffer *buffer = ocl_host->allocate(ocl_host, sizeof *buffer, 0);
  if (!buffer) return FAIL(KD_OUT_OF_MEMORY, "no memory for a buffer");
  *buffer = (kd_buffer){.size = size};
  buffer->memory = cl.CreateBuffer(
      d->context, CL_MEM_READ_WRITE | (space ? CL_MEM_ALLOC_HOST_PTR : 0),
      (size_t)size, NULL, &code);
  if (!buffer->memory) {
    ocl_host->release(ocl_host, buffer);
    return ocl_failed(code, "clCreateBuffer");
  }
  *out_buffer = buffer;
  return KD_OK;
}

static kd_status opencl_memory_allocate(kd_device *d,
                                        const kd_allocation *wanted,
                                        kd_buffer **out_buffer,
                                        void **out_address) {
  uint64_t size = wanted->size;
  uint32_t space = wanted->space;
  if (wanted->flags)
    return FAIL(KD_UNIMPLEMENTED, "allocation flags 0x%x", wanted->flags);
  uint64_t used = atomic_load(&d->used);
  if (used > d->global_size) used = d->global_size; /* two at once */
  if (size > d->max_buffer || size > d->global_size - used)
    return FAIL(
        KD_OUT_OF_MEMORY,
        "%llu bytes: %llu of %llu are free, and %llu are the most of"
        " one buffer",
        (unsigned long long)size, (unsigned long long)(d->global_size - used),
        (unsigned long long)d->global_size, (unsigned long long)d->max_buffer);
  kd_buffer *buffer = NULL;
  kd_status status =
      wanted->export_kind
          ? ocl_allocate_exported(d, size, wanted->export_kind, &buffer)
          : opencl_memory_make(d, space, size, &buffer);
  if (status != KD_OK) return status;
  buffer->visible = space != 0 || d->unified;
  atomic_fetch_add(&d->used, size);
  atomic_fetch_add(&d->buffers, 1);
  *out_buffer = buffer;
  *out_address = NULL;
  return KD_OK;
}

static void opencl_memory_release(kd_device *d, kd_buffer *buffer) {
  if (!buffer->imported) {
    atomic_fetch_sub(&d->used, buffer->size);
    atomic_fetch_sub(&d->buffers, 1);
  }
  atomic_fetch_add(&d->generation, 1); /* its address may come again */
  cl.ReleaseMemObject(buffer->memory);
  shared_end(&buffer->shared);
  ocl_host->release(ocl_host, buffer);
}

static kd_status opencl_memory_map(kd_device *d, kd_buffer *buffer,
                                   uint64_t offset, uint64_t size,
                                   uint32_t access, void **out_address) {
  cl_int code = CL_SUCCESS;
  if (!buffer->visible || d->families.script) /* that has what is copied out */
    return FAIL(KD_UNIMPLEMENTED, "the memory is not host visible");
  cl_map_flags flags =
      (access & 1 ? CL_MAP_READ : 0) | (access & 2 ? CL_MAP_WRITE : 0);
  buffer->mapped =
      cl.EnqueueMapBuffer(d->queue, buffer->memory, CL_TRUE, flags,
                          (size_t)offset, (size_t)size, 0, NULL, NULL, &code);
  if (!buffer->mapped) return ocl_failed(code, "clEnqueueMapBuffer");
  *out_address = buffer->mapped;
  return KD_OK;
}

static void opencl_memory_unmap(kd_device *d, kd_buffer *buffer) {
  if (!buffer->mapped) return;
  cl.EnqueueUnmapMemObject(d->queue, buffer->memory, buffer->mapped, 0, NULL,
                           NULL);
  cl.Finish(d->queue);
  buffer->mapped = NULL;
}

static kd_status opencl_memory_stats(kd_device *d, uint32_t space,
                                     kd_memory_stats *out) {
  uint64_t used = atomic_load(&d->used);
  (void)space;
  if (used > d->global_size) used = d->global_size;
  out->total = d->global_size;
  out->used = used;
  out->available = d->global_size - used;
  out->buffers = atomic_load(&d->buffers);
  return KD_OK;
}

const kd_memory_table ocl_memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = opencl_memory_allocate,
    .release = opencl_memory_release,
    .copy_in = fam_copy_in,
    .copy_out = fam_copy_out,
    .copy = fam_copy,
    .fill = fam_fill,
    .map = opencl_memory_map,
    .unmap = opencl_memory_unmap,
    .stats = opencl_memory_stats,
};
