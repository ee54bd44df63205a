/* keel/split.h - one program becomes one for each of several ranks, with exchanges between them.
 *
 * The ranks' programs take and give the same values as the program that they were, and one input
 * more, "keel.member": the rank's handle (keel/link.h, keel/group.h). SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef KEEL_SPLIT_H
#define KEEL_SPLIT_H

#include <keel/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each rank computes a part of the batch, the first dimension of the inputs, with all weights. */
#define KEEL_SPLIT_DATA 0u
/* Each rank has a part of the weights, and computes a part of the features: products by columns,
 * then by rows (M. Shoeybi et al., Megatron-LM, 2019), attention by heads, convolutions by
 * channels. */
#define KEEL_SPLIT_TENSOR 1u

typedef struct keel_split_params {
  uint64_t struct_size; /* sizeof(keel_split_params) */
  uint32_t kind;        /* KEEL_SPLIT_* */
  uint32_t rank, size;
  /* The size of an open dimension of an input: what is split must be known. NULL, or -1: it stays
   * open. symbol: its name, or NULL */
  int64_t (*size_of)(void *size_context, const char *input, uint32_t axis,
                     const char *symbol);
  void *size_context;
} keel_split_params;

typedef struct keel_split_facts {
  uint32_t exchanges; /* ops that the split has added */
  uint64_t weights,
      weights_here; /* bytes of constants: before, and of this rank */
} keel_split_facts;

/* Makes the program of one rank. What a rule is known for is split; all else is computed by each
 * rank, from whole values.
 *
 * out_facts  may be NULL
 * Returns KD_OK, KD_INVALID_ARGUMENT (rank, size, kind; a batch that the ranks can't share),
 * KD_FAILED_PRECONDITION (a program for one device's compiler, or one that has exchanges),
 * KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_split(const keel_program *program,
                                        const keel_split_params *params,
                                        KD_OWNED keel_program **out_program,
                                        keel_split_facts *out_facts);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_SPLIT_H */
