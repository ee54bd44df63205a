/* kd/layout.h - layouts of a plugin's own: how its kernels like tensors to lie.
 *
 * An option. The host asks once, when it plans, which layouts the kernels of a
 * graph prefer; it lets neighbours that agree hand tensors on as they are, and has
 * them converted where they do not. What leaves the device is row-major.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_LAYOUT_H
#define KD_LAYOUT_H

#include <kd/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The layouts of a plugin's devices, numbered from KD_LAYOUT_OWN on without gaps, 16
 * at most. A number means what it means on one device; tensors in it are never shown
 * to another. All slots are needed. */
typedef struct kd_layout_table {
  uint32_t struct_size; /* sizeof(kd_layout_table) as the plugin knew it */
  uint32_t reserved;

  /* The layout in which the device's kernel for a node takes an argument best, or
   * makes it: inputs first, then output 0. Asked for one argument after the other;
   * the node's types state the layouts that are chosen so far: for an input that was
   * not asked for yet, the one that it comes in. What comes otherwise than the answer
   * has it is converted, at the cost of a copy: an input that comes in rows is better
   * left in them unless the kernel gains more than that. Constants, which are
   * row-major, are not asked for, nor are nodes of ops without a definition that has
   * KD_KERNEL_OWN_LAYOUT. Where no kernel takes all the answers, the node gets rows.
   * Cheap and pure: equal nodes get equal answers. Any thread.
   * Returns KD_LAYOUT_ROW_MAJOR, or one of the plugin's own that the argument's type
   * has a size in. */
  uint32_t (*preferred)(kd_device *device, const kd_node *node,
                        uint32_t argument);

  /* Bytes of a tensor of this type in its layout, which is one of the plugin's own:
   * as many as its elements take in rows, or more. All dimensions are known. 0: the
   * device has no such layout, or not for this type. Cheap and pure; any thread. */
  uint64_t (*size)(kd_device *device, const kd_type *type);

  /* Brings a row-major tensor into the layout that `target` states: `source` is
   * packed, both have the same type, which has a size in the layout, and lie in the
   * device's memory, without overlap. What lies in gaps between elements is the
   * plugin's matter. Bits are not changed, those of NaN neither. In the order of
   * `stream`, or done at return where it is NULL, as kd_kernel_def.enqueue; it may be
   * part of a capture.
   * Returns KD_OK, or why not; then nothing was enqueued: KD_UNIMPLEMENTED (there is no
   * such layout), KD_BUSY. */
  kd_status (*from_rows)(kd_device *device, kd_stream *stream,
                         const kd_tensor *source, const kd_tensor *target);

  /* The way back: from the layout that `source` states to rows. */
  kd_status (*to_rows)(kd_device *device, kd_stream *stream,
                       const kd_tensor *source, const kd_tensor *target);
} kd_layout_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_LAYOUT_H */
