/* faults.c - the names of the defects that fault.so can put around a plugin. */
#include "mutants/defects.h"

const char *const kc_fault_names[] = {
#define FAULT(name) #name,
#include "mutants/faults.def"
#undef FAULT
};
const uint32_t kc_fault_count =
    (uint32_t)(sizeof kc_fault_names / sizeof *kc_fault_names);
