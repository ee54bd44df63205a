/* bandwidth.c - what elementwise kernels read and write in a second, beside the driver's copy
 * on the device, in turn in one process; the best of some rounds.
 *
 * usage: cuda_bandwidth [MIB [DRIVER NVRTC]]     of each tensor; default: 256, and the
 *        system's libraries */
#include "bench.h"

enum { ROUNDS = 7, TIMES = 10 };

static const struct row {
  const char *op;
  kd_dtype dtype;
  uint32_t inputs;
} rows[] = {{"Relu", KD_F32, 1}, {"Add", KD_F32, 2},  {"Relu", KD_F16, 1},
            {"Add", KD_F16, 2},  {"Add", KD_BF16, 2}, {"Add", KD_U8, 2}};

/* What is measured now. */
static const struct row *row;
static size_t bytes; /* of a tensor */
static keel_op *op;
static keel_tensor *in[2];
static cu_stream stream;
static cu_pointer memory[2];

static void copies(void) {
  for (int i = 0; i < TIMES; i++)
    need_cu(cu.MemcpyAsync(memory[1], memory[0], bytes, stream), "a copy");
  need_cu(cu.StreamSynchronize(stream), "cuStreamSynchronize");
}

static void calls(void) {
  call_and_wait(op, in, row->inputs, TIMES);
}

static void measure(void) {
  double best[2];
  int64_t count = (int64_t)(bytes / keel_dtype_size(row->dtype));
  op = bench_op(row->op);
  in[0] = bench_placed(row->dtype, 1, &count, NULL);
  in[1] = bench_placed(row->dtype, 1, &count, NULL);
  bench_in_turn(ROUNDS, (void (*const[2])(void)){copies, calls}, best);
  double moved = (double)bytes * TIMES;
  double copied = 2 * moved / best[0],
         made = (row->inputs + 1) * moved / best[1];
  printf(
      "%-4s %-4s: copy on the device %8.1f GB/s, Keel %8.1f GB/s, ratio"
      " %.2f\n",
      row->op, keel_dtype_name(row->dtype), copied, made, made / copied);
  fflush(stdout);
  keel_tensor_release(in[0]);
  keel_tensor_release(in[1]);
  keel_op_release(op);
}

int main(int argc, char **argv) {
  long mib = argc > 1 ? strtol(argv[1], NULL, 10) : 256;
  bool named = argc == 4;
  if ((argc > 2 && !named) || mib < 1 || mib > 2047) {
    fprintf(stderr,
            "usage: cuda_bandwidth [MIB [DRIVER NVRTC]]     MIB: 1 to 2047\n");
    return 2;
  }
  bytes = (size_t)mib << 20;
  stream = open_driver(named ? argv[2] : NULL);
  memory[0] = device_memory(bytes);
  memory[1] = device_memory(bytes);
  open_keel(argv + 2, named ? 2 : 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    row = &rows[i];
    measure();
  }
  close_keel();
  return 0;
}
