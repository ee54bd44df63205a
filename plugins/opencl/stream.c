/* stream.c - streams are in-order queues; events are markers in them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "opencl.h"

/* ---- streams ----------------------------------------------------------------------- */

kd_status ocl_stream_over(kd_device *d, cl_command_queue queue, bool timed,
                          bool foreign, kd_stream **out_stream) {
  kd_stream *stream = ocl_host->allocate(ocl_host, sizeof *stream, 0);
  if (!stream) {
    cl.ReleaseCommandQueue(queue);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a stream");
  }
  *stream = (kd_stream){.device = d,
                        .queue = queue,
                        .number = 1 + atomic_fetch_add(&d->streams, 1),
                        .timed = timed,
                        .foreign = foreign};
  *out_stream = stream;
  return KD_OK;
}

static kd_status stream_create(kd_device *d, int32_t priority, uint32_t flags,
                               kd_stream **out_stream) {
  cl_int code = CL_SUCCESS;
  (void)priority; /* OpenCL 1.2 has none */
  if (flags) return FAIL(KD_UNIMPLEMENTED, "stream flags 0x%x", flags);
  cl_command_queue queue = cl.CreateCommandQueue(
      d->context, d->id, CL_QUEUE_PROFILING_ENABLE, &code);
  return queue ? ocl_stream_over(d, queue, true, false, out_stream)
               : ocl_failed(code, "clCreateCommandQueue");
}

static void stream_destroy(kd_stream *stream) {
  cl.ReleaseCommandQueue(stream->queue);
  ocl_host->release(ocl_host, stream);
}

static kd_status stream_flush(kd_stream *stream) {
  OCL_TRY("clFlush", cl.Flush(stream->queue));
  return KD_OK;
}

static kd_status stream_synchronize(kd_stream *stream) {
  OCL_TRY("clFinish", cl.Finish(stream->queue));
  return KD_OK;
}

/* ---- events -------------------------------------------------------------------------- */

struct kd_event {
  kd_device *device;
  pthread_mutex_t lock;
  cl_event marker;      /* NULL: not recorded, or in a recording */
  kd_capture *recorded; /* what records it */
};

static kd_status event_create(kd_device *d, uint32_t flags,
                              kd_event **out_event) {
  if (flags) return FAIL(KD_UNIMPLEMENTED, "event flags 0x%x", flags);
  kd_event *event = ocl_host->allocate(ocl_host, sizeof *event, 0);
  if (!event) return FAIL(KD_OUT_OF_MEMORY, "no memory for an event");
  memset(event, 0, sizeof *event);
  event->device = d;
  pthread_mutex_init(&event->lock, NULL);
  *out_event = event;
  return KD_OK;
}

static void event_destroy(kd_event *event) {
  if (event->marker) cl.ReleaseEvent(event->marker);
  if (event->recorded) fam_record_drop(event->recorded);
  pthread_mutex_destroy(&event->lock);
  ocl_host->release(ocl_host, event);
}

/* The marker, which the caller releases; NULL where there is none. */
static cl_event marker_of(kd_event *event) {
  pthread_mutex_lock(&event->lock);
  cl_event marker = event->marker;
  if (marker) cl.RetainEvent(marker);
  pthread_mutex_unlock(&event->lock);
  return marker;
}

static void set_marker(kd_event *event, cl_event marker, kd_capture *recorded) {
  pthread_mutex_lock(&event->lock);
  cl_event old = event->marker;
  kd_capture *before = event->recorded;
  if (recorded) fam_record_take(recorded);
  event->marker = marker;
  event->recorded = recorded;
  pthread_mutex_unlock(&event->lock);
  if (old) cl.ReleaseEvent(old);
  if (before) fam_record_drop(before);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  cl_event marker = NULL;
  if (stream->recording) { /* a place in the recording, not in time */
    set_marker(event, NULL, stream->recording);
    return KD_OK;
  }
  OCL_TRY("clEnqueueMarkerWithWaitList",
          cl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &marker));
  if (stream->device->idles)
    cl.Finish(stream->queue);
  else
    cl.Flush(stream->queue); /* others may wait for it */
  set_marker(event, marker, NULL);
  return KD_OK;
}

static kd_status status_of(cl_event marker) {
  cl_int state = CL_COMPLETE;
  OCL_TRY("clGetEventInfo",
          cl.GetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS,
                          sizeof state, &state, NULL));
  if (state < 0) return ocl_failed(state, "work before an event");
  return state == CL_COMPLETE ? KD_OK : KD_BUSY;
}

static kd_status event_query(kd_event *event) {
  cl_event marker = marker_of(event);
  if (!marker) return KD_OK;
  kd_status status = status_of(marker);
  cl.ReleaseEvent(marker);
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
  cl_event marker = marker_of(event);
  if (!marker) return KD_OK;
  cl_int code = cl.EnqueueBarrierWithWaitList(stream->queue, 1, &marker, NULL);
  cl.ReleaseEvent(marker);
  OCL_TRY("clEnqueueBarrierWithWaitList", code);
  return KD_OK;
}

/* ---- waiting ---------------------------------------------------------------------------- */

/* Shared by one that waits and the driver's callback. */
typedef struct waiter {
  pthread_mutex_t lock;
  pthread_cond_t done;
  bool is_done;
  int users;
  kd_device *device;
} waiter;

