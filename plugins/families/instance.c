/* instance.c - an instance is a plan and its passes, compiled. */
#include "families/instance.h"

#include <pthread.h>
#include <string.h>

#include "common/options.h"
#include "families/estimate.h"
#include "families/ready.h"

#define HOST_BYTES 512 /* of host inputs that a plan may depend on */

/* A plan that is ready for some launches. */
typedef struct ready {
  fam_ready it;
  bool by_data; /* holds for these host inputs only */
  uint64_t host_size;
  unsigned char host_data[HOST_BYTES]; /* what the plan was made for */
} ready;

struct kd_kernel {
  kd_device *device;
  const fam_driver *driver;
  const kd_node *node;
  const fam_row *row;
  pthread_mutex_t lock; /* of `now`, and one launch at a time */
  ready *now;           /* NULL: host inputs are not known yet */
};

/* Zeroed, and from the host. */
static void *instance_make(const kd_host *host, size_t size) {
  void *made = host->allocate(host, size, 0);
  if (made) memset(made, 0, size);
  return made;
}

bool fam_tiles(const kd_host *host, bool prefer) {
  return option_is(host, "tiles", "on") ||
         (prefer && !option_is(host, "tiles", "off"));
}

bool fam_tiles_are_free(const kd_host *host) {
  return !option_is(host, "tiles", "on") && !option_is(host, "tiles", "off");
}

/* ---- making ---------------------------------------------------------------------- */

static void free_ready(kd_kernel *k, ready *r) {
  if (!r) return;
  fam_ready_free(k->driver, k->device, &r->it);
  k->driver->host->release(k->driver->host, r);
}

typedef struct making {
  const fam_op *op;
  const fam_row *row;
} making;

static kd_status make_plan(void *context, fam_plan *plan) {
  const making *of = context;
  return fam_make(plan, of->op, of->row);
}

static kd_status plan_node(const kd_kernel *k, const fam_op *op,
                           fam_plan *plan) {
  making of = {op, k->row};
  fam_maker maker = {.make = make_plan, .context = &of, .node = k->node};
  for (uint32_t i = 0; i < op->in_count; i++)
    maker.in[i] = (uint64_t)op->in[i].count * kd_dtype_size(op->in[i].dtype);
  for (uint32_t i = 0; i < op->out_count; i++)
    maker.out[i] = (uint64_t)op->out[i].count * kd_dtype_size(op->out[i].dtype);
  return fam_plan_tuned(k->driver, k->device, &maker, plan);
}

/* Plans and compiles. KD_NOT_FOUND where host inputs are not known. */
static kd_status instance_prepare(kd_kernel *k, const kd_launch *launch,
                                  ready **out) {
  const kd_host *host = k->driver->host;
  fam_op *op = instance_make(host, sizeof *op);
  ready *r = instance_make(host, sizeof *r);
  kd_status status =
      op && r ? KD_OK : host->fail(KD_OUT_OF_MEMORY, "no memory for a plan");
  if (status == KD_OK) status = fam_read(op, host, k->node, k->row, launch);
  if (status == KD_OK && !launch && !fam_knows_all(op)) status = KD_NOT_FOUND;
  if (status == KD_OK) status = plan_node(k, op, &r->it.plan);
  if (status == KD_OK) r->by_data = launch && k->row->host_inputs;
  if (status == KD_OK) status = fam_ready_compile(k->driver, k->device, &r->it);
  if (op) host->release(host, op);
  if (status != KD_OK) {
    free_ready(k, r);
    return status;
  }
  *out = r;
  return KD_OK;
}

static void instance_destroy(kd_kernel *k) {
  free_ready(k, k->now);
  pthread_mutex_destroy(&k->lock);
  k->driver->host->release(k->driver->host, k);
}

static kd_status instance_create(kd_device *d, const kd_kernel_def *def,
                                 const kd_node *node, kd_kernel **out_kernel) {
  const fam_driver *driver = fam_driver_of(d);
  kd_kernel *k = instance_make(driver->host, sizeof *k);
  if (!k) return driver->host->fail(KD_OUT_OF_MEMORY, "no memory for a kernel");
  k->device = d;
  k->driver = driver;
  k->node = node;
  k->row = def->data;
  pthread_mutex_init(&k->lock, NULL);
  kd_status status = instance_prepare(k, NULL, &k->now);
  if (status != KD_OK && status != KD_NOT_FOUND) {
    instance_destroy(k);
    return status;
  }
  *out_kernel = k;
  return KD_OK;
}

/* ---- what a device can do ------------------------------------------------------------- */

/* Plans it, and forgets the plan. Where host inputs are not known, a plan says what
 * depends on types and attributes alone; where not every kernel can be compiled, that is
 * not enough. */
