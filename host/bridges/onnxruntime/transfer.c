/* transfer.c - copies between host memory and a device's (memory.c), which ONNX
 * Runtime asks for: of inputs and outputs of a run, and by nodes that it puts
 * between partitions and nodes of its own. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

/* Values of so few bytes stay in host memory, also where a device's was asked
 * for: they are shapes, axes and their like, which programs look at. A program
 * takes one to the device where it needs it there. */
#define STAYS_ON_HOST 256

static ort_status *transfer_copy_in(const tensor_view *from, size_t size,
                                    const memory_place *place, const void *to) {
  keel_context *context = place->held->context;
  keel_tensor *host = NULL, *moved = NULL;
  if (size <= STAYS_ON_HOST) {
    TRY_KEEL(keel_tensor_create(context, from->dtype, from->rank, from->dims,
                                from->data, &moved));
  } else {
    TRY_KEEL(keel_tensor_wrap(context, from->dtype, from->rank, from->dims,
                              from->data, NULL, NULL, &host));
    keel_status status = keel_tensor_to(host, place->device, &moved);
    keel_tensor_release(host);
    if (status != KD_OK) return keel_failure(status);
  }
  ort_status *status = memory_put(to, place->held, moved);
  keel_tensor_release(moved);
  return status;
}

/* The same value in another place: nothing is copied. */
static ort_status *copy_within(const tensor_view *from, size_t size,
                               const memory_place *place, const void *to) {
  keel_tensor *value = NULL;
  const memory_want want = {.address = from->data,
                            .size = size,
                            .held = place->held,
                            .dtype = from->dtype,
                            .rank = from->rank,
                            .dims = from->dims};
  TRY(memory_get(&want, &value));
  ort_status *status = memory_put(to, place->held, value);
  keel_tensor_release(value);
  return status;
}

static ort_status *transfer_copy(const ort_value *from, ort_value *to) {
  tensor_view source;
  void *target = NULL;
  memory_place place;
  size_t size = 0;
  TRY(value_look(from, &source));
  TRY(ort->GetTensorSizeInBytes(from, &size));
  TRY(ort->GetTensorMutableData(to, &target));
  if (!size) return NULL;
  bool from_device = memory_at(source.data, NULL);
  if (memory_at(target, &place))
    return from_device ? copy_within(&source, size, &place, target)
                       : transfer_copy_in(&source, size, &place, target);
  if (from_device) return memory_read(source.data, target, size);
  memcpy(target, source.data, size);
  return NULL;
}

/* ---- for values of a session ---------------------------------------------------- */

static void transfer_release(ort_data_transfer *self) {
  free(self);
}

static bool is_ours(const ort_memory_device *device) {
  return ort_ep_functions->MemoryDevice_GetVendorId(device) == VENDOR_ID;
}

static bool is_host(const ort_memory_device *device) {
  return ort_ep_functions->MemoryDevice_GetDeviceType(device) ==
         OrtMemoryInfoDeviceType_CPU;
}

static bool can_copy(const ort_data_transfer *self,
                     const ort_memory_device *from,
                     const ort_memory_device *to) {
  (void)self;
  bool ours = is_ours(from), theirs = is_ours(to);
  return (ours && (theirs || is_host(to))) || (theirs && is_host(from));
}

static ort_status *copy_tensors(ort_data_transfer *self, const ort_value **from,
                                ort_value **to, ort_stream **streams,
                                size_t count) {
  (void)self;
  (void)streams;
  for (size_t i = 0; i < count; i++)
    TRY(transfer_copy(from[i], to[i]));
  return NULL;
}

ort_status *transfer_create(ort_data_transfer **out) {
  ort_data_transfer *self = calloc(1, sizeof *self);
  if (!self) return no_memory();
  *self = (ort_data_transfer){.ort_version_supported = ORT_VERSION_USED,
                              .Release = transfer_release,
                              .CanCopy = can_copy,
                              .CopyTensors = copy_tensors};
  *out = self;
  return NULL;
}

/* ---- as nodes ------------------------------------------------------------------- */

static ort_status *transfer_run(ort_kernel *self, ort_kernel_context *context) {
  (void)self;
  const ort_value *from = NULL;
  ort_value *to = NULL;
  tensor_view source;
  TRY(ort->KernelContext_GetInput(context, 0, &from));
  TRY(value_look(from, &source));
  TRY(ort->KernelContext_GetOutput(context, 0, source.dims, source.rank, &to));
  return to ? transfer_copy(from, to) : NULL;
}

static void release_kernel(ort_kernel *self) {
  free(self);
}

static ort_status *create_kernel(void *state, const ort_kernel_info *info,
                                 ort_kernel **out) {
  (void)state;
  (void)info;
  ort_kernel *self = calloc(1, sizeof *self);
  if (!self) return no_memory();
  *self = (ort_kernel){.ort_version_supported = ORT_VERSION_USED,
                       .Compute = transfer_run,
                       .Release = release_kernel};
  *out = self;
  return NULL;
}

/* All types that can cross and that this ONNX Runtime has. */
static size_t list_types(const ort_data_type **out) {
  size_t count = 0;
  for (int type = 1; type <= ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0; type++) {
    if (dtype_of_ort(type) == KD_NONE) continue;
    ort_status *status = ort_ep_functions->GetTensorDataType(type, &out[count]);
    if (status)
      ort->ReleaseStatus(status);
    else if (out[count])
      count++;
  }
  return count;
}

static ort_status *define(ort_kernel_builder *builder, const char *op) {
  const ort_ep_api *ep = ort_ep_functions;
  const ort_data_type *types[ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0 + 1];
  size_t count = list_types(types);
  TRY(ep->KernelDefBuilder_SetOperatorType(builder, op));
  TRY(ep->KernelDefBuilder_SetDomain(builder, ""));
  TRY(ep->KernelDefBuilder_SetSinceVersion(builder, 1, 1));
  TRY(ep->KernelDefBuilder_SetExecutionProvider(builder, PROVIDER_NAME));
  if (!strcmp(op, "MemcpyFromHost"))
    TRY(ep->KernelDefBuilder_SetInputMemType(builder, 0, OrtMemTypeCPUInput));
  else
    TRY(ep->KernelDefBuilder_SetOutputMemType(builder, 0, OrtMemTypeCPUOutput));
  return ep->KernelDefBuilder_AddTypeConstraint(builder, "T", types, count);
}

static ort_status *add_kernel(ort_kernel_registry *registry, const char *op) {
  const ort_ep_api *ep = ort_ep_functions;
  ort_kernel_builder *builder = NULL;
  ort_kernel_def *definition = NULL;
  TRY(ep->CreateKernelDefBuilder(&builder));
  ort_status *status = define(builder, op);
  if (!status) status = ep->KernelDefBuilder_Build(builder, &definition);
  if (!status)
    status =
        ep->KernelRegistry_AddKernel(registry, definition, create_kernel, NULL);
  if (definition) ep->ReleaseKernelDef(definition);
  ep->ReleaseKernelDefBuilder(builder);
  return status;
}

ort_status *transfer_kernels(ort_kernel_registry **out) {
  *out = NULL;
  TRY(ort_ep_functions->CreateKernelRegistry(out));
  ort_status *status = add_kernel(*out, "MemcpyFromHost");
  if (!status) status = add_kernel(*out, "MemcpyToHost");
  if (!status) return NULL;
  ort_ep_functions->ReleaseKernelRegistry(*out);
  *out = NULL;
  return status;
}
