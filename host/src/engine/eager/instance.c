/* instance.c - creates kernels, and keeps those that others may use again.
 *
 * The cache is used only when a call has new types, so a lock is good enough. It holds one
 * reference to each instance, and evicts the least recently used. An instance with constants belongs
 * to those that use it: the cache finds it, and holds no reference. */
#include "base/refs.h"
#include "device/context.h"
#include "device/stream.h"
#include "eager/cache.h"

#include "device/lost.h"
#include "memory/copy.h"
#include "program/function.h"
#include "threads/pool.h"

#define BUCKETS 1024
#define MOST    2048

struct keel_kernel_cache {
  pthread_mutex_t lock;
  keel_instance *buckets[BUCKETS];
  keel_instance *newest, *oldest;
  _Atomic uint64_t count; /* written under the lock; read by keel_get_stats */
};

/* ---- one instance --------------------------------------------------------- */

/* All instances that have a kernel. */
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
static keel_instance *all;

static void enlist(keel_instance *instance) {
  pthread_mutex_lock(&listing);
  instance->after = all;
  if (all) all->before = instance;
  all = instance;
  pthread_mutex_unlock(&listing);
}

/* Takes over the kernel, inside the device; the caller then owns it. */
static kd_kernel *delist(keel_instance *instance) {
  pthread_mutex_lock(&listing);
  if (instance->after) instance->after->before = instance->before;
  if (instance->before)
    instance->before->after = instance->after;
  else
    all = instance->after;
  kd_kernel *handle = atomic_exchange(&instance->handle, NULL);
  pthread_mutex_unlock(&listing);
  return handle;
}

void keel_instances_destroy(keel_device *device) {
  pthread_mutex_lock(&listing);
  for (keel_instance *at = all; at; at = at->after) {
    if (at->device != device) continue;
    kd_kernel *handle = atomic_exchange(&at->handle, NULL);
    if (handle) at->def->destroy(handle);
  }
  pthread_mutex_unlock(&listing);
}

static void drop_handle(keel_instance *instance) {
  keel_lost_enter(instance->device);
  kd_kernel *handle = delist(instance);
  if (handle) {
    keel_device_drain_quietly(instance->device); /* enqueued work may use it */
    instance->def->destroy(handle);
  }
  keel_lost_leave(instance->device);
}

/* Whether the kernel will not read a constant again. */
static bool is_done(const keel_instance *instance, uint32_t input) {
  return keel_instance_has_taken(instance, input) ||
         (instance->def->flags & KD_KERNEL_CONSTANTS_IN_CREATE);
}

static void instance_free(keel_instance *instance) {
  if (instance->listed) drop_handle(instance);
  for (uint32_t i = 0; instance->constants && i < instance->node.input_count;
       i++) {
    if (instance->listed && instance->constants[i] && !is_done(instance, i))
      keel_mapping_release_copy(instance->constants[i], false);
    keel_tensor_release(instance->constants[i]);
  }
  keel_opdef_release(instance->op);
  free(instance->constants);
  free(instance->layouts);
  free(instance->types);
  free(instance->name);
  free(instance);
}

static void unlink_bucket(keel_kernel_cache *cache, keel_instance *instance) {
  keel_instance **at = &cache->buckets[instance->hash % BUCKETS];
  while (*at != instance)
    at = &(*at)->next;
  *at = instance->next;
}

void keel_instance_release(keel_instance *instance) {
  keel_kernel_cache *cache = instance ? instance->found_in : NULL;
  if (cache) pthread_mutex_lock(&cache->lock); /* nobody finds it meanwhile */
  bool last = instance && keel_refs_drop(&instance->refs);
  if (cache && last) unlink_bucket(cache, instance);
  if (cache) pthread_mutex_unlock(&cache->lock);
  if (last) instance_free(instance);
}

static keel_status copy_key(keel_instance *instance,
                            const keel_instance_key *key) {
  uint32_t count = key->input_count + key->output_count;
  instance->types = calloc(count + 1, sizeof *instance->types);
  if (!instance->types) return keel_no_memory(count * sizeof *instance->types);
  for (uint32_t i = 0; i < key->input_count; i++)
    instance->types[i] = key->inputs[i];
  for (uint32_t i = 0; i < key->output_count; i++)
    instance->types[key->input_count + i] = key->outputs[i];
  if (key->constants) {
    instance->constants =
        calloc(key->input_count + 1, sizeof *instance->constants);
    if (!instance->constants)
      return keel_no_memory(key->input_count * sizeof *instance->constants);
    for (uint32_t i = 0; i < key->input_count; i++)
      instance->constants[i] = keel_tensor_retain(key->constants[i]);
    instance->name = strdup(key->name); /* it may outlive the node */
    if (!instance->name) return keel_no_memory(strlen(key->name) + 1);
  }
  if (key->layouts) {
    instance->layouts = calloc(key->input_count + 1, sizeof *key->layouts);
    if (!instance->layouts)
      return keel_no_memory(key->input_count * sizeof *key->layouts);
    memcpy(instance->layouts, key->layouts,
           key->input_count * sizeof *key->layouts);
  }
  instance->node = (struct kd_node){
      .op = instance->op,
      .name = key->constants ? instance->name : "",
      .input_count = key->input_count,
      .output_count = key->output_count,
      .inputs = instance->types,
      .outputs = instance->types + key->input_count,
      .constants = instance->constants,
      .layouts = instance->layouts,
      .output_layout = key->output_layout,
  };
  return KD_OK;
}

