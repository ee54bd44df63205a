/* json.c - opens cJSON. */
#include "system/json.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static keel_json_functions functions;
static bool found;

static void import(void) {
  static const char *const names[] = {KEEL_JSON_FUNCTIONS(KEEL_IMPORTED_NAME)};
  found = keel_import(KEEL_JSON_LIBRARY, names, sizeof names / sizeof *names,
                      &functions);
}

const keel_json_functions *keel_json(void) {
  pthread_once(&once, import);
  return found ? &functions : NULL;
}
