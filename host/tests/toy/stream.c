/* stream.c - the toy's streams, events and recordings.
 *
 * A stream is a list of jobs. A thread of its own does them, each after a moment, so that
 * whoever forgets to wait is found out; or whoever waits does them. */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "device.h"

typedef struct after {
  struct after *next;
  kd_event event;
  kd_event_callback call;
  void *context;
} after;

struct kd_stream {
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t changed;
  toy_job *first, *last;
  after *afters;
  uint64_t issued, done;
  uint64_t synced; /* all before it has been told by a synchronize */
  uint64_t *bad;   /* work that failed, all of it */
  size_t bad_count;
  bool stop, busy;       /* busy: a job is being done */
  kd_capture *recording; /* what is enqueued goes there */
};

struct kd_capture {
  toy_job *first, **end;
  kd_stream *stream; /* of its last launch, which ends with this ticket */
  uint64_t ticket;
};

/* ---- jobs: all of it with the stream's lock held --------------------------------------- */

static kd_status failure(void) {
  int status = atomic_load(&toy.fails);
  return status ? status : KD_INTERNAL;
}

/* Of the work up to a ticket. */
static kd_status status_of(const kd_stream *stream, uint64_t since,
                           uint64_t ticket) {
  for (size_t i = 0; i < stream->bad_count; i++)
    if (stream->bad[i] > since && stream->bad[i] <= ticket) return failure();
  return KD_OK;
}

static void note_failure(kd_stream *stream, uint64_t ticket) {
  uint64_t *bad =
      realloc(stream->bad, (stream->bad_count + 1) * sizeof *stream->bad);
  if (!bad) abort(); /* it would be forgotten */
  bad[stream->bad_count++] = ticket;
  stream->bad = bad;
}

/* Calls those whose work is done, without the lock. */
static void call_back(kd_stream *stream) {
  for (after **at = &stream->afters; *at;) {
    after *due = *at;
    if (due->event.ticket > stream->done) {
      at = &due->next;
      continue;
    }
    *at = due->next;
    toy.pending--;
    kd_status status = status_of(stream, due->event.since, due->event.ticket);
    pthread_mutex_unlock(&stream->lock);
    due->call(due->context, status,
              status == KD_OK ? "" : "the toy can't multiply by 13, it calls");
    free(due);
    pthread_mutex_lock(&stream->lock);
    at = &stream->afters;
  }
}

/* Does the first job, without the lock. */
static void do_first(kd_stream *stream) {
  toy_job *job = stream->first;
  bool naps = toy.naps && toy_model_now->work == BY_THREAD;
  stream->first = job->next;
  if (!stream->first) stream->last = NULL;
  stream->busy = true;
  pthread_mutex_unlock(&stream->lock);
  if (naps) nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  kd_status status = job->run(job);
  pthread_mutex_lock(&stream->lock);
  stream->busy = false;
  stream->done = job->ticket;
  if (status) note_failure(stream, job->ticket);
  call_back(stream);
  pthread_cond_broadcast(&stream->changed);
  free(job);
}

/* Returns when the work up to a ticket is done; who waits does it where no thread does. */
static void wait_for(kd_stream *stream, uint64_t ticket) {
  while (stream->done < ticket)
    if (toy_model_now->work == WHEN_AWAITED && !stream->busy)
      do_first(stream);
    else
      pthread_cond_wait(&stream->changed, &stream->lock);
}

