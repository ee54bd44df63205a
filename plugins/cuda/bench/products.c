/* products.c - MatMul through the whole stack beside cuBLASLt called directly, in turn in one
 * process: f32, f16 and bf16, square, on the device; the best of some rounds.
 *
 * usage: cuda_products [SIDE [DRIVER NVRTC CUBLASLT]]     default: 1024, 2048, 4096 and 8192,
 *        and the system's libraries */
#include "bench.h"
#include "library.h"

enum { ROUNDS = 8 };

static const struct kind {
  const char *name;
  kd_dtype dtype;
  int type;
} kinds[] = {{"f32", KD_F32, LT_F32},
             {"f16", KD_F16, LT_F16},
             {"bf16", KD_BF16, LT_BF16}};

static void need_lt(int status, const char *what) {
  if (status != 0) fail(what, lt.GetStatusName(status));
}

/* ---- cuBLASLt alone ------------------------------------------------------------------- */

static struct {
  cu_stream stream;
  lt_handle handle;
  cu_pointer workspace;
  size_t workspace_size;
} raw = {.workspace_size = (size_t)32 << 20};

static void raw_open(const char *driver, const char *blas) {
  raw.stream = open_driver(driver);
  const char *why = lt_api_open(blas);
  if (why) fail("cuda_products", why);
  need_lt(lt.Create(&raw.handle), "cublasLtCreate");
  need_cu(cu.MemAlloc(&raw.workspace, raw.workspace_size), "memory");
}

typedef struct product {
  lt_desc desc;
  lt_layout layout;
  lt_algo algo;
  cu_pointer memory[3];
} product;

static void raw_prepare(product *p, const struct kind *kind, int64_t side) {
  lt_preference wanted = NULL;
  lt_choice choice;
  int count = 0;
  need_lt(lt.MatmulDescCreate(&p->desc, LT_COMPUTE_F32, LT_F32), "a product");
  need_lt(lt.MatrixLayoutCreate(&p->layout, kind->type, (uint64_t)side,
                                (uint64_t)side, side),
          "a matrix");
  need_lt(lt.MatmulPreferenceCreate(&wanted), "a preference");
  need_lt(lt.MatmulPreferenceSetAttribute(wanted, LT_PREF_WORKSPACE,
                                          &raw.workspace_size,
                                          sizeof raw.workspace_size),
          "a preference");
  need_lt(lt.MatmulAlgoGetHeuristic(raw.handle, p->desc, p->layout, p->layout,
                                    p->layout, p->layout, wanted, 1, &choice,
                                    &count),
          "an algorithm");
  if (count < 1) fail(kind->name, "cuBLASLt has no algorithm");
  p->algo = choice.algo;
  lt.MatmulPreferenceDestroy(wanted);
  size_t bytes = (size_t)(side * side) * keel_dtype_size(kind->dtype);
  for (int i = 0; i < 3; i++) {
    need_cu(cu.MemAlloc(&p->memory[i], bytes), "memory");
    need_cu(cu.MemsetD8Async(p->memory[i], 0, bytes, raw.stream), "a fill");
  }
}

static void raw_run(product *p, int times) {
  const float one = 1, none = 0;
  for (int i = 0; i < times; i++)
    need_lt(lt.Matmul(raw.handle, p->desc, &one,
                      (const void *)(uintptr_t)p->memory[0], p->layout,
                      (const void *)(uintptr_t)p->memory[1], p->layout, &none,
                      (const void *)(uintptr_t)p->memory[2], p->layout,
                      (void *)(uintptr_t)p->memory[2], p->layout, &p->algo,
                      (void *)(uintptr_t)raw.workspace, raw.workspace_size,
                      raw.stream),
            "cublasLtMatmul");
  need_cu(cu.StreamSynchronize(raw.stream), "cuStreamSynchronize");
}

static void raw_free(product *p) {
  lt.MatrixLayoutDestroy(p->layout);
  lt.MatmulDescDestroy(p->desc);
  for (int i = 0; i < 3; i++)
    cu.MemFree(p->memory[i]);
}

