/* options.c - what a session may set of Keel.
 *
 * ONNX Runtime passes a provider's options as entries of the session's
 * configuration, "ep." and the provider's name in lower case before them. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "bridge.h"

#define PREFIX       "ep." PROVIDER_NAME "."
#define THREADS_MOST 1024

static ort_status *options_take_device(options *out, const char *value) {
  if (strlen(value) >= sizeof out->device)
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: keel.device is longer than a device's name: %.80s",
                   value);
  strcpy(out->device, value);
  return NULL;
}

static ort_status *take_threads(options *out, const char *value) {
  char *end = NULL;
  long count = strtol(value, &end, 10);
  if (end == value || *end || count < 1 || count > THREADS_MOST)
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: keel.threads is \"%.80s\"; give a number from 1 to "
                   "%d: the threads that work on a run, its caller included",
                   value, THREADS_MOST);
  out->workers = count == 1 ? KEEL_NO_WORKERS : (int32_t)count - 1;
  return NULL;
}

static ort_status *take_trace(options *out, const char *value) {
  if (!*value)
    return failure(ORT_INVALID_ARGUMENT,
                   "Keel: keel.trace is empty; give the path of the file that "
                   "is written when the session ends");
  free(out->trace);
  out->trace = strdup(value);
  return out->trace ? NULL : no_memory();
}

static const struct {
  const char *name;
  ort_status *(*take)(options *out, const char *value);
} known[] = {
    {"keel.device", options_take_device},
    {"keel.threads", take_threads},
    {"keel.trace", take_trace},
};

static ort_status *onnxruntime_options_take(options *out, const char *name,
                                            const char *value) {
  for (size_t i = 0; i < COUNT_OF(known); i++)
    if (!strcmp(known[i].name, name)) return known[i].take(out, value);
  return failure(ORT_INVALID_ARGUMENT,
                 "Keel: there is no provider option \"%.80s\"; there are "
                 "keel.device, keel.threads and keel.trace",
                 name);
}

static bool is_one(const ort_pairs *pairs, const char *key) {
  const char *value = ort->GetKeyValue(pairs, key);
  return value && !strcmp(value, "1");
}

static ort_status *take_text(const ort_pairs *pairs, const char *key,
                             char **out) {
  const char *value = ort->GetKeyValue(pairs, key);
  if (!value || !*value) return NULL;
  *out = strdup(value);
  return *out ? NULL : no_memory();
}

/* What ONNX Runtime says to all providers about compiled models. */
static ort_status *take_contexts(options *out, const ort_pairs *pairs) {
  out->context_write = is_one(pairs, "ep.context_enable");
  out->context_embed = is_one(pairs, "ep.context_embed_mode");
  TRY(take_text(pairs, "ep.context_file_path", &out->context_path));
  return take_text(pairs, "ep.context_node_name_prefix", &out->context_prefix);
}

static ort_status *take_all(options *out, const ort_pairs *pairs) {
  const char *const *keys = NULL, *const *values = NULL;
  size_t count = 0;
  ort->GetKeyValuePairs(pairs, &keys, &values, &count);
  for (size_t i = 0; i < count; i++) {
    if (strncasecmp(keys[i], PREFIX, sizeof PREFIX - 1) != 0) continue;
    TRY(onnxruntime_options_take(out, keys[i] + sizeof PREFIX - 1, values[i]));
  }
  return take_contexts(out, pairs);
}

ort_status *options_read(const ort_session_options *session, options *out) {
  *out = (options){0};
  ort_pairs *pairs = NULL;
  TRY(ort->GetSessionOptionsConfigEntries(session, &pairs));
  ort_status *status = take_all(out, pairs);
  ort->ReleaseKeyValuePairs(pairs);
  if (status) options_free(out);
  return status;
}

void options_free(options *one) {
  free(one->trace);
  free(one->context_path);
  free(one->context_prefix);
  *one = (options){0};
}
