/* room.h - back-pressure: a full device returns KD_BUSY, and accepts work again when some
 * of its work is done. */
#ifndef KEEL_ROOM_H
#define KEEL_ROOM_H

#include "device/device.h"

/* The state of one repeated call; initialise with {0}. */
typedef struct keel_patience {
  uint32_t tries;
  /* when to wait for the whole stream; on the clock of keel_now */
  uint64_t until;
} keel_patience;

/* Waits, longer each time. Returns KD_OK (try again), the failure of the stream's work, or
 * KD_BUSY (all work is done and there still is no room), with a message. */
kd_status keel_room_wait(keel_device *device, kd_stream *stream,
                         keel_patience *patience);

/* Whether to repeat the call that returned *status. The caller keeps holding the stream's
 * lock: no other thread could enqueue either. */
static inline bool keel_room_awaited(keel_device *device, kd_stream *stream,
                                     keel_patience *patience,
                                     kd_status *status) {
  if (*status != KD_BUSY || !stream) return false;
  *status = keel_room_wait(device, stream, patience);
  return *status == KD_OK;
}

#endif /* KEEL_ROOM_H */
