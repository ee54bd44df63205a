/* part.h - shared by the stand-ins of libraries: what they export, objects, work of streams. */
#ifndef STANDIN_PART_H
#define STANDIN_PART_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "library.h"
#include "numbers.h"

#define API                               __attribute__((visibility("default")))
#define DECLARE(field, symbol, arguments) API int symbol arguments;

extern cu_result cuLaunchHostFunc(cu_stream stream, cu_host_function call,
                                  void *context);

/* Bodies of functions that make and free an object. */
#define MAKE(out)                          \
  do {                                     \
    *(out) = calloc(1, sizeof **(out));    \
    return *(out) ? OK : EXECUTION_FAILED; \
  } while (0)
#define FREE(it) \
  do {           \
    free(it);    \
    return OK;   \
  } while (0)

static unsigned done_count;

/* Defines what prints, at the end, how much was done. */
#define TELL(line)                                                 \
  __attribute__((destructor)) static void tell(void) {             \
    if (getenv("STANDIN_TELL")) fprintf(stderr, line, done_count); \
  }

/* Gives a copy of some work to a stream. What was enqueued once may run again, in a graph:
 * it stays. */
static inline bool enqueue(cu_stream stream, cu_host_function run,
                           const void *work, size_t size) {
  typedef struct kept {
    struct kept *next;
    double work[];
  } kept;
  static kept *all;
  kept *k = malloc(sizeof *k + size);
  if (!k) return false;
  memcpy(k->work, work, size);
  __atomic_fetch_add(&done_count, 1, __ATOMIC_RELAXED);
  k->next = __atomic_load_n(&all, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(&all, &k->next, k, false,
                                      __ATOMIC_RELEASE, __ATOMIC_RELAXED))
    ;
  return cuLaunchHostFunc(stream, run, k->work) == CU_OK;
}

#endif /* STANDIN_PART_H */
