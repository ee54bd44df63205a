/* replay.h - the steps of a frame as a recording of its device's stream, which a run
 * launches as one (kd/capture.h).
 *
 * A recording is made when a frame has run a few times. It holds all memory that it uses:
 * the frame's, and the inputs and outcomes that lie elsewhere. Outcomes that nobody else
 * holds any more are used again; a caller who still holds the last ones, and so uses two
 * pieces of memory in turn, has a recording for each. Else a recording is put to other
 * memory. */
#ifndef KEEL_REPLAY_H
#define KEEL_REPLAY_H

#include "run/frame.h"

typedef struct keel_replay keel_replay;

/* For a frame whose device records. NULL: there is no memory. */
keel_replay *keel_replay_create(const keel_framing *framing);

/* Of a frame whose inputs are placed: the recording that this run is to launch. */
void keel_replay_choose(keel_frame *frame);

/* Where outcome `index` is in that; NULL: anywhere. */
keel_buffer *keel_replay_outcome(const keel_replay *replay, uint32_t index);

/* Enqueues the steps of a frame that is ready: as a recording, or one by one. */
keel_status keel_replay_run(keel_frame *frame);

/* Whether there are recordings, of the frame's memory. */
bool keel_replay_holds(const keel_replay *replay);

/* Waits for the device where there is a recording. */
void keel_replay_free(keel_replay *replay);

#endif /* KEEL_REPLAY_H */
