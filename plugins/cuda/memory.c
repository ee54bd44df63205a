/* memory.c - buffers: the device's memory in space 0, from the driver's pool, and pinned
 * host memory in space 1, which kernels and the host use at one address. */
#include "cudev.h"

static kd_status no_room(kd_device *d, uint64_t size, const char *call) {
  size_t available = 0, total = 0;
  if (cu.MemGetInfo(&available, &total) != CU_OK) {
    available = 0;
    total = (size_t)d->total;
  }
  return FAIL(KD_OUT_OF_MEMORY,
              "%llu bytes on cuda:%u (%s): %llu of %llu are free, and %llu are"
              " this process's tensors",
              (unsigned long long)size, d->index, call,
              (unsigned long long)available, (unsigned long long)total,
              (unsigned long long)atomic_load(&d->used));
}

static kd_status cuda_memory_take_device(kd_device *d, cu_stream queue,
                                         uint64_t size, kd_buffer *buffer) {
  const char *call = d->pool ? "cuMemAllocAsync" : "cuMemAlloc";
  if (size > d->total) return no_room(d, size, call);
  cu_result code = d->pool
                       ? cu.MemAllocAsync(&buffer->memory, (size_t)size, queue)
                       : cu.MemAlloc(&buffer->memory, (size_t)size);
  if (code == CU_OUT_OF_MEMORY) return no_room(d, size, call);
  CU_TRY(d, call, code);
  return KD_OK;
}

static kd_status take_host(kd_device *d, uint64_t size, kd_buffer *buffer) {
  cu_result code =
      size > UINT64_MAX / 2
          ? CU_OUT_OF_MEMORY
          : cu.MemHostAlloc(&buffer->host, (size_t)size, CU_HOST_PORTABLE);
  if (code == CU_OUT_OF_MEMORY)
    return FAIL(KD_OUT_OF_MEMORY, "%llu bytes of pinned host memory",
                (unsigned long long)size);
  CU_TRY(d, "cuMemHostAlloc", code);
  /* one address space: a device finds it where the host does */
  buffer->memory = (cu_pointer)(uintptr_t)buffer->host;
  return KD_OK;
}

static kd_status cuda_memory_allocate(kd_device *d, const kd_allocation *wanted,
                                      kd_buffer **out_buffer,
                                      void **out_address) {
  uint64_t size = wanted->size;
  uint32_t space = wanted->space;
  if (wanted->flags || wanted->export_kind)
    return FAIL(KD_UNIMPLEMENTED, "memory of CUDA can't be exported");
  kd_buffer *buffer = cuda_host->allocate(cuda_host, sizeof *buffer, 0);
  if (!buffer) return FAIL(KD_OUT_OF_MEMORY, "no memory for a buffer");
  *buffer = (kd_buffer){.size = size};
  kd_status status = cuda_enter(d);
  if (status == KD_OK) {
    status = space ? take_host(d, size, buffer)
                   : cuda_memory_take_device(d, d->lane.queue, size, buffer);
    if (status == KD_OK && !space && d->pool) { /* it is there on all streams */
      cu_result code = cu.StreamSynchronize(d->lane.queue);
      if (code != CU_OK) status = cuda_failed(d, code, "cuStreamSynchronize");
    }
    cuda_leave();
  }
  if (status != KD_OK) {
    cuda_host->release(cuda_host, buffer);
    return status;
  }
  atomic_fetch_add(&d->used, size);
  atomic_fetch_add(&d->buffers, 1);
  *out_buffer = buffer;
  *out_address = (void *)(uintptr_t)buffer->memory;
  return KD_OK;
}

static void cuda_memory_release(kd_device *d, kd_buffer *buffer) {
  atomic_fetch_sub(&d->used, buffer->size);
  atomic_fetch_sub(&d->buffers, 1);
  if (cuda_enter_anyhow(d)) {
    if (buffer->host)
      cu.MemFreeHost(buffer->host);
    else if (d->pool)
      cu.MemFreeAsync(buffer->memory, d->lane.queue);
    else
      cu.MemFree(buffer->memory);
    cuda_leave();
  }
  cuda_host->release(cuda_host, buffer);
}

static kd_status cuda_memory_map(kd_device *d, kd_buffer *buffer,
                                 uint64_t offset, uint64_t size,
                                 uint32_t access, void **out_address) {
  (void)d;
  (void)size;
  (void)access;
  if (!buffer->host)
    return FAIL(KD_UNIMPLEMENTED, "space 0 is not host visible");
  *out_address = (char *)buffer->host + offset;
  return KD_OK;
}

static void cuda_memory_unmap(kd_device *d, kd_buffer *buffer) {
  (void)d;
  (void)buffer;
}

static kd_status cuda_memory_stats(kd_device *d, uint32_t space,
                                   kd_memory_stats *out) {
  size_t available = 0, total = 0;
  out->used = atomic_load(&d->used);
  out->buffers = atomic_load(&d->buffers);
  out->total = d->total;
  if (space) return KD_OK; /* nobody says how much may be pinned */
  CU_ENTER(d);
  if (cu.MemGetInfo(&available, &total) == CU_OK) {
    out->total = total;
    out->available = available;
  }
  cuda_leave();
  return KD_OK;
}

static void trim(kd_device *d) {
  if (!d->pool || !cuda_enter_anyhow(d)) return;
  cu.StreamSynchronize(
      d->lane.queue); /* what is freed in its order is free then */
  cu.MemPoolTrimTo(d->pool, 0);
  cuda_leave();
}

const kd_memory_table cuda_memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = cuda_memory_allocate,
    .release = cuda_memory_release,
    .copy_in = fam_copy_in,
    .copy_out = fam_copy_out,
    .copy = fam_copy,
    .fill = fam_fill,
    .map = cuda_memory_map,
    .unmap = cuda_memory_unmap,
    .stats = cuda_memory_stats,
    .trim = trim,
};

/* ---- other devices -------------------------------------------------------------------- */

static uint32_t reachable(kd_device *from, kd_device *to) {
  int can = 0;
  return cu.DeviceCanAccessPeer(&can, to->id, from->id) == CU_OK && can;
}

static kd_status peer_copy(kd_device *from, kd_buffer *source,
                           uint64_t source_offset, kd_device *to,
                           kd_stream *stream, kd_buffer *target,
                           uint64_t target_offset, uint64_t size) {
  if (!size) return KD_OK;
  if (stream && stream->common.recording)
    return FAIL(KD_UNIMPLEMENTED, "a copy between devices is not recorded");
  CU_ENTER(to);
  cu_stream queue = stream ? stream->lane.queue : to->lane.queue;
  cu_result code = cu.MemcpyPeerAsync(
      target->memory + target_offset, to->context,
      source->memory + source_offset, from->context, (size_t)size, queue);
  if (code == CU_OK && !stream) code = cu.StreamSynchronize(queue);
  return cuda_left(to, code, "cuMemcpyPeerAsync");
}

const kd_peer_table cuda_peer = {
    .struct_size = sizeof(kd_peer_table),
    .reachable = reachable,
    .copy = peer_copy,
};
