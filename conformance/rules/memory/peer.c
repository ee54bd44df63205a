/* peer.c - copies between devices, and what several devices do together. */
#include <math.h>

#include "rules/rules.h"

static void peer_copy(void) {
  kc_need_two_devices();
  kd_device *devices[2] = {kc_device_at(0), kc_device_at(1)};
  char in[3000], out[3000];
  uint32_t tried = 0;
  for (int k = 0; k < 2; k++) {
    kd_device *from = devices[k], *to = devices[1 - k];
    if (!kp.peer.reachable(from, to)) continue;
    tried++;
    kc_buffer *x = kc_buffer_in(from, 0, sizeof in);
    kc_buffer *y = kc_buffer_in(to, 0, sizeof in);
    for (int i = 0; i < 10; i++) {
      uint64_t a = (uint64_t)i * 13, b = (uint64_t)i * 7, size = 2500;
      kc_pattern(in, sizeof in, (uint64_t)(k * 10 + i));
      memset(out, 0, sizeof out);
      kc_write(x, 0, in, sizeof in);
      kc_write(y, 0, out, sizeof out);
      kd_stream *stream =
          i % 2 && kc_claims(KC_ASYNC) ? kc_stream_make(to) : NULL;
      kc_ok(KC_CALL(kd_status,
                    kp.peer.copy(from, x->handle, x->offset + a, to, stream,
                                 y->handle, y->offset + b, size),
                    "peer.copy(device %d to %d, %llu bytes)", k, 1 - k,
                    (unsigned long long)size),
            "peer.copy");
      kc_drain(stream);
      kc_read(y, 0, out, sizeof out);
      kc_check(!memcmp(out + b, in + a, size),
               "a copy from device %d to device %d is wrong", k, 1 - k);
      kc_read(x, 0, out, sizeof out);
      kc_check(!memcmp(out, in, sizeof in), "a peer copy changed its source");
    }
    kc_buffer_free(x);
    kc_buffer_free(y);
  }
  if (!tried) kc_unclaimed("no device reaches another");
}

static void peer_reachable(void) {
  kc_need_two_devices();
  kd_device *a = kc_device_at(0), *b = kc_device_at(1);
  uint32_t first = kp.peer.reachable(a, b);
  for (int i = 0; i < 20; i++)
    kc_check(kp.peer.reachable(a, b) == first, "reachable changes its answer");
  kc_check(first <= 1, "reachable says %u", first);
}

static void peer_events(void) {
  if (!kc_claims(KC_ASYNC)) kc_unclaimed("it has no streams");
  kc_need_two_devices();
  kd_device *a = kc_device_at(0), *b = kc_device_at(1);
  if (!kp.peer.reachable(a, b))
    kc_unclaimed("device 0 does not reach device 1");
  kd_stream *from = kc_stream_make(a), *to = kc_stream_make(b);
  enum { SIZE = 20000 };
  char *in = kc_lend(SIZE), *out = kc_lend(SIZE);
  kc_buffer *x = kc_buffer_in(a, 0, SIZE), *y = kc_buffer_in(b, 0, SIZE);
  for (uint64_t i = 0; i < 8; i++) {
    kd_event *event = kc_event_make(a);
    kc_pattern(in, SIZE, i);
    kc_busy(from, 2 * KC_MS);
    kc_copy_in(from, x, 0, in, SIZE);
    kc_record(event, from);
    kc_ok(kp.s.wait(to, event), "stream.wait for another device's event");
    kc_ok(kp.peer.copy(a, x->handle, x->offset, b, to, y->handle, y->offset,
                       SIZE),
          "peer.copy");
    kc_drain(to);
    kc_read(y, 0, out, SIZE);
    kc_check(!memcmp(in, out, SIZE),
             "a peer copy did not wait for the source's work");
    kc_drain(from);
    kc_event_free(event);
  }
}

#define RULE(level, id, check, header, sentence, names, about) \
  KC_RULE(MUST, level, id, check, 0, header, sentence, names, about)

static const kc_rule rules[] = {
    RULE(PEER, "peer.copy", peer_copy, "memory.h",
         "Copies in the order of `stream`, which belongs to `to`",
         "kd_peer_table.copy", "From and to get mixed up."),
    RULE(PEER, "peer.reachable", peer_reachable, "memory.h",
         "Whether `copy` works from one device to the other",
         "kd_peer_table.reachable", "The host stages where it says 0."),
    RULE(PEER, "peer.order", peer_events, "memory.h",
         "the host has made it wait for the source's work",
         "kd_peer_table.copy kd_stream_table.wait",
         "Events of one device are waits on another."),
};

/* clang-format off */
static const kc_defect defects[] = {
    DEFECT(peer_swapped, "peer.copy", "a peer copy goes the other way"),
    DEFECT_AS(peer_fickle, "peer.reachable", KC_AROUND, "reachable changes its answer"),
    DEFECT(peer_no_order, "peer.order", "peer copies don't wait for their stream"),
};
/* clang-format on */

KC_AREA(peer, "Copies between devices");
