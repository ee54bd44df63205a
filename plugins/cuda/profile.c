/* profile.c - events around each command as profile records.
 *
 * The driver tells the time between two events alone, in milliseconds as a float. The
 * device's clock, as we tell it, began with an event that is recorded when a profile
 * starts; ticks are nanoseconds. */
#include <string.h>

#include "common/clock.h"
#include "cudev.h"

typedef struct cuda_note {
  struct cuda_note *next;
  cu_event begin, end;
  bool ended; /* `end` is recorded */
  kd_profile_record record;
} note;

/* ---- the clock ------------------------------------------------------------------------ */

/* Of the clock's beginning; then its ticks are those of the host's clock. */
static cu_result set_zero(kd_device *d) {
  uint64_t best = UINT64_MAX;
  cu_result code = CU_OK;
  for (int i = 0; code == CU_OK && i < 5; i++) {
    cu_event event = NULL;
    code = cu.EventCreate(&event, 0);
    if (code != CU_OK) return code;
    uint64_t before = clock_now();
    code = cu.EventRecord(event, d->lane.queue);
    if (code == CU_OK) code = cu.EventSynchronize(event);
    uint64_t span = clock_now() - before;
    if (code == CU_OK && span < best) {
      best = span;
      if (d->zero) cu.EventDestroy(d->zero);
      d->zero = event;
      d->zero_time = before + span / 2;
    } else {
      cu.EventDestroy(event);
    }
  }
  return code;
}

/* Ticks at an event that has happened. */
static cu_result ticks_at(kd_device *d, cu_event event, uint64_t *out_ticks) {
  float milliseconds = 0;
  cu_result code = cu.EventElapsedTime(&milliseconds, d->zero, event);
  double since = (double)milliseconds * 1e6;
  *out_ticks = d->zero_time + (uint64_t)(since > 0 ? since : 0);
  return code;
}

static kd_status clock_pair(kd_device *d, uint64_t *out_device,
                            uint64_t *out_host, uint64_t *out_frequency) {
  uint64_t best = UINT64_MAX, ticks = 0;
  cu_event event = NULL;
  CU_ENTER(d);
  cu_result code = cu.EventCreate(&event, 0);
  pthread_mutex_lock(&d->notes_lock);
  if (code == CU_OK && !d->zero) code = set_zero(d);
  for (int i = 0; code == CU_OK && i < 5; i++) {
    uint64_t before = clock_now();
    code = cu.EventRecord(event, d->lane.queue);
    if (code == CU_OK) code = cu.EventSynchronize(event);
    uint64_t span = clock_now() - before;
    if (code == CU_OK) code = ticks_at(d, event, &ticks);
    if (code != CU_OK || span >= best) continue;
    best = span;
    *out_device = ticks;
    *out_host = before + span / 2;
  }
  pthread_mutex_unlock(&d->notes_lock);
  if (event) cu.EventDestroy(event);
  *out_frequency = 1000000000u;
  return cuda_left(d, code, "reading the clock");
}

/* ---- notes ------------------------------------------------------------------------------ */

static void free_note(note *n) {
  if (n->begin) cu.EventDestroy(n->begin);
  if (n->end) cu.EventDestroy(n->end);
  cuda_host->release(cuda_host, n);
}

/* Under the lock: pushes those at the front that have ended; `all`: waits for each. */
static void push(kd_device *d, bool all) {
  while (d->notes && d->notes->ended) {
    note *n = d->notes;
    cu_result code = all ? cu.EventSynchronize(n->end) : cu.EventQuery(n->end);
    if (code == CU_NOT_READY) return;
    d->notes = n->next;
    if (!d->notes) d->notes_end = &d->notes;
    if (code == CU_OK) code = ticks_at(d, n->begin, &n->record.begin);
    if (code == CU_OK) code = ticks_at(d, n->end, &n->record.end);
    if (code == CU_OK) {
      if (n->record.end < n->record.begin) n->record.end = n->record.begin;
      cuda_host->profile_push(cuda_host, d, &n->record, 1,
                              sizeof(kd_profile_record));
    }
    free_note(n);
  }
}

void cuda_note_begin(kd_device *d, kd_stream *stream, uint32_t kind,
                     uint64_t bytes, uint64_t correlation, note **out_note) {
  note *n = cuda_host->allocate(cuda_host, sizeof *n, 0);
  if (!n) return;
  memset(n, 0, sizeof *n);
  n->record = (kd_profile_record){.correlation = correlation,
                                  .bytes = bytes,
                                  .kind = kind,
                                  .stream = stream->common.number};
  if (cu.EventCreate(&n->begin, 0) != CU_OK ||
      cu.EventCreate(&n->end, 0) != CU_OK ||
      cu.EventRecord(n->begin, stream->lane.queue) != CU_OK) {
    free_note(n);
    return;
  }
  pthread_mutex_lock(&d->notes_lock);
  *d->notes_end = n;
  d->notes_end = &n->next;
  pthread_mutex_unlock(&d->notes_lock);
  *out_note = n;
}

void cuda_note_end(kd_device *d, kd_stream *stream, note *n) {
  cu.EventRecord(n->end, stream->lane.queue);
  pthread_mutex_lock(&d->notes_lock);
  n->ended = true;
  push(d, false);
  pthread_mutex_unlock(&d->notes_lock);
}

static kd_status cuda_profile_start(kd_device *d) {
  CU_ENTER(d);
  pthread_mutex_lock(&d->notes_lock);
  cu_result code = d->notes ? CU_OK : set_zero(d);
  pthread_mutex_unlock(&d->notes_lock);
  if (code == CU_OK) atomic_store(&d->profiling, true);
  return cuda_left(d, code, "starting the clock");
}

/* No command is noted from now on; the records of those that were are waited for. */
static kd_status cuda_profile_stop(kd_device *d) {
  atomic_store(&d->profiling, false);
  CU_ENTER(d);
  pthread_mutex_lock(&d->notes_lock);
  push(d, true);
  pthread_mutex_unlock(&d->notes_lock);
  cuda_leave();
  return KD_OK;
}

void cuda_profile_begin(kd_device *d) {
  pthread_mutex_init(&d->notes_lock, NULL);
  d->notes_end = &d->notes;
}

void cuda_profile_end(kd_device *d) {
  while (d->notes) {
    note *n = d->notes;
    d->notes = n->next;
    free_note(n);
  }
  if (d->zero) cu.EventDestroy(d->zero);
  pthread_mutex_destroy(&d->notes_lock);
}

const kd_profile_table cuda_profile = {
    .struct_size = sizeof(kd_profile_table),
    .start = cuda_profile_start,
    .stop = cuda_profile_stop,
    .clock = clock_pair,
};
