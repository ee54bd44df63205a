/* backoff.h - back-pressure: a full device returns KD_BUSY, and accepts work again when
 * some of its work is done. */
#ifndef KEEL_BACKOFF_H
#define KEEL_BACKOFF_H

#include "device/device.h"

/* The state of one repeated call; initialise with {0}. */
typedef struct keel_backoff {
  uint32_t tries;
  /* when to wait for the whole stream; on the clock of keel_now */
  uint64_t until;
} keel_backoff;

/* Waits, longer each time. Returns KD_OK (try again), the failure of the stream's work, or KD_BUSY
 * (all work is done and the stream is still full), with a message. */
kd_status keel_backoff_wait(keel_device *device, kd_stream *stream,
                            keel_backoff *backoff);

/* Whether to repeat the call that returned *status. The caller keeps holding the stream's
 * lock: no other thread could enqueue either. */
static inline bool keel_backoff_retry(keel_device *device, kd_stream *stream,
                                      keel_backoff *backoff,
                                      kd_status *status) {
  if (*status != KD_BUSY || !stream) return false;
  *status = keel_backoff_wait(device, stream, backoff);
  return *status == KD_OK;
}

#endif /* KEEL_BACKOFF_H */
