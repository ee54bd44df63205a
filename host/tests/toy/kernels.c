/* kernels.c - the toy's ops: a few of f32, elementwise. Mul by the scalar 13 fails, when it
 * runs; Mul by the scalar 7 waits until the test opens the gate. A PRelu takes a constant slope. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device.h"

void toy_compute(toy_op op, const float *x, const float *y, bool scalar,
                 float *to, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    float second = y ? y[scalar || op == TOY_PRELU ? 0 : i] : 0;
    to[i] = op == TOY_RELU    ? (x[i] > 0 ? x[i] : 0)
            : op == TOY_ADD   ? x[i] + second
            : op == TOY_MUL   ? x[i] * second
            : op == TOY_MIN   ? (second < x[i] ? second : x[i])
            : op == TOY_NEG   ? -x[i]
            : op == TOY_ABS   ? (x[i] < 0 ? -x[i] : x[i])
            : op == TOY_PRELU ? (x[i] < 0 ? x[i] * second : x[i])
                              : 0;
  }
}

/* Blocks until all of them are inside at once, or ten seconds have passed; then it fails. */
static kd_status meet(int members) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
  static int inside, meetings;
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 10;
  int late = 0;
  pthread_mutex_lock(&lock);
  int mine = meetings;
  if (++inside == members) {
    inside = 0;
    meetings++;
    pthread_cond_broadcast(&changed);
  }
  while (mine == meetings && !late)
    late = pthread_cond_timedwait(&changed, &lock, &until);
  if (late) inside--;
  pthread_mutex_unlock(&lock);
  return late ? toy_fail(KD_ABORTED, "the others did not come") : KD_OK;
}

static kd_status run_op(toy_job *job) {
  const float *x = (const float *)(void *)toy_address(&job->at[0]);
  const float *y = job->op == TOY_PRELU && job->at[1].buffer == NULL
                       ? &job->slope
                       : (const float *)(void *)toy_address(&job->at[1]);
  float *to = (float *)(void *)toy_address(&job->at[2]);
  toy_need_unmapped(job->at[2].buffer);
  if (job->scalar && y[0] == 13) return KD_INTERNAL;
  while (job->scalar && y[0] == 7 && toy.gate)
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
  toy_compute((toy_op)job->op, x, y, job->scalar, to,
              (int64_t)(job->size / sizeof *to));
  return KD_OK;
}

static bool is_aligned(const kd_tensor *tensor) {
  uint32_t alignment = toy_model_now->alignment;
  return !alignment || (uintptr_t)tensor->data % alignment == 0;
}

static kd_status check(kd_stream *stream, const kd_tensor *tensor) {
  if (toy_model_now->work != AT_ONCE && !stream)
    return toy_fail(KD_FAILED_PRECONDITION, "it needs a stream");
  if (toy_model_now->handles && (!tensor->buffer || tensor->data))
    return toy_fail(KD_INVALID_ARGUMENT, "it was handed host memory");
  return is_aligned(tensor) ? KD_OK
                            : toy_fail(KD_INVALID_ARGUMENT, "not aligned to %u",
                                       toy_model_now->alignment);
}

struct kd_kernel {
  bool takes;
  float slope;
};

static kd_status create(kd_device *device, const kd_kernel_def *def,
                        const kd_node *node, kd_kernel **out_kernel) {
  kd_tensor slope;
  (void)device, (void)def;
  kd_kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return toy_fail(KD_OUT_OF_MEMORY, "no host memory");
  kernel->takes =
      !toy.leaves && toy_host->node->constant(node, 1, &slope) == KD_OK;
  if (kernel->takes) kernel->slope = *(const float *)slope.data;
  toy.created++;
  toy.kernels++;
  *out_kernel = kernel;
  return KD_OK;
}

static uint64_t takes(kd_kernel *kernel) {
  return kernel->takes ? 2 : 0;
}

static void destroy(kd_kernel *kernel) {
  toy.kernels--;
  free(kernel);
}

