/* failures.c - remembers which work had failed when a wait reported it. */
#include "device/failures.h"

#include "device/stream.h"

#define WORDS_KEPT 64 /* the newest, whose messages are kept */
#define ROOM       8  /* at the beginning, so that the first needs no memory */

/* Work that was under way when a wait failed: tickets above `after`, up to `last`. */
struct keel_failed_work {
  uint64_t after, last;
  keel_status status;
  char *why; /* or NULL: forgotten */
};

keel_status keel_failures_init(keel_device *device) {
  device->failures.work = malloc(ROOM * sizeof *device->failures.work);
  if (!device->failures.work) return keel_no_memory(ROOM);
  device->failures.room = ROOM;
  return KD_OK;
}

static void add(keel_failures *all, keel_failed_work one) {
  if (all->count == all->room) {
    uint32_t room = 2 * all->room;
    keel_failed_work *more = realloc(all->work, room * sizeof *more);
    if (!more) { /* then what lies between counts as failed, too */
      free(one.why);
      all->work[all->count - 1].last = one.last;
      return;
    }
    all->work = more;
    all->room = room;
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
  if (status != KD_OK && all->ticket > settled)
    add(all, (keel_failed_work){.after = settled,
                                .last = all->ticket,
                                .status = status,
                                .why = strdup(keel_message())});
  keel_failures_passed(device, all->ticket);
}

/* The noted wait that covers a ticket, or NULL. They are in order. */
static const keel_failed_work *find(const keel_failures *all, uint64_t ticket) {
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
  const keel_failed_work *found = find(&device->failures, ticket);
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

keel_status keel_failures_await(const keel_buffer *buffer) {
  if (!buffer) return KD_OK;
  KEEL_TRY(keel_device_drain(buffer->heap->device));
  return keel_failures_check(buffer);
}

void keel_failures_free(keel_device *device) {
  for (uint32_t i = 0; i < device->failures.count; i++)
    free(device->failures.work[i].why);
  free(device->failures.work);
  device->failures.work = NULL;
  atomic_store_explicit(&device->failures.count, 0, memory_order_relaxed);
}
