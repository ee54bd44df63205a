/* cache.h - kernel instances, shared by all ops of equal attributes and types,
 * and prepared ops, found by name. Both are bounded. */
#ifndef KEEL_CACHE_H
#define KEEL_CACHE_H

#include "device/device.h"
#include "ops/node.h"

/* A created kernel, counted. */
typedef struct keel_kernel_cache keel_kernel_cache;
typedef struct keel_op_cache keel_op_cache;

typedef struct keel_instance {
  atomic_uint refs;
  keel_device *device;
  const kd_kernel_def *def;
  /* NULL where the definition has no `create`, or when the device was lost since. Put there
   * with release, acquired. */
  _Atomic(kd_kernel *) handle;
  keel_opdef *op;
  struct kd_node node;     /* what `create` saw; the arrays below */
  const keel_type **types; /* of inputs, then outputs */
  keel_tensor **constants; /* by input, retained; NULL: none */
  uint32_t *layouts;       /* of inputs; NULL: rows */
  /* Bits of constants that the kernel reads no more. Written before the handle is put
   * there, relaxed; read behind it. */
  _Atomic uint64_t taken;
  bool listed; /* it has a kernel of its own */
  uint64_t hash;
  struct keel_instance *next, *newer, *older; /* in the cache */
  struct keel_instance *after, *before;       /* of all there are */
} keel_instance;

/* What an instance is made for. */
typedef struct keel_instance_key {
  keel_device *device;
  const kd_kernel_def *def;
  const keel_opdef *op;
  const char *name;
  const keel_type *const *inputs, *const *outputs;
  uint32_t input_count, output_count;
  keel_tensor *const *constants; /* NULL: none, and the instance is shared */
  const uint32_t *layouts;       /* of inputs; NULL: rows */
  uint32_t output_layout;
} keel_instance_key;

/* Finds or creates an instance; the caller releases it. */
keel_status keel_instance_get(keel_kernel_cache *cache,
                              const keel_instance_key *key,
                              keel_instance **out_instance);
void keel_instance_release(keel_instance *instance);

/* Whether the kernel has taken constant `input`, and its launches do not read it. */
static inline bool keel_instance_took(const keel_instance *instance,
                                      uint32_t input) {
  /* relaxed: see there */
  return input < 64 &&
         atomic_load_explicit(&instance->taken, memory_order_relaxed) >> input &
             1;
}

/* Lets go of a constant of which no launch reads the host's copy; it is the caller's to release
 * then, or NULL.
 * When nobody runs the kernel, of a plan: these are never renewed, since a device is not
 * opened again as long as a plan is there. */
keel_tensor *keel_instance_forget(keel_instance *instance, uint32_t input);

/* Makes the kernel anew, inside a device that was opened again. */
keel_status keel_instance_renew(keel_instance *instance);
static inline keel_status keel_instance_ready(keel_instance *instance) {
  return !instance->def->create ||
                 atomic_load_explicit(&instance->handle, memory_order_acquire)
             ? KD_OK
             : keel_instance_renew(instance);
}

/* Gives all kernels of a lost device back, inside which nobody is; they are made anew at
 * their next use. */
void keel_instances_destroy(keel_device *device);

keel_status keel_kernel_cache_create(keel_kernel_cache **out_cache);
void keel_kernel_cache_destroy(keel_kernel_cache *cache);
uint64_t keel_kernel_cache_count(const keel_kernel_cache *cache);

keel_status keel_op_cache_create(keel_op_cache **out_cache);
void keel_op_cache_destroy(keel_op_cache *cache);

#endif /* KEEL_CACHE_H */
