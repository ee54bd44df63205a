/* library.c - what ONNX Runtime calls first and last, and the contexts of Keel.
 *
 * A process has one ONNX Runtime, so its tables are kept once. Sessions share a
 * context of Keel unless they ask for a number of threads of their own. */
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "bridge.h"

const ort_api *ort;
const ort_ep_api *ort_ep_functions;
bool ort_gives_captures;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static runtime *runtimes;

static runtime *library_find(int32_t workers) {
  for (runtime *one = runtimes; one; one = one->next)
    if (one->workers == workers) return one;
  return NULL;
}

static ort_status *open_runtime(int32_t workers, runtime **out) {
  keel_context_params params = {.struct_size = sizeof params,
                                .workers = workers};
  runtime *one = calloc(1, sizeof *one);
  if (!one) return no_memory();
  keel_status status = keel_open(&params, &one->context);
  if (status != KD_OK) {
    free(one);
    return keel_failure(status);
  }
  one->workers = workers;
  one->next = runtimes;
  runtimes = one;
  *out = one;
  return NULL;
}

ort_status *runtime_acquire(int32_t workers, runtime **out) {
  pthread_mutex_lock(&lock);
  *out = library_find(workers);
  ort_status *status = *out ? NULL : open_runtime(workers, out);
  if (!status) (*out)->users++;
  pthread_mutex_unlock(&lock);
  return status;
}

runtime *runtime_retain(runtime *one) {
  pthread_mutex_lock(&lock);
  one->users++;
  pthread_mutex_unlock(&lock);
  return one;
}

void runtime_release(runtime *one) {
  if (!one) return;
  pthread_mutex_lock(&lock);
  if (--one->users == 0) {
    runtime **at = &runtimes;
    while (*at != one)
      at = &(*at)->next;
    *at = one->next;
    keel_close(one->context);
    free(one);
  }
  pthread_mutex_unlock(&lock);
}

void log_line(const ort_logger *logger, int level, const char *format, ...) {
  char text[2048];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!logger) return;
  ort_status *status = ort->Logger_LogMessage(logger, level, text,
                                              "onnxruntime", 0, PROVIDER_NAME);
  if (status) ort->ReleaseStatus(status);
}

/* ---- the entry points ------------------------------------------------------- */

/* their names are ONNX Runtime's */
/* NOLINTBEGIN(readability-identifier-naming) */
KD_EXPORT ort_status *CreateEpFactories(const char *registered_name,
                                        const ort_api_base *base,
                                        const ort_logger *logger,
                                        ort_ep_factory **out, size_t capacity,
                                        size_t *out_count);
KD_EXPORT ort_status *ReleaseEpFactory(ort_ep_factory *factory);

/* An ONNX Runtime that is too old has no table for us, and so no function to
 * make an error of but those of an older table. */
static ort_status *too_old(const ort_api_base *base) {
  const ort_api *old = base->GetApi(1);
  char text[256];
  snprintf(text, sizeof text,
           "Keel's provider needs ONNX Runtime 1.%u or later; this is %s: "
           "upgrade onnxruntime",
           ORT_VERSION_USED, base->GetVersionString());
  return old ? old->CreateStatus(ORT_NOT_IMPLEMENTED, text) : NULL;
}

/* 32 of "1.32.0"; later major versions have all of these. (To ask GetApi for a
 * version that it has not makes it print a line.) */
static long minor_of(const char *version) {
  char *end = NULL;
  long major = strtol(version, &end, 10);
  return major > 1 ? LONG_MAX : *end == '.' ? strtol(end + 1, NULL, 10) : 0;
}

ort_status *CreateEpFactories(const char *registered_name,
                              const ort_api_base *base,
                              const ort_logger *logger, ort_ep_factory **out,
                              size_t capacity, size_t *out_count) {
  (void)registered_name;
  *out_count = 0;
  const ort_api *api = base->GetApi(ORT_VERSION_USED);
  if (!api) return too_old(base);
  ort = api;
  ort_ep_functions = api->GetEpApi();
  ort_gives_captures = minor_of(base->GetVersionString()) >= 27;
  if (capacity < 1)
    return failure(ORT_INVALID_ARGUMENT, "Keel: no room for a factory");

  runtime *held = NULL;
  TRY(runtime_acquire(0, &held));
  ort_status *status = factory_create(held, logger, out);
  if (status) {
    runtime_release(held);
    return status;
  }
  *out_count = 1;
  return NULL;
}

ort_status *ReleaseEpFactory(ort_ep_factory *factory) {
  factory_release(factory);
  return NULL;
}
/* NOLINTEND(readability-identifier-naming) */
