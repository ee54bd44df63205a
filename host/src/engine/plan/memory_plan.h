/* memory_plan.h - a function laid out for runs that make no values (run/static_run.h):
 * each step's launch, and where each value lies. */
#ifndef KEEL_MEMORY_PLAN_H
#define KEEL_MEMORY_PLAN_H

#include "device/device.h"
#include "memory/late.h"
#include "plan/buffer_assignment.h"
#include "plan/plan.h"

/* Where a value's memory comes from, and its index there. */
typedef enum origin {
  FROM_NONE,     /* an absent argument */
  FROM_CONSTANT, /* `number`: the value */
  FROM_INPUT,    /* `number`: which */
  FROM_ARENA,    /* `number`: the block */
  FROM_OUTPUT    /* `number`: the output slot */
} origin;

typedef struct source {
  origin origin;
  uint32_t number;
  /* row-major, or the device's own; then layout_bytes is its size */
  uint32_t layout;
  uint64_t layout_bytes;
  uint64_t offset;        /* bytes into that memory, for a part */
  const int64_t *strides; /* for a part that is not packed */
} source;

/* An output slot: a tensor that each run allocates for its caller. */
typedef struct output_slot {
  keel_heap *heap;
  const keel_type *type;
  uint32_t layout;
  uint64_t layout_bytes;
} output_slot;

/* A view whose memory differs in each run. */
typedef struct patch {
  uint32_t view, number;
} patch;

/* A copy before a step, for an output that must share an input's memory. */
typedef struct alias_copy {
  uint32_t from, to; /* views */
} alias_copy;

typedef struct planned_step {
  kd_status (*enqueue)(kd_kernel *self, kd_stream *stream,
                       const kd_launch *launch);
  kd_kernel *handle;
  const keel_specialisation *spec; /* NULL: the step does nothing */
  uint32_t first;                  /* its first view; inputs, then outputs */
  uint32_t workspace;              /* block, or KEEL_ABSENT */
  uint64_t workspace_size;
  uint32_t first_copy, copy_count;
} planned_step;

typedef struct keel_inplace_concat keel_inplace_concat;
typedef struct keel_donation keel_donation;

struct keel_memory_plan {
  keel_arena arena; /* of the arrays */
  keel_executable *executable;
  planned_step *steps;
  kd_tensor *views; /* templates; data and buffer are set per static run */
  source *sources;  /* by view */
  uint32_t view_count, kernel_count;
  source *values;          /* by value */
  const keel_type **types; /* of inputs, by their number */
  output_slot *output_slots;
  uint32_t output_slot_count;
  patch *input_patches, *output_patches;
  uint32_t input_patch_count, output_patch_count;
  alias_copy *copies;
  uint32_t copy_count;
  /* recordings can't be rebound to other memory: a part begins inside it, or it is
   * copied */
  bool fixed;
  keel_buffer_assignment assignment;
  /* of the arena; all kernels are its device's, which is pinned */
  keel_heap *heap;
  bool queued;  /* the device has a stream */
  bool records; /* it can record the stream, and no kernel forbids it */
  keel_order *order;
  /* Sorted by measured step costs; NULL: not measured. Stored once with release, read with
   * acquire. */
  _Atomic(keel_order *) ranked;
  /* of the first run that donates inputs (donation.h). NULL: none has. Stored once with
   * release, read with acquire. */
  _Atomic(keel_donation *) donation;
};

/* The function's memory plan; NULL if it has none (yet). */
keel_memory_plan *keel_memory_plan_of(keel_executable *executable);

/* A constant as its steps read it: of a late one the copy, which is there, as the steps have run. */
static inline const keel_tensor *keel_memory_plan_constant(
    const keel_memory_plan *all, uint32_t value) {
  const keel_tensor *at = all->executable->constants[value];
  const keel_tensor *there = keel_late_there(at);
  return there ? there : at;
}

/* At the function's end. */
void keel_memory_plan_drop(keel_executable *executable);

/* As keel_plan_memory; false: it is not planned. */
bool keel_memory_plan_sizes(const keel_executable *executable,
                            uint64_t *out_planned, uint64_t *out_unshared,
                            uint64_t *out_peak);

#endif /* KEEL_MEMORY_PLAN_H */
