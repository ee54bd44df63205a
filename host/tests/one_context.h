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

#endif /* KEEL_TESTS_ONE_CONTEXT_H */
