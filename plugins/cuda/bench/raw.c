/* raw.c - what Keel costs beside the driver API itself, in turn in one process: launches of
 * Relu on 4 floats (1000, then a wait), copies of 32 MiB, MatMul of 512.
 *
 * usage: cuda_raw [DRIVER NVRTC]     paths of both libraries; default: the system's */
#include "bench.h"
#include "families/bench/beside.h"

/* ---- the driver alone ------------------------------------------------------------- */

/* With as many arguments as Keel's kernel has. */
static const char source[] =
    "struct params { int v[32]; };\n"
    "extern \"C\" __global__ void __launch_bounds__(64) family(\n"
    "    const float *x, float *y, const params p) {\n"
    "  int i = (int)(blockIdx.x * 64 + threadIdx.x);\n"
    "  if (i < p.v[0]) y[i] = x[i] > 0 ? x[i] : 0;\n"
    "}\n";
/* 8 rows of a column an item */
static const char product[] =
    "extern \"C\" __global__ void __launch_bounds__(64) family(\n"
    "    const float *a, const float *b, float *c, const int side) {\n"
    "  int item = (int)(blockIdx.x * 64 + threadIdx.x);\n"
    "  int column = item % side, row = item / side * 8;\n"
    "  float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};\n"
    "  for (int i = 0; i < side; i++) {\n"
    "    float x = b[i * side + column];\n"
    "    for (int r = 0; r < 8; r++)\n"
    "      sums[r] += a[(row + r) * side + i] * x;\n"
    "  }\n"
    "  for (int r = 0; r < 8; r++)\n"
    "    c[(row + r) * side + column] = sums[r];\n"
    "}\n";

static struct {
  cu_stream stream;
  cu_function relu, matmul;
  cu_pointer x, y, a, b, c, large;
} raw;

static cu_function compile(const char *text, int architecture) {
  char target[48];
  const char *const options[] = {target};
  rtc_program program = NULL;
  cu_module module = NULL;
  cu_function function = NULL;
  size_t size = 0;
  snprintf(target, sizeof target, "--gpu-architecture=sm_%d", architecture);
  if (rtc.CreateProgram(&program, text, "raw.cu", 0, NULL, NULL) != 0 ||
      rtc.CompileProgram(program, 1, options) != 0 ||
      rtc.GetCUBINSize(program, &size) != 0)
    fail("the kernel does not compile");
  char *code = malloc(size);
  if (!code || rtc.GetCUBIN(program, code) != 0) fail("no memory");
  need_cu(cu.ModuleLoadData(&module, code), "cuModuleLoadData");
  need_cu(cu.ModuleGetFunction(&function, module, "family"),
          "cuModuleGetFunction");
  free(code);
  rtc.DestroyProgram(&program);
  return function;
}

static void raw_open(const char *driver, const char *nvrtc) {
  cu_device device = 0;
  int major = 0, minor = 0;
  raw.stream = open_driver(driver);
  const char *why = rtc_api_open(nvrtc);
  if (why) fail(why);
  need_cu(cu.DeviceGet(&device, 0), "cuDeviceGet");
  need_cu(cu.DeviceGetAttribute(&major, CU_COMPUTE_MAJOR, device), "attribute");
  need_cu(cu.DeviceGetAttribute(&minor, CU_COMPUTE_MINOR, device), "attribute");
  raw.relu = compile(source, 10 * major + minor);
  raw.matmul = compile(product, 10 * major + minor);
  cu_pointer *const squares[] = {&raw.a, &raw.b, &raw.c};
  raw.x = device_memory(64);
  raw.y = device_memory(64);
  for (int i = 0; i < 3; i++)
    *squares[i] = device_memory(SIDE * SIDE * 4);
  raw.large = device_memory(COPY);
}

static void raw_launches(void) {
  struct {
    int v[32];
  } params = {{4}};
  void *arguments[] = {&raw.x, &raw.y, &params};
  for (int i = 0; i < LAUNCHES; i++)
    need_cu(cu.LaunchKernel(raw.relu, 1, 1, 1, 64, 1, 1, 0, raw.stream,
                            arguments, NULL),
            "cuLaunchKernel");
  enqueued = now();
  float out[4];
  need_cu(cu.MemcpyDtoHAsync(out, raw.y, sizeof out, raw.stream), "a copy");
  need_cu(cu.StreamSynchronize(raw.stream), "cuStreamSynchronize");
}

static void raw_copy(void) {
  need_cu(cu.MemcpyHtoDAsync(raw.large, host_bytes, COPY, raw.stream),
          "a copy");
  need_cu(cu.StreamSynchronize(raw.stream), "cuStreamSynchronize");
}

static void raw_matmul(void) {
  int side = SIDE;
  void *arguments[] = {&raw.a, &raw.b, &raw.c, &side};
  need_cu(cu.LaunchKernel(raw.matmul, SIDE * SIDE / 8 / 64, 1, 1, 64, 1, 1, 0,
                          raw.stream, arguments, NULL),
          "cuLaunchKernel");
  need_cu(cu.MemcpyDtoHAsync(host_bytes, raw.c, SIDE * SIDE * 4, raw.stream),
          "a copy");
  need_cu(cu.StreamSynchronize(raw.stream), "cuStreamSynchronize");
}

int main(int argc, char **argv) {
  if (argc != 1 && argc != 3) {
    fprintf(stderr, "usage: cuda_raw [DRIVER NVRTC]\n");
    return 2;
  }
  raw_open(argc == 3 ? argv[1] : NULL, argc == 3 ? argv[2] : NULL);
  open_keel(argv + 1, argc - 1);
  compare("CUDA", raw_launches, raw_copy, raw_matmul);
  close_keel();
  return 0;
}
