/* one_context.h - the runtime that a test's helpers use, and its end. */
#ifndef KEEL_TESTS_ONE_CONTEXT_H
#define KEEL_TESTS_ONE_CONTEXT_H

#include "testing.h"

static keel_context *context;

static inline int close_context(void **state) {
  (void)state;
  keel_close(context);
  return 0;
}

/* A constant of a program, and one that is a list of integers. */
static inline keel_value add_constant(keel_builder *builder, kd_dtype dtype,
                                      uint32_t rank, const int64_t *dims,
                                      const void *data) {
  return constant_of(builder, create_tensor(context, dtype, rank, dims, data));
}

static inline keel_value add_ints(keel_builder *builder, int64_t count,
                                  const int64_t *list) {
  return add_constant(builder, KD_I64, 1, &count, list);
}

#endif /* KEEL_TESTS_ONE_CONTEXT_H */
