/* framing.h - a function laid out for runs that make no values (run/frame.h): each step's
 * launch, and where each value lies. */
#ifndef KEEL_FRAMING_H
#define KEEL_FRAMING_H

#include "device/device.h"
#include "plan/places.h"
#include "plan/plan.h"

/* Where a value's memory comes from. */
typedef enum origin {
  FROM_NOWHERE,  /* an absent argument */
  FROM_CONSTANT, /* `number`: of this value */
  FROM_INPUT,    /* `number`: which */
  FROM_ARENA,    /* `number`: which of the blocks */
  FROM_OUTCOME   /* is handed out; `number`: which of those */
} origin;

typedef struct source {
  origin origin;
  uint32_t number;
  uint32_t layout; /* rows, or the device's own; then its bytes */
  uint64_t laid;
  uint64_t offset;        /* bytes from where that memory begins: of a part */
  const int64_t *strides; /* of a part that is not packed */
} source;

/* A value that a run makes for its caller. */
typedef struct outcome {
  keel_heap *heap;
  const keel_type *type;
  uint32_t layout;
  uint64_t laid;
} outcome;

/* A view whose memory is another in each run. */
typedef struct patch {
  uint32_t view, number;
} patch;

/* What is copied before a step: an output that must lie where an input does. */
typedef struct beforehand {
  uint32_t from, to; /* views */
} beforehand;

typedef struct framed_step {
  kd_status (*enqueue)(kd_kernel *self, kd_stream *stream,
                       const kd_launch *launch);
  kd_kernel *handle;
  const keel_binding *binding; /* NULL: nothing is to be done */
  uint32_t first;              /* view; inputs, then outputs */
  uint32_t workspace;          /* block, or KEEL_ABSENT */
  uint64_t workspace_size;
  uint32_t first_copy, copy_count;
} framed_step;

typedef struct keel_joins keel_joins;

struct keel_framing {
  keel_arena arena; /* of the arrays */
  keel_fplan *fplan;
  framed_step *steps;
  kd_tensor *views; /* data and buffer are a frame's */
  source *sources;  /* by view */
  uint32_t view_count, kernel_count;
  source *values;          /* by value */
  const keel_type **types; /* of inputs, by their number */
  outcome *outcomes;
  uint32_t outcome_count;
  patch *input_patches, *outcome_patches;
  uint32_t input_patch_count, outcome_patch_count;
  beforehand *copies;
  uint32_t copy_count;
  bool
      fixed; /* what is recorded can't be put to other memory: a part begins inside it, or
                 it is copied */
  keel_places places;
  keel_heap
      *heap;    /* of the arena; its device's are all kernels, and it is held */
  bool queued;  /* the device has a stream: it works later, in order */
  bool records; /* it can record it, and each kernel lets it */
  keel_order *order;
  /* By what steps cost; NULL: not measured. Put there once, with release; acquired. */
  _Atomic(keel_order *) ranked;
};

/* The function's framing; NULL: it has none, or not yet. */
keel_framing *keel_framing_of(keel_fplan *fplan);

/* At the function's end. */
void keel_framing_drop(keel_fplan *fplan);

/* As keel_plan_memory; false: it is not planned. */
bool keel_framing_memory(const keel_fplan *fplan, uint64_t *out_planned,
                         uint64_t *out_apart, uint64_t *out_least);

#endif /* KEEL_FRAMING_H */
