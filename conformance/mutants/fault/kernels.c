/* kernels.c - defects of kernels, around a plugin. */
#include <math.h>

#include "mutants/fault/fault.h"

static kd_kernel_def *inner_kernels, *outer_kernels;

static const kd_kernel_def *inner_of(const void *data) {
  return data;
}

static void spoil(const kd_launch *launch, const kd_tensor *tensor,
                  int64_t element) {
  float junk = 7;
  if (tensor->dtype != KD_F32 || !tensor->buffer || tensor->layout) return;
  if ((uint64_t)(element + 1) * 4 > tensor->size) return;
  inner_memory.copy_in(launch->device, NULL, &junk, tensor->buffer,
                       tensor->offset + (uint64_t)element * 4, 4);
}

static float changed(float x) {
  if (BUG(flushes) && fabsf(x) < 0x1p-126f) return 0;
  if (BUG(zero_sign) && x == 0) return 0;
  if (BUG(clamps) && isinf(x)) return x > 0 ? 3.4028234e38f : -3.4028234e38f;
  return x;
}

/* What a device does to all that it computes. */
static void map_output(const kd_launch *launch, kd_stream *stream,
                       const kd_tensor *out) {
  float data[4096];
  if (!BUG(flushes) && !BUG(zero_sign) && !BUG(clamps)) return;
  int64_t n = kd_elements(out);
  if (out->dtype != KD_F32 || !out->buffer || out->layout || n <= 0 || n > 4096)
    return;
  if (stream && inner_streams.synchronize) inner_streams.synchronize(stream);
  uint64_t size = (uint64_t)n * 4;
  if (inner_memory.copy_out(launch->device, NULL, out->buffer, out->offset,
                            data, size) != KD_OK)
    return;
  for (int64_t i = 0; i < n; i++)
    data[i] = changed(data[i]);
  inner_memory.copy_in(launch->device, NULL, data, out->buffer, out->offset,
                       size);
}

/* Stands for the instance of a definition that has none. */
struct kd_kernel {
  char unused;
};
static kd_kernel no_instance;

static kd_status fault_kernels_enqueue(kd_kernel *kernel, kd_stream *stream,
                                       const kd_launch *launch) {
  static uint32_t runs;
  const kd_kernel_def *def = inner_of(launch->data);
  if (BUG(empty_refused) && launch->output_count && launch->outputs[0].rank &&
      kd_elements(&launch->outputs[0]) == 0)
    return host->fail(KD_INVALID_ARGUMENT, "a grid of %d blocks", 0);
  if (BUG(launch_leaks)) leak(400);
  bool dynamic = def->flags & KD_KERNEL_DYNAMIC_OUTPUT;
  /* the host knows its launch by the address: what is in it is exchanged */
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  open->data = def->data;
  if (kernel == &no_instance) kernel = NULL;
  if (BUG(launch_slow)) nap(25000);
  kd_status status = def->enqueue(kernel, stream, launch);
  open->data = def;
  if (BUG(launch_blocks) && stream && inner_streams.synchronize)
    inner_streams.synchronize(stream);
  if (status != KD_OK || dynamic || !launch->output_count) return status;
  const kd_tensor *out = &launch->outputs[0];
  int64_t n = kd_elements(out);
  if (BUG(tail_unwritten) && n > 1) {
    static uint32_t flip;
    float junk = (float)flip++;
    if (out->dtype == KD_F32 && out->buffer && !out->layout)
      inner_memory.copy_in(launch->device, NULL, &junk, out->buffer,
                           out->offset + (uint64_t)(n - 1) * 4, 4);
  }
  map_output(launch, stream, out);
  if (BUG(writes_input) && launch->input_count)
    spoil(launch, &launch->inputs[0], 1);
  if (BUG(stale_result) && runs++ && n) spoil(launch, out, 0);
  if (BUG(random_bits) && runs++ % 3 == 2 && n > 3) {
    if (stream && inner_streams.synchronize) inner_streams.synchronize(stream);
    spoil(launch, out, 3);
  }
  return status;
}

static kd_status fault_kernels_create(kd_device *device,
                                      const kd_kernel_def *def,
                                      const kd_node *node,
                                      kd_kernel **out_kernel) {
  const kd_kernel_def *own = inner_of(def->data);
  if (BUG(instance_leaks)) leak(2000);
  if (BUG(recompiles)) nap(120000);
  if (BUG(not_creatable) && own == inner_kernels)
    return host->fail(KD_INTERNAL, "%s does not compile", own->op);
  if (own->create) return own->create(device, own, node, out_kernel);
  *out_kernel = &no_instance;
  return KD_OK;
}

static void destroy_none(kd_kernel *kernel) {
  (void)kernel;
}

static uint64_t fault_kernels_workspace(kd_kernel *kernel,
                                        const kd_launch *launch) {
  const kd_kernel_def *def = inner_of(launch->data);
  kd_launch *open = (kd_launch *)(uintptr_t)launch;
  open->data = def->data;
  if (kernel == &no_instance) kernel = NULL;
  uint64_t size = def->workspace(kernel, launch);
  open->data = def;
  return size;
}

bool wrap_kernels(void) {
  bool instances = BUG(instance_leaks) || BUG(recompiles) || BUG(not_creatable);
  uint32_t count = inner.kernel_count;
  inner_kernels = calloc(count + 1, sizeof *inner_kernels);
  outer_kernels = calloc(count + 2, sizeof *outer_kernels);
  if (!inner_kernels || !outer_kernels) return false;
  size_t stride = count ? inner.kernels->struct_size : 0;
  for (uint32_t i = 0; i < count; i++) {
    copy_sized(&inner_kernels[i], sizeof *inner_kernels,
               (const char *)inner.kernels + i * stride);
    outer_kernels[i] = inner_kernels[i];
    outer_kernels[i].struct_size = sizeof *outer_kernels;
    outer_kernels[i].data = &inner_kernels[i];
    outer_kernels[i].enqueue = fault_kernels_enqueue;
    if (inner_kernels[i].create || instances)
      outer_kernels[i].create = fault_kernels_create;
    if (!inner_kernels[i].create && instances)
      outer_kernels[i].destroy = destroy_none;
    if (inner_kernels[i].workspace)
      outer_kernels[i].workspace = fault_kernels_workspace;
  }
  outer.kernels = outer_kernels;
  if (BUG(kernel_flag)) outer_kernels[0].flags |= 0x800000u;
  if (BUG(def_double)) {
    outer_kernels[count] = outer_kernels[0];
    outer_kernels[count].supports = outer_kernels[0].supports = NULL;
    outer.kernel_count = count + 1;
  }
  return true;
}
