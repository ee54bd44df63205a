/* kd/native.h - native driver handles of a device, its memory and its queues, for
 * applications with driver code of their own.
 *
 * An extension: kd_plugin.extension gives a kd_native_table by the name KD_NATIVE, the same
 * one from `open` to `close`, or NULL. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_NATIVE_H
#define KD_NATIVE_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KD_NATIVE "kd.native/1"

/* The type of a handle in the driver's headers. A plugin that does not know a kind, or
 * has none of it, returns KD_UNIMPLEMENTED. Each interface has 256 numbers; those up to
 * 0x7fffffff are reserved for Keel, those from KD_NATIVE_OWN on are a vendor's own. */
typedef uint32_t kd_native_kind;

/* OpenCL; of a device, a buffer, a stream */
#define KD_NATIVE_CL_PLATFORM 0x100u /* cl_platform_id */
#define KD_NATIVE_CL_DEVICE   0x101u /* cl_device_id */
#define KD_NATIVE_CL_CONTEXT  0x102u /* cl_context */
#define KD_NATIVE_CL_MEM      0x110u /* cl_mem */
#define KD_NATIVE_CL_QUEUE    0x120u /* cl_command_queue */

/* Vulkan; of a device, a buffer, a stream */
#define KD_NATIVE_VK_INSTANCE        0x200u /* VkInstance */
#define KD_NATIVE_VK_PHYSICAL_DEVICE 0x201u /* VkPhysicalDevice */
#define KD_NATIVE_VK_DEVICE          0x202u /* VkDevice */
#define KD_NATIVE_VK_QUEUE_FAMILY    0x203u /* a number, of all its queues */
#define KD_NATIVE_VK_BUFFER          0x210u /* VkBuffer */
#define KD_NATIVE_VK_QUEUE           0x220u /* VkQueue */

/* CUDA; of a device, a buffer, a stream */
#define KD_NATIVE_CU_DEVICE  0x300u /* CUdevice: a number */
#define KD_NATIVE_CU_CONTEXT 0x301u /* CUcontext */
#define KD_NATIVE_CU_POINTER 0x310u /* CUdeviceptr */
#define KD_NATIVE_CU_STREAM  0x320u /* CUstream */

#define KD_NATIVE_OWN 0x80000000u

/* Returns native handles of the plugin's objects, and makes objects of the application's
 * handles. Any thread.
 *
 * A handle is the driver's pointer or number as an integer, and never 0 where it is a
 * pointer. It is borrowed: it must not be freed, and it stays valid and the same as long as
 * the object exists. out_ is written on KD_OK only. */
typedef struct kd_native_table {
  uint32_t struct_size; /* sizeof(kd_native_table) as the plugin knew it */
  uint32_t reserved;

  /* Gives a handle of a device: with it, an application calls the driver.
   * Returns KD_OK, KD_UNIMPLEMENTED (not this kind). */
  kd_status (*device)(kd_device *device, kd_native_kind kind,
                      uint64_t *out_handle);

  /* Gives a handle of a buffer, and the byte in it at which the buffer begins: several may
   * lie in one of the driver's. Returns KD_OK, KD_UNIMPLEMENTED (not this kind). NULL:
   * buffers have no handles. */
  kd_status (*buffer)(kd_device *device, kd_buffer *buffer, kd_native_kind kind,
                      uint64_t *out_handle, uint64_t *out_offset);

  /* Gives the driver's queue of a stream, in the stream's order: earlier work of the stream
   * is in the queue when this returns, and work that the application enqueues there counts
   * as the stream's from then on. Events that are recorded after it, and synchronize, wait
   * for it. It may be called again, to hand over work that was enqueued since.
   * Returns KD_OK, KD_UNIMPLEMENTED (not this kind), or why the stream takes no more work.
   * NULL: streams have none. */
  kd_status (*stream)(kd_stream *stream, kd_native_kind kind,
                      uint64_t *out_handle);

  /* Makes a stream of a queue that the application has: a stream like any other. Work that
   * is enqueued on the stream is in the queue when the call that enqueues it returns, after
   * all earlier work of the application.
   *
   * handle  an in-order queue of the device and its context
   * Owns     the host destroys the stream, which leaves the queue alone: the application
   * owns the queue, and keeps it until then.
   * Returns KD_OK, KD_UNIMPLEMENTED (not this kind), KD_INVALID_ARGUMENT (0, a queue of
   * another device or context, an out-of-order queue), KD_OUT_OF_MEMORY. NULL: the plugin
   * cannot use the application's queues. */
  kd_status (*wrap)(kd_device *device, kd_native_kind kind, uint64_t handle,
                    KD_OWNED kd_stream **out_stream);
} kd_native_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_NATIVE_H */
