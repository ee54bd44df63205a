/* streams.c - defects of streams, events and options, around a plugin. */
#include "mutants/fault/fault.h"

static kd_stream_table streams;
static kd_event_table events;
static kd_capture_table inner_capture, capture;
static kd_profile_table inner_profile, profile;
static kd_peer_table inner_peer, peer;
static kd_region_table inner_regions, regions;

/* ---- streams ---------------------------------------------------------------------- */

static kd_status streams_stream_create(kd_device *device, int32_t priority,
                                       uint32_t flags, kd_stream **out_stream) {
  static atomic_uint made;
  if (BUG(stream_flag)) flags = 0;
  if (BUG(priority_refused) && priority)
    return host->fail(KD_INVALID_ARGUMENT, "priority %d", priority);
  if (BUG(stream_ids) && ++made > 50)
    return host->fail(KD_OUT_OF_MEMORY, "no stream is left of %d", 50);
  return inner_streams.create(device, priority, flags, out_stream);
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  static atomic_uint waits;
  if (BUG(device_wait_noop)) return KD_OK;
  if (BUG(wait_sometimes) && ++waits % 4 == 0) return KD_OK;
  if (BUG(device_wait_blocks)) {
    inner_events.wait(event, UINT64_MAX);
    return KD_OK;
  }
  return inner_streams.wait(stream, event);
}

static kd_status synchronize(kd_stream *stream) {
  if (BUG(sync_submits)) return KD_OK;
  kd_status status = inner_streams.synchronize(stream);
  return BUG(sync_forgets) ? KD_OK : status;
}

/* ---- events ----------------------------------------------------------------------- */

static kd_status event_create(kd_device *device, uint32_t flags,
                              kd_event **out_event) {
  static atomic_uint ever;
  if (BUG(event_flag)) flags = 0;
  if (BUG(event_ids) && ++ever > 450)
    return host->fail(KD_OUT_OF_MEMORY, "event %u is one too many", ever);
  return inner_events.create(device, flags, out_event);
}

static kd_status event_query(kd_event *event) {
  kd_status status = inner_events.query(event);
  if (BUG(ready_at_record) && status == KD_BUSY) return KD_OK;
  if (BUG(failure_lost) && status != KD_BUSY) return KD_OK;
  return status;
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  if (BUG(wait_early)) return KD_OK;
  if (BUG(timeout_ignored)) timeout = UINT64_MAX;
  kd_status status = inner_events.wait(event, timeout);
  return BUG(failure_lost) && status != KD_BUSY ? KD_OK : status;
}

static kd_status streams_on_complete(kd_event *event,
                                     kd_event_callback callback,
                                     void *context) {
  static atomic_uint calls;
  if (BUG(callback_early)) {
    callback(context, KD_OK, "");
    return KD_OK;
  }
  if (BUG(callback_twice) && ++calls % 7 == 0) {
    kd_status status = inner_events.on_complete(event, callback, context);
    if (status != KD_OK) return status;
  }
  return inner_events.on_complete(event, callback, context);
}

void wrap_streams(void) {
  if (!inner.streams || !inner.events) return;
  streams = inner_streams;
  streams.create = streams_stream_create;
  streams.wait = stream_wait;
  if (streams.synchronize) streams.synchronize = synchronize;
  events = inner_events;
  events.create = event_create;
  events.query = event_query;
  events.wait = event_wait;
  if (events.on_complete) events.on_complete = streams_on_complete;
  outer.streams = &streams;
  outer.events = &events;
}

/* ---- options ---------------------------------------------------------------------- */

static kd_status capture_launch(kd_capture *recorded, kd_stream *stream) {
  static atomic_uint launches;
  if (BUG(replay_first_data) && ++launches % 2 == 0) return KD_OK;
  return inner_capture.launch(recorded, stream);
}

static kd_status capture_end(kd_stream *stream, kd_capture **out_capture) {
  static atomic_uint made;
  if (BUG(capture_ids) && ++made > 15)
    return host->fail(KD_OUT_OF_MEMORY, "no recording is left of %d", 15);
  return inner_capture.end(stream, out_capture);
}

static kd_status capture_update(kd_capture *recorded, const kd_rebind *rebinds,
                                uint32_t count) {
  if (!BUG(rebind_no_offset))
    return inner_capture.update(recorded, rebinds, count);
  for (uint32_t i = 0; i < count; i++) {
    kd_rebind one = rebinds[i];
    one.to_offset = 0;
    kd_status status = inner_capture.update(recorded, &one, 1);
    if (status != KD_OK) return status;
  }
  return KD_OK;
}

static kd_status prof_start(kd_device *device) {
  return BUG(prof_nothing) ? KD_OK : inner_profile.start(device);
}

static kd_status prof_stop(kd_device *device) {
  return BUG(prof_goes_on) ? KD_OK : inner_profile.stop(device);
}

static uint32_t reachable(kd_device *from, kd_device *to) {
  static atomic_uint asked;
  return BUG(peer_fickle) ? ++asked % 2 : inner_peer.reachable(from, to);
}

static kd_status streams_claim(kd_device *device, const kd_graph *graph,
                               kd_claim take, void *context) {
  static atomic_uint claims;
  if (BUG(claims_once) && ++claims > 1) return KD_OK;
  return inner_regions.claim(device, graph, take, context);
}

static kd_status streams_validate(kd_device *device, const void *blob,
                                  uint64_t size) {
  return BUG(blob_anywhere) ? KD_OK
                            : inner_regions.validate(device, blob, size);
}

void wrap_options(void) {
  if (inner.capture) {
    copy_sized(&inner_capture, sizeof inner_capture, inner.capture);
    capture = inner_capture;
    capture.struct_size = sizeof capture;
    capture.launch = capture_launch;
    capture.end = capture_end;
    if (capture.update) capture.update = capture_update;
    outer.capture = &capture;
  }
  if (inner.profile) {
    copy_sized(&inner_profile, sizeof inner_profile, inner.profile);
    profile = inner_profile;
    profile.struct_size = BUG(table_size_zero) ? 0 : sizeof profile;
    profile.start = prof_start;
    profile.stop = prof_stop;
    outer.profile = &profile;
  }
  if (inner.peer) {
    copy_sized(&inner_peer, sizeof inner_peer, inner.peer);
    peer = inner_peer;
    peer.struct_size = sizeof peer;
    peer.reachable = reachable;
    outer.peer = &peer;
  }
  if (inner.regions) {
    copy_sized(&inner_regions, sizeof inner_regions, inner.regions);
    regions = inner_regions;
    regions.struct_size = sizeof regions;
    regions.claim = streams_claim;
    if (regions.validate) regions.validate = streams_validate;
    outer.regions = &regions;
  }
}
