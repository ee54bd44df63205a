/* room.c - waits for room in a full stream. */
#include "device/room.h"

#include <sched.h>
#include <time.h>

#include "device/device.h"

#define SHORT_TRIES 16               /* that only yield */
#define FIRST_NAP   UINT64_C(10000)  /* nanoseconds; doubled each time */
#define LONGEST_NAP UINT64_C(500000) /* nanoseconds */
/* nanoseconds until all work of the stream is waited for */
#define LIMIT UINT64_C(1000000000)

static void nap(uint32_t number) {
  uint64_t time = number < 6 ? FIRST_NAP << number : LONGEST_NAP;
  if (time > LONGEST_NAP) time = LONGEST_NAP;
  nanosleep(&(struct timespec){.tv_nsec = (long)time}, NULL);
}

/* If the stream is full for long, waits for all of its work. After that there must be room,
 * unless other streams fill it; they get the same time again. */
static kd_status wait_for_all(keel_device *device, kd_stream *stream) {
  const kd_stream_table *streams = &device->plugin->streams;
  kd_status status =
      streams->synchronize ? streams->synchronize(stream) : KD_OK;
  if (status != KD_OK && !keel_said())
    keel_fail(status, "%s: work failed (%s)", device->name,
              keel_status_name(status));
  return status;
}

kd_status keel_room_wait(keel_device *device, kd_stream *stream,
                         keel_patience *patience) {
  uint64_t now = keel_now();
  uint32_t tries = patience->tries++;
  if (!tries) {
    patience->until = now + LIMIT;
    /* work that the plugin holds back would never complete */
    if (device->plugin->streams.flush) device->plugin->streams.flush(stream);
  }
  keel_hush();
  if (tries < SHORT_TRIES) {
    sched_yield();
    return KD_OK;
  }
  if (now < patience->until) {
    nap(tries - SHORT_TRIES);
    return KD_OK;
  }
  if (now > patience->until + LIMIT)
    return keel_fail(KD_BUSY,
                     "%s accepts no work (KD_BUSY), although all work of its"
                     " stream is done",
                     device->name);
  kd_status status = wait_for_all(device, stream);
  if (status == KD_OK) nap(6);
  return status;
}
