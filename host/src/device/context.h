/* context.h - an open runtime and its devices, from inside. */
#ifndef KEEL_INSIDE_CONTEXT_H
#define KEEL_INSIDE_CONTEXT_H

#include <kd/kd.h>
#include <keel/context.h>

#include "base/base.h"
#include "device/heap.h"

typedef struct keel_pool keel_pool;
typedef struct keel_plugin keel_plugin;
typedef struct keel_library keel_library;
typedef struct keel_kernel_cache keel_kernel_cache;
typedef struct keel_op_cache keel_op_cache;
typedef struct keel_schema keel_schema;

/* How fast a device is (passes/cost.h): nanoseconds, and for the rates work a
 * nanosecond. */
typedef struct keel_speed {
  double launch; /* a kernel that does nothing */
  double flops;  /* of a product of matrices */
  double bytes;  /* read or written by an elementwise op */
  double wait;   /* a copy of nothing between the host and the device */
  double copied; /* bytes */
} keel_speed;

/* Kernel definitions of one op on a device, best first. */
typedef struct keel_kernel_list {
  const char *domain;
  const char *op;
  const kd_kernel_def **defs;
  uint32_t count;
} keel_kernel_list;

/* Copies of a device that nobody waits for (memory/transfer.c). */
typedef struct keel_transfers {
  kd_stream *stream;    /* of copies out; made by the first */
  pthread_mutex_t lock; /* one thread at a time enqueues on it */
  /* Holds of those that have not ended: let go with release, awaited with acquire. */
  atomic_uint under_way;
  /* Copied in, to be put away: a stack, pushed with release, taken whole with acquire. */
  _Atomic(struct keel_transfer *) spent;
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
};

/* An op that a plugin brings, and that is not used, nor are its kernels for it. */
typedef struct keel_refused_op {
  const char *domain, *name;
  struct keel_refused_op *next;
} keel_refused_op;

/* A candidate for a plugin, loaded or refused. */
struct keel_plugin {
  keel_context *context;
  keel_library *shared;     /* the library, while it is held */
  keel_plugin *next_sharer; /* another context's plugin of that library */
  const char *path;
  const char *source;
  void *library;  /* of dlopen */
  kd_entry entry; /* of a plugin that is linked in, or NULL */
  bool copied;    /* it is a copy of the file that is mapped */
  bool open;      /* holds the library open */

  kd_plugin table; /* full-size copies: what is NULL here is not there */
  kd_memory_table memory;
  kd_stream_table streams;
  kd_event_table events;
  kd_capture_table capture;
  kd_region_table regions;
  kd_profile_table profile;
  kd_peer_table peer;
  kd_collective_table collectives;
  kd_external_table external;
  kd_layout_table layouts;
  kd_native_table native; /* of the extension, since it is open */
  kd_kernel_def *kernels;
  uint32_t kernel_count;
  kd_option_def *option_defs; /* NULL: the plugin lists none */
  uint32_t option_def_count;
  keel_kernel_list *by_op; /* hash table by op, open addressing */
  uint32_t op_slots;       /* a power of two */
  keel_schema *ops;        /* that it brings; op_count of them */
  uint32_t op_count;
  struct keel_refused_op *refused_ops; /* that others have otherwise */

  const char *name, *vendor, *version; /* copies, or NULL */
  uint32_t abi_version;
  uint32_t device_count;
  keel_status status;
  const char *reason, *hint;
  uint64_t device_id, inode; /* of the file, to find doubles */
  const char **options;      /* the manifest's: name, value, name, value ... */
  uint32_t option_count;
};

struct keel_context {
  keel_log log;
  keel_arena arena; /* of what lives as long as the context; at open only */
  uint32_t flags;

  keel_plugin **plugins;
  uint32_t plugin_count, plugin_room;
  keel_device **devices;
  uint32_t device_count;
  keel_device *default_device;
  const keel_schema **vendor_ops; /* that plugins brought (ops/vendor.h) */
  uint32_t vendor_op_count;
  const char *visible; /* as keel_context_params.visible; NULL: all */
  const char *const *options;
  uint32_t option_count;

  keel_pool *pool;
  keel_heap host;
  _Atomic uint64_t allocated, peak, pooled; /* bytes: counts alone, relaxed */
  uint64_t memory_limit, pool_limit;

  keel_kernel_cache *kernels;
  keel_op_cache *ops;
  /* Runs that nobody waits for (run/start.c): released as they end, acquired by who
   * closes the context. */
  atomic_uint begun;
};

/* Whether the host may read and write the device's memory by address. */
static inline bool keel_device_addressable(const keel_device *device) {
  return !device || (device->info.flags & KD_DEVICE_HOST_ADDRESSABLE);
}

/* Opens a device at its first use. Returns KD_OK, or why it can't be used. */
keel_status keel_device_ready(keel_device *device);

/* A device's definitions of an op, best first; NULL where it has none. */
const keel_kernel_list *keel_device_kernels(const keel_device *device,
                                            const char *domain, const char *op);

/* The innermost scope of the calling thread, if it is of this context. */
keel_device *keel_device_scope(const keel_context *context);

#endif /* KEEL_INSIDE_CONTEXT_H */
