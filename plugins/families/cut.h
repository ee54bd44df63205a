/* cut.h - how a product or a convolution is cut into what items make: by the cost model, or as
 * a plan wants it (tune.h). */
#ifndef KEEL_FAMILIES_CUT_H
#define KEEL_FAMILIES_CUT_H

#include "families/family.h"

/* `batches` products of m x k by k x n, whose sums are of a type. */
typedef struct fam_work {
  kd_dtype sums;
  int64_t batches, m, n, k;
  bool slides;         /* a convolution that kernels/slide_lanes.k can do */
  const window *lines; /* one that kernels/depth_lanes.k can; or NULL */
  /* for kernels/gemm_lanes.k, where it can: PAIRS, A_PAIRS, K_PAIRS, FLAT */
  bool pairs, a_pairs, k_pairs, flat;
} fam_work;

/* Its pass: the kernel, how often it runs, and the definitions that depend on the cut. */
fam_pass *fam_cut_begin(fam_plan *plan, const fam_work *work);

/* A cut as text ("gemm_lanes 32x4"), which is the same for equal cuts. */
void fam_cut_text(const fam_cut *cut, char *text, size_t size);

#endif /* KEEL_FAMILIES_CUT_H */
