/* passes.h - what is done to a function before it is laid out.
 *
 * Each pass takes a sorted function and leaves a sorted one; nodes that are no
 * longer needed are marked dead. */
#ifndef KEEL_PASSES_H
#define KEEL_PASSES_H

#include "passes/placed.h"
#include "program/function.h"
#include "threads/cancel.h"

/* Which of the passes: all; those that look at no shapes; those behind these; all for
 * shapes that are known now. */
typedef enum keel_pass_part {
  KEEL_PASSES_ALL,
  KEEL_PASSES_FIRST,
  KEEL_PASSES_REST,
  KEEL_PASSES_AGAIN
} keel_pass_part;

/* What passes are told of the plan. */
typedef struct keel_pass_call {
  const keel_plan_params *params;
  keel_device *device; /* of nodes that name none, or NULL */
  const keel_function *main;
  bool to_save; /* without passes whose work is of one process */
  keel_pass_part part;
  keel_placed *placed;     /* or NULL */
  const keel_watch *watch; /* what ends planning early; NULL: nothing */
  keel_forms *forms;       /* of regions, that came with the program, or NULL */
  keel_forms *takes; /* gets the forms of the regions that are made, or NULL */
} keel_pass_call;

/* The parameters in full, whatever version of them was given; NULL: the defaults. */
keel_plan_params keel_plan_params_of(const keel_plan_params *given);

/* Where a plan's nodes go that name no device: see keel_plan_params. NULL: there is
 * no device. */
keel_device *keel_plan_device(const keel_program *program,
                              const keel_plan_params *params);

/* Runs all of them in their order on a plan's functions, but for those that are
 * skipped. Returns KD_OK, KD_NOT_FOUND (no such pass), or a pass's failure. */
keel_status keel_passes_run(keel_function *functions,
                            const keel_pass_call *call);

/* Lets go of a constant whose reader is gone, if it had no other when uses were counted, or
 * has come since. */
void keel_pass_forget(keel_function *function, const keel_uses *uses,
                      uint32_t value);

/* A node as kernels are asked about it, before anything runs. */
typedef struct keel_view {
  struct kd_node node;
  const keel_type **types;
  keel_tensor **constants;
} keel_view;

/* False where the type of an input is not known, or memory runs out; to be dropped in
 * any case. */
bool keel_view_make(const keel_function *function, const keel_node *node,
                    keel_view *out_view);
void keel_view_drop(keel_view *view);

/* Whether a device has a kernel that takes a node, as far as its types are known: false
 * where they are not. */
bool keel_pass_takes(const keel_function *function, keel_device *where,
                     const keel_node *node);

/* A constant list of integers. */
keel_status keel_pass_integers(keel_function *function, const int64_t *list,
                               int64_t count, uint32_t *out_value);

/* Adds an op of ONNX with one output, where `like` runs and by its name, and infers its type.
 * attr: its only one, or NULL. `like` may be the function's, whose nodes may move. */
keel_status keel_pass_add(keel_function *function, const keel_node *like,
                          const char *op, const keel_attr *attr,
                          const uint32_t *inputs, uint32_t input_count,
                          uint32_t *out_value);

/* Whether a node is a Transpose of values of that rank that moves channels from the last place
 * to the second (first), or back. */
bool keel_pass_moves_channels(const keel_node *node, uint32_t rank, bool first);

/* An activation, as keel::FusedMatMul and DepthwiseConv name it. */
typedef struct keel_activation {
  const char *name; /* Relu, Gelu, GeluTanh or Silu */
  uint32_t last;    /* the node that makes its result */
  uint32_t gate;    /* Silu's Sigmoid, or KEEL_ABSENT */
} keel_activation;

/* Whether an activation alone reads a value, on that device (a node's, may be NULL). */
bool keel_pass_activation(const keel_function *function, const keel_uses *uses,
                          uint32_t value, const keel_device *device,
                          keel_activation *out);

/* Writes ops that no device has a kernel for with simpler ones, and infers their
 * types. */
keel_status keel_pass_expand(keel_function *function);

/* Drops what does nothing (x * 1, a Transpose and its inverse), and puts cheaper ops in
 * the place of dear ones, where each result stays the same. */
keel_status keel_pass_algebra(keel_function *function);

/* Writes Einsum as products of matrices, where shapes are known and the device has those;
 * einsum.c says what stays. */
