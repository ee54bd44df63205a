/* matmul.c - MatMul f32 through the whole of Keel: a prepared op on tensors.
 *
 *   matmul N      prints milliseconds, the least of many calls; KEEL_THREADS
 *                 sets the threads */
#include "families/bench/bench.h"

int main(int argc, char **argv) {
  int64_t n = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0, dims[] = {n, n};
  keel_tensor *in[2], *out = NULL;
  double best = 1e30;
  if (n < 1 || n > 16384) {
    fprintf(stderr, "usage: matmul N\n");
    return 2;
  }
  float *data = malloc((size_t)(n * n) * sizeof *data);
  if (!data) fail("no memory");
  for (int64_t i = 0; i < n * n; i++)
    data[i] = (float)(i * 7 % 13) / 13 - 0.5f;
  bench_open("cpu:0", NULL, 0);
  keel_op *op = bench_op("MatMul");
  for (int i = 0; i < 2; i++)
    in[i] = bench_tensor(KD_F32, 2, dims, data);
  for (double end = now() + 600e6, begin; (begin = now()) < end;) {
    need(keel_op_call(op, in, 2, &out, 1));
    double time = now() - begin;
    best = time < best ? time : best;
    keel_tensor_release(out);
  }
  printf("%.4f\n", best * 1e-6);
  keel_op_release(op);
  keel_tensor_release(in[0]);
  keel_tensor_release(in[1]);
  bench_close();
  free(data);
  return 0;
}
