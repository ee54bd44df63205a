/* kd/memory.h - device memory, and copies to and from it.
 *
 * Level 0 of the device ABI. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_MEMORY_H
#define KD_MEMORY_H

#include <kd/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory usage of a space; the plugin fills the fields that fit. */
typedef struct kd_memory_stats {
  uint32_t struct_size; /* sizeof(kd_memory_stats) as the host knew it */
  uint32_t reserved;
  uint64_t total;     /* bytes in the space; 0: not known */
  uint64_t available; /* bytes that an allocation may still get; 0: not known */
  uint64_t used;      /* bytes this process has allocated */
  uint64_t buffers;   /* live buffers of this process */
} kd_memory_stats;

/* Kinds of access. */
#define KD_READ  0x1u
#define KD_WRITE 0x2u

/* A request for memory. */
typedef struct kd_allocation {
  uint32_t struct_size; /* sizeof(kd_allocation) as the host knew it */
  uint32_t flags;       /* none yet */
  uint64_t size;        /* bytes, never 0 */
  uint32_t space;       /* index of a memory space */
  uint32_t export_kind; /* KD_EXTERNAL_* it will be exported as, or 0 */
} kd_allocation;

/* Device memory. allocate, release, copy_in and copy_out are required; all
 * others may be NULL, and the host then works without them.
 *
 * Any thread may call any slot. `stream` is NULL for a synchronous call: it
 * returns when the data has moved, and is not ordered with work on streams.
 * With a stream, copies and fills run in stream order, and the call returns at
 * once where it can; host memory that copies use stays valid and unchanged
 * until the stream has completed them. A range is `size` bytes from `offset` (0
 * bytes are legal and do nothing); the host never passes one that exceeds the
 * buffer.
 * Nothing outside the range changes. Sizes are 64 bits wide. Host memory may be
 * of any kind: heap, stack, a mapped file. out_ parameters are written on KD_OK
 * only. */
typedef struct kd_memory_table {
  uint32_t struct_size; /* sizeof(kd_memory_table) as the plugin knew it */
  uint32_t reserved;

  /* Allocates a buffer of at least `size` bytes (never 0), uninitialised, with
   * the alignment of the space.
   *
   * wanted       borrowed for the call
   * out_address  address of its first byte, for kernels and, in host-visible
   *              spaces, for the host; NULL: it has none
   * Owns     the host releases it once, when no work uses it any more.
   *
   * No two live buffers share a byte. A failed allocation does not disturb
   * running work. A device that is out of memory keeps working, and can
   * allocate again when buffers are released.
   * Returns KD_OK, KD_OUT_OF_MEMORY (the message has the requested and the free
   * size), KD_UNIMPLEMENTED (an unknown flag, or not exportable as asked). */
  kd_status (*allocate)(kd_device *device, const kd_allocation *wanted,
                        KD_OWNED kd_buffer **out_buffer, void **out_address);

  /* Frees a buffer. Never fails. */
  void (*release)(kd_device *device, kd_buffer *buffer);

  /* Copies from host memory into a buffer.
   * Returns KD_OK, or why it failed. */
  kd_status (*copy_in)(kd_device *device, kd_stream *stream, const void *source,
                       kd_buffer *target, uint64_t offset, uint64_t size);

  /* Copies from a buffer to host memory. Returns as copy_in does. */
  kd_status (*copy_out)(kd_device *device, kd_stream *stream, kd_buffer *source,
                        uint64_t offset, void *target, uint64_t size);

  /* Copies between two buffers of the device, in any of its spaces; the ranges
   * do not overlap. Returns as copy_in does. */
  kd_status (*copy)(kd_device *device, kd_stream *stream, kd_buffer *source,
                    uint64_t source_offset, kd_buffer *target,
                    uint64_t target_offset, uint64_t size);

  /* Fills a range with a repeated pattern of 1, 2, 4, 8 or 16 bytes. `offset`
   * and `size` are multiples of the pattern's size. The pattern is copied
   * before the call returns. Returns as copy_in does. */
  kd_status (*fill)(kd_device *device, kd_stream *stream, kd_buffer *target,
                    uint64_t offset, uint64_t size, const void *pattern,
                    uint32_t pattern_size);

  /* Maps a range of a buffer in a host-visible space to a host address, for
   * `access`: KD_READ, KD_WRITE or both. `unmap` ends the mapping and makes
   * writes visible to work that is enqueued afterwards. The host maps a buffer
   * once at a time; until `unmap` it neither releases the buffer nor enqueues
   * work that writes to the range. If the first space is HOST_VISIBLE and
   * CACHED, the host reads large tensors through `map` rather than copy_out.
   * Returns KD_OK, KD_UNIMPLEMENTED (not host-visible), KD_OUT_OF_MEMORY. */
  kd_status (*map)(kd_device *device, kd_buffer *buffer, uint64_t offset,
                   uint64_t size, uint32_t access, void **out_address);

  /* Ends a mapping; its address is invalid from then on. */
  void (*unmap)(kd_device *device, kd_buffer *buffer);

  /* Reports the usage of a space. Returns KD_OK. */
  kd_status (*stats)(kd_device *device, uint32_t space,
                     kd_memory_stats *out_stats);

  /* Gives the system back any memory that the plugin keeps for reuse. */
  void (*trim)(kd_device *device);
} kd_memory_table;

