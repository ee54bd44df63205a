/* calls.c - slots that rules call as they are: each call is written down as by KC_CALL,
 * so that a report of a hang names it. Slots that are called by KC_CALL alone need nothing
 * here. */
#include "suite/suite.h"

/* The plugin's own slots. */
static kd_memory_table m;
static kd_stream_table s;
static kd_event_table e;
static kd_capture_table c;
static kd_peer_table peer;

#define SEEN(type, call, ...) \
  return kc_inside() ? (call) : KC_CALL(type, call, __VA_ARGS__)
#define SEEN_VOID(call, text) \
  do {                        \
    if (kc_inside())          \
      call;                   \
    else                      \
      KC_DO(call, text);      \
  } while (0)

typedef unsigned long long number;

static kd_status m_allocate(kd_device *device, const kd_allocation *wanted,
                            kd_buffer **out_buffer, void **out_address) {
  SEEN(kd_status, m.allocate(device, wanted, out_buffer, out_address),
       "memory.allocate(%llu bytes)", (number)wanted->size);
}

static void m_release(kd_device *device, kd_buffer *buffer) {
  SEEN_VOID(m.release(device, buffer), "memory.release");
}

static kd_status m_copy_in(kd_device *device, kd_stream *stream,
                           const void *source, kd_buffer *target,
                           uint64_t offset, uint64_t size) {
  SEEN(kd_status, m.copy_in(device, stream, source, target, offset, size),
       "memory.copy_in(%llu bytes%s)", (number)size,
       stream ? ", in a stream" : "");
}

static kd_status m_copy_out(kd_device *device, kd_stream *stream,
                            kd_buffer *source, uint64_t offset, void *target,
                            uint64_t size) {
  SEEN(kd_status, m.copy_out(device, stream, source, offset, target, size),
       "memory.copy_out(%llu bytes%s)", (number)size,
       stream ? ", in a stream" : "");
}

static kd_status m_copy(kd_device *device, kd_stream *stream, kd_buffer *source,
                        uint64_t source_offset, kd_buffer *target,
                        uint64_t target_offset, uint64_t size) {
  SEEN(kd_status,
       m.copy(device, stream, source, source_offset, target, target_offset,
              size),
       "memory.copy(%llu bytes%s)", (number)size,
       stream ? ", in a stream" : "");
}

static kd_status m_fill(kd_device *device, kd_stream *stream, kd_buffer *target,
                        uint64_t offset, uint64_t size, const void *pattern,
                        uint32_t pattern_size) {
  SEEN(kd_status,
       m.fill(device, stream, target, offset, size, pattern, pattern_size),
       "memory.fill(%llu bytes%s)", (number)size,
       stream ? ", in a stream" : "");
}

static kd_status m_stats(kd_device *device, uint32_t space,
                         kd_memory_stats *out_stats) {
  SEEN(kd_status, m.stats(device, space, out_stats), "memory.stats(%u)", space);
}

static kd_status s_create(kd_device *device, int32_t priority, uint32_t flags,
                          kd_stream **out_stream) {
  SEEN(kd_status, s.create(device, priority, flags, out_stream),
       "stream.create(priority %d)", priority);
}

static void s_destroy(kd_stream *stream) {
  SEEN_VOID(s.destroy(stream), "stream.destroy");
}

static kd_status s_wait(kd_stream *stream, kd_event *event) {
  SEEN(kd_status, s.wait(stream, event), "stream.wait");
}

static kd_status s_flush(kd_stream *stream) {
  SEEN(kd_status, s.flush(stream), "stream.flush");
}

static kd_status e_create(kd_device *device, uint32_t flags,
                          kd_event **out_event) {
  SEEN(kd_status, e.create(device, flags, out_event), "event.create");
}

static void e_destroy(kd_event *event) {
  SEEN_VOID(e.destroy(event), "event.destroy");
}

static kd_status e_record(kd_event *event, kd_stream *stream) {
  SEEN(kd_status, e.record(event, stream), "event.record");
}

static kd_status e_wait(kd_event *event, uint64_t timeout) {
  SEEN(kd_status, e.wait(event, timeout), "event.wait(%s)",
       timeout == UINT64_MAX ? "for ever"
       : timeout             ? "for a time"
                             : "now");
}

static kd_status c_begin(kd_stream *stream, uint32_t flags) {
  SEEN(kd_status, c.begin(stream, flags), "capture.begin");
}

static kd_status c_end(kd_stream *stream, kd_capture **out_capture) {
  SEEN(kd_status, c.end(stream, out_capture), "capture.end");
}

static kd_status c_launch(kd_capture *capture, kd_stream *stream) {
  SEEN(kd_status, c.launch(capture, stream), "capture.launch");
}

static void c_destroy(kd_capture *capture) {
  SEEN_VOID(c.destroy(capture), "capture.destroy");
}

static kd_status peer_copy(kd_device *from, kd_buffer *source,
                           uint64_t source_offset, kd_device *to,
                           kd_stream *stream, kd_buffer *target,
                           uint64_t target_offset, uint64_t size) {
  SEEN(kd_status,
       peer.copy(from, source, source_offset, to, stream, target, target_offset,
                 size),
       "peer.copy(%llu bytes)", (number)size);
}

#define WATCH(table, slot) \
  if (kp.table.slot) kp.table.slot = table##_##slot

void kc_watch_tables(void) {
  m = kp.m;
  s = kp.s;
  e = kp.e;
  c = kp.c;
  peer = kp.peer;
  WATCH(m, allocate);
  WATCH(m, release);
  WATCH(m, copy_in);
  WATCH(m, copy_out);
  WATCH(m, copy);
  WATCH(m, fill);
  WATCH(m, stats);
  WATCH(s, create);
  WATCH(s, destroy);
  WATCH(s, wait);
  WATCH(s, flush);
  WATCH(e, create);
  WATCH(e, destroy);
  WATCH(e, record);
  WATCH(e, wait);
  WATCH(c, begin);
  WATCH(c, end);
  WATCH(c, launch);
  WATCH(c, destroy);
  WATCH(peer, copy);
}
