/* passes.h - the passes, which transform a function before it is laid out.
 *
 * Each pass takes a sorted function and leaves a sorted one; nodes that are no
 * longer needed are marked dead. */
#ifndef KEEL_PASSES_H
#define KEEL_PASSES_H

#include "passes/placed.h"
#include "program/function.h"
#include "threads/cancel.h"

/* Which passes to run: all; those that do not look at shapes; the remaining ones; all
 * again, with shapes known. */
typedef enum keel_pass_part {
  KEEL_PASSES_ALL,
  KEEL_PASSES_FIRST,
  KEEL_PASSES_REST,
  KEEL_PASSES_AGAIN
} keel_pass_part;

/* The facts of the plan that passes use. */
typedef struct keel_pass_call {
  const keel_plan_params *params;
  keel_device *device; /* for nodes without a device of their own, or NULL */
  const keel_function *main;
  bool to_save; /* skip passes whose results hold in one process only */
  keel_pass_part part;
  keel_placed *placed; /* or NULL */
  /* compiled forms that came with the program, or NULL */
  keel_forms *forms;
  /* receives the forms of the regions that are compiled, or NULL */
  keel_forms *takes;
  bool sizes_only; /* fold: integers alone, with which models compute sizes */
  bool forgives;   /* fold: a node whose arguments do not fit is left */
} keel_pass_call;

/* One of plain, on_device and over_all is set. */
typedef struct keel_pass {
  const char *name, *about;
  bool needed;        /* cannot be left out */
  bool last;          /* its result is specific to this process's devices */
  uint32_t requested; /* KEEL_PLAN_*: runs only where the flag is set */
  /* gains from known shapes; runs after those that do not */
  bool shapes;
  bool once;      /* not run again once shapes are known */
  bool open;      /* runs only where they are not known */
  bool compilers; /* it asks compilers, which may ask for constants */
  keel_status (*plain)(keel_function *function);
  keel_status (*on_device)(keel_function *function, keel_device *device);
  keel_status (*over_all)(keel_function *functions, const keel_pass_call *call);
} keel_pass;

/* The parameters in full, whatever their struct_size; NULL: the defaults. Returns KD_OK,
 * KD_INVALID_ARGUMENT (no struct_size, unknown flags). */
keel_status keel_plan_params_read(const keel_plan_params *given,
                                  keel_plan_params *out_all);

/* The device of nodes that name none, see keel_plan_params. NULL if there is no device. */
keel_device *keel_plan_device(const keel_program *program,
                              const keel_plan_params *params);

/* Constants that no kernel can read where they are, while compilers may ask for them: a copy for
 * one stays until all have asked. */
typedef struct keel_held {
  keel_tensor **list;
  uint32_t count;
} keel_held;

keel_status keel_held_take(const keel_function *functions, keel_held *out_held);
void keel_held_drop(keel_held *held);

/* Runs all passes in order on a plan's functions, except those that are skipped. Returns
 * KD_OK, KD_NOT_FOUND (no such pass), or a pass's failure. */
keel_status keel_passes_run(keel_function *functions,
                            const keel_pass_call *call);

/* Whether a node is that op of ONNX, and was not removed. */
bool keel_pass_is(const keel_node *node, const char *op);

/* A fact of a value, or NULL, as for KEEL_ABSENT: its type with all dimensions; its constant, where
 * the host can read it; the node that makes it and was not removed. */
const keel_type *keel_pass_type(const keel_function *function, uint32_t value);
const keel_tensor *keel_pass_constant(const keel_function *function,
                                      uint32_t value);
keel_node *keel_pass_maker(const keel_function *function, uint32_t value);

/* Releases a constant whose reader was removed, if it had no other reader when uses were
 * counted, or was added since. */
void keel_pass_release_constant(keel_function *function, const keel_uses *uses,
                                uint32_t value);

/* A node as kernels are asked about it, before anything runs. */
typedef struct keel_view {
  struct kd_node node;
  const keel_type **types;
  keel_tensor **constants;
} keel_view;

/* False if the type of an input is unknown, or memory runs out. Call keel_view_drop in any
 * case. */
