/* cases.h - what each op is tried with: one line a case, in cases.c. */
#ifndef KC_CASES_H
#define KC_CASES_H

#include "suite/run.h"

/* What the tested type's inputs are filled with. */
typedef enum kc_probe {
  KC_PROBE_FULL,    /* full mantissa, sign-symmetric, within the case's range */
  KC_PROBE_INTS,    /* small integers: every partial sum is exact */
  KC_PROBE_SPECIAL, /* zeros, subnormals, infinities, NaN, the largest ... */
  KC_PROBE_TINY,    /* subnormals */
} kc_probe;

#define KC_CASE_ATTRS   16
#define KC_CASE_TENSORS 4

/* A case with its values. */
typedef struct kc_op_case {
  kc_op op;
  value *own[KC_PORTS];
  int64_t ints[KC_CASE_ATTRS][32];
  float floats[KC_CASE_ATTRS][16];
  char strings[KC_CASE_ATTRS][64];
  const char *words[KC_CASE_ATTRS][8];
  keel_tensor tensors[KC_CASE_TENSORS]; /* of attributes */
  uint32_t tensor_count;
} kc_op_case;

/* How many cases an op has; 0 for one that nothing is known of. */
uint32_t kc_case_count(const char *domain, const char *op);

/* Fills a case for element type `dtype`. False where the op does not take the
 * type. Random values are the case's own: they follow from `random`. */
bool kc_case_make(const char *domain, const char *op, uint32_t index,
                  kd_dtype dtype, kc_probe probe, kc_random *random,
                  kc_op_case *out);
/* One of f32 with small integers. */
static inline bool kc_case_ints(const char *domain, const char *op,
                                uint32_t index, uint64_t seed,
                                kc_op_case *out) {
  kc_random random = {seed};
  return kc_case_make(domain, op, index, KD_F32, KC_PROBE_INTS, &random, out);
}
/* Adds an input, which the case owns from now on; returns it. */
value *kc_case_add(kc_op_case *one, value *in);
/* A case of `inputs` equal shapes of f32. */
kc_op_case kc_case_floats(const char *op, uint32_t inputs, uint32_t rank,
                          const int64_t *dims, kc_random *random);
void kc_case_free(kc_op_case *one);

/* Runs the definitions that take layouts of the plugin's own in these, on all cases. */
void kc_sweep_layouts(void);
#define KC_LAYOUTS 16u /* that a device has at most */

/* Whether a definition may get element type `dtype` as the tested one. */
bool kc_def_takes(const kd_kernel_def *def, kd_dtype dtype);

#endif /* KC_CASES_H */
