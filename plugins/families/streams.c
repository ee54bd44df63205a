/* streams.c - events, which stand for a driver's mark or for a place in a recording. */
#include "families/streams.h"

#include <string.h>

#include "families/instance.h"

struct kd_event {
  kd_device *device;
  const kd_host *host;
  const fam_marks *marks;
  void *own;
  pthread_mutex_t lock; /* of the rest */
  void *mark;           /* NULL: not recorded, or in a recording */
  kd_capture *recorded; /* what records it */
};

static kd_status streams_create(kd_device *d, uint32_t flags,
                                kd_event **out_event) {
  const fam_driver *driver = fam_driver_of(d);
  const kd_host *host = driver->host;
  if (flags) return host->fail(KD_UNIMPLEMENTED, "event flags 0x%x", flags);
  kd_event *e = host->allocate(host, sizeof *e, 0);
  if (!e) return host->fail(KD_OUT_OF_MEMORY, "no memory for an event");
  memset(e, 0, sizeof *e);
  e->device = d;
  e->host = host;
  e->marks = driver->marks;
  kd_status status = e->marks->create ? e->marks->create(d, &e->own) : KD_OK;
  if (status != KD_OK) {
    host->release(host, e);
    return status;
  }
  pthread_mutex_init(&e->lock, NULL);
  *out_event = e;
  return KD_OK;
}

static void *streams_take(const fam_marks *marks, void *mark) {
  if (mark && marks->take) marks->take(mark);
  return mark;
}

static void streams_drop(const fam_marks *marks, void *mark) {
  if (mark && marks->drop) marks->drop(mark);
}

static void streams_destroy(kd_event *e) {
  streams_drop(e->marks, e->mark);
  if (e->marks->destroy) e->marks->destroy(e->device, e->own);
  if (e->recorded) fam_record_drop(e->recorded);
  pthread_mutex_destroy(&e->lock);
  e->host->release(e->host, e);
}

/* The mark, which the caller drops; NULL where there is none. */
static void *mark_of(kd_event *e) {
  pthread_mutex_lock(&e->lock);
  void *mark = streams_take(e->marks, e->mark);
  pthread_mutex_unlock(&e->lock);
  return mark;
}

/* Takes over the mark. */
static void set(kd_event *e, void *mark, kd_capture *recorded) {
  if (recorded) fam_record_take(recorded);
  pthread_mutex_lock(&e->lock);
  void *old = e->mark;
  kd_capture *before = e->recorded;
  e->mark = mark;
  e->recorded = recorded;
  pthread_mutex_unlock(&e->lock);
  streams_drop(e->marks, old);
  if (before) fam_record_drop(before);
}

static kd_status streams_record(kd_event *e, kd_stream *stream) {
  kd_capture *recording = fam_stream_of(stream)->recording;
  void *mark = NULL;
  kd_status status = recording ? KD_OK : e->marks->put(stream, e->own, &mark);
  /* in a recording it is a place there, not in time */
  if (status == KD_OK) set(e, mark, recording);
  return status;
}

static kd_status streams_query(kd_event *e) {
  void *mark = mark_of(e);
  kd_status status = mark ? e->marks->query(e->device, mark) : KD_OK;
  streams_drop(e->marks, mark);
  return status;
}

static kd_status streams_wait(kd_event *e, uint64_t timeout) {
  void *mark = mark_of(e);
  kd_status status = mark ? e->marks->wait(e->device, mark, timeout) : KD_OK;
  streams_drop(e->marks, mark);
  return status;
}

static kd_status streams_on_complete(kd_event *e, kd_event_callback callback,
                                     void *context) {
  void *mark = mark_of(e);
  kd_status status = KD_OK;
  if (mark)
    status = e->marks->on_complete(e->device, mark, callback, context);
  else
    callback(context, KD_OK, "");
  streams_drop(e->marks, mark);
  return status;
}

const kd_event_table fam_events = {
    .struct_size = sizeof(kd_event_table),
    .create = streams_create,
    .destroy = streams_destroy,
    .record = streams_record,
    .query = streams_query,
    .wait = streams_wait,
    .on_complete = streams_on_complete,
};

kd_status fam_stream_wait(kd_stream *stream, kd_event *e) {
  fam_stream *s = fam_stream_of(stream);
  pthread_mutex_lock(&e->lock);
  kd_capture *recorded = e->recorded;
  pthread_mutex_unlock(&e->lock);
  if (recorded) { /* the recording goes on here, or has ended */
    if (s->recording != recorded) fam_record_join(recorded, &s->recording);
    return KD_OK;
  }
  void *mark = mark_of(e);
  kd_status status = mark ? e->marks->follow(stream, mark) : KD_OK;
  streams_drop(e->marks, mark);
  return status;
}

void fam_stream_tag(kd_stream *stream, uint64_t correlation) {
  fam_stream_of(stream)->tag = correlation;
}
