/* raw.c - what Keel costs beside OpenCL itself, in turn in one process: launches of Relu
 * on 4 floats (1000, then a wait), copies of 32 MiB, MatMul of 512.
 *
 * usage: opencl_raw [--source]     --source: only shows the kernels that are launched raw */
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api.h"

#define LAUNCHES 1000
#define COPY     (UINT64_C(32) << 20)
#define SIDE     512

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void fail(const char *what) {
  fprintf(stderr, "opencl_raw: %s\n", what);
  exit(1);
}

/* ---- OpenCL alone --------------------------------------------------------------- */

/* With as many arguments as Keel's kernel has. */
static const char *source =
    "typedef struct { int v[32]; } params;\n"
    "__attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "__kernel void relu(__global const uchar *xb, ulong xo, __global uchar *yb,"
    " ulong yo, params p) {\n"
    "  __global const float *x = (__global const float *)(xb + xo);\n"
    "  __global float *y = (__global float *)(yb + yo);\n"
    "  int i = (int)get_global_id(0);\n"
    "  if (i < p.v[0]) y[i] = x[i] > 0 ? x[i] : 0;\n"
    "}\n"
    /* 8 rows of a column an item */
    "__attribute__((reqd_work_group_size(64, 1, 1)))\n"
    "__kernel void matmul(__global const float *a, __global const float *b,"
    " __global float *c, int m, int n, int k) {\n"
    "  int column = (int)get_global_id(0) % n;\n"
    "  int row = (int)get_global_id(0) / n * 8;\n"
    "  float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};\n"
    "  for (int i = 0; i < k; i++) {\n"
    "    float x = b[i * n + column];\n"
    "    for (int r = 0; r < 8; r++)\n"
    "      sums[r] += a[(row + r) * k + i] * x;\n"
    "  }\n"
    "  for (int r = 0; r < 8; r++)\n"
    "    c[(row + r) * n + column] = sums[r];\n"
    "}\n";

static struct {
  cl_command_queue queue;
  cl_kernel kernel, matmul;
  cl_mem x, y, a, b, c, large;
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
  cl_context context = cl.CreateContext(NULL, 1, &device, NULL, NULL, &code);
  raw.queue = cl.CreateCommandQueue(context, device, 0, &code);
  cl_program program =
      cl.CreateProgramWithSource(context, 1, &source, NULL, &code);
  if (cl.BuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS)
    fail("the kernel does not compile");
  raw.kernel = cl.CreateKernel(program, "relu", &code);
  raw.x = cl.CreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &code);
  raw.y = cl.CreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &code);
  raw.matmul = cl.CreateKernel(program, "matmul", &code);
  cl_mem *const squares[] = {&raw.a, &raw.b, &raw.c};
  for (int i = 0; i < 3; i++)
    *squares[i] = cl.CreateBuffer(context, CL_MEM_READ_WRITE, SIDE * SIDE * 4,
                                  NULL, &code);
  raw.large = cl.CreateBuffer(context, CL_MEM_READ_WRITE, COPY, NULL, &code);
  if (code != CL_SUCCESS) fail("no memory");
}

static void raw_launches(void) {
  struct {
    int v[32];
  } params = {{4}};
  size_t items = 64, group = 64;
  cl_ulong zero = 0;
  for (int i = 0; i < LAUNCHES; i++) {
    cl.SetKernelArg(raw.kernel, 0, sizeof raw.x, &raw.x);
    cl.SetKernelArg(raw.kernel, 1, sizeof zero, &zero);
    cl.SetKernelArg(raw.kernel, 2, sizeof raw.y, &raw.y);
    cl.SetKernelArg(raw.kernel, 3, sizeof zero, &zero);
    cl.SetKernelArg(raw.kernel, 4, sizeof params, &params);
    if (cl.EnqueueNDRangeKernel(raw.queue, raw.kernel, 1, NULL, &items, &group,
                                0, NULL, NULL) != CL_SUCCESS)
      fail("a launch failed");
  }
  float out[4];
  cl.EnqueueReadBuffer(raw.queue, raw.y, CL_TRUE, 0, sizeof out, out, 0, NULL,
                       NULL);
}

static char host_bytes[COPY];

static void raw_copy(void) {
  if (cl.EnqueueWriteBuffer(raw.queue, raw.large, CL_TRUE, 0, COPY, host_bytes,
                            0, NULL, NULL) != CL_SUCCESS)
    fail("a copy failed");
}

