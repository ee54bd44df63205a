/* profile.c - the driver's time stamps as profile records. */

#include "common/clock.h"
#include "opencl.h"

typedef struct note {
  kd_device *device;
  uint64_t bytes, correlation;
  uint32_t kind, stream;
} note;

static uint64_t stamp(cl_event event, cl_profiling_info what) {
  cl_ulong time = 0;
  cl.GetEventProfilingInfo(event, what, sizeof time, &time, NULL);
  return time;
}

static void CL_CALLBACK push(cl_event event, cl_int state, void *context) {
  note *n = context;
  kd_device *d = n->device;
  if (state == CL_COMPLETE) {
    kd_profile_record record = {
        .begin = stamp(event, CL_PROFILING_COMMAND_START),
        .end = stamp(event, CL_PROFILING_COMMAND_END),
        .correlation = n->correlation,
        .bytes = n->bytes,
        .kind = n->kind,
        .stream = n->stream};
    ocl_host->profile_push(ocl_host, d, &record, 1, sizeof(kd_profile_record));
  }
  cl.ReleaseEvent(event);
  ocl_host->release(ocl_host, n);
  ocl_paid(d, true);
}

void ocl_note(kd_device *d, kd_stream *stream, cl_event event, uint32_t kind,
              uint64_t bytes, uint64_t correlation) {
  note *n = ocl_host->allocate(ocl_host, sizeof *n, 0);
  if (n) {
    *n =
        (note){d, bytes, correlation, kind, stream ? stream->common.number : 0};
    ocl_owe(d, true);
    if (cl.SetEventCallback(event, CL_COMPLETE, push, n) == CL_SUCCESS) {
      cl.Flush(ocl_queue(d, stream)); /* `stop` waits for it */
      return;
    }
    ocl_paid(d, true);
    ocl_host->release(ocl_host, n);
  }
  cl.ReleaseEvent(event); /* no record of this one */
}

static kd_status opencl_profile_start(kd_device *d) {
  atomic_store(&d->profiling, true);
  return KD_OK;
}

/* No launch is noted from now on; the records of those that were are waited for. */
static kd_status opencl_profile_stop(kd_device *d) {
  atomic_store(&d->profiling, false);
  pthread_mutex_lock(&d->pending_lock);
  while (d->notes)
    pthread_cond_wait(&d->pending_none, &d->pending_lock);
  pthread_mutex_unlock(&d->pending_lock);
  return KD_OK;
}

/* A marker's end, between two looks at the host's clock; the closest of some. */
static kd_status clock_pair(kd_device *d, uint64_t *out_device,
                            uint64_t *out_host, uint64_t *out_frequency) {
  uint64_t best = UINT64_MAX;
  for (int i = 0; i < 5; i++) {
    cl_event marker = NULL;
    uint64_t before = clock_now();
    OCL_TRY("clEnqueueMarkerWithWaitList",
            cl.EnqueueMarkerWithWaitList(d->queue, 0, NULL, &marker));
    cl.WaitForEvents(1, &marker);
    uint64_t after = clock_now(), at = stamp(marker, CL_PROFILING_COMMAND_END);
    cl.ReleaseEvent(marker);
    if (after - before >= best) continue;
    best = after - before;
    *out_device = at;
    *out_host = before + best / 2;
  }
  *out_frequency = 1000000000u;
  return KD_OK;
}

const kd_profile_table ocl_profile = {
    .struct_size = sizeof(kd_profile_table),
    .start = opencl_profile_start,
    .stop = opencl_profile_stop,
    .clock = clock_pair,
};
