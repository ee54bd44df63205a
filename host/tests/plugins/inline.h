/* inline.h - a device in host memory whose work is done when a call returns: what plugins
 * of tests share. Who includes it defines DEVICE_NAME, and what is otherwise: OPSET, the
 * DEVICE_FLAGS, how many DEVICE_SPACES there are, DEVICE_MEMORY (a kd_memory_table). */
#ifndef KEEL_TESTS_INLINE_H
#define KEEL_TESTS_INLINE_H

#include <kd/kd.h>
#include <stdlib.h>
#include <string.h>
#include "single.h"

#ifndef OPSET
#define OPSET KD_OPSET
#endif
#ifndef DEVICE_FLAGS
#define DEVICE_FLAGS \
  (KD_DEVICE_SOFTWARE | KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE)
#endif
#ifndef DEVICE_SPACES
#define DEVICE_SPACES 0
#endif

static const kd_host *host;

static inline kd_status allocate(kd_device *device, const kd_allocation *wanted,
                                 kd_buffer **out_buffer, void **out_address) {
  uint64_t size = wanted->size;
  (void)device;
  *out_address = aligned_alloc(64, (size + 63) / 64 * 64);
  *out_buffer = *out_address;
  return *out_address ? KD_OK : KD_OUT_OF_MEMORY;
}

static inline void release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  free(buffer);
}

static inline kd_status copy_in(kd_device *device, kd_stream *stream,
                                const void *source, kd_buffer *target,
                                uint64_t offset, uint64_t size) {
  (void)device;
  (void)stream;
  memcpy((char *)target + offset, source, size);
  return KD_OK;
}

static inline kd_status copy_out(kd_device *device, kd_stream *stream,
                                 kd_buffer *source, uint64_t offset,
                                 void *target, uint64_t size) {
  (void)device;
  (void)stream;
  memcpy(target, (char *)source + offset, size);
  return KD_OK;
}

static kd_status start(const kd_host *services) {
  host = services;
  return KD_OK;
}

static kd_status plugin_open(const kd_host *services,
                             kd_instance **out_instance) {
  return single_open(services, start, out_instance);
}

static void plugin_close(kd_instance *instance) {
  (void)instance;
  single_close();
}

static uint32_t device_count(kd_instance *instance) {
  (void)instance;
  return 1;
}

static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  (void)instance;
  (void)index;
  out_info->flags = DEVICE_FLAGS;
  out_info->space_count = DEVICE_SPACES;
  out_info->name = DEVICE_NAME;
  out_info->kind = "npu";
  return KD_OK;
}

static kd_status device_open(kd_instance *instance, uint32_t index,
                             kd_device **out_device) {
  (void)instance;
  static int device;
  (void)index;
  *out_device = (kd_device *)&device;
  return KD_OK;
}

static void device_close(kd_device *device) {
  (void)device;
}

#ifndef DEVICE_MEMORY
#define DEVICE_MEMORY memory
static const kd_memory_table memory = {
    .struct_size = sizeof memory,
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
};
#endif

/* The slots of kd_plugin that are the same for all. */
#define INLINE_PLUGIN                                                       \
  .struct_size = sizeof(kd_plugin), .abi_version = KD_ABI_VERSION,          \
  .opset = OPSET, .vendor = "Keel's tests", .version = "1",                 \
  .open = plugin_open, .close = plugin_close, .device_count = device_count, \
  .device_info = device_info, .device_open = device_open,                   \
  .device_close = device_close, .memory = &DEVICE_MEMORY

#endif /* KEEL_TESTS_INLINE_H */
