/* matmul.c - MatMul f32 through the whole of Keel: a prepared op on tensors.
 *
 *   matmul N      prints milliseconds, the least of many calls; KEEL_THREADS
 *                 sets the threads */
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

int main(int argc, char **argv) {
  int64_t n = argc == 2 ? (int)strtol(argv[1], NULL, 10) : 0, dims[] = {n, n};
  keel_context *context = NULL;
  keel_tensor *in[2] = {NULL, NULL}, *out = NULL;
  keel_op *op = NULL;
  double best = 1e30;
  if (n < 1 || n > 16384) {
    fprintf(stderr, "usage: matmul N\n");
    return 2;
  }
  float *data = malloc((size_t)(n * n) * sizeof *data);
  keel_status status = data ? keel_open(NULL, &context) : KD_OUT_OF_MEMORY;
  for (int64_t i = 0; data && i < n * n; i++)
    data[i] = (float)(i * 7 % 13) / 13 - 0.5f;
  for (int i = 0; i < 2 && status == KD_OK; i++)
    status = keel_tensor_create(context, KD_F32, 2, dims, data, &in[i]);
  if (status == KD_OK)
    status = keel_op_prepare(context, "MatMul", NULL, 0, NULL, &op);
  for (double end = now() + 600, begin;
       status == KD_OK && (begin = now()) < end;) {
    status = keel_op_call(op, in, 2, &out, 1);
    double time = now() - begin;
    best = time < best ? time : best;
    keel_tensor_release(out);
  }
  if (status == KD_OK)
    printf("%.4f\n", best);
  else
    fprintf(stderr, "matmul: %s\n", keel_message());
  keel_op_release(op);
  keel_tensor_release(in[0]);
  keel_tensor_release(in[1]);
  keel_close(context);
  free(data);
  return status != KD_OK;
}