/* Constants that the kernel has taken. Those that are mapped from a file are evicted; they
 * are paged in again if anything else reads them. */
static void note_taken(keel_instance *instance, kd_kernel *handle) {
  uint64_t taken = instance->def->taken ? instance->def->taken(handle) : 0,
           known = 0;
  for (uint32_t i = 0; taken && i < instance->node.input_count && i < 64; i++) {
    keel_tensor *constant = instance->constants ? instance->constants[i] : NULL;
    if (!(taken >> i & 1) || !constant) continue;
    known |= UINT64_C(1) << i;
    keel_mapping_evict(constant);
  }
  atomic_store_explicit(&instance->taken, known, memory_order_relaxed);
}

keel_tensor *keel_instance_release_constant(keel_instance *instance,
                                            uint32_t input) {
  if (!instance->constants || instance->found_in) return NULL;
  keel_tensor *constant = instance->constants[input];
  instance->constants[input] = NULL;
  return constant;
}

keel_status keel_instance_renew(keel_instance *instance) {
  kd_kernel *handle = NULL, *none = NULL;
  keel_clear_error();
  keel_pool *before = keel_pool_use(instance->device->context->pool);
  kd_status status = instance->def->create(
      instance->device->handle, instance->def, &instance->node, &handle);
  keel_pool_use(before);
  if (status == KD_OK) {
    note_taken(instance, handle);
    /* release: what the plugin wrote */
    if (!atomic_compare_exchange_strong_explicit(&instance->handle, &none,
                                                 handle, memory_order_acq_rel,
                                                 memory_order_relaxed))
      instance->def->destroy(handle); /* another thread was first */
    return KD_OK;
  }
  status = keel_device_check(instance->device, status);
  if (!keel_has_error())
    keel_fail(status, "no reason given (%s)", keel_status_name(status));
  return keel_while(status, "while %s made a kernel for %s",
                    instance->device->name, instance->op->schema->name);
}

static keel_status create_handle(keel_instance *instance) {
  keel_tensor **constants = instance->constants;
  uint32_t count = instance->node.input_count;
  if (!instance->def->create) return KD_OK;
  KEEL_TRY(keel_device_enter(instance->device));
  keel_status status = keel_mapping_hold_copies(constants, count);
  if (status == KD_OK) {
    status = keel_instance_renew(instance);
    if (status == KD_OK) {
      instance->listed = true;
      enlist(instance);
    }
    for (uint32_t i = 0; constants && i < count; i++)
      if (constants[i] && (status != KD_OK || is_done(instance, i)))
        keel_mapping_release_copy(constants[i], false);
  }
  keel_lost_leave(instance->device);
  return status;
}

static keel_status instance_make(const keel_instance_key *key,
                                 keel_instance **out_instance) {
  keel_instance *instance = calloc(1, sizeof *instance);
  if (!instance) return keel_no_memory(sizeof *instance);
  keel_refs_init(&instance->refs);
  instance->device = key->device;
  instance->def = key->def;
  instance->op = keel_opdef_retain((keel_opdef *)(uintptr_t)key->op);
  keel_status status = copy_key(instance, key);
  if (status == KD_OK) status = create_handle(instance);
  if (status != KD_OK) {
    instance_free(instance);
    return status;
  }
  *out_instance = instance;
  return KD_OK;
}

/* ---- the cache ------------------------------------------------------------ */

/* A type as it enters the key: in full, or element type and rank only. */
static uint64_t hash_type(uint64_t hash, const keel_type *type, bool any) {
  if (!any) return keel_hash(hash, &type, sizeof type);
  uint32_t part[2] = {type ? type->dtype : 0, type ? type->rank : 0};
  return keel_hash(hash, part, sizeof part);
}

static bool same_type(const keel_type *a, const keel_type *b, bool any) {
  if (a == b) return true;
  return any && a && b && a->dtype == b->dtype && a->rank == b->rank;
}

/* The same for a constant and its copies; 0: there is none. */
static uint64_t identity_of(keel_tensor *constant) {
  return constant ? keel_tensor_identity(constant) : 0;
}

static uint64_t hash_key(const keel_instance_key *key) {
  bool any = key->def->flags & KD_KERNEL_ANY_SHAPE;
  uint64_t hash = keel_hash(key->op->hash, &key->def, sizeof key->def);
  hash = keel_hash(hash, &key->device, sizeof key->device);
  hash = keel_hash(hash, &key->output_layout, sizeof key->output_layout);
  if (key->layouts)
    hash =
        keel_hash(hash, key->layouts, key->input_count * sizeof *key->layouts);
  for (uint32_t i = 0; i < key->input_count; i++)
    hash = hash_type(hash, key->inputs[i], any);
  for (uint32_t i = 0; key->constants && i < key->input_count; i++) {
    uint64_t id = identity_of(key->constants[i]);
    hash = keel_hash(hash, &id, sizeof id);
  }
  return hash;
}

