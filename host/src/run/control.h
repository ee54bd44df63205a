/* control.h - ops with nested functions: runs of these, one after the other, which hold no
 * thread while they wait for a device. */
#ifndef KEEL_CONTROL_H
#define KEEL_CONTROL_H

#include "plan/plan.h"

/* Begins such an op. What `call` points to stays until it has ended, and its inputs are
 * ready.
 *
 * Returns true where it has ended: *out_status says how, and outputs are set or, where it
 * failed, to be released. Else `done` is told so later, on any thread. */
bool keel_control_begin(const keel_host_call *call, const keel_watch *watch,
                        keel_done *done, keel_status *out_status);

/* What stands in the table of ops: each prepares the rounds of the control that the call
 * is part of, and runs nothing. */
keel_status keel_run_if(keel_host_call *call);
keel_status keel_run_loop(keel_host_call *call);
keel_status keel_run_scan(keel_host_call *call);
keel_status keel_run_sequence_map(keel_host_call *call);

#endif /* KEEL_CONTROL_H */
