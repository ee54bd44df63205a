/* pcre2.c - opens PCRE2. */
#ifdef KEEL_WITH_PCRE2
#include "ops/pcre2.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static keel_pcre2_functions functions;
static bool found;

static void import(void) {
  static const char *const names[] = {KEEL_PCRE2_FUNCTIONS(KEEL_IMPORTED_NAME)};
  found = keel_import(KEEL_PCRE2_LIBRARY, names, sizeof names / sizeof *names,
                      &functions);
}

const keel_pcre2_functions *keel_pcre2(void) {
  pthread_once(&once, import);
  return found ? &functions : NULL;
}
#else
typedef int keel_no_pcre2; /* a source has a declaration */
#endif
