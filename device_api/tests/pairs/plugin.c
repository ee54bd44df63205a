/* plugin.c - a plugin of ABI 0.10: memory, streams, events, profile, three of the host's ops
 * and two of its own, options, properties. Frozen with that version's headers, and built
 * from them for ever.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <kd/kd.h>
#include <stdlib.h>
#include <string.h>

struct kd_instance {
  const kd_host *host;
};
struct kd_device {
  const kd_host *host;
  int profiled;
};
struct kd_stream {
  kd_device *device;
};

static kd_status push(kd_device *device, uint64_t correlation) {
  const kd_profile_record record = {.begin = 1,
                                    .end = 2,
                                    .correlation = correlation,
                                    .kind = KD_PROFILE_KERNEL,
                                    .name = "pair"};
  if (device->profiled)
    device->host->profile_push(device->host, device, &record, 1, sizeof record);
  return KD_OK;
}

static kd_status relu(kd_kernel *self, kd_stream *stream,
                      const kd_launch *launch) {
  const float *x = kd_input(launch, 0);
  float *y = kd_output(launch, 0);
  (void)self, (void)stream;
  for (int64_t i = 0, n = kd_elements(&launch->outputs[0]); i < n; i++)
    y[i] = x[i] < 0 ? 0 : x[i];
  return push(launch->device, launch->correlation);
}

/* By the node: y = alpha x below 0. */
static kd_status leaky(kd_kernel *self, kd_stream *stream,
                       const kd_launch *launch) {
  kd_device *device = launch->device;
  float alpha = device->host->node->attr_float(launch->node, "alpha", 9);
  const float *x = kd_input(launch, 0);
  float *y = kd_output(launch, 0);
  (void)self, (void)stream;
  for (int64_t i = 0, n = kd_elements(&launch->outputs[0]); i < n; i++)
    y[i] = x[i] < 0 ? alpha * x[i] : x[i];
  return push(device, launch->correlation);
}

static kd_status identity(kd_kernel *self, kd_stream *stream,
                          const kd_launch *launch) {
  (void)self, (void)stream;
  if (launch->outputs[0].size)
    memcpy(kd_output(launch, 0), kd_input(launch, 0),
           (size_t)launch->outputs[0].size);
  return push(launch->device, launch->correlation);
}

/* x.pair::Twice: all elements, then all again. */
static kd_status infer_twice(const kd_op_call *call) {
  kd_type x;
  call->host->node->input_type(call->node, 0, &x);
  if (x.rank != 1)
    return call->host->fail(KD_INVALID_ARGUMENT, "pair: X is no vector");
  call->outputs[0].rank = 1;
  call->outputs[0].dims[0] = 2 * x.dims[0];
  return KD_OK;
}

static kd_status twice(kd_kernel *self, kd_stream *stream,
                       const kd_launch *launch) {
  size_t size = (size_t)launch->inputs[0].size;
  char *y = kd_output(launch, 0);
  (void)self, (void)stream;
  if (size) memcpy(y, kd_input(launch, 0), size);
  if (size) memcpy(y + size, kd_input(launch, 0), size);
  return push(launch->device, launch->correlation);
}

/* x.pair::Scaled: X times `by`, which is 3 where the model says nothing. */
static kd_status scaled(kd_kernel *self, kd_stream *stream,
                        const kd_launch *launch) {
  const kd_host *host = launch->device->host;
  float by = host->node->attr_float(launch->node, "by", 0);
  const float *x = kd_input(launch, 0);
  float *y = kd_output(launch, 0);
  (void)self, (void)stream;
  for (int64_t i = 0, n = kd_elements(&launch->outputs[0]); i < n; i++)
    y[i] = by * x[i];
  return push(launch->device, launch->correlation);
}

#define F32_PARAM(text)                                                        \
  .struct_size = sizeof(kd_op_param), .name = text, .types = KD_TYPES(KD_F32), \
  .variable = 1

