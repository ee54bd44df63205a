/* kd/kernel.h - which ops a device can run, and how.
 *
 * Level 0 of the device ABI. A kernel definition is const data, so that tools
 * can list what a plugin supports without running it. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef KD_KERNEL_H
#define KD_KERNEL_H

#include <kd/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One run of a kernel. Every element of an output is written. Inputs are only
 * read, except those whose memory an output shares (kd_kernel_def.inplace,
 * kd_alias). Two inputs may be the same buffer. Everything in this struct is
 * borrowed for the call of `enqueue`; the kernel copies what the device reads
 * later (dims, for example). Buffers stay alive until the stream has completed
 * the launch. */
typedef struct kd_launch {
  uint32_t struct_size; /* sizeof(kd_launch) as the host knew it */
  uint32_t flags;       /* none yet */
  uint32_t input_count;
  uint32_t output_count;
  const kd_tensor *inputs;  /* absent optional ones have dtype KD_NONE */
  const kd_tensor *outputs; /* allocated by the host, with types from the
                               op's shape function; absent optional ones have
                               dtype KD_NONE */
  kd_tensor workspace;      /* scratch memory of the requested size (dtype
                               KD_U8, rank 1), or KD_NONE; contents are
                               undefined */
  const kd_node *node;      /* the op; its types are these tensors' types */
  kd_device *device;
  const void *data;     /* kd_kernel_def.data */
  uint64_t correlation; /* identifies this launch in profile records */
} kd_launch;

/* A kernel's estimated cost, for placement; 0 means "not known". */
typedef struct kd_cost {
  uint32_t struct_size; /* sizeof(kd_cost) as the host knew it */
  uint32_t reserved;
  uint64_t time;  /* nanoseconds on the idle device */
  uint64_t flops; /* arithmetic operations */
  uint64_t bytes; /* memory traffic */
} kd_cost;

/* One instance serves every shape: `create` uses only element types, ranks,
 * attributes and constants, and nodes for which these are the same share an
 * instance. Without this flag the host creates an instance for each set of
 * input shapes. */
#define KD_KERNEL_ANY_SHAPE 0x1u
/* Outputs have no shape and no memory until `enqueue` calls host->set_output,
 * and `enqueue` returns when its results are complete. */
#define KD_KERNEL_DYNAMIC_OUTPUT 0x2u
/* Inputs in device memory may have strides; without this flag they are
 * packed. */
#define KD_KERNEL_STRIDED 0x4u
/* Input data begins at any multiple of the element size; without this flag it
 * is aligned as kd_tensor says. */
#define KD_KERNEL_ANY_OFFSET 0x2000u
/* Must not be recorded in a capture. */
#define KD_KERNEL_NO_CAPTURE 0x8u
/* `enqueue` may occupy its thread for long, so the host keeps it off the
 * threads that run other ops. */
#define KD_KERNEL_BLOCKING 0x1000000u
/* It reads the data of constants (kd_node_table.constant) no later than in
 * `create`, and is done with it when that returns. The host may then free its
 * own copy; launches still pass the constant's tensor, unless it is `taken`. */
#define KD_KERNEL_CONSTANTS_IN_CREATE 0x2000000u
/* For a Concat: if all dimensions before its axis are 1, its output is the bytes of the
 * inputs in order, in each of the plugin's own layouts that it accepts (row-major, this
 * always holds). The host may then place the inputs directly in the output, and skip the
 * launch. */
#define KD_KERNEL_ADJOINS 0x4000000u
/* Accepts the plugin's own layouts, those that `supports` accepts: each input
 * has the layout that its kd_type and kd_tensor state, and output 0 is to get
 * the one that its kd_type states. Constants, arguments in host memory and
 * further outputs are always row-major. */
#define KD_KERNEL_OWN_LAYOUT 0x20u
/* The same, for an elementwise kernel to which the order of elements does not
 * matter: all inputs then have the output's shape and layout. If a layout
 * leaves gaps between elements, `size` says how far the kernel must reach. */
#define KD_KERNEL_LAYOUT_AGNOSTIC 0x40u

/* Numerics. Without a flag a kernel is strict: elementwise ops stay within
 * OpenCL's limits for the full profile, sums accumulate in f32 at least (f64
 * for f64), the factors of products are not rounded, subnormals are kept, NaN
 * and infinities propagate as in IEEE 754, and the same inputs give the same
 * bits. The sign of zero should be kept. Each flag declares an exception. */
/* Elementwise functions are as accurate as a GPU's fast instructions. */
#define KD_KERNEL_RELAXED 0x80u
/* Products of f32 round their factors to 11 bits (TF32). */
#define KD_KERNEL_TF32 0x100u
/* Sums over f16 accumulate in f16. */
#define KD_KERNEL_ACC_F16 0x200u
/* Convolutions use Winograd or FFT algorithms: four times the error. */
#define KD_KERNEL_FAST_CONV 0x400u
/* Subnormal inputs and results may be flushed to zero. */
#define KD_KERNEL_FLUSH 0x800u
/* The same inputs may give different bits (atomics, split sums). */
#define KD_KERNEL_NONDETERMINISTIC 0x1000u

/* The output always shares the input's memory, so the kernel writes only what
 * changes. If something else needs the input, or it is in other memory, the
 * host copies it first, and the launch's input is that copy. */
