/* stream.c - streams are in-order queues; the marks of events are markers in them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "opencl.h"

/* ---- streams ----------------------------------------------------------------------- */

kd_status ocl_stream_over(kd_device *d, cl_command_queue queue, bool timed,
                          bool foreign, kd_stream **out_stream) {
  kd_stream *stream = ocl_host->allocate(ocl_host, sizeof *stream, 0);
  if (!stream) {
    cl.ReleaseCommandQueue(queue);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a stream");
  }
  *stream = (kd_stream){
      .common = {.device = d, .number = 1 + atomic_fetch_add(&d->streams, 1)},
      .queue = queue,
      .timed = timed,
      .foreign = foreign};
  *out_stream = stream;
  return KD_OK;
}

static kd_status opencl_stream_stream_create(kd_device *d, int32_t priority,
                                             uint32_t flags,
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

const kd_stream_table ocl_streams = {
    .struct_size = sizeof(kd_stream_table),
    .create = opencl_stream_stream_create,
    .destroy = stream_destroy,
    .wait = fam_stream_wait,
    .flush = stream_flush,
    .synchronize = stream_synchronize,
    .tag = fam_stream_tag,
};

/* ---- markers -------------------------------------------------------------------------- */

static void opencl_stream_take(void *marker) {
  cl.RetainEvent(marker);
}

static void opencl_stream_drop(void *marker) {
  cl.ReleaseEvent(marker);
}

static kd_status opencl_stream_put(kd_stream *stream, void *own,
                                   void **out_marker) {
  cl_event marker = NULL;
  (void)own;
  OCL_TRY("clEnqueueMarkerWithWaitList",
          cl.EnqueueMarkerWithWaitList(stream->queue, 0, NULL, &marker));
  if (stream->common.device->idles)
    cl.Finish(stream->queue);
  else
    cl.Flush(stream->queue); /* others may wait for it */
  *out_marker = marker;
  return KD_OK;
}

static kd_status opencl_stream_query(kd_device *d, void *marker) {
  cl_int state = CL_COMPLETE;
  (void)d;
  OCL_TRY("clGetEventInfo",
          cl.GetEventInfo(marker, CL_EVENT_COMMAND_EXECUTION_STATUS,
                          sizeof state, &state, NULL));
  if (state < 0) return ocl_failed(state, "work before an event");
  return state == CL_COMPLETE ? KD_OK : KD_BUSY;
}

static kd_status opencl_stream_follow(kd_stream *stream, void *marker) {
  const cl_event events[] = {marker};
  OCL_TRY("clEnqueueBarrierWithWaitList",
          cl.EnqueueBarrierWithWaitList(stream->queue, 1, events, NULL));
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

static void opencl_stream_leave(waiter *w) {
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
  opencl_stream_leave(w);
  ocl_paid(device, false);
}

static kd_status wait_until(kd_device *d, cl_event marker, uint64_t timeout) {
  pthread_condattr_t clock;
  waiter *w = ocl_host->allocate(ocl_host, sizeof *w, 0);
  if (!w) return FAIL(KD_OUT_OF_MEMORY, "no memory to wait");
  memset(w, 0, sizeof *w);
  struct timespec end = clock_timespec(clock_now() + timeout);
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
    opencl_stream_leave(w);
    opencl_stream_leave(w);
    return ocl_failed(code, "clSetEventCallback");
  }
  pthread_mutex_lock(&w->lock);
  int late = 0;
  while (!w->is_done && late != ETIMEDOUT)
    late = pthread_cond_timedwait(&w->done, &w->lock, &end);
  bool done = w->is_done;
  pthread_mutex_unlock(&w->lock);
  opencl_stream_leave(w);
  return done ? opencl_stream_query(d, marker)
              : FAIL(KD_DEADLINE_EXCEEDED, "the event is not done yet");
}

static kd_status opencl_stream_wait(kd_device *d, void *marker,
                                    uint64_t timeout) {
  kd_status status = opencl_stream_query(d, marker);
  if (status != KD_BUSY) return status;
  if (!timeout) return FAIL(KD_DEADLINE_EXCEEDED, "the event is not done yet");
  if (timeout <= UINT64_MAX / 4) return wait_until(d, marker, timeout);
  const cl_event events[] = {marker};
  cl.WaitForEvents(1, events);
  return opencl_stream_query(d, marker);
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

static kd_status opencl_stream_on_complete(kd_device *d, void *marker,
                                           kd_event_callback callback,
                                           void *context) {
  if (d->idles) {
    kd_status done = opencl_stream_query(d, marker);
    callback(context, done,
             done == KD_OK ? "" : "OpenCL: work before an event failed");
    return KD_OK;
  }
  notice *n = ocl_host->allocate(ocl_host, sizeof *n, 0);
  if (!n) return FAIL(KD_OUT_OF_MEMORY, "no memory for a callback");
  *n = (notice){callback, context, d};
  ocl_owe(d, false);
  cl_int code = cl.SetEventCallback(marker, CL_COMPLETE, call_back, n);
  if (code == CL_SUCCESS) return KD_OK;
  ocl_paid(d, false);
  ocl_host->release(ocl_host, n);
  return ocl_failed(code, "clSetEventCallback");
}

const fam_marks ocl_marks = {
    .take = opencl_stream_take,
    .drop = opencl_stream_drop,
    .put = opencl_stream_put,
    .follow = opencl_stream_follow,
    .query = opencl_stream_query,
    .wait = opencl_stream_wait,
    .on_complete = opencl_stream_on_complete,
};