static const kd_op_param own_inputs[] = {
    {F32_PARAM("X")}, {F32_PARAM("unused"), .flags = KD_PARAM_OPTIONAL}};
static const kd_op_param own_outputs[] = {{F32_PARAM("Y")}};
static const kd_op_attr own_attrs[] = {
    {.struct_size = sizeof(kd_op_attr), .name = "why", .kind = KD_ATTR_STRING},
    {.struct_size = sizeof(kd_op_attr),
     .flags = KD_OP_ATTR_DEFAULT,
     .name = "by",
     .kind = KD_ATTR_FLOAT,
     .f = 3}};

#define OWN_OP(text)                                                  \
  .struct_size = sizeof(kd_op_def), .domain = "x.pair", .name = text, \
  .version = 1, .inputs = own_inputs, .outputs = own_outputs,         \
  .attrs = own_attrs, .input_count = 2, .output_count = 1, .attr_count = 2

static const kd_op_def own_ops[] = {{OWN_OP("Twice"), .infer = infer_twice},
                                    {OWN_OP("Scaled")}};

static const kd_option_def own_options[] = {
    {.struct_size = sizeof(kd_option_def),
     .name = "queues",
     .type = KD_OPTION_INTEGER,
     .default_value = "2",
     .doc = "How many."},
    {.struct_size = sizeof(kd_option_def),
     .name = "power",
     .choices = "low|high",
     .doc = "How much."}};

static kd_status property(kd_instance *instance, uint32_t device,
                          uint32_t index, kd_property *out_property) {
  uint32_t size = out_property->struct_size;
  const kd_property clock = {.struct_size = size,
                             .name = "clock",
                             .unit = "Hz",
                             .type = KD_PROPERTY_INTEGER,
                             .integer = 1000};
  if (device || index)
    return instance->host->fail(KD_OUT_OF_RANGE, "pair: one property");
  memcpy(out_property, &clock, size < sizeof clock ? size : sizeof clock);
  return KD_OK;
}

#define F32_KERNEL(name, function)                                 \
  .struct_size = sizeof(kd_kernel_def), .op = name,                \
  .flags = KD_KERNEL_ANY_SHAPE, .input_types = {KD_TYPES(KD_F32)}, \
  .enqueue = function

#define OWN_KERNELS                                   \
  {F32_KERNEL("Twice", twice), .domain = "x.pair"}, { \
    F32_KERNEL("Scaled", scaled), .domain = "x.pair"  \
  }

#ifndef PAIR_LATER
static const kd_kernel_def kernels[] = {
    {F32_KERNEL("Relu", relu)},
    {F32_KERNEL("LeakyRelu", leaky)},
    /* no bound, no types: as far as these headers knew */
    {.struct_size = sizeof(kd_kernel_def),
     .op = "Identity",
     .enqueue = identity},
    OWN_KERNELS,
};
#endif

