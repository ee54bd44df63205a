/* stream.c - work in streams as rules enqueue it, and waiting for it. */
#include "suite/suite.h"

/* How long what needs no waiting may take, on a fast device. */
#define SOON (2 * KC_S)

void kc_need_queues(void) {
  if (kc_info()->flags & KD_DEVICE_INLINE)
    kc_unclaimed("an INLINE device does its work at once");
}

kd_stream *kc_stream_or_none(void) {
  return kc_claims(KC_ASYNC) ? kc_stream_make(kc_device()) : NULL;
}

/* ---- copies and fills ---------------------------------------------------------------- */

kd_status kc_try_copy_in(kd_stream *stream, const kc_buffer *to,
                         uint64_t offset, const void *data, uint64_t size) {
  return kp.m.copy_in(to->device, stream, data, to->handle, to->offset + offset,
                      size);
}

kd_status kc_try_copy_out(kd_stream *stream, const kc_buffer *from,
                          uint64_t offset, void *data, uint64_t size) {
  return kp.m.copy_out(from->device, stream, from->handle,
                       from->offset + offset, data, size);
}

kd_status kc_try_copy(kd_stream *stream, const kc_buffer *from,
                      const kc_buffer *to, uint64_t size) {
  return kp.m.copy(from->device, stream, from->handle, from->offset, to->handle,
                   to->offset, size);
}

kd_status kc_try_fill(kd_stream *stream, const kc_buffer *to, uint64_t size,
                      const void *pattern, uint32_t pattern_size) {
  return kp.m.fill(to->device, stream, to->handle, to->offset, size, pattern,
                   pattern_size);
}

void kc_copy_in(kd_stream *stream, const kc_buffer *to, uint64_t offset,
                const void *data, uint64_t size) {
  kc_ok(kc_try_copy_in(stream, to, offset, data, size), "copy_in");
}

void kc_copy_out(kd_stream *stream, const kc_buffer *from, uint64_t offset,
                 void *data, uint64_t size) {
  kc_ok(kc_try_copy_out(stream, from, offset, data, size), "copy_out");
}

void kc_copy(kd_stream *stream, const kc_buffer *from, const kc_buffer *to,
             uint64_t size) {
  kc_ok(kc_try_copy(stream, from, to, size), "copy");
}

void kc_fill(kd_stream *stream, const kc_buffer *to, uint64_t size,
             const void *pattern, uint32_t pattern_size) {
  kc_ok(kc_try_fill(stream, to, size, pattern, pattern_size), "fill");
}

/* ---- events and waits ---------------------------------------------------------------- */

void kc_record(kd_event *event, kd_stream *stream) {
  kc_ok(kp.e.record(event, stream), "event.record");
}

void kc_wait_on(kd_stream *stream, kd_event *event) {
  kc_ok(kp.s.wait(stream, event), "stream.wait");
}

void kc_await(kd_event *event) {
  kc_ok(kp.e.wait(event, UINT64_MAX), "event.wait");
}

void kc_drain(kd_stream *stream) {
  if (stream) kc_ok(kc_finish(stream), "waiting");
}

static bool is_soon(uint64_t since) {
  double limit = (double)SOON * kc.factor * kc_patience();
  return (double)(kc_now() - since) < limit;
}

kd_status kc_poll(kd_event *event) {
  uint64_t begin = kc_now();
  kd_status status = KD_BUSY;
  while (status == KD_BUSY && is_soon(begin)) {
    status = kp.e.query(event);
    kc_sleep(KC_MS);
    kc_beat();
  }
  return status;
}

bool kc_counted(const atomic_uint *counter) {
  uint64_t begin = kc_now();
  while (!atomic_load(counter) && is_soon(begin)) {
    kc_sleep(KC_MS / 5);
    kc_beat();
  }
  return atomic_load(counter) > 0;
}

/* ---- there and back -------------------------------------------------------------------- */

kc_trip kc_trip_make(uint64_t size) {
  return (kc_trip){.buffer = kc_buffer_make(size),
                   .in = kc_lend(size),
                   .out = kc_lend(size),
                   .size = size};
}

void kc_trip_enqueue(const kc_trip *trip, kd_stream *stream, uint64_t seed,
                     uint64_t busy) {
  kc_pattern(trip->in, trip->size, seed);
  memset(trip->out, 0, trip->size);
  if (busy) kc_busy(stream, busy);
  kc_copy_in(stream, trip->buffer, 0, trip->in, trip->size);
  kc_copy_out(stream, trip->buffer, 0, trip->out, trip->size);
}

uint64_t kc_trip_differs(const kc_trip *trip) {
  return kc_differs(trip->in, trip->out, trip->size);
}