/* ---- Keel ------------------------------------------------------------------------------- */

static keel_context *context;
static keel_device *device;
static keel_op *matmul, *relu;
static keel_tensor *one; /* an element on the device */

static void keel_run(keel_tensor **in, int times) {
  keel_tensor *y = NULL, *last = NULL;
  float seen = 0;
  for (int i = 0; i < times; i++) {
    keel_tensor_release(y);
    need(keel_op_call(matmul, in, 2, &y, 1));
  }
  /* reading what comes behind them waits for the device */
  need(keel_op_call(relu, &one, 1, &last, 1));
  need(keel_tensor_read(last, &seen, sizeof seen));
  keel_tensor_release(last);
  keel_tensor_release(y);
}

static void measure(const struct kind *kind, int64_t side) {
  double flops = 2.0 * (double)side * (double)side * (double)side;
  int times = flops > 1e11 ? 10 : flops > 1e7 ? 50 : 2;
  double best[2] = {1e30, 1e30};
  const int64_t dims[] = {side, side};
  keel_tensor *host = NULL, *in[2] = {NULL};
  product p;
  need(keel_tensor_create(context, kind->dtype, 2, dims, NULL, &host));
  need(keel_tensor_to(host, device, &in[0]));
  need(keel_tensor_to(host, device, &in[1]));
  raw_prepare(&p, kind, side);
  for (int round = 0; round < ROUNDS; round++) {
    double begin = now();
    raw_run(&p, times);
    double middle = now();
    keel_run(in, times);
    double end = now();
    if (!round) continue;
    if (middle - begin < best[0]) best[0] = middle - begin;
    if (end - middle < best[1]) best[1] = end - middle;
  }
  printf(
      "MatMul %-4s %5lld: cuBLASLt %8.2f TFLOP/s, Keel %8.2f TFLOP/s, ratio"
      " %.3f\n",
      kind->name, (long long)side, flops * times / best[0] * 1e-3,
      flops * times / best[1] * 1e-3, best[0] / best[1]);
  fflush(stdout);
  raw_free(&p);
  keel_tensor_release(host);
  keel_tensor_release(in[0]);
  keel_tensor_release(in[1]);
}

int main(int argc, char **argv) {
  static char options[3][4200];
  static const char *const list[] = {options[0], options[1], options[2]};
  static const int64_t sides[] = {1024, 2048, 4096, 8192};
  long given = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  bool named = argc == 5;
  if ((argc > 2 && !named) || (argc > 1 && (given < 1 || given > 65536))) {
    fprintf(stderr, "usage: cuda_products [SIDE [DRIVER NVRTC CUBLASLT]]\n");
    return 2;
  }
  for (int i = 0; named && i < 3; i++)
    snprintf(options[i], sizeof options[i], "cuda.%s=%s",
             i == 0   ? "driver"
             : i == 1 ? "nvrtc"
                      : "cublaslt",
             argv[i + 2]);
  const keel_context_params params = {.struct_size = sizeof params,
                                      .options = list,
                                      .option_count = named ? 3 : 0};
  raw_open(named ? argv[2] : NULL, named ? argv[4] : NULL);
  need(keel_open(&params, &context));
  need(keel_device_find(context, "cuda:0", &device));
  need(keel_device_push(device));
  need(keel_op_prepare(context, "MatMul", NULL, 0, NULL, &matmul));
  need(keel_op_prepare(context, "Relu", NULL, 0, NULL, &relu));
  keel_tensor *host = NULL;
  need(keel_tensor_create(context, KD_F32, 0, NULL, NULL, &host));
  need(keel_tensor_to(host, device, &one));
  keel_tensor_release(host);
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (size_t i = 0; i < (given ? 1 : sizeof sides / sizeof *sides); i++)
      measure(&kinds[k], given ? given : sides[i]);
  keel_tensor_release(one);
  keel_op_release(relu);
  keel_op_release(matmul);
  keel_device_pop();
  keel_close(context);
  return 0;
}
