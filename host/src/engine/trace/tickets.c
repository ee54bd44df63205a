/* tickets.c - times of launches by devices' clocks, summed by step.
 *
 * A launch's number, which comes back in a device's records, is made of the ticket of the
 * step that launched and a serial number; a ticket, of the profile's session and a place:
 *
 *   12 bits session   20 bits place   32 bits serial
 *
 * Sums lie in chunks that are never freed, so that records take no lock. */
#include "trace/tickets.h"

#define CHUNK  1024u
#define CHUNKS 1024u
#define PLACES (CHUNK * CHUNKS) /* 2^20 */

typedef struct sum {
  _Atomic uint64_t time, records; /* relaxed: read when the work has ended */
} sum;

static _Atomic(sum *) chunks[CHUNKS]; /* put there with release, acquired */
static atomic_uint next = 1;          /* no ticket has place 0 */
static atomic_uint session;           /* 0: there was none */

static sum *sum_at(uint32_t place) {
  sum *chunk =
      atomic_load_explicit(&chunks[place / CHUNK], memory_order_acquire);
  return chunk ? &chunk[place % CHUNK] : NULL;
}

/* NULL where the ticket is none, or of an older session. */
static sum *tickets_sum_of(uint32_t ticket) {
  if (!ticket || ticket / PLACES != atomic_load(&session)) return NULL;
  return sum_at(ticket % PLACES);
}

void keel_tickets_begin(void) {
  atomic_store(&session, atomic_load(&session) % 4095 + 1);
  uint32_t count = atomic_exchange(&next, 1);
  for (uint32_t i = 1; i < count && i < PLACES; i++) {
    sum *at = sum_at(i);
    if (!at) continue;
    atomic_store(&at->time, 0);
    atomic_store(&at->records, 0);
  }
}

uint32_t keel_ticket_take(void) {
  uint32_t place = atomic_fetch_add(&next, 1);
  if (place >= PLACES) {
    atomic_store(&next, PLACES);
    return 0;
  }
  if (!sum_at(place)) {
    sum *fresh = calloc(CHUNK, sizeof *fresh), *none = NULL;
    if (!fresh) return 0;
    /* release: a reader that finds it sees zeros */
    if (!atomic_compare_exchange_strong_explicit(&chunks[place / CHUNK], &none,
                                                 fresh, memory_order_release,
                                                 memory_order_acquire))
      free(fresh);
  }
  return atomic_load(&session) * PLACES + place;
}

void keel_ticket_add(uint64_t number, uint64_t time) {
  sum *to = tickets_sum_of((uint32_t)(number >> 32));
  if (!to) return;
  atomic_fetch_add_explicit(&to->time, time, memory_order_relaxed);
  atomic_fetch_add_explicit(&to->records, 1, memory_order_relaxed);
}

bool keel_ticket_read(uint32_t ticket, uint64_t *out_time) {
  sum *at = tickets_sum_of(ticket);
  *out_time = at ? atomic_load(&at->time) : 0;
  return at && atomic_load(&at->records) > 0;
}
