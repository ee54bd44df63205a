/* kd/memory.h - device memory, and copies to and from it.
 *
 * Level 0 of the device ABI. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_MEMORY_H
#define KD_MEMORY_H

#include <kd/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a device's memory is doing; filled up to struct_size. */
typedef struct kd_memory_stats {
  uint32_t struct_size; /* sizeof(kd_memory_stats) as the host knew it */
  uint32_t reserved;
  uint64_t total;     /* bytes of the space, 0: not known */
  uint64_t available; /* bytes that an allocation may still get, 0: not known */
  uint64_t used;      /* bytes this process has allocated */
  uint64_t buffers;   /* live buffers of this process */
} kd_memory_stats;

/* What may be done with memory. */
#define KD_READ  0x1u
#define KD_WRITE 0x2u

/* What is asked for. */
typedef struct kd_allocation {
  uint32_t struct_size; /* sizeof(kd_allocation) as the host knew it */
  uint32_t flags;       /* none yet */
  uint64_t size;        /* bytes, never 0 */
  uint32_t space;       /* number of a memory space */
  uint32_t export_kind; /* KD_EXTERNAL_* that it will be exported as, or 0 */
} kd_allocation;

/* Memory of a device. allocate, release, copy_in and copy_out are needed; all
 * others may be NULL, and the host then does it with those four.
 *
 * Any thread may call any slot. `stream` is NULL for a synchronous call: it
 * returns when the data has moved, and needs no order with streams' work.
 * With a stream, copies stand in its order, return at once where they can, and
 * host memory given to them stays valid and unchanged until the stream has
 * passed them. Ranges are `size` bytes (0 is legal and does nothing) from
 * `offset`; the host never passes one that leaves the buffer. out_ is written
 * on KD_OK only. Nothing outside the range changes. A size is 64 bits wide. Host
 * memory may be of any kind: heap, stack, a mapped file. */
typedef struct kd_memory_table {
  uint32_t struct_size; /* sizeof(kd_memory_table) as the plugin knew it */
  uint32_t reserved;

  /* Makes a buffer of at least `size` bytes (never 0), not initialised,
   * aligned as the space says.
   *
   * wanted       borrowed for the call
   * out_address  the address of its first byte, as kernels (and, for host
   *              visible spaces, the host) use it; NULL: it has none
   * Owns     the host gives it back by `release`, once, when no work uses it.
   * No two live buffers share a byte. A failed allocation leaves running work
   * alone. A device out of memory works on, and has it again when buffers are
   * released.
   * Returns KD_OK, KD_OUT_OF_MEMORY (with what was asked and what is free),
   * KD_UNIMPLEMENTED (an unknown flag; it can't be exported so). */
  kd_status (*allocate)(kd_device *device, const kd_allocation *wanted,
                        KD_OWNED kd_buffer **out_buffer, void **out_address);

  /* Frees a buffer. Never fails. */
  void (*release)(kd_device *device, kd_buffer *buffer);

  /* Copies from host memory into a buffer.
   * Returns KD_OK, or why the device can't. */
  kd_status (*copy_in)(kd_device *device, kd_stream *stream, const void *source,
                       kd_buffer *target, uint64_t offset, uint64_t size);

  /* Copies from a buffer to host memory. Returns as copy_in. */
  kd_status (*copy_out)(kd_device *device, kd_stream *stream, kd_buffer *source,
                        uint64_t offset, void *target, uint64_t size);

  /* Copies between two buffers of the device; the ranges do not overlap. They
   * may lie in any, whatever their spaces.
   * Returns as copy_in. */
  kd_status (*copy)(kd_device *device, kd_stream *stream, kd_buffer *source,
                    uint64_t source_offset, kd_buffer *target,
                    uint64_t target_offset, uint64_t size);

  /* Repeats a pattern of 1, 2, 4, 8 or 16 bytes; offset and size are multiples
   * of it; the pattern is copied before the call returns. Returns as copy_in. */
  kd_status (*fill)(kd_device *device, kd_stream *stream, kd_buffer *target,
                    uint64_t offset, uint64_t size, const void *pattern,
                    uint32_t pattern_size);

  /* Gives a host address for a range of a buffer in a host visible space, for
   * `access`: KD_READ, KD_WRITE or both. `unmap` ends it and makes writes
   * visible to work that is enqueued afterwards. The host has a buffer mapped once
   * at a time; until `unmap` it does not release it, nor gives work that writes
   * to the range. Where the first space is HOST_VISIBLE and CACHED it reads large
   * tensors so, not by copy_out.
   * Returns KD_OK, KD_UNIMPLEMENTED (not host visible), KD_OUT_OF_MEMORY. */
  kd_status (*map)(kd_device *device, kd_buffer *buffer, uint64_t offset,
                   uint64_t size, uint32_t access, void **out_address);

  /* Ends what `map` gave: the address is no longer used. */
  void (*unmap)(kd_device *device, kd_buffer *buffer);

  /* Fills what is known of a space. Returns KD_OK. */
  kd_status (*stats)(kd_device *device, uint32_t space,
                     kd_memory_stats *out_stats);

  /* Gives memory that the plugin keeps for reuse back to the system. */
  void (*trim)(kd_device *device);
} kd_memory_table;

