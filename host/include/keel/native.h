/* keel/native.h - the driver's own handles of a device, of tensors' memory and of the queue in
 * which the device works, for applications with code of their own for OpenCL, Vulkan or CUDA.
 *
 * kd/native.h has the kinds of handles. All are borrowed: they stay Keel's, and are valid as
 * long as what they are of. A device is open, with its handles, until the context is closed or
 * the device is opened again (keel_device_reopen).
 *
 * Order. Calls of Keel return when the device's work is enqueued, not when it is done, so that
 * a tensor may still have to be written. Either way puts the application's work in its place:
 *
 *   in the queue  It enqueues its work in the queue that keel_device_queue gives, or has Keel
 *                 work in a queue of its own (keel_device_use_queue). What is done on the
 *                 device is then done in the order in which the two enqueued it, and nobody
 *                 waits; a wait of Keel's, as keel_tensor_read, waits for the application's
 *                 work, too.
 *   by waiting    It calls keel_device_synchronize before its work begins, and waits for the
 *                 end of its work before it calls Keel again.
 *
 * A tensor is held until the work on its memory is done or, in the same queue, enqueued. Calls
 * of Keel may wait for the device, also the release of a tensor: what the application has in
 * the queue must not wait for what it does after such a call.
 *
 * Threads. Any thread may call. Nobody else uses the device through Keel while the application
 * enqueues where the driver wants one thread at a time for a queue (Vulkan), and while
 * keel_device_use_queue changes the queue.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_NATIVE_H
#define KEEL_NATIVE_H

#include <kd/native.h>
#include <keel/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A handle of a device, which is opened where nobody did yet.
 *
 * kind  KD_NATIVE_CL_PLATFORM, _CL_DEVICE, _CL_CONTEXT, _VK_INSTANCE, _VK_PHYSICAL_DEVICE,
 *       _VK_DEVICE, _VK_QUEUE_FAMILY, _CU_DEVICE, _CU_CONTEXT, or a vendor's own
 * Returns KD_OK, KD_UNIMPLEMENTED (the device has no such handle), or why the device can't be
 * used. */
KEEL_API keel_status keel_device_native(keel_device *device,
                                        kd_native_kind kind,
                                        uint64_t *out_handle);

/* A handle of the memory in which a tensor's data lie, packed, on a device. It waits for the
 * value (until its work is enqueued), and not for the device.
 *
 * kind        KD_NATIVE_CL_MEM, _VK_BUFFER, _CU_POINTER, or a vendor's own
 * access      KD_READ, or with KD_WRITE: values do not change, so only the one holder of a
 *             tensor that was made for that (keel_tensor_fill) may write, before it gives the
 *             tensor to anything else
 * out_offset  bytes from the handle's first to the tensor's first one
 * Returns KD_OK, KD_INVALID_ARGUMENT (host memory, no data, an access that is none),
 * KD_UNIMPLEMENTED (the device has no such handle), KD_FAILED_PRECONDITION (somebody else has
 * the tensor or its memory, and it would be written), or the value's failure. */
KEEL_API keel_status keel_tensor_native(keel_tensor *tensor,
                                        kd_native_kind kind, uint32_t access,
                                        uint64_t *out_handle,
                                        uint64_t *out_offset);

/* The queue in which the device works for this context, with all that Keel has enqueued so
 * far: to be asked for anew before the application enqueues more. Copies out of the device
 * that nobody waits for go by another one, in order with this.
 *
 * kind  KD_NATIVE_CL_QUEUE, _VK_QUEUE, _CU_STREAM, or a vendor's own
 * Returns KD_OK, KD_UNIMPLEMENTED (the device has no such handle, or no queue), or why the
 * device can't be used. */
KEEL_API keel_status keel_device_queue(keel_device *device, kd_native_kind kind,
                                       uint64_t *out_handle);

/* Has the device work for this context in a queue of the application's from now on, behind
 * what is in it; waits for what the device has to do so far.
 *
 * kind    KD_NATIVE_CL_QUEUE, _CU_STREAM, or a vendor's own; 0: a queue of Keel's, as at first
 * handle  a queue that works in order, of the device's context (keel_device_native)
 * Owns    the queue is the application's, and is there until the context is closed or the
 *         device has another one; Keel leaves it as it is. A device that is opened again
 *         (keel_device_reopen) has one of Keel's.
 * Returns KD_OK; else nothing has changed: KD_INVALID_ARGUMENT (no such queue),
 * KD_UNIMPLEMENTED (the device takes none of this kind, or works without a queue),
 * KD_OUT_OF_MEMORY, or the failure of work. */
KEEL_API keel_status keel_device_use_queue(keel_device *device,
                                           kd_native_kind kind,
                                           uint64_t handle);

/* Waits until the device has done all that this context has given to it. One that nobody has
 * opened has nothing to do. Returns KD_OK, or the failure of work that was not told yet. */
KEEL_API keel_status keel_device_synchronize(keel_device *device);

#ifdef __cplusplus
}
#endif
#endif /* KEEL_NATIVE_H */
