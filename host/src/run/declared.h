/* declared.h - what a program declares of its inputs, and what is given. */
#ifndef KEEL_DECLARED_H
#define KEEL_DECLARED_H

#include <keel/program.h>

#include "values/tensor.h"

/* Whether a ready input is what its port declares; *out_close: or of another shape. */
bool keel_declared_is(const keel_port *port, const keel_tensor *input,
                      bool *out_close);

/* Fails with what the input is, what the port declares, and `why` that counts, or "". */
keel_status keel_declared_fail(const keel_port *port, keel_tensor *input,
                               const char *why);

/* Refuses ready inputs that are not declared so; but for those of another shape: the
 * first goes to *out_odd (KEEL_ABSENT: there is none). */
keel_status keel_declared_check(const keel_port *ports, uint32_t count,
                                keel_tensor *const *inputs, uint32_t *out_odd);

/* A run has failed: says, too, what of its inputs may be why. `odd` is of the check. */
keel_status keel_declared_explain(const keel_port *ports, uint32_t count,
                                  keel_tensor *const *inputs, uint32_t odd,
                                  keel_status status);

#endif /* KEEL_DECLARED_H */
