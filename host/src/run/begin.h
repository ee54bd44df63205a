/* begin.h - a run that nobody waits for, seen from its steps: promises for its outputs. */
#ifndef KEEL_BEGIN_H
#define KEEL_BEGIN_H

#include "run/execute.h"

/* The output is known. Any thread; the first word on an output counts. */
void keel_begun_give(keel_begun *begun, uint32_t output, keel_tensor *value);

/* Whether an input that has come is what the program declares. */
keel_status keel_begun_check(const keel_begun *begun, uint32_t input);

/* None of the outputs that are not known yet will be made. */
void keel_begun_fail(keel_begun *begun, keel_tensor *failure);

#endif /* KEEL_BEGIN_H */
