/* control.h - ops with nested functions. */
#ifndef KEEL_CONTROL_H
#define KEEL_CONTROL_H

#include "eager/site.h"

keel_status keel_run_if(keel_host_call *call);
keel_status keel_run_loop(keel_host_call *call);
keel_status keel_run_scan(keel_host_call *call);
keel_status keel_run_sequence_map(keel_host_call *call);

#endif /* KEEL_CONTROL_H */