bool keel_view_make(const keel_function *function, const keel_node *node,
                    keel_view *out_view);
void keel_view_drop(keel_view *view);

/* The known part of the types of a view that could not be made whole: element types count, and
 * dimensions may be open. */
void keel_view_open(const keel_function *function, const keel_node *node,
                    keel_view *view);

/* Whether a device has a kernel that supports a node; false if the node's types are
 * unknown. */
bool keel_pass_takes(const keel_function *function, keel_device *where,
                     const keel_node *node);

/* The same where types may be unknown: whether a kernel may take the node, as far as they are
 * known. */
bool keel_pass_may_take(const keel_function *function, keel_device *where,
                        const keel_node *node);

/* Whether a node is a Transpose of values of that rank that moves channels from the last place
 * to the second (first), or back. */
bool keel_pass_moves_channels(const keel_node *node, uint32_t rank, bool first);

/* Folds constants, and removes Identity. Ops that would take long or need much memory are left to
 * the runs; fold.c has the limits. */
keel_status keel_pass_fold(keel_function *functions,
                           const keel_pass_call *call);

/* Eliminates common subexpressions, and merges equal constants. */
keel_status keel_pass_cse(keel_function *function);

/* Gives nodes of all functions the devices that the plan's rules ("GLOB=DEVICE", the
 * first that matches) name. Returns KD_OK, KD_INVALID_ARGUMENT, KD_NOT_FOUND (no such
 * device, or nothing matches). */
keel_status keel_pass_place(keel_function *functions,
                            const keel_pass_call *call);

/* Places each node that has no device, by cost. */
keel_status keel_pass_place_by_cost(keel_function *function);

/* Removes nodes whose results are not needed. */
keel_status keel_pass_prune(keel_function *function);

/* Keeps values in the device's own layouts between ops that support them, with
 * keel::Reorder at the borders; and the same on each other device that has nodes. */
keel_status keel_pass_layout(keel_function *function, keel_device *device);

/* Whether a device of the context has a compiler. */
bool keel_any_compiler(const keel_context *context);

/* Shows each device with a compiler the nodes that are to run there, and replaces each part
 * that it claims and compiles by a keel::Region. A claim that is not connected, or that a
 * path leaves and enters again, is refused. */
keel_status keel_pass_regions(keel_function *functions,
                              const keel_pass_call *call);

/* The same before sizes are known, of the parts alone that a compiler makes for all sizes
 * (KD_PART_ANY_SHAPE): plans for given sizes have these regions, too. */
keel_status keel_pass_open_regions(keel_function *functions,
                                   const keel_pass_call *call);

/* Notes the element type and rank of values whose types are not known (keel_value_info.open), as far
 * as they follow without sizes. */
keel_status keel_function_open_types(keel_function *function);

/* Receives a part that a device's compiler would claim: its nodes, ascending, borrowed for
 * the call, and its estimated time in nanoseconds (0: unknown). */
typedef void (*keel_region_offer)(void *context, const uint32_t *nodes,
                                  uint32_t count, uint64_t time);

/* Asks a device's compiler for its claims among the nodes without a device or on this one. Compiles
 * nothing. */
keel_status keel_regions_offer(keel_function *function, keel_device *device,
                               keel_region_offer offer, void *context);

/* Inserts keel::Copy where a value in one memory is read from another, one per value and
 * memory, and copies constants to the devices that read them. Over all functions. */
keel_status keel_pass_transfer(keel_function *functions,
                               const keel_pass_call *call);

/* Replaces Transpose, Slice, Split, Expand and Gather by keel::Part, which copies nothing,
 * if all readers are kernels of the same device that accept the strides and offsets. After
 * the transfers. */
keel_status keel_pass_parts(keel_function *function, keel_device *device);

/* Moves each stretch of nodes that a device can record into a function of its own, which a
 * keel::Call runs, if other nodes keep the function from being recorded whole. */
keel_status keel_pass_outline(keel_function *functions,
                              const keel_pass_call *call);

#endif /* KEEL_PASSES_H */