/* Kinds of external memory, that is, of kd_external.handle. A plugin refuses a
 * kind that it does not know with KD_UNIMPLEMENTED. */
#define KD_EXTERNAL_HOST_POINTER 1u /* a host address */
#define KD_EXTERNAL_OPAQUE_FD    2u /* the driver's opaque file descriptor */
#define KD_EXTERNAL_DMA_BUF      3u /* a dma-buf file descriptor */
#define KD_EXTERNAL_SHARED_FD    4u /* a descriptor that mmap takes: a memfd */

/* Memory as one device or process describes it to another. */
typedef struct kd_external {
  uint32_t struct_size; /* sizeof(kd_external) as the host knew it */
  uint32_t kind;        /* KD_EXTERNAL_* */
  uint64_t handle;
  uint64_t offset; /* bytes, from the start of the handle's memory */
  uint64_t size;   /* bytes */
  uint32_t access; /* KD_READ, KD_WRITE: nothing writes without KD_WRITE */
  uint32_t reserved;
} kd_external;

/* Import and export of memory. An option; a plugin that does only one of the
 * two leaves the other slot NULL. Any thread.
 *
 * An opaque descriptor is for devices with the same kd_device_info uuid and
 * driver; the host tries the other kinds on any device. A shared descriptor
 * covers whole pages, and its file never shrinks. */
typedef struct kd_external_table {
  uint32_t struct_size; /* sizeof(kd_external_table) as the plugin knew it */
  uint32_t reserved;

  /* Makes a buffer of memory that something else owns, without a copy. A host
   * pointer stays valid until `release`; the device may read the whole pages
   * around it, and changes nothing outside of it.
   * Owns     a descriptor passes to the plugin on KD_OK, and stays the caller's
   * otherwise.
   * Returns KD_OK, KD_UNIMPLEMENTED (this kind, address, access or size is not
   * supported), KD_INVALID_ARGUMENT (not a valid handle). */
  kd_status (*import_memory)(kd_device *device, const kd_external *memory,
                             KD_OWNED kd_buffer **out_buffer,
                             void **out_address);

  /* Exports a buffer as a handle of the kind that `out_memory` asks for, with
   * its offset and size in the handle's memory.
   * Owns     a descriptor is the caller's, to close or to import; the memory
   * lives as long as the buffer or anything imported from it.
   * Returns KD_OK, KD_UNIMPLEMENTED (not this kind, or not this buffer). */
  kd_status (*export_memory)(kd_device *device, kd_buffer *buffer,
                             kd_external *out_memory);
} kd_external_table;

/* Direct copies between devices of one plugin. An option: without it, the host
 * stages through its own memory. */
typedef struct kd_peer_table {
  uint32_t struct_size; /* sizeof(kd_peer_table) as the plugin knew it */
  uint32_t reserved;

  /* Whether `copy` works from one device to the other: 1 or 0. Cheap. */
  uint32_t (*reachable)(kd_device *from, kd_device *to);

  /* Copies in the order of `stream`, which belongs to `to`; the host has made
   * it wait for the source's work. With a NULL stream, the call is synchronous.
   * Returns KD_OK, or why it failed. */
  kd_status (*copy)(kd_device *from, kd_buffer *source, uint64_t source_offset,
                    kd_device *to, kd_stream *stream, kd_buffer *target,
                    uint64_t target_offset, uint64_t size);
} kd_peer_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_MEMORY_H */
