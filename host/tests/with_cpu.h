/* with_cpu.h - one runtime with the CPU alone, for all tests of a file: what they share
 * where they are grouped by open_cpu and close_cpu. Who includes it defines WORKERS. */
#ifndef KEEL_TESTS_WITH_CPU_H
#define KEEL_TESTS_WITH_CPU_H

#include "testing.h"

static keel_context *context;

static int open_cpu(void **state) {
  (void)state;
  context = open_with(CPU_PLUGIN, NULL, WORKERS);
  return 0;
}

static int close_cpu(void **state) {
  (void)state;
  keel_close(context);
  return 0;
}

#endif /* KEEL_TESTS_WITH_CPU_H */
