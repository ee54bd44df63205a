/* compute.c - running a partition.
 *
 * Inputs are used where they lie, if the device can. Outputs stay on a device
 * with memory of its own, and are put to where ONNX Runtime wants them; else
 * they are written there, or copied where their sizes are not known before the
 * run. Any number of threads may run one partition. */
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
  bool near; /* the device works on host addresses */
} compute;

/* What a run gives, and where ONNX Runtime wants it. */
typedef struct results {
  keel_tensor **outputs;
  keel_output_memory *into; /* without data: it is not known before the run */
} results;

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

/* ONNX Runtime's memory for an output of these dimensions; *out_value: NULL if
 * nobody wants it. */
static ort_status *output_memory(ort_kernel_context *run, uint32_t port,
                                 const int64_t *dims, uint32_t rank,
                                 ort_value **out_value, void **out_data) {
  *out_value = NULL;
  *out_data = NULL;
  TRY(ort->KernelContext_GetOutput(run, port, dims, rank, out_value));
  return *out_value ? ort->GetTensorMutableData(*out_value, out_data) : NULL;
}

static uint32_t output_port(const compute *self, uint32_t index) {
  return self->ports.outputs ? self->ports.outputs[index] : index;
}

/* Whether an input has the shape that the plan was made for, so that outputs have theirs. */
static bool is_declared(const compute *self, uint32_t index,
                        keel_tensor *input) {
  keel_port port;
  if (keel_plan_input(self->plan, index, &port) != KD_OK ||
      port.rank != keel_tensor_rank(input))
    return false;
  for (uint32_t i = 0; i < port.rank; i++)
    if (port.dims[i] != keel_tensor_dims(input)[i]) return false;
  return true;
}

static bool lies_in(keel_tensor *input, const char *from, size_t size) {
  const char *at = keel_tensor_data(input);
  return at && at < from + size && from < at + keel_tensor_size(input);
}

/* Where an output is to be written, if its sizes are known. A session may bind an output to an
 * input's memory: that gets a copy at the end. */
static ort_status *want_output(const compute *self, ort_kernel_context *run,
                               keel_tensor **inputs, uint32_t index,
                               keel_output_memory *into) {
  keel_port port;
  ort_value *value = NULL;
  void *data = NULL;
  size_t size = 0;
  TRY_KEEL(keel_plan_output(self->plan, index, &port));
  bool known = !(port.flags & (KEEL_PORT_SEQUENCE | KEEL_PORT_OPTIONAL)) &&
               port.rank != KEEL_RANK_UNKNOWN &&
               output_port(self, index) != NO_PORT;
  for (uint32_t i = 0; known && i < port.rank; i++)
    known = port.dims[i] >= 0;
  if (!known) return NULL;
  TRY(output_memory(run, output_port(self, index), port.dims, port.rank, &value,
                    &data));
  if (!value || memory_at(data, NULL)) return NULL;
  TRY(ort->GetTensorSizeInBytes(value, &size));
  for (uint32_t i = 0; i < self->input_count; i++)
    if (lies_in(inputs[i], data, size)) return NULL;
  *into = (keel_output_memory){data, size};
  return NULL;
}

/* Where outputs are to be written. */
static ort_status *want_outputs(const compute *self, ort_kernel_context *run,
                                keel_tensor **inputs, const results *made) {
  for (uint32_t i = 0; i < self->input_count; i++)
    if (!is_declared(self, i, inputs[i])) return NULL;
  for (uint32_t i = 0; i < self->output_count; i++)
    TRY(want_output(self, run, inputs, i, &made->into[i]));
  return NULL;
}

static ort_status *give_output(const compute *self, ort_kernel_context *run,
                               const results *made, uint32_t index) {
  keel_tensor *tensor = made->outputs[index];
  ort_value *value = NULL;
  void *data = NULL;
  TRY(output_memory(run, output_port(self, index), keel_tensor_dims(tensor),
                    keel_tensor_rank(tensor), &value, &data));
  if (!value) return NULL;
  TRY(check_type(value, tensor, output_port(self, index)));
  uint64_t size = keel_tensor_size(tensor);
  if (!size || made->into[index].data == data) return NULL;
  if (memory_at(data, NULL)) return put_output(self, data, tensor);
  TRY_KEEL(keel_tensor_read(tensor, data, size));
  return NULL;
}

static keel_status run_plan(const compute *self, keel_tensor **inputs,
                            const results *made) {
  terminable run;
  const keel_run_params params = {
      .struct_size = sizeof params,
      /* what reads an output of a device waits for it */
      .flags = self->near ? 0 : KEEL_RUN_ENQUEUES,
      .cancel = terminate_begin(&run, self->to),
      .into = made->into,
      .into_count = self->near ? self->output_count : 0};
  keel_status status =
      keel_plan_run_with(self->plan, &params, inputs, self->input_count,
                         made->outputs, self->output_count);
  terminate_end(&run);
  return status;
}

static ort_status *compute_run_with(const compute *self,
                                    ort_kernel_context *run,
                                    keel_tensor **inputs, const results *made) {
  TRY(wrap_inputs(self, run, inputs));
  if (self->near) TRY(want_outputs(self, run, inputs, made));
  TRY_KEEL(run_plan(self, inputs, made));
  for (uint32_t i = 0; i < self->output_count; i++)
    if (output_port(self, i) != NO_PORT) TRY(give_output(self, run, made, i));
  return NULL;
}

static ort_status *compute_run(ort_compute_info *base, void *state,
                               ort_kernel_context *context) {
  (void)state;
  const compute *self = (const compute *)base;
  uint32_t count = self->input_count + self->output_count;
  keel_tensor *few[FEW] = {0};
  keel_output_memory few_into[FEW] = {{0}};
  const bool is_few = count <= FEW;
  keel_tensor **all = is_few ? few : calloc(count, sizeof *all);
  keel_output_memory *into =
      is_few ? few_into : calloc(self->output_count + (size_t)1, sizeof *into);
  ort_status *status = NULL;
  if (all && into) {
    const results made = {all + self->input_count, into};
    status = compute_run_with(self, context, all, &made);
    for (uint32_t i = 0; i < count; i++)
      keel_tensor_release(all[i]);
  } else {
    status = no_memory();
  }
  if (!is_few) free(all);
  if (!is_few) free(into);
  return status;
}

static bool is_near(keel_device *device) {
  keel_device_facts facts;
  keel_device_describe(device, &facts);
  return facts.flags & KD_DEVICE_HOST_ADDRESSABLE;
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
  self->near = is_near(to->device);
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
