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
/* Each rank computes some of the nodes, one behind the other, with their weights: a stage of a
 * pipe. The batch goes through it in parts, so that all stages compute at once (Y. Huang et al.,
 * GPipe, 2019). */
#define KEEL_SPLIT_PIPE 2u
/* As the annotations of an ONNX file say (IR 11), of its configuration of so many devices: weights
 * and inputs are shared along the axes that they name, or nodes are in the stages that they name.
 * What can't be followed is computed by each rank. */
#define KEEL_SPLIT_ANNOTATED 3u

/* How fast a rank is, as keel_split_measure finds it. */
typedef struct keel_split_speed {
  double flops, bytes; /* per nanosecond: arithmetic, and memory traffic */
  double launch;       /* nanoseconds that a node takes at least */
} keel_split_speed;

typedef struct keel_split_params {
  uint64_t struct_size; /* sizeof(keel_split_params) */
  uint32_t kind;        /* KEEL_SPLIT_* */
  uint32_t rank, size;
  /* The size of an open dimension of an input: what is split must be known. NULL, or -1: it stays
   * open. symbol: its name, or NULL */
  int64_t (*size_of)(void *size_context, const char *input, uint32_t axis,
                     const char *symbol);
  void *size_context;
  /* Of a pipe: into how many parts the batch goes, which must divide it; 0: up to four for each
   * rank, as far as they divide it. One where nodes need the whole batch, or none is known. */
  uint32_t parts;
  /* Of a pipe: of each rank, so that all take equal times; equal for all ranks' calls. NULL: of
   * usual processors. */
  const keel_split_speed *speeds;
} keel_split_params;

typedef struct keel_split_facts {
  uint32_t exchanges; /* ops that the split has added */
  uint32_t parts;     /* of a pipe, of the batch */
  uint64_t weights,
      weights_here; /* bytes of constants: before, and of this rank */
  double
      share; /* of a pipe: this rank's of the time of all nodes, as estimated */
  uint32_t annotations, followed; /* of a model: all, and those that count */
} keel_split_facts;

/* Measures a device, in some milliseconds, when it is first asked for.
 * Returns KD_OK, or why it can't be. */
KEEL_API keel_status keel_split_measure(keel_device *device,
                                        keel_split_speed *out_speed);

/* Makes the program of one rank. What a rule is known for is split; all else is computed by each
 * rank, from whole values. A pipe is cut where few bytes go from one stage to the next, and their
 * shapes are known.
 *
 * out_facts  may be NULL
 * Returns KD_OK, KD_INVALID_ARGUMENT (rank, size, kind; a batch that the ranks or parts can't
 * share; fewer places to cut than stages; no annotations for so many ranks, or wrong ones), KD_FAILED_PRECONDITION (a program for one device's
 * compiler, or one that has exchanges; for a pipe, one that keeps a state), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_split(const keel_program *program,
                                        const keel_split_params *params,
                                        KD_OWNED keel_program **out_program,
                                        keel_split_facts *out_facts);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_SPLIT_H */
