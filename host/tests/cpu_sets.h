/* cpu_sets.h - the CPU with one of its instruction sets, for tests that go over all. */
#ifndef KEEL_TESTS_CPU_SETS_H
#define KEEL_TESTS_CPU_SETS_H

#include "one_context.h"

/* The CPU with such options, or its best where the processor has not what they want. */
static inline keel_context *open_cpu_options(const char *const *options,
                                             uint32_t count, int32_t workers) {
  const char *paths[] = {CPU_PLUGIN};
  keel_context *opened = NULL;
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, paths, 1, .options = options,
            .option_count = count, .workers = workers);
  if (keel_open(&params, &opened) == KD_OK && keel_device_count(opened))
    return opened;
  keel_close(opened);
  return open_with(CPU_PLUGIN, NULL, workers);
}

/* The same with such an instruction set ("cpu.isa=..."), or the best one for NULL. */
static inline keel_context *open_cpu_set(const char *set, int32_t workers) {
  const char *options[] = {"cpu.regions=off", set};
  return open_cpu_options(options, set ? 2 : 1, workers);
}

#endif /* KEEL_TESTS_CPU_SETS_H */
