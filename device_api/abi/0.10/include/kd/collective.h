/* kd/collective.h - work that several devices of one plugin do together.
 *
 * An option. Semantics are MPI's of the same name (MPI 4.0, chapter 6), on
 * device buffers and in stream order. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_COLLECTIVE_H
#define KD_COLLECTIVE_H

#include <kd/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kd_group kd_group; /* the plugin's: devices that take part */

#define KD_REDUCE_SUM     0u
#define KD_REDUCE_PRODUCT 1u
#define KD_REDUCE_MIN     2u
#define KD_REDUCE_MAX     3u

/* Each member calls the same slots in the same order, from one thread or many;
 * the calls never block. Tensors are packed, of one dtype; `rank` is the
 * member's number in the group. A NULL slot is not supported. */
typedef struct kd_collective_table {
  uint32_t struct_size; /* sizeof(kd_collective_table) as the plugin knew it */
  uint32_t reserved;

  /* Makes a group of open devices, in rank order. Returns KD_OK,
   * KD_UNIMPLEMENTED (they can't reach each other), KD_OUT_OF_MEMORY. */
  kd_status (*create)(kd_device *const *devices, uint32_t count,
                      KD_OWNED kd_group **out_group);

  /* Frees a group whose work is done. */
  void (*destroy)(kd_group *group);

  /* Gives each member the reduction of all members' inputs.
   *
   * reduction  KD_REDUCE_*, of each element
   * Returns KD_OK, or why nothing was enqueued; so do those below. */
  kd_status (*all_reduce)(kd_group *group, uint32_t rank, kd_stream *stream,
                          uint32_t reduction, const kd_tensor *input,
                          const kd_tensor *output);

  /* Gives each member all members' inputs, one behind the other by rank. */
  kd_status (*all_gather)(kd_group *group, uint32_t rank, kd_stream *stream,
                          const kd_tensor *input, const kd_tensor *output);

  /* Reduces all members' inputs, and gives each member the part of its rank. */
  kd_status (*reduce_scatter)(kd_group *group, uint32_t rank, kd_stream *stream,
                              uint32_t reduction, const kd_tensor *input,
                              const kd_tensor *output);

  /* Gives the root's tensor to all members. */
  kd_status (*broadcast)(kd_group *group, uint32_t rank, kd_stream *stream,
                         uint32_t root, const kd_tensor *tensor);

  /* Sends a tensor to one member, which calls `receive`. */
  kd_status (*send)(kd_group *group, uint32_t rank, kd_stream *stream,
                    uint32_t to, const kd_tensor *tensor);

  /* Receives the tensor that one member sends to this one. */
  kd_status (*receive)(kd_group *group, uint32_t rank, kd_stream *stream,
                       uint32_t from, const kd_tensor *tensor);
} kd_collective_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_COLLECTIVE_H */
