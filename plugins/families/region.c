/* region.c - chains of elementwise ops as one pass (fused.h): the regions of plugins
 * whose ops are the families'. */
#include <pthread.h>
#include <string.h>

#include "families/form.h"
#include "families/fused.h"
#include "families/ready.h"

struct kd_region {
  kd_device *device;
  const fam_driver *driver;
  pthread_mutex_t lock; /* one launch at a time */
  fam_ready ready;
};

/* ---- what is claimed --------------------------------------------------------------- */

static chain_role region_fits(void *context, const kd_node *node,
                              kd_dtype *out_type) {
  fam_reading *r = context;
  if (fam_read_root(r, node)) {
    *out_type = fam_compute(r->op.out[0].dtype);
    return CHAIN_ROOT;
  }
  if (fam_read_term(r, node) != KD_OK) return CHAIN_NOTHING;
  *out_type = fam_compute(r->term.compute);
  return CHAIN_STEP;
}

/* Where a library computes roots it has to know what stands behind them. */
static bool library_does(fam_reading *r, const kd_graph *graph, uint32_t root,
                         const uint32_t *nodes, uint32_t count) {
  fam_epilogue epilogue;
  fam_plan_begin(&r->plan, r->driver);
  bool good =
      fam_make(&r->plan, &r->op, r->op.row) == KD_OK && r->plan.count == 1;
  const fam_pass *pass = r->plan.passes;
  bool convolves = good && pass->what == FAM_CONV;
  if (good && pass->what != FAM_KERNEL &&
      r->driver->has_library(r->device, convolves))
    good = !convolves && fam_read_epilogue(r, graph, root, nodes, count,
                                           &pass->gemm, &epilogue);
  fam_free(&r->plan);
  memset(&r->plan, 0, sizeof r->plan);
  return good;
}

/* Whether the kernel of a root can go on with these nodes: each operand is found from the
 * number of an element. */
static bool rooted(void *context, const kd_graph *graph, uint32_t root,
                   const uint32_t *nodes, uint32_t count) {
  fam_reading *r = context;
  const kd_host *host = r->driver->host;
  const kd_graph_table *read = host->graph;
  kd_type made = {0}, type = {0};
  int64_t inner, size;
  if (read->value_type(graph, read->node_output(graph, root, 0), &made) !=
      KD_OK)
    return false;
  for (uint32_t i = 0; i < count; i++) {
    const kd_node *node = read->node(graph, nodes[i]);
    uint32_t out = read->node_output(graph, nodes[i], 0);
    if (read->value_type(graph, out, &type) != KD_OK ||
        (!i && type.dtype != made.dtype)) /* the first is the last op */
      return false;
    for (uint32_t k = 0; k < host->node->input_count(node); k++) {
      uint32_t from = read->node_input(graph, nodes[i], k);
      if (from == UINT32_MAX) continue;
      if (read->value_type(graph, from, &type) != KD_OK ||
          !fam_block_of(&made, &type, &inner, &size))
        return false;
    }
  }
  if (!r->driver->has_library) return true;
  return fam_read_root(r, read->node(graph, root)) &&
         library_does(r, graph, root, nodes, count);
}

static kd_status families_region_claim(kd_device *device, const kd_graph *graph,
                                       kd_claim take, void *context) {
  const fam_driver *driver = fam_driver_of(device);
  if (driver->can) return KD_OK; /* nothing new can be compiled */
  fam_reading *r = fam_reading_new(driver, device);
  if (!r) return driver->host->fail(KD_OUT_OF_MEMORY, "no memory for a claim");
  kd_status status =
      chains_claim(driver->host, graph, region_fits, rooted, r, take, context);
  driver->host->release(driver->host, r);
  return status;
}

/* ---- regions ------------------------------------------------------------------------ */

static void families_region_destroy(kd_region *region) {
  fam_ready_free(region->driver, region->device, &region->ready);
  pthread_mutex_destroy(&region->lock);
  region->driver->host->release(region->driver->host, region);
}

/* Its plan; `what` is known to be good. */
static kd_status region_begin(kd_device *device, const kd_compile *what,
                              kd_region **out_region) {
  const fam_driver *driver = fam_driver_of(device);
  if (what->flags)
    return driver->host->fail(KD_UNIMPLEMENTED, "compile flags 0x%x",
                              what->flags);
  kd_region *region = driver->host->allocate(driver->host, sizeof *region, 0);
  if (!region)
    return driver->host->fail(KD_OUT_OF_MEMORY, "no memory for a region");
  memset(region, 0, sizeof *region);
  region->device = device;
  region->driver = driver;
  pthread_mutex_init(&region->lock, NULL);
  kd_status status =
      fam_plan_fused(driver, device, what->graph, &region->ready.plan);
  if (status == KD_OK)
    *out_region = region;
  else
    families_region_destroy(region);
  return status;
}

static kd_status region_end(kd_region *region, kd_status status,
                            kd_region **out_region) {
  if (status == KD_OK)
    status = fam_ready_compile(region->driver, region->device, &region->ready);
  if (status == KD_OK)
    *out_region = region;
  else
    families_region_destroy(region);
  return status;
}

static kd_status families_region_compile(kd_device *device,
                                         const kd_compile *what,
                                         kd_region **out_region) {
  const fam_driver *driver = fam_driver_of(device);
  kd_region *region = NULL;
  if (driver->can)
    return driver->host->fail(KD_UNIMPLEMENTED, "there is no compiler");
  kd_status status = region_begin(device, what, &region);
  return status == KD_OK ? region_end(region, KD_OK, out_region) : status;
}

static kd_status serialize(kd_region *region, void **out_blob,
                           uint64_t *out_size) {
  return fam_form_write(region->driver, region->device, &region->ready.plan,
                        out_blob, out_size);
}

static kd_status families_region_validate(kd_device *device, const void *blob,
                                          uint64_t size) {
  return fam_form_check(fam_driver_of(device), device, blob, size);
}

static kd_status region_load(kd_device *device, const kd_compile *what,
                             const void *blob, uint64_t size,
                             kd_region **out_region) {
  kd_region *region = NULL;
  kd_status status = region_begin(device, what, &region);
  if (status == KD_UNIMPLEMENTED)
    return KD_INCOMPATIBLE; /* it is no graph that this device compiles */
  return status == KD_OK
             ? region_end(region,
                          fam_form_read(region->driver, device,
                                        &region->ready.plan, blob, size),
                          out_region)
             : status;
}

static kd_status families_region_enqueue(kd_region *region, kd_stream *stream,
                                         const kd_launch *launch) {
  pthread_mutex_lock(&region->lock);
  kd_status status = fam_ready_run(region->driver, region->device, stream,
                                   &region->ready, launch);
  pthread_mutex_unlock(&region->lock);
  return status;
}

const kd_region_table fam_regions = {
    .struct_size = sizeof(kd_region_table),
    .claim = families_region_claim,
    .compile = families_region_compile,
    .enqueue = families_region_enqueue,
    .destroy = families_region_destroy,
    .serialize = serialize,
    .validate = families_region_validate,
    .load = region_load,
};
