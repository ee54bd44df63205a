/* region.c - chains of elementwise ops as one pass: the regions of plugins whose ops are
 * the families'. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "families/chains.h"
#include "families/instance.h"
#include "families/map.h"
#include "families/ready.h"

struct kd_region {
  kd_device *device;
  const fam_driver *driver;
  pthread_mutex_t lock; /* one launch at a time */
  fam_ready ready;
};

/* ---- which nodes ----------------------------------------------------------------- */

/* An op, its term, and the plan that says why there is none. */
typedef struct reading {
  const fam_driver *driver;
  fam_op op;
  fam_term term;
  fam_plan plan;
} reading;

static const fam_row *row_of(const fam_driver *driver, const kd_node *node) {
  const char *name = driver->host->node->op(node);
  const char *domain = driver->host->node->domain(node);
  for (uint32_t i = 0; i < fam_row_count; i++)
    if (!strcmp(fam_rows[i].op, name) &&
        !strcmp(fam_rows[i].domain ? fam_rows[i].domain : "ai.onnx", domain))
      return &fam_rows[i];
  return NULL;
}

/* Returns KD_OK, KD_UNIMPLEMENTED (it has no term that the device can compute). */
static kd_status read_term(reading *r, const kd_node *node) {
  const kd_host *host = r->driver->host;
  const fam_row *row = row_of(r->driver, node);
  if (!row)
    return host->fail(KD_UNIMPLEMENTED, "%s is not elementwise",
                      host->node->op(node));
  memset(&r->plan, 0, sizeof r->plan);
  fam_plan_begin(&r->plan, r->driver);
  kd_status status = fam_read(&r->op, host, node, row, NULL);
  if (status == KD_OK) status = fam_has_types(r->driver, &r->op);
  if (status != KD_OK) return status;
  if (fam_term_of(&r->op, &r->plan, &r->term) && r->term.operands &&
      fam_has_type(r->driver, r->term.compute))
    return KD_OK;
  return r->plan.status != KD_OK
             ? r->plan.status
             : host->fail(KD_UNIMPLEMENTED, "%s is not elementwise",
                          host->node->op(node));
}

static bool fits(void *context, const kd_node *node, kd_dtype *out_type) {
  reading *r = context;
  if (read_term(r, node) != KD_OK) return false;
  *out_type = fam_compute(r->term.compute);
  return true;
}

static reading *reading_new(const fam_driver *driver) {
  reading *r = driver->host->allocate(sizeof *r, 0);
  if (!r) return NULL;
  memset(r, 0, sizeof *r);
  r->driver = driver;
  return r;
}

static kd_status claim(kd_device *device, const kd_graph *graph, kd_claim take,
                       void *context) {
  const fam_driver *driver = fam_driver_of(device);
  if (driver->can) return KD_OK; /* nothing new can be compiled */
  reading *r = reading_new(driver);
  if (!r) return driver->host->fail(KD_OUT_OF_MEMORY, "no memory for a claim");
  kd_status status = chains_claim(driver->host, graph, fits, r, take, context);
  driver->host->release(r);
  return status;
}

/* ---- the pass --------------------------------------------------------------------- */

static const char *const loaded[] = {"x",  "y",  "z",  "w",
                                     "x4", "x5", "x6", "x7"};

/* A chain that is being written down. */
typedef struct chain {
  reading *r;
  const kd_graph *graph;
  fam_map map;
  fam_tensor inputs[CHAIN_INPUTS]; /* of the graph; dtype KD_NONE: not met */
  char steps[2048];
  size_t size;
  kd_dtype compute;
} chain;

static void put(chain *c, const char *text) {
  size_t size = strlen(text);
  if (c->size + size < sizeof c->steps)
    memcpy(c->steps + c->size, text, size + 1);
  c->size += size; /* too much shows */
}

/* Looks at a node: which inputs of the graph it reads, as what. */
static kd_status meet(chain *c, uint32_t node) {
  const kd_host *host = c->r->driver->host;
  kd_status status = read_term(c->r, host->graph->node(c->graph, node));
  for (uint32_t i = 0; status == KD_OK && i < c->r->term.operands; i++) {
    chain_operand from;
    uint32_t input = c->r->term.inputs[i];
    status = chain_find(host, c->graph, node, input, &from);
    if (status == KD_OK && !from.node)
      c->inputs[from.index] = c->r->op.in[input];
  }
  if (status != KD_OK) return status;
  if (!node) c->compute = fam_compute(c->r->term.compute);
  return c->compute == fam_compute(c->r->term.compute)
             ? KD_OK
             : host->fail(KD_UNIMPLEMENTED, "a chain of two types");
}

