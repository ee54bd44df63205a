/* attention.h - what ops of attention share: keel::Attention, and one with a cache. */
#ifndef KEEL_FAMILIES_ATTENTION_H
#define KEEL_FAMILIES_ATTENTION_H

#include "families/family.h"

/* Q [..., heads, m, d], K [..., heads / share, keys, d], V [..., keys, e]. */
typedef struct attention {
  kd_dtype compute;
  int64_t heads, share, all, m, d, e; /* all: heads of all leading places */
  double scale;
  bool causal, heads_last, nan_as_zero;
  bool whole; /* a group must make all columns of a row */
} attention;

/* A pass of kernels/attention.k or of its kin, with what depends on sizes and on the device. */
fam_pass *fam_attention(const fam_op *op, fam_plan *plan, const attention *a);

/* What is added to scores: an input, or none, broadcast to [dims of `rank` - 2, rows, keys]; 0
 * steps where it is the same for all. */
void fam_attention_mask(const fam_op *op, fam_plan *plan, fam_pass *pass,
                        uint32_t input, uint32_t rank, const int64_t *dims);

#endif /* KEEL_FAMILIES_ATTENTION_H */
