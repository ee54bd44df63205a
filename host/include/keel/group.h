/* keel/group.h - what several devices do together: sums, copies to all, parts to each.
 *
 * Semantics are MPI's of the same name (MPI 4.0, chapter 6); the members are devices of one
 * context, and one call has the values of all. SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_GROUP_H
#define KEEL_GROUP_H

#include <kd/collective.h>
#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Devices that work together, in rank order. Where all are one plugin's, and it can, the
 * devices do it among themselves (NCCL, say); else the runtime does it by copies and by
 * kernels of the members, so a group may mix any devices. */
typedef struct keel_group keel_group;

/* Makes a group. It opens devices where nobody did yet, and may take long.
 *
 * devices  of one context, each once; the index is the rank
 * Owns     the caller releases it. A lost device is not opened again before.
 * Returns KD_OK, KD_INVALID_ARGUMENT, KD_OUT_OF_MEMORY, or why a device can't be used. */
KEEL_API keel_status keel_group_create(keel_device *const *devices,
                                       uint32_t count,
                                       KD_OWNED keel_group **out_group);

/* Lets it go; calls whose values are still pending end as if it were there. NULL does
 * nothing. */
KEEL_API void keel_group_release(keel_group *group);

/* How many members there are, and one of them; NULL past the last. */
KEEL_API uint32_t keel_group_size(const keel_group *group);
KEEL_API keel_device *keel_group_device(const keel_group *group, uint32_t rank);

/* The calls below take a value of each member, and give one to each, in its memory; both
 * arrays are by rank. Inputs may lie anywhere: they are moved. They do not wait: outputs are
 * ready (work that is given to the device from now on finds the data) or pending; where an
 * input has failed, all outputs have. Any thread may call, also on one group at once.
 * Return KD_OK, or why the call was refused (outputs are then NULL), with the rank and the
 * device: KD_INVALID_ARGUMENT (types or shapes), KD_DEVICE_LOST, KD_OUT_OF_MEMORY ... */

/* Each output is the reduction of all inputs, element by element: the same bits for every
 * member. reduction is KD_REDUCE_SUM, _PRODUCT, _MIN or _MAX; inputs have one type. */
KEEL_API keel_status keel_group_all_reduce(keel_group *group,
                                           uint32_t reduction,
                                           keel_tensor *const *inputs,
                                           KD_OWNED keel_tensor **outputs);

/* Each output has all inputs, one behind the other along the first dimension. */
KEEL_API keel_status keel_group_all_gather(keel_group *group,
                                           keel_tensor *const *inputs,
                                           KD_OWNED keel_tensor **outputs);

/* Each output is the reduction of its part of all inputs: their first dimension is a
 * multiple of the group's size, and is parted by rank. */
KEEL_API keel_status keel_group_reduce_scatter(keel_group *group,
                                               uint32_t reduction,
                                               keel_tensor *const *inputs,
                                               KD_OWNED keel_tensor **outputs);

/* Each output is the root's value. */
KEEL_API keel_status keel_group_broadcast(keel_group *group, uint32_t root,
                                          keel_tensor *input,
                                          KD_OWNED keel_tensor **outputs);

/* Sends a value to one member, which receives it as *out_tensor: without the host where the
 * devices reach each other. Where it is pending, so is what is received. */
KEEL_API keel_status keel_group_send(keel_group *group, uint32_t to,
                                     keel_tensor *tensor,
                                     KD_OWNED keel_tensor **out_tensor);

/* Which way calls went so far. */
typedef struct keel_group_counts {
  uint64_t direct; /* by the devices among themselves */
  uint64_t staged; /* by the runtime's copies and the members' kernels */
} keel_group_counts;

KEEL_API void keel_group_count(const keel_group *group,
                               keel_group_counts *out_counts);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_GROUP_H */
