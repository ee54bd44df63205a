/* plan.h - a function laid out to be run. */
#ifndef KEEL_PLAN_H
#define KEEL_PLAN_H

#include "eager/call_site.h"
#include "plan/order.h"
#include "program/function.h"
#include "threads/cancel.h"
#include "threads/scheduler.h"

/* One run's memory, which a function keeps for the next; first in what a run has. */
typedef struct keel_idle {
  void (*free)(struct keel_idle *self);
  /* Calls it for each buffer that this holds. */
  void (*visit)(const struct keel_idle *self,
                void (*each)(void *context, const keel_buffer *buffer),
                void *context);
} keel_idle;

typedef struct keel_memory_plan keel_memory_plan;
typedef struct keel_versions keel_versions;
typedef struct keel_placed keel_placed;

/* One op, with everything that running it needs. */
typedef struct keel_step {
  keel_call_site site;
  uint32_t *inputs, *outputs; /* values, or KEEL_ABSENT */
  uint32_t input_count, output_count;
  /* Profile sums, relaxed; exact once every run has been waited for. The same holds for
   * copy_time and the clocks' sums. */
  _Atomic uint64_t calls, time;
  /* effects.h: the value that is set if this step fails to change a resource, or
   * KEEL_ABSENT; and the marks of the steps that it waits for */
  uint32_t mark, mark_input_count;
  uint32_t *mark_inputs;
  bool blocks; /* one of its kernels is KD_KERNEL_BLOCKING */
  bool copies; /* keel::Copy */
  /* its output may be pending when its call returns: a copy out of a device, or an exchange
   * (KEEL_OP_MEETS) */
  bool pends;
  uint64_t copy_time; /* added to atomically */
  uint32_t ticket;    /* for the sums of devices' clocks, or 0 */
  char types[96];     /* of the inputs of a profiled call */
} keel_step;

/* Exchanges of profiled runs (profile.c): how many are under way, and steps that run. */
typedef struct keel_exchange_times {
  uint32_t exchanges, steps;
  uint64_t since, bare_since; /* while there are exchanges; and no steps */
  uint64_t calls, time, bare; /* in total */
} keel_exchange_times;

/* A function's effect on a resource that it gets from outside. */
typedef enum keel_effect {
  KEEL_EFFECT_NONE,
  KEEL_EFFECT_READ,
  KEEL_EFFECT_WRITE
} keel_effect;

struct keel_executable {
  keel_plan *plan;
  keel_function *function; /* the function that it lays out */
  const char *name;
  uint32_t value_count, step_count;
  uint32_t input_count, output_count;
  uint32_t capture_count;
  uint32_t mark_count;          /* the last ones of the values */
  bool pends;                   /* some step does */
  bool nests;                   /* whether a step has nested functions */
  bool blocks;                  /* some step does */
  keel_effect *capture_effects; /* by capture */
  keel_effect unknown_effects;
  keel_edge *effect_edges; /* between steps that access the same resource */
  size_t effect_edge_count;
  uint32_t *inputs, *outputs;
  keel_tensor **constants; /* by value; NULL if it is not constant */
  /* by value: as in the first run; NULL: not a tensor */
  const keel_type **types;
  /* by value: the number of reads by steps, plus one per output */
  uint32_t *uses;
  /* by value: the first output that is this value, or KEEL_ABSENT */
  uint32_t *output_of;
  keel_step *steps;
  keel_order *order; /* of its values */
  keel_executable *next;
  /* Put back with release, taken with acquire. */
  _Atomic(keel_idle *) idle;
  /* claimed (acquire) by the one run that records `types` */
  atomic_bool types_claimed;
  /* a run succeeded: `types` is final (stored with release) */
  atomic_bool types_final;
  /* static_run.h: published once with release, read with acquire. */
  _Atomic(keel_memory_plan *) memory_plan;
  keel_scheduler scheduler; /* for static runs */
};

/* For weights.c: runs that may read weights which the plan is going to release. */
typedef struct keel_weight_readers {
  /* Weights may still be released. Cleared once with release when they are gone, read with
   * acquire. */
  atomic_bool expected;
  /* The number of running runs that saw `expected`, or CLOSED: none runs and none may
   * start. Each change acquires what the change before released. */
  _Atomic uint32_t count;
} keel_weight_readers;

struct keel_plan {
  atomic_uint refs;
  keel_context *context;
  keel_device *device;
  keel_arena arena;
  keel_function *functions; /* copies, which the passes transform */
  keel_executable *main, *executables;
  /* the program, by a weak reference; NULL: made from another plan */
  keel_program *program;
  /* it also holds the program, whose input sizes are not all known */
  bool holds;
  keel_plan_params params; /* in full, copied */
  const keel_port *ports;  /* the inputs, as the program declares them */
  /* The plan for other input shapes; NULL: not made. Published once with release, read with
   * acquire. */
  _Atomic(keel_plan *) dynamic;
  keel_versions *versions; /* versions.h; NULL if it has none */
  /* Relaxed; a run reads it once. */
  atomic_bool profile;
  /* Start of the first profiled run; 0: none. Relaxed. */
  _Atomic uint64_t profile_from;
  uint64_t profile_wall; /* nanoseconds; set when profiling stops */
  keel_exchange_times exchange_times;
  /* plans made from this one, which its profile includes; retained (profile.c) */
  keel_plan **parts;
  uint32_t part_count, part_capacity;
  _Atomic uint64_t replays; /* a statistic, relaxed */
  bool eager;               /* KEEL_PLAN_EAGER */
  bool no_replay;
  bool by_clocks;
  bool clocks; /* it has requested the devices' clocks */
  keel_weight_readers weight_readers;
};

/* The device that a step runs on. */
static inline keel_device *keel_step_device(const keel_plan *plan,
                                            const keel_step *step) {
  return step->site.pinned ? step->site.pinned : plan->device;
}

/* Makes a plan of a copy of a function, with inputs of these types, for the same device as
 * `general`. Constants in device memory are shared through `placed`. */
keel_status keel_plan_of_types(const keel_plan *general,
                               const keel_function *function,
                               const keel_type *const *types,
                               const keel_plan_params *params,
                               keel_placed *placed, keel_plan **out_plan);

/* Gets the plan of the same program for inputs of undeclared shapes; nothing in it depends
 * on shapes. Made on first use; lives as long as the plan.
 * Returns KD_FAILED_PRECONDITION if the program was compiled (for the declared shapes), or
 * has been released. */
keel_status keel_plan_dynamic(keel_plan *plan, keel_plan **out_dynamic);

/* The memory that goes with this plan alone, roughly. *out_whole: with what runs hold in between, which
 * is to be had while none runs. */
uint64_t keel_plan_own_bytes(keel_plan *plan, bool *out_whole);

/* Before each run. */
void keel_profile_run(keel_plan *plan);

/* Includes a plan that was made from this one (a version, or for other shapes) in a running
 * profile. Before any other thread can run it. */
void keel_profile_part(keel_plan *plan, keel_plan *part);
/* Called when the plan is destroyed. */
void keel_profile_drop(keel_plan *plan);

/* A step of a profiled run, or an exchange that one waits for, begins or ends. */
void keel_profile_step(keel_plan *plan, bool begins);
void keel_profile_exchange(keel_plan *plan, bool begins);

#endif /* KEEL_PLAN_H */
