/* run.h - an op as the suite runs it: its node, its tensors on the device, one
 * launch of a kernel. */
#ifndef KC_RUN_H
#define KC_RUN_H

#include <keel/op.h>

#include "ops/node.h"
#include "reference/reference.h"
#include "suite/suite.h"

#define KC_PORTS 16u

/* What to run. Values are borrowed. */
typedef struct kc_op {
  const char *domain, *name; /* domain NULL: ai.onnx */
  keel_attr attrs[16];
  uint32_t attr_count;
  const value *in[KC_PORTS]; /* NULL: absent */
  uint32_t in_count;
  uint32_t out_count;
  uint32_t constants; /* bit i: input i is a constant of the program */
} kc_op;

/* A node with what it points to. */
typedef struct kc_node {
  struct kd_node node; /* first: a kd_node is its kc_node */
  keel_opdef *op;
  const keel_type *in[KC_PORTS], *out[KC_PORTS];
  keel_tensor *constants[KC_PORTS];
  keel_tensor shells[KC_PORTS]; /* of constants and values */
  void *data[KC_PORTS];
  bool dynamic;
  kd_dtype dtypes[4];         /* of outputs, from the schema */
  uint32_t layouts[KC_PORTS]; /* of inputs */
} kc_node;

/* Makes the node: attributes checked, types inferred by the op's schema. NULL
 * where the schema refuses it; `why` (may be NULL) says what it says. */
kc_node *kc_node_make(const kc_op *op, char *why, size_t size);
/* The same without types of its outputs, as a shape function gets it. */
kc_node *kc_node_asked(const kc_op *op);
/* A node of a type with dims of the rule's own, which no tensor could have. */
kc_node *kc_node_typed(const kc_op *op, const keel_type *const *in,
                       const keel_type *const *out);
void kc_node_free(kc_node *node);

/* The plugin's own ops, read as the host reads them; none before kc_load. */
const keel_context *kc_ops(void);
/* One of them; NULL past the last. */
const keel_schema *kc_own_op(uint32_t index);
/* Why the host refuses one of them, or all: "" where it refuses none. */
const char *kc_ops_refused(void);

/* Whether a definition fits a node by its domain, op, opset and types, as the
 * host would find it; supports is not asked. */
bool kc_def_fits(const kd_kernel_def *def, const kc_node *node);
/* What `supports` says; KD_OK where there is none. */
kd_status kc_supports(const kd_kernel_def *def, const kc_node *node);
/* The best definition for a node on the device, asked as the host asks. */
const kd_kernel_def *kc_def_for(const kc_node *node);

/* Bytes of a type in a layout of the device's own; 0: there is none. */
uint64_t kc_layout_size(const keel_type *type, uint32_t layout);

/* Which of its arguments get a layout of the device's own: input 0, output 0, both, or what
 * is added to the output, too. */
enum { KC_LAY_INPUT = 1, KC_LAY_OUTPUT = 2, KC_LAY_BOTH = 3, KC_LAY_ADDED = 4 };

/* Gives these arguments that layout, all arguments of an elementwise kernel; false where they
 * can't have it. And takes it back. */
bool kc_node_lay(kc_node *node, const kd_kernel_def *def, uint32_t layout,
                 uint32_t which);
void kc_node_rows(kc_node *node);

/* A tensor in a buffer, `skew` bytes behind its beginning. */
kd_tensor kc_tensor_of(const keel_type *type, const kc_buffer *buffer,
                       uint32_t skew);

/* Brings a tensor from rows into the layout that `target` states, or back: enqueued, or
 * done and waited for. */
kd_status kc_reorder_in(kd_device *device, kd_stream *stream,
                        const kd_tensor *source, const kd_tensor *target);
kd_status kc_reorder(kd_device *device, const kd_tensor *source,
                     const kd_tensor *target);

/* How inputs with strides lie. */
typedef enum kc_apart {
  KC_PACKED,
  KC_GAPS,    /* every second element */
  KC_TURNED,  /* the first dimension fastest */
  KC_PITCH,   /* rows that are longer in memory */
  KC_MIXED,   /* dimensions in another order, gaps in the last and behind all */
  KC_REPEATED /* the first dimension of several is one element: see kc_repeat */
} kc_apart;