static kd_status supports_row(kd_device *d, const kd_node *node,
                              const fam_row *row) {
  const fam_driver *driver = fam_driver_of(d);
  const kd_host *host = driver->host;
  fam_op *op = instance_make(host, sizeof *op);
  fam_plan *plan = instance_make(host, sizeof *plan);
  kd_status status =
      op && plan ? KD_OK : host->fail(KD_OUT_OF_MEMORY, "no memory for a plan");
  if (status == KD_OK) {
    fam_plan_begin(plan, driver);
    status = fam_read(op, host, node, row, NULL);
  }
  if (status == KD_OK) status = fam_has_types(driver, op);
  if (status == KD_OK) {
    bool known = fam_knows_all(op);
    status = fam_make(plan, op, row);
    /* asked last: who asks for a library loads it */
    if (status == KD_OK && plan->rather_products && driver->has_library &&
        driver->has_library(d, false))
      status =
          host->fail(KD_UNIMPLEMENTED, "products of the library are faster");
    for (uint32_t i = 0; status == KD_OK && driver->can && i < plan->count; i++)
      if (plan->passes[i].groups) status = driver->can(d, &plan->passes[i]);
    fam_free(plan);
    if (known && status == KD_INVALID_ARGUMENT) status = KD_UNIMPLEMENTED;
    if (!known && status != KD_UNIMPLEMENTED)
      status = driver->can ? host->fail(KD_UNIMPLEMENTED,
                                        "its kernels depend on inputs that are"
                                        " not known yet")
                           : KD_OK;
  }
  if (op) host->release(host, op);
  if (plan) host->release(host, plan);
  return status;
}

/* `supports` is told of the node alone: the row is found by name. */
static kd_status supports(kd_device *d, const kd_node *node) {
  const fam_driver *driver = fam_driver_of(d);
  const char *name = driver->host->node->op(node);
  for (uint32_t i = 0; i < fam_row_count; i++)
    if (!strcmp(fam_rows[i].op, name))
      return supports_row(d, node, &fam_rows[i]);
  return driver->host->fail(KD_UNIMPLEMENTED, "there is no kernel for %s",
                            name);
}

/* ---- running ---------------------------------------------------------------------------- */

/* The host inputs of a launch, one behind the other; their size, or UINT64_MAX
 * where they don't fit. */
static uint64_t gather_host(const kd_kernel *k, const kd_launch *launch,
                            unsigned char *out) {
  uint64_t size = 0;
  for (uint32_t i = 0; i < launch->input_count && i < 32; i++) {
    const kd_tensor *in = &launch->inputs[i];
    if (!fam_on_host(k->row, i) || in->dtype == KD_NONE || !in->size) continue;
    if (size + in->size > HOST_BYTES) return UINT64_MAX;
    memcpy(out + size, in->data, (size_t)in->size);
    size += in->size;
  }
  return size;
}

/* Under the lock: the plan for this launch. */
static kd_status plan_for(kd_kernel *k, const kd_launch *launch) {
  if (k->now && !k->now->by_data) return KD_OK;
  unsigned char data[HOST_BYTES];
  uint64_t size = gather_host(k, launch, data);
  if (k->now && size != UINT64_MAX && k->now->host_size == size &&
      !memcmp(k->now->host_data, data, (size_t)size))
    return KD_OK;
  ready *fresh = NULL;
  kd_status status = instance_prepare(k, launch, &fresh);
  if (status != KD_OK) return status;
  fresh->host_size = size == UINT64_MAX ? UINT64_MAX - 1 : size;
  if (size != UINT64_MAX) memcpy(fresh->host_data, data, (size_t)size);
  free_ready(k, k->now);
  k->now = fresh;
  return KD_OK;
}

static kd_status instance_enqueue(kd_kernel *k, kd_stream *stream,
                                  const kd_launch *launch) {
  pthread_mutex_lock(&k->lock);
  kd_status status = plan_for(k, launch);
  if (status == KD_OK)
    status = fam_ready_run(k->driver, k->device, stream, &k->now->it, launch);
  pthread_mutex_unlock(&k->lock);
  return status;
}

static kd_status cost(kd_device *device, const kd_node *node,
                      kd_cost *out_cost) {
  return estimate_cost(fam_driver_of(device)->host, node, out_cost);
}

void fam_run_begin(kd_device *device, uint64_t correlation) {
  (void)correlation;
  fam_script_run(fam_driver_of(device)->script);
}

static const kd_alias updated = {.flags = KD_ALIAS_MUST};
static const kd_alias cached[] = {
    {.output = 1, .input = 3, .flags = KD_ALIAS_MUST},
    {.output = 2, .input = 4, .flags = KD_ALIAS_MUST}};

/* What a row says of its outputs' memory: bits of inputs that the first may lie in, or one of
 * the two above. */
#define IN_PLACE(forward) ((forward)&0x3fffffffu)
#define ALIASES(forward)                \
  ((forward) == FAM_UPDATED  ? &updated \
   : (forward) == FAM_CACHED ? cached   \
                             : NULL)
#define ALIAS_COUNT(forward) \
  ((forward) == FAM_UPDATED ? 1 : (forward) == FAM_CACHED ? 2 : 0)

/* Rows with host inputs make their plan at a launch, and may look at constants then. */
#define IN_CREATE(host) ((host) ? 0 : KD_KERNEL_CONSTANTS_IN_CREATE)

const kd_kernel_def fam_kernels[FAM_ROW_COUNT] = {
#define FAM_OP(space, name, set, out, host, forward, kind, function) \
  {.struct_size = sizeof(kd_kernel_def),                             \
   .flags = KD_KERNEL_ANY_OFFSET | IN_CREATE(host),                  \
   .domain = space,                                                  \
   .op = #name,                                                      \
   .input_types = {set},                                             \
   .output_types = {out},                                            \
   .host_inputs = host,                                              \
   .inplace = IN_PLACE(forward),                                     \
   .aliases = ALIASES(forward),                                      \
   .alias_count = ALIAS_COUNT(forward),                              \
   .data = &fam_rows[FAM_ROW_##name],                                \
   .supports = supports,                                             \
   .cost = cost,                                                     \
   .create = instance_create,                                        \
   .enqueue = instance_enqueue,                                      \
   .destroy = instance_destroy},
#include "families/ops.def"
};
