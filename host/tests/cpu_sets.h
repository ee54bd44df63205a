/* cpu_sets.h - the CPU with one of its instruction sets, for tests that go over all. */
#ifndef KEEL_TESTS_CPU_SETS_H
#define KEEL_TESTS_CPU_SETS_H

#include "testing.h"

/* The CPU with such an instruction set ("cpu.isa=..."), or the best one where it has not that,
 * or for NULL. */
static inline keel_context *open_cpu_set(const char *set, int32_t workers) {
  const char *paths[] = {CPU_PLUGIN}, *options[] = {"cpu.regions=off", set};
  keel_context *context = NULL;
  const keel_context_params params = {
      .struct_size = sizeof params,
      .flags = KEEL_ONLY_NAMED,
      .plugins = paths,
      .plugin_count = 1,
      .options = options,
      .option_count = set ? 2 : 1,
      .workers = workers,
  };
  if (keel_open(&params, &context) == KD_OK && keel_device_count(context))
    return context;
  keel_close(context);
  return open_with(CPU_PLUGIN, NULL, workers);
}

#endif /* KEEL_TESTS_CPU_SETS_H */
