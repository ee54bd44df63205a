/* stream.c - streams put commands into batches of a lane; events are batches. */
#include <string.h>

#include "vlk.h"

/* ---- streams ----------------------------------------------------------------------- */

kd_status vlk_stream_open(kd_device *d, kd_stream **out_stream) {
  kd_stream *stream = vlk_host->allocate(vlk_host, sizeof *stream, 0);
  if (!stream) return FAIL(KD_OUT_OF_MEMORY, "no memory for a stream");
  memset(stream, 0, sizeof *stream);
  stream->device = d;
  stream->number = atomic_fetch_add(&d->streams, 1);
  stream->lane = &d->lanes[stream->number % d->lane_count];
  *out_stream = stream;
  return KD_OK;
}

void vlk_stream_close(kd_stream *stream) {
  if (stream->open) {
    vlk_stream_submit(stream);
    vlk_batch_wait(stream->last, UINT64_MAX);
  }
  if (stream->last) vlk_batch_drop(stream->last);
  vlk_host->release(vlk_host, stream);
}

kd_status vlk_stream_batch(kd_stream *stream, vlk_batch **out) {
  if (!stream->open) {
    kd_status status = vlk_batch_begin(stream->lane, &stream->open);
    if (status != KD_OK) return status;
    memcpy(stream->open->waits, stream->waits, sizeof stream->waits);
    memset(stream->waits, 0, sizeof stream->waits);
  }
  /* the first one's barrier orders it behind the lane's earlier batches */
  vlk_put_barrier(stream->open->commands);
  *out = stream->open;
  return KD_OK;
}

kd_status vlk_stream_submit(kd_stream *stream) {
  vlk_batch *b = stream->open;
  if (!b) return KD_OK;
  stream->open = NULL;
  if (stream->last) vlk_batch_drop(stream->last);
  stream->last = b;
  return vlk_batch_submit(b);
}

kd_status vlk_stream_added(kd_stream *stream) {
  if (++stream->open->count < VLK_COMMANDS) return KD_OK;
  return vlk_stream_submit(stream);
}

static bool has_waits(const kd_stream *stream) {
  for (uint32_t i = 0; i < VLK_WAITS; i++)
    if (stream->waits[i]) return true;
  return false;
}

/* Submits all that there is, waits without work behind them included. */
static kd_status submit_all(kd_stream *stream) {
  vlk_batch *b = NULL;
  kd_status status = KD_OK;
  if (!stream->open && has_waits(stream)) status = vlk_stream_batch(stream, &b);
  return status == KD_OK ? vlk_stream_submit(stream) : status;
}

bool vlk_stream_idle(kd_stream *stream) {
  return !stream->open && !has_waits(stream) &&
         (!stream->last || vlk_batch_query(stream->last) == KD_OK);
}

kd_status vlk_stream_finish(kd_stream *stream) {
  kd_status status = submit_all(stream);
  if (!stream->last) return status;
  if (status == KD_OK) status = vlk_batch_wait(stream->last, UINT64_MAX);
  if (status != KD_OK) { /* it was said: the stream is usable again */
    vlk_batch_drop(stream->last);
    stream->last = NULL;
  }
  return status;
}

static kd_status stream_create(kd_device *d, int32_t priority, uint32_t flags,
                               kd_stream **out_stream) {
  (void)priority; /* queues have theirs since the device was opened */
  if (flags) return FAIL(KD_UNIMPLEMENTED, "stream flags 0x%x", flags);
  return vlk_stream_open(d, out_stream);
}

/* ---- events -------------------------------------------------------------------------- */

struct kd_event {
  kd_device *device;
  pthread_mutex_t lock;
  vlk_batch *batch;     /* NULL: not recorded, or in a recording */
  uint64_t host_time;   /* 0: its time is when the batch ended */
  kd_capture *recorded; /* what records it */
};

static kd_status event_create(kd_device *d, uint32_t flags,
                              kd_event **out_event) {
  if (flags) return FAIL(KD_UNIMPLEMENTED, "event flags 0x%x", flags);
  kd_event *event = vlk_host->allocate(vlk_host, sizeof *event, 0);
  if (!event) return FAIL(KD_OUT_OF_MEMORY, "no memory for an event");
  memset(event, 0, sizeof *event);
  event->device = d;
  pthread_mutex_init(&event->lock, NULL);
  *out_event = event;
  return KD_OK;
}

static void event_destroy(kd_event *event) {
  if (event->batch) vlk_batch_drop(event->batch);
  if (event->recorded) fam_record_drop(event->recorded);
  pthread_mutex_destroy(&event->lock);
  vlk_host->release(vlk_host, event);
}

/* The batch, which the caller drops; NULL where there is none. */
static vlk_batch *batch_of(kd_event *event) {
  pthread_mutex_lock(&event->lock);
  vlk_batch *b = event->batch;
  if (b) vlk_batch_take(b);
  pthread_mutex_unlock(&event->lock);
  return b;
}

