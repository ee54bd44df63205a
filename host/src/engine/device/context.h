/* context.h - an open runtime. */
#ifndef KEEL_INSIDE_CONTEXT_H
#define KEEL_INSIDE_CONTEXT_H

#include <kd/kd.h>
#include <keel/context.h>

#include "base/base.h"
#include "device/heap.h"
#include "threads/pool.h"

typedef struct keel_plugin keel_plugin;
typedef struct keel_kernel_cache keel_kernel_cache;
typedef struct keel_op_cache keel_op_cache;
typedef struct keel_schema keel_schema;

struct keel_context {
  keel_log log;
  /* for objects that live as long as the context; used only by the thread that opens it or shows
   * devices */
  keel_arena arena;
  uint32_t flags;

  keel_plugin **plugins;
  uint32_t plugin_count, plugin_capacity;
  /* Both are released, in this order, by the thread that adds a
   * device (loader/load.c), and acquired by
   * all others; former arrays stay until the end. */
  keel_device **_Atomic devices;
  _Atomic uint32_t device_count;
  keel_device *default_device;
  const keel_schema **vendor_ops; /* ops that plugins define (ops/vendor.h) */
  uint32_t vendor_op_count;
  const char *visible; /* as keel_context_params.visible; NULL: all */
  bool by_variable;    /* by KEEL_VISIBLE_DEVICES when it was opened */
  /* keel_context_params.step */
  const char *(*step)(void *step_context, const char *path, const char *call);
  void *step_context;
  const char *const *options;
  uint32_t option_count;

  const kd_host *services; /* that plugins get (services/services.h) */

  keel_pool *pool;
  keel_heap host;
  _Atomic uint64_t allocated, peak, pooled; /* bytes; statistics, relaxed */
  uint64_t memory_limit, pool_limit;

  keel_kernel_cache *kernels;
  keel_op_cache *ops;
  /* Asynchronous runs (run/start.c): released as they end, acquired by the thread that closes the
   * context. */
  atomic_uint async_runs;
  /* Structs of memory/dlpack.c that others hold: released as they are deleted, acquired
   * by keel_dlpack_count. */
  atomic_uint exports;
};

/* The array of devices; gcc reads `context->devices[i]` without an atomic load. */
static inline keel_device **keel_devices(const keel_context *context) {
  return atomic_load_explicit(&context->devices, memory_order_acquire);
}

#endif /* KEEL_INSIDE_CONTEXT_H */