static void *work(void *argument) {
  kd_stream *stream = argument;
  pthread_mutex_lock(&stream->lock);
  while (stream->first || !stream->stop)
    if (stream->first)
      do_first(stream);
    else
      pthread_cond_wait(&stream->changed, &stream->lock);
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

/* ---- enqueueing -------------------------------------------------------------------------- */

static kd_status push(kd_stream *stream, const toy_job *job) {
  toy_job *copy = malloc(sizeof *copy);
  if (!copy) return toy_fail(KD_OUT_OF_MEMORY, "no memory for a job");
  *copy = *job;
  copy->next = NULL;
  if (stream->recording) {
    *stream->recording->end = copy;
    stream->recording->end = &copy->next;
    return KD_OK;
  }
  pthread_mutex_lock(&stream->lock);
  copy->ticket = ++stream->issued;
  if (stream->last)
    stream->last->next = copy;
  else
    stream->first = copy;
  stream->last = copy;
  pthread_cond_broadcast(&stream->changed);
  pthread_mutex_unlock(&stream->lock);
  return KD_OK;
}

static kd_status take_room(kd_stream *stream) {
  int ring = toy.ring;
  if (!ring || stream->recording) return KD_OK;
  pthread_mutex_lock(&stream->lock);
  uint64_t jobs = stream->issued - stream->done;
  pthread_mutex_unlock(&stream->lock);
  if (ring > 0 && jobs < (uint64_t)ring) return KD_OK;
  toy.refused++;
  return toy_fail(KD_BUSY, "%llu jobs are under way", (unsigned long long)jobs);
}

kd_status toy_do(kd_stream *stream, toy_job *job) {
  if (!stream) return job->run(job);
  kd_status status = take_room(stream);
  return status ? status : push(stream, job);
}

/* ---- streams and events -------------------------------------------------------------------- */

static kd_status stream_create(kd_device *device, int32_t priority,
                               uint32_t flags, kd_stream **out_stream) {
  (void)device, (void)priority;
  if (flags) return toy_fail(KD_UNIMPLEMENTED, "unknown stream flags");
  kd_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return toy_fail(KD_OUT_OF_MEMORY, "no memory for a stream");
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->changed, NULL);
  if (toy_model_now->work == BY_THREAD)
    pthread_create(&stream->thread, NULL, work, stream);
  toy_streams++;
  *out_stream = stream;
  return KD_OK;
}

static void stream_destroy(kd_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  stream->stop = true;
  pthread_cond_broadcast(&stream->changed);
  wait_for(stream, stream->issued);
  pthread_mutex_unlock(&stream->lock);
  if (toy_model_now->work == BY_THREAD) pthread_join(stream->thread, NULL);
  pthread_mutex_destroy(&stream->lock);
  pthread_cond_destroy(&stream->changed);
  free(stream->bad);
  free(stream);
  toy_streams--;
}

static kd_status await(const kd_event *event) {
  kd_stream *stream = event->stream;
  if (!stream) return KD_OK;
  pthread_mutex_lock(&stream->lock);
  wait_for(stream, event->ticket);
  kd_status status = status_of(stream, event->since, event->ticket);
  pthread_mutex_unlock(&stream->lock);
  return status;
}

/* Whether a thread has done it within the time. */
static bool done_within(const kd_event *event, uint64_t timeout) {
  kd_stream *stream = event->stream;
  struct timespec end;
  int late = 0;
  clock_gettime(CLOCK_REALTIME, &end);
  uint64_t nanoseconds = (uint64_t)end.tv_nsec + timeout;
  end.tv_sec += (time_t)(nanoseconds / 1000000000);
  end.tv_nsec = (long)(nanoseconds % 1000000000);
  pthread_mutex_lock(&stream->lock);
  while (stream->done < event->ticket && !late)
    late = pthread_cond_timedwait(&stream->changed, &stream->lock, &end);
  pthread_mutex_unlock(&stream->lock);
  return !late;
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  bool limited = timeout != UINT64_MAX && toy_model_now->work == BY_THREAD;
  return limited && event->stream && !done_within(event, timeout)
             ? KD_DEADLINE_EXCEEDED
             : await(event);
}

static kd_status run_wait(toy_job *job) {
  return await(&job->event);
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  if (!event->stream) return KD_OK;
  return toy_do(stream, &(toy_job){.run = run_wait, .event = *event});
}

static kd_status stream_synchronize(kd_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  wait_for(stream, stream->issued);
  kd_status status = status_of(stream, stream->synced, stream->done);
  stream->synced = stream->done;
  pthread_mutex_unlock(&stream->lock);
  return status ? toy_fail(status, "it can't multiply by 13") : KD_OK;
}

static kd_status event_create(kd_device *device, uint32_t flags,
                              kd_event **out_event) {
  (void)device, (void)flags;
  *out_event = calloc(1, sizeof **out_event);
  toy_events += *out_event != NULL;
  return *out_event ? KD_OK : KD_OUT_OF_MEMORY;
}

static void event_destroy(kd_event *event) {
  toy_events--;
  free(event);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  kd_status status = take_room(stream);
  if (status) return status;
  pthread_mutex_lock(&stream->lock);
  event->stream = stream;
  event->since = stream->synced;
  event->ticket = stream->issued;
  pthread_mutex_unlock(&stream->lock);
  return KD_OK;
}