static bool same_layouts(const keel_instance *instance,
                         const keel_instance_key *key) {
  return instance->node.output_layout == key->output_layout &&
         !instance->layouts == !key->layouts &&
         (!key->layouts || !memcmp(instance->layouts, key->layouts,
                                   key->input_count * sizeof *key->layouts));
}

static bool same_constants(const keel_instance *instance,
                           const keel_instance_key *key) {
  bool same = !instance->constants == !key->constants;
  for (uint32_t i = 0; same && key->constants && i < key->input_count; i++)
    same =
        identity_of(instance->constants[i]) == identity_of(key->constants[i]);
  return same;
}

static bool matches(const keel_instance *instance, uint64_t hash,
                    const keel_instance_key *key) {
  bool any = key->def->flags & KD_KERNEL_ANY_SHAPE;
  const struct kd_node *node = &instance->node;
  if (instance->hash != hash || instance->def != key->def ||
      instance->device != key->device ||
      node->input_count != key->input_count ||
      node->output_count != key->output_count || !same_layouts(instance, key) ||
      !same_constants(instance, key) ||
      !keel_opdef_equal(instance->op, key->op))
    return false;
  for (uint32_t i = 0; i < key->input_count; i++)
    if (!same_type(node->inputs[i], key->inputs[i], any)) return false;
  for (uint32_t i = 0; i < key->output_count; i++)
    if (!same_type(node->outputs[i], key->outputs[i], any)) return false;
  return true;
}

static void unlink_age(keel_kernel_cache *cache, keel_instance *instance) {
  if (instance->newer)
    instance->newer->older = instance->older;
  else
    cache->newest = instance->older;
  if (instance->older)
    instance->older->newer = instance->newer;
  else
    cache->oldest = instance->newer;
}

static void link_newest(keel_kernel_cache *cache, keel_instance *instance) {
  instance->newer = NULL;
  instance->older = cache->newest;
  if (cache->newest)
    cache->newest->newer = instance;
  else
    cache->oldest = instance;
  cache->newest = instance;
}

static keel_instance *instance_find(keel_kernel_cache *cache, uint64_t hash,
                                    const keel_instance_key *key) {
  keel_instance *instance = cache->buckets[hash % BUCKETS];
  while (instance && !matches(instance, hash, key))
    instance = instance->next;
  if (instance) {
    keel_refs_take(&instance->refs);
    if (!instance->found_in) {
      unlink_age(cache, instance);
      link_newest(cache, instance);
    }
  }
  return instance;
}

/* Removes the least recently used instance; the caller releases it. */
static keel_instance *evict(keel_kernel_cache *cache) {
  keel_instance *instance = cache->oldest;
  unlink_bucket(cache, instance);
  unlink_age(cache, instance);
  cache->count--;
  return instance;
}

/* Puts a new instance in the cache; returns one that the caller releases. With the lock held. */
static keel_instance *cache_add(keel_kernel_cache *cache,
                                keel_instance *instance) {
  keel_instance **bucket = &cache->buckets[instance->hash % BUCKETS];
  instance->next = *bucket;
  *bucket = instance;
  if (instance->constants) {
    instance->found_in = cache;
    return NULL;
  }
  keel_refs_take(&instance->refs);
  link_newest(cache, instance);
  return ++cache->count > MOST ? evict(cache) : NULL;
}

static bool is_shared(const keel_instance_key *key) {
  return key->op->shareable &&
         (!key->constants ||
          (key->varies && key->def->flags & KD_KERNEL_ANY_SHAPE));
}

keel_status keel_instance_get(keel_kernel_cache *cache,
                              const keel_instance_key *key,
                              keel_instance **out_instance) {
  if (!is_shared(key)) return instance_make(key, out_instance);
  uint64_t hash = hash_key(key);
  pthread_mutex_lock(&cache->lock);
  keel_instance *instance = instance_find(cache, hash, key);
  pthread_mutex_unlock(&cache->lock);
  if (instance) {
    *out_instance = instance;
    return KD_OK;
  }
  KEEL_TRY(instance_make(key, &instance));
  instance->hash = hash;
  pthread_mutex_lock(&cache->lock);
  keel_instance *old = cache_add(cache, instance);
  pthread_mutex_unlock(&cache->lock);
  keel_instance_release(old);
  *out_instance = instance;
  return KD_OK;
}

keel_status keel_kernel_cache_create(keel_kernel_cache **out_cache) {
  keel_kernel_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return keel_no_memory(sizeof *cache);
  pthread_mutex_init(&cache->lock, NULL);
  *out_cache = cache;
  return KD_OK;
}

void keel_kernel_cache_destroy(keel_kernel_cache *cache) {
  if (!cache) return;
  while (cache->oldest)
    keel_instance_release(evict(cache));
  pthread_mutex_destroy(&cache->lock);
  free(cache);
}

uint64_t keel_kernel_cache_count(const keel_kernel_cache *cache) {
  return cache->count;
}
