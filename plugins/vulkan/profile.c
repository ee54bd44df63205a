/* profile.c - time stamps of the queue as profile records; lane.c pushes them. */

#include "common/clock.h"
#include "vlk.h"

static kd_status vulkan_profile_start(kd_device *d) {
  if (d->tick <= 0)
    return FAIL(KD_UNAVAILABLE, "the queues of %s have no time stamps",
                d->name);
  atomic_store(&d->profiling, true);
  return KD_OK;
}

/* No launch is noted from now on; the records of what is done are pushed. */
static kd_status vulkan_profile_stop(kd_device *d) {
  atomic_store(&d->profiling, false);
  for (uint32_t i = 0; i < d->lane_count; i++)
    vlk_lane_reap(&d->lanes[i]);
  return KD_OK;
}

/* The time stamp of an empty batch, between two looks at the host's clock; the
 * closest of some. */
static kd_status clock_pair(kd_device *d, uint64_t *out_device,
                            uint64_t *out_host, uint64_t *out_frequency) {
  uint64_t best = UINT64_MAX;
  kd_status status = KD_OK;
  if (d->tick <= 0)
    return FAIL(KD_UNAVAILABLE, "the queues of %s have no time stamps",
                d->name);
  pthread_mutex_lock(&d->own_lock);
  for (int i = 0; status == KD_OK && i < 5; i++) {
    vlk_batch *b = NULL;
    uint64_t before = clock_now();
    status = vlk_stream_batch(d->own, &b);
    if (status == KD_OK) status = vlk_stream_finish(d->own);
    uint64_t after = clock_now();
    if (status != KD_OK || after - before >= best) continue;
    best = after - before;
    *out_device = d->own->last->end_time;
    *out_host = before + best / 2;
  }
  pthread_mutex_unlock(&d->own_lock);
  *out_frequency = (uint64_t)(1e9 / d->tick + 0.5);
  return status;
}

const kd_profile_table vlk_profile = {
    .struct_size = sizeof(kd_profile_table),
    .start = vulkan_profile_start,
    .stop = vulkan_profile_stop,
    .clock = clock_pair,
};
