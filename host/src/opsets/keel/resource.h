/* resource.h - ops on what keeps its content between runs. */
#ifndef KEEL_OPS_RESOURCE_H
#define KEEL_OPS_RESOURCE_H

#include "ops/runtime.h"

keel_status keel_run_variable(keel_host_call *call);
keel_status keel_run_variable_read(keel_host_call *call);
keel_status keel_run_variable_assign(keel_host_call *call);
keel_status keel_run_counter(keel_host_call *call);
keel_status keel_run_counter_add(keel_host_call *call);
keel_status keel_run_table(keel_host_call *call);
keel_status keel_run_table_insert(keel_host_call *call);
keel_status keel_run_table_find(keel_host_call *call);
keel_status keel_run_table_erase(keel_host_call *call);
keel_status keel_run_table_entries(keel_host_call *call);

#endif /* KEEL_OPS_RESOURCE_H */
