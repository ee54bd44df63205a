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

/* The id by which members of one group in several processes find each other: bytes that the
 * plugin chooses. Frozen. */
typedef struct kd_group_id {
  uint8_t bytes[256];
} kd_group_id;
KD_STATIC_ASSERT(sizeof(kd_group_id) == 256, "kd_group_id is frozen");

/* Flags of make_id. */
#define KD_GROUP_MACHINES 1u /* members may be on several machines */

/* A member that joins a group. Borrowed for the call. */
typedef struct kd_join {
  uint32_t struct_size; /* sizeof(kd_join) as the host knew it */
  uint32_t flags;       /* none yet */
  uint32_t rank, size;  /* of the group, which has `size` members */
  const kd_group_id *id;
} kd_join;

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
/* Each member's output is the concatenation, in rank order, of its part of all
 * inputs. An input is the concatenation, in rank order, of one part for each
 * member, all of equal size, and shares no memory with the output. */
#define KD_ALL_TO_ALL 4u

#define KD_REDUCE_SUM     0u
#define KD_REDUCE_PRODUCT 1u
#define KD_REDUCE_MIN     2u
#define KD_REDUCE_MAX     3u

/* One operation of a group. Each array has one element per member, in rank
 * order; for a group that was joined, one element: this member's. Tensors are
 * packed row-major, in the member's first memory space. A member's output is
 * its input's memory, or shares none with it. Borrowed for the call. */
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

/* Collective operations of devices. The first three slots are required. The
 * others, from make_id on, are all set or all NULL: they are for groups whose
 * members are in several processes. Any thread may call a slot, one at a time
 * for one group; `status` and `abort` at any time. */
typedef struct kd_collective_table {
  uint32_t struct_size; /* sizeof(kd_collective_table) as the plugin knew it */
  uint32_t reserved;

  /* Creates a group of open devices, each once, in rank order. May take long.
   * Returns KD_OK, KD_UNIMPLEMENTED (they cannot reach each other, or a library
   * that this needs is not installed), KD_OUT_OF_MEMORY. */
  kd_status (*create)(kd_device *const *devices, uint32_t count,
                      KD_OWNED kd_group **out_group);

  /* Frees a group whose work is done, or one of whose devices is lost. For a
   * group that was joined, it may wait until all members destroy theirs, in the
   * same order if they are in several groups; after `abort` it does not wait for
   * other members. */
  void (*destroy)(kd_group *group);

  /* Enqueues the work of all members, each on its own stream, after what that
   * stream holds. The stream continues when the member's output is complete and
   * its input is no longer read. Never blocks if there are streams. If earlier
   * work on one member's stream failed, or a device is lost, the operation
   * fails on all streams.
   *
   * In a group that was joined it is the work of one member, and all members
   * enqueue the same operations in one order. If an operation fails on one
   * member's stream, the others may be left waiting: the host aborts their
   * groups.
   *
   * Returns KD_OK; after any other status nothing was enqueued:
   * KD_UNIMPLEMENTED (a kind, reduction or dtype that it does not support; the
   * host uses copies and kernels instead. The answer depends on these three
   * alone, so that all members agree; an unknown kind is unsupported), KD_BUSY
   * (a stream is full; in a group that was joined also: connections for this
   * operation are still being made), KD_ABORTED. In a group that was joined the
   * plugin may keep an operation for which it returns KD_BUSY: the host repeats
   * the call, with the same memory, until it gets another status, or aborts. */
  kd_status (*enqueue)(kd_group *group, const kd_collective *what);

  /* Makes an id by which the members of one new group find each other. The host
   * calls it for one of them, and passes the id to the others. Each call gives
   * another id, also in other processes and on other machines. The plugin frees
   * its data for the id when all members have joined, or with the process.
   *
   * flags  KD_GROUP_MACHINES; an unknown bit is refused
   * Returns KD_OK, KD_UNIMPLEMENTED (the device cannot reach devices on other
   * machines, or a library that this needs is not installed), KD_UNAVAILABLE,
   * KD_OUT_OF_MEMORY. */
  kd_status (*make_id)(kd_device *device, uint32_t flags, kd_group_id *out_id);

  /* Makes an open device a member of a group, whose other members join in other
   * processes, or in this one. It is called once for each member, with the same
   * id and size, and the member's rank. It does not wait for other members:
   * `status` reports when all have joined, and nothing is enqueued before. A
   * device may be in many groups.
   *
   * Owns     the host destroys the group before it closes the device
   * Returns KD_OK, KD_UNIMPLEMENTED (they cannot reach each other, or a library
   * that this needs is not installed), KD_INVALID_ARGUMENT (an id that make_id
   * did not return, or an invalid size or rank), KD_UNAVAILABLE,
   * KD_OUT_OF_MEMORY. */
  kd_status (*join)(kd_device *device, const kd_join *what,
                    KD_OWNED kd_group **out_group);

  /* Whether a group that was joined can work. It does not wait for other members.
   * Any thread, at any time; a failure lasts.
   * Returns KD_OK, KD_BUSY (a member has not joined yet, or connections are being
   * made; also after an earlier KD_OK), KD_ABORTED (this group was aborted, or
   * another member's was), KD_UNAVAILABLE (a member cannot be reached any more),
   * KD_DEVICE_LOST. */
  kd_status (*status)(kd_group *group);

  /* Aborts a group that was joined: its operations and its joining end, even if
   * they wait for missing members. Any thread, at any time, also twice; it does
   * not wait for other members, each of which aborts its own group. Work of the
   * group that is not done fails; if a plugin cannot make it fail, the device
   * counts as lost.
   * Afterwards the group can only be destroyed. Once the stream's work has ended,
   * memory of its operations is no longer accessed. */
  void (*abort)(kd_group *group);
} kd_collective_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_COLLECTIVE_H */
