/* op.c - keel_op and keel_call: the application's op calls, prepared or by name. */
#include "base/refs.h"
#include "device/context.h"
#include "eager/cache.h"
#include "eager/call_site.h"
#include "ops/runtime.h"
#include "ops/vendor.h"
#include "threads/pool.h"

#define BUCKETS 512
#define MOST    2048
#define NEAR    64 /* entries of a thread's own table */

struct keel_op {
  keel_call_site site;
  atomic_uint refs;
  keel_op *next; /* in the cache */
};

struct keel_op_cache {
  pthread_mutex_t lock;
  uint64_t serial; /* distinguishes caches that had the same address */
  uint32_t count;
  keel_op *buckets[BUCKETS];
};

/* ---- prepared ops --------------------------------------------------------- */

static void split_name(const char *op, char *domain, size_t capacity,
                       const char **out_name) {
  const char *colons = strstr(op, "::");
  domain[0] = 0;
  *out_name = op;
  if (colons && (size_t)(colons - op) < capacity) {
    memcpy(domain, op, (size_t)(colons - op));
    domain[colons - op] = 0;
    *out_name = colons + 2;
  }
}

keel_status keel_op_prepare(keel_context *context, const char *name,
                            const keel_attr *attrs, uint32_t attr_count,
                            keel_device *device, keel_op **out_op) {
  char domain[64];
  const char *bare = NULL;
  *out_op = NULL;
  split_name(name, domain, sizeof domain, &bare);
  const keel_schema *schema = keel_op_find(context, domain, bare);
  if (!schema) return keel_op_missing(context, domain, bare);
  if (schema->flags & KEEL_OP_CONTROL)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "%s has nested functions; build a program for it", name);
  if (device) KEEL_TRY(keel_device_ready(device));
  keel_opdef *def = NULL;
  KEEL_TRY(keel_opdef_create(context, schema, attrs, attr_count, NULL, &def));
  keel_op *op = calloc(1, sizeof *op);
  if (!op) {
    keel_opdef_release(def);
    return keel_no_memory(sizeof *op);
  }
  keel_call_site_init(&op->site, def, "", device);
  keel_refs_init(&op->refs);
  *out_op = op;
  return KD_OK;
}

void keel_op_release(keel_op *op) {
  if (!op || !keel_refs_drop(&op->refs)) return;
  keel_call_site_deinit(&op->site);
  keel_opdef_release(op->site.op);
  free(op);
}

/* ---- calls whose inputs are not known yet --------------------------------- */

typedef struct deferred deferred;

typedef struct input_waiter {
  keel_waiter waiter; /* must be first: cast from keel_waiter */
  deferred *call;
} input_waiter;

struct deferred {
  keel_task task; /* must be first: cast from keel_task */
  keel_op *op;
  keel_device *scope;
  /* Pending inputs, plus one. Decremented with acq_rel, so that the call sees all
   * inputs. */
  atomic_uint missing;
  uint32_t n, m;
  keel_tensor **inputs, **outputs;
  input_waiter copy_outs[];
};

static void end_deferred(deferred *call) {
  for (uint32_t i = 0; i < call->n; i++)
    keel_tensor_release(call->inputs[i]);
  for (uint32_t i = 0; i < call->m; i++)
    keel_tensor_release(call->outputs[i]);
  keel_op_release(call->op);
  free(call->inputs);
  free(call);
}

static void run_deferred(keel_task *task) {
  deferred *call = (deferred *)task;
  keel_tensor *failed =
      keel_tensor_retain(keel_tensors_failed(call->inputs, call->n));
  keel_tensor **values = calloc(call->m + 1, sizeof(keel_tensor *));
  keel_status status = KD_OK;
  if (!failed) {
    status = values
                 ? keel_call_site_run(&call->op->site, call->scope,
                                      call->inputs, call->n, values, call->m, 0)
                 : keel_no_memory(call->m * sizeof(keel_tensor *));
    if (status != KD_OK)
      failed = keel_tensor_failed(call->op->site.op->context, status);
  }
  for (uint32_t i = 0; i < call->m; i++)
    if (failed || status == KD_OK)
      keel_tensor_follow(call->outputs[i], failed ? failed : values[i]);
    else
      keel_tensor_resolve_failed(call->outputs[i], status);
  for (uint32_t i = 0; values && i < call->m; i++)
    keel_tensor_release(values[i]);
  free(values);
  keel_tensor_release(failed);
  end_deferred(call);
}

