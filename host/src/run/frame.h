/* frame.h - a function run again with the types of its first run, without making values:
 * each step's launch is written once, and values have their places in one piece of
 * memory.
 *
 * It fits a function of kernels of one device, and of views of data. What the first run
 * met says which kernels those are. On a device with a stream all steps are enqueued in
 * their order; where it can record them, they are launched as one (replay.h). */
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
  int64_t *scratch;    /* by step: the workspace's dimension */
  keel_tensor **outcomes;
  keel_tensor **moved; /* by input: a copy in the device's memory, or NULL */
  bool *brought;       /* by input: the copy is this run's */
  keel_tensor **read;  /* by input: what kernels read; not held */
  keel_buffer *arena;
  void *base; /* where the views think that the arena is */
  kd_buffer *placed;
  struct keel_replay *replay; /* NULL: the device records nothing */
} keel_frame;

/* Makes a run ready: *frame is made, or one of before is used again. False where the
 * function or these inputs do not fit, or memory for all of it at once is not there;
 * then the run makes values. */
bool keel_frame_begin(keel_fplan *fplan, keel_tensor *const *inputs,
                      keel_frame **frame);

/* Whether its device has a stream: steps are enqueued at once, and run later. */
bool keel_frame_queued(const keel_frame *frame);
keel_status keel_frame_enqueue(keel_frame *frame);

/* Of replay.c, under the stream's lock: all steps, in the device's stream. */
keel_status keel_frame_enqueue_steps(keel_frame *frame);

/* Else: runs one step. */
keel_status keel_frame_step(keel_frame *frame, uint32_t index);

/* Which steps wait for which in a frame: for more than their values, where memory is
 * shared in the plan's order. Stays as long as the frame. */
const keel_order *keel_frame_order(const keel_frame *frame);

/* Lets later runs begin first what has the longest way behind it, by what steps cost:
 * nanoseconds, one a step. */
void keel_frame_rank(keel_frame *frame, const uint32_t *costs);

/* Hands out the outputs, where `outputs` is not NULL, and lets go of memory. */
keel_status keel_frame_end(keel_frame *frame, keel_tensor *const *inputs,
                           keel_tensor **outputs);

void keel_frame_free(keel_frame *frame);

#endif /* KEEL_FRAME_H */
