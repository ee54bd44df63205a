/* nodes.c - a device whose one op, Sum, computes nothing, or spins, or sleeps as if another chip
 * computed: what is left is the runtime's own. Its option "spins" says how long; "costs", where in
 * this process it stands node by node, to be changed between runs; "sleeps", how many
 * microseconds. */
#include <kd/kd.h>
#include <stdlib.h>
#include <time.h>

#include "common/inline.h"
#include "common/single.h"
#include "graph.h"

static uint32_t spins;
#define BY_NODE UINT32_MAX
static const graph_costs *costs;
static struct timespec sleeps;

static kd_status sum(kd_kernel *self, kd_stream *stream,
                     const kd_launch *launch) {
  (void)self, (void)stream;
  uint32_t rounds = spins;
  if (__builtin_expect(rounds == BY_NODE, 0)) {
    /* launches lie one beside the other: where one lies says which it is */
    rounds = costs->spins[(uintptr_t)launch / sizeof *launch % GRAPH_COSTS];
  }
  graph_spin(rounds);
  if (__builtin_expect(sleeps.tv_nsec, 0)) nanosleep(&sleeps, NULL);
  return KD_OK;
}

static const kd_kernel_def kernels[] = {
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_ANY_SHAPE,
     .op = "Sum",
     .input_types = {KD_TYPES(KD_F32)},
     .inplace = 1,
     .enqueue = sum},
};

static kd_status start(const kd_host *services) {
  inline_host = services;
  const char *given = inline_host->option(inline_host, "spins");
  spins = given ? (uint32_t)strtoul(given, NULL, 10) : 0;
  given = inline_host->option(inline_host, "sleeps");
  sleeps.tv_nsec = given ? strtol(given, NULL, 10) * 1000 : 0;
  given = inline_host->option(inline_host, "costs");
  costs =
      given ? (const graph_costs *)(uintptr_t)strtoull(given, NULL, 16) : NULL;
  if (costs) spins = BY_NODE;
  return KD_OK;
}

static kd_status open_driver(const kd_host *services,
                             kd_instance **out_instance) {
  return single_open(services, start, out_instance);
}

static void close_driver(kd_instance *instance) {
  (void)instance;
  single_close();
}

static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  (void)instance;
  if (index) return inline_host->fail(KD_OUT_OF_RANGE, "there is one device");
  out_info->flags = KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE;
  out_info->name = "Empty nodes";
  out_info->kind = "cpu";
  return KD_OK;
}

static const kd_plugin nodes = {
    .struct_size = sizeof(kd_plugin),
    .abi_version = KD_ABI_VERSION,
    .opset = KD_OPSET,
    .name = "nodes",
    .vendor = "Keel",
    .version = "1.0",
    .open = open_driver,
    .close = close_driver,
    .device_count = inline_count,
    .device_info = device_info,
    .device_open = inline_open,
    .device_close = inline_close,
    .memory = &inline_memory,
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
};

KD_ENTRY(nodes)
