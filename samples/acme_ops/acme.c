/* acme.c - a plugin that brings ops of its own, in the domain com.acme.
 *
 * A model may use them as any other op: the host checks arguments and attributes by
 * the definitions below, and infers types by their shape functions. Try it:
 *
 *   keel ops --plugin acme.so --device acme
 *
 *   Swish      X * sigmoid(beta * X); no shape function, as nothing changes
 *   GatedSilu  the halves of X along `axis`: silu(first) * second
 *   Windows    all runs of `size` elements of a vector; `size` is an input, so the
 *              shape depends on a value
 *
 * The device is as plain as samples/minimal_plugin's.
 * SPDX-License-Identifier: Apache-2.0 */
#include <kd/kd.h>
#include <math.h>
#include <string.h>

struct kd_device {
  const kd_host *host;
};
struct kd_instance {
  kd_device device;
};

/* ---- what the ops are ------------------------------------------------------- */

/* Along which axis X is halved; the attribute counts from the end where it is < 0. */
static kd_status halved_axis(const kd_host *host, const kd_node *node,
                             const kd_type *x, uint32_t *out_axis) {
  int64_t axis = host->node->attr_int(node, "axis", -1);
  if (axis < 0) axis += x->rank;
  if (axis < 0 || axis >= (int64_t)x->rank)
    return host->fail(KD_INVALID_ARGUMENT, "X has rank %u, and no such axis",
                      (unsigned)x->rank);
  *out_axis = (uint32_t)axis;
  return KD_OK;
}

static kd_status infer_gated_silu(const kd_op_call *call) {
  kd_op_type *y = &call->outputs[0];
  uint32_t axis = 0;
  kd_type x;
  call->host->node->input_type(call->node, 0, &x);
  kd_status status = halved_axis(call->host, call->node, &x, &axis);
  if (status != KD_OK) return status;
  if (x.dims[axis] % 2)
    return call->host->fail(KD_INVALID_ARGUMENT,
                            "dimension %u of X is %lld, which has no halves",
                            (unsigned)axis, (long long)x.dims[axis]);
  y->rank = x.rank; /* dtype comes set: it is T's */
  memcpy(y->dims, x.dims, x.rank * sizeof *x.dims);
  y->dims[axis] /= 2;
  return KD_OK;
}

static kd_status infer_windows(const kd_op_call *call) {
  kd_op_type *y = &call->outputs[0];
  kd_tensor size;
  kd_type x;
  int64_t elements = 0;
  call->host->node->input_type(call->node, 0, &x);
  /* value_inputs names input 1, so its value is there */
  call->host->node->constant(call->node, 1, &size);
  if (x.rank != 1 || size.rank != 0)
    return call->host->fail(KD_INVALID_ARGUMENT,
                            "X must be a vector, and size a scalar");
  memcpy(&elements, size.data, sizeof elements);
  if (elements < 1 || elements > x.dims[0])
    return call->host->fail(KD_INVALID_ARGUMENT,
                            "size is %lld, and X has %lld elements",
                            (long long)elements, (long long)x.dims[0]);
  y->rank = 2;
  y->dims[0] = x.dims[0] - elements + 1;
  y->dims[1] = elements;
  return KD_OK;
}

#define PARAM(NAME, ...) \
  { .struct_size = sizeof(kd_op_param), .name = (NAME), __VA_ARGS__ }
#define FLOATS .types = KD_TYPES_FLOAT, .variable = 1

static const kd_op_param x_of_floats[] = {PARAM("X", FLOATS)};
static const kd_op_param y_of_floats[] = {PARAM("Y", FLOATS)};
static const kd_op_param x_and_size[] = {
    PARAM("X", FLOATS), PARAM("size", .types = KD_TYPES(KD_I64))};

static const kd_op_attr swish_attrs[] = {{
    .struct_size = sizeof(kd_op_attr),
    .flags = KD_OP_ATTR_DEFAULT,
    .name = "beta",
    .kind = KD_ATTR_FLOAT,
    .f = 1,
}};
static const kd_op_attr gated_attrs[] = {{
    .struct_size = sizeof(kd_op_attr),
    .flags = KD_OP_ATTR_DEFAULT,
    .name = "axis",
    .kind = KD_ATTR_INT,
    .i = -1,
}};

#define OP(NAME, INPUTS, COUNT)                                           \
  .struct_size = sizeof(kd_op_def), .domain = "com.acme", .name = (NAME), \
  .version = 1, .inputs = (INPUTS), .input_count = (COUNT),               \
  .outputs = y_of_floats, .output_count = 1

