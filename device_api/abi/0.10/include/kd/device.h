/* kd/device.h - the facts of a device.
 *
 * A plugin states them once; the host asks before it opens the device.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_DEVICE_H
#define KD_DEVICE_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel's or copy's work is done when the call returns, so streams are of
 * no use and outputs are ready at once. */
#define KD_DEVICE_INLINE 0x1u
/* The device works on host addresses: a host pointer with its first space's
 * alignment is as good as its own memory, and the host reads and writes its
 * buffers directly. Memory spaces
 * then give addresses that both sides may use. */
#define KD_DEVICE_HOST_ADDRESSABLE 0x2u
/* Silicon shared with the host (an integrated GPU): memory is not extra. */
#define KD_DEVICE_INTEGRATED 0x1000000u
/* Simulated: a software device that stands in for a real one. */
#define KD_DEVICE_SOFTWARE 0x2000000u

/* Flags of a memory space. */
#define KD_SPACE_DEVICE       0x1u  /* fastest for kernels */
#define KD_SPACE_HOST_VISIBLE 0x2u  /* `map` or the address work on the host */
#define KD_SPACE_COHERENT     0x4u  /* no flush or invalidate needed */
#define KD_SPACE_PINNED       0x10u /* host memory that copies are fast from */
#define KD_SPACE_CACHED       0x1000000u /* host reads are fast */

/* One kind of memory that a device can use. The host zeroes it, sets
 * struct_size, and the plugin fills what fits. */
typedef struct kd_space {
  uint32_t struct_size; /* sizeof(kd_space) as the host knew it */
  uint32_t flags;       /* KD_SPACE_* */
  uint32_t alignment;   /* of every allocation, bytes; 0: 64 */
  uint32_t reserved;
  uint64_t size;       /* bytes in all; 0: not known */
  uint64_t max_buffer; /* largest single allocation, bytes; 0: no limit */
} kd_space;

/* What a device is. The host zeroes it, sets struct_size, and the plugin fills
 * what fits. Strings are copied by the host when device_info returns. */
typedef struct kd_device_info {
  uint32_t struct_size; /* sizeof(kd_device_info) as the host knew it */
  uint32_t flags;       /* KD_DEVICE_* */

  const char *name;   /* the product's: "ACME A100"; not unique */
  const char *kind;   /* "cpu", "gpu", "npu", "fpga" ..., or a vendor's word */
  const char *driver; /* driver and version, or NULL */

  /* The silicon's identity, equal through every plugin that reaches it (a
   * GPU's driver UUID), all zero where there is none; and its PCI address
   * (domain << 16 | bus << 8 | device << 3 | function), 0 where there is none. */
  uint8_t uuid[16];
  uint64_t pci;
  uint32_t numa_node; /* plus 1; 0: not known */
  uint32_t compute_units;
  uint32_t max_in_flight; /* launches a stream takes before KD_BUSY; 0: many */
  uint32_t reserved;
  uint64_t peak_flops_f32; /* operations a second, 0: not known */
  uint64_t bandwidth;      /* of device memory, bytes a second, 0: not known */

  uint32_t reserved_facts;
  /* Memory spaces (kd_plugin.space), of which the first is where tensors live by
   * default; 0: one, of which nothing is known. */
  uint32_t space_count;
} kd_device_info;

#ifdef __cplusplus
}
#endif
#endif /* KD_DEVICE_H */
