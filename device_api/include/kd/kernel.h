/* kd/kernel.h - what ops a device can do, and how they are run.
 *
 * Level 0 of the device ABI. A kernel definition is const data, so that anyone
 * can list what a plugin does without running it. SPDX-License-Identifier:
 * Apache-2.0 */
#ifndef KD_KERNEL_H
#define KD_KERNEL_H

#include <kd/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One run of a kernel. Inputs are only read, but for those whose memory an output
 * was given (kd_kernel_def.inplace, kd_alias). Two inputs may be one buffer. Every
 * element of an output is written. Everything in it is borrowed for the call of
 * `enqueue`; what the device still reads afterwards (dims, say) is copied before.
 * Buffers stay alive until the stream has passed the launch. */
typedef struct kd_launch {
  uint32_t struct_size; /* sizeof(kd_launch) as the host knew it */
  uint32_t flags;       /* none yet */
  uint32_t input_count;
  uint32_t output_count;
  const kd_tensor *inputs;  /* absent optional ones have dtype KD_NONE */
  const kd_tensor *outputs; /* allocated by the host, typed by the op's shape
                               function; unused optional ones are KD_NONE */
  kd_tensor workspace;      /* scratch of the size that was asked for (dtype
                               KD_U8, rank 1), or KD_NONE; contents are junk */
  const kd_node *node;      /* the op; its types are these tensors' types */
  kd_device *device;
  const void *data;     /* kd_kernel_def.data */
  uint64_t correlation; /* names this launch in profile records */
} kd_launch;

/* What a kernel costs, for placement. Estimates; 0 is "not known". */
typedef struct kd_cost {
  uint32_t struct_size; /* sizeof(kd_cost) as the host knew it */
  uint32_t reserved;
  uint64_t time;  /* nanoseconds on the idle device */
  uint64_t flops; /* arithmetic operations */
  uint64_t bytes; /* memory traffic */
} kd_cost;

/* One instance serves every shape: `create` looks at element types, ranks and
 * attributes only. Without it the host creates an instance for each set of
 * input shapes. */
#define KD_KERNEL_ANY_SHAPE 0x1u
/* Outputs come without shape and memory; `enqueue` calls host->set_output. It
 * waits for its own results before it returns. */
#define KD_KERNEL_DYNAMIC_OUTPUT 0x2u
/* Inputs of a device may have strides; without it they come packed. */
#define KD_KERNEL_STRIDED 0x4u
/* Data of inputs begin at any multiple of their element's size; without it they
 * are aligned as kd_tensor says. */
#define KD_KERNEL_ANY_OFFSET 0x2000u
/* Must not be recorded in a capture. */
#define KD_KERNEL_NO_CAPTURE 0x8u
/* `enqueue` may take long on the host: keep it off threads that run others. */
#define KD_KERNEL_BLOCKING 0x1000000u
/* Takes layouts of the plugin's own, those that `supports` takes: inputs have the
 * layout that their kd_type and kd_tensor state, each of its own, and output 0 is
 * to get the one that its kd_type states. Constants, what lies in host memory and
 * further outputs are always row-major. */
#define KD_KERNEL_OWN_LAYOUT 0x20u
/* The same for an elementwise kernel, which does not care how elements lie: all
 * inputs then have the output's shape and layout. Where a layout leaves gaps
 * between elements, `size` says how far the kernel must reach. */
#define KD_KERNEL_LAYOUT_AGNOSTIC 0x40u

/* Numerics. Without a flag a kernel is strict: elementwise ops stay within
 * OpenCL's limits for the full profile, sums are kept in f32 at least (f64 for
 * f64), products are whole, subnormals are kept, NaN and infinities go through
 * as IEEE 754 has it, and the same inputs give the same bits; the sign of zero
 * should be kept. A flag says what the kernel does less well. */
/* Elementwise functions as a GPU's fast instructions give them. */
#define KD_KERNEL_RELAXED 0x80u
/* Products of f32 take inputs rounded to 11 bits (TF32). */
#define KD_KERNEL_TF32 0x100u
/* Sums over f16 are kept in f16. */
#define KD_KERNEL_ACC_F16 0x200u
/* Convolution by Winograd's or Fourier's way: four times the error. */
#define KD_KERNEL_FAST_CONV 0x400u
/* Subnormal inputs and results may count as zero. */
#define KD_KERNEL_FLUSH 0x800u
/* The same inputs may give other bits (atomics, split sums). */
#define KD_KERNEL_NONDETERMINISTIC 0x1000u

/* The output always lies where the input does, so the kernel writes only what
 * changes. Where somebody else needs the input, or it is in other memory, the host
 * copies it first, and the launch's input is that copy. */
#define KD_ALIAS_MUST 0x1u

/* An output that may have the memory of an input, when nobody else needs it: a
 * cache that is written in place, say. It counts for nodes where both have the
 * same type. Frozen. */
