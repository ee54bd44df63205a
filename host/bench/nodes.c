/* nodes.c - a device whose one op, Sum, computes nothing, or spins: what is left is the
 * runtime's own. Its option "spins" says how long; "costs", where in this process it
 * stands node by node, to be changed between runs. */
#include <kd/kd.h>
#include <stdlib.h>
#include <string.h>

#include "common/single.h"
#include "graph.h"

static const kd_host *host;
static uint32_t spins;
#define BY_NODE UINT32_MAX
static const graph_costs *costs;

static kd_status sum(kd_kernel *self, kd_stream *stream,
                     const kd_launch *launch) {
  (void)self, (void)stream;
  uint32_t rounds = spins;
  if (__builtin_expect(rounds == BY_NODE, 0)) {
    /* launches lie one beside the other: where one lies says which it is */
    rounds = costs->spins[(uintptr_t)launch / sizeof *launch % GRAPH_COSTS];
  }
  graph_spin(rounds);
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

static kd_status allocate(kd_device *device, const kd_allocation *wanted,
                          kd_buffer **out_buffer, void **out_address) {
  uint64_t size = wanted->size;
  (void)device;
  *out_buffer = *out_address = host->allocate(host, size, 64);
  return *out_buffer ? KD_OK : host->fail(KD_OUT_OF_MEMORY, "no memory");
}

static void release(kd_device *device, kd_buffer *buffer) {
  (void)device;
  host->release(host, buffer);
}

static kd_status copy_in(kd_device *device, kd_stream *stream,
                         const void *source, kd_buffer *target, uint64_t offset,
                         uint64_t size) {
  (void)device, (void)stream;
  if (size) memcpy((char *)target + offset, source, size);
  return KD_OK;
}

static kd_status copy_out(kd_device *device, kd_stream *stream,
                          kd_buffer *source, uint64_t offset, void *target,
                          uint64_t size) {
  (void)device, (void)stream;
  if (size) memcpy(target, (char *)source + offset, size);
  return KD_OK;
}

static const kd_memory_table memory = {
    .struct_size = sizeof(kd_memory_table),
    .allocate = allocate,
    .release = release,
    .copy_in = copy_in,
    .copy_out = copy_out,
};

static kd_status start(const kd_host *services) {
  host = services;
  const char *given = host->option(host, "spins");
  spins = given ? (uint32_t)strtoul(given, NULL, 10) : 0;
  given = host->option(host, "costs");
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

static uint32_t device_count(kd_instance *instance) {
  (void)instance;
  return 1;
}

static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  (void)instance;
  if (index) return host->fail(KD_OUT_OF_RANGE, "there is one device");
  out_info->flags = KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE;
  out_info->name = "Empty nodes";
  out_info->kind = "cpu";
  return KD_OK;
}

static kd_status device_open(kd_instance *instance, uint32_t index,
                             kd_device **out_device) {
  (void)instance;
  if (index) return host->fail(KD_OUT_OF_RANGE, "there is one device");
  *out_device = (kd_device *)(uintptr_t)&memory; /* any address will do */
  return KD_OK;
}

static void device_close(kd_device *device) {
  (void)device;
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
    .device_count = device_count,
    .device_info = device_info,
    .device_open = device_open,
    .device_close = device_close,
    .memory = &memory,
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels,
};

KD_ENTRY(nodes)
