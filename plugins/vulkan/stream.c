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

/* Waits without work behind them, and work of others, are submitted with a batch of nothing. */
kd_status vlk_stream_submit_all(kd_stream *stream) {
  vlk_batch *b = NULL;
  kd_status status = KD_OK;
  if (!stream->open && (has_waits(stream) || stream->shared))
    status = vlk_stream_batch(stream, &b);
  return status == KD_OK ? vlk_stream_submit(stream) : status;
}

bool vlk_stream_idle(kd_stream *stream) {
  return !stream->open && !stream->shared && !has_waits(stream) &&
         (!stream->last || vlk_batch_query(stream->last) == KD_OK);
}

kd_status vlk_stream_finish(kd_stream *stream) {
  kd_status status = vlk_stream_submit_all(stream);
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

static void set_batch(kd_event *event, vlk_batch *b, kd_capture *recorded) {
  if (b) vlk_batch_take(b);
  if (recorded) fam_record_take(recorded);
  pthread_mutex_lock(&event->lock);
  vlk_batch *old = event->batch;
  kd_capture *before = event->recorded;
  event->batch = b;
  event->recorded = recorded;
  pthread_mutex_unlock(&event->lock);
  if (old) vlk_batch_drop(old);
  if (before) fam_record_drop(before);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  if (stream->recording) { /* a place in the recording, not in time */
    set_batch(event, NULL, stream->recording);
    return KD_OK;
  }
  kd_status status = vlk_stream_submit_all(stream);
  if (status != KD_OK) return status;
  set_batch(event, stream->last, NULL);
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
    callback(context, KD_OK, "");
    return KD_OK;
  }
  vlk_after *after = vlk_host->allocate(vlk_host, sizeof *after, 0);
  int follows = -1;
  if (after) {
    *after = (vlk_after){.callback = callback, .context = context};
    follows = vlk_batch_follow(b, after, true);
  }
  if (follows <= 0 && after) vlk_host->release(vlk_host, after);
  if (follows == 0) callback(context, b->status, vlk_batch_why(b));
  vlk_batch_drop(b);
  return follows < 0 ? FAIL(KD_OUT_OF_MEMORY, "no memory for a callback")
                     : KD_OK;
}

static void stream_tag(kd_stream *stream, uint64_t correlation) {
  stream->tag = correlation;
}

uint64_t vlk_tag_of(const kd_stream *stream) {
  return stream->tag;
}

const kd_stream_table vlk_streams = {
    .struct_size = sizeof(kd_stream_table),
    .create = stream_create,
    .destroy = vlk_stream_close,
    .wait = stream_wait,
    .flush = vlk_stream_submit,
    .synchronize = vlk_stream_finish,
    .tag = stream_tag,
};

const kd_event_table vlk_events = {
    .struct_size = sizeof(kd_event_table),
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .wait = event_wait,
    .on_complete = event_on_complete,
};
