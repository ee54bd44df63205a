/* stream.c - streams and events are the driver's. */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "cudev.h"

/* ---- streams ----------------------------------------------------------------------- */

kd_status cuda_stream_over(kd_device *d, cu_stream queue, bool foreign,
                           kd_stream **out_stream) {
  kd_stream *stream = cuda_host->allocate(cuda_host, sizeof *stream, 0);
  if (!stream) return FAIL(KD_OUT_OF_MEMORY, "no memory for a stream");
  *stream = (kd_stream){
      .common = {.device = d, .number = 1 + atomic_fetch_add(&d->streams, 1)},
      .lane.queue = queue,
      .foreign = foreign};
  *out_stream = stream;
  return KD_OK;
}

static kd_status cuda_stream_stream_create(kd_device *d, int32_t priority,
                                           uint32_t flags,
                                           kd_stream **out_stream) {
  int least = 0, greatest = 0;
  cu_stream queue = NULL;
  if (flags) return FAIL(KD_UNIMPLEMENTED, "stream flags 0x%x", flags);
  CU_ENTER(d);
  /* the driver's urgent ones have the lower numbers */
  cu.CtxGetStreamPriorityRange(&least, &greatest);
  cu_result code =
      cu.StreamCreateWithPriority(&queue, CU_NON_BLOCKING,
                                  priority > 0   ? greatest
                                  : priority < 0 ? least
                                                 : (least + greatest) / 2);
  if (code != CU_OK) return cuda_left(d, code, "cuStreamCreateWithPriority");
  kd_status status = cuda_stream_over(d, queue, false, out_stream);
  if (status != KD_OK) cu.StreamDestroy(queue);
  cuda_leave();
  return status;
}

static void stream_destroy(kd_stream *stream) {
  if (cuda_enter_anyhow(stream->common.device)) {
    cuda_lane_release(stream->common.device, &stream->lane);
    if (!stream->foreign) cu.StreamDestroy(stream->lane.queue);
    cuda_leave();
  }
  cuda_host->release(cuda_host, stream);
}

static kd_status stream_synchronize(kd_stream *stream) {
  kd_device *d = stream->common.device;
  CU_ENTER(d);
  cu_result code = cu.StreamSynchronize(stream->lane.queue);
  kd_status status = cuda_left(d, code, "cuStreamSynchronize");
  return status == KD_OK ? cuda_lost(d) : status;
}

const kd_stream_table cuda_streams = {
    .struct_size = sizeof(kd_stream_table),
    .create = cuda_stream_stream_create,
    .destroy = stream_destroy,
    .wait = fam_stream_wait,
    .synchronize = stream_synchronize,
    .tag = fam_stream_tag,
};

/* ---- marks: an event of the driver's, recorded again and again ----------------------------- */

static kd_status cuda_stream_create(kd_device *d, void **out_event) {
  cu_event event = NULL;
  CU_ENTER(d);
  cu_result code = cu.EventCreate(&event, CU_BLOCKING_SYNC);
  *out_event = event;
  return cuda_left(d, code, "cuEventCreate");
}

static void cuda_stream_destroy(kd_device *d, void *event) {
  if (!cuda_enter_anyhow(d)) return;
  cu.EventDestroy(event); /* the driver keeps it while it is needed */
  cuda_leave();
}

static kd_status cuda_stream_put(kd_stream *stream, void *event,
                                 void **out_mark) {
  kd_device *d = stream->common.device;
  CU_ENTER(d);
  cu_result code = cu.EventRecord(event, stream->lane.queue);
  *out_mark = event;
  return cuda_left(d, code, "cuEventRecord");
}

static kd_status cuda_stream_follow(kd_stream *stream, void *event) {
  kd_device *d = stream->common.device;
  CU_ENTER(d);
  cu_result code = cu.StreamWaitEvent(stream->lane.queue, event, 0);
  return cuda_left(d, code, "cuStreamWaitEvent");
}

/* In the context. */
static kd_status state_of(kd_device *d, cu_event event) {
  cu_result code = cu.EventQuery(event);
  if (code == CU_OK) return KD_OK;
  return code == CU_NOT_READY ? KD_BUSY
                              : cuda_failed(d, code, "work before an event");
}

static kd_status cuda_stream_query(kd_device *d, void *event) {
  CU_ENTER(d);
  kd_status status = state_of(d, event);
  cuda_leave();
  return status;
}

/* The driver waits without a limit or not at all: between its answers the thread sleeps,
 * from a microsecond up to a millisecond. */
static kd_status wait_until(kd_device *d, cu_event event, uint64_t end) {
  uint64_t pause = 1000;
  for (;;) {
    kd_status status = state_of(d, event);
    uint64_t now = clock_now();
    if (status != KD_BUSY) return status;
    if (now >= end)
      return FAIL(KD_DEADLINE_EXCEEDED, "the event is not done yet");
    struct timespec span = {0, (long)(pause < end - now ? pause : end - now)};
    nanosleep(&span, NULL);
    if (pause < 1000000) pause *= 2;
  }
}

static kd_status cuda_stream_wait(kd_device *d, void *event, uint64_t timeout) {
  kd_status status = KD_OK;
  CU_ENTER(d);
  if (timeout > UINT64_MAX / 4) {
    status = cuda_left(d, cu.EventSynchronize(event), "work before an event");
  } else {
    status = wait_until(d, event, clock_now() + timeout);
    cuda_leave();
  }
  return status == KD_OK ? cuda_lost(d) : status;
}

static kd_status cuda_stream_on_complete(kd_device *d, void *event,
                                         kd_event_callback callback,
                                         void *context) {
  CU_ENTER(d);
  kd_status status = cuda_notify(d, event, callback, context);
  cuda_leave();
  return status;
}

const fam_marks cuda_marks = {
    .create = cuda_stream_create,
    .destroy = cuda_stream_destroy,
    .put = cuda_stream_put,
    .follow = cuda_stream_follow,
    .query = cuda_stream_query,
    .wait = cuda_stream_wait,
    .on_complete = cuda_stream_on_complete,
};
