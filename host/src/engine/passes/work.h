/* work.h - upper bounds, in round numbers, on a node's time and output size, from its types
 * and attributes alone: they keep constant folding from running away. */
#ifndef KEEL_WORK_H
#define KEEL_WORK_H

#include "program/function.h"

/* Steps, each some nanoseconds; UINT64_MAX: nothing is known, or too many to count. */
uint64_t keel_steps_of(const keel_function *function, const keel_node *node);

/* Bytes of its outputs; an upper bound if their types are not known yet. */
uint64_t keel_bytes_of(const keel_function *function, const keel_node *node);

/* ---- for the rules of ops (keel_op_rule.steps) ---- */

typedef struct keel_work {
  const keel_type *in[8]; /* NULL: absent, or not known */
  uint64_t read, written; /* elements */
  const keel_node *node;
} keel_work;

/* Both stay at UINT64_MAX. */
static inline uint64_t keel_times(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static inline uint64_t keel_plus(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static inline uint64_t keel_work_elements(const keel_type *type) {
  return type ? (uint64_t)type->elements : 0;
}

/* A dimension, from the end where `index` is negative; 1 where there is none. */
static inline uint64_t keel_work_dim(const keel_type *type, int index) {
  int at = type && index < 0 ? index + (int)type->rank : index;
  return type && at >= 0 && at < (int)type->rank ? (uint64_t)type->dims[at] : 1;
}

/* Steps for each element that is written. */
static inline uint64_t keel_work_each(const keel_work *work, uint64_t steps) {
  return keel_times(work->written, steps);
}

/* Steps for all pairs of what is read. */
static inline uint64_t keel_work_square(const keel_work *work) {
  return keel_times(work->read, work->read);
}

#endif /* KEEL_WORK_H */