static const kd_op_def ops[] = {
    {OP("Swish", x_of_floats, 1), .attrs = swish_attrs, .attr_count = 1},
    {OP("GatedSilu", x_of_floats, 1), .attrs = gated_attrs, .attr_count = 1,
     .infer = infer_gated_silu},
    {OP("Windows", x_and_size, 2), .value_inputs = 0x2, .infer = infer_windows},
};

/* ---- kernels ------------------------------------------------------------------ */

static float silu(float x, float beta) {
  return x / (1 + expf(-beta * x));
}

static kd_status swish(kd_kernel *self, kd_stream *stream,
                       const kd_launch *launch) {
  const kd_host *host = launch->device->host;
  float beta = host->node->attr_float(launch->node, "beta", 1);
  const float *x = kd_input(launch, 0);
  float *y = kd_output(launch, 0);
  (void)self, (void)stream;
  for (int64_t i = 0, n = kd_elements(&launch->outputs[0]); i < n; i++)
    y[i] = silu(x[i], beta);
  return KD_OK;
}

static kd_status gated_silu(kd_kernel *self, kd_stream *stream,
                            const kd_launch *launch) {
  const kd_host *host = launch->device->host;
  const kd_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
  kd_type type = {.dims = in->dims, .dtype = in->dtype, .rank = in->rank};
  const float *x = kd_input(launch, 0);
  float *y = kd_output(launch, 0);
  uint32_t axis = 0;
  (void)self, (void)stream;
  kd_status status = halved_axis(host, launch->node, &type, &axis);
  if (status != KD_OK) return status;
  int64_t half = out->dims[axis], all = kd_elements(out);
  for (uint32_t i = axis + 1; i < out->rank; i++)
    half *= out->dims[i]; /* elements that lie together */
  for (int64_t at = 0; half && at < all; at += half)
    for (int64_t i = 0; i < half; i++)
      y[at + i] = silu(x[2 * at + i], 1) * x[2 * at + half + i];
  return KD_OK;
}

static kd_status windows(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  const kd_tensor *out = &launch->outputs[0];
  const float *x = kd_input(launch, 0);
  float *y = kd_output(launch, 0);
  (void)self, (void)stream;
  for (int64_t i = 0; i < out->dims[0]; i++)
    memcpy(y + i * out->dims[1], x + i, (size_t)out->dims[1] * sizeof *x);
  return KD_OK;
}

#define ON_F32                                                        \
  .struct_size = sizeof(kd_kernel_def), .flags = KD_KERNEL_ANY_SHAPE, \
  .domain = "com.acme"

static const kd_kernel_def kernels[] = {
    {ON_F32, .op = "Swish", .input_types = {KD_TYPES(KD_F32)},
     .enqueue = swish},
    {ON_F32, .op = "GatedSilu", .input_types = {KD_TYPES(KD_F32)},
     .enqueue = gated_silu},
    {ON_F32, .op = "Windows",
     .input_types = {KD_TYPES(KD_F32), KD_TYPES(KD_I64)}, .enqueue = windows},
};

/* ---- memory ------------------------------------------------------------------- */

static kd_status allocate(kd_device *device, const kd_allocation *wanted,
                          kd_buffer **out_buffer, void **out_address) {
  const kd_host *host = device->host;
  if (wanted->export_kind) return host->fail(KD_UNIMPLEMENTED, "no export");
  void *memory = host->allocate(host, wanted->size, 64);
  if (!memory)
    return host->fail(KD_OUT_OF_MEMORY, "acme: no %llu bytes are left",
                      (unsigned long long)wanted->size);
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

/* ---- the plugin --------------------------------------------------------------- */

static kd_status open_driver(const kd_host *host, kd_instance **out_instance) {
  kd_instance *instance = host->allocate(host, sizeof *instance, 0);
  if (!instance) return host->fail(KD_OUT_OF_MEMORY, "acme: no memory");
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
  out_info->name = "Acme device";
  out_info->kind = "npu";
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

static const kd_plugin acme = {
    .struct_size = sizeof(kd_plugin),
    .abi_version = KD_ABI_VERSION,
    .opset = KD_OPSET,
    .name = "acme",
    .vendor = "Acme",
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
    .ops = ops,
    .op_count = sizeof ops / sizeof *ops,
};

KD_ENTRY(acme)
