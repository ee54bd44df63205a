/* control.h - ops with nested functions: runs of these, one after the other, which hold no
 * thread while they wait for a device. */
#ifndef KEEL_CONTROL_H
#define KEEL_CONTROL_H

#include "run/execute.h"

/* Begins such an op. What `call` points to stays until it has ended, and its inputs are
 * ready.
 *
 * Returns true where it has ended: *out_status says how, and outputs are set or, where it
 * failed, to be released. Else `done` is told so later, on any thread. */
bool keel_control_begin(const keel_host_call *call, const keel_watch *watch,
                        keel_done *done, keel_status *out_status);

#endif /* KEEL_CONTROL_H */
