/* chain.h - a plan of as many ops as a test of the ends of runs wants, and an input for it, in the
 * runtime of with_cpu.h. */
#ifndef KEEL_TESTS_CHAIN_H
#define KEEL_TESTS_CHAIN_H

#include "with_cpu.h"

/* A chain of so many Neg on `count` floats; -1: on any number. */
static inline keel_plan *chain(int length, int64_t count) {
  keel_builder *builder = create_builder(context, "chain");
  keel_value y = keel_builder_input(builder, "x", KD_F32, 1, &count);
  for (int i = 0; i < length; i++)
    y = op(builder, "Neg", y, KEEL_ABSENT);
  keel_builder_output(builder, "y", y);
  return finish_plan(builder, NULL);
}

static inline keel_tensor *zeros(int64_t count) {
  return create_tensor(context, KD_F32, 1, &count, NULL);
}

#endif /* KEEL_TESTS_CHAIN_H */
