/* frame.h - static runs: repeated runs of a function with the types of its first run. Each
 * step's launch is written once, values have fixed offsets in one arena, and no tensors are
 * created for them.
 *
 * This is for functions that consist of kernels of one device and of views. The first run
 * determined which kernels those are. On a device with a stream, all steps are enqueued in
 * order; if it can record them, they are launched as one (replay.h). */
#ifndef KEEL_FRAME_H
#define KEEL_FRAME_H

#include "plan/framing.h"

struct keel_replay;

/* One run's. */
typedef struct keel_frame {
  keel_framing *framing;
  keel_arena arrays;
  kd_tensor *views;
  kd_launch *launches; /* by step */
  int64_t *scratch;    /* by step: the dimension of the workspace */
  keel_tensor **outcomes;
  keel_tensor **moved; /* by input: a copy in the device's memory, or NULL */
  bool *brought;       /* by input: the copy was made for this run */
  keel_tensor **read;  /* by input: what the kernels read; borrowed */
  keel_buffer *arena;
  void *base; /* the arena's address that the views have */
  kd_buffer *placed;
  struct keel_replay *replay; /* NULL: the device does not record */
} keel_frame;

/* Prepares a static run: creates *frame, or reuses it. False if the function or these
 * inputs do not fit, or if there is no memory for all of it at once; the run is then
 * dynamic. */
bool keel_frame_begin(keel_fplan *fplan, keel_tensor *const *inputs,
                      keel_frame **frame);

/* Whether its device has a stream: all steps are enqueued at once, and run later. */
bool keel_frame_queued(const keel_frame *frame);
keel_status keel_frame_enqueue(keel_frame *frame);

/* Of replay.c, under the stream's lock: all steps, in the device's stream. */
keel_status keel_frame_enqueue_steps(keel_frame *frame);

/* Runs one step, on a device without a stream. */
keel_status keel_frame_step(keel_frame *frame, uint32_t index);

/* The dependencies of steps in a static run: beyond data dependencies, those that memory
 * reuse adds. Valid as long as the static run. */
const keel_order *keel_frame_order(const keel_frame *frame);

/* Sorts later runs by critical path; `costs` in ns per step. */
void keel_frame_rank(keel_frame *frame, const uint32_t *costs);

/* Returns the outputs, if `outputs` is not NULL, and releases memory. */
keel_status keel_frame_end(keel_frame *frame, keel_tensor *const *inputs,
                           keel_tensor **outputs);

void keel_frame_free(keel_frame *frame);

#endif /* KEEL_FRAME_H */
