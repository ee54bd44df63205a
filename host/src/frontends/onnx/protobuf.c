/* protobuf.c - opens protobuf-c. */
#include "frontends/onnx/protobuf.h"

#include <pthread.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static keel_protobuf_functions functions;
static bool found;

static void import(void) {
  static const char *const names[] = {
      KEEL_PROTOBUF_FUNCTIONS(KEEL_IMPORTED_NAME)};
  found = keel_import(KEEL_PROTOBUF_LIBRARY, names,
                      sizeof names / sizeof *names, &functions);
}

const keel_protobuf_functions *keel_protobuf(void) {
  pthread_once(&once, import);
  return found ? &functions : NULL;
}
