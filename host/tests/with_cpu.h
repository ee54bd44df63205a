/* with_cpu.h - one runtime with the CPU, for all tests of a file: what they share where they
 * are grouped by open_cpu and close_context. Who includes it defines WORKERS, and BESIDE
 * where a second plugin is opened. */
#ifndef KEEL_TESTS_WITH_CPU_H
#define KEEL_TESTS_WITH_CPU_H

#include "one_context.h"

#ifndef BESIDE
#define BESIDE NULL
#endif

SETUP(open_cpu) {
  context = open_with(CPU_PLUGIN, BESIDE, WORKERS);
  return 0;
}

#endif /* KEEL_TESTS_WITH_CPU_H */
