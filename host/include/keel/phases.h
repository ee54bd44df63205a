/* keel/phases.h - how much a program computes, and what it exchanges with other ranks in between:
 * what a simulator needs to know of it (`keel compile --smpi-trace`).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_PHASES_H
#define KEEL_PHASES_H

#include <keel/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What is computed up to an exchange, and the exchange; the last phase ends with the program. */
typedef struct keel_phase {
  /* Additions and multiplications, by the cost model that places nodes by cost: of products,
   * convolutions and attention by their shapes, else one an element of the output. */
  double flops;
  uint32_t
      unknown; /* ops whose sizes are not known, and which count as nothing */
  const char *exchange; /* its op: "AllReduce"; NULL: the program's end */
  const char *name;     /* of its node; borrowed until the call returns */
  kd_dtype dtype;
  uint64_t count; /* elements that a rank gives; of Receive: gets */
  uint32_t size;  /* ranks that it is for; 0: any number */
  uint32_t
      peer; /* Broadcast: whose value it is; Send, Receive: the other rank */
  /* Of Permute: from, to, from, to ...; borrowed until the call returns. */
  const int64_t *pairs;
  uint32_t pair_count;
} keel_phase;

/* Calls `found` for each phase, in the order of the program, before it returns. What keel_program_compile gives has
 * the ops that a plan runs: in a model as it was loaded, none is fused or folded yet.
 *
 * bytes_as  an op counts as so many flops for each byte that it reads or writes, where that is
 *           more than it computes; 0: what is computed counts alone
 * Returns KD_OK, KD_FAILED_PRECONDITION (the size of what is exchanged is not known),
 * KD_UNIMPLEMENTED (an exchange in a body, whose rounds are not known, or in parts of the ranks). */
KEEL_API keel_status keel_program_phases(
    const keel_program *program, double bytes_as,
    void (*found)(void *context, const keel_phase *phase), void *context);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_PHASES_H */
