/* backoff.c - waits for room in a full stream. */
#include "device/backoff.h"

#include <sched.h>
#include <time.h>

#include "device/failures.h"

#define YIELDS      16               /* that only yield */
#define FIRST_DELAY UINT64_C(10000)  /* nanoseconds; doubled each time */
#define MAX_DELAY   UINT64_C(500000) /* nanoseconds */
/* nanoseconds until all work of the stream is waited for */
#define LIMIT UINT64_C(1000000000)

static void back_off(uint32_t number) {
  uint64_t time = number < 6 ? FIRST_DELAY << number : MAX_DELAY;
  if (time > MAX_DELAY) time = MAX_DELAY;
  nanosleep(&(struct timespec){.tv_nsec = (long)time}, NULL);
}

/* If the stream is full for long, waits for all of its work. After that there must be room,
 * unless other streams fill it; they get the same time again. */
static kd_status wait_for_all(keel_device *device, kd_stream *stream) {
  const kd_stream_table *streams = &device->plugin->streams;
  kd_status status =
      streams->synchronize ? streams->synchronize(stream) : KD_OK;
  if (status != KD_OK && !keel_has_error())
    keel_fail(status, "%s: work failed (%s)", device->name,
              keel_status_name(status));
  if (streams->synchronize && stream == device->stream)
    keel_failures_note(device, status);
  return status;
}

kd_status keel_backoff_wait(keel_device *device, kd_stream *stream,
                            keel_backoff *backoff) {
  uint64_t now = keel_now();
  uint32_t tries = backoff->tries++;
  if (!tries) {
    backoff->until = now + LIMIT;
    /* work that the plugin holds back would never complete */
    if (device->plugin->streams.flush) device->plugin->streams.flush(stream);
  }
  keel_clear_error();
  if (tries < YIELDS) {
    sched_yield();
    return KD_OK;
  }
  if (now < backoff->until) {
    back_off(tries - YIELDS);
    return KD_OK;
  }
  if (now > backoff->until + LIMIT)
    return keel_fail(KD_BUSY,
                     "%s accepts no work (KD_BUSY), although all work of its"
                     " stream is done",
                     device->name);
  kd_status status = wait_for_all(device, stream);
  if (status == KD_OK) back_off(6);
  return status;
}
