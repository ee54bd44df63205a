/* plugin.c - the reference as a plugin, so that ONNX's stored cases can judge it
 * and a model can be run on it:
 *
 *   keel onnx-test --plugin reference.so --device reference DIR
 *
 * It is slow, and takes any type that the op's schema allows. */
#include "common/inline.h"
#include "common/single.h"
#include "reference/reference.h"

static value *reference_take(const kd_tensor *tensor) {
  if (tensor->dtype == KD_NONE) return NULL;
  value *made = value_make(tensor->dtype, tensor->rank, tensor->dims);
  if (made && made->count) value_load(made, tensor->data);
  return made;
}

static kd_status reference_give(const kd_launch *launch, uint32_t index,
                                const ref_op *op, const value *result) {
  kd_tensor target = launch->outputs[index];
  if (op->dynamic) {
    kd_status status = inline_host->set_output(launch, index, result->rank,
                                               result->dims, &target);
    if (status != KD_OK) return status;
  }
  if (result->count) value_store(result, target.data);
  return KD_OK;
}

static kd_status reference_enqueue(kd_kernel *self, kd_stream *stream,
                                   const kd_launch *launch) {
  enum { MOST = 64 };
  const ref_op *op = launch->data;
  value *in[MOST] = {0}, *out[MOST] = {0};
  kd_status status = KD_OK;
  (void)self;
  (void)stream;
  if (launch->input_count > MOST || launch->output_count > MOST)
    return inline_host->fail(KD_UNIMPLEMENTED, "more than %d arguments", MOST);
  for (uint32_t i = 0; i < launch->input_count; i++)
    in[i] = reference_take(&launch->inputs[i]);
  for (uint32_t i = 0; i < launch->output_count && !op->dynamic; i++)
    if (launch->outputs[i].dtype != KD_NONE)
      out[i] = value_make(launch->outputs[i].dtype, launch->outputs[i].rank,
                          launch->outputs[i].dims);
  ref_call call = {.read = inline_host->node,
                   .node = launch->node,
                   .in = (const value *const *)in,
                   .in_count = launch->input_count,
                   .out = out,
                   .out_count = launch->output_count,
                   .variant = op->variant};
  if (!op->run(&call))
    status = inline_host->fail(KD_UNIMPLEMENTED,
                               "the reference does not do this %s", op->name);
  for (uint32_t i = 0; i < launch->output_count && status == KD_OK; i++)
    if (out[i]) status = reference_give(launch, i, op, out[i]);
  for (uint32_t i = 0; i < MOST; i++) {
    value_free(in[i]);
    value_free(out[i]);
  }
  return status;
}

static kd_status reference_start(const kd_host *services) {
  inline_host = services;
  return KD_OK;
}

static kd_status reference_plugin_open(const kd_host *services,
                                       kd_instance **out_instance) {
  return single_open(services, reference_start, out_instance);
}

static void reference_plugin_close(kd_instance *instance) {
  (void)instance;
  single_close();
}

static kd_status reference_device_info(kd_instance *instance, uint32_t index,
                                       kd_device_info *out_info) {
  (void)instance;
  if (index) return inline_host->fail(KD_OUT_OF_RANGE, "there is one device");
  out_info->flags =
      KD_DEVICE_INLINE | KD_DEVICE_HOST_ADDRESSABLE | KD_DEVICE_SOFTWARE;
  out_info->name = "Keel's conformance reference";
  out_info->kind = "cpu";
  return KD_OK;
}

#define MOST_OPS 256
static kd_kernel_def kernels[MOST_OPS];
static kd_plugin plugin = {
    .struct_size = sizeof(kd_plugin),
    .abi_version = KD_ABI_VERSION,
    .opset = KD_OPSET,
    .name = "reference",
    .vendor = "Keel",
    .version = "1",
    .open = reference_plugin_open,
    .close = reference_plugin_close,
    .device_count = inline_count,
    .device_info = reference_device_info,
    .device_open = inline_open,
    .device_close = inline_close,
    .memory = &inline_memory,
    .kernels = kernels,
};

/* The definitions come from the reference's own table, once. */
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host_of_entry);
KD_EXPORT const kd_plugin *kd_entry_0(const kd_host *host_of_entry) {
  (void)host_of_entry;
  if (plugin.kernel_count) return &plugin;
  const ref_op *op = NULL;
  for (uint32_t i = 0; i < MOST_OPS && (op = ref_at(i)); i++)
    kernels[plugin.kernel_count++] = (kd_kernel_def){
        .struct_size = sizeof(kd_kernel_def),
        .flags =
            KD_KERNEL_ANY_SHAPE | (op->dynamic ? KD_KERNEL_DYNAMIC_OUTPUT : 0),
        .domain = op->domain,
        .op = op->name,
        .data = op,
        .enqueue = reference_enqueue,
    };
  return &plugin;
}
