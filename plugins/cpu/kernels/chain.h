/* chain.h - the CPU's regions. */
#ifndef KEEL_CPU_CHAIN_H
#define KEEL_CPU_CHAIN_H

#include <kd/region.h>

extern const kd_region_table cpu_regions;

#endif /* KEEL_CPU_CHAIN_H */
