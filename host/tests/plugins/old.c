/* old.c - a plugin whose headers knew opset 17: Relu is as old as that, DFT has changed
 * since, and one of its definitions says that it takes whatever comes. */
#define DEVICE_NAME "Old"
#define OPSET       17
#include "inline.h"

static kd_status enqueue(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  (void)self;
  (void)stream;
  memset(launch->outputs[0].data, 0, (size_t)launch->outputs[0].size);
  return KD_OK;
}

static const kd_kernel_def kernels[] = {
    {.struct_size = sizeof(kd_kernel_def), .op = "Relu", .enqueue = enqueue},
    {.struct_size = sizeof(kd_kernel_def), .op = "DFT", .enqueue = enqueue},
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Gelu",
     .opset_max = UINT32_MAX,
     .enqueue = enqueue},
};

static const kd_plugin plugin = {
    INLINE_PLUGIN,
    .name = "old",
    .kernels = kernels,
    .kernel_count = 3,
};

KD_ENTRY(plugin)
