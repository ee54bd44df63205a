/* memory.c - the toy's memory: buffers that are handles or addresses, copies in a stream's
 * order; and where the model says so, fills, maps, and a limit. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of these: */
static kd_buffer *kept;
static uint64_t taken, kept_size, buffers;

static kd_status take(uint64_t size) {
  uint64_t capacity = toy_model_now->capacity;
  if (!capacity) return KD_OK;
  pthread_mutex_lock(&lock);
  bool fits = taken + kept_size + size <= capacity;
  if (fits) {
    taken += size;
    buffers++;
  }
  pthread_mutex_unlock(&lock);
  return fits ? KD_OK
              : toy_fail(KD_OUT_OF_MEMORY, "no %llu bytes are left",
                         (unsigned long long)size);
}

static kd_status allocate(kd_device *device, const kd_allocation *wanted,
                          kd_buffer **out_buffer, void **out_address) {
  size_t alignment = toy_model_now->alignment ? toy_model_now->alignment : 64;
  (void)device;
  kd_buffer *buffer = calloc(1, sizeof *buffer);
  if (buffer)
    buffer->bytes = aligned_alloc(
        alignment, (wanted->size + alignment - 1) / alignment * alignment);
  kd_status status = buffer && buffer->bytes
                         ? take(wanted->size)
                         : toy_fail(KD_OUT_OF_MEMORY, "no host memory");
  if (status != KD_OK) {
    if (buffer) free(buffer->bytes);
    free(buffer);
    return status;
  }
  memset(buffer->bytes, 0xee,
         wanted->size); /* who reads it before writing is found out */
  buffer->size = wanted->size;
  toy_buffers++;
  *out_buffer = buffer;
  *out_address = toy_model_now->handles ? NULL : buffer->bytes;
  return KD_OK;
}

void toy_need_unmapped(const kd_buffer *buffer) {
  if (buffer && buffer->shown) abort();
}

static void destroy(kd_buffer *buffer) {
  free(buffer->bytes);
  free(buffer);
}

static void release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  toy_need_unmapped(buffer);
  toy_buffers--;
  if (!toy_model_now->capacity) {
    destroy(buffer);
    return;
  }
  pthread_mutex_lock(&lock);
  taken -= buffer->size;
  buffers--;
  kept_size += buffer->size;
  buffer->next = kept;
  kept = buffer;
  pthread_mutex_unlock(&lock);
}

void toy_trim(kd_device *device) {
  if (device) toy.trims++;
  pthread_mutex_lock(&lock);
  kept_size = 0;
  for (kd_buffer *next; kept; kept = next) {
    next = kept->next;
    destroy(kept);
  }
  pthread_mutex_unlock(&lock);
}

static kd_status stats(kd_device *device, uint32_t space_index,
                       kd_memory_stats *out_stats) {
  (void)device, (void)space_index;
  pthread_mutex_lock(&lock);
  out_stats->total = toy_model_now->capacity;
  out_stats->available = out_stats->total - taken;
  out_stats->used = taken;
  out_stats->buffers = buffers;
  pthread_mutex_unlock(&lock);
  return KD_OK;
}

/* ---- copies ---------------------------------------------------------------------- */

static kd_status run_copy(toy_job *job) {
  toy_need_unmapped(job->at[1].buffer);
  if (job->size)
    memcpy(toy_address(&job->at[1]), toy_address(&job->at[0]), job->size);
  return KD_OK;
}

static kd_status run_fill(toy_job *job) {
  char *to = toy_address(&job->at[0]);
  toy_need_unmapped(job->at[0].buffer);
  for (uint64_t i = 0; i < job->size; i++)
    to[i] = job->pattern[i % job->pattern_size];
  return KD_OK;
}

static kd_status copy(kd_stream *stream, toy_place from, toy_place to,
                      uint64_t size) {
  return toy_do(stream,
                &(toy_job){.run = run_copy, .at = {from, to}, .size = size});
}

static kd_status copy_in(kd_device *device, kd_stream *stream,
                         const void *source, kd_buffer *target, uint64_t offset,
                         uint64_t size) {
  (void)device;
  toy.copies_in++;
  return copy(stream, (toy_place){.address = (void *)(uintptr_t)source},
              (toy_place){target, offset, NULL}, size);
}

static kd_status copy_out(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t offset, void *target,
                          uint64_t size) {
  (void)device;
  return copy(stream, (toy_place){source, offset, NULL},
              (toy_place){.address = target}, size);
}

static kd_status copy_inside(kd_device *device, kd_stream *stream,
                             kd_buffer *source, uint64_t source_offset,
                             kd_buffer *target, uint64_t target_offset,
                             uint64_t size) {
  (void)device;
  toy.copies++;
  return copy(stream, (toy_place){source, source_offset, NULL},
              (toy_place){target, target_offset, NULL}, size);
}

static kd_status fill(kd_device *device, kd_stream *stream, kd_buffer *target,
                      uint64_t offset, uint64_t size, const void *pattern,
                      uint32_t pattern_size) {
  toy_job job = {.run = run_fill,
                 .at = {{target, offset, NULL}},
                 .size = size,
                 .pattern_size = pattern_size};
  (void)device;
  toy.fills++;
  memcpy(job.pattern, pattern, pattern_size);
  return toy_do(stream, &job);
}

/* ---- maps ------------------------------------------------------------------------ */

static kd_status map(kd_device *device, kd_buffer *buffer, uint64_t offset,
                     uint64_t size, uint32_t access, void **out_address) {
  (void)device;
  if (access != KD_READ)
    return toy_fail(KD_UNIMPLEMENTED, "it shows its memory to readers");
  char *shown = malloc(size);
  if (!shown) return toy_fail(KD_OUT_OF_MEMORY, "no memory");
  toy_need_unmapped(buffer);
  memcpy(shown, buffer->bytes + offset, size);
  buffer->shown = shown;
  toy.mapped++;
  *out_address = shown;
  return KD_OK;
}

static void unmap(kd_device *device, kd_buffer *buffer) {
  (void)device;
  free(atomic_exchange(&buffer->shown, NULL));
  toy.mapped--;
}

kd_memory_table toy_memory(void) {
  const toy_model *model = toy_model_now;
  return (kd_memory_table){
      .struct_size = sizeof(kd_memory_table),
      .allocate = allocate,
      .release = release,
      .copy_in = copy_in,
      .copy_out = copy_out,
      .copy = model->calls_back ? copy_inside : NULL,
      .fill = model->calls_back ? fill : NULL,
      .map = model->maps ? map : NULL,
      .unmap = model->maps ? unmap : NULL,
      .stats = model->capacity ? stats : NULL,
      .trim = model->capacity ? toy_trim : NULL,
  };
}
