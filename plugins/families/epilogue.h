/* epilogue.h - epilogues: chains of elementwise ops after a product or a convolution that
 * its kernel, or a library, can compute. */
#ifndef KEEL_FAMILIES_EPILOGUE_H
#define KEEL_FAMILIES_EPILOGUE_H

#include "families/family.h"

#define FAM_NO_VALUE UINT32_MAX

/* Whether an op's plan is one pass of floats that can have an epilogue (GIVE, in
 * kernels/gemm.k). */
bool fam_is_root(const fam_op *op);

/* The element of a broadcast operand that belongs to element e of `out`: (e / inner) %
 * count. false: it can't be said so. */
bool fam_block_of(const kd_type *out, const kd_type *operand,
                  int64_t *out_inner, int64_t *out_count);

/* What libraries do behind a product as the ops do it: one row that is added to all, a
 * tensor of the result's shape that is added, and GELU in the end. */
typedef struct fam_epilogue {
  uint32_t row, added; /* values of the graph; FAM_NO_VALUE: none */
  fam_activation activation;
} fam_epilogue;

/* `nodes`, which are what stands behind node `root`, as such; false: they are more. */
bool fam_epilogue_of(const kd_host *host, const kd_graph *graph, uint32_t root,
                     const uint32_t *nodes, uint32_t count,
                     fam_epilogue *out_epilogue);

#endif /* KEEL_FAMILIES_EPILOGUE_H */
