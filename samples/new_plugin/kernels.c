/* kernels.c - the ops of the device, on f32: Relu, Add of equal shapes, MatMul of matrices. */
#include "newdev.h"

static void relu(const work *self) {
  const float *a = self->a;
  float *y = self->y;
  for (int64_t i = 0; i < self->n; i++)
    y[i] = a[i] < 0 ? 0 : a[i]; /* a NaN stays one */
}

static void add(const work *self) {
  const float *a = self->a, *b = self->b;
  float *y = self->y;
  for (int64_t i = 0; i < self->n; i++)
    y[i] = a[i] + b[i];
}

static void matmul(const work *self) {
  const float *a = self->a, *b = self->b;
  float *y = self->y;
  for (int64_t i = 0; i < self->m; i++)
    for (int64_t j = 0; j < self->n; j++) {
      float sum = 0;
      for (int64_t p = 0; p < self->k; p++)
        sum += a[i * self->k + p] * b[p * self->n + j];
      y[i * self->n + j] = sum;
    }
}

static const struct op {
  const char *name;
  newdev_op run;
} ops[] = {{"Relu", relu}, {"Add", add}, {"MatMul", matmul}};

/* Whether input `index` has the output's shape; two dimensions that are not known yet may differ. */
static bool alike(const kd_host *host, const kd_node *node, uint32_t index) {
  kd_type in, out;
  bool same = host->node->input_type(node, index, &in) == KD_OK &&
              host->node->output_type(node, 0, &out) == KD_OK && in.dtype == KD_F32 &&
              in.rank == out.rank && in.rank <= KD_MAX_RANK;
  for (uint32_t i = 0; same && i < in.rank; i++)
    same = in.dims[i] == out.dims[i] && (in.dims[i] >= 0 || host->node->input_count(node) == 1);
  return same;
}

newdev_op newdev_find_op(const kd_host *host, const kd_node *node) {
  if (strcmp(host->node->domain(node), "ai.onnx") != 0) return NULL;
  for (uint32_t i = 0; i < 2; i++)
    if (!strcmp(host->node->op(node), ops[i].name) && alike(host, node, 0) && alike(host, node, i))
      return ops[i].run;
  return NULL;
}

/* What the types of the definitions do not say. */
static kd_status supports(kd_device *device, const kd_node *node) {
  const kd_node_table *read = device->host->node;
  kd_type a = {0}, b = {0};
  bool matrices = !strcmp(read->op(node), "MatMul") && read->input_type(node, 0, &a) == KD_OK &&
                  read->input_type(node, 1, &b) == KD_OK && a.rank == 2 && b.rank == 2;
  if (matrices || newdev_find_op(device->host, node)) return KD_OK;
  return device->host->fail(KD_UNIMPLEMENTED, "newdev: not of such shapes");
}

static kd_status enqueue(kd_kernel *kernel, kd_stream *stream, const kd_launch *launch) {
  const kd_tensor *a = &launch->inputs[0], *y = &launch->outputs[0];
  const struct op *op = launch->data;
  work one = {.run = op->run, .a = a->data, .y = y->data, .n = kd_elements(y)};
  (void)kernel;
  if (launch->input_count > 1) one.b = kd_input(launch, 1);
  if (op->run == matmul) one.m = y->dims[0], one.n = y->dims[1], one.k = a->dims[1];
  return newdev_push(launch->device, stream, &one, 1);
}

#define ON_F32                                                             \
  .struct_size = sizeof(kd_kernel_def), .input_types = {KD_TYPES(KD_F32)}, \
  .flags = KD_KERNEL_ANY_SHAPE, .supports = supports, .enqueue = enqueue

const kd_kernel_def newdev_kernels[NEWDEV_KERNELS] = {
    {ON_F32, .op = "Relu", .data = &ops[0]},
    {ON_F32, .op = "Add", .data = &ops[1]},
    {ON_F32, .op = "MatMul", .data = &ops[2]},
};
