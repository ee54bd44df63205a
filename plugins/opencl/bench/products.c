/* products.c - MatMul of f32 through the whole stack beside CLBlast called directly, in turn in
 * one process on the first device: squares, the best of some rounds, each until the device is
 * done. CLBlast computes with the parameters that it brings for the device.
 *
 * usage: opencl_products [SIDE ...]     default: 256 512 1024 2048 */
#include <keel/keel.h>
#include <keel/native.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api.h"
/* behind api.h, which says which OpenCL */
#include <clblast_c.h>

enum { ROUNDS = 7, SAMPLES = 64 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void fail(const char *what) {
  fprintf(stderr, "opencl_products: %s\n", what);
  exit(1);
}

/* ---- CLBlast alone -------------------------------------------------------------- */

static struct {
  cl_context context;
  cl_command_queue queue;
  cl_mem memory[3];
} raw;

static void raw_open(void) {
  cl_platform_id platform = NULL;
  cl_device_id device = NULL;
  cl_int code = CL_SUCCESS;
  const char *why = cl_api_open();
  if (why) fail(why);
  if (cl.GetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
      cl.GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) !=
          CL_SUCCESS)
    fail("there is no OpenCL device");
  raw.context = cl.CreateContext(NULL, 1, &device, NULL, NULL, &code);
  raw.queue = cl.CreateCommandQueue(raw.context, device, 0, &code);
  if (code != CL_SUCCESS) fail("the device gives no queue");
}

static void raw_prepare(size_t side, float *const *host) {
  for (int i = 0; i < 3; i++) {
    cl_int code = CL_SUCCESS;
    raw.memory[i] = cl.CreateBuffer(
        raw.context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
        side * side * sizeof(float), host[i < 2 ? i : 0], &code);
    if (code != CL_SUCCESS) fail("no memory");
  }
}

static void raw_run(size_t side) {
  if (CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo,
                   CLBlastTransposeNo, side, side, side, 1, raw.memory[0], 0,
                   side, raw.memory[1], 0, side, 0, raw.memory[2], 0, side,
                   &raw.queue, NULL) != CLBlastSuccess)
    fail("CLBlast failed");
  cl.Finish(raw.queue);
}

/* ---- Keel ------------------------------------------------------------------------- */

static keel_context *context;
static keel_device *device;
static keel_op *matmul;
static keel_tensor *in[2], *out;

static void keel_need(keel_status status) {
  if (status != KD_OK) fail(keel_message());
}

static void keel_start(void) {
  keel_need(keel_open(NULL, &context));
  keel_need(keel_device_find(context, "opencl:0", &device));
  keel_need(keel_device_push(device));
  keel_need(keel_op_prepare(context, "MatMul", NULL, 0, NULL, &matmul));
}

static void keel_place(size_t side, float *const *host) {
  const int64_t dims[2] = {(int64_t)side, (int64_t)side};
  for (int i = 0; i < 2; i++) {
    keel_tensor *here = NULL;
    keel_need(keel_tensor_create(context, KD_F32, 2, dims, host[i], &here));
    keel_need(keel_tensor_to(here, device, &in[i]));
    keel_tensor_release(here);
  }
}

static void keel_run(void) {
  keel_tensor_release(out);
  out = NULL;
  keel_need(keel_op_call(matmul, in, 2, &out, 1));
  keel_need(keel_device_synchronize(device));
}

/* ---- both --------------------------------------------------------------------------- */

/* How far the two results are apart at most, in some places. */
static double apart(size_t side) {
  size_t size = side * side * sizeof(float);
  float *a = malloc(size), *b = malloc(size);
  double most = 0;
  if (!a || !b) fail("no memory");
  keel_need(keel_tensor_read(out, a, size));
  cl.EnqueueReadBuffer(raw.queue, raw.memory[2], CL_TRUE, 0, size, b, 0, NULL,
                       NULL);
  for (size_t i = 0; i < SAMPLES; i++) {
    size_t at = i * 7919 % (side * side);
    double d = (double)a[at] - (double)b[at];
    most = d > most ? d : -d > most ? -d : most;
  }
  free(a);
  free(b);
  return most;
}

static void compare(size_t side) {
  float *host[2];
  double best[2] = {1e30, 1e30};
  for (int i = 0; i < 2; i++) {
    host[i] = malloc(side * side * sizeof(float));
    if (!host[i]) fail("no memory");
    for (size_t e = 0; e < side * side; e++)
      host[i][e] = (float)(e * 2654435761u >> 20 & 255) / 128 - 1;
  }
  raw_prepare(side, host);
  keel_place(side, host);
  for (int round = 0; round <= ROUNDS; round++) /* the first warms up */
    for (int i = 0; i < 2; i++) {
      double from = now();
      if (i)
        keel_run();
      else
        raw_run(side);
      double time = now() - from;
      if (round && time < best[i]) best[i] = time;
    }
  printf(
      "MatMul %5zu: CLBlast %8.2f ms, Keel %8.2f ms, ratio %.2f, apart by "
      "%.1e\n",
      side, best[0], best[1], best[1] / best[0], apart(side));
  for (int i = 0; i < 3; i++)
    cl.ReleaseMemObject(raw.memory[i]);
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
  raw_open();
  keel_start();
  for (int i = 1; i < argc; i++)
    compare(strtoul(argv[i], NULL, 10));
  keel_op_release(matmul);
  keel_device_pop();
  keel_close(context);
  return 0;
}
