/* kd/layout.h - a plugin's own layouts: the orders of elements in memory that
 * its kernels prefer.
 *
 * An option. When the host plans, it asks which layouts the kernels of a graph
 * prefer. Tensors between kernels that agree stay as they are; others are
 * converted. Tensors that leave the device are row-major.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_LAYOUT_H
#define KD_LAYOUT_H

#include <kd/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The layouts of a plugin's devices, numbered from KD_LAYOUT_OWN without gaps;
 * at most 16. A number has its meaning on one device only; another device never
 * gets a tensor in such a layout. All slots are required. */
typedef struct kd_layout_table {
  uint32_t struct_size; /* sizeof(kd_layout_table) as the plugin knew it */
  uint32_t reserved;

  /* The layout in which the device's kernel for a node prefers an argument;
   * `argument` counts the inputs, then output 0. The host asks for one argument
   * after the other; the node's types state the layouts chosen so far and, for
   * an input that it has not asked for yet, the input's present layout. An input
   * whose layout differs from the answer is converted, at the cost of a copy:
   * leave a row-major input as it is unless the kernel gains more than that. The
   * host does not ask for constants, which are row-major, nor for ops
   * without a definition that has KD_KERNEL_OWN_LAYOUT. If no kernel supports
   * all the answers, the node's arguments are row-major. Cheap and pure: equal
   * nodes get equal answers. Any thread.
   * Returns KD_LAYOUT_ROW_MAJOR, or one of the plugin's own in which the
   * argument's type has a size. */
  uint32_t (*preferred)(kd_device *device, const kd_node *node,
                        uint32_t argument);

  /* Bytes of a tensor of this type in its layout, which is one of the plugin's
   * own: at least as many as its elements take in row-major order. All
   * dimensions are known. 0: the device has no such layout, or not for this
   * type. Cheap and pure; any thread. */
  uint64_t (*size)(kd_device *device, const kd_type *type);

  /* Converts a row-major tensor to the layout that `target` states. `source` is
   * packed. Both have the same type, which has a size in the layout; both are
   * in the device's memory, and do not overlap. The contents of gaps between
   * elements are up to the plugin. No element's bits change, not even those of
   * a NaN. Runs in the order of `stream` or, with a NULL stream, before it
   * returns, like kd_kernel_def.enqueue; it may be part of a capture.
   * Returns KD_OK; after any other status nothing was enqueued:
   * KD_UNIMPLEMENTED (no such layout), KD_BUSY. */
  kd_status (*from_rows)(kd_device *device, kd_stream *stream,
                         const kd_tensor *source, const kd_tensor *target);

  /* Converts back: from the layout that `source` states to row-major. */
  kd_status (*to_rows)(kd_device *device, kd_stream *stream,
                       const kd_tensor *source, const kd_tensor *target);
} kd_layout_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_LAYOUT_H */
