/* products.c - MatMul of f32 through the whole stack beside CLBlast called directly, in turn in
 * one process on the first device: squares, the best of some rounds, each until the device is
 * done. CLBlast computes with the parameters that it brings for the device.
 *
 * usage: opencl_products [SIDE ...]     default: 256 512 1024 2048 */
#include "families/bench/bench.h"
#include "plain.h"
/* behind plain.h, which says which OpenCL */
#include <clblast_c.h>

enum { ROUNDS = 7, SAMPLES = 64 };

static size_t side;

/* ---- CLBlast alone -------------------------------------------------------------- */

static cl_mem raw[3];

static void raw_prepare(float *const *host) {
  for (int i = 0; i < 3; i++) {
    cl_int code = CL_SUCCESS;
    raw[i] = cl.CreateBuffer(
        plain.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
        side * side * sizeof(float), host[i < 2 ? i : 0], &code);
    need_cl(code, "clCreateBuffer");
  }
}

static void raw_run(void) {
  if (CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo,
                   CLBlastTransposeNo, side, side, side, 1, raw[0], 0, side,
                   raw[1], 0, side, 0, raw[2], 0, side, &plain.queue,
                   NULL) != CLBlastSuccess)
    fail("CLBlast failed");
  cl.Finish(plain.queue);
}

/* ---- Keel ------------------------------------------------------------------------- */

static keel_op *matmul;
static keel_tensor *in[2], *out;

static void keel_run(void) {
  keel_tensor_release(out);
  out = NULL;
  need(keel_op_call(matmul, in, 2, &out, 1));
  need(keel_device_synchronize(the_device));
}

/* ---- both --------------------------------------------------------------------------- */

/* How far the two results are apart at most, in some places. */
static double apart(void) {
  size_t size = side * side * sizeof(float);
  float *a = malloc(size), *b = malloc(size);
  double most = 0;
  if (!a || !b) fail("no memory");
  need(keel_tensor_read(out, a, size));
  cl.EnqueueReadBuffer(plain.queue, raw[2], CL_TRUE, 0, size, b, 0, NULL, NULL);
  for (size_t i = 0; i < SAMPLES; i++) {
    size_t at = i * 7919 % (side * side);
    double d = (double)a[at] - (double)b[at];
    most = d > most ? d : -d > most ? -d : most;
  }
  free(a);
  free(b);
  return most;
}

static void compare(void) {
  const int64_t dims[2] = {(int64_t)side, (int64_t)side};
  float *host[2];
  double best[2];
  for (int i = 0; i < 2; i++) {
    host[i] = malloc(side * side * sizeof(float));
    if (!host[i]) fail("no memory");
    for (size_t e = 0; e < side * side; e++)
      host[i][e] = (float)(e * 2654435761u >> 20 & 255) / 128 - 1;
    in[i] = bench_placed(KD_F32, 2, dims, host[i]);
  }
  raw_prepare(host);
  bench_in_turn(ROUNDS, (void (*const[2])(void)){raw_run, keel_run}, best);
  printf(
      "MatMul %5zu: CLBlast %8.2f ms, Keel %8.2f ms, ratio %.2f, apart by "
      "%.1e\n",
      side, best[0] * 1e-6, best[1] * 1e-6, best[1] / best[0], apart());
  for (int i = 0; i < 3; i++)
    cl.ReleaseMemObject(raw[i]);
  for (int i = 0; i < 2; i++) {
    keel_tensor_release(in[i]);
    free(host[i]);
  }
  keel_tensor_release(out);
  out = NULL;
}

int main(int argc, char **argv) {
  static char *usual[] = {NULL, "256", "512", "1024", "2048"};
  if (argc < 2) {
    argv = usual;
    argc = sizeof usual / sizeof *usual;
  }
  for (int i = 1; i < argc; i++)
    if (strtoul(argv[i], NULL, 10) < 1 || strtoul(argv[i], NULL, 10) > 16384)
      fail("usage: opencl_products [SIDE ...]");
  plain_open();
  bench_open("opencl:0", NULL, 0);
  matmul = bench_op("MatMul");
  for (int i = 1; i < argc; i++) {
    side = strtoul(argv[i], NULL, 10);
    compare();
  }
  keel_op_release(matmul);
  bench_close();
  return 0;
}
