/* kernel.h - the checks of kernels' rules (kernel.c), and what they share. */
#ifndef KC_RULES_KERNEL_H
#define KC_RULES_KERNEL_H

#include "rules/ops/cases.h"
#include "suite/run.h"

/* How many ops a rule goes through that tries each. */
uint32_t kernel_all_ops(void);

/* Runs the node, and compares its outputs with the reference's. */
void kernel_run_and_compare(kc_op_case *one, kc_node *node, kc_run *run,
                            const char *what);

/* What differs from a case's own values. */
#define KERNEL_TURNED  0x1u /* the other way round */
#define KERNEL_DOUBLED 0x2u /* floats twice as large */
#define KERNEL_LAST    0x4u /* the last element of floats alone */

/* A case with other values, which borrows the attributes; host arguments stay. */
kc_op_case kernel_other_values(const kc_op_case *one, uint32_t host_inputs,
                               uint32_t how);

/* kernel_launch.c */
void kernel_reuse(void);
void kernel_any_shape(void);
void kernel_concurrent(void);
void kernel_workspace(void);
void kernel_outputs_complete(void);
void kernel_inputs(void);
void kernel_aliases(void);
void kernel_inplace(void);
void kernel_alias(void);
void kernel_strided(void);
void kernel_any_offset(void);
void kernel_offset(void);

/* kernel_shape.c */
void kernel_empty(void);
void kernel_ranks(void);
void kernel_odd_shapes(void);
void kernel_odd_products(void);

/* kernel_large.c */
void kernel_large(void);

/* kernel_argument.c */
void kernel_dynamic(void);
void kernel_host_args(void);
void kernel_host_values(void);
void kernel_host_values_kept(void);
void kernel_host_outputs(void);
void kernel_constants(void);
void kernel_taken(void);
void kernel_constants_in_create(void);
void kernel_defaults(void);
void kernel_batch(void);

/* kernel_beside.c */
void kernel_concurrent_instances(void);
void kernel_deterministic(void);

/* kernel_constant.c */
void kernel_constant_inputs(void);
void kernel_constant_lifetime(void);

/* kernel_attribute.c */
void kernel_attributes_apart(void);

#endif /* KC_RULES_KERNEL_H */
