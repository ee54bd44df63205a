/* compute.c - running a partition.
 *
 * Inputs are used where they lie, if the device can. Outputs stay on a device
 * with memory of its own, and are put to where ONNX Runtime wants them; else
 * they are copied there. Any number of threads may run one partition. */
#include <stdlib.h>
#include <string.h>

#include "bridge.h"

#define FEW 32 /* values of a run that need no allocation */

typedef struct compute {
  ort_compute_info base;
  const target *to; /* the session's */
  keel_plan *plan;
  uint32_t input_count, output_count;
  port_map ports;
} compute;

static ort_status *create_state(ort_compute_info *self,
                                ort_compute_context *context, void **out) {
  (void)context;
  *out = self;
  return NULL;
}

static void release_state(ort_compute_info *self, void *state) {
  (void)self;
  (void)state;
}

static ort_status *take_input(const compute *self, const ort_value *value,
                              keel_tensor **out) {
  tensor_view seen;
  size_t size = 0;
  TRY(value_look(value, &seen));
  if (memory_at(seen.data, NULL)) TRY(ort->GetTensorSizeInBytes(value, &size));
  if (!size) return view_wrap(self->to->context, &seen, out);
  const memory_want want = {.address = seen.data,
                            .size = size,
                            .held = self->to->held,
                            .dtype = seen.dtype,
                            .rank = seen.rank,
                            .dims = seen.dims};
  return memory_get(&want, out);
}

static ort_status *wrap_inputs(const compute *self, ort_kernel_context *run,
                               keel_tensor **inputs) {
  for (uint32_t i = 0; i < self->input_count; i++) {
    const ort_value *value = NULL;
    uint32_t port = self->ports.inputs ? self->ports.inputs[i] : i;
    TRY(ort->KernelContext_GetInput(run, port, &value));
    if (!value)
      return failure(ORT_INVALID_ARGUMENT,
                     "Keel: input %u of a partition is "
                     "missing",
                     i);
    TRY(take_input(self, value, &inputs[i]));
  }
  return NULL;
}

/* The types must agree: ONNX Runtime made the memory for its own. */
static ort_status *check_type(const ort_value *value, keel_tensor *tensor,
                              uint32_t index) {
  int type = 0;
  const int64_t *dims = NULL;
  size_t rank = 0;
  TRY(ort->GetTensorElementTypeAndShapeDataReference(value, &type, &dims,
                                                     &rank));
  if (dtype_of_ort(type) == keel_tensor_dtype(tensor)) return NULL;
  char text[256];
  return failure(ORT_FAIL,
                 "Keel: output %u of a partition is %s, but ONNX "
                 "Runtime expects %s",
                 index, keel_tensor_text(tensor, text, sizeof text),
                 keel_dtype_name(dtype_of_ort(type)));
}

/* Puts a value into a device's memory. It must not be host memory that it was
 * made from, an input's, and that is ONNX Runtime's. */
static ort_status *put_output(const compute *self, const void *address,
                              keel_tensor *tensor) {
  keel_tensor *copy = NULL;
  if (keel_tensor_device(tensor))
    return memory_put(address, self->to->held, tensor);
  TRY_KEEL(keel_tensor_create(
      self->to->context, keel_tensor_dtype(tensor), keel_tensor_rank(tensor),
      keel_tensor_dims(tensor), keel_tensor_data(tensor), &copy));
  ort_status *status = memory_put(address, self->to->held, copy);
  keel_tensor_release(copy);
  return status;
}

static ort_status *give_output(const compute *self, ort_kernel_context *run,
                               keel_tensor *tensor, uint32_t index) {
  ort_value *value = NULL;
  void *data = NULL;
  TRY(ort->KernelContext_GetOutput(run, index, keel_tensor_dims(tensor),
                                   keel_tensor_rank(tensor), &value));
  if (!value) return NULL; /* nobody wants it */
  TRY(check_type(value, tensor, index));
  TRY(ort->GetTensorMutableData(value, &data));
  uint64_t size = keel_tensor_size(tensor);
  if (size && memory_at(data, NULL)) return put_output(self, data, tensor);
  if (size) TRY_KEEL(keel_tensor_read(tensor, data, size));
  return NULL;
}

static keel_status run_plan(const compute *self, keel_tensor **inputs,
                            keel_tensor **outputs) {
  terminable run;
  const keel_run_params params = {
      .struct_size = sizeof params,
      .flags = KEEL_RUN_ENQUEUES, /* what reads an output waits for it */
      .cancel = terminate_begin(&run, self->to)};
  keel_status status =
      keel_plan_run_with(self->plan, &params, inputs, self->input_count,
                         outputs, self->output_count);
  terminate_end(&run);
  return status;
}

static ort_status *compute_run_with(const compute *self,
                                    ort_kernel_context *run,
                                    keel_tensor **inputs,
                                    keel_tensor **outputs) {
  TRY(wrap_inputs(self, run, inputs));
  TRY_KEEL(run_plan(self, inputs, outputs));
  for (uint32_t i = 0; i < self->output_count; i++) {
    uint32_t port = self->ports.outputs ? self->ports.outputs[i] : i;
    if (port != NO_PORT) TRY(give_output(self, run, outputs[i], port));
  }
  return NULL;
}

static ort_status *compute_run(ort_compute_info *base, void *state,
                               ort_kernel_context *context) {
  (void)state;
  const compute *self = (const compute *)base;
  uint32_t count = self->input_count + self->output_count;
  keel_tensor *few[FEW] = {0};
  keel_tensor **all = count <= FEW ? few : calloc(count, sizeof(keel_tensor *));
  if (!all) return no_memory();
  ort_status *status =
      compute_run_with(self, context, all, all + self->input_count);
  for (uint32_t i = 0; i < count; i++)
    keel_tensor_release(all[i]);
  if (all != few) free(all);
  return status;
}

ort_status *compute_create(const target *to, keel_plan *plan, port_map ports,
                           ort_compute_info **out) {
  compute *self = calloc(1, sizeof *self);
  if (!self) {
    keel_plan_release(plan);
    free(ports.inputs);
    free(ports.outputs);
    return no_memory();
  }
  self->base = (ort_compute_info){
      .ort_version_supported = ORT_VERSION_USED,
      .CreateState = create_state,
      .Compute = compute_run,
      .ReleaseState = release_state,
  };
  self->to = to;
  self->plan = plan;
  self->ports = ports;
  self->input_count = keel_plan_input_count(plan);
  self->output_count = keel_plan_output_count(plan);
  *out = &self->base;
  return NULL;
}

void compute_destroy(ort_compute_info *base) {
  compute *self = (compute *)base;
  if (!self) return;
  keel_plan_release(self->plan);
  free(self->ports.inputs);
  free(self->ports.outputs);
  free(self);
}
