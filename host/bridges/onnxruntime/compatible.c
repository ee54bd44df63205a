/* compatible.c - whether a compiled model fits a device, before it is opened.
 *
 * ONNX Runtime asks the provider that compiles a model for a line of text, which
 * goes to the model's metadata, and asks later what the line means here. Ours
 * says what the compiled programs depend on:
 *
 *   format 1, device opencl:0, version 0.1.0, product P, driver D
 *
 * Product and driver are there if the device has a compiler of its own: all
 * other programs are the same for each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

#define BEGIN "format %d, device "

ort_status *compatible_text(const keel_device *device, char **out) {
  keel_device_facts facts;
  keel_device_describe(device, &facts);
  bool compiles = facts.level >= 3; /* the ABI's level "compile" */
  int size =
      asprintf(out, BEGIN "%s, version %s%s%s%s%s", CONTEXT_FORMAT, facts.name,
               keel_version(), compiles ? ", product " : "",
               compiles ? facts.product : "", compiles ? ", driver " : "",
               compiles ? facts.driver : "");
  if (size >= 0) return NULL;
  *out = NULL;
  return no_memory();
}

/* The device that a text is for; NULL: it is in another format, or there is no
 * such device. */
static keel_device *compatible_device_of(keel_context *context,
                                         const char *text) {
  char begin[64], name[80];
  int size = snprintf(begin, sizeof begin, BEGIN, CONTEXT_FORMAT);
  if (strncmp(text, begin, (size_t)size) != 0) return NULL;
  const char *at = text + size;
  snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
  keel_device *device = NULL; /* no name would be the default device */
  if (!*name) return NULL;
  return keel_device_find(context, name, &device) == KD_OK ? device : NULL;
}

ort_status *compatible_ask(keel_context *context, const char *text,
                           keel_device **out_device, int *out) {
  char *now = NULL;
  *out = OrtCompiledModelCompatibility_EP_UNSUPPORTED;
  *out_device = compatible_device_of(context, text);
  if (!*out_device) return NULL;
  TRY(compatible_text(*out_device, &now));
  *out = strcmp(now, text) == 0
             ? OrtCompiledModelCompatibility_EP_SUPPORTED_OPTIMAL
             : OrtCompiledModelCompatibility_EP_SUPPORTED_PREFER_RECOMPILATION;
  free(now);
  return NULL;
}