static void input_arrived(keel_waiter *waiter) {
  deferred *call = ((input_waiter *)waiter)->call;
  /* acq_rel: the last one sees what all the others wrote */
  if (atomic_fetch_sub_explicit(&call->missing, 1, memory_order_acq_rel) != 1)
    return;
  keel_pool *pool = call->op->site.op->context->pool;
  if (keel_may_block(call->op->site.op))
    keel_pool_submit_blocking(pool, &call->task);
  else
    keel_pool_submit(pool, &call->task);
}

static keel_status defer(keel_op *op, keel_device *scope,
                         keel_tensor *const *inputs, uint32_t n,
                         keel_tensor **outputs, uint32_t m) {
  keel_context *context = op->site.op->context;
  deferred *call = calloc(1, sizeof *call + n * sizeof(input_waiter));
  keel_tensor **values = calloc(n + m + 1, sizeof *values);
  if (!call || !values) {
    free(call);
    free(values);
    return keel_no_memory(sizeof *call);
  }
  call->task.run = run_deferred;
  keel_refs_take(&op->refs);
  call->op = op;
  call->scope = scope;
  call->inputs = values;
  call->outputs = values + n;
  call->n = n;
  keel_status status = KD_OK;
  for (uint32_t i = 0; i < n; i++)
    call->inputs[i] = keel_tensor_retain(inputs[i]);
  for (uint32_t i = 0; i < m && status == KD_OK; i++, call->m++) {
    call->outputs[i] = keel_tensor_pending(context);
    status = call->outputs[i] ? KD_OK : KD_OUT_OF_MEMORY;
  }
  if (status != KD_OK) {
    call->m--;
    end_deferred(call);
    return status;
  }
  for (uint32_t i = 0; i < m; i++)
    outputs[i] = keel_tensor_retain(call->outputs[i]);
  /* plus one, so that the call does not run before every input has been subscribed to */
  atomic_store(&call->missing, n + 1);
  input_waiter self = {.call = call};
  for (uint32_t i = 0; i < n; i++) {
    input_waiter *at = &call->copy_outs[i];
    at->waiter.call = input_arrived;
    at->call = call;
    if (inputs[i])
      keel_tensor_then(inputs[i], &at->waiter);
    else
      input_arrived(&at->waiter);
  }
  input_arrived(&self.waiter);
  return KD_OK;
}

/* ---- the call ------------------------------------------------------------- */

static inline uint32_t states_of(keel_tensor *const *inputs, uint32_t n) {
  uint32_t states = 0;
  for (uint32_t i = 0; i < n; i++)
    if (inputs[i]) states |= UINT32_C(1) << keel_tensor_state(inputs[i]);
  return states;
}

/* An exchange that a failed value comes to: the other members get the failure as well. */
static keel_status meet_failed(keel_op *op, keel_device *scope,
                               keel_tensor *const *inputs, uint32_t n,
                               keel_tensor **outputs, uint32_t m) {
  keel_host_call call = {.context = op->site.op->context,
                         .op = op->site.op,
                         .where = "",
                         .scope = scope,
                         .input_count = n,
                         .output_count = m,
                         .inputs = inputs,
                         .outputs = outputs};
  for (uint32_t i = 0; i < m; i++)
    outputs[i] = NULL;
  return op->site.op->schema->host(&call);
}

keel_status keel_op_call(keel_op *op, keel_tensor *const *inputs,
                         uint32_t input_count, keel_tensor **outputs,
                         uint32_t output_count) {
  uint32_t states = states_of(inputs, input_count);
  if ((states & (UINT32_C(1) << KEEL_PENDING)) &&
      (op->site.op->schema->flags & (KEEL_OP_READS | KEEL_OP_WRITES))) {
    /* it must take effect before the next call */
    for (uint32_t i = 0; i < input_count; i++)
      if (inputs[i]) keel_tensor_wait_known(inputs[i]);
    states = states_of(inputs, input_count);
  }
  keel_device *scope = keel_device_scope(op->site.op->context);
  if ((states & (UINT32_C(1) << KEEL_FAILED)) &&
      (op->site.op->schema->flags & KEEL_OP_MEETS))
    return meet_failed(op, scope, inputs, input_count, outputs, output_count);
  if (states & (UINT32_C(1) << KEEL_FAILED)) {
    keel_tensor *failed = keel_tensors_failed(inputs, input_count);
    for (uint32_t i = 0; i < output_count; i++)
      outputs[i] = keel_tensor_retain(failed);
    return KD_OK;
  }
  if (states & (UINT32_C(1) << KEEL_PENDING))
    return defer(op, scope, inputs, input_count, outputs, output_count);
  return keel_call_site_run(&op->site, scope, inputs, input_count, outputs,
                            output_count, 0);
}

/* ---- by name -------------------------------------------------------------- */

static _Atomic uint64_t serials; /* serial numbers of caches */

/* The calling thread's recently called ops. */
static _Thread_local struct {
  uint64_t serial, hash;
  keel_op *op;
} near[NEAR];

