/* plain.h - a device in the host's memory, one of a plugin: a buffer is its address, and all
 * is done when a call returns. Its facts are the plugin's to tell. */
#ifndef PLUGINS_PLAIN_H
#define PLUGINS_PLAIN_H

#include <kd/kd.h>
#include <string.h>

static const kd_host *plain_host; /* set by the plugin's `open` */

static inline kd_status plain_allocate(kd_device *device,
                                       const kd_allocation *wanted,
                                       kd_buffer **out_buffer,
                                       void **out_address) {
  (void)device;
  *out_address = plain_host->allocate(plain_host, wanted->size, 64);
  *out_buffer = *out_address;
  return *out_buffer ? KD_OK
                     : plain_host->fail(KD_OUT_OF_MEMORY, "no memory is left");
}

static inline void plain_release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  plain_host->release(plain_host, buffer);
}

static inline kd_status plain_copy_in(kd_device *device, kd_stream *stream,
                                      const void *source, kd_buffer *target,
                                      uint64_t offset, uint64_t size) {
  (void)device, (void)stream;
  if (size) memcpy((char *)target + offset, source, size);
  return KD_OK;
}

static inline kd_status plain_copy_out(kd_device *device, kd_stream *stream,
                                       kd_buffer *source, uint64_t offset,
                                       void *target, uint64_t size) {
  (void)device, (void)stream;
  if (size) memcpy(target, (char *)source + offset, size);
  return KD_OK;
}

static const kd_memory_table plain_memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = plain_allocate,
    .release = plain_release,
    .copy_in = plain_copy_in,
    .copy_out = plain_copy_out,
};

static inline uint32_t plain_device_count(kd_instance *instance) {
  (void)instance;
  return 1;
}

static inline kd_status plain_device_open(kd_instance *instance, uint32_t index,
                                          kd_device **out_device) {
  (void)instance;
  if (index) return plain_host->fail(KD_OUT_OF_RANGE, "there is one device");
  *out_device = (kd_device *)(uintptr_t)&plain_memory; /* any address will do */
  return KD_OK;
}

static inline void plain_device_close(kd_device *device) {
  (void)device;
}

#endif /* PLUGINS_PLAIN_H */