/* Memory that comes from elsewhere or goes there: what a kd_external's handle is. A
 * kind that the plugin does not know is KD_UNIMPLEMENTED. */
#define KD_EXTERNAL_HOST_POINTER 1u /* a host address */
#define KD_EXTERNAL_OPAQUE_FD    2u /* a file descriptor that the driver made */
#define KD_EXTERNAL_DMA_BUF      3u /* a dma-buf's file descriptor */
#define KD_EXTERNAL_SHARED_FD    4u /* one of memory that mmap maps: a memfd */

/* A piece of memory, as two devices or processes name it to each other. */
typedef struct kd_external {
  uint32_t struct_size; /* sizeof(kd_external) as the host knew it */
  uint32_t kind;        /* KD_EXTERNAL_* */
  uint64_t handle;
  uint64_t offset; /* bytes from its begin to the first one */
  uint64_t size;   /* bytes */
  uint32_t access; /* KD_READ, KD_WRITE: nothing writes without the second */
  uint32_t reserved;
} kd_external;

/* Import and export of memory. An option; either slot may be NULL: it does only
 * the other. Any thread.
 *
 * An opaque descriptor is for devices of the same kd_device_info uuid and driver;
 * the host tries the other kinds on any device. A shared one is of whole pages
 * and never gets shorter. */
typedef struct kd_external_table {
  uint32_t struct_size; /* sizeof(kd_external_table) as the plugin knew it */
  uint32_t reserved;

  /* Makes a buffer of memory that somebody else owns, without a copy. A host
   * pointer stays valid until `release`; whole pages around it may be reached,
   * and nothing outside of it changes.
   * Owns     a descriptor is the plugin's where it returns KD_OK, and still the
   * caller's where not.
   * Returns KD_OK, KD_UNIMPLEMENTED (not this kind, address, access or size),
   * KD_INVALID_ARGUMENT (the handle is none). */
  kd_status (*import_memory)(kd_device *device, const kd_external *memory,
                             KD_OWNED kd_buffer **out_buffer,
                             void **out_address);

  /* Gives a handle of a buffer, of the kind that `out_memory` asks for, and says
   * what it reaches.
   * Owns     a descriptor is the caller's, to be closed or imported; the memory
   * lives as long as the buffer or what was imported from it.
   * Returns KD_OK, KD_UNIMPLEMENTED (not this kind, or not this buffer). */
  kd_status (*export_memory)(kd_device *device, kd_buffer *buffer,
                             kd_external *out_memory);
} kd_external_table;

/* Copies between devices of one plugin that need not pass the host. An option:
 * without it, the host stages through its own memory. */
typedef struct kd_peer_table {
  uint32_t struct_size; /* sizeof(kd_peer_table) as the plugin knew it */
  uint32_t reserved;

  /* Whether `copy` works from one device to the other: 1, else 0. Cheap. */
  uint32_t (*reachable)(kd_device *from, kd_device *to);

  /* Copies in the order of `stream`, which belongs to `to`; the host has made
   * it wait for the source's work. NULL stream: synchronous.
   * Returns KD_OK, or why not. */
  kd_status (*copy)(kd_device *from, kd_buffer *source, uint64_t source_offset,
                    kd_device *to, kd_stream *stream, kd_buffer *target,
                    uint64_t target_offset, uint64_t size);
} kd_peer_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_MEMORY_H */
