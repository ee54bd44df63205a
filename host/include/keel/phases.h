/* keel/phases.h - the computations of a program and its exchanges with other ranks, as a simulator
 * needs them (`keel compile --smpi-trace`).
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_PHASES_H
#define KEEL_PHASES_H

#include <keel/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The computations before an exchange, and the exchange; the last phase ends with the program. */
typedef struct keel_phase {
  /* Additions and multiplications, by the cost model that places nodes: of products, convolutions
   * and attention by their shapes, of other ops one for each element of the output. */
  double flops;
  uint32_t
      unknown; /* ops whose sizes are not known; they do not count in flops */
  const char *exchange; /* its op: "AllReduce"; NULL: the program's end */
  const char *name;     /* of its node; borrowed until the call returns */
  kd_dtype dtype;
  uint64_t count; /* elements contributed per rank; of Receive: received */
  uint32_t size;  /* participating ranks; 0: any number */
  uint32_t
      peer; /* Broadcast: the rank that sends; Send, Receive: the other rank */
  /* Of Permute: from, to, from, to ...; borrowed until the call returns. */
  const int64_t *pairs;
  uint32_t pair_count;
} keel_phase;

/* Calls `found` for each phase, in program order, before it returns. Pass a program of
 * keel_program_compile to count the ops that a plan runs: in a model as it was loaded, none is fused
 * or folded yet.
 *
 * bytes_as  flops for each byte that an op reads or writes; an op counts by its bytes if that is
 *           more than its computations. 0: bytes do not count
 * Returns KD_OK, KD_FAILED_PRECONDITION (the size of an exchange is not known), KD_UNIMPLEMENTED (an
 * exchange in a body, whose rounds are not known, or among some of the ranks). */
KEEL_API keel_status keel_program_phases(
    const keel_program *program, double bytes_as,
    void (*found)(void *context, const keel_phase *phase), void *context);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_PHASES_H */
