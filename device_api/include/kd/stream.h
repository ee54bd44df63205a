/* kd/stream.h - queues of work on a device, and the points in them.
 *
 * Level 1 of the device ABI. A plugin without streams leaves both tables NULL;
 * the host then calls it synchronously. SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_STREAM_H
#define KD_STREAM_H

#include <kd/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called once when an event's work is done or has failed: from any thread,
 * including a driver's own, or inside the call that registered it. It never
 * blocks and never calls the plugin.
 *
 * why  the failure's message, as for host->fail; "" for KD_OK; borrowed */
typedef void (*kd_event_callback)(void *context, kd_status status,
                                  const char *why);

/* The streams of a device. create, destroy and wait are required. Unless a slot
 * says otherwise, any thread may call it, one at a time for one stream; out_
 * parameters are written on KD_OK only. There may be many streams, and they
 * should run independently of each other.
 *
 * A failure affects only its stream and those that wait for it. The loss of the
 * device (kd_plugin.device_status) fails all its streams. No wait hangs because
 * something failed. Each query, wait or synchronize that returns a failure also
 * gives its reason through host->fail.
 *
 * A stream of a device with max_in_flight may be full. A call that would
 * enqueue then returns KD_BUSY and has enqueued nothing, and the host repeats
 * it until earlier work has made room. */
typedef struct kd_stream_table {
  uint32_t struct_size; /* sizeof(kd_stream_table) as the plugin knew it */
  uint32_t reserved;

  /* Creates a stream, which the host owns and destroys once.
   *
   * priority  -1 background, 0 normal, 1 urgent; a hint
   * flags     none yet; an unknown bit is refused
   * Returns KD_OK, KD_OUT_OF_MEMORY, KD_UNIMPLEMENTED (unknown flag). */
  kd_status (*create)(kd_device *device, int32_t priority, uint32_t flags,
                      KD_OWNED kd_stream **out_stream);

  /* Destroys a stream whose work is done. Never fails. */
  void (*destroy)(kd_stream *stream);

  /* Makes work that is enqueued from now on wait for `event`, which may be of
   * another stream or device of this plugin. Never blocks. Waiting for an event
   * that was never recorded has no effect. If the event's work failed, this
   * stream's work from here on fails with the same status.
   * Returns KD_OK, or why the stream accepts no more work. */
  kd_status (*wait)(kd_stream *stream, kd_event *event);

  /* Submits work that the plugin holds back for batching. NULL: nothing is held
   * back. Returns KD_OK, KD_DEVICE_LOST. */
  kd_status (*flush)(kd_stream *stream);

  /* Blocks until all work of the stream is done. NULL: the host records an
   * event and waits for it; a stream whose work failed then stays failed, so a
   * device whose work can fail should have this slot.
   * Returns KD_OK, or the status of the first work that failed since the last
   * synchronize; the stream is then usable again, unless the status is
   * KD_DEVICE_LOST. */
  kd_status (*synchronize)(kd_stream *stream);

  /* Tags the copies and fills that are enqueued on the stream from now on:
   * their profile records carry `correlation`, as launches carry their own. The
   * host calls it before a copy while it profiles. Never blocks, never fails.
   * NULL: records of copies carry 0. */
  void (*tag)(kd_stream *stream, uint64_t correlation);
} kd_stream_table;

/* The events of a device. create, destroy, record, query and wait are required
 * with a stream table. Several threads may query and wait for one event at
 * once, and any number of streams may wait for it. An event carries the status
 * of the work before it. If the device is lost, its incomplete events fail with
 * KD_DEVICE_LOST. There may be thousands of events. */
typedef struct kd_event_table {
  uint32_t struct_size; /* sizeof(kd_event_table) as the plugin knew it */
  uint32_t reserved;

  /* Creates an event, not recorded yet. flags: none yet; an unknown bit is
   * refused. Returns KD_OK, KD_OUT_OF_MEMORY, KD_UNIMPLEMENTED. */
  kd_status (*create)(kd_device *device, uint32_t flags,
                      KD_OWNED kd_event **out_event);

  /* Frees an event. Legal while its work still runs and after a callback was
   * registered; the callback still comes. Never blocks. */
  void (*destroy)(kd_event *event);

  /* Records the event after all work that `stream` holds now. Recording it
   * again moves it; waits that are already queued still refer to the old point.
   * Never blocks.
   * Returns KD_OK, or why the stream accepts no more work. After
   * KD_DEVICE_LOST the event is an incomplete one: a wait for it returns once
   * the device no longer accesses memory. */
  kd_status (*record)(kd_event *event, kd_stream *stream);

  /* Asks whether the work before the event is done.
   * Returns KD_OK (done, or never recorded), KD_BUSY (not yet), or the status
   * of the first work before it that failed. Never blocks. */
  kd_status (*query)(kd_event *event);

  /* Blocks the caller until the work before the event is done.
   *
   * timeout  nanoseconds; 0 polls, UINT64_MAX waits without limit
   * Returns KD_OK, KD_DEADLINE_EXCEEDED, or a failure as query does. */
  kd_status (*wait)(kd_event *event, uint64_t timeout);

  /* Calls `callback` once, when the work before the event is done. The host may
   * destroy the event once this call has returned and the callback has been
   * entered. NULL: the host blocks a thread for each copy out of the device.
   * Returns KD_OK; otherwise the callback is never called. */
  kd_status (*on_complete)(kd_event *event, kd_event_callback callback,
                           void *context);
} kd_event_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_STREAM_H */