static void set_batch(kd_event *event, vlk_batch *b, uint64_t host_time,
                      kd_capture *recorded) {
  if (b) vlk_batch_take(b);
  if (recorded) fam_record_take(recorded);
  pthread_mutex_lock(&event->lock);
  vlk_batch *old = event->batch;
  kd_capture *before = event->recorded;
  event->batch = b;
  event->host_time = host_time;
  event->recorded = recorded;
  pthread_mutex_unlock(&event->lock);
  if (old) vlk_batch_drop(old);
  if (before) fam_record_drop(before);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  vlk_batch *b = NULL;
  if (stream->recording) { /* a place in the recording, not in time */
    set_batch(event, NULL, 0, stream->recording);
    return KD_OK;
  }
  kd_status status = submit_all(stream);
  /* an event has a time, if the stream never had any work, too */
  if (status == KD_OK && !stream->last) {
    status = vlk_stream_batch(stream, &b);
    if (status == KD_OK) status = vlk_stream_submit(stream);
  }
  if (status != KD_OK) return status;
  /* the last batch may have ended long ago, and copies by the host come after it */
  uint64_t now = vlk_stream_idle(stream) ? vlk_host_now() : 0;
  set_batch(event, stream->last, now, NULL);
  return KD_OK;
}

static kd_status event_query(kd_event *event) {
  vlk_batch *b = batch_of(event);
  if (!b) return KD_OK;
  kd_status status = vlk_batch_query(b);
  vlk_batch_drop(b);
  return status;
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  vlk_batch *b = batch_of(event);
  if (!b) return KD_OK;
  kd_status status = vlk_batch_wait(b, timeout);
  vlk_batch_drop(b);
  return status;
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  pthread_mutex_lock(&event->lock);
  kd_capture *recorded = event->recorded;
  pthread_mutex_unlock(&event->lock);
  if (recorded) { /* the recording goes on here, or has ended */
    if (stream->recording != recorded)
      fam_record_join(recorded, &stream->recording);
    return KD_OK;
  }
  vlk_batch *b = batch_of(event);
  if (!b) return KD_OK;
  kd_status status = vlk_batch_query(b);
  if (status == KD_BUSY) {
    /* what the stream holds already does not wait */
    status = vlk_stream_submit(stream);
    uint64_t *value = &stream->waits[b->lane->number];
    if (b->value > *value) *value = b->value;
  }
  vlk_batch_drop(b);
  return status;
}

static kd_status event_on_complete(kd_event *event, kd_event_callback callback,
                                   void *context) {
  vlk_batch *b = batch_of(event);
  if (!b) {
    callback(context, KD_OK);
    return KD_OK;
  }
  vlk_after *after = vlk_host->allocate(vlk_host, sizeof *after, 0);
  int follows = -1;
  if (after) {
    *after = (vlk_after){.callback = callback, .context = context};
    follows = vlk_batch_follow(b, after, true);
  }
  if (follows <= 0 && after) vlk_host->release(vlk_host, after);
  if (follows == 0) callback(context, b->status);
  vlk_batch_drop(b);
  return follows < 0 ? FAIL(KD_OUT_OF_MEMORY, "no memory for a callback")
                     : KD_OK;
}

/* Of an event that is done, in ticks of its device or, where the stream was idle when it
 * was recorded, on the host's clock. */
static kd_status time_of(kd_event *event, uint64_t *out_ticks,
                         uint64_t *out_host) {
  pthread_mutex_lock(&event->lock);
  vlk_batch *b = event->batch;
  *out_host = event->host_time;
  if (b) vlk_batch_take(b);
  pthread_mutex_unlock(&event->lock);
  if (!b) return FAIL(KD_FAILED_PRECONDITION, "the event is not recorded");
  kd_status status = vlk_batch_query(b);
  if (status == KD_BUSY)
    status = FAIL(KD_FAILED_PRECONDITION, "the event is not done yet");
  *out_ticks = b->end_time;
  vlk_batch_drop(b);
  return status;
}

/* Nanoseconds from `from` to `to`, of one clock. */
static double span(uint64_t from, uint64_t to, double tick) {
  return (to > from ? (double)(to - from) : -(double)(from - to)) * tick;
}

static kd_status event_elapsed(kd_event *begin, kd_event *end,
                               uint64_t *out_time) {
  uint64_t ticks[2] = {0}, host[2] = {0}, at_ticks = 0, at_host = 0, hertz = 0;
  double tick = begin->device->tick, time = 0;
  if (tick <= 0) return FAIL(KD_UNIMPLEMENTED, "the queue has no time stamps");
  kd_status status = time_of(begin, &ticks[0], &host[0]);
  if (status == KD_OK) status = time_of(end, &ticks[1], &host[1]);
  if (status == KD_OK && !host[0] != !host[1])
    status = vlk_profile.clock(begin->device, &at_ticks, &at_host, &hertz);
  if (status != KD_OK) return status;
  if (host[0] && host[1])
    time = span(host[0], host[1], 1);
  else if (host[0]) /* both from where the clocks were read together */
    time = span(at_ticks, ticks[1], tick) - span(at_host, host[0], 1);
  else if (host[1])
    time = span(at_host, host[1], 1) - span(at_ticks, ticks[0], tick);
  else
    time = span(ticks[0], ticks[1], tick);
  *out_time = time > 0 ? (uint64_t)time : 0;
  return KD_OK;
}

const kd_stream_table vlk_streams = {
    .struct_size = sizeof(kd_stream_table),
    .create = stream_create,
    .destroy = vlk_stream_close,
    .wait = stream_wait,
    .flush = vlk_stream_submit,
    .synchronize = vlk_stream_finish,
};

const kd_event_table vlk_events = {
    .struct_size = sizeof(kd_event_table),
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .wait = event_wait,
    .on_complete = event_on_complete,
    .elapsed = event_elapsed,
};
