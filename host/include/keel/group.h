/* keel/group.h - collective operations of several devices.
 *
 * Semantics are those of MPI's operations of the same name (MPI 4.0, chapter
 * 6). The members are devices of one context, and one call takes the values of
 * all members. SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_GROUP_H
#define KEEL_GROUP_H

#include <kd/collective.h>
#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Devices that work together, in rank order. A group may mix any devices: if
 * they are all of one plugin that supports it, the devices do the work among
 * themselves (with NCCL, for example); otherwise the runtime does it with
 * copies and with kernels of the members. */
typedef struct keel_group keel_group;

/* Creates a group. Opens devices that are not open yet, and may take long.
 *
 * devices  of one context, each once; the index is the rank
 * Owns     the caller releases it. Until then, a lost device is not opened
 * again.
 * Returns KD_OK, KD_INVALID_ARGUMENT, KD_OUT_OF_MEMORY, or why a device cannot
 * be used. */
KEEL_API keel_status keel_group_create(keel_device *const *devices,
                                       uint32_t count,
                                       KD_OWNED keel_group **out_group);

/* Releases a group. Calls whose values are still pending complete nonetheless.
 * NULL does nothing. */
KEEL_API void keel_group_release(keel_group *group);

/* The number of members, and one of them; NULL past the last. */
KEEL_API uint32_t keel_group_size(const keel_group *group);
KEEL_API keel_device *keel_group_device(const keel_group *group, uint32_t rank);

/* The calls below take one value of each member and return one to each, in its
 * memory; both arrays are in rank order. Inputs may be anywhere: they are
 * moved. The calls do not wait: an output is ready (work given to the device
 * from now on finds the data) or pending. If an input has failed, all outputs
 * have failed. Any thread may call, even several at once on one group. Return
 * KD_OK, or why the call was refused, with the rank and the device (outputs are
 * then NULL): KD_INVALID_ARGUMENT (types or shapes), KD_DEVICE_LOST,
 * KD_OUT_OF_MEMORY ... */

/* Each output is the reduction of all inputs, element by element, with the same
 * bits for every member. reduction is KD_REDUCE_SUM, _PRODUCT, _MIN or _MAX;
 * inputs have one type. */
KEEL_API keel_status keel_group_all_reduce(keel_group *group,
                                           uint32_t reduction,
                                           keel_tensor *const *inputs,
                                           KD_OWNED keel_tensor **outputs);

/* Each output is the concatenation of all inputs along the first dimension, in
 * rank order. */
KEEL_API keel_status keel_group_all_gather(keel_group *group,
                                           keel_tensor *const *inputs,
                                           KD_OWNED keel_tensor **outputs);

/* Each output is the reduction of its part of all inputs: their first dimension
 * is a multiple of the group's size, and is divided in rank order. */
KEEL_API keel_status keel_group_reduce_scatter(keel_group *group,
                                               uint32_t reduction,
                                               keel_tensor *const *inputs,
                                               KD_OWNED keel_tensor **outputs);

/* Each output is the root's value. */
KEEL_API keel_status keel_group_broadcast(keel_group *group, uint32_t root,
                                          keel_tensor *input,
                                          KD_OWNED keel_tensor **outputs);

/* Sends a value to one member, which receives it as *out_tensor, without
 * passing the host if the devices reach each other. If the value is pending, so
 * is *out_tensor. */
KEEL_API keel_status keel_group_send(keel_group *group, uint32_t to,
                                     keel_tensor *tensor,
                                     KD_OWNED keel_tensor **out_tensor);

/* Handles of the members, for a program that each of them runs. A handle is a resource; the
 * exchanges of domain "keel" (AllReduce and so on: keel/op.h) take it as their first input.
 * Member r's run gets members[r].
 *
 * The n-th exchange of a member matches the n-th exchange of every other member: all run the
 * same program, or programs with the same exchanges. A member leaves when its handle is gone
 * (its run has ended, and the caller has released it): members that wait for it then fail, with
 * a message that names it. All members fail if a run leaves out an exchange because it failed or
 * was cancelled, or if the exchanges differ. Make new handles for each set of runs. Runs of all
 * members must be under way at once: keel_plan_begin does not wait.
 *
 * members  receives one for each rank; the caller releases each
 * Returns KD_OK or KD_OUT_OF_MEMORY (all are NULL then). */
KEEL_API keel_status keel_group_members(keel_group *group,
                                        KD_OWNED keel_tensor **members);

/* The number of calls so far, by their path. */
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
