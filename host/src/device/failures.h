/* failures.h - whose memory failed work has left wrong.
 *
 * A stream tells a failure once: who waits for it first is told, and the stream works again.
 * What the same work has written for others would then pass for good. So each piece of work
 * has a ticket, and a buffer that of the work that wrote it last; a wait that fails notes
 * the tickets that it covers, and whoever reads a buffer asks for its own. */
#ifndef KEEL_FAILURES_H
#define KEEL_FAILURES_H

#include "device/device.h"

/* The ticket of the work that is enqueued next on the device's stream; 0 where the device
 * has none. With the stream's lock held until it is enqueued. */
static inline uint64_t keel_failures_ticket(keel_device *device) {
  return device->stream ? ++device->failures.ticket : 0;
}

/* Says what writes a buffer, or NULL. Until that is enqueued the stream's lock is held. */
static inline void keel_failures_writes(keel_buffer *buffer, uint64_t ticket) {
  /* relaxed: who reads it has the buffer from who enqueued */
  if (buffer)
    atomic_store_explicit(&buffer->written, ticket, memory_order_relaxed);
}

/* Notes that the work up to a ticket has ended well, as a copy behind it has. Takes no lock. */
static inline void keel_failures_passed(keel_device *device, uint64_t ticket) {
  _Atomic uint64_t *settled = &device->failures.settled;
  uint64_t was = atomic_load_explicit(settled, memory_order_relaxed);
  while (was < ticket && !atomic_compare_exchange_weak_explicit(
                             settled, &was, ticket, memory_order_relaxed,
                             memory_order_relaxed)) {
  }
}

/* Notes how a wait for all of the device's stream has ended, and the reason, which is this
 * thread's message. With the stream's lock held. */
void keel_failures_note(keel_device *device, keel_status status);

/* How the work has ended that wrote a buffer, as far as it has been waited for. Returns
 * KD_OK, or the failure, with its message. NULL: KD_OK. _locked: the lock of the stream of
 * the buffer's device is held. */
keel_status keel_failures_check(const keel_buffer *buffer);
keel_status keel_failures_check_locked(const keel_buffer *buffer);

/* Waits for the work of a buffer's device, and returns how the buffer's has ended. */
keel_status keel_failures_await(const keel_buffer *buffer);

void keel_failures_free(keel_device *device);

#endif /* KEEL_FAILURES_H */
