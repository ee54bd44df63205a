/* kd/collective.h - work that several devices of one plugin do together.
 *
 * An option. Semantics are MPI's of the same name (MPI 4.0, chapter 6), on
 * device buffers and in stream order. What one device sends to another is
 * kd_peer_table.copy. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_COLLECTIVE_H
#define KD_COLLECTIVE_H

#include <kd/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kd_group kd_group; /* the plugin's: devices that take part */

/* Kinds of kd_collective. Inputs and outputs of a kind have one dtype. */
/* Each member's output is the reduction of all inputs; all have one size. The
 * same bits for every member. */
#define KD_ALL_REDUCE 0u
/* Each member's output has all inputs, one behind the other by rank. */
#define KD_ALL_GATHER 1u
/* Each member's output is the reduction of its part of all inputs: each input has
 * one part a member, of equal size, one behind the other by rank. */
#define KD_REDUCE_SCATTER 2u
/* Each member's output is the root's input; other inputs are KD_NONE. */
#define KD_BROADCAST 3u

#define KD_REDUCE_SUM     0u
#define KD_REDUCE_PRODUCT 1u
#define KD_REDUCE_MIN     2u
#define KD_REDUCE_MAX     3u

/* What all members of a group are to do. The arrays have an element for each
 * member, by rank. Tensors are packed, row-major, and lie in the member's first
 * memory space; a member's output is its input's memory, or shares none with it.
 * Borrowed for the call. */
typedef struct kd_collective {
  uint32_t struct_size;      /* sizeof(kd_collective) as the host knew it */
  uint32_t flags;            /* none yet */
  uint32_t kind;             /* KD_ALL_REDUCE ... */
  uint32_t reduction;        /* KD_REDUCE_*, of kinds that reduce */
  uint32_t root;             /* a rank, of kinds that have one */
  uint32_t reserved;         /* zero */
  kd_stream *const *streams; /* of the members' devices; NULL where the plugin
                                has no streams */
  const kd_tensor *inputs;
  const kd_tensor *outputs;
} kd_collective;

/* What devices do in groups. All of create, destroy and enqueue are needed. Any
 * thread, one at a time for one group. */
typedef struct kd_collective_table {
  uint32_t struct_size; /* sizeof(kd_collective_table) as the plugin knew it */
  uint32_t reserved;

  /* Makes a group of open devices, each once, in rank order. May take long.
   * Returns KD_OK, KD_UNIMPLEMENTED (they can't reach each other, or what it takes
   * is not installed), KD_OUT_OF_MEMORY. */
  kd_status (*create)(kd_device *const *devices, uint32_t count,
                      KD_OWNED kd_group **out_group);

  /* Frees a group whose work is done, or whose device is lost. */
  void (*destroy)(kd_group *group);

  /* Enqueues the work of all members, each on its stream: behind what the stream
   * holds, and the stream goes on when the member's output is there and nobody reads
   * its input any more. Never blocks where there are streams. If work before it on
   * one member's stream failed, or a device is lost, it fails on all streams.
   *
   * Returns KD_OK, or why nothing was enqueued: KD_UNIMPLEMENTED (a kind, reduction
   * or dtype that it does not have; the host does it by copies and kernels),
   * KD_BUSY (a stream is full). */
  kd_status (*enqueue)(kd_group *group, const kd_collective *what);
} kd_collective_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_COLLECTIVE_H */
