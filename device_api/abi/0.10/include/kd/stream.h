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

/* Called once when an event's work is done or has failed, from any thread, a
 * driver's own included; also inside the call that registered it. It never
 * blocks and never calls the plugin.
 *
 * why  of a failure, what host->fail would say of it; "" of KD_OK. Borrowed */
typedef void (*kd_event_callback)(void *context, kd_status status,
                                  const char *why);

/* What a device does with streams. Unless a slot says otherwise, any thread
 * may call it, one at a time for one stream; out_ is written on KD_OK only.
 * There may be many. Streams of a device should not wait for each other. A
 * failure stays with its stream and those that wait for it, but for the loss of
 * the device (kd_plugin.device_status), with which all its streams fail. Nothing
 * waits for ever because something failed. Who learns of a failure by query,
 * wait or synchronize gets its reason by host->fail, each time. A stream of a
 * device with max_in_flight may
 * be full: what enqueues then returns KD_BUSY and has enqueued nothing, and
 * the host repeats the call until earlier work has made room. */
typedef struct kd_stream_table {
  uint32_t struct_size; /* sizeof(kd_stream_table) as the plugin knew it */
  uint32_t reserved;

  /* Opens a stream, which the host owns and destroys once.
   *
   * priority  -1 background, 0 normal, 1 urgent; a hint
   * flags     none yet; an unknown bit is refused
   * Returns KD_OK, KD_OUT_OF_MEMORY, KD_UNIMPLEMENTED (unknown flag). */
  kd_status (*create)(kd_device *device, int32_t priority, uint32_t flags,
                      KD_OWNED kd_stream **out_stream);

  /* Closes a stream whose work is done. Never fails. */
  void (*destroy)(kd_stream *stream);

  /* Makes work that is enqueued from now on wait for `event`, which may be of
   * another stream or device of this plugin. Never blocks. An event that was
   * never recorded is no wait. If the event's work failed, so does this
   * stream's work from here on, with the same status.
   * Returns KD_OK, or why the stream takes no more work. */
  kd_status (*wait)(kd_stream *stream, kd_event *event);

  /* Hands work that the plugin holds back for batching to the device. NULL:
   * nothing is held back. Returns KD_OK, KD_DEVICE_LOST. */
  kd_status (*flush)(kd_stream *stream);

  /* Blocks until all work of the stream is done. NULL: the host records an
   * event and waits for it.
   * Returns KD_OK, or the status of the first work that failed since the last
   * synchronize; the stream is usable again unless it was KD_DEVICE_LOST. */
  kd_status (*synchronize)(kd_stream *stream);

  /* Names the copies and fills that are enqueued on the stream from now on: their
   * profile records carry `correlation`, as launches carry their own. The host calls
   * it before a copy while it profiles. Never blocks, never fails; NULL: records of
   * copies carry 0. */
  void (*tag)(kd_stream *stream, uint64_t correlation);
} kd_stream_table;

/* What a device does with events. All of create, destroy, record, query and
 * wait are needed beside a stream table. Several threads may query and wait
 * for one event at once. An event carries the status of the work before it. When
 * the device is lost, those that are not done fail with KD_DEVICE_LOST. There
 * may be thousands. Any number of streams may wait for one event. */
typedef struct kd_event_table {
  uint32_t struct_size; /* sizeof(kd_event_table) as the plugin knew it */
  uint32_t reserved;

  /* Makes an event, not recorded yet. flags: none yet; an unknown bit is
   * refused. Returns KD_OK, KD_OUT_OF_MEMORY, KD_UNIMPLEMENTED. */
  kd_status (*create)(kd_device *device, uint32_t flags,
                      KD_OWNED kd_event **out_event);

  /* Frees an event. Legal while its work still runs and after a callback was
   * registered; the callback still comes. Never blocks. */
  void (*destroy)(kd_event *event);

  /* Moves the event behind all that `stream` holds now; waits that are already
   * queued still mean the old point. Never blocks.
   * Returns KD_OK, or why the stream takes no more work. */
  kd_status (*record)(kd_event *event, kd_stream *stream);

  /* Asks whether the work before the event is done.
   * Returns KD_OK (done, or never recorded), KD_BUSY (not yet), or the status
   * of the first work before it that failed. Never blocks. */
  kd_status (*query)(kd_event *event);

  /* Blocks the caller until the work before the event is done.
   *
   * timeout  0 polls, UINT64_MAX waits without limit
   * Returns KD_OK, KD_DEADLINE_EXCEEDED, or as query. */
  kd_status (*wait)(kd_event *event, uint64_t timeout);

  /* Calls back once, when the work before the event is done. NULL: the host
   * blocks a thread at each copy out of the device. Once this call has returned and
   * the callback was entered, the host may destroy the event. Returns KD_OK; else no
   * call comes. */
  kd_status (*on_complete)(kd_event *event, kd_event_callback callback,
                           void *context);
} kd_event_table;

#ifdef __cplusplus
}
#endif
#endif /* KD_STREAM_H */
