/* stream.c - streams and events are the driver's. */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "cudev.h"

/* ---- streams ----------------------------------------------------------------------- */

kd_status cuda_stream_over(kd_device *d, cu_stream queue, bool foreign,
                           kd_stream **out_stream) {
  kd_stream *stream = cuda_host->allocate(cuda_host, sizeof *stream, 0);
  if (!stream) return FAIL(KD_OUT_OF_MEMORY, "no memory for a stream");
  *stream = (kd_stream){.device = d,
                        .lane.queue = queue,
                        .number = 1 + atomic_fetch_add(&d->streams, 1),
                        .foreign = foreign};
  *out_stream = stream;
  return KD_OK;
}

static kd_status stream_create(kd_device *d, int32_t priority, uint32_t flags,
                               kd_stream **out_stream) {
  int least = 0, greatest = 0;
  cu_stream queue = NULL;
  if (flags) return FAIL(KD_UNIMPLEMENTED, "stream flags 0x%x", flags);
  kd_status status = cuda_enter(d);
  if (status != KD_OK) return status;
  /* the driver's urgent ones have the lower numbers */
  cu.CtxGetStreamPriorityRange(&least, &greatest);
  cu_result code =
      cu.StreamCreateWithPriority(&queue, CU_NON_BLOCKING,
                                  priority > 0   ? greatest
                                  : priority < 0 ? least
                                                 : (least + greatest) / 2);
  if (code != CU_OK)
    status = cuda_failed(d, code, "cuStreamCreateWithPriority");
  if (status == KD_OK) {
    status = cuda_stream_over(d, queue, false, out_stream);
    if (status != KD_OK) cu.StreamDestroy(queue);
  }
  cuda_leave();
  return status;
}

static void stream_destroy(kd_stream *stream) {
  if (cuda_enter_anyhow(stream->device)) {
    cuda_lane_release(stream->device, &stream->lane);
    if (!stream->foreign) cu.StreamDestroy(stream->lane.queue);
    cuda_leave();
  }
  cuda_host->release(cuda_host, stream);
}

static kd_status stream_synchronize(kd_stream *stream) {
  kd_status status = cuda_enter(stream->device);
  if (status != KD_OK) return status;
  cu_result code = cu.StreamSynchronize(stream->lane.queue);
  if (code != CU_OK)
    status = cuda_failed(stream->device, code, "cuStreamSynchronize");
  cuda_leave();
  return status == KD_OK ? cuda_lost(stream->device) : status;
}

/* ---- events -------------------------------------------------------------------------- */

struct kd_event {
  kd_device *device;
  cu_event event;
  pthread_mutex_t lock; /* of the rest */
  bool recorded;        /* in a stream that ran */
  kd_capture *noted;    /* what it was recorded in, else */
};

static kd_status event_create(kd_device *d, uint32_t flags,
                              kd_event **out_event) {
  if (flags) return FAIL(KD_UNIMPLEMENTED, "event flags 0x%x", flags);
  kd_event *event = cuda_host->allocate(cuda_host, sizeof *event, 0);
  if (!event) return FAIL(KD_OUT_OF_MEMORY, "no memory for an event");
  memset(event, 0, sizeof *event);
  event->device = d;
  kd_status status = cuda_enter(d);
  if (status == KD_OK) {
    cu_result code = cu.EventCreate(&event->event, CU_BLOCKING_SYNC);
    if (code != CU_OK) status = cuda_failed(d, code, "cuEventCreate");
    cuda_leave();
  }
  if (status != KD_OK) {
    cuda_host->release(cuda_host, event);
    return status;
  }
  pthread_mutex_init(&event->lock, NULL);
  *out_event = event;
  return KD_OK;
}

static void event_destroy(kd_event *event) {
  if (cuda_enter_anyhow(event->device)) {
    cu.EventDestroy(event->event); /* the driver keeps it while it is needed */
    cuda_leave();
  }
  if (event->noted) fam_record_drop(event->noted);
  pthread_mutex_destroy(&event->lock);
  cuda_host->release(cuda_host, event);
}