static void raw_matmul(void) {
  size_t items = (size_t)SIDE * SIDE / 8, group = 64;
  cl_mem *const squares[] = {&raw.a, &raw.b, &raw.c};
  cl_int side = SIDE;
  for (cl_uint i = 0; i < 6; i++)
    cl.SetKernelArg(raw.matmul, i, i < 3 ? sizeof(cl_mem) : sizeof side,
                    i < 3 ? (const void *)squares[i] : &side);
  if (cl.EnqueueNDRangeKernel(raw.queue, raw.matmul, 1, NULL, &items, &group, 0,
                              NULL, NULL) != CL_SUCCESS)
    fail("a launch failed");
  cl.EnqueueReadBuffer(raw.queue, raw.c, CL_TRUE, 0, SIDE * SIDE * 4,
                       host_bytes, 0, NULL, NULL);
}

/* ---- through Keel ----------------------------------------------------------------- */

static keel_context *context;
static keel_device *device;
static keel_op *relu, *matmul;
static keel_tensor *x, *square[2], *large;

/* On the device, by an op that changes nothing. */
static keel_tensor *placed(uint32_t rank, const int64_t *dims) {
  keel_tensor *host = NULL, *there = NULL;
  if (keel_tensor_create(context, KD_F32, rank, dims, NULL, &host) != KD_OK ||
      keel_op_call(relu, &host, 1, &there, 1) != KD_OK)
    fail(keel_message());
  keel_tensor_release(host);
  return there;
}

static void keel_start(void) {
  const int64_t four = 4, sides[2] = {SIDE, SIDE};
  const int64_t floats = (int64_t)(COPY / 4);
  if (keel_open(NULL, &context) != KD_OK ||
      keel_device_find(context, "opencl:0", &device) != KD_OK ||
      keel_device_push(device) != KD_OK ||
      keel_op_prepare(context, "Relu", NULL, 0, NULL, &relu) != KD_OK ||
      keel_op_prepare(context, "MatMul", NULL, 0, NULL, &matmul) != KD_OK)
    fail(keel_message());
  x = placed(1, &four);
  square[0] = placed(2, sides);
  square[1] = placed(2, sides);
  if (keel_tensor_create(context, KD_F32, 1, &floats, NULL, &large) != KD_OK)
    fail(keel_message());
}

static void keel_launches(void) {
  keel_tensor *y = NULL;
  for (int i = 0; i < LAUNCHES; i++) {
    keel_tensor_release(y);
    if (keel_op_call(relu, &x, 1, &y, 1) != KD_OK) fail(keel_message());
  }
  float out[4]; /* reading it waits for the device */
  if (keel_tensor_read(y, out, sizeof out) != KD_OK) fail(keel_message());
  keel_tensor_release(y);
}

static void keel_copy(void) {
  keel_tensor *there = NULL;
  if (keel_tensor_to(large, device, &there) != KD_OK) fail(keel_message());
  keel_tensor_release(there);
}

static void keel_matmul(void) {
  keel_tensor *y = NULL;
  if (keel_op_call(matmul, square, 2, &y, 1) != KD_OK ||
      keel_tensor_read(y, host_bytes, SIDE * SIDE * 4) != KD_OK)
    fail(keel_message());
  keel_tensor_release(y);
}

int main(int argc, char **argv) {
  static const struct {
    const char *what;
    void (*raw)(void), (*keel)(void);
    double parts;
    const char *unit;
    int rounds;
  } rows[] = {
      {"launch, and a wait for all", raw_launches, keel_launches, LAUNCHES,
       "ns", 50},
      {"copy of 32 MiB to the device", raw_copy, keel_copy, 1e6, "ms", 7},
      {"MatMul of 512", raw_matmul, keel_matmul, 1e6, "ms", 5},
  };
  if (argc == 2 && !strcmp(argv[1], "--source")) {
    fputs(source, stdout);
    return 0;
  }
  raw_open();
  keel_start();
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    double best[2] = {1e30, 1e30};
    for (int round = 0; round < rows[r].rounds; round++)
      for (int i = 0; i < 2; i++) {
        double from = now();
        (i ? rows[r].keel : rows[r].raw)();
        double each = (now() - from) / rows[r].parts;
        if (each < best[i]) best[i] = each;
      }
    printf("%-30s OpenCL %7.1f %s, Keel %7.1f %s, ratio %.2f\n", rows[r].what,
           best[0], rows[r].unit, best[1], rows[r].unit, best[1] / best[0]);
  }
  keel_tensor_release(x);
  keel_tensor_release(square[0]);
  keel_tensor_release(square[1]);
  keel_tensor_release(large);
  keel_op_release(relu);
  keel_op_release(matmul);
  keel_device_pop();
  keel_close(context);
  return 0;
}
