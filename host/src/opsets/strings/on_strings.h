/* on_strings.h - ops that devices have kernels for, on tensors of strings. */
#ifndef KEEL_ON_STRINGS_H
#define KEEL_ON_STRINGS_H

#include "eager/call_site.h"

/* Whether an op reads strings, or makes some. */
bool keel_concerns_strings(const keel_opdef *op, keel_tensor *const *inputs,
                           uint32_t n);

/* Runs it, as keel_call_site_run would. */
keel_status keel_call_on_strings(const keel_call_site *site,
                                 keel_device *wanted,
                                 keel_tensor *const *inputs, uint32_t n,
                                 keel_tensor **outputs, uint32_t m);

/* Cast and CastLike from or to strings. Numbers are written as short as they can be read again,
 * as C's printf does ("0.1", "1e-05"), and "NaN", "INF" and "-INF"; they are read as C's strtod
 * does, blanks around them left out. */
keel_status keel_text_cast(const keel_opdef *op, const char *where,
                           keel_tensor *const *inputs, uint32_t n,
                           keel_tensor **out_tensor);

#endif /* KEEL_ON_STRINGS_H */
