/* kd/device.h - what a device is.
 *
 * A plugin states these facts once, before the device is opened.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_DEVICE_H
#define KD_DEVICE_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The work of a kernel or copy is done when the call returns, so streams are of
 * no use and outputs are ready at once. */
#define KD_DEVICE_INLINE 0x1u
/* The device works on host addresses: a host pointer with the alignment of its
 * first space is as good as its own memory, and the host reads and writes its
 * buffers directly. The addresses of its memory spaces are valid on both
 * sides. */
#define KD_DEVICE_HOST_ADDRESSABLE 0x2u
/* Integrated with the host (an integrated GPU): it shares the host's memory. */
#define KD_DEVICE_INTEGRATED 0x1000000u
/* A software device that simulates a real one. */
#define KD_DEVICE_SOFTWARE 0x2000000u
/* Kernels for f16 and bf16 compute in f32 and are no faster than those for f32: the host
 * may keep intermediates in f32, and uses f32 kernels instead. */
#define KD_DEVICE_WIDENS 0x4000000u

/* Flags of a memory space. */
#define KD_SPACE_DEVICE       0x1u       /* fastest for kernels */
#define KD_SPACE_HOST_VISIBLE 0x2u       /* the host can map or address it */
#define KD_SPACE_COHERENT     0x4u       /* no flush or invalidate needed */
#define KD_SPACE_PINNED       0x10u      /* host memory with fast copies */
#define KD_SPACE_CACHED       0x1000000u /* host reads are fast */

/* A memory space: one kind of memory that a device can use. The host zeroes the
 * struct and sets struct_size; the plugin fills the fields that fit. */
typedef struct kd_space {
  uint32_t struct_size; /* sizeof(kd_space) as the host knew it */
  uint32_t flags;       /* KD_SPACE_* */
  uint32_t alignment;   /* of every allocation, bytes; 0: 64 */
  uint32_t reserved;
  uint64_t size;       /* bytes in total; 0: not known */
  uint64_t max_buffer; /* largest single allocation, bytes; 0: no limit */
} kd_space;

/* Describes a device. The host zeroes the struct and sets struct_size; the
 * plugin fills the fields that fit. The host copies the strings when
 * device_info returns. */
typedef struct kd_device_info {
  uint32_t struct_size; /* sizeof(kd_device_info) as the host knew it */
  uint32_t flags;       /* KD_DEVICE_* */

  const char *name;   /* product name: "ACME A100"; not unique */
  const char *kind;   /* "cpu", "gpu", "npu", "fpga" ..., or a vendor's own */
  const char *driver; /* driver and version, or NULL */

  /* The hardware's identity, the same through every plugin that drives it (a
   * GPU's driver UUID), all zero if there is none; and its PCI address (domain
   * << 16 | bus << 8 | device << 3 | function), 0 if there is none. */
  uint8_t uuid[16];
  uint64_t pci;
  uint32_t numa_node; /* the NUMA node's number plus 1; 0: not known */
  uint32_t compute_units;
  uint32_t max_in_flight; /* launches a stream holds before KD_BUSY; 0: many */
  uint32_t reserved;
  uint64_t peak_flops_f32; /* operations per second; 0: not known */
  uint64_t bandwidth;      /* device memory, bytes per second; 0: not known */

  uint32_t reserved_facts;
  /* The number of memory spaces (kd_plugin.space). Tensors live in the first by
   * default. 0: there is one, of which nothing is known. */
  uint32_t space_count;
} kd_device_info;

#ifdef __cplusplus
}
#endif
#endif /* KD_DEVICE_H */
