/* status.c - errors, as ONNX Runtime takes them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

ort_status *failure(int code, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return ort->CreateStatus(code, text);
}

ort_status *no_memory(void) {
  return ort->CreateStatus(ORT_FAIL, "Keel: out of host memory");
}

/* A code says more than that the provider failed only where it must not:
 * after ORT_EP_FAIL, ONNX Runtime's Python takes the CPU instead of Keel
 * without a word, so that is left for what a device, not a model, causes. */
static int status_code_of(keel_status status) {
  switch (status) {
    case KD_INVALID_ARGUMENT:
    case KD_OUT_OF_RANGE:
      return ORT_INVALID_ARGUMENT;
    case KD_NOT_FOUND:
      return ORT_NOT_FOUND;
    case KD_UNIMPLEMENTED:
      return ORT_NOT_IMPLEMENTED;
    case KD_DEVICE_LOST:
      return ORT_ENGINE_ERROR;
    case KD_UNAVAILABLE:
      return ORT_EP_FAIL;
    default:
      return ORT_FAIL;
  }
}

ort_status *keel_failure(keel_status status) {
  const char *text = keel_message();
  size_t size = strlen(text) + 64;
  char *whole = malloc(size);
  if (!whole) return ort->CreateStatus(status_code_of(status), text);
  snprintf(whole, size, "Keel: %s: %s", keel_status_name(status), text);
  ort_status *made = ort->CreateStatus(status_code_of(status), whole);
  free(whole);
  return made;
}