/* How a launch is laid out. */
typedef struct kc_layout {
  uint32_t skew;   /* bytes that tensors start behind the alignment */
  uint32_t behind; /* elements that inputs start behind that */
  uint8_t fill;    /* of outputs and workspace before the launch */
  int inplace;     /* input whose memory output `of` takes; -1: none */
  uint32_t of;
  bool same_input; /* inputs 0 and 1 are one buffer */
  kc_apart apart;  /* inputs of kernels that take strides */
  /* what tensors are pieces of, from byte `at` on, `gap` bytes apart; NULL: each has a
   * buffer of its own */
  const kc_buffer *pool;
  uint64_t at;
  uint32_t gap;
} kc_layout;
extern const kc_layout kc_plain;

/* Makes a value the same along its first dimension of several elements. */
void kc_repeat(value *of);

/* One instance of a kernel with its tensors. */
typedef struct kc_run {
  kc_node *node;
  const kd_kernel_def *def;
  kd_device *device;
  kd_kernel *kernel;
  kc_layout layout;
  kd_tensor in[KC_PORTS], out[KC_PORTS];
  int64_t strides[KC_PORTS][KD_MAX_RANK];
  int64_t dims[KC_PORTS][KD_MAX_RANK]; /* of outputs that were set late */
  kc_buffer *in_buffers[KC_PORTS], *out_buffers[KC_PORTS], *scratch;
  void *in_bytes[KC_PORTS]; /* as uploaded */
  uint64_t in_sizes[KC_PORTS];
  uint64_t taken;              /* of the pool: where the next piece may begin */
  uint32_t in_skews[KC_PORTS]; /* where they begin in their buffers */
  int over[KC_PORTS];       /* by output: the input that it lies over, or -1 */
  void *out_host[KC_PORTS]; /* outputs in host memory */
  kd_launch launch;
  int64_t scratch_dim;
  bool set[KC_PORTS]; /* outputs that the kernel set */
  bool ran;
  /* the host allocation that fails, inside `enqueue` and, for kc_run_now, until the work
   * is done; 0: none */
  uint32_t fail_at;
} kc_run;

/* Makes the instance and its tensors. Status of `create`; NULL run then. */
kd_status kc_run_make(kc_node *node, const kd_kernel_def *def, const kc_op *op,
                      const kc_layout *layout, kc_run **out_run);
/* The same; leaves the case where there is none. */
kc_run *kc_run_of(kc_node *node, const kd_kernel_def *def, const kc_op *op,
                  const kc_layout *layout);
/* Gives it new input data of the same types, and outputs filled anew. */
void kc_run_refill(kc_run *run, const kc_op *op);
/* Asks for workspace and enqueues; on NULL stream it has run. */
kd_status kc_run_enqueue(kc_run *run, kd_stream *stream);
/* kc_run_enqueue on a stream of its own where there are streams, and waits. */
kd_status kc_run_now(kc_run *run);
/* Closes that stream: its device is about to close. */
void kc_run_close(void);
/* The memory that an output lies in. */
kc_buffer *kc_run_under(const kc_run *run, uint32_t output);
/* An output's elements, to be freed by value_free; NULL where it was not set. */
value *kc_run_output(kc_run *run, uint32_t index);
/* Whether inputs are as they were uploaded. */
bool kc_run_inputs_intact(kc_run *run);
void kc_run_free(kc_run *run);

/* What the reference says of an op; false where it says nothing. */
bool kc_reference(const kc_op *op, const kc_node *node, value **out);
void kc_values_free(value **values, uint32_t count);

/* The same with subnormal inputs as zero. */
bool kc_reference_flushed(const kc_op *op, const kc_node *node, value **out);

/* Numerics that a definition declares. */
numerics kc_numerics(const kd_kernel_def *def, kd_dtype dtype);

/* Whether an output has the type and shape, and is near in all elements. */
bool kc_near(const value *want, const value *got, const numerics *within);

/* Compares an output, with the check counted and the place named. */
bool kc_compare(const value *want, const value *got, const numerics *within,
                const char *what);

/* Compares what a run has left in its outputs with what the reference says of the op. */
void kc_run_check(kc_run *run, const kc_op *op, const kc_node *node,
                  const char *what);

/* "Add(f32[2,3], f32[3])", into a buffer. */
const char *kc_op_text(const kc_op *op, char *text, size_t size);

/* Runs a whole op on the device and compares it with the reference; false where
 * no definition takes it. */
bool kc_try_op(const kc_op *op, const kc_layout *layout);

/* Floats from -1 to 1. */
value *kc_floats(uint32_t rank, const int64_t *dims, kc_random *random);

#endif /* KC_RUN_H */
