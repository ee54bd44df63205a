/* small.h - casts from and to types of eight bits or less. */
#ifndef KEEL_CPU_SMALL_H
#define KEEL_CPU_SMALL_H

#include "cpu.h"

/* False: neither type is one. */
bool cpu_cast_small(const kd_launch *launch);

#endif /* KEEL_CPU_SMALL_H */
