/* declared.h - checks inputs against what the program declares. */
#ifndef KEEL_DECLARED_H
#define KEEL_DECLARED_H

#include <keel/program.h>

#include "values/tensor.h"

/* How an input matches its port. */
typedef enum keel_fit {
  KEEL_FITS,
  KEEL_FITS_BUT_SHAPE, /* it differs in shape only */
  KEEL_FITS_NOT,
} keel_fit;

/* Of a ready input. */
keel_fit keel_declared_fit(const keel_port *port, const keel_tensor *input);

/* Fails with the input's type, the port's, and `why` that matters (or ""). */
keel_status keel_declared_fail(const keel_port *port, keel_tensor *input,
                               const char *why);

/* Refuses ready inputs that do not match their ports, except those that differ in shape
 * only: the first of these goes to *out_mismatch (KEEL_ABSENT: none). */
keel_status keel_declared_check(const keel_port *ports, uint32_t count,
                                keel_tensor *const *inputs,
                                uint32_t *out_mismatch);

/* Adds to the message of a failed run what about its inputs may be the cause. `mismatch`
 * comes from keel_declared_check. */
keel_status keel_declared_explain(const keel_port *ports, uint32_t count,
                                  keel_tensor *const *inputs, uint32_t mismatch,
                                  keel_status status);

#endif /* KEEL_DECLARED_H */
