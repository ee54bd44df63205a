/* kd/profile.h - device timestamps in the host's trace.
 *
 * An option. Records go to kd_host.profile_push, each with the correlation
 * number of the launch that caused it or, for a copy, of kd_stream_table.tag.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_PROFILE_H
#define KD_PROFILE_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of kd_profile_record. */
#define KD_PROFILE_KERNEL   1u
#define KD_PROFILE_COPY_IN  2u
#define KD_PROFILE_COPY_OUT 3u
#define KD_PROFILE_COPY     4u
#define KD_PROFILE_FILL     5u
#define KD_PROFILE_REGION   6u
#define KD_PROFILE_REPLAY   7u

/* Profiling of a device. All slots are required; any thread. */
typedef struct kd_profile_table {
  uint32_t struct_size; /* sizeof(kd_profile_table) as the plugin knew it */
  uint32_t reserved;

  /* Starts pushing records of what the device does.
   * Returns KD_OK, KD_UNAVAILABLE. */
  kd_status (*start)(kd_device *device);

  /* Stops pushing records, once those of all completed work have been pushed.
   * Returns KD_OK, KD_UNAVAILABLE. */
  kd_status (*stop)(kd_device *device);

  /* Reads the device's clock and the host's (CLOCK_MONOTONIC, nanoseconds) as
   * close together as possible. The frequency is in ticks per second.
   * Returns KD_OK, KD_UNAVAILABLE. */
  kd_status (*clock)(kd_device *device, uint64_t *out_device_ticks,
                     uint64_t *out_host_time, uint64_t *out_frequency);
} kd_profile_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_PROFILE_H */
