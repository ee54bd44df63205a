/* kd/property.h - what is known of a device beside kd_device_info, for people
 * and their tools: the host decides nothing by it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_PROPERTY_H
#define KD_PROPERTY_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a property's value is. A reader takes a number that it does not know for
 * KD_PROPERTY_NONE. */
#define KD_PROPERTY_NONE    0u /* it can't be read now */
#define KD_PROPERTY_INTEGER 1u
#define KD_PROPERTY_REAL    2u
#define KD_PROPERTY_TEXT    3u

/* The value is of the moment it is read: a temperature, say. Others stay from
 * `open` to `close`. */
#define KD_PROPERTY_CHANGES 0x1000000u

/* A property of a device. The host zeroes it, sets struct_size, and the plugin
 * fills what fits. Strings are copied by the host when `property` returns.
 *
 * These names have one type and unit in all plugins:
 *
 *   architecture   text             as compilers call it: "sm_90", "x86-64"
 *   api            text             that the device is driven by: "OpenCL 3.0"
 *   clock          integer  Hz      of the compute units, at most
 *   memory_clock   integer  Hz
 *   memory_bus     integer  bits    its width
 *   cache          integer  bytes   the one next to the memory
 *   local_memory   integer  bytes   what the threads of a group share, at most
 *   group_size     integer          threads of a group, at most
 *   peak_flops_f64, peak_flops_f16, peak_ops_i8
 *                  integer  1/s     as kd_device_info.peak_flops_f32
 *   power_limit    real     W
 *   power          real     W       drawn now
 *   temperature    real     C       now
 *
 * Any other begins with the plugin's name and a point, "acme.lanes", and has a
 * unit without a prefix: Hz rather than MHz. What kd_device_info has is no
 * property. */
typedef struct kd_property {
  uint32_t struct_size; /* sizeof(kd_property) as the host knew it */
  uint32_t flags;       /* KD_PROPERTY_CHANGES */
  const char *name;     /* [a-z][a-z0-9_.-]{0,62}; each once a device */
  const char *unit;     /* at most 15 bytes; NULL: a number or a text alone */
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
