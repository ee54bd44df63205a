/* raw.c - what Keel costs beside OpenCL itself, in turn in one process: launches of Relu
 * on 4 floats (1000, then a wait), copies of 32 MiB, MatMul of 512.
 *
 * usage: opencl_raw [--source]     --source: only shows the kernels that are launched raw */
#include "families/bench/beside.h"
#include "plain.h"

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
  cl_kernel kernel, matmul;
  cl_mem x, y, a, b, c, large;
} raw;

static void raw_open(void) {
  cl_int code = CL_SUCCESS;
  plain_open();
  cl_program program =
      cl.CreateProgramWithSource(plain.context, 1, &source, NULL, &code);
  if (cl.BuildProgram(program, 1, &plain.device, "", NULL, NULL) != CL_SUCCESS)
    fail("the kernel does not compile");
  raw.kernel = cl.CreateKernel(program, "relu", &code);
  raw.matmul = cl.CreateKernel(program, "matmul", &code);
  need_cl(code, "clCreateKernel");
  raw.x = plain_buffer(64);
  raw.y = plain_buffer(64);
  cl_mem *const squares[] = {&raw.a, &raw.b, &raw.c};
  for (int i = 0; i < 3; i++)
    *squares[i] = plain_buffer(SIDE * SIDE * 4);
  raw.large = plain_buffer(COPY);
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
    if (cl.EnqueueNDRangeKernel(plain.queue, raw.kernel, 1, NULL, &items,
                                &group, 0, NULL, NULL) != CL_SUCCESS)
      fail("a launch failed");
  }
  enqueued = now();
  float out[4];
  cl.EnqueueReadBuffer(plain.queue, raw.y, CL_TRUE, 0, sizeof out, out, 0, NULL,
                       NULL);
}

static void raw_copy(void) {
  if (cl.EnqueueWriteBuffer(plain.queue, raw.large, CL_TRUE, 0, COPY,
                            host_bytes, 0, NULL, NULL) != CL_SUCCESS)
    fail("a copy failed");
}

static void raw_matmul(void) {
  size_t items = (size_t)SIDE * SIDE / 8, group = 64;
  cl_mem *const squares[] = {&raw.a, &raw.b, &raw.c};
  cl_int side = SIDE;
  for (cl_uint i = 0; i < 6; i++)
    cl.SetKernelArg(raw.matmul, i, i < 3 ? sizeof(cl_mem) : sizeof side,
                    i < 3 ? (const void *)squares[i] : &side);
  if (cl.EnqueueNDRangeKernel(plain.queue, raw.matmul, 1, NULL, &items, &group,
                              0, NULL, NULL) != CL_SUCCESS)
    fail("a launch failed");
  cl.EnqueueReadBuffer(plain.queue, raw.c, CL_TRUE, 0, SIDE * SIDE * 4,
                       host_bytes, 0, NULL, NULL);
}

int main(int argc, char **argv) {
  if (argc == 2 && !strcmp(argv[1], "--source")) {
    fputs(source, stdout);
    return 0;
  }
  raw_open();
  bench_open("opencl:0", NULL, 0);
  compare("OpenCL", raw_launches, raw_copy, raw_matmul);
  bench_close();
  return 0;
}
