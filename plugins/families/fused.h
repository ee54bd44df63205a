/* fused.h - a chain of elementwise ops as one pass: a pass of its own, or the epilogue of a
 * product or convolution. */
#ifndef KEEL_FAMILIES_FUSED_H
#define KEEL_FAMILIES_FUSED_H

#include "families/chains.h"
#include "families/epilogue.h"
#include "families/instance.h"
#include "families/map.h"

/* The op that was read last, its term, and the plan that says why it has none. */
typedef struct fam_reading {
  const fam_driver *driver;
  kd_device *device;
  fam_op op;
  fam_term term;
  fam_plan plan;
} fam_reading;

/* NULL where memory runs out; else host->release frees it. */
fam_reading *fam_reading_new(const fam_driver *driver, kd_device *device);

/* Returns KD_OK, KD_UNIMPLEMENTED (it has no term that the device can compute). */
kd_status fam_read_term(fam_reading *r, const kd_node *node);
/* Reads an op that can have an epilogue; false if it cannot, or not here. */
bool fam_read_root(fam_reading *r, const kd_node *node);
/* The library's epilogue for the last root, if it covers the whole chain; `gemm` is the
 * root's. */
bool fam_read_epilogue(const fam_reading *r, const kd_graph *graph,
                       uint32_t root, const uint32_t *nodes, uint32_t count,
                       const fam_gemm *gemm, fam_epilogue *out_epilogue);

/* Plans a claimed graph, into a zeroed plan. Returns KD_OK, KD_UNIMPLEMENTED,
 * KD_OUT_OF_MEMORY. */
kd_status fam_plan_fused(const fam_driver *driver, kd_device *device,
                         const kd_graph *graph, fam_plan *plan);

#endif /* KEEL_FAMILIES_FUSED_H */
