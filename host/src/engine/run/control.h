/* control.h - ops with nested functions, which occupy no thread while they wait for a
 * device. */
#ifndef KEEL_CONTROL_H
#define KEEL_CONTROL_H

#include "run/execute.h"

/* Starts a control flow op. Its inputs are ready, and what `call` points to stays valid
 * until it has ended.
 *
 * Returns true if it has ended, with its *out_status; the caller releases the outputs, also
 * on failure. Otherwise `done` is called later, on any thread. */
bool keel_control_begin(const keel_host_call *call,
                        const keel_cancellation *cancellation, keel_done *done,
                        keel_status *out_status);

#endif /* KEEL_CONTROL_H */