typedef struct kd_alias {
  uint32_t output;
  uint32_t input; /* less than 32, and not in host memory */
  uint32_t flags; /* KD_ALIAS_* */
  uint32_t reserved;
} kd_alias;

KD_STATIC_ASSERT(sizeof(kd_alias) == 16, "kd_alias is frozen");

#define KD_MAX_TYPED_INPUTS  8u
#define KD_MAX_TYPED_OUTPUTS 4u

/* One op on some types. Definitions stand in an array that the host steps by
 * the first one's struct_size. Where several fit a node, the highest priority
 * is taken, then the first. A definition whose op, or all of whose types, the
 * host does not know is skipped, never an error.
 *
 * Semantics are those of the op's schema: ONNX's operator documents for domain
 * "ai.onnx", keel's for domain "keel". */
typedef struct kd_kernel_def {
  uint32_t struct_size; /* sizeof(kd_kernel_def) as the plugin knew it */
  uint32_t flags;       /* KD_KERNEL_* */
  const char *domain;   /* NULL: "ai.onnx" */
  const char *op;

  /* Opset versions (of the semantics: kd_node_table.opset) that it implements.
   * opset_min 0: no lower bound. opset_max 0: as far as its headers knew, which
   * is kd_plugin.opset, in domain "keel" the plugin's ABI minor version, and no
   * bound in another domain; UINT32_MAX: whatever may come. So a kernel never
   * meets a version of its op that is younger than itself. */
  uint32_t opset_min;
  uint32_t opset_max;

  /* Sets of KD_TYPES(...) allowed for each input and output; 0: what the schema
   * allows of the types that its headers knew. Inputs past the array have the
   * last one's set. */
  uint64_t input_types[KD_MAX_TYPED_INPUTS];
  uint64_t output_types[KD_MAX_TYPED_OUTPUTS];

  /* Bit i: input or output i lives in host memory (shapes, axes, scalars that
   * the kernel reads when it is enqueued; where they are no constants, they
   * may be others at each launch of one instance). */
  uint32_t host_inputs;
  uint32_t host_outputs;

  /* Bit i: output 0 may take the memory of input i, of equal size, when nobody
   * else needs it. `aliases` says so of other outputs, and more. */
  uint32_t inplace;
  int32_t priority;

  const void *data; /* the plugin's own; comes back in kd_launch */

  /* Whether the device takes this very node, which fits all the above. NULL:
   * always. Cheap, any thread.
   * Returns KD_OK, KD_UNIMPLEMENTED (with the reason, by host->fail). */
  kd_status (*supports)(kd_device *device, const kd_node *node);

  /* Fills an estimate for the node. NULL: the host guesses. */
  kd_status (*cost)(kd_device *device, const kd_node *node, kd_cost *out_cost);

  /* Makes an instance: compiles, selects, prepacks constants. May take long;
   * any thread. `node` stays valid until `destroy`. NULL: there is nothing to
   * prepare, and `enqueue` is called with kernel NULL.
   * Owns     the host destroys it once.
   * Returns KD_OK, KD_UNIMPLEMENTED, KD_OUT_OF_MEMORY, KD_INVALID_ARGUMENT. */
  kd_status (*create)(kd_device *device, const struct kd_kernel_def *def,
                      const kd_node *node, KD_OWNED kd_kernel **out_kernel);

  /* Bytes of scratch that this launch needs (its workspace is still unset). It
   * must not grow with repetition. NULL: none. */
  uint64_t (*workspace)(kd_kernel *kernel, const kd_launch *launch);

  /* Runs the kernel, in the order of `stream`, or before it returns where stream
   * is NULL. Several threads may enqueue one instance at once, on different
   * streams. Empty tensors are legal. Models come from anywhere: it checks
   * attributes and data itself, and touches nothing outside the tensors.
   * Returns KD_OK, or why not; then nothing was enqueued. */
  kd_status (*enqueue)(kd_kernel *kernel, kd_stream *stream,
                       const kd_launch *launch);

  /* Frees an instance that no enqueued work uses. Never fails. */
  void (*destroy)(kd_kernel *kernel);

  /* Which outputs lie where inputs do; at most one for each output that has
   * KD_ALIAS_MUST. NULL: what `inplace` says. */
  const kd_alias *aliases;
  uint32_t alias_count;
  uint32_t reserved;

  /* Which constants the instance holds in a form of its own: bit i: `create` read
   * input i, and nothing reads its tensor any more. The host passes KD_NONE for it at
   * each launch, and may give its memory back. Asked after `create`; the answer holds
   * until `destroy`, and instances of equal nodes on one device give equal answers.
   * Bits of inputs that are no constants mean nothing. Cheap, any thread. NULL: none. */
  uint64_t (*taken)(kd_kernel *kernel);
} kd_kernel_def;

#ifdef __cplusplus
}
#endif
#endif /* KD_KERNEL_H */
