/* begin.h - an asynchronous run, as its steps see it: promises for its outputs. */
#ifndef KEEL_BEGIN_H
#define KEEL_BEGIN_H

#include "run/execute.h"

/* Fulfils the promise of an output. Any thread; only the first call for an output
 * counts. */
void keel_begun_give(keel_begun *begun, uint32_t output, keel_tensor *value);

/* Checks an input that was pending against what the program declares. */
keel_status keel_begun_check(const keel_begun *begun, uint32_t input);

/* Fails all outputs that are still pending. */
void keel_begun_fail(keel_begun *begun, keel_tensor *failure);

#endif /* KEEL_BEGIN_H */
