/* kd/collective.h - collective operations of several devices of one plugin.
 *
 * An option. Semantics are those of MPI's operations of the same name (MPI 4.0,
 * chapter 6), on device buffers and in stream order. For point-to-point copies
 * there is kd_peer_table.copy. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_COLLECTIVE_H
#define KD_COLLECTIVE_H

#include <kd/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kd_group kd_group; /* the plugin's: the devices that take part */

/* Kinds of kd_collective. All inputs and outputs of an operation have one
 * dtype. */
/* Each member's output is the reduction of all inputs, which have equal sizes.
 * Every member gets the same bits. */
#define KD_ALL_REDUCE 0u
/* Each member's output is the concatenation of all inputs in rank order. */
#define KD_ALL_GATHER 1u
/* Each member's output is the reduction of its part of all inputs. An input is
 * the concatenation, in rank order, of one part for each member, all of equal
 * size. */
#define KD_REDUCE_SCATTER 2u
/* Each member's output is the root's input; the other inputs are KD_NONE. */
#define KD_BROADCAST 3u

#define KD_REDUCE_SUM     0u
#define KD_REDUCE_PRODUCT 1u
#define KD_REDUCE_MIN     2u
#define KD_REDUCE_MAX     3u

/* What all members of a group are to do. Each array has one element per member,
 * in rank order. Tensors are packed row-major, in the member's first memory
 * space. A member's output is its input's memory, or shares none with it.
 * Borrowed for the call. */
typedef struct kd_collective {
  uint32_t struct_size;      /* sizeof(kd_collective) as the host knew it */
  uint32_t flags;            /* none yet */
  uint32_t kind;             /* KD_ALL_REDUCE ... */
  uint32_t reduction;        /* KD_REDUCE_*, for kinds that reduce */
  uint32_t root;             /* a rank, for kinds that have a root */
  uint32_t reserved;         /* zero */
  kd_stream *const *streams; /* of the members' devices; NULL if the plugin
                                has no streams */
  const kd_tensor *inputs;
  const kd_tensor *outputs;
} kd_collective;

/* Collective operations of devices. All slots are required. Any thread, one at
 * a time for one group. */
typedef struct kd_collective_table {
  uint32_t struct_size; /* sizeof(kd_collective_table) as the plugin knew it */
  uint32_t reserved;

  /* Creates a group of open devices, each once, in rank order. May take long.
   * Returns KD_OK, KD_UNIMPLEMENTED (they cannot reach each other, or a library
   * that this needs is not installed), KD_OUT_OF_MEMORY. */
  kd_status (*create)(kd_device *const *devices, uint32_t count,
                      KD_OWNED kd_group **out_group);

  /* Frees a group whose work is done, or one of whose devices is lost. */
  void (*destroy)(kd_group *group);

  /* Enqueues the work of all members, each on its own stream, after what that
   * stream holds. The stream continues when the member's output is complete and
   * its input is no longer read. Never blocks if there are streams. If earlier
   * work on one member's stream failed, or a device is lost, the operation
   * fails on all streams.
   *
   * Returns KD_OK; after any other status nothing was enqueued:
   * KD_UNIMPLEMENTED (a kind, reduction or dtype that it does not support; the
   * host uses copies and kernels instead), KD_BUSY (a stream is full). */
  kd_status (*enqueue)(kd_group *group, const kd_collective *what);
} kd_collective_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_COLLECTIVE_H */
