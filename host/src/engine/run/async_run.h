/* async_run.h - an asynchronous run, as its steps see it: promises for its outputs. */
#ifndef KEEL_ASYNC_RUN_H
#define KEEL_ASYNC_RUN_H

#include "run/execute.h"

/* Fulfils the promise of an output. Any thread; only the first call for an output
 * counts. */
void keel_async_run_fulfil(keel_async_run *async, uint32_t output,
                           keel_tensor *value);

/* Checks an input that was pending against what the program declares. */
keel_status keel_async_run_check_input(const keel_async_run *async,
                                       uint32_t input, keel_tensor *tensor);

/* Fails all outputs that are still pending. */
void keel_async_run_fail(keel_async_run *async, keel_tensor *failure);

#endif /* KEEL_ASYNC_RUN_H */
