/* heap.h - pooled memory of one device, or of the host.
 *
 * A heap keeps what is freed in lists by size: small pieces in the freeing
 * thread's own lists, large ones in the heap's. No lock is taken for either. */
#ifndef KEEL_HEAP_H
#define KEEL_HEAP_H

#include <kd/memory.h>
#include <keel/context.h>
#include <pthread.h>

#include "base/base.h"
#include "base/refs.h"

typedef struct keel_heap keel_heap;

/* A reference-counted piece of memory. */
typedef struct keel_buffer {
  atomic_uint refs;
  uint32_t class; /* of size, for the pool; KEEL_UNPOOLED */
  keel_heap *heap;
  kd_buffer *handle; /* NULL in host memory */
  void *address;     /* as kernels use it; NULL: has none */
  uint64_t size;     /* bytes, rounded up */
  struct keel_buffer *next;
  /* of memory that is somebody else's; of a mapping, what ends and frees the buffer */
  void (*done)(void *context);
  void *done_context;
  struct keel_buffer *owner; /* of what was imported, or is mapped; or NULL */
  uint32_t export_kind; /* KD_EXTERNAL_* that it can be exported as, or 0 */
  atomic_bool
      exported;  /* somebody else reads it: no other value may lie here */
  void *mapped;  /* a device's: where the host reads it; and by how many */
  uint32_t maps; /* mappings. Under the device's lock for them */
} keel_buffer;

#define KEEL_UNPOOLED UINT32_MAX
#define KEEL_IMPORTED \
  (UINT32_MAX - 1) /* a device's, of memory that `owner` has */
#define KEEL_MAPPED \
  (UINT32_MAX - 2) /* the host's view of `owner`, a device's */
#define KEEL_RAGGED \
  (UINT32_MAX - 3) /* a file's, not where kernels can read it (mapping.h) */
#define KEEL_HEAP_CLASSES 160

struct keel_heap {
  keel_context *context;
  keel_device *device; /* NULL: host memory */
  uint32_t slot;       /* its place in each thread's lists */
  _Atomic(keel_buffer *) lists[KEEL_HEAP_CLASSES];
  _Atomic uint64_t pieces; /* a device's: taken from it, not yet given back */
  _Atomic uint64_t bytes;  /* of those; a sum to be shown, relaxed */
  atomic_uint export_kind; /* of large buffers from now on, or 0; relaxed */
};

keel_status keel_heap_init(keel_heap *heap, keel_context *context,
                           keel_device *device);

/* Frees all that is pooled, in all threads' lists too; none may use it. */
void keel_heap_deinit(keel_heap *heap);
/* The same for a lost device's, which goes on. */
void keel_heap_drain(keel_heap *heap);

/* Takes at least `size` bytes (0 is taken as 1), not initialised. */
keel_status keel_heap_take(keel_heap *heap, uint64_t size,
                           keel_buffer **out_buffer);

/* The same for who holds a stream's lock: no pool is trimmed to make room, as that waits for
 * the device. */
keel_status keel_heap_take_now(keel_heap *heap, uint64_t size,
                               keel_buffer **out_buffer);

/* The same of memory that a device can export as `kind`, and that is no pool's. */
keel_status keel_heap_take_exported(keel_heap *heap, uint64_t size,
                                    uint32_t kind, keel_buffer **out_buffer);

/* A buffer of host memory that is somebody else's. */
keel_status keel_heap_wrap(keel_heap *heap, const void *data, uint64_t size,
                           void (*done)(void *), void *done_context,
                           keel_buffer **out_buffer);

/* Makes a device's buffer of host memory that `owner` has, without a copy: of devices that
 * share memory with the host, where the data begin as the device wants it. Nobody may write
 * to it. Returns KD_OK, KD_UNIMPLEMENTED (it has to be copied), KD_DEVICE_LOST. */
keel_status keel_heap_import(keel_heap *heap, keel_buffer *owner,
                             const void *data, uint64_t size,
                             keel_buffer **out_buffer);

/* Gives pooled memory back to the device; of all devices, and the host. Waits for their
 * work. */
void keel_heap_trim(keel_heap *heap);
void keel_heap_trim_all(keel_context *context);

/* Where weights' worth of bytes waits for reuse: gives those of the host back to the system,
 * and of a device (or NULL) that has none but the host's memory. */
void keel_heap_shrink(keel_context *context, keel_device *device);

void keel_buffer_free(keel_buffer *buffer);

/* The caller's memory with no `done`: it may be freed when the tensor is, whoever holds the
 * buffer. */
static inline bool keel_buffer_lent(const keel_buffer *buffer) {
  return buffer && buffer->class == KEEL_UNPOOLED && !buffer->done;
}

/* Whether nobody else has it, of this context or by a descriptor: it may be overwritten. */
static inline bool keel_buffer_alone(const keel_buffer *buffer) {
  /* relaxed: the count orders it */
  return keel_refs_alone(&buffer->refs) &&
         !atomic_load_explicit(&buffer->exported, memory_order_relaxed);
}

static inline keel_buffer *keel_buffer_retain(keel_buffer *buffer) {
  /* relaxed: whoever retains holds a reference already */
  keel_refs_take(&buffer->refs);
  return buffer;
}

static inline void keel_buffer_release(keel_buffer *buffer) {
  if (keel_refs_drop(&buffer->refs)) keel_buffer_free(buffer);
}

/* ---- one thread's lists of small things ---------------------------------- */

#define KEEL_HEAP_SLOTS    32
#define KEEL_SMALL_CLASSES 41 /* up to 64 KiB */

struct keel_tensor;

typedef struct keel_thread_lists {
  struct keel_thread_lists *next, *previous; /* all threads', for draining */
  bool listed;
  uint32_t tensor_count;
  struct keel_tensor *tensors; /* linked by their first word */
  keel_buffer *buffers[KEEL_HEAP_SLOTS][KEEL_SMALL_CLASSES];
  uint8_t counts[KEEL_HEAP_SLOTS][KEEL_SMALL_CLASSES];
} keel_thread_lists;

extern _Thread_local keel_thread_lists keel_lists;

/* Enrols the calling thread, so that its lists are drained when it ends. */
void keel_lists_enrol(void);

#endif /* KEEL_HEAP_H */
