/* cost.h - estimated times of nodes and copies on each device, for placement. */
#ifndef KEEL_PASSES_COST_H
#define KEEL_PASSES_COST_H

#include "device/device.h"
#include "program/function.h"

/* A node, for its rule (keel_op_rule.flops). */
typedef struct keel_flops_of {
  const keel_node *node;
  const keel_type
      *in[3];           /* NULL: absent, or not known; the first one is known */
  const keel_type *out; /* the first one, known */
} keel_flops_of;

/* Whether a type of at least that rank has known dimensions. */
static inline bool keel_flops_known(const keel_type *type, uint32_t rank) {
  return type && type->rank >= rank && keel_type_known(type);
}

/* Measures the device when it is first asked for; of one without kernels, the copies
 * alone: its flops are 0. Returns KD_OK, or why it can't be. */
keel_status keel_cost_speed(keel_device *device, keel_speed *out_speed);

/* Multiplications and additions of a node: of products, convolutions and attention by their
 * shapes, else one an element; 0: types are not known. */
double keel_cost_flops(const keel_function *function, const keel_node *node);

/* The bytes that it reads and writes, as far as types are known. */
double keel_cost_bytes(const keel_function *function, const keel_node *node);

/* A node's time on a device of that speed, its types known: arithmetic or memory traffic, whichever
 * is slower. What the kernel's own estimate knows comes first; 0 in it is not known. */
double keel_cost_node(const keel_function *function, const keel_node *node,
                      const keel_speed *speed, const kd_cost *estimate);

/* The time to move a value; NULL: host memory. */
double keel_cost_copy(const keel_type *type, const keel_speed *from,
                      const keel_speed *to);

#endif /* KEEL_PASSES_COST_H */