/* Its expression as a macro of what it reads, and a step that calls it. */
static kd_status write_step(chain *c, fam_pass *pass, uint32_t node) {
  const kd_host *host = c->r->driver->host;
  const fam_term *term = &c->r->term;
  char name[96], text[256], args[80] = "", given[160] = "";
  kd_status status = read_term(c->r, host->graph->node(c->graph, node));
  for (uint32_t i = 0; status == KD_OK && i < term->operands; i++) {
    chain_operand from;
    status = chain_find(host, c->graph, node, term->inputs[i], &from);
    if (status != KD_OK) break;
    size_t a = strlen(args), g = strlen(given);
    snprintf(args + a, sizeof args - a, "%s%s", i ? ", " : "", loaded[i]);
    if (from.node)
      snprintf(given + g, sizeof given - g, "%sv%u", i ? ", " : "", from.index);
    else
      snprintf(given + g, sizeof given - g, "%s%s", i ? ", " : "",
               loaded[from.index]);
  }
  if (status != KD_OK) return status;
  for (int i = 0; i < 2; i++) {
    const char *letter = i ? "b" : "a";
    if (i ? !term->has_b : !term->has_a) continue;
    snprintf(name, sizeof name, "%c%u", i ? 'B' : 'A', node);
    fam_real(pass, name, i ? term->b : term->a);
    size_t a = strlen(args), g = strlen(given);
    snprintf(args + a, sizeof args - a, ", %s", letter);
    snprintf(given + g, sizeof given - g, ", CAST(V, %s)", name);
  }
  snprintf(name, sizeof name, "E%u(%s)", node, args);
  fam_define(pass, name, "(%s)", term->text);
  kd_dtype out = c->r->op.out[0].dtype;
  snprintf(text, sizeof text, "%s v%u = CAST(%s, ",
           kd_dtype_name(fam_compute(out)), node,
           kd_dtype_name(fam_compute(out)));
  put(c, text);
  snprintf(text, sizeof text, "E%u(%s)); ", node, given);
  put(c, text);
  return KD_OK;
}

static kd_status plan_chain(chain *c, fam_plan *plan) {
  const kd_host *host = c->r->driver->host;
  uint32_t nodes = host->graph->node_count(c->graph);
  uint32_t inputs = host->graph->input_count(c->graph);
  char name[16];
  for (uint32_t i = 0; i < nodes; i++) {
    kd_status status = meet(c, i);
    if (status != KD_OK) return status;
  }
  fam_map_begin(&c->map, &c->r->op); /* the last node's */
  const fam_tensor out = c->r->op.out[0];
  for (uint32_t i = 0; i < inputs; i++) {
    if (!c->inputs[i].dtype)
      return host->fail(KD_UNIMPLEMENTED, "input %u is not read", i);
    fam_map_broadcast(&c->map, &c->inputs[i]);
  }
  snprintf(name, sizeof name, "v%u", nodes - 1);
  fam_pass *pass = fam_map_pass(plan, &c->map, c->compute, name);
  fam_define_language(pass, c->compute);
  for (uint32_t i = 0; i < nodes; i++) {
    kd_status status = write_step(c, pass, i);
    if (status != KD_OK) return status;
  }
  fam_define(pass, "STEPS", "%s", c->steps);
  for (uint32_t i = 0; i < inputs; i++) {
    snprintf(name, sizeof name, "X%u", i);
    fam_bind(pass, name, FAM_INPUT, i, c->inputs[i].dtype);
  }
  fam_bind(pass, "Z", FAM_OUTPUT, 0, out.dtype);
  if (c->size >= sizeof c->steps || pass->head_size >= FAM_HEAD - 1 ||
      pass->param_count >= FAM_PARAMS)
    return host->fail(KD_UNIMPLEMENTED, "too long a chain, of %u ops", nodes);
  return plan->status;
}

/* ---- regions ------------------------------------------------------------------------ */

static void destroy(kd_region *region) {
  fam_ready_free(region->driver, region->device, &region->ready);
  pthread_mutex_destroy(&region->lock);
  region->driver->host->release(region);
}

static kd_status make(kd_region *region, const kd_graph *graph) {
  const fam_driver *driver = region->driver;
  const kd_host *host = driver->host;
  kd_status status = chain_check(host, graph);
  if (status != KD_OK) return status;
  chain *c = host->allocate(sizeof *c, 0);
  reading *r = reading_new(driver);
  status = c && r ? KD_OK : host->fail(KD_OUT_OF_MEMORY, "no memory");
  if (status == KD_OK) {
    memset(c, 0, sizeof *c);
    c->r = r;
    c->graph = graph;
    fam_plan_begin(&region->ready.plan, driver);
    status = plan_chain(c, &region->ready.plan);
  }
  if (c) host->release(c);
  if (r) host->release(r);
  return status == KD_OK
             ? fam_ready_compile(driver, region->device, &region->ready)
             : status;
}

static kd_status compile(kd_device *device, const kd_graph *graph,
                         kd_region **out_region) {
  const fam_driver *driver = fam_driver_of(device);
  if (driver->can)
    return driver->host->fail(KD_UNIMPLEMENTED, "there is no compiler");
  kd_region *region = driver->host->allocate(sizeof *region, 0);
  if (!region)
    return driver->host->fail(KD_OUT_OF_MEMORY, "no memory for a region");
  memset(region, 0, sizeof *region);
  region->device = device;
  region->driver = driver;
  pthread_mutex_init(&region->lock, NULL);
  kd_status status = make(region, graph);
  if (status == KD_OK)
    *out_region = region;
  else
    destroy(region);
  return status;
}

static kd_status enqueue(kd_region *region, kd_stream *stream,
                         const kd_launch *launch) {
  pthread_mutex_lock(&region->lock);
  kd_status status = fam_ready_run(region->driver, region->device, stream,
                                   &region->ready, launch);
  pthread_mutex_unlock(&region->lock);
  return status;
}

const kd_region_table fam_regions = {
    .struct_size = sizeof(kd_region_table),
    .claim = claim,
    .compile = compile,
    .enqueue = enqueue,
    .destroy = destroy,
};
