/* copy.h - moving tensors between the host and devices. */
#ifndef KEEL_COPY_H
#define KEEL_COPY_H

#include "values/tensor.h"

/* The same data where work on `device` can read it: without a copy where the device takes
 * host memory as it is, which nobody may write to then. Else as keel_copy_to. */
keel_status keel_share_or_copy(keel_tensor *tensor, keel_device *device,
                               keel_tensor **out_tensor);

/* A copy of a ready tensor, row-major, in the memory of `device` (NULL: of the
 * host). The shortest way is taken: an address that both reach, a peer copy,
 * else through host memory. */
keel_status keel_copy_to(keel_tensor *tensor, keel_device *device,
                         keel_tensor **out_tensor);

/* The same into `target`, of the same type and row-major, in the order of its device's
 * work. */
keel_status keel_copy_into(keel_tensor *tensor, keel_tensor *target);

/* The value row-major: itself, or a copy that the device makes whose layout it has
 * (memory/layout.c). */
keel_status keel_copy_rows(keel_tensor *tensor, keel_tensor **out_tensor);

/* Waits until a stream of the device, on which `lock` lets one thread at a time
 * enqueue, has done its work. Returns KD_OK, or the failure of some of it. */
keel_status keel_stream_finish(keel_device *device, kd_stream *stream,
                               pthread_mutex_t *lock);

/* Records an event behind a stream's work, and has that begin. Under the stream's lock. */
kd_status keel_stream_mark(keel_device *device, kd_stream *stream,
                           kd_event *event);

/* What this thread's copies from now on are for, in a trace: an op, and the node's name. NULL:
 * nothing that is known. */
void keel_copy_for(const char *op, const char *where);

/* Before a copy on a stream, under its lock: a trace has what it is for. */
void keel_stream_tag(const keel_device *device, kd_stream *stream);

/* The same for the stream of its eager and planned work. KD_DEVICE_LOST where the device
 * is lost. */
keel_status keel_device_drain(keel_device *device);

/* The same before something is freed that the work may use. Leaves this thread's message as
 * it is where the device is lost: what fails then is known. */
void keel_device_settle(keel_device *device);

#endif /* KEEL_COPY_H */
