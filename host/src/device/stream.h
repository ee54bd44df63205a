/* stream.h - a device's streams: marks, waiting, and what is freed behind their work. */
#ifndef KEEL_STREAM_H
#define KEEL_STREAM_H

#include "device/device.h"

/* Waits until a stream of the device, on which `lock` lets one thread at a time
 * enqueue, has done its work. Returns KD_OK, or the failure of some of it. */
keel_status keel_stream_finish(keel_device *device, kd_stream *stream,
                               pthread_mutex_t *lock);

/* Records an event behind a stream's work, and has that begin. Under the stream's lock. */
kd_status keel_stream_mark(keel_device *device, kd_stream *stream,
                           kd_event *event);

/* What this thread's copies from now on are for, in a trace: an op, and the node's name. NULL:
 * nothing that is known. */
void keel_stream_for(const char *op, const char *where);

/* Before a copy on a stream, under its lock: a trace has what it is for. */
void keel_stream_tag(const keel_device *device, kd_stream *stream);

/* The same for the stream of its eager and planned work. KD_DEVICE_LOST where the device
 * is lost. */
keel_status keel_device_drain(keel_device *device);

/* The same before something is freed that the work may use. Leaves this thread's message as
 * it is where the device is lost: what fails then is known. */
void keel_device_settle(keel_device *device);

/* Runs a task, on some thread that waits for the device or gives it work, once the device
 * has passed what the task is to free. Any thread may hand one over. */
void keel_stream_keep(keel_device *device, keel_task *task);
/* Runs those that have been handed over. */
void keel_stream_reap(keel_device *device);

#endif /* KEEL_STREAM_H */
