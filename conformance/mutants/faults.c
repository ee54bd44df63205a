/* faults.c - the names of the defects that fault.so can put around a plugin. */
#include <stddef.h>

#include "mutants/defects.h"

const kc_fault kc_faults[] = {
#define FAULT(name)          {#name, NULL},
#define FAULT_OF(name, rule) {#name, rule},
#include "mutants/fault/faults.def"
#undef FAULT
};
const uint32_t kc_fault_count =
    (uint32_t)(sizeof kc_faults / sizeof *kc_faults);
