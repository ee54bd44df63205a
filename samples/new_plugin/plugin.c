/* plugin.c - the device, its memory, and the table that the plugin exports. */
#include "newdev.h"

/* A buffer is a piece of the heap, and its handle the address. */
static kd_status allocate(kd_device *device, const kd_allocation *wanted, kd_buffer **out_buffer,
                          void **out_address) {
  const kd_host *host = device->host;
  if (wanted->flags || wanted->export_kind)
    return host->fail(KD_UNIMPLEMENTED, "newdev: no such kind of memory");
  void *memory = host->allocate(host, wanted->size, 64);
  if (!memory)
    return host->fail(KD_OUT_OF_MEMORY, "newdev: no %llu bytes are left",
                      (unsigned long long)wanted->size);
  *out_buffer = *out_address = memory;
  return KD_OK;
}

static void release(kd_device *device, kd_buffer *buffer) {
  device->host->release(device->host, buffer);
}

static void run_copy(const work *self) {
  if (self->n) memmove(self->y, self->a, (size_t)self->n);
}

static kd_status copy_in(kd_device *device, kd_stream *stream, const void *source,
                         kd_buffer *target, uint64_t offset, uint64_t size) {
  const work one = {run_copy, .a = source, .y = (char *)target + offset, .n = (int64_t)size};
  return newdev_push(device, stream, &one, 1);
}

static kd_status copy_out(kd_device *device, kd_stream *stream, kd_buffer *source, uint64_t offset,
                          void *target, uint64_t size) {
  const work one = {run_copy, .a = (char *)source + offset, .y = target, .n = (int64_t)size};
  return newdev_push(device, stream, &one, 1);
}

static const kd_memory_table memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
};

static kd_status open_driver(const kd_host *host, kd_instance **out_instance) {
  kd_instance *instance = host->allocate(host, sizeof *instance, 0);
  if (!instance) return host->fail(KD_OUT_OF_MEMORY, "newdev: no memory");
  instance->device = (kd_device){.host = host};
  pthread_mutex_init(&instance->device.lock, NULL);
  pthread_cond_init(&instance->device.changed, NULL);
  *out_instance = instance;
  return KD_OK;
}

static void close_driver(kd_instance *instance) {
  const kd_host *host = instance->device.host;
  pthread_cond_destroy(&instance->device.changed);
  pthread_mutex_destroy(&instance->device.lock);
  host->release(host, instance);
}

static uint32_t device_count(kd_instance *instance) {
  (void)instance;
  return 1;
}

static kd_status device_info(kd_instance *instance, uint32_t index, kd_device_info *out_info) {
  if (index)
    return instance->device.host->fail(KD_OUT_OF_RANGE, "newdev: there is no device %u", index);
  out_info->flags = KD_DEVICE_HOST_ADDRESSABLE | KD_DEVICE_SOFTWARE;
  out_info->name = "New device";
  out_info->kind = "cpu";
  out_info->max_in_flight = NEWDEV_RING;
  return KD_OK;
}

static kd_status device_open(kd_instance *instance, uint32_t index, kd_device **out_device) {
  if (index)
    return instance->device.host->fail(KD_OUT_OF_RANGE, "newdev: there is no device %u", index);
  *out_device = &instance->device;
  return KD_OK;
}

static void device_close(kd_device *device) {
  while (device->streams) {
    kd_stream *next = device->streams->next;
    device->host->release(device->host, device->streams);
    device->streams = next;
  }
}

static const kd_plugin newdev_plugin = {
    .struct_size = sizeof(kd_plugin),
    .abi_version = KD_ABI_VERSION,
    .opset = KD_OPSET,
    .name = "newdev",
    .vendor = "Newdev's vendor",
    .version = "0.1",
    .open = open_driver,
    .close = close_driver,
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .memory = &memory,
    .kernels = newdev_kernels,
    .kernel_count = NEWDEV_KERNELS,
    .streams = &newdev_streams,
    .events = &newdev_events,
    /* level 2 */
    .capture = &newdev_captures,
    /* end */
    /* level 3 */
    .regions = &newdev_regions,
    /* end */
};

KD_ENTRY(newdev_plugin)
