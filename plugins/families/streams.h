/* streams.h - what streams and events of all drivers have in common: a stream runs or
 * records, an event is a mark in a stream's work or a place in a recording. */
#ifndef KEEL_FAMILIES_STREAMS_H
#define KEEL_FAMILIES_STREAMS_H

#include "families/record.h"

/* The first part of a plugin's kd_stream. */
typedef struct fam_stream {
  kd_device *device;
  struct kd_capture *recording; /* NULL: it runs */
  uint64_t tag;                 /* of copies, for profile records */
  uint32_t number;              /* in profile records */
} fam_stream;

static inline fam_stream *fam_stream_of(kd_stream *stream) {
  return (fam_stream *)(void *)stream;
}

/* How a driver marks a place in a stream's work. All but the first three return as the slots
 * of kd_event_table do. */
typedef struct fam_marks {
  /* What an event has of the driver for all its life; both NULL: nothing. */
  kd_status (*create)(kd_device *device, void **out_own);
  void (*destroy)(kd_device *device, void *own);
  /* References to a mark; both NULL: a mark lives as long as its event. */
  void (*take)(void *mark);
  void (*drop)(void *mark);
  /* Puts one behind all that was enqueued; *out_mark has a reference, or is NULL where
   * nothing was. */
  kd_status (*put)(kd_stream *stream, void *own, void **out_mark);
  /* What the stream is given from now on runs behind the mark. */
  kd_status (*follow)(kd_stream *stream, void *mark);
  kd_status (*query)(kd_device *device, void *mark);
  kd_status (*wait)(kd_device *device, void *mark, uint64_t timeout);
  kd_status (*on_complete)(kd_device *device, void *mark,
                           kd_event_callback callback, void *context);
} fam_marks;

/* For kd_plugin.events. */
extern const kd_event_table fam_events;

/* kd_stream_table.wait and .tag */
kd_status fam_stream_wait(kd_stream *stream, kd_event *event);
void fam_stream_tag(kd_stream *stream, uint64_t correlation);

#endif /* KEEL_FAMILIES_STREAMS_H */
