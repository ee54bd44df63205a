/* bandwidth.c - what elementwise kernels read and write in a second, beside the driver's copy
 * on the device, in turn in one process; the best of some rounds.
 *
 * usage: cuda_bandwidth [MIB [DRIVER NVRTC]]     of each tensor; default: 256, and the
 *        system's libraries */
#include "bench.h"

enum { ROUNDS = 8, TIMES = 10 };

static keel_context *context;
static keel_device *device;
static keel_op *relu;
static keel_tensor *one; /* an element on the device */

static struct {
  cu_stream stream;
  cu_pointer memory[2];
} raw;

static const struct row {
  const char *op;
  kd_dtype dtype;
  uint32_t inputs;
} rows[] = {{"Relu", KD_F32, 1}, {"Add", KD_F32, 2},  {"Relu", KD_F16, 1},
            {"Add", KD_F16, 2},  {"Add", KD_BF16, 2}, {"Add", KD_U8, 2}};

static void copies(size_t bytes) {
  for (int i = 0; i < TIMES; i++)
    need_cu(cu.MemcpyAsync(raw.memory[1], raw.memory[0], bytes, raw.stream),
            "a copy");
  need_cu(cu.StreamSynchronize(raw.stream), "cuStreamSynchronize");
}

static void calls(keel_op *op, keel_tensor **in, uint32_t inputs) {
  keel_tensor *y = NULL, *last = NULL;
  float seen = 0;
  for (int i = 0; i < TIMES; i++) {
    keel_tensor_release(y);
    need(keel_op_call(op, in, inputs, &y, 1));
  }
  /* reading what comes behind them waits for the device */
  need(keel_op_call(relu, &one, 1, &last, 1));
  need(keel_tensor_read(last, &seen, sizeof seen));
  keel_tensor_release(last);
  keel_tensor_release(y);
}

static void measure(const struct row *row, size_t bytes) {
  double best[2] = {1e30, 1e30};
  int64_t count = (int64_t)(bytes / keel_dtype_size(row->dtype));
  keel_op *op = NULL;
  keel_tensor *host = NULL, *in[2] = {NULL};
  need(keel_op_prepare(context, row->op, NULL, 0, NULL, &op));
  need(keel_tensor_create(context, row->dtype, 1, &count, NULL, &host));
  need(keel_tensor_to(host, device, &in[0]));
  need(keel_tensor_to(host, device, &in[1]));
  for (int round = 0; round < ROUNDS; round++) {
    double begin = now();
    copies(bytes);
    double middle = now();
    calls(op, in, row->inputs);
    double end = now();
    if (!round) continue;
    if (middle - begin < best[0]) best[0] = middle - begin;
    if (end - middle < best[1]) best[1] = end - middle;
  }
  double moved = (double)bytes * TIMES;
  double copied = 2 * moved / best[0],
         made = (row->inputs + 1) * moved / best[1];
  printf(
      "%-4s %-4s: copy on the device %8.1f GB/s, Keel %8.1f GB/s, ratio"
      " %.2f\n",
      row->op, keel_dtype_name(row->dtype), copied, made, made / copied);
  fflush(stdout);
  keel_tensor_release(host);
  keel_tensor_release(in[0]);
  keel_tensor_release(in[1]);
  keel_op_release(op);
}

int main(int argc, char **argv) {
  static char options[2][4200];
  static const char *const list[] = {options[0], options[1]};
  long mib = argc > 1 ? strtol(argv[1], NULL, 10) : 256;
  bool named = argc == 4;
  if ((argc > 2 && !named) || mib < 1 || mib > 2047) {
    fprintf(stderr,
            "usage: cuda_bandwidth [MIB [DRIVER NVRTC]]     MIB: 1 to 2047\n");
    return 2;
  }
  for (int i = 0; named && i < 2; i++)
    snprintf(options[i], sizeof options[i], "cuda.%s=%s",
             i ? "nvrtc" : "driver", argv[i + 2]);
  const keel_context_params params = {.struct_size = sizeof params,
                                      .options = list,
                                      .option_count = named ? 2 : 0};
  size_t bytes = (size_t)mib << 20;
  raw.stream = open_driver(named ? argv[2] : NULL);
  for (int i = 0; i < 2; i++)
    need_cu(cu.MemAlloc(&raw.memory[i], bytes), "memory");
  need(keel_open(&params, &context));
  need(keel_device_find(context, "cuda:0", &device));
  need(keel_device_push(device));
  need(keel_op_prepare(context, "Relu", NULL, 0, NULL, &relu));
  keel_tensor *host = NULL;
  need(keel_tensor_create(context, KD_F32, 0, NULL, NULL, &host));
  need(keel_tensor_to(host, device, &one));
  keel_tensor_release(host);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    measure(&rows[i], bytes);
  keel_tensor_release(one);
  keel_op_release(relu);
  keel_device_pop();
  keel_close(context);
  return 0;
}
