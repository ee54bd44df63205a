/* capture.c - recordings. */
#include "newdev.h"

static kd_status begin(kd_stream *stream, uint32_t flags) {
  kd_device *device = stream->device;
  const kd_host *host = device->host;
  if (flags) return host->fail(KD_UNIMPLEMENTED, "newdev: flags 0x%x", flags);
  if (stream->recording)
    return host->fail(KD_FAILED_PRECONDITION, "newdev: the stream records already");
  kd_capture *capture = host->allocate(host, sizeof *capture, 0);
  if (!capture) return host->fail(KD_OUT_OF_MEMORY, "newdev: no memory");
  pthread_mutex_lock(&device->lock);
  capture->device = device;
  capture->number = ++device->captures;
  capture->count = 0;
  stream->recording = capture;
  pthread_mutex_unlock(&device->lock);
  return KD_OK;
}

/* Ends it for all streams that record in it. */
static kd_status end(kd_stream *stream, kd_capture **out_capture) {
  kd_device *device = stream->device;
  kd_capture *capture = stream->recording;
  if (!capture)
    return device->host->fail(KD_FAILED_PRECONDITION, "newdev: the stream records nothing");
  pthread_mutex_lock(&device->lock);
  for (kd_stream *s = device->streams; s; s = s->next)
    if (s->recording == capture) s->recording = NULL;
  pthread_mutex_unlock(&device->lock);
  if (capture->count > NEWDEV_RING) {
    device->host->release(device->host, capture);
    return device->host->fail(KD_UNIMPLEMENTED, "newdev: over %u works", NEWDEV_RING);
  }
  *out_capture = capture;
  return KD_OK;
}

static void replay(const work *self) {
  const kd_capture *capture = self->a;
  for (uint32_t i = 0; i < capture->count; i++)
    capture->works[i].run(&capture->works[i]);
}

static kd_status launch(kd_capture *capture, kd_stream *stream) {
  if (stream->recording) return capture->device->host->fail(KD_UNIMPLEMENTED, "newdev: nested");
  const work one = {.run = replay, .a = capture};
  return newdev_push(capture->device, stream, &one, 1);
}

static void destroy(kd_capture *capture) {
  capture->device->host->release(capture->device->host, capture);
}

const kd_capture_table newdev_captures = {
    .struct_size = sizeof(kd_capture_table),
    .begin = begin,
    .end = end,
    .launch = launch,
    .destroy = destroy,
};
