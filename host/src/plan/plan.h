/* plan.h - a function laid out to be run. */
#ifndef KEEL_PLAN_H
#define KEEL_PLAN_H

#include "eager/site.h"
#include "plan/order.h"
#include "program/function.h"
#include "threads/cancel.h"
#include "threads/pace.h"

/* One run's memory, which a function keeps for the next; first in what a run has. */
typedef struct keel_idle {
  void (*free)(struct keel_idle *self);
} keel_idle;

typedef struct keel_framing keel_framing;
typedef struct keel_versions keel_versions;
typedef struct keel_placed keel_placed;

/* One op, with all that running it needs. */
typedef struct keel_step {
  keel_site site;
  uint32_t *inputs, *outputs; /* values, or KEEL_ABSENT */
  uint32_t input_count, output_count;
  /* Of a profile: sums, relaxed; exact once the runs have ended, which whoever waited for
   * them knows. So are copy_time, and a clock's sums. */
  _Atomic uint64_t calls, time;
  /* effects.h: the value that says of a step that changes something that it failed, or
   * KEEL_ABSENT; and those of the steps that it waits for */
  uint32_t mark, behind_count;
  uint32_t *behind;
  bool blocks;        /* a kernel of it is KD_KERNEL_BLOCKING */
  bool copies;        /* keel::Copy */
  bool arrives;       /* out of a device: its output may be pending */
  uint64_t copy_time; /* added to atomically */
  uint32_t ticket;    /* of what devices' clocks said, or 0 */
  char types[96];     /* of the inputs, of a profiled call */
} keel_step;

/* What a function does to resources that come from outside. */
typedef enum keel_touch { KEEL_UNTOUCHED, KEEL_READ, KEEL_WRITTEN } keel_touch;

struct keel_fplan {
  keel_plan *plan;
  keel_function *function; /* that it lays out */
  const char *name;
  uint32_t value_count, step_count;
  uint32_t input_count, output_count;
  uint32_t capture_count;
  uint32_t mark_count; /* of the values, the last ones */
  bool arrives;        /* some step does */
  bool nests;          /* some step has nested functions */
  bool blocks;         /* some step does */
  keel_touch *touches; /* by capture */
  keel_touch touches_any;
  keel_edge *effects; /* between steps that touch one resource */
  size_t effect_count;
  uint32_t *inputs, *outputs;
  keel_tensor **constants; /* by value; NULL where not */
  const keel_type *
      *types;      /* by value: what the first run met; NULL: no tensor */
  uint32_t *uses;  /* by value: reads by steps, and one for each output */
  uint32_t *gives; /* by value: the first output that it is, or KEEL_ABSENT */
  keel_step *steps;
  keel_order *order; /* of its values */
  keel_fplan *next;
  /* Put back with release, taken with acquire. */
  _Atomic(keel_idle *) idle;
  atomic_bool meeting; /* a run writes the types; acquired by who gets to */
  atomic_bool ran;     /* it has ended well: they stay; released with them */
  /* frame.h: put there once, with release and all that it consists of; acquired. */
  _Atomic(keel_framing *) framing;
  keel_pace pace; /* of runs in its frame */
};

/* Of weights.c: runs that may read weights which the plan will let go of. */
typedef struct keel_visits {
  /* It may let go of some. Cleared once, with release, when they are gone; acquired. */
  atomic_bool expected;
  /* Runs under way of those that met it, or CLOSED: none is, and none begins meanwhile.
   * Whoever changes it acquires what the one before released. */
  _Atomic uint32_t count;
} keel_visits;

struct keel_plan {
  atomic_uint refs;
  keel_context *context;
  keel_device *device;
  keel_arena arena;
  keel_function *functions; /* copies that the passes worked on */
  keel_fplan *main, *fplans;
  keel_program *program; /* it is of, watched; NULL: it is of another plan */
  bool holds;            /* the program, whose inputs are not of known sizes */
  keel_plan_params params; /* in full, copied */
  const keel_port *ports;  /* of inputs, as the program declares them */
  /* For inputs that are not so; NULL: not made. Put there once, with release; acquired. */
  _Atomic(keel_plan *) loose;
  keel_versions *versions; /* versions.h; NULL: it has none */
  /* A run reads it once, relaxed: what is measured are sums, above. */
  atomic_bool profile;
  /* When the first profiled run began; 0: none. Relaxed: a time alone. */
  _Atomic uint64_t profile_from;
  uint64_t profile_wall; /* nanoseconds, when it is off again */
  /* plans of this one that its profile counts, too; retained (profile.c) */
  keel_plan **parts;
  uint32_t part_count, part_room;
  _Atomic uint64_t replays; /* a count alone, relaxed */
  bool eager;               /* KEEL_PLAN_EAGER */
  bool no_replay;
  bool by_clocks;
  bool clocks; /* it has asked for devices' clocks */
  keel_visits visits;
};

/* Where a step is to run. */
static inline keel_device *keel_step_device(const keel_plan *plan,
                                            const keel_step *step) {
  return step->site.pinned ? step->site.pinned : plan->device;
}

/* A plan of a function, copied, with inputs of these types. It is for the same device as
 * `general`, and places constants as `placed` has them. */
keel_status keel_plan_of_types(const keel_plan *general,
                               const keel_function *function,
                               const keel_type *const *types,
                               const keel_plan_params *params,
                               keel_placed *placed, const keel_watch *watch,
                               keel_plan **out_plan);

/* The plan of the same program for inputs of other shapes than that declares: nothing in
 * it hangs on them. Made at its first use; lives as long as the plan.
 * Returns KD_FAILED_PRECONDITION where the program was compiled, for what it declares, or
 * is held by nobody any more. */
keel_status keel_plan_loosen(keel_plan *plan, const keel_watch *watch,
                             keel_plan **out_loose);

/* Before each run. */
void keel_profile_run(keel_plan *plan);

/* A plan has been made of it (a version, or for other shapes): it is counted, too, where a
 * profile is on. Before anybody else can run it. */
void keel_profile_part(keel_plan *plan, keel_plan *part);
/* At the plan's end. */
void keel_profile_drop(keel_plan *plan);

/* Lays a function out, and the functions nested in it. */
keel_status keel_fplan_create(keel_plan *plan, keel_function *function,
                              keel_fplan **out_fplan);
void keel_fplan_deinit(keel_fplan *fplan);

#endif /* KEEL_PLAN_H */
