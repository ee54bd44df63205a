/* kd/op.h - a plugin's own ops: their arguments, attributes and shapes.
 *
 * An option. A model may then have nodes of the vendor's own domain, like those
 * of any other: the host checks them, infers their types, folds them, merges
 * equal ones, and passes them to any kernel or compiler that supports them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KD_OP_H
#define KD_OP_H

#include <kd/host.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KD_PARAM_OPTIONAL 0x1u /* a node may omit it */
#define KD_PARAM_VARIADIC 0x2u /* the last one: one or more arguments */

/* An input or output of an op. The host steps an array of them by the first
 * one's struct_size. */
typedef struct kd_op_param {
  uint32_t struct_size; /* sizeof(kd_op_param) as the plugin knew it */
  uint32_t flags;       /* KD_PARAM_* */
  const char *name;
  uint64_t types;    /* the set of KD_TYPES(...) allowed; 0: any */
  uint32_t variable; /* 1 to 8: all arguments with this number have the same
                        element type; 0: it has its own */
  uint32_t reserved;
} kd_op_param;

#define KD_OP_ATTR_REQUIRED 0x1u /* a node without it is refused */
#define KD_OP_ATTR_DEFAULT  0x2u /* a node without it gets i, f or s below */

/* An attribute of an op. The host steps an array of them by the first one's
 * struct_size. */
typedef struct kd_op_attr {
  uint32_t struct_size; /* sizeof(kd_op_attr) as the plugin knew it */
  uint32_t flags;       /* KD_OP_ATTR_* */
  const char *name;
  uint32_t kind; /* KD_ATTR_*, except KD_ATTR_GRAPH */
  float f;       /* defaults, by kind; lists and tensors have none */
  int64_t i;
  const char *s;
} kd_op_attr;

/* The element type and shape of an output. Frozen. */
typedef struct kd_op_type {
  kd_dtype dtype;
  uint32_t rank; /* at most KD_MAX_RANK */
  int64_t dims[KD_MAX_RANK];
} kd_op_type;

KD_STATIC_ASSERT(sizeof(kd_op_type) == 136, "kd_op_type is frozen");

/* The arguments of a shape function. All pointers are borrowed for the call. */
typedef struct kd_op_call {
  uint32_t struct_size; /* sizeof(kd_op_call) as the host knew it */
  uint32_t output_count;
  const kd_host *host;
  const kd_node *node; /* attributes and input types, all known; constants
                          only for the inputs that value_inputs names; no
                          output types */
  kd_op_type *outputs; /* to fill: dtype is already set if the definition
                          determines it (one type, or that of a variable),
                          else KD_NONE; rank is KD_RANK_UNKNOWN */
} kd_op_call;

/* One version of an op. Its outputs depend on nothing but its inputs and
 * attributes: the host may run it once for several equal nodes, or ahead of
 * time. Definitions form an array that the host steps by the first one's
 * struct_size.
 *
 * If another plugin has already defined the op differently, the host refuses
 * this definition, and the plugin's kernels for it. Definitions that differ
 * only in `infer` are the same op, and the host calls the first one's. */
typedef struct kd_op_def {
  uint32_t struct_size; /* sizeof(kd_op_def) as the plugin knew it */
  uint32_t flags;       /* none yet */
  const char *domain;   /* the vendor's: "com.acme"; not "ai.onnx", "keel" */
  const char *name;
  uint32_t version; /* 1 or more; kd_node_table.opset returns it */
  /* Bit i: `infer` reads the value of input i, such as a list of axes; the host
   * calls it when the value is known. */
  uint32_t value_inputs;
  const kd_op_param *inputs;  /* optional ones last; at most 32 */
  const kd_op_param *outputs; /* 1 to 4 */
  const kd_op_attr *attrs;    /* at most 64 */
  uint32_t input_count;
  uint32_t output_count;
  uint32_t attr_count;
  uint32_t reserved;

  /* Infers the type of each output. Any thread, at any time after the entry
   * function has returned, even without a device and before `open`. It calls
   * only host->node and host->fail, and its result depends on the node alone.
   * NULL: each output has the shape of the first input.
   * Returns KD_OK, KD_INVALID_ARGUMENT (unsuitable inputs or attributes;
   * host->fail says why), KD_UNIMPLEMENTED. */
  kd_status (*infer)(const kd_op_call *call);
} kd_op_def;

#ifdef __cplusplus
}
#endif
#endif /* KD_OP_H */