static kd_status event_query(kd_event *event) {
  if (toy_model_now->work == WHEN_AWAITED || !event->stream)
    return await(event);
  pthread_mutex_lock(&event->stream->lock);
  bool done = event->stream->done >= event->ticket;
  pthread_mutex_unlock(&event->stream->lock);
  return done ? await(event) : KD_BUSY;
}

static kd_status event_on_complete(kd_event *event, kd_event_callback callback,
                                   void *context) {
  kd_stream *stream = event->stream;
  after *made = malloc(sizeof *made);
  if (!made) return toy_fail(KD_OUT_OF_MEMORY, "no memory to call back");
  pthread_mutex_lock(&stream->lock);
  *made = (after){stream->afters, *event, callback, context};
  stream->afters = made;
  toy.pending++;
  call_back(stream);
  pthread_mutex_unlock(&stream->lock);
  return KD_OK;
}

kd_stream_table toy_stream_table(void) {
  return (kd_stream_table){
      .struct_size = sizeof(kd_stream_table),
      .create = stream_create,
      .destroy = stream_destroy,
      .wait = stream_wait,
      .synchronize = toy_model_now->calls_back ? stream_synchronize : NULL,
  };
}

kd_event_table toy_event_table(void) {
  return (kd_event_table){
      .struct_size = sizeof(kd_event_table),
      .create = event_create,
      .destroy = event_destroy,
      .record = event_record,
      .query = event_query,
      .wait = event_wait,
      .on_complete = toy_model_now->calls_back ? event_on_complete : NULL,
  };
}

/* ---- recordings ---------------------------------------------------------------------------- */

static void capture_destroy(kd_capture *capture) {
  kd_stream *stream = capture->stream;
  if (stream) {
    pthread_mutex_lock(&stream->lock);
    if (stream->done < capture->ticket)
      toy_host->log(toy_host, KD_LOG_ERROR,
                    "a recording is destroyed while it runs");
    pthread_mutex_unlock(&stream->lock);
  }
  for (toy_job *next; capture->first; capture->first = next) {
    next = capture->first->next;
    free(capture->first);
  }
  free(capture);
  toy_captures--;
}

static kd_status capture_begin(kd_stream *stream, uint32_t flags) {
  if (flags) return toy_fail(KD_UNIMPLEMENTED, "flags");
  if (stream->recording) return toy_fail(KD_FAILED_PRECONDITION, "it records");
  kd_capture *capture = calloc(1, sizeof *capture);
  if (!capture) return toy_fail(KD_OUT_OF_MEMORY, "no memory");
  capture->end = &capture->first;
  stream->recording = capture;
  toy_captures++;
  return KD_OK;
}

static kd_status capture_end(kd_stream *stream, kd_capture **out_capture) {
  if (!stream->recording)
    return toy_fail(KD_FAILED_PRECONDITION, "it does not record");
  *out_capture = stream->recording;
  stream->recording = NULL;
  return KD_OK;
}

static kd_status capture_launch(kd_capture *capture, kd_stream *stream) {
  kd_status status = take_room(stream);
  if (status) return status;
  toy.launches++;
  for (const toy_job *job = capture->first; job; job = job->next) {
    status = push(stream, job);
    if (status) return status;
  }
  pthread_mutex_lock(&stream->lock);
  capture->stream = stream;
  capture->ticket = stream->issued;
  pthread_mutex_unlock(&stream->lock);
  return KD_OK;
}

static void rebind(toy_place *place, const kd_rebind *rebinds, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (place->buffer == rebinds[i].from &&
        place->offset == rebinds[i].from_offset) {
      place->buffer = rebinds[i].to;
      place->offset = rebinds[i].to_offset;
      return;
    }
}

static kd_status capture_update(kd_capture *capture, const kd_rebind *rebinds,
                                uint32_t count) {
  if (!toy.rebinds) return KD_UNIMPLEMENTED;
  toy.updates++;
  for (toy_job *job = capture->first; job; job = job->next)
    for (int k = 0; k < 3; k++)
      rebind(&job->at[k], rebinds, count);
  return KD_OK;
}

const kd_capture_table toy_capture = {
    .struct_size = sizeof toy_capture,
    .begin = capture_begin,
    .end = capture_end,
    .launch = capture_launch,
    .update = capture_update,
    .destroy = capture_destroy,
};
