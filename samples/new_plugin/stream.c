/* stream.c - streams, a thread each, and events. */
#include <time.h>

#include "newdev.h"

/* A point in a stream: it is reached when as many works have finished. */
struct kd_event {
  kd_device *device;
  kd_stream *stream; /* NULL: not recorded yet */
  uint64_t after;
  /* level 2 */
  uint64_t capture; /* the number of the one that it was recorded in; 0: none */
  /* end */
};

kd_status newdev_push(kd_device *device, kd_stream *stream, const work *works, uint32_t count) {
  for (uint32_t i = 0; !stream && i < count; i++)
    works[i].run(&works[i]);
  if (!stream) return KD_OK;
  pthread_mutex_lock(&device->lock);
  bool fits = stream->issued + count - stream->finished <= NEWDEV_RING;
  /* level 2 */
  kd_capture *capture = stream->recording;
  for (uint32_t i = 0; capture && i < count; i++, capture->count++)
    if (capture->count < NEWDEV_RING) capture->works[capture->count] = works[i];
  if (capture) count = 0, fits = true;
  /* end */
  for (uint32_t i = 0; fits && i < count; i++)
    stream->ring[stream->issued++ % NEWDEV_RING] = works[i];
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
  return fits ? KD_OK : device->host->fail(KD_BUSY, "newdev: the stream is full");
}

static void *serve(void *context) {
  kd_stream *stream = context;
  kd_device *device = stream->device;
  pthread_mutex_lock(&device->lock);
  for (;;) {
    while (stream->finished == stream->issued && !stream->stop)
      pthread_cond_wait(&device->changed, &device->lock);
    if (stream->finished == stream->issued) break;
    work one = stream->ring[stream->finished % NEWDEV_RING];
    pthread_mutex_unlock(&device->lock);
    one.run(&one);
    pthread_mutex_lock(&device->lock);
    stream->finished++;
    pthread_cond_broadcast(&device->changed);
  }
  pthread_mutex_unlock(&device->lock);
  return NULL;
}

/* Takes one that was destroyed, or makes one. */
static kd_status stream_create(kd_device *device, int32_t priority, uint32_t flags,
                               kd_stream **out_stream) {
  const kd_host *host = device->host;
  (void)priority;
  if (flags) return host->fail(KD_UNIMPLEMENTED, "newdev: flags 0x%x", flags);
  pthread_mutex_lock(&device->lock);
  kd_stream *stream = device->streams;
  while (stream && stream->used)
    stream = stream->next;
  if (!stream && (stream = host->allocate(host, sizeof *stream, 0))) {
    memset(stream, 0, sizeof *stream);
    stream->device = device;
    stream->next = device->streams;
    device->streams = stream;
  }
  if (stream) stream->stop = false;
  bool made = stream && pthread_create(&stream->thread, NULL, serve, stream) == 0;
  if (made) stream->used = true, *out_stream = stream;
  pthread_mutex_unlock(&device->lock);
  return made ? KD_OK : host->fail(KD_OUT_OF_MEMORY, "newdev: no memory or thread");
}

static void stream_destroy(kd_stream *stream) {
  kd_device *device = stream->device;
  pthread_mutex_lock(&device->lock);
  stream->stop = true;
  pthread_cond_broadcast(&device->changed);
  pthread_mutex_unlock(&device->lock);
  pthread_join(stream->thread, NULL);
  pthread_mutex_lock(&device->lock);
  stream->used = false;
  pthread_mutex_unlock(&device->lock);
}

/* Until n works of stream y have finished. */
static void await(const work *self) {
  kd_stream *stream = self->y;
  pthread_mutex_lock(&stream->device->lock);
  while (stream->finished < (uint64_t)self->n)
    pthread_cond_wait(&stream->device->changed, &stream->device->lock);
  pthread_mutex_unlock(&stream->device->lock);
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  pthread_mutex_lock(&event->device->lock);
  const work wait = {.run = await, .y = event->stream, .n = (int64_t)event->after};
  /* level 2 */
  kd_capture *other = event->stream ? event->stream->recording : NULL;
  bool joins = other && other->number == event->capture;
  if (joins) stream->recording = other;
  /* end */
  pthread_mutex_unlock(&event->device->lock);
  /* level 2 */
  if (joins) return KD_OK;
  /* end */
  return wait.y ? newdev_push(event->device, stream, &wait, 1) : KD_OK;
}

const kd_stream_table newdev_streams = {
    .struct_size = sizeof(kd_stream_table),
    .create = stream_create,
    .destroy = stream_destroy,
    .wait = stream_wait,
};

static kd_status event_create(kd_device *device, uint32_t flags, kd_event **out_event) {
  const kd_host *host = device->host;
  if (flags) return host->fail(KD_UNIMPLEMENTED, "newdev: flags 0x%x", flags);
  kd_event *event = host->allocate(host, sizeof *event, 0);
  if (!event) return host->fail(KD_OUT_OF_MEMORY, "newdev: no memory");
  *event = (kd_event){.device = device};
  *out_event = event;
  return KD_OK;
}

static void event_destroy(kd_event *event) {
  event->device->host->release(event->device->host, event);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  pthread_mutex_lock(&event->device->lock);
  event->stream = stream;
  event->after = stream->issued;
  /* level 2 */
  event->capture = stream->recording ? stream->recording->number : 0;
  /* end */
  pthread_mutex_unlock(&event->device->lock);
  return KD_OK;
}

static kd_status event_query(kd_event *event) {
  pthread_mutex_lock(&event->device->lock);
  bool done = !event->stream || event->stream->finished >= event->after;
  pthread_mutex_unlock(&event->device->lock);
  return done ? KD_OK : KD_BUSY;
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  kd_device *device = event->device;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  if (timeout > INT64_MAX / 4) timeout = INT64_MAX / 4; /* 73 years */
  timeout += (uint64_t)until.tv_nsec;
  until.tv_sec += (time_t)(timeout / 1000000000);
  until.tv_nsec = (long)(timeout % 1000000000);
  pthread_mutex_lock(&device->lock);
  kd_stream *stream = event->stream;
  uint64_t after = event->after;
  bool done = !stream || stream->finished >= after;
  while (!done && !pthread_cond_clockwait(&device->changed, &device->lock, CLOCK_MONOTONIC, &until))
    done = stream->finished >= after;
  pthread_mutex_unlock(&device->lock);
  return done ? KD_OK : device->host->fail(KD_DEADLINE_EXCEEDED, "newdev: not done");
}

const kd_event_table newdev_events = {
    .struct_size = sizeof(kd_event_table),
    .create = event_create,
    .destroy = event_destroy,
    .record = event_record,
    .query = event_query,
    .wait = event_wait,
};
