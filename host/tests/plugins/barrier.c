/* barrier.c - a device whose Abs blocks: until so many of them are inside at once, or ten
 * seconds have passed; then it fails. */
#include <kd/kd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MEMBERS 8

static const kd_host *host;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int inside, round_;

static kd_status meet(void) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 10;
  int late = 0;
  pthread_mutex_lock(&lock);
  int mine = round_;
  if (++inside == MEMBERS) {
    inside = 0;
    round_++;
    pthread_cond_broadcast(&changed);
  }
  while (mine == round_ && !late)
    late = pthread_cond_timedwait(&changed, &lock, &until);
  if (late) inside--;
  pthread_mutex_unlock(&lock);
  return late ? host->fail(KD_ABORTED, "barrier: the others did not come")
              : KD_OK;
}

static kd_status enqueue(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  (void)self;
  (void)stream;
  const float *x = launch->inputs[0].data;
  float *y = launch->outputs[0].data;
  kd_status status = meet();
  for (int64_t i = 0, n = kd_elements(&launch->outputs[0]); i < n; i++)
    y[i] = x[i] < 0 ? -x[i] : x[i];
  return status;
}

static const kd_kernel_def kernels[] = {
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_BLOCKING,
     .op = "Abs",
     .input_types = {KD_TYPES(KD_F32)},
     .enqueue = enqueue},
};

static kd_status allocate(kd_device *device, uint32_t space, uint64_t size,
                          kd_buffer **out_buffer, void **out_address) {
  (void)device;
  (void)space;
  *out_address = malloc(size);
  *out_buffer = *out_address;
  return *out_address ? KD_OK : KD_OUT_OF_MEMORY;
}

static void release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  free(buffer);
}

static kd_status copy_in(kd_device *device, kd_stream *stream,
                         const void *source, kd_buffer *target, uint64_t offset,
                         uint64_t size) {
  (void)device;
  (void)stream;
  memcpy((char *)target + offset, source, size);
  return KD_OK;
}

static kd_status copy_out(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t offset, void *target,
                          uint64_t size) {
  (void)device;
  (void)stream;
  memcpy(target, (char *)source + offset, size);
  return KD_OK;
}

static kd_status plugin_open(const kd_host *services) {
  host = services;
  return KD_OK;
}

static void plugin_close(void) {}

static uint32_t device_count(void) {
  return 1;
}

static kd_status device_info(uint32_t index, kd_device_info *out_info) {
  (void)index;
  out_info->flags =
      KD_DEVICE_SOFTWARE | KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE;
  out_info->name = "Barrier";
  out_info->kind = "npu";
  return KD_OK;
}

static kd_status device_open(uint32_t index, kd_device **out_device) {
  static int device;
  (void)index;
  *out_device = (kd_device *)&device;
  return KD_OK;
}

static void device_close(kd_device *device) {
  (void)device;
}

static const kd_memory_table memory = {
    .struct_size = sizeof memory,
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
};

static const kd_plugin plugin = {
    .struct_size = sizeof plugin,
    .abi_version = KD_ABI_VERSION,
    .name = "barrier",
    .vendor = "Keel's tests",
    .version = "1",
    .open = plugin_open,
    .close = plugin_close,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .memory = &memory,
    .kernels = kernels,
    .kernel_count = 1,
};

KD_ENTRY(plugin)