static bool op_is_plain(const keel_attr *attr) {
  return attr->kind == KD_ATTR_INT || attr->kind == KD_ATTR_FLOAT ||
         attr->kind == KD_ATTR_STRING || attr->kind == KD_ATTR_INTS;
}

static uint64_t hash_call(const char *name, const keel_attr *attrs,
                          uint32_t count, bool *out_plain) {
  uint64_t hash = keel_hash_string(KEEL_HASH_SEED, name);
  *out_plain = true;
  for (uint32_t i = 0; i < count; i++) {
    hash = keel_attr_hash(hash, &attrs[i]);
    *out_plain &= op_is_plain(&attrs[i]);
  }
  return hash;
}

static bool is_call(const keel_op *op, const char *name, const keel_attr *attrs,
                    uint32_t count) {
  const keel_opdef *def = op->site.op;
  const char *colons = strstr(name, "::");
  const char *bare = colons ? colons + 2 : name;
  if (strcmp(def->schema->name, bare) != 0 || def->attr_count != count)
    return false;
  const char *domain = def->schema->domain;
  if (colons ? strncmp(domain, name, (size_t)(colons - name)) != 0
             : strcmp(domain, "ai.onnx") != 0)
    return false;
  for (uint32_t i = 0; i < count; i++)
    if (!keel_attr_equal(&def->attrs[i].value, &attrs[i])) return false;
  return true;
}

static keel_op *find_op(keel_op_cache *cache, uint64_t hash, const char *name,
                        const keel_attr *attrs, uint32_t count) {
  keel_op *op = cache->buckets[hash % BUCKETS];
  while (op && !is_call(op, name, attrs, count))
    op = op->next;
  return op;
}

/* Adds an op, or returns the one that another thread has added; NULL if the cache is
 * full. */
static keel_op *add_op(keel_op_cache *cache, uint64_t hash, keel_op *fresh,
                       const char *name, const keel_attr *attrs,
                       uint32_t count) {
  pthread_mutex_lock(&cache->lock);
  keel_op *op = find_op(cache, hash, name, attrs, count);
  if (!op && cache->count < MOST) {
    op = fresh;
    op->next = cache->buckets[hash % BUCKETS];
    cache->buckets[hash % BUCKETS] = op;
    cache->count++;
  }
  pthread_mutex_unlock(&cache->lock);
  return op;
}

keel_status keel_call(keel_context *context, const char *name,
                      const keel_attr *attrs, uint32_t attr_count,
                      keel_tensor *const *inputs, uint32_t input_count,
                      keel_tensor **outputs, uint32_t output_count) {
  keel_op_cache *cache = context->ops;
  bool plain = false;
  uint64_t hash = hash_call(name, attrs, attr_count, &plain);
  uint32_t at = (uint32_t)(hash % NEAR);
  if (plain && near[at].serial == cache->serial && near[at].hash == hash &&
      is_call(near[at].op, name, attrs, attr_count))
    return keel_op_call(near[at].op, inputs, input_count, outputs,
                        output_count);
  keel_op *op = NULL, *fresh = NULL;
  if (plain) {
    pthread_mutex_lock(&cache->lock);
    op = find_op(cache, hash, name, attrs, attr_count);
    pthread_mutex_unlock(&cache->lock);
  }
  for (uint32_t i = 0; i < output_count; i++)
    outputs[i] = NULL;
  if (!op) {
    KEEL_TRY(keel_op_prepare(context, name, attrs, attr_count, NULL, &fresh));
    op = plain ? add_op(cache, hash, fresh, name, attrs, attr_count) : NULL;
  }
  keel_status status =
      keel_op_call(op ? op : fresh, inputs, input_count, outputs, output_count);
  if (op) {
    near[at].serial = cache->serial;
    near[at].hash = hash;
    near[at].op = op;
  }
  if (fresh != op) keel_op_release(fresh);
  return status;
}

keel_status keel_op_cache_create(keel_op_cache **out_cache) {
  keel_op_cache *cache = calloc(1, sizeof *cache);
  if (!cache) return keel_no_memory(sizeof *cache);
  pthread_mutex_init(&cache->lock, NULL);
  cache->serial = atomic_fetch_add(&serials, 1) + 1;
  *out_cache = cache;
  return KD_OK;
}

void keel_op_cache_destroy(keel_op_cache *cache) {
  if (!cache) return;
  for (uint32_t i = 0; i < BUCKETS; i++)
    for (keel_op *op = cache->buckets[i], *next; op; op = next) {
      next = op->next;
      keel_op_release(op);
    }
  pthread_mutex_destroy(&cache->lock);
  free(cache);
}
