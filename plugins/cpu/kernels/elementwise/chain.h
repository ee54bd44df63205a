/* chain.h - the CPU's regions. */
#ifndef KEEL_CPU_CHAIN_H
#define KEEL_CPU_CHAIN_H

#include <kd/region.h>
#include <stdbool.h>

extern const kd_region_table cpu_regions;
extern bool cpu_regions_off; /* it claims nothing */

#endif /* KEEL_CPU_CHAIN_H */