static void set_place(kd_event *event, bool recorded, kd_capture *noted) {
  if (noted) fam_record_take(noted);
  pthread_mutex_lock(&event->lock);
  kd_capture *before = event->noted;
  event->recorded = recorded;
  event->noted = noted;
  pthread_mutex_unlock(&event->lock);
  if (before) fam_record_drop(before);
}

static bool is_recorded(kd_event *event) {
  pthread_mutex_lock(&event->lock);
  bool recorded = event->recorded;
  pthread_mutex_unlock(&event->lock);
  return recorded;
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  if (stream->recording) { /* a place in the recording, not in time */
    set_place(event, false, stream->recording);
    return KD_OK;
  }
  kd_status status = cuda_enter(stream->device);
  if (status != KD_OK) return status;
  cu_result code = cu.EventRecord(event->event, stream->lane.queue);
  if (code != CU_OK)
    status = cuda_failed(stream->device, code, "cuEventRecord");
  cuda_leave();
  if (status == KD_OK) set_place(event, true, NULL);
  return status;
}

/* In the context. */
static kd_status state_of(kd_event *event) {
  cu_result code = cu.EventQuery(event->event);
  if (code == CU_OK) return KD_OK;
  return code == CU_NOT_READY
             ? KD_BUSY
             : cuda_failed(event->device, code, "work before an event");
}

static kd_status event_query(kd_event *event) {
  if (!is_recorded(event)) return KD_OK;
  kd_status status = cuda_enter(event->device);
  if (status != KD_OK) return status;
  status = state_of(event);
  cuda_leave();
  return status;
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  pthread_mutex_lock(&event->lock);
  kd_capture *noted = event->noted;
  bool recorded = event->recorded;
  pthread_mutex_unlock(&event->lock);
  if (noted && stream->recording != noted)
    fam_record_join(noted, &stream->recording);
  if (noted || !recorded) return KD_OK;
  kd_status status = cuda_enter(stream->device);
  if (status != KD_OK) return status;
  cu_result code = cu.StreamWaitEvent(stream->lane.queue, event->event, 0);
  if (code != CU_OK)
    status = cuda_failed(stream->device, code, "cuStreamWaitEvent");
  cuda_leave();
  return status;
}

/* The driver waits without a limit or not at all: between its answers the thread sleeps,
 * from a microsecond up to a millisecond. */
static kd_status wait_until(kd_event *event, uint64_t end) {
  uint64_t pause = 1000;
  for (;;) {
    kd_status status = state_of(event);
    uint64_t now = cuda_now();
    if (status != KD_BUSY) return status;
    if (now >= end)
      return FAIL(KD_DEADLINE_EXCEEDED, "the event is not done yet");
    struct timespec span = {0, (long)(pause < end - now ? pause : end - now)};
    nanosleep(&span, NULL);
    if (pause < 1000000) pause *= 2;
  }
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  if (!is_recorded(event)) return KD_OK;
  kd_status status = cuda_enter(event->device);
  if (status != KD_OK) return status;
  if (timeout > UINT64_MAX / 4) {
    cu_result code = cu.EventSynchronize(event->event);
    if (code != CU_OK)
      status = cuda_failed(event->device, code, "work before an event");
  } else {
    status = wait_until(event, cuda_now() + timeout);
  }
  cuda_leave();
  return status == KD_OK ? cuda_lost(event->device) : status;
}

static kd_status event_on_complete(kd_event *event, kd_event_callback callback,
                                   void *context) {
  if (!is_recorded(event)) {
    callback(context, KD_OK, "");
    return KD_OK;
  }
  kd_status status = cuda_enter(event->device);
  if (status != KD_OK) return status;
  status = cuda_notify(event->device, event->event, callback, context);
  cuda_leave();
  return status;
}

static void stream_tag(kd_stream *stream, uint64_t correlation) {
  stream->tag = correlation;
}

uint64_t cuda_tag_of(const kd_stream *stream) {
  return stream->tag;
}

const kd_stream_table cuda_streams = {
    .struct_size = sizeof(kd_stream_table),
    .create = stream_create,
    .destroy = stream_destroy,
    .wait = stream_wait,
    .synchronize = stream_synchronize,
    .tag = stream_tag,
};

const kd_event_table cuda_events = {
    .struct_size = sizeof(kd_event_table),
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .wait = event_wait,
    .on_complete = event_on_complete,
};
