/* failures.h - which buffers hold the results of failed work.
 *
 * A stream reports a failure once, to its first waiter, and then works again. Other readers of the
 * failed work's output must get the failure as well. So each piece of work gets a ticket, and a
 * buffer keeps the ticket of the work that wrote it last. A wait that fails notes which tickets had
 * not been settled by then; a reader of a buffer looks up its ticket. */
#ifndef KEEL_FAILURES_H
#define KEEL_FAILURES_H

#include "device/device.h"
#include "threads/cancel.h"

/* A ticket for the work that the caller enqueues next on the device's stream, whose lock it
 * holds until then. 0: the device has no stream. */
static inline uint64_t keel_failures_ticket(keel_device *device) {
  return device->stream ? ++device->failures.ticket : 0;
}

/* Notes which work writes a buffer (NULL: none), under the same lock. */
static inline void keel_failures_writes(keel_buffer *buffer, uint64_t ticket) {
  /* relaxed: readers got the buffer from the thread that enqueued */
  if (buffer)
    atomic_store_explicit(&buffer->written, ticket, memory_order_relaxed);
}

/* Notes that the work up to a ticket has succeeded, since later work has. Takes no lock, so
 * that a callback may call it. */
static inline void keel_failures_passed(keel_device *device, uint64_t ticket) {
  _Atomic uint64_t *settled = &device->failures.settled;
  uint64_t was = atomic_load_explicit(settled, memory_order_relaxed);
  while (was < ticket && !atomic_compare_exchange_weak_explicit(
                             settled, &was, ticket, memory_order_release,
                             memory_order_relaxed)) {
  }
}

/* Makes room for the first notes. Returns KD_OK, KD_OUT_OF_MEMORY. */
keel_status keel_failures_init(keel_device *device);

/* Notes the status of a wait for all of the device's stream. The reason of a failure is this
 * thread's message, which then names the work as well. With the stream's lock held. */
void keel_failures_note(keel_device *device, keel_status status);

/* Returns the failure of the work that wrote a buffer, with its message, if a wait has
 * reported it; otherwise, and for NULL, KD_OK. _locked: the caller holds the lock of the
 * device's stream. */
keel_status keel_failures_check(const keel_buffer *buffer);
keel_status keel_failures_check_locked(const keel_buffer *buffer);

/* The same for a ticket. */
keel_status keel_failures_of(keel_device *device, uint64_t ticket);
keel_status keel_failures_of_locked(keel_device *device, uint64_t ticket);

/* Adds to this thread's message which work it was that wrote a buffer and has failed; nothing
 * where a wait has reported none. Returns `status`. */
keel_status keel_failures_while(const keel_buffer *buffer, keel_status status);

/* Adds the work whose status is not known yet, under the stream's lock. */
keel_status keel_failures_while_all(keel_device *device, keel_status status);

/* Waits for the work of a buffer's device, and returns the status of the work that wrote the
 * buffer. */
keel_status keel_failures_await(const keel_buffer *buffer);

/* Waits for the work that wrote a buffer, and returns its status. Others may give the device
 * work meanwhile. The thread's cancellation (threads/cancel.h) ends the wait, with its status; once
 * work has failed, nothing ends the wait for the rest, which has the reason. */
keel_status keel_failures_await_written(const keel_buffer *buffer);

void keel_failures_free(keel_device *device);

#endif /* KEEL_FAILURES_H */
