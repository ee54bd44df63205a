/* failures.c - remembers which work had failed when a wait reported it. */
#include "device/failures.h"

#include <time.h>

#include "device/lost.h"
#include "device/stream.h"
#include "device/work.h"

#define WORDS_KEPT 64 /* the newest, whose messages are kept */
#define ROOM       8  /* at the beginning, so that the first needs no memory */
/* nanoseconds between checks for cancellation of a wait */
#define SLICE UINT64_C(5000000)

/* Work that was under way when a wait failed: tickets above `after`, up to `last`. */
struct keel_failed_work {
  uint64_t after, last;
  keel_status status;
  char *why; /* or NULL: forgotten */
};

keel_status keel_failures_init(keel_device *device) {
  device->failures.work = malloc(ROOM * sizeof *device->failures.work);
  if (!device->failures.work) return keel_no_memory(ROOM);
  device->failures.capacity = ROOM;
  return KD_OK;
}

static void failures_add(keel_failures *all, keel_failed_work one) {
  if (all->count == all->capacity) {
    uint32_t capacity = 2 * all->capacity;
    keel_failed_work *more = realloc(all->work, capacity * sizeof *more);
    if (!more) { /* then the work between counts as failed, too */
      free(one.why);
      all->work[all->count - 1].last = one.last;
      return;
    }
    all->work = more;
    all->capacity = capacity;
  }
  if (all->count >= WORDS_KEPT) {
    free(all->work[all->count - WORDS_KEPT].why);
    all->work[all->count - WORDS_KEPT].why = NULL;
  }
  all->work[all->count] = one;
  /* release: pairs with the acquire of keel_failures_check */
  atomic_store_explicit(&all->count, all->count + 1, memory_order_release);
}

void keel_failures_note(keel_device *device, keel_status status) {
  keel_failures *all = &device->failures;
  assert(KEEL_IS_LOCKED(&device->stream_lock));
  uint64_t settled = atomic_load_explicit(&all->settled, memory_order_relaxed);
  if (status != KD_OK && all->ticket > settled) {
    keel_failures_while_all(device, status);
    failures_add(all, (keel_failed_work){.after = settled,
                                         .last = all->ticket,
                                         .status = status,
                                         .why = strdup(keel_message())});
  }
  keel_failures_passed(device, all->ticket);
}

/* The noted wait that covers a ticket, or NULL. They are in order. */
static const keel_failed_work *failures_find(const keel_failures *all,
                                             uint64_t ticket) {
  uint32_t low = 0, high = all->count;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (all->work[middle].last < ticket)
      low = middle + 1;
    else
      high = middle;
  }
  return low < all->count && all->work[low].after < ticket ? &all->work[low]
                                                           : NULL;
}

keel_status keel_failures_of_locked(keel_device *device, uint64_t ticket) {
  const keel_failed_work *found = failures_find(&device->failures, ticket);
  if (!found) return KD_OK;
  return found->why ? keel_fail_text(found->status, found->why)
                    : keel_fail(found->status, "%s: work failed (%s)",
                                device->name, keel_status_name(found->status));
}

keel_status keel_failures_of(keel_device *device, uint64_t ticket) {
  if (!atomic_load_explicit(&device->failures.count, memory_order_acquire))
    return KD_OK;
  pthread_mutex_lock(&device->stream_lock);
  keel_status status = keel_failures_of_locked(device, ticket);
  pthread_mutex_unlock(&device->stream_lock);
  return status;
}

static uint64_t ticket_of(const keel_buffer *buffer) {
  /* relaxed: the reader got the buffer from the thread that enqueued */
  return atomic_load_explicit(&buffer->written, memory_order_relaxed);
}

keel_status keel_failures_check_locked(const keel_buffer *buffer) {
  keel_device *device = buffer ? buffer->heap->device : NULL;
  return device ? keel_failures_of_locked(device, ticket_of(buffer)) : KD_OK;
}

keel_status keel_failures_check(const keel_buffer *buffer) {
  keel_device *device = buffer ? buffer->heap->device : NULL;
  return device ? keel_failures_of(device, ticket_of(buffer)) : KD_OK;
}

keel_status keel_failures_while(const keel_buffer *buffer, keel_status status) {
  keel_device *device = buffer ? buffer->heap->device : NULL;
  if (!device) return status;
  pthread_mutex_lock(&device->stream_lock);
  const keel_failed_work *found =
      failures_find(&device->failures, ticket_of(buffer));
  if (found) keel_work_while(device, found->after, found->last, status);
  pthread_mutex_unlock(&device->stream_lock);
  return status;
}

keel_status keel_failures_while_all(keel_device *device, keel_status status) {
  const keel_failures *all = &device->failures;
  uint64_t settled = atomic_load_explicit(&all->settled, memory_order_relaxed);
  return settled < all->ticket
             ? keel_work_while(device, settled, all->ticket, status)
             : status;
}

keel_status keel_failures_await(const keel_buffer *buffer) {
  if (!buffer) return KD_OK;
  KEEL_TRY(keel_device_drain(buffer->heap->device));
  return keel_failures_check(buffer);
}

/* ---- waiting ---------------------------------------------------------------------- */