#define KD_ALIAS_MUST 0x1u

/* An output that may share the memory of an input, if nothing else needs the
 * input: a cache that is updated in place, for example. It applies to nodes
 * whose input and output have the same type. Frozen. */
typedef struct kd_alias {
  uint32_t output;
  uint32_t input; /* less than 32, and not in host memory */
  uint32_t flags; /* KD_ALIAS_* */
  uint32_t reserved;
} kd_alias;

KD_STATIC_ASSERT(sizeof(kd_alias) == 16, "kd_alias is frozen");

#define KD_MAX_TYPED_INPUTS  8u
#define KD_MAX_TYPED_OUTPUTS 4u

/* A kernel for one op on some types. Definitions form an array that the host
 * steps by the first one's struct_size. If several fit a node, the host takes
 * the one with the highest priority, or the first of several. It skips a
 * definition, without an error, if it does not know the op or knows none of the
 * types.
 *
 * Semantics are those of the op's schema: ONNX's operator specification for
 * domain "ai.onnx", Keel's for domain "keel", ONNX Runtime's list of contributed
 * operators for domain "com.microsoft". */
typedef struct kd_kernel_def {
  uint32_t struct_size; /* sizeof(kd_kernel_def) as the plugin knew it */
  uint32_t flags;       /* KD_KERNEL_* */
  const char *domain;   /* NULL: "ai.onnx" */
  const char *op;

  /* Opset versions (of the semantics: kd_node_table.opset) that it implements.
   * opset_min 0: no lower bound. opset_max 0: the newest that its headers knew,
   * which is kd_plugin.opset, in domain "keel" the plugin's ABI minor version,
   * and no bound in another domain. UINT32_MAX: any later one, too. So by
   * default a kernel never gets a newer version of an ONNX or Keel op than its
   * headers knew. */
  uint32_t opset_min;
  uint32_t opset_max;

  /* Sets of KD_TYPES(...) allowed for each input and output; 0: what the schema
   * allows, of the types that its headers knew. Arguments past the end of an
   * array have the set of its last element. */
  uint64_t input_types[KD_MAX_TYPED_INPUTS];
  uint64_t output_types[KD_MAX_TYPED_OUTPUTS];

  /* Bit i: input or output i is in host memory (shapes, axes, scalars that the
   * kernel reads when it is enqueued). The value of such an input may differ in
   * each launch of one instance, unless it is a constant. */
  uint32_t host_inputs;
  uint32_t host_outputs;

  /* Bit i: output 0 may share the memory of input i, of equal size, if nothing
   * else needs the input. `aliases` covers other outputs, and can require it. */
  uint32_t inplace;
  int32_t priority;

  const void *data; /* the plugin's own; passed back in kd_launch */

  /* Whether the device supports this very node, which meets all of the above.
   * NULL: always. Cheap; any thread.
   * Returns KD_OK, KD_UNIMPLEMENTED (host->fail says why). */
  kd_status (*supports)(kd_device *device, const kd_node *node);

  /* Estimates the cost of a node. NULL: the host guesses. */
  kd_status (*cost)(kd_device *device, const kd_node *node, kd_cost *out_cost);

  /* Creates an instance: compiles, selects, prepacks constants. May take long;
   * any thread. `node` stays valid until `destroy`. NULL: there is nothing to
   * prepare, and `enqueue` is called with kernel NULL.
   * Owns     the host destroys it once.
   * Returns KD_OK, KD_UNIMPLEMENTED, KD_OUT_OF_MEMORY, KD_INVALID_ARGUMENT. */
  kd_status (*create)(kd_device *device, const struct kd_kernel_def *def,
                      const kd_node *node, KD_OWNED kd_kernel **out_kernel);

  /* Bytes of scratch memory that this launch needs (its workspace is still
   * unset). It must not grow when launches repeat. NULL: none. */
  uint64_t (*workspace)(kd_kernel *kernel, const kd_launch *launch);

  /* Runs the kernel, in the order of `stream` or, with a NULL stream, before it
   * returns. Several threads may enqueue one instance at once, on different
   * streams. Empty tensors are legal. Models are untrusted: the kernel checks
   * attributes and data itself, and accesses nothing outside the tensors.
   * Returns KD_OK; after any other status nothing was enqueued. */
  kd_status (*enqueue)(kd_kernel *kernel, kd_stream *stream,
                       const kd_launch *launch);

  /* Frees an instance that no enqueued work uses. Never fails. */
  void (*destroy)(kd_kernel *kernel);

  /* Which outputs share the memory of inputs; at most one entry with
   * KD_ALIAS_MUST for each output. NULL: what `inplace` says. */
  const kd_alias *aliases;
  uint32_t alias_count;
  uint32_t reserved;

  /* Which constants the instance holds in a form of its own. Bit i: `create`
   * read input i, and nothing reads its tensor any more; the host passes
   * KD_NONE for it at each launch, and may free its memory. The host asks after
   * `create`; the answer holds until `destroy`, and is the same for equal nodes
   * on one device. Bits of inputs that are not constants have no meaning.
   * Cheap; any thread. NULL: none. */
  uint64_t (*taken)(kd_kernel *kernel);
} kd_kernel_def;

#ifdef __cplusplus
}
#endif
#endif /* KD_KERNEL_H */
