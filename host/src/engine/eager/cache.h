/* cache.h - the cache of kernel instances, shared by ops with equal attributes and types,
 * and the cache of prepared ops, by name. Both are bounded. */
#ifndef KEEL_CACHE_H
#define KEEL_CACHE_H

#include "device/device.h"
#include "ops/node.h"

/* A reference-counted kernel instance. */
typedef struct keel_kernel_cache keel_kernel_cache;
typedef struct keel_op_cache keel_op_cache;

typedef struct keel_instance {
  atomic_uint refs;
  keel_device *device;
  const kd_kernel_def *def;
  /* NULL if the definition has no `create`, or if the device has been lost since. Stored
   * with release, read with acquire. */
  _Atomic(kd_kernel *) handle;
  keel_opdef *op;
  /* what `create` got; it points into the fields below */
  struct kd_node node;
  char *name;              /* of the node; NULL: it has no constants */
  const keel_type **types; /* of inputs, then outputs */
  keel_tensor **constants; /* by input, retained; NULL: none */
  uint32_t *layouts;       /* of inputs; NULL: rows */
  /* Bit i: the kernel has taken constant i. Relaxed: written before `handle` is stored,
   * read after it is loaded. */
  _Atomic uint64_t taken;
  bool listed; /* it is in the list of instances that have a kernel */
  /* the cache that finds it as long as somebody has it; NULL: none, or one that holds it */
  keel_kernel_cache *found_in;
  uint64_t hash;
  struct keel_instance *next, *newer, *older; /* in the cache */
  struct keel_instance *after, *before;       /* in the list of all instances */
} keel_instance;

/* The key of an instance. */
typedef struct keel_instance_key {
  keel_device *device;
  const kd_kernel_def *def;
  const keel_opdef *op;
  const char *name;
  const keel_type *const *inputs, *const *outputs;
  uint32_t input_count, output_count;
  keel_tensor *const *constants; /* NULL: none; the instance is then shared */
  bool varies; /* nodes with these very constants come in other sizes */
  const uint32_t *layouts; /* of inputs; NULL: rows */
  uint32_t output_layout;
} keel_instance_key;

/* Finds or creates an instance. The caller releases it. One that serves every shape is shared by
 * nodes that have the same constants, which stay as long as it does. */
keel_status keel_instance_get(keel_kernel_cache *cache,
                              const keel_instance_key *key,
                              keel_instance **out_instance);
void keel_instance_release(keel_instance *instance);

/* Whether the kernel has taken constant `input`, so that its launches do not read it. */
static inline bool keel_instance_has_taken(const keel_instance *instance,
                                           uint32_t input) {
  /* relaxed: see there */
  return input < 64 &&
         atomic_load_explicit(&instance->taken, memory_order_relaxed) >> input &
             1;
}

/* Detaches a constant whose host copy no launch reads. The caller releases the result,
 * which may be NULL: other nodes share the instance, for one. Only for a plan's kernels
 * while none of them runs. These are never recreated: a device is not reopened as long as a
 * plan exists. */
keel_tensor *keel_instance_release_constant(keel_instance *instance,
                                            uint32_t input);

/* Recreates the kernel, on a device that was reopened and has been entered. */
keel_status keel_instance_renew(keel_instance *instance);
static inline keel_status keel_instance_ready(keel_instance *instance) {
  return !instance->def->create ||
                 atomic_load_explicit(&instance->handle, memory_order_acquire)
             ? KD_OK
             : keel_instance_renew(instance);
}

/* Destroys all kernels of a lost device that no thread is inside. They are recreated on
 * their next use. */
void keel_instances_destroy(keel_device *device);

keel_status keel_kernel_cache_create(keel_kernel_cache **out_cache);
void keel_kernel_cache_destroy(keel_kernel_cache *cache);
uint64_t keel_kernel_cache_count(const keel_kernel_cache *cache);

keel_status keel_op_cache_create(keel_op_cache **out_cache);
void keel_op_cache_destroy(keel_op_cache *cache);

#endif /* KEEL_CACHE_H */
