/* op.h - what the rules of ops share (op.c), and the checks of op_number.c. */
#ifndef KC_RULES_OP_H
#define KC_RULES_OP_H

#include "rules/ops/cases.h"
#include "suite/run.h"

/* Whether this run tries the op on the type: --op and --dtype leave others out. */
bool op_wanted(const char *op, kd_dtype dtype);

/* Runs a case on all definitions that fit, with weights that come and with such that are
 * constants; laid: on those that take layouts of the plugin's own, in these. Returns how many
 * there were. */
uint32_t op_run_defs(kc_op_case *one, bool laid);

/* Reads the tables and opens the device: the beginning of each check. */
void op_begin(void);

/* The seed of a case's data does not depend on the definitions before it. */
kc_random op_named_seed(const char *op, kd_dtype dtype, uint32_t index,
                        const char *probe);

/* Whether any definition would take the case, before it is begun. */
bool op_taken(const kc_op_case *one, bool laid);

/* op_number.c */
void op_matmul_ints(void);
void op_matmul_full(void);
void op_structure(void);
void op_overflow(void);
void op_cast(void);
void op_small(void);
void op_signed_zero(void);
void op_ties(void);
void op_integers(void);

#endif /* KC_RULES_OP_H */
