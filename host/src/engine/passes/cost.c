/* cost.c - devices are measured, not believed: a product of matrices, an elementwise op
 * and copies, a few milliseconds each. */
#include "passes/cost.h"
#include "device/stream.h"

#include "device/device.h"
#include "memory/copy.h"

#define SIDE  256     /* of the product */
#define MANY  1000000 /* elements of the elementwise op */
#define TRIES 3

/* The shortest of some calls, their results read: nanoseconds. */
static keel_status time_call(keel_context *context, const char *op,
                             keel_tensor *const *inputs, uint32_t n,
                             uint32_t calls, double *out_time) {
  double best = 0;
  for (int round = 0; round <= TRIES; round++) { /* the first one compiles */
    uint64_t begin = keel_now();
    for (uint32_t i = 0; i < calls; i++) {
      keel_tensor *y = NULL;
      KEEL_TRY(keel_call(context, op, NULL, 0, inputs, n, &y, 1));
      keel_status status = KD_OK;
      if (i + 1 == calls) status = keel_device_drain(keel_tensor_location(y));
      keel_tensor_release(y);
      KEEL_TRY(status);
    }
    double each = (double)(keel_now() - begin) / calls;
    if (round == 1 || (round && each < best)) best = each;
  }
  *out_time = best;
  return KD_OK;
}

static keel_status time_copy(keel_tensor *tensor, keel_device *device,
                             keel_tensor **out_there, double *out_time) {
  *out_time = 0;
  *out_there = NULL;
  for (int round = 0; round < TRIES; round++) {
    uint64_t begin = keel_now();
    keel_tensor_release(*out_there);
    KEEL_TRY(keel_copy_to(tensor, device, out_there));
    KEEL_TRY(keel_device_drain(device));
    double time = (double)(keel_now() - begin);
    if (!round || time < *out_time) *out_time = time;
  }
  return KD_OK;
}

static keel_status cost_measure(keel_device *device,
                                keel_tensor *const *on_host,
                                keel_tensor **there, keel_speed *out) {
  double times[5] = {0};
  keel_context *context = device->context;
  for (int i = 0; i < 3; i++)
    KEEL_TRY(time_copy(on_host[i], device, &there[i], &times[2 + i]));
  out->wait = times[2];
  out->copied = MANY * 4.0 / (times[4] > times[2] ? times[4] - times[2] : 1);
  if (!device->plugin->kernel_count) return KD_OK;
  KEEL_TRY(time_call(context, "Relu", &there[0], 1, 32, &out->launch));
  keel_tensor *pair[] = {there[1], there[1]};
  KEEL_TRY(time_call(context, "MatMul", pair, 2, 1, &times[0]));
  KEEL_TRY(time_call(context, "Relu", &there[2], 1, 4, &times[1]));
  out->flops = 2.0 * SIDE * SIDE * SIDE / times[0];
  out->bytes = 2.0 * MANY * 4 / times[1];
  return KD_OK;
}

keel_status keel_cost_speed(keel_device *device, keel_speed *out) {
  const int64_t dims[3][2] = {{1, 4}, {SIDE, SIDE}, {MANY / 1000, 1000}};
  keel_tensor *on_host[3] = {0}, *there[3] = {0};
  keel_status status = keel_device_ready(device);
  pthread_mutex_lock(&device->opening);
  if (status == KD_OK && device->speed.copied > 0) {
    *out = device->speed;
    pthread_mutex_unlock(&device->opening);
    return KD_OK;
  }
  pthread_mutex_unlock(&device->opening);
  for (int i = 0; status == KD_OK && i < 3; i++)
    status = keel_tensor_create(device->context, KD_F32, 2, dims[i], NULL,
                                &on_host[i]);
  if (status == KD_OK) status = keel_device_push(device);
  if (status == KD_OK) {
    status = cost_measure(device, on_host, there, out);
    keel_device_pop();
  }
  for (int i = 0; i < 3; i++) {
    keel_tensor_release(on_host[i]);
    keel_tensor_release(there[i]);
  }
  if (status != KD_OK)
    return keel_while(status, "while %s was measured", device->name);
  pthread_mutex_lock(&device->opening);
  device->speed = *out;
  pthread_mutex_unlock(&device->opening);
  return KD_OK;
}

/* ---- nodes -------------------------------------------------------------------------- */

static const keel_type *cost_type_of(const keel_function *function,
                                     const uint32_t *values, uint32_t count,
                                     uint32_t index) {
  if (index >= count || values[index] == KEEL_ABSENT) return NULL;
  return function->values[values[index]].type;
}

double keel_cost_flops(const keel_function *function, const keel_node *node) {
  const keel_schema *schema = node->op->schema;
  keel_flops_of of = {.node = node};
  for (uint32_t i = 0; i < KEEL_COUNT_OF(of.in); i++)
    of.in[i] = cost_type_of(function, node->inputs, node->input_count, i);
  of.out = cost_type_of(function, node->outputs, node->output_count, 0);
  if (!of.in[0] || !of.out || !keel_type_known(of.in[0]) ||
      !keel_type_known(of.out))
    return 0;
  double flops = schema->flops ? schema->flops(&of) : 0;
  return flops > 0 ? flops : (double)of.out->elements;
}

double keel_cost_bytes(const keel_function *function, const keel_node *node) {
  double read = 0, written = 0;
  for (uint32_t i = 0; i < node->output_count; i++) {
    const keel_type *type =
        cost_type_of(function, node->outputs, node->output_count, i);
    if (type && keel_type_known(type)) written += (double)type->bytes;
  }
  for (uint32_t i = 0; i < node->input_count; i++) {
    const keel_type *type =
        cost_type_of(function, node->inputs, node->input_count, i);
    if (!type || !keel_type_known(type)) continue;
    double bytes = (double)type->bytes;
    bool part =
        !i && bytes > written && node->op->schema->traits & KEEL_OP_PICKS;
    read += part ? written : bytes;
  }
  return read + written;
}

double keel_cost_node(const keel_function *function, const keel_node *node,
                      const keel_speed *speed, const kd_cost *estimate) {
  if (estimate->time) return (double)estimate->time;
  double bytes = (double)estimate->bytes, flops = (double)estimate->flops;
  if (!estimate->flops) flops = keel_cost_flops(function, node);
  if (!estimate->bytes) bytes = keel_cost_bytes(function, node);
  double arithmetic = flops / speed->flops;
  double traffic = bytes / speed->bytes;
  return speed->launch + (arithmetic > traffic ? arithmetic : traffic);
}

double keel_cost_copy(const keel_type *type, const keel_speed *from,
                      const keel_speed *to) {
  double bytes = type && keel_type_known(type) ? (double)type->bytes : 0;
  double time = 0;
  if (from) time += from->wait + bytes / from->copied;
  if (to) time += to->wait + bytes / to->copied;
  return time;
}
