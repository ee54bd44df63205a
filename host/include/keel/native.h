/* keel/native.h - native driver handles of a device, of tensors' memory and of the device's
 * queue, for applications with OpenCL, Vulkan or CUDA code of their own.
 *
 * kd/native.h lists the kinds of handles. All are borrowed from Keel, and valid as long as
 * their object. A device and its handles stay open until the context is closed or the
 * device is reopened (keel_device_reopen).
 *
 * Order. Keel's calls return when the device's work is enqueued, not when it is done, so a
 * tensor may not be written yet. There are two ways to order the application's work with
 * Keel's:
 *
 *   in the queue  The application enqueues its work on the queue that keel_device_queue
 *                 returns, or lets Keel use the application's queue
 *                 (keel_device_use_queue). The device then runs all work in the order in
 *                 which the two enqueued it, and nothing waits; a waiting call, such as
 *                 keel_tensor_read, waits for the application's work, too.
 *   by waiting    The application calls keel_device_synchronize before its work starts, and
 *                 waits for its work to end before it calls Keel again.
 *
 * Keep the tensor until the work on its memory is done or, in the same queue, enqueued. Any
 * call of Keel may wait for the device, even the release of a tensor: work that the
 * application has enqueued must not wait for anything that the application does after such
 * a call.
 *
 * Threads. Any thread may call. No other thread may use the device through Keel while the
 * application enqueues, if the driver allows one thread at a time per queue (Vulkan), or
 * while keel_device_use_queue changes the queue.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_NATIVE_H
#define KEEL_NATIVE_H

#include <kd/native.h>
#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns a handle of a device, which is opened if it is not open yet.
 *
 * kind  KD_NATIVE_CL_PLATFORM, _CL_DEVICE, _CL_CONTEXT, _VK_INSTANCE, _VK_PHYSICAL_DEVICE,
 *       _VK_DEVICE, _VK_QUEUE_FAMILY, _CU_DEVICE, _CU_CONTEXT, or a vendor's own
 * Returns KD_OK, KD_UNIMPLEMENTED (the device has no such handle), or why the device cannot
 * be used. */
KEEL_API keel_status keel_device_native(keel_device *device,
                                        kd_native_kind kind,
                                        uint64_t *out_handle);

/* Returns a handle of the device memory that holds a tensor's data, packed. It waits for
 * the value (until its work is enqueued), but not for the device.
 *
 * kind        KD_NATIVE_CL_MEM, _VK_BUFFER, _CU_POINTER, or a vendor's own
 * access      KD_READ, or with KD_WRITE: as values do not change, only the sole holder of a
 *             tensor that was made for this (keel_tensor_fill) may write, before it passes
 *             the tensor to anything else
 * out_offset  bytes from the start of the handle's memory to the tensor's first element
 * Returns KD_OK, KD_INVALID_ARGUMENT (host memory, no data, an invalid access),
 * KD_UNIMPLEMENTED (the device has no such handle), KD_FAILED_PRECONDITION (KD_WRITE, but
 * something else holds the tensor or its memory), or the value's failure. */
KEEL_API keel_status keel_tensor_native(keel_tensor *tensor,
                                        kd_native_kind kind, uint32_t access,
                                        uint64_t *out_handle,
                                        uint64_t *out_offset);

/* Returns the device's queue for this context, with all work that Keel has enqueued so far:
 * ask again each time before the application enqueues more. Asynchronous copies out of the
 * device use another queue, ordered with this one.
 *
 * kind  KD_NATIVE_CL_QUEUE, _VK_QUEUE, _CU_STREAM, or a vendor's own
 * Returns KD_OK, KD_UNIMPLEMENTED (the device has no such handle, or no queue), or why the
 * device cannot be used. */
KEEL_API keel_status keel_device_queue(keel_device *device, kd_native_kind kind,
                                       uint64_t *out_handle);

/* Makes the device work for this context on the application's queue from now on, after what
 * is in it. Waits for the device's earlier work.
 *
 * kind    KD_NATIVE_CL_QUEUE, _CU_STREAM, or a vendor's own; 0: back to Keel's own queue
 * handle  an in-order queue of the device's context (keel_device_native)
 * Owns    the queue stays the application's. It must exist until the context is closed or
 *         the device gets another one; Keel does not destroy it. A reopened device
 *         (keel_device_reopen) uses Keel's own queue.
 * Returns KD_OK; otherwise nothing has changed: KD_INVALID_ARGUMENT (no such queue),
 * KD_UNIMPLEMENTED (the device accepts no queue of this kind, or has no queue),
 * KD_OUT_OF_MEMORY, or the failure of earlier work. */
KEEL_API keel_status keel_device_use_queue(keel_device *device,
                                           kd_native_kind kind,
                                           uint64_t handle);

/* Waits until the device has done all work of this context. A device that is not open has
 * none. Returns KD_OK, or the failure of work that has not been reported yet. */
KEEL_API keel_status keel_device_synchronize(keel_device *device);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_NATIVE_H */
