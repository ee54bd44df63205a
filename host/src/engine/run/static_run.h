/* static_run.h - static runs: repeated runs of a function with the types of its first run.
 * Each step's launch is written once, values have fixed offsets in one arena, and no
 * tensors are created for them.
 *
 * This is for functions that consist of kernels of one device and of views. The first run
 * determined which kernels those are. On a device with a stream, all steps are enqueued in
 * order; if it can record them, they are launched as one (replay.h). */
#ifndef KEEL_STATIC_RUN_H
#define KEEL_STATIC_RUN_H

#include "plan/memory_plan.h"
#include "run/execute.h"

struct keel_replay;

/* One run's. */
typedef struct keel_static_run {
  keel_memory_plan *memory_plan;
  keel_arena arrays;
  kd_tensor *views;
  kd_launch *launches; /* by step */
  int64_t *scratch;    /* by step: the dimension of the workspace */
  keel_tensor **output_slots;
  keel_tensor **moved; /* by input: a copy in the device's memory, or NULL */
  bool *is_fresh;      /* by input: the copy was made for this run */
  keel_tensor **read;  /* by input: the tensors that kernels read; borrowed */
  keel_buffer *arena;
  void *base; /* the arena's address that the views have */
  kd_buffer *arena_handle;
  keel_donation *donation;    /* of this run; NULL: it donates nothing */
  struct keel_replay *replay; /* NULL: the device does not record */
} keel_static_run;

/* Prepares a static run: creates *static_run, or reuses it. donated: by input: outputs may take its
 * memory; NULL: no input's. False if the function or these inputs do not fit, or if memory does not
 * suffice for all of it at once; the run is then dynamic. */
bool keel_static_run_begin(keel_executable *executable,
                           const keel_run_args *args, const bool *donated,
                           keel_static_run **static_run);

/* Calls it for each buffer that this holds between runs. */
void keel_static_run_visit(const keel_static_run *static_run,
                           void (*each)(void *context,
                                        const keel_buffer *buffer),
                           void *context);

/* Whether its device has a stream: all steps are enqueued at once, and run later. */
bool keel_static_run_is_queued(const keel_static_run *static_run);
keel_status keel_static_run_enqueue(keel_static_run *static_run);

/* For replay.c. The same without a recording: */
keel_status keel_static_run_enqueue_each(keel_static_run *static_run);
/* Parts of it, under the stream's lock: whether the inputs are sound, that the outputs are
 * written (recorded: by one launch), and the steps. */
keel_status keel_static_run_check(const keel_static_run *static_run);
void keel_static_run_writes(const keel_static_run *static_run, bool recorded);
keel_status keel_static_run_enqueue_steps(keel_static_run *static_run);

/* Runs one step, on a device without a stream. */
keel_status keel_static_run_step(keel_static_run *static_run, uint32_t index);

/* The dependencies of steps in a static run: beyond data dependencies, those that memory
 * reuse adds. Valid as long as the static run. */
const keel_order *keel_static_run_order(const keel_static_run *static_run);

/* Sorts later runs by critical path; `costs` in ns per step. */
void keel_static_run_rank(keel_static_run *static_run, const uint32_t *costs);

/* Returns the outputs, if `outputs` is not NULL, and releases memory. */
keel_status keel_static_run_end(keel_static_run *static_run,
                                keel_tensor *const *inputs,
                                keel_tensor **outputs);

void keel_static_run_free(keel_static_run *static_run);

#endif /* KEEL_STATIC_RUN_H */
