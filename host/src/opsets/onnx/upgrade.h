/* upgrade.h - nodes of older opsets, and what the ops' upgrades (keel_op_upgrade) do to them. */
#ifndef KEEL_UPGRADE_H
#define KEEL_UPGRADE_H

#include "ops/registry.h"
#include "program/draft.h"

/* Brings a node of an older opset to today's form; may add nodes before it. The tensors
 * of the attributes that it drops are released.
 * Returns KD_OK, KD_UNIMPLEMENTED (an opset that Keel does not know, or an old form that it
 * has no way for), KD_DATA_LOSS (no such form), KD_OUT_OF_MEMORY. */
keel_status keel_draft_upgrade(keel_draft *draft);

/* ---- for upgrades ------------------------------------------------------------- */

/* Fails with the node, its op and opset. */
keel_status keel_upgrade_bad(const keel_draft *draft, keel_status status,
                             const char *what);
/* Fails where the draft lacks one of its first `count` inputs. */
keel_status keel_upgrade_need(const keel_draft *draft, uint32_t count);

/* An attribute of that kind (KD_ATTR_*), or NULL; others that are set or dropped move it. */
keel_attr *keel_upgrade_attr(keel_draft *draft, const char *name,
                             uint32_t kind);
void keel_upgrade_drop(keel_draft *draft, const char *name);
void keel_upgrade_drop_all(keel_draft *draft);
void keel_upgrade_set_int(keel_draft *draft, const char *name, int64_t value);
void keel_upgrade_set_string(keel_draft *draft, const char *name,
                             const char *value);

/* The type of an input; NULL where it is absent or not known. */
const keel_type *keel_upgrade_type(const keel_draft *draft, uint32_t index);

/* Puts a constant into an input; inputs between stay absent. */
keel_status keel_upgrade_input(keel_draft *draft, uint32_t index,
                               kd_dtype dtype, uint32_t rank, int64_t count,
                               const void *data);
/* An attribute of ints becomes an input; one of a float an input of the data's type; and `axes` the
 * second input. */
keel_status keel_upgrade_ints(keel_draft *draft, const char *name,
                              uint32_t index);
keel_status keel_upgrade_float(keel_draft *draft, const char *name,
                               uint32_t index);
keel_status keel_upgrade_axes(keel_draft *draft);

/* Before 7, B was laid over A from dimension `axis` on: it gets dimensions of one element behind, so
 * that today's rule says the same. keel_upgrade_broadcast does so for ops with attributes `axis` and
 * `broadcast`. */
keel_status keel_upgrade_lay_over(keel_draft *draft, int64_t axis);
keel_status keel_upgrade_broadcast(keel_draft *draft);

/* Writes a text (opsets/text.h) before the draft, whose inputs are its $0 ...; gives its value. */
keel_status keel_upgrade_text(keel_draft *draft, uint32_t *out_value,
                              const char *text, ...);

#endif /* KEEL_UPGRADE_H */
