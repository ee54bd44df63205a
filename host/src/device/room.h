/* room.h - back-pressure: a device that can take no more work says KD_BUSY, and takes it
 * when some of what is under way has ended. */
#ifndef KEEL_ROOM_H
#define KEEL_ROOM_H

#include "device/device.h"

/* Of one call that is repeated; begins as {0}. */
typedef struct keel_patience {
  uint32_t tries;
  uint64_t until; /* when the stream is waited for as a whole; keel_now */
} keel_patience;

/* Waits a moment, longer each time. Returns KD_OK: try again. Else what the stream's work
 * failed with, or KD_BUSY where nothing of it is left and there is no room still; both with
 * a message. */
kd_status keel_room_wait(keel_device *device, kd_stream *stream,
                         keel_patience *patience);

/* Whether the call that gave *status is to be made again. Whoever calls holds the stream's
 * lock, and keeps it: nobody else could enqueue either. */
static inline bool keel_room_awaited(keel_device *device, kd_stream *stream,
                                     keel_patience *patience,
                                     kd_status *status) {
  if (*status != KD_BUSY || !stream) return false;
  *status = keel_room_wait(device, stream, patience);
  return *status == KD_OK;
}

#endif /* KEEL_ROOM_H */
