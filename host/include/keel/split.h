/* keel/split.h - splits a program into one for each of several ranks, with exchanges between them.
 *
 * The ranks' programs have the inputs and outputs of the original program, plus one input,
 * "keel.member": the rank's handle (keel/link.h, keel/group.h).
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_SPLIT_H
#define KEEL_SPLIT_H

#include <keel/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each rank has all weights and computes a shard of the batch, the first dimension of the inputs. */
#define KEEL_SPLIT_DATA 0u
/* Each rank has a shard of the weights and computes a shard of the features: products by columns,
 * then by rows (M. Shoeybi et al., Megatron-LM, 2019), attention by heads, convolutions by
 * channels. */
#define KEEL_SPLIT_TENSOR 1u
/* Each rank is a stage of a pipe: it has some of the nodes and their weights. The batch is cut into
 * micro-batches, so that all stages compute at once (Y. Huang et al., GPipe, 2019). */
#define KEEL_SPLIT_PIPE 2u
/* Follows the annotations of an ONNX file (IR 11 or later), of its first configuration that has
 * `size` devices: weights and inputs are sharded along the axes that they name, or nodes are in the
 * stages that they name. Nodes whose annotations can't be followed are computed in full on every
 * rank. */
#define KEEL_SPLIT_ANNOTATED 3u

/* How fast a rank is, as keel_split_measure finds it. */
typedef struct keel_split_speed {
  double flops, bytes; /* per nanosecond: arithmetic, and memory traffic */
  double launch;       /* the least time of a node, nanoseconds */
} keel_split_speed;

typedef struct keel_split_params {
  uint64_t struct_size; /* sizeof(keel_split_params) */
  uint32_t kind;        /* KEEL_SPLIT_* */
  uint32_t rank, size;
  /* Returns the size of an open dimension of an input; a dimension that is sharded must have one. If
   * this is NULL or returns -1, the dimension stays open. symbol: its name, or NULL */
  int64_t (*size_of)(void *size_context, const char *input, uint32_t axis,
                     const char *symbol);
  void *size_context;
  /* Of a pipe: the number of micro-batches, which must divide the batch; 0: at most four for each
   * rank. The batch stays whole if nodes need all of it, or if its size is not known. */
  uint32_t parts;
  /* Of a pipe: the speed of each rank, so that stages take equal times; the same in all ranks'
   * calls. NULL: speeds of usual processors. */
  const keel_split_speed *speeds;
} keel_split_params;

typedef struct keel_split_facts {
  uint32_t exchanges; /* that the split added */
  uint32_t parts;     /* of a pipe: micro-batches */
  uint64_t weights,
      weights_here; /* bytes of constants: before, and of this rank */
  double share; /* of a pipe: this rank's share of all nodes' estimated time */
  uint32_t annotations, followed; /* of the model: all, and those followed */
} keel_split_facts;

/* Whether the first dimension of all inputs is a batch whose rows the program treats apart: row i of
 * each output depends on row i of the inputs, and on nothing else of them. Then requests may be
 * joined to one run, and its outputs cut, and a batch may be filled up with any rows. Proven by the
 * rules of ops, for any size of the first dimension; an op without a rule is against it. Takes the
 * time of a plan without kernels; the program stays as it is. Any thread.
 * Returns KD_OK (they are apart), KD_FAILED_PRECONDITION (not proven; the message says which input,
 * output or op is against it), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_batch(const keel_program *program);

/* Measures a device; takes some milliseconds on the first call for it.
 * Returns KD_OK, or the failure of the device. */
KEEL_API keel_status keel_split_measure(keel_device *device,
                                        keel_split_speed *out_speed);

/* Makes the program of one rank. Ops without a rule are computed in full on every rank, from whole
 * values. A pipe is cut where few bytes pass from stage to stage, among values whose shapes are known.
 *
 * out_facts  may be NULL
 * Returns KD_OK, KD_INVALID_ARGUMENT (rank, size, kind; a batch that is not divisible by the
 * number of ranks or micro-batches; too few places to cut; no annotations for as many ranks, or wrong ones),
 * KD_FAILED_PRECONDITION (the program was compiled for one device, or has exchanges; for a pipe, it
 * has state), KD_OUT_OF_MEMORY. */
KEEL_API keel_status keel_program_split(const keel_program *program,
                                        const keel_split_params *params,
                                        KD_OWNED keel_program **out_program,
                                        keel_split_facts *out_facts);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_SPLIT_H */