keel_status keel_pass_einsum(keel_function *function, keel_device *device);

/* Computes on bytes what stands between DequantizeLinear and QuantizeLinear, where the
 * device has kernels for it: results differ by one quantised step at most. */
keel_status keel_pass_quantise(keel_function *function, keel_device *device);

/* Keeps as f32 what ops of f16 and bf16 hand to each other, on devices that compute those
 * as f32: results are rounded less often. */
keel_status keel_pass_widen(keel_function *function, keel_device *device);

/* Runs what has only constants as inputs, and drops Identity. What would take long or make
 * much is left to the runs: fold.c says how much. */
keel_status keel_pass_fold(keel_function *functions,
                           const keel_pass_call *call);

/* Computes once what is computed twice from the same values, and makes one value of
 * equal constants. */
keel_status keel_pass_cse(keel_function *function);

/* Makes Gelu, HardSwish, LayerNormalization and RMSNormalization of what models write
 * with simpler ops, where types are known and the device has those. */
keel_status keel_pass_patterns(keel_function *function, keel_device *device);

/* Makes keel::Attention of the products and the softmax that models write it with, where
 * shapes are known and the device has that. */
keel_status keel_pass_attention(keel_function *function, keel_device *device);

/* Brings zeros around an image into the convolution that reads it. */
keel_status keel_pass_pads(keel_function *function, keel_device *device);

/* Drops taps of convolutions that see nothing but padding. */
keel_status keel_pass_taps(keel_function *function);

/* Gives nodes of all functions the devices that the plan's rules ("GLOB=DEVICE", the
 * first that matches) name. Returns KD_OK, KD_INVALID_ARGUMENT, KD_NOT_FOUND (no such
 * device, or nothing matches). */
keel_status keel_pass_place(keel_function *functions,
                            const keel_pass_call *call);

/* Gives each node that has none a device, by what it costs there. */
keel_status keel_pass_place_by_cost(keel_function *function);

/* Drops nodes whose results nobody needs. */
keel_status keel_pass_prune(keel_function *function);

/* Brings BatchNormalization into Conv's weights, and additions and activations
 * behind Conv into keel::FusedConv or ActivatedConv, where the device has that. */
keel_status keel_pass_fuse(keel_function *function, keel_device *device);

/* Brings a bias, a sum and an activation behind MatMul by constant weights into
 * keel::FusedMatMul, where types are known and the device has that. */
keel_status keel_pass_products(keel_function *function, keel_device *device);

/* Makes keel::DepthwiseConv, which reads and writes channels last, of a depthwise convolution
 * between a Transpose to its channels and one back, where shapes are known and the device
 * has that. */
keel_status keel_pass_depthwise(keel_function *function, keel_device *device);

/* Lets chains of ops that know a layout of the device's own keep it, with
 * keel::Reorder where a chain begins or ends. */
keel_status keel_pass_layout(keel_function *function, keel_device *device);

/* Shows each device that compiles what of the function is to run there, its shapes known,
 * and makes one keel::Region of each part that it claims and compiles. A claim that is
 * no connected part, or that a path leaves and enters again, is refused. */
keel_status keel_pass_regions(keel_function *functions,
                              const keel_pass_call *call);

/* A part that a device's compiler would take: nodes, ascending, borrowed for the call, and
 * what it says that the part takes, nanoseconds; 0: it does not say. */
typedef void (*keel_region_offer)(void *context, const uint32_t *nodes,
                                  uint32_t count, uint64_t time);

/* Asks a device's compiler what it would claim of the nodes that have no device or this
 * one, and compiles nothing. */
keel_status keel_regions_offer(keel_function *function, keel_device *device,
                               keel_region_offer offer, void *context);

/* Puts keel::Copy where a value that one memory holds is read from another, one for
 * all that read it there, and constants into the memories of the devices that read
 * them. Over all functions. */
keel_status keel_pass_transfer(keel_function *functions,
                               const keel_pass_call *call);

/* Puts keel::Part, which copies nothing, in the place of Transpose, Slice, Split, Expand
 * and Gather where all that read the result are kernels of the same device that take such
 * strides and offsets. Behind the transfers. */
keel_status keel_pass_parts(keel_function *function, keel_device *device);

#endif /* KEEL_PASSES_H */
