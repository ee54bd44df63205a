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

#endif /* KEEL_ON_STRINGS_H */