static void leave(waiter *w) {
  pthread_mutex_lock(&w->lock);
  int users = --w->users;
  pthread_mutex_unlock(&w->lock);
  if (users) return;
  pthread_mutex_destroy(&w->lock);
  pthread_cond_destroy(&w->done);
  ocl_host->release(ocl_host, w);
}

static void CL_CALLBACK wake(cl_event event, cl_int state, void *context) {
  waiter *w = context;
  kd_device *device = w->device;
  (void)event;
  (void)state;
  pthread_mutex_lock(&w->lock);
  w->is_done = true;
  pthread_cond_signal(&w->done);
  pthread_mutex_unlock(&w->lock);
  leave(w);
  ocl_paid(device, false);
}

static kd_status wait_until(kd_device *d, cl_event marker, uint64_t timeout) {
  struct timespec end;
  pthread_condattr_t clock;
  waiter *w = ocl_host->allocate(ocl_host, sizeof *w, 0);
  if (!w) return FAIL(KD_OUT_OF_MEMORY, "no memory to wait");
  memset(w, 0, sizeof *w);
  clock_gettime(CLOCK_MONOTONIC, &end);
  uint64_t nanoseconds = (uint64_t)end.tv_nsec + timeout % 1000000000u;
  end.tv_sec += (time_t)(timeout / 1000000000u + nanoseconds / 1000000000u);
  end.tv_nsec = (long)(nanoseconds % 1000000000u);
  pthread_mutex_init(&w->lock, NULL);
  pthread_condattr_init(&clock);
  pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
  pthread_cond_init(&w->done, &clock);
  pthread_condattr_destroy(&clock);
  w->users = 2;
  w->device = d;
  ocl_owe(d, false);
  cl_int code = cl.SetEventCallback(marker, CL_COMPLETE, wake, w);
  if (code != CL_SUCCESS) {
    ocl_paid(d, false);
    leave(w);
    leave(w);
    return ocl_failed(code, "clSetEventCallback");
  }
  pthread_mutex_lock(&w->lock);
  int late = 0;
  while (!w->is_done && late != ETIMEDOUT)
    late = pthread_cond_timedwait(&w->done, &w->lock, &end);
  bool done = w->is_done;
  pthread_mutex_unlock(&w->lock);
  leave(w);
  return done ? status_of(marker)
              : FAIL(KD_DEADLINE_EXCEEDED, "the event is not done yet");
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  cl_event marker = marker_of(event);
  if (!marker) return KD_OK;
  kd_status status = status_of(marker);
  if (status == KD_BUSY && !timeout) {
    status = FAIL(KD_DEADLINE_EXCEEDED, "the event is not done yet");
  } else if (status == KD_BUSY && timeout > UINT64_MAX / 4) {
    cl.WaitForEvents(1, &marker);
    status = status_of(marker);
  } else if (status == KD_BUSY) {
    status = wait_until(event->device, marker, timeout);
  }
  cl.ReleaseEvent(marker);
  return status;
}

typedef struct notice {
  kd_event_callback callback;
  void *context;
  kd_device *device;
} notice;

static void CL_CALLBACK call_back(cl_event event, cl_int state, void *context) {
  notice *n = context;
  kd_device *device = n->device;
  (void)event;
  char why[128] = "";
  if (state < 0)
    snprintf(why, sizeof why, "OpenCL: work before an event: %s",
             ocl_error_name(state));
  n->callback(n->context, state < 0 ? KD_INTERNAL : KD_OK, why);
  ocl_host->release(ocl_host, n);
  ocl_paid(device, false);
}

static kd_status event_on_complete(kd_event *event, kd_event_callback callback,
                                   void *context) {
  cl_event marker = marker_of(event);
  if (!marker || event->device->idles) {
    kd_status done = marker ? status_of(marker) : KD_OK;
    if (marker) cl.ReleaseEvent(marker);
    callback(context, done,
             done == KD_OK ? "" : "OpenCL: work before an event failed");
    return KD_OK;
  }
  notice *n = ocl_host->allocate(ocl_host, sizeof *n, 0);
  if (!n) {
    cl.ReleaseEvent(marker);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a callback");
  }
  *n = (notice){callback, context, event->device};
  ocl_owe(event->device, false);
  cl_int code = cl.SetEventCallback(marker, CL_COMPLETE, call_back, n);
  cl.ReleaseEvent(marker);
  if (code == CL_SUCCESS) return KD_OK;
  ocl_paid(event->device, false);
  ocl_host->release(ocl_host, n);
  return ocl_failed(code, "clSetEventCallback");
}

static void stream_tag(kd_stream *stream, uint64_t correlation) {
  stream->tag = correlation;
}

uint64_t ocl_tag_of(const kd_stream *stream) {
  return stream->tag;
}

const kd_stream_table ocl_streams = {
    .struct_size = sizeof(kd_stream_table),
    .create = stream_create,
    .destroy = stream_destroy,
    .wait = stream_wait,
    .flush = stream_flush,
    .synchronize = stream_synchronize,
    .tag = stream_tag,
};

const kd_event_table ocl_events = {
    .struct_size = sizeof(kd_event_table),
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .wait = event_wait,
    .on_complete = event_on_complete,
};
