/* kd/property.h - facts of a device beyond kd_device_info, for people and their
 * tools: the host bases no decision on them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_PROPERTY_H
#define KD_PROPERTY_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Types of a property's value. A reader treats a number that it does not know
 * as KD_PROPERTY_NONE. */
#define KD_PROPERTY_NONE    0u /* it cannot be read now */
#define KD_PROPERTY_INTEGER 1u
#define KD_PROPERTY_REAL    2u
#define KD_PROPERTY_TEXT    3u

/* The value changes over time, like a temperature. Other values stay the same
 * from `open` to `close`. */
#define KD_PROPERTY_CHANGES 0x1000000u

/* A property of a device. The host zeroes the struct and sets struct_size; the
 * plugin fills the fields that fit. The host copies the strings when `property`
 * returns.
 *
 * These names have one type and unit in all plugins:
 *
 *   architecture   text             as compilers call it: "sm_90", "x86-64"
 *   api            text             that drives the device: "OpenCL 3.0"
 *   clock          integer  Hz      maximum, of the compute units
 *   memory_clock   integer  Hz      maximum
 *   memory_bus     integer  bits    width
 *   cache          integer  bytes   of the last level, next to the memory
 *   local_memory   integer  bytes   maximum that the threads of a group share
 *   group_size     integer          maximum number of threads in a group
 *   peak_flops_f64, peak_flops_f16, peak_ops_i8
 *                  integer  1/s     like kd_device_info.peak_flops_f32
 *   power_limit    real     W
 *   power          real     W       drawn now
 *   temperature    real     C       now
 *
 * Any other name begins with the plugin's name and a dot, "acme.lanes", and its
 * unit has no prefix: Hz rather than MHz. Facts of kd_device_info are not
 * properties. */
typedef struct kd_property {
  uint32_t struct_size; /* sizeof(kd_property) as the host knew it */
  uint32_t flags;       /* KD_PROPERTY_CHANGES */
  const char *name;     /* [a-z][a-z0-9_.-]{0,62}; each once per device */
  const char *unit;     /* at most 15 bytes; NULL: a plain number or text */
  uint32_t type;        /* KD_PROPERTY_*; says which of these is its value */
  uint32_t reserved;
  int64_t integer;
  double real;      /* finite */
  const char *text; /* one line of UTF-8, at most 255 bytes */
} kd_property;

#ifdef __cplusplus
}
#endif
#endif /* KD_PROPERTY_H */
