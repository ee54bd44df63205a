/* heap.h - pooled memory of one device, or of the host.
 *
 * A heap keeps freed buffers in lists by size: small ones in the freeing thread's own
 * lists, large ones in the heap's. Neither takes a lock. */
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
  uint32_t class; /* size class, or KEEL_UNPOOLED etc. */
  keel_heap *heap;
  kd_buffer *handle; /* NULL in host memory */
  void *address;     /* as kernels use it; NULL: it has none */
  uint64_t size;     /* bytes, rounded up */
  struct keel_buffer *next;
  /* of external memory; of a mapping, the function that ends and frees the buffer */
  void (*done)(void *context);
  void *done_context;
  struct keel_buffer *owner; /* for imported or mapped memory; or NULL */
  uint32_t export_kind; /* KD_EXTERNAL_* that it can be exported as, or 0 */
  /* an importer reads it: never reuse it */
  atomic_bool exported;
  /* the ticket of the device's work that writes it, or 0; device/failures.h */
  _Atomic uint64_t written;
  unsigned recorded; /* references that recordings hold (run/replay.c) */
  void *mapped;  /* of a device's buffer: its host address; and the number of */
  uint32_t maps; /* mappings. Guarded by the device's map_lock */
} keel_buffer;

#define KEEL_UNPOOLED UINT32_MAX
#define KEEL_IMPORTED \
  (UINT32_MAX - 1) /* a device's buffer, of memory that `owner` holds */
#define KEEL_MAPPED \
  (UINT32_MAX - 2) /* the host's mapping of `owner`, a device's buffer */
#define KEEL_MISALIGNED \
  (UINT32_MAX - 3) /* in a mapped file, misaligned for kernels (mapping.h) */
#define KEEL_HEAP_CLASSES 160

struct keel_heap {
  keel_context *context;
  keel_device *device; /* NULL: host memory */
  uint32_t slot; /* its index in each thread's lists; KEEL_HEAP_SLOTS: none */
  _Atomic(keel_buffer *) lists[KEEL_HEAP_CLASSES];
  /* by class: buffers that there are, in use or kept, and the most that there were since some
   * were given back to make room; relaxed */
  atomic_uint alive[KEEL_HEAP_CLASSES], most[KEEL_HEAP_CLASSES];
  /* buffers allocated from the device and not yet returned */
  _Atomic uint64_t pieces;
  _Atomic uint64_t bytes;  /* of those; a statistic, relaxed */
  atomic_uint export_kind; /* for large buffers from now on, or 0; relaxed */
};

void keel_heap_init(keel_heap *heap, keel_context *context,
                    keel_device *device);

/* Lets threads have lists of their own of its small buffers, while there is room for one more
 * heap in them; where there is none, it has the lists that all share. Before its first use. */
void keel_heap_enlist(keel_heap *heap);

/* Frees all pooled memory, also in all threads' lists. No thread may use the heap. */
void keel_heap_deinit(keel_heap *heap);
/* The same for a lost device's heap, which stays usable. */
void keel_heap_drain(keel_heap *heap);

/* Allocates at least `size` bytes (0 counts as 1), uninitialised. */
keel_status keel_heap_take(keel_heap *heap, uint64_t size,
                           keel_buffer **out_buffer);

/* The same with a stream's lock held: no pool is trimmed to make room, as that waits for the
 * device. */
keel_status keel_heap_take_now(keel_heap *heap, uint64_t size,
                               keel_buffer **out_buffer);

/* The same, unpooled, in memory that the device can export as `kind`. */
keel_status keel_heap_take_exported(keel_heap *heap, uint64_t size,
                                    uint32_t kind, keel_buffer **out_buffer);

/* Counts memory of the process that no buffer is made of, against the context's limit, until it
 * is given back. Returns KD_OK, KD_OUT_OF_MEMORY. */
keel_status keel_heap_reserve(keel_context *context, uint64_t size);
void keel_heap_give_back(keel_context *context, uint64_t size);

/* Makes a buffer of the caller's host memory. */
keel_status keel_heap_wrap(keel_heap *heap, const void *data, uint64_t size,
                           void (*done)(void *), void *done_context,
                           keel_buffer **out_buffer);

/* Makes a device's buffer of host memory that `owner` holds, without a copy: for devices
 * that share memory with the host, if the data is aligned for the device. Nothing may write
 * to it. Returns KD_OK, KD_UNIMPLEMENTED (it has to be copied), KD_DEVICE_LOST. */
keel_status keel_heap_import(keel_heap *heap, keel_buffer *owner,
                             const void *data, uint64_t size,
                             keel_buffer **out_buffer);

/* Returns pooled memory to the device; _all: of all devices and the host. Waits for their
 * work. */
void keel_heap_trim(keel_heap *heap);
void keel_heap_trim_all(keel_context *context);

/* If much memory is pooled, returns the host's to the system, and that of a device (or
 * NULL) that uses host memory. */
void keel_heap_shrink(keel_context *context, keel_device *device);

void keel_buffer_free(keel_buffer *buffer);

/* Borrowed memory without `done`: the application may free it once the tensor is released,
 * even if something holds the buffer. */
static inline bool keel_buffer_borrowed(const keel_buffer *buffer) {
  return buffer && buffer->class == KEEL_UNPOOLED && !buffer->done;
}

/* Whether this is the only reference, and the memory is not exported, so that it may be
 * overwritten. */
static inline bool keel_buffer_unique(const keel_buffer *buffer) {
  /* relaxed: ordered by the reference count */
  return keel_refs_unique(&buffer->refs) &&
         !atomic_load_explicit(&buffer->exported, memory_order_relaxed);
}

/* The same for a holder of `count` references. */
static inline bool keel_buffer_held(const keel_buffer *buffer, unsigned count) {
  return keel_refs_count(&buffer->refs) == count &&
         !atomic_load_explicit(&buffer->exported, memory_order_relaxed);
}

/* Whether either may stand for the other: as large, of the same heap, which allocated it. */
static inline bool keel_buffer_alike(const keel_buffer *a,
                                     const keel_buffer *b) {
  return a->heap == b->heap && a->class == b->class &&
         a->class < KEEL_HEAP_CLASSES && a->size == b->size;
}

static inline keel_buffer *keel_buffer_retain(keel_buffer *buffer) {
  /* relaxed: the caller already holds a reference */
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
  /* all threads' lists, for draining */
  struct keel_thread_lists *next, *previous;
  bool listed;
  uint32_t tensor_count;
  struct keel_tensor *tensors; /* a list, linked by the first word */
  keel_buffer *buffers[KEEL_HEAP_SLOTS][KEEL_SMALL_CLASSES];
  uint8_t counts[KEEL_HEAP_SLOTS][KEEL_SMALL_CLASSES];
} keel_thread_lists;

extern _Thread_local keel_thread_lists keel_lists;

/* Registers the calling thread, so that its lists are drained when it ends. */
void keel_lists_enrol(void);

#endif /* KEEL_HEAP_H */