static kd_status allocate(kd_device *device, const kd_allocation *wanted,
                          kd_buffer **out_buffer, void **out_address) {
  void *memory = device->host->allocate(device->host, wanted->size, 64);
  if (!memory) return device->host->fail(KD_OUT_OF_MEMORY, "pair: no memory");
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

static kd_status stream_create(kd_device *device, int32_t priority,
                               uint32_t flags, kd_stream **out_stream) {
  (void)priority;
  if (flags) return device->host->fail(KD_UNIMPLEMENTED, "pair: flags");
  *out_stream = malloc(sizeof **out_stream);
  if (!*out_stream) return KD_OUT_OF_MEMORY;
  (*out_stream)->device = device;
  return KD_OK;
}

static void stream_destroy(kd_stream *stream) {
  free(stream);
}

static kd_status stream_wait(kd_stream *stream, kd_event *event) {
  (void)stream, (void)event;
  return KD_OK;
}

/* All work is done when it is enqueued, so an event is nothing but an address. */
static kd_status event_create(kd_device *device, uint32_t flags,
                              kd_event **out_event) {
  if (flags) return device->host->fail(KD_UNIMPLEMENTED, "pair: flags");
  *out_event = malloc(1);
  return *out_event ? KD_OK : KD_OUT_OF_MEMORY;
}

static void event_destroy(kd_event *event) {
  free(event);
}

static kd_status event_record(kd_event *event, kd_stream *stream) {
  (void)event, (void)stream;
  return KD_OK;
}

static kd_status event_query(kd_event *event) {
  (void)event;
  return KD_OK;
}

static kd_status event_wait(kd_event *event, uint64_t timeout) {
  (void)event, (void)timeout;
  return KD_OK;
}

static kd_status profile_start(kd_device *device) {
  device->profiled = 1;
  return KD_OK;
}

static kd_status profile_stop(kd_device *device) {
  device->profiled = 0;
  return KD_OK;
}

static kd_status profile_clock(kd_device *device, uint64_t *out_device_ticks,
                               uint64_t *out_host_time,
                               uint64_t *out_frequency) {
  (void)device;
  *out_device_ticks = *out_host_time = 1;
  *out_frequency = 1000000000;
  return KD_OK;
}

static kd_status open_driver(const kd_host *host, kd_instance **out_instance) {
  *out_instance = malloc(sizeof **out_instance);
  if (!*out_instance) return KD_OUT_OF_MEMORY;
  (*out_instance)->host = host;
  return KD_OK;
}

static void close_driver(kd_instance *instance) {
  free(instance);
}

static uint32_t device_count(kd_instance *instance) {
  (void)instance;
  return 1;
}

static kd_status device_info(kd_instance *instance, uint32_t index,
                             kd_device_info *out_info) {
  (void)instance, (void)index;
  out_info->flags = KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE;
  out_info->name = "Pair";
  out_info->kind = "cpu";
  return KD_OK;
}

static kd_status device_open(kd_instance *instance, uint32_t index,
                             kd_device **out_device) {
  (void)index;
  *out_device = calloc(1, sizeof **out_device);
  if (!*out_device) return KD_OUT_OF_MEMORY;
  (*out_device)->host = instance->host;
  return KD_OK;
}

static void device_close(kd_device *device) {
  free(device);
}

/* What a later plugin, which is this one and more, has of each table. */
#define PAIR_MEMORY                                             \
  .struct_size = sizeof(kd_memory_table), .allocate = allocate, \
  .release = release, .copy_in = copy_in, .copy_out = copy_out
#define PAIR_STREAMS                                               \
  .struct_size = sizeof(kd_stream_table), .create = stream_create, \
  .destroy = stream_destroy, .wait = stream_wait
#define PAIR_EVENTS                                                       \
  .struct_size = sizeof(kd_event_table), .create = event_create,          \
  .destroy = event_destroy, .record = event_record, .query = event_query, \
  .wait = event_wait
#define PAIR_PROFILE                                               \
  .struct_size = sizeof(kd_profile_table), .start = profile_start, \
  .stop = profile_stop, .clock = profile_clock
#define PAIR_PLUGIN                                                         \
  .struct_size = sizeof(kd_plugin), .abi_version = KD_ABI_VERSION,          \
  .opset = KD_OPSET, .name = "pair", .vendor = "Keel", .version = "1.0",    \
  .open = open_driver, .close = close_driver, .device_count = device_count, \
  .device_info = device_info, .device_open = device_open,                   \
  .device_close = device_close, .ops = own_ops, .op_count = 2,              \
  .options = own_options, .option_count = 2, .property = property

#ifndef PAIR_LATER
static const kd_memory_table memory = {PAIR_MEMORY};
static const kd_stream_table streams = {PAIR_STREAMS};
static const kd_event_table events = {PAIR_EVENTS};
static const kd_profile_table profile = {PAIR_PROFILE};
static const kd_plugin pair = {
    PAIR_PLUGIN,
    .memory = &memory,
    .streams = &streams,
    .events = &events,
    .profile = &profile,
    .kernels = kernels,
    .kernel_count = sizeof kernels / sizeof *kernels};

KD_ENTRY(pair)
#endif
