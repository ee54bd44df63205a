/* replay.h - recordings of a static run on its device's stream, each launched as one
 * (kd/capture.h).
 *
 * A recording is made after a few static runs. It retains all memory that it uses: the arena, the
 * inputs and the outputs. Outputs that nothing else holds any more are reused. A caller that still
 * holds the last outputs, and so alternates between two pieces of memory, gets a recording for
 * each; so does a loop whose outputs are the next run's inputs. Otherwise a recording is rebound to
 * other memory. */
#ifndef KEEL_REPLAY_H
#define KEEL_REPLAY_H

#include "run/static_run.h"

typedef struct keel_replay keel_replay;

/* For a static run whose device records. NULL if memory runs out. */
keel_replay *keel_replay_create(const keel_memory_plan *memory_plan);

/* Chooses the recording for this run. The inputs are in place. No other run takes the memory that
 * it chooses for outputs until keel_replay_chosen is called, when the outputs hold it. */
void keel_replay_choose(keel_static_run *static_run);
void keel_replay_chosen(keel_replay *replay);

/* The memory of output `index` in the chosen recording; NULL: any. */
keel_buffer *keel_replay_output(const keel_replay *replay, uint32_t index);

/* Enqueues the steps of a prepared static run: as a recording, or one by one. */
keel_status keel_replay_run(keel_static_run *static_run);

/* Whether recordings exist, which retain the static run's memory. */
bool keel_replay_holds(const keel_replay *replay);

/* Calls it for the memory of inputs and outputs that recordings retain. */
void keel_replay_visit(const keel_replay *replay,
                       void (*each)(void *context, const keel_buffer *buffer),
                       void *context);

/* Waits for the device if there is a recording. */
void keel_replay_free(keel_replay *replay);

#endif /* KEEL_REPLAY_H */
