/* device.h - a device of a context: what is known of it, its memory and its stream. */
#ifndef KEEL_INSIDE_DEVICE_H
#define KEEL_INSIDE_DEVICE_H

#include "device/heap.h"
#include "device/plugin.h"
#include "threads/pool.h"

/* How fast a device is (passes/cost.h): nanoseconds, and for the rates work a
 * nanosecond. */
typedef struct keel_speed {
  double launch; /* a kernel that does nothing */
  double flops;  /* of a product of matrices */
  double bytes;  /* read or written by an elementwise op */
  double wait;   /* a copy of nothing between the host and the device */
  double copied; /* bytes */
} keel_speed;

/* Copies of a device that nobody waits for (memory/transfer.c). */
typedef struct keel_transfers {
  kd_stream *stream;    /* of copies out; made by the first */
  pthread_mutex_t lock; /* one thread at a time enqueues on it */
  /* Holds of those that have not ended: let go with release, awaited with acquire. */
  atomic_uint under_way;
  /* What frees those that are done: a stack, pushed with release, taken whole with acquire. */
  _Atomic(keel_task *) spent;
} keel_transfers;

struct keel_device {
  keel_context *context;
  keel_plugin *plugin;
  uint32_t index;      /* the plugin's number for it */
  char name[48];       /* "cpu:0" */
  kd_device *handle;   /* open; NULL before */
  kd_device_info info; /* strings are copies in the context's arena */
  kd_space space;      /* the first: where tensors live */
  kd_stream *stream;   /* of eager and planned work; NULL: synchronous */
  pthread_mutex_t stream_lock; /* one thread at a time enqueues on it */
  keel_transfers transfers;
  keel_heap heap;
  pthread_mutex_t map_lock; /* of its buffers' mappings */
  pthread_mutex_t opening;
  atomic_bool ready; /* open, with its heap: released with them, acquired */
  uint32_t clocks;   /* who wants its clock; under `opening`, as the next */
  bool clocked;      /* it runs */
  keel_speed speed;  /* flops 0: not measured; under `opening` */
  keel_device *same; /* earlier, of another plugin: one silicon; or NULL */

  /* device/lost.h */
  bool losable;       /* it has a device_status; else it can't be lost */
  atomic_bool lost;   /* and what it said, written before, under the lock */
  atomic_uint inside; /* threads that use its handles */
  atomic_uint held;   /* by what keeps copies of them */
  pthread_mutex_t words_lock;
  char words[1024];

  /* What opens it, at its first use (loader/device.c): keel_device_ready. */
  keel_status (*open)(keel_device *device);
};

/* Whether the host may read and write the device's memory by address. */
static inline bool keel_device_addressable(const keel_device *device) {
  return !device || (device->info.flags & KD_DEVICE_HOST_ADDRESSABLE);
}

/* Opens a device at its first use. Returns KD_OK, or why it can't be used. */
static inline keel_status keel_device_ready(keel_device *device) {
  return atomic_load_explicit(&device->ready, memory_order_acquire)
             ? KD_OK
             : device->open(device);
}

/* A device's definitions of an op, best first; NULL where it has none. */
const keel_kernel_list *keel_device_kernels(const keel_device *device,
                                            const char *domain, const char *op);

/* The innermost scope of the calling thread, if it is of this context. */
keel_device *keel_device_scope(const keel_context *context);

#endif /* KEEL_INSIDE_DEVICE_H */