static kd_status enqueue(kd_kernel *self, kd_stream *stream,
                         const kd_launch *launch) {
  const kd_tensor *x = &launch->inputs[0], *z = &launch->outputs[0];
  const kd_tensor *y = launch->input_count > 1 ? &launch->inputs[1] : x;
  const kd_tensor *const all[] = {x, y, z};
  toy_job job = {.run = run_op, .size = z->size};
  kd_status status = KD_OK;
  if (self) job.slope = self->slope;
  job.op = (int)(intptr_t)launch->data;
  job.scalar = job.op == TOY_MUL && y->rank == 0;
  for (int i = 0; i < 3 && status == KD_OK; i++) {
    if (all[i] == y && self && self->takes) continue;
    job.at[i] = (toy_place){all[i]->buffer, all[i]->offset, all[i]->data};
    status = check(stream, all[i]);
  }
  toy.input = x->data;
  if (status == KD_OK && toy_model_now->meet)
    status = meet(toy_model_now->meet);
  return status == KD_OK ? toy_do(stream, &job) : status;
}

/* ---- definitions ----------------------------------------------------------------- */

static kd_status equal_shapes(kd_device *device, const kd_node *node) {
  kd_type a, b;
  (void)device;
  toy_host->node->input_type(node, 0, &a);
  toy_host->node->input_type(node, 1, &b);
  bool equal = a.rank == b.rank;
  for (uint32_t i = 0; equal && i < a.rank; i++)
    equal = a.dims[i] == b.dims[i];
  return equal ? KD_OK : toy_fail(KD_UNIMPLEMENTED, "it does not broadcast");
}

/* A queue multiplies by scalars alone. */
static kd_status factors(kd_device *device, const kd_node *node) {
  kd_type b;
  toy_host->node->input_type(node, 1, &b);
  if (b.rank == 0) return KD_OK;
  return toy_model_now->handles
             ? toy_fail(KD_UNIMPLEMENTED, "it multiplies by scalars only")
             : equal_shapes(device, node);
}

static kd_status cost(kd_device *device, const kd_node *node,
                      kd_cost *out_cost) {
  (void)device, (void)node;
  out_cost->time = (uint64_t)toy.cost;
  return KD_OK;
}

#define DEF(name, number)                           \
  .struct_size = sizeof(kd_kernel_def), .op = name, \
  .data = (const void *)(intptr_t)(number), .enqueue = enqueue
#define OF_F32 .input_types = {KD_TYPES(KD_F32)}

static const kd_kernel_def known[] = {
    {DEF("Relu", TOY_RELU), OF_F32, .flags = KD_KERNEL_ANY_SHAPE},
    {DEF("Add", TOY_ADD), OF_F32, .supports = equal_shapes, .cost = cost},
    {DEF("Mul", TOY_MUL), OF_F32, .supports = factors},
    {DEF("Min", TOY_MIN), OF_F32, .supports = equal_shapes,
     .flags = KD_KERNEL_NO_CAPTURE},
    {DEF("Neg", TOY_NEG), OF_F32},
    {DEF("Abs", TOY_ABS), OF_F32},
    {DEF("PRelu", TOY_PRELU), OF_F32, .flags = KD_KERNEL_ANY_SHAPE,
     .create = create, .destroy = destroy, .taken = takes},
    {DEF("DFT", TOY_ZERO)},
    {DEF("Gelu", TOY_ZERO), .opset_max = UINT32_MAX},
};

uint32_t toy_kernels(kd_kernel_def defs[TOY_OPS]) {
  uint32_t count = 0;
  for (; count < TOY_OPS && toy_model_now->ops[count]; count++)
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
      if (!strcmp(known[i].op, toy_model_now->ops[count])) {
        defs[count] = known[i];
        if (toy_model_now->meet) defs[count].flags |= KD_KERNEL_BLOCKING;
      }
  return count;
}
