/* inline.h - a plugin of one device that is the host itself (KD_DEVICE_INLINE): a buffer is a
 * piece of the host's memory, and work is done when a call returns. */
#ifndef PLUGINS_INLINE_H
#define PLUGINS_INLINE_H

#include <kd/kd.h>
#include <string.h>

/* Whose memory it is: for a plugin that sets it when it is opened. */
static const kd_host *inline_host;

/* ---- the device --------------------------------------------------------------- */

static inline uint32_t inline_count(kd_instance *instance) {
  (void)instance;
  return 1;
}

static inline kd_status inline_open(kd_instance *instance, uint32_t index,
                                    kd_device **out_device) {
  (void)instance;
  if (index)
    return inline_host->fail(KD_OUT_OF_RANGE, "there is one device, not %u",
                             (unsigned)index + 1);
  *out_device = (kd_device *)(void *)&inline_host; /* any address will do */
  return KD_OK;
}

static inline void inline_close(kd_device *device) {
  (void)device;
}

/* ---- its memory ----------------------------------------------------------------- */

static inline void *inline_address(kd_buffer *buffer, uint64_t offset) {
  return (char *)buffer + offset;
}

static inline kd_status inline_allocate(kd_device *device,
                                        const kd_allocation *wanted,
                                        kd_buffer **out_buffer,
                                        void **out_address) {
  (void)device;
  if (wanted->flags || wanted->export_kind)
    return inline_host->fail(KD_UNIMPLEMENTED, "no such kind of memory");
  *out_buffer = *out_address =
      inline_host->allocate(inline_host, wanted->size, 64);
  return *out_buffer
             ? KD_OK
             : inline_host->fail(KD_OUT_OF_MEMORY, "no %llu bytes are left",
                                 (unsigned long long)wanted->size);
}

static inline void inline_release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  inline_host->release(inline_host, buffer);
}

static inline kd_status inline_copy_in(kd_device *device, kd_stream *stream,
                                       const void *source, kd_buffer *target,
                                       uint64_t offset, uint64_t size) {
  (void)device;
  (void)stream;
  if (size) memcpy(inline_address(target, offset), source, size);
  return KD_OK;
}

static inline kd_status inline_copy_out(kd_device *device, kd_stream *stream,
                                        kd_buffer *source, uint64_t offset,
                                        void *target, uint64_t size) {
  (void)device;
  (void)stream;
  if (size) memcpy(target, inline_address(source, offset), size);
  return KD_OK;
}

static const kd_memory_table inline_memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = inline_allocate,
    .release = inline_release,
    .copy_in = inline_copy_in,
    .copy_out = inline_copy_out,
};

#endif /* PLUGINS_INLINE_H */
