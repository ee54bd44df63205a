/* stream.h - a device's streams: marks, waiting, and objects that are freed behind their work. */
#ifndef KEEL_STREAM_H
#define KEEL_STREAM_H

#include "device/device.h"

/* Waits for all work of a device's stream; `lock` guards enqueueing on it. Returns KD_OK,
 * or the failure of some of the work. */
keel_status keel_stream_finish(keel_device *device, kd_stream *stream,
                               pthread_mutex_t *lock);

/* Records an event after the stream's work, and flushes the stream. With the stream's lock
 * held. */
kd_status keel_stream_record(keel_device *device, kd_stream *stream,
                             kd_event *event);

/* Labels this thread's next copies in a trace: an op and the node's name. NULL: unknown. */
void keel_stream_for(const char *op, const char *where);

/* Tags the next copy on a stream with its label. With the stream's lock held. */
void keel_stream_tag(const keel_device *device, kd_stream *stream);

/* The same for the device's main stream. Returns KD_DEVICE_LOST if the device is lost. */
keel_status keel_device_drain(keel_device *device);

/* The same before freeing something that the work may use. This thread's message of a failure
 * stays, and if the device is lost, it stays in any case. */
void keel_device_drain_quietly(keel_device *device);

/* Runs a task, on some thread that waits for the device or gives it work, once the device
 * has passed what the task is to free. Any thread may hand one over. */
void keel_stream_keep(keel_device *device, keel_task *task);
/* Runs those that have been handed over. */
void keel_stream_reap(keel_device *device);

#endif /* KEEL_STREAM_H */
