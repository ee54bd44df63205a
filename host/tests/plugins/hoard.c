/* hoard.c - a device of one MiB that keeps what is released until it is asked to trim. */
#define DEVICE_NAME   "Hoard"
#define DEVICE_MEMORY hoarding
#include "inline.h"

#define CAPACITY (1u << 20)

typedef struct block {
  uint64_t size;
  struct block *next;
  char padding[48]; /* data begin at 64 */
} block;

static block *hoard;
static uint64_t taken, kept, blocks;

KD_EXPORT int hoard_trims;

static kd_status hoard_allocate(kd_device *device, const kd_allocation *wanted,
                                kd_buffer **out_buffer, void **out_address) {
  (void)device;
  if (taken + kept + wanted->size > CAPACITY)
    return host->fail(KD_OUT_OF_MEMORY, "hoard: no %llu bytes are left",
                      (unsigned long long)wanted->size);
  block *made = aligned_alloc(64, sizeof *made + (wanted->size + 63) / 64 * 64);
  if (!made) return host->fail(KD_OUT_OF_MEMORY, "hoard: no host memory");
  made->size = wanted->size;
  taken += made->size;
  blocks++;
  *out_buffer = (kd_buffer *)(void *)(made + 1);
  *out_address = made + 1;
  return KD_OK;
}

static void hoard_release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  block *freed = (block *)(void *)buffer - 1;
  taken -= freed->size;
  blocks--;
  kept += freed->size;
  freed->next = hoard;
  hoard = freed;
}

static void hoard_trim(kd_device *device) {
  (void)device;
  hoard_trims++;
  kept = 0;
  for (block *next; hoard; hoard = next) {
    next = hoard->next;
    free(hoard);
  }
}

static kd_status hoard_stats(kd_device *device, uint32_t space,
                             kd_memory_stats *out_stats) {
  (void)device;
  (void)space;
  out_stats->total = CAPACITY;
  out_stats->available = CAPACITY - taken;
  out_stats->used = taken;
  out_stats->buffers = blocks;
  return KD_OK;
}

static kd_status enqueue(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  (void)self;
  (void)stream;
  memcpy(launch->outputs[0].data, launch->inputs[0].data,
         (size_t)launch->outputs[0].size);
  return KD_OK;
}

static const kd_kernel_def kernels[] = {
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Identity",
     .enqueue = enqueue},
};

static const kd_memory_table hoarding = {
    .struct_size = sizeof hoarding,
    .allocate = hoard_allocate,
    .release = hoard_release,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .stats = hoard_stats,
    .trim = hoard_trim,
};

static const kd_plugin plugin = {
    INLINE_PLUGIN,
    .name = "hoard",
    .kernels = kernels,
    .kernel_count = 1,
};

KD_ENTRY(plugin)
