/* device.h - a device of a context: its facts, its memory and its stream. */
#ifndef KEEL_INSIDE_DEVICE_H
#define KEEL_INSIDE_DEVICE_H

#include "device/heap.h"
#include "device/plugin.h"
#include "threads/pool.h"

/* Measured speed of a device (passes/cost.h): times in nanoseconds, rates per
 * nanosecond. */
typedef struct keel_speed {
  double launch; /* launching an empty kernel */
  double flops;  /* of a matrix product */
  double bytes;  /* read or written by an elementwise op */
  double wait;   /* an empty copy between the host and the device */
  double copied; /* bytes */
} keel_speed;

/* Asynchronous copies of a device (memory/transfer.c). */
typedef struct keel_transfers {
  kd_stream *stream;    /* of copies out; created by the first one */
  pthread_mutex_t lock; /* held to enqueue on it */
  /* Unfinished copies; decremented with release, read with acquire. */
  atomic_uint under_way;
  /* Objects that free finished ones: a stack, pushed with release, taken whole with acquire. */
  _Atomic(keel_task *) spent;
} keel_transfers;

/* Which work of a device has failed (device/failures.h). Guarded by the stream's lock, but
 * for the atomics; `count` is written with release, and read with acquire. */
typedef struct keel_failed_work keel_failed_work;
typedef struct keel_work keel_work;
typedef struct keel_failures {
  uint64_t ticket; /* of the last work enqueued on the stream */
  /* the status of all work up to this ticket is known; only grows. Stored with release: a thread
   * that acquires it sees what the work wrote */
  _Atomic uint64_t settled;
  keel_work *noted; /* the newest work (device/work.h); NULL: none yet */
  keel_failed_work *work;
  atomic_uint count;
  uint32_t capacity;
} keel_failures;

typedef struct keel_notice keel_notice;

struct keel_device {
  keel_context *context;
  keel_plugin *plugin;
  uint32_t index;      /* the plugin's number for it */
  char name[48];       /* "cpu:0" */
  kd_device *handle;   /* open; NULL before */
  kd_device_info info; /* strings are copies in the context's arena */
  kd_space space;      /* the first memory space, where tensors live */
  /* for eager and planned work; NULL: the device is synchronous */
  kd_stream *stream;
  pthread_mutex_t stream_lock; /* held to enqueue on it */
  /* for waits when the device is lost and creates no event any more: of `stream`, and of the
   * stream for copies out; NULL where the plugin can wait for a stream itself */
  kd_event *last_waits[2];
  /* for the next wait for some of its work, or NULL; taken and left by exchange */
  _Atomic(kd_event *) spare_event;
  keel_failures failures;
  keel_transfers transfers;
  pthread_mutex_t watch_lock;
  /* whose event others may share (memory/written.c), or NULL */
  keel_notice *watched;
  keel_heap heap;
  pthread_mutex_t map_lock; /* guards its buffers' mappings */
  pthread_mutex_t opening;
  /* open, and its heap is ready; stored with release, read with acquire */
  atomic_bool ready;
  /* users of its clock; guarded by `opening`, as the next two */
  uint32_t clocks;
  bool clocked;     /* it is running */
  keel_speed speed; /* flops 0: not measured; guarded by `opening` */
  /* an earlier device of another plugin that is the same hardware, or NULL */
  keel_device *same;

  /* device/lost.h */
  /* its plugin has a device_status slot; otherwise it is never lost */
  bool can_be_lost;
  atomic_bool lost;  /* lost_reason is written before, under lost_lock */
  atomic_uint users; /* threads that are using its handles */
  atomic_uint pins;  /* objects that keep copies of its handles */
  pthread_mutex_t lost_lock;
  char lost_reason[1024];

  /* Opens it, at its first use (loader/device.c): keel_device_ready. */
  keel_status (*open)(keel_device *device);
};

/* Whether the host can access the device's memory by address. */
static inline bool keel_device_addressable(const keel_device *device) {
  return !device || (device->info.flags & KD_DEVICE_HOST_ADDRESSABLE);
}

/* Opens a device on its first use. Returns KD_OK, or why it cannot be used. */
static inline keel_status keel_device_ready(keel_device *device) {
  return atomic_load_explicit(&device->ready, memory_order_acquire)
             ? KD_OK
             : device->open(device);
}

/* A device's kernel definitions for an op, best first; NULL if it has none. */
const keel_kernel_list *keel_device_kernels(const keel_device *device,
                                            const char *domain, const char *op);

/* The calling thread's innermost device scope, if it belongs to this context. */
keel_device *keel_device_scope(const keel_context *context);

#endif /* KEEL_INSIDE_DEVICE_H */
