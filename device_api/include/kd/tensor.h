/* kd/tensor.h - a tensor as a kernel sees it.
 *
 * Both structs are elements of arrays and are frozen: they never grow.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_TENSOR_H
#define KD_TENSOR_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a tensor's elements are laid out in memory.
 *
 * ROW_MAJOR  by `strides`; if NULL, packed with the last dimension fastest
 * OWN        this and all higher numbers: the plugin's own (layout.h). Only the
 *            device whose memory it is knows the order of the elements, and
 *            how many bytes they take. A kernel gets such a tensor only if its
 *            definition says that it accepts them.
 *
 * The numbers between are reserved. */
#define KD_LAYOUT_ROW_MAJOR 0u
#define KD_LAYOUT_OWN       0x80000000u

/* The data is in host memory: `data` is a host address, and `buffer` is
 * NULL. */
#define KD_TENSOR_HOST 0x1u
/* The data never changes while the kernel exists. */
#define KD_TENSOR_CONSTANT 0x2u

/* Typed data in a device's memory, for devices that have addresses and for
 * those that have handles. Frozen.
 *
 * All pointers are borrowed for the call that passes the struct. Device data
 * begins at a multiple of the alignment of the device's first space, unless the
 * definition has KD_KERNEL_ANY_OFFSET; host data at a multiple of the element
 * size. An absent optional argument has dtype KD_NONE and is otherwise zero.
 *
 * Strides are in elements, and 0 or more; along a dimension of stride 0 the
 * same elements repeat. Only inputs have strides, and only if the definition
 * has KD_KERNEL_STRIDED. `size` is the bytes of all elements, whatever the
 * strides. */
typedef struct kd_tensor {
  kd_buffer *buffer;   /* the plugin's handle; NULL for host memory */
  void *data;          /* address of the first element (the buffer's address
                          plus offset); NULL: the device has no addresses */
  uint64_t offset;     /* bytes from the buffer's start to the first element */
  uint64_t size;       /* bytes of data; may be 0 */
  const int64_t *dims; /* `rank` sizes in elements, each >= 0 */
  const int64_t *strides; /* in elements; NULL: packed row-major */
  kd_dtype dtype;
  uint32_t rank; /* 0 is a scalar; at most KD_MAX_RANK */
  uint32_t layout;
  uint32_t flags;
  uint64_t reserved;
} kd_tensor;

/* Element type and shape, without data. Frozen. */
typedef struct kd_type {
  const int64_t *dims; /* `rank` sizes; -1 is not known yet */
  kd_dtype dtype;
  uint32_t rank; /* KD_RANK_UNKNOWN: the shape is unknown */
  uint32_t layout;
  uint32_t reserved;
} kd_type;

#define KD_MAX_RANK     16u
#define KD_RANK_UNKNOWN UINT32_MAX

KD_STATIC_ASSERT(sizeof(void *) != 8 || sizeof(kd_tensor) == 72,
                 "kd_tensor is frozen");
KD_STATIC_ASSERT(sizeof(void *) != 8 || sizeof(kd_type) == 24,
                 "kd_type is frozen");

#ifdef __cplusplus
}
#endif
#endif /* KD_TENSOR_H */