/* Nanoseconds until the next check for cancellation of a wait, which is not due yet. */
static uint64_t slice_of(const keel_cancellation *cancellation) {
  uint64_t now = keel_now(), deadline = cancellation->deadline;
  uint64_t left = deadline > now ? deadline - now : 0;
  return deadline && left < SLICE ? left : SLICE;
}

/* Takes the stream's lock, which a thread may hold that waits for all of the stream. False: the
 * cancellation is due. */
static bool lock_stream(keel_device *device) {
  const keel_cancellation *cancellation = keel_cancellation_in_use();
  if (!cancellation) return pthread_mutex_lock(&device->stream_lock) == 0;
  while (pthread_mutex_trylock(&device->stream_lock)) {
    struct timespec until;
    if (keel_cancellation_is_due(cancellation)) return false;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t end = (uint64_t)until.tv_nsec + slice_of(cancellation);
    until.tv_sec += (time_t)(end / 1000000000u);
    until.tv_nsec = (long)(end % 1000000000u);
    if (!pthread_mutex_timedlock(&device->stream_lock, &until)) break;
  }
  return true;
}

/* Waits for an event. Returns how the work before it ended, or KD_DEADLINE_EXCEEDED: the
 * cancellation is due. */
static kd_status failures_wait_for(const kd_event_table *events,
                                   kd_event *event) {
  const keel_cancellation *cancellation = keel_cancellation_in_use();
  for (;;) {
    /* poll first: blocking costs a context switch */
    kd_status status = events->query(event);
    if (status != KD_BUSY) return status;
    if (!cancellation) return events->wait(event, UINT64_MAX);
    if (keel_cancellation_is_due(cancellation)) return KD_DEADLINE_EXCEEDED;
    status = events->wait(event, slice_of(cancellation));
    /* which may be the work's own failure */
    if (status != KD_DEADLINE_EXCEEDED) return status;
  }
}

/* An event that no work is before: the device's spare one, or another. */
static kd_status take_event(keel_device *device, kd_event **out_event) {
  /* acquire: pairs with the release of leave_event */
  *out_event = atomic_exchange_explicit(&device->spare_event, NULL,
                                        memory_order_acquire);
  return *out_event
             ? KD_OK
             : device->plugin->events.create(device->handle, 0, out_event);
}

static void leave_event(keel_device *device, kd_event *event) {
  kd_event *none = NULL;
  if (!atomic_compare_exchange_strong_explicit(&device->spare_event, &none,
                                               event, memory_order_release,
                                               memory_order_relaxed))
    device->plugin->events.destroy(event);
}

/* Waits until the work up to a ticket has ended. Returns KD_OK, or that it is not known to
 * have succeeded. */
static kd_status wait_until(keel_device *device, uint64_t ticket) {
  kd_event *event = NULL;
  keel_clear_error();
  kd_status status = take_event(device, &event);
  if (status != KD_OK) return status;
  if (!lock_stream(device)) {
    leave_event(device, event);
    return KD_DEADLINE_EXCEEDED;
  }
  uint64_t behind = device->failures.ticket;
  assert(behind >= ticket);
  status = keel_failures_of_locked(device, ticket);
  if (status == KD_OK)
    status = keel_stream_record(device, device->stream, event);
  pthread_mutex_unlock(&device->stream_lock);
  if (status == KD_OK)
    status = failures_wait_for(&device->plugin->events, event);
  if (status != KD_OK) {
    device->plugin->events.destroy(event);
    return status;
  }
  leave_event(device, event);
  keel_failures_passed(device, behind);
  keel_stream_reap(device);
  return KD_OK;
}

keel_status keel_failures_await_written(const keel_buffer *buffer) {
  keel_device *device = buffer ? buffer->heap->device : NULL;
  uint64_t ticket = device && device->stream ? ticket_of(buffer) : 0;
  const keel_failures *all = device ? &device->failures : NULL;
  if (!ticket) return KD_OK;
  if (atomic_load(&device->lost)) return keel_device_drain(device);
  /* acquire: what the work wrote */
  if (atomic_load_explicit(&all->settled, memory_order_acquire) < ticket) {
    const keel_cancellation *cancellation = keel_cancellation_in_use();
    if (wait_until(device, ticket) == KD_OK) return KD_OK;
    if (cancellation && keel_cancellation_is_due(cancellation))
      return keel_while(keel_cancellation_fail(cancellation, NULL, NULL),
                        "while %s completed its earlier work", device->name);
    /* a wait for all of the stream gets the reason, and records which work it was */
    keel_status status = keel_device_drain(device);
    if (status == KD_DEVICE_LOST ||
        atomic_load_explicit(&all->settled, memory_order_acquire) < ticket)
      return status;
  }
  return keel_failures_of(device, ticket);
}

void keel_failures_free(keel_device *device) {
  for (uint32_t i = 0; i < device->failures.count; i++)
    free(device->failures.work[i].why);
  free(device->failures.work);
  free(device->failures.noted);
  device->failures.noted = NULL;
  device->failures.work = NULL;
  atomic_store_explicit(&device->failures.count, 0, memory_order_relaxed);
}
