/* linked.c - a plugin that is part of the application, as where there are no shared
 * libraries. */
#define DEVICE_NAME "Linked"
#include "inline.h"

static kd_status enqueue(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  const float *x = launch->inputs[0].data;
  float *y = launch->outputs[0].data;
  (void)self;
  (void)stream;
  for (int64_t i = 0, n = kd_elements(&launch->outputs[0]); i < n; i++)
    y[i] = -x[i];
  return KD_OK;
}

static const kd_kernel_def kernels[] = {
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Neg",
     .input_types = {KD_TYPES(KD_F32)},
     .enqueue = enqueue},
};

static const uint32_t watts[] = {75};

static const void *extension(kd_instance *instance, const char *name) {
  (void)instance;
  return !strcmp(name, "x.linked.power/1") ? watts : NULL;
}

static const kd_plugin plugin = {
    INLINE_PLUGIN,     .name = "linked",       .kernels = kernels,
    .kernel_count = 1, .extension = extension,
};

KD_ENTRY_AS(linked_entry, plugin)
