/* instance.c - an instance is a plan and its passes, compiled. */
#include "families/instance.h"

#include <pthread.h>
#include <string.h>

#define HOST_BYTES 512 /* of host inputs that a plan may hang on */

/* A plan, ready to run. */
typedef struct ready {
  fam_plan plan;
  void **programs; /* one a pass; NULL where it has no groups */
  bool by_data;    /* holds for these host inputs only */
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
static void *make(const kd_host *host, size_t size) {
  void *made = host->allocate(size, 0);
  if (made) memset(made, 0, size);
  return made;
}

kd_status fam_tiles(const kd_host *host, bool prefer, bool *out_shared) {
  const char *wanted = host->option(host, "tiles");
  bool on = wanted && !strcmp(wanted, "on");
  bool off = wanted && !strcmp(wanted, "off");
  if (wanted && !on && !off && strcmp(wanted, "auto") != 0)
    return host->fail(KD_INVALID_ARGUMENT,
                      "option tiles is \"%s\"; it is auto, on or off", wanted);
  *out_shared = on || (prefer && !off);
  return KD_OK;
}

/* ---- making ---------------------------------------------------------------------- */

static void free_ready(kd_kernel *k, ready *r) {
  if (!r) return;
  for (uint32_t i = 0; r->programs && i < r->plan.count; i++)
    if (r->programs[i]) k->driver->release(k->device, r->programs[i]);
  if (r->programs) k->driver->host->release(r->programs);
  fam_free(&r->plan);
  k->driver->host->release(r);
}

static void begin_plan(const fam_driver *driver, fam_plan *plan) {
  plan->host = driver->host;
  plan->float64 = driver->dialect.float64;
  plan->math64 = driver->dialect.math64;
  plan->int64 = driver->dialect.int64;
  plan->shared = driver->shared;
}

static kd_status compile_all(kd_kernel *k, ready *r) {
  const fam_driver *driver = k->driver;
  r->programs = make(driver->host, (r->plan.count + 1) * sizeof *r->programs);
  if (!r->programs)
    return driver->host->fail(KD_OUT_OF_MEMORY, "no memory for kernels");
  for (uint32_t i = 0; i < r->plan.count; i++) {
    if (!r->plan.passes[i].groups) continue;
    kd_status status =
        driver->compile(k->device, &r->plan.passes[i], &r->programs[i]);
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

/* Plans and compiles. KD_NOT_FOUND where host inputs are not known. */
static kd_status prepare(kd_kernel *k, const kd_launch *launch, ready **out) {
  const kd_host *host = k->driver->host;
  fam_op *op = make(host, sizeof *op);
  ready *r = make(host, sizeof *r);
  kd_status status =
      op && r ? KD_OK : host->fail(KD_OUT_OF_MEMORY, "no memory for a plan");
  if (status == KD_OK) {
    begin_plan(k->driver, &r->plan);
    status = fam_read(op, host, k->node, k->row, launch);
  }
  if (status == KD_OK && !launch && !fam_knows_all(op)) status = KD_NOT_FOUND;
  if (status == KD_OK) status = fam_make(&r->plan, op, k->row);
  if (status == KD_OK) r->by_data = launch && k->row->host_inputs;
  if (status == KD_OK) status = compile_all(k, r);
  if (op) host->release(op);
  if (status != KD_OK) {
    free_ready(k, r);
    return status;
  }
  *out = r;
  return KD_OK;
}

static void destroy(kd_kernel *k) {
  free_ready(k, k->now);
  pthread_mutex_destroy(&k->lock);
  k->driver->host->release(k);
}

static kd_status create(kd_device *d, const kd_kernel_def *def,
                        const kd_node *node, kd_kernel **out_kernel) {
  const fam_driver *driver = fam_driver_of(d);
  kd_kernel *k = make(driver->host, sizeof *k);
  if (!k) return driver->host->fail(KD_OUT_OF_MEMORY, "no memory for a kernel");
  k->device = d;
  k->driver = driver;
  k->node = node;
  k->row = def->data;
  pthread_mutex_init(&k->lock, NULL);
  kd_status status = prepare(k, NULL, &k->now);
  if (status != KD_OK && status != KD_NOT_FOUND) {
    destroy(k);
    return status;
  }
  *out_kernel = k;
  return KD_OK;
}

/* ---- what a device can do ------------------------------------------------------------- */

static bool has_type(const fam_driver *driver, kd_dtype dtype) {
  if (dtype == KD_F64) return driver->dialect.float64;
  if (dtype == KD_I64 || dtype == KD_U64 || dtype == KD_C64)
    return driver->dialect.int64;
  return dtype < KD_DTYPE_COUNT;
}

static kd_status check_types(const fam_driver *driver, const fam_op *op) {
  for (uint32_t i = 0; i < op->in_count + op->out_count; i++) {
    kd_dtype dtype =
        i < op->in_count ? op->in[i].dtype : op->out[i - op->in_count].dtype;
    if (!has_type(driver, dtype))
      return driver->host->fail(KD_UNIMPLEMENTED, "%s has no %s", driver->name,
                                kd_dtype_name(dtype));
  }
  return KD_OK;
}

/* Plans it, and forgets the plan. Where host inputs are not known, a plan says what
 * hangs on types and attributes alone; where not every kernel can be compiled, that is
 * not enough. */
static kd_status supports_row(kd_device *d, const kd_node *node,
                              const fam_row *row) {
  const fam_driver *driver = fam_driver_of(d);
  const kd_host *host = driver->host;
  fam_op *op = make(host, sizeof *op);
  fam_plan *plan = make(host, sizeof *plan);
  kd_status status =
      op && plan ? KD_OK : host->fail(KD_OUT_OF_MEMORY, "no memory for a plan");
  if (status == KD_OK) {
    begin_plan(driver, plan);
    status = fam_read(op, host, node, row, NULL);
  }
  if (status == KD_OK) status = check_types(driver, op);
  if (status == KD_OK) {
    bool known = fam_knows_all(op);
    status = fam_make(plan, op, row);
    for (uint32_t i = 0; status == KD_OK && driver->can && i < plan->count; i++)
      if (plan->passes[i].groups) status = driver->can(d, &plan->passes[i]);
    fam_free(plan);
    if (known && status == KD_INVALID_ARGUMENT) status = KD_UNIMPLEMENTED;
    if (!known && status != KD_UNIMPLEMENTED)
      status = driver->can ? host->fail(KD_UNIMPLEMENTED,
                                        "its kernels hang on inputs that are"
                                        " not known yet")
                           : KD_OK;
  }
  if (op) host->release(op);
  if (plan) host->release(plan);
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
    if (!(k->row->host_inputs >> i & 1) || in->dtype == KD_NONE || !in->size)
      continue;
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
  kd_status status = prepare(k, launch, &fresh);
  if (status != KD_OK) return status;
  fresh->host_size = size == UINT64_MAX ? UINT64_MAX - 1 : size;
  if (size != UINT64_MAX) memcpy(fresh->host_data, data, (size_t)size);
  free_ready(k, k->now);
  k->now = fresh;
  return KD_OK;
}

static kd_status run_pass(kd_kernel *k, kd_stream *stream, const fam_pass *pass,
                          void *program, const kd_launch *launch) {
  fam_command command; /* not zeroed: a launch reads no other field */
  command.kind = FAM_LAUNCH;
  command.program = program;
  command.size = 0;
  command.buffer_count = pass->buffer_count;
  for (uint32_t i = 0; i < pass->buffer_count; i++) {
    const fam_buffer *buffer = &pass->buffers[i];
    const kd_tensor *tensor = buffer->place == FAM_INPUT
                                  ? &launch->inputs[buffer->index]
                                  : &launch->outputs[buffer->index];
    command.buffers[i] = tensor->buffer;
    command.offsets[i] = tensor->offset;
  }
  if (k->driver->script)
    fam_script_add(k->driver->script, k->driver, &command, pass);
  return k->driver->run(k->device, stream, &command, launch->correlation);
}

static kd_status enqueue(kd_kernel *k, kd_stream *stream,
                         const kd_launch *launch) {
  pthread_mutex_lock(&k->lock);
  kd_status status = plan_for(k, launch);
  for (uint32_t i = 0; status == KD_OK && i < k->now->plan.count; i++)
    if (k->now->programs[i])
      status = run_pass(k, stream, &k->now->plan.passes[i], k->now->programs[i],
                        launch);
  pthread_mutex_unlock(&k->lock);
  return status;
}

void fam_run_begin(kd_device *device, uint64_t correlation) {
  (void)correlation;
  fam_script_run(fam_driver_of(device)->script);
}

const kd_kernel_def fam_kernels[FAM_ROW_COUNT] = {
#define FAM_OP(space, name, set, out, host, forward, kind, function) \
  {.struct_size = sizeof(kd_kernel_def),                             \
   .domain = space,                                                  \
   .op = #name,                                                      \
   .input_types = {set},                                             \
   .output_types = {out},                                            \
   .host_inputs = host,                                              \
   .inplace = forward,                                               \
   .data = &fam_rows[FAM_ROW_##name],                                \
   .supports = supports,                                             \
   .create = create,                                                 \
   .enqueue = enqueue,                                               \
   .destroy = destroy},
#include "families/ops.def"
};
