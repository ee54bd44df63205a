/* npu.h - what the compiler of the sample NPU makes of a graph, and what runs it.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GRAPH_NPU_H
#define GRAPH_NPU_H

#include <kd/kd.h>
#include <stdbool.h>

#define NPU_RANK   6u
#define NPU_INPUTS 5u
#define NPU_PARAMS 12u
#define NPU_NONE   UINT32_MAX

/* Element type and shape, all known. */
typedef struct npu_shape {
  uint32_t dtype, rank;
  int64_t dims[NPU_RANK];
  int64_t count; /* elements */
} npu_shape;

/* One node, its attributes read and its shapes fixed: what the device executes. It holds
 * no pointer, so that a program is its own compiled form. */
typedef struct npu_step {
  uint32_t op; /* in npu_ops */
  uint32_t input_count;
  uint32_t in[NPU_INPUTS], out; /* values of the program; NPU_NONE: absent */
  npu_shape from[NPU_INPUTS], to;
  int64_t ints[NPU_PARAMS];
  float floats[2];
} npu_step;

/* An op: `read` fills the step's parameters from the node, or returns false where the
 * device does not do this one; `run` computes. */
typedef struct npu_op {
  const char *name;
  bool (*read)(const kd_host *host, const kd_node *node, npu_step *step);
  void (*run)(const kd_host *host, const npu_step *step, const void *const *in,
              void *out);
  uint32_t variant;
} npu_op;

extern const npu_op npu_ops[];
extern const uint32_t npu_op_count;

/* Floating-point operations of a step. */
uint64_t npu_flops(const npu_step *step);

/* Translates a node whose types are known; false where the device can't do it. Values are
 * not set yet. */
bool npu_translate(const kd_host *host, const kd_node *node, npu_step *out);

/* Bytes of a value; false where the type is not known, or none of the device's. */
bool npu_shape_of(const kd_type *type, npu_shape *out);
uint64_t npu_size(const npu_shape *shape);

#endif /* GRAPH_NPU_H */
