/* power.h - the loops of power.c, one set for each ISA. */
#ifndef KEEL_CPU_POWER_H
#define KEEL_CPU_POWER_H

#include "cpu.h"

/* z[i] = x[i] to the power y[i]; y steps by 1 or 0. z may be x. By way of doubles: the
 * result is rounded once more than that of an exact power. An element's bits
 * depend on its x, its y and step alone. */
typedef struct cpu_powers {
  void (*f32)(const float *x, const float *y, int64_t step, float *z,
              int64_t n);
} cpu_powers;

extern const cpu_powers cpu_powers_base, cpu_powers_avx2, cpu_powers_avx512;

#endif /* KEEL_CPU_POWER_H */
