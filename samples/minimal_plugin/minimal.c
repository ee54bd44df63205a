/* minimal.c - a whole plugin: one device, host memory, three ops on f32.
 *
 * Build it as a vendor does, with nothing but the headers, and look at it:
 *
 *   gcc -shared -fPIC -Idevice_api/include samples/minimal_plugin/minimal.c \
 *       -o minimal.so
 *   keel ops --plugin ./minimal.so --device minimal
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <kd/kd.h>
#include <string.h>

struct kd_device {
  const kd_host *host; /* its services */
};
struct kd_instance { /* what a host opens */
  kd_device device;
};

/* ---- ops -------------------------------------------------------------------- */

/* Outputs come with shape and memory; empty tensors are legal. */
static kd_status relu(kd_kernel *self, kd_stream *stream,
                      const kd_launch *launch) {
  const float *x = kd_input(launch, 0);
  float *y = kd_output(launch, 0);
  (void)self, (void)stream;
  for (int64_t i = 0, n = kd_elements(&launch->outputs[0]); i < n; i++)
    y[i] = x[i] < 0 ? 0 : x[i]; /* a NaN stays one */
  return KD_OK;
}

/* Element i of the result, in a tensor that broadcasts to it as ONNX says. */
static int64_t broadcast(const kd_tensor *in, const kd_tensor *out, int64_t i) {
  int64_t at = 0, step = 1;
  for (uint32_t back = 1; back <= out->rank; back++) {
    int64_t dim = out->dims[out->rank - back], index = i % dim;
    i /= dim;
    if (back > in->rank) continue;
    if (in->dims[in->rank - back] != 1) at += index * step;
    step *= in->dims[in->rank - back];
  }
  return at;
}

static kd_status add(kd_kernel *self, kd_stream *stream,
                     const kd_launch *launch) {
  const kd_tensor *in = launch->inputs, *out = &launch->outputs[0];
  const float *a = kd_input(launch, 0), *b = kd_input(launch, 1);
  float *y = kd_output(launch, 0);
  (void)self, (void)stream;
  for (int64_t i = 0, n = kd_elements(out); i < n; i++)
    y[i] = a[broadcast(&in[0], out, i)] + b[broadcast(&in[1], out, i)];
  return KD_OK;
}

/* Two matrices only: `supports` says so before anybody calls. */
static kd_status is_plain_matrix(kd_device *device, const kd_node *node) {
  const kd_host *host = device->host;
  for (uint32_t i = 0; i < 2; i++) {
    kd_type type;
    host->node->input_type(node, i, &type);
    if (type.rank != 2)
      return host->fail(KD_UNIMPLEMENTED, "minimal: rank %u, not 2",
                        (unsigned)type.rank);
  }
  return KD_OK;
}

static kd_status matmul(kd_kernel *self, kd_stream *stream,
                        const kd_launch *launch) {
  const float *a = kd_input(launch, 0), *b = kd_input(launch, 1);
  float *y = kd_output(launch, 0);
  int64_t m = launch->outputs[0].dims[0], n = launch->outputs[0].dims[1];
  int64_t k = launch->inputs[0].dims[1];
  (void)self, (void)stream;
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      float sum = 0;
      for (int64_t p = 0; p < k; p++)
        sum += a[i * k + p] * b[p * n + j];
      y[i * n + j] = sum;
    }
  return KD_OK;
}

/* What all three definitions say: any shape, f32. */
#define ON_F32                                                        \
  .struct_size = sizeof(kd_kernel_def), .flags = KD_KERNEL_ANY_SHAPE, \
  .input_types = {KD_TYPES(KD_F32)}

static const kd_kernel_def kernels[] = {
    {ON_F32, .op = "Relu", .enqueue = relu},
    {ON_F32, .op = "Add", .enqueue = add},
    {ON_F32, .op = "MatMul", .supports = is_plain_matrix, .enqueue = matmul},
};

/* ---- memory: a buffer is a piece of the heap -------------------------------- */

static kd_status allocate(kd_device *device, const kd_allocation *wanted,
                          kd_buffer **out_buffer, void **out_address) {
  const kd_host *host = device->host;
  if (wanted->flags || wanted->export_kind)
    return host->fail(KD_UNIMPLEMENTED, "no such kind of memory");
  void *memory = host->allocate(host, wanted->size, 64);
  if (!memory) return host->fail(KD_OUT_OF_MEMORY, "minimal: no memory");
  *out_buffer = *out_address = memory;
  return KD_OK;
}

static void release(kd_device *device, kd_buffer *buffer) {
  device->host->release(device->host, buffer);
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

/* ---- the plugin -------------------------------------------------------------- */

static kd_status open_driver(const kd_host *host, kd_instance **out_instance) {
  kd_instance *instance = host->allocate(host, sizeof *instance, 0);
  if (!instance) return host->fail(KD_OUT_OF_MEMORY, "minimal: no memory");
  instance->device.host = host;
  *out_instance = instance;
  return KD_OK;
}

static void close_driver(kd_instance *instance) {
  instance->device.host->release(instance->device.host, instance);
}

static uint32_t device_count(kd_instance *instance) {
  (void)instance;
  return 1;
}

static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  if (index)
    return instance->device.host->fail(KD_OUT_OF_RANGE, "no such device");
  out_info->flags = KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE;
  out_info->name = "Minimal device";
  out_info->kind = "cpu";
  return KD_OK;
}

static kd_status device_open(kd_instance *instance, uint32_t index,
                             kd_device **out_device) {
  if (index)
    return instance->device.host->fail(KD_OUT_OF_RANGE, "no such device");
  *out_device = &instance->device;
  return KD_OK;
}

static void device_close(kd_device *device) {
  (void)device;
}

static const kd_plugin minimal_plugin = {
    .struct_size = sizeof(kd_plugin),
    .abi_version = KD_ABI_VERSION,
    .opset = KD_OPSET,
    .name = "minimal",
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

KD_ENTRY(minimal_plugin)
