/* products.c - MatMul through the whole stack beside cuBLASLt called directly, in turn in one
 * process: f32, f16 and bf16, square, of random numbers, on the device; the best of some
 * rounds.
 *
 * usage: cuda_products [SIDE [DRIVER NVRTC CUBLASLT]]     default: 1024, 2048, 4096 and 8192,
 *        and the system's libraries */
#include "bench.h"
#include "library.h"

enum { ROUNDS = 7 };

static const struct kind {
  const char *name;
  kd_dtype dtype;
  int type;
} kinds[] = {{"f32", KD_F32, LT_F32},
             {"f16", KD_F16, LT_F16},
             {"bf16", KD_BF16, LT_BF16}};

static void need_lt(int status, const char *what) {
  if (status == 0) return;
  fprintf(stderr, "%s: %s\n", what, lt.GetStatusName(status));
  exit(1);
}

/* ---- cuBLASLt alone ------------------------------------------------------------------- */

static struct {
  cu_stream stream;
  lt_handle handle;
  cu_pointer workspace;
  size_t workspace_size;
} raw = {.workspace_size = (size_t)32 << 20};

/* What is measured now, and how often in a row. */
static int times;
static struct {
  lt_desc desc;
  lt_layout layout;
  lt_algo algo;
  cu_pointer memory[3];
} product;
static keel_op *matmul;
static keel_tensor *in[2];

static void raw_open(const char *driver, const char *blas) {
  raw.stream = open_driver(driver);
  const char *why = lt_api_open(blas);
  if (why) fail(why);
  need_lt(lt.Create(&raw.handle), "cublasLtCreate");
  raw.workspace = device_memory(raw.workspace_size);
}

/* Numbers of either sign from 1 to 2: zeros would take less power, and so be faster. */
static void *random_numbers(const struct kind *kind, size_t count) {
  static const uint32_t ones[] = {
      [KD_F32] = 0x3f800000, [KD_F16] = 0x3c00, [KD_BF16] = 0x3f80};
  const size_t size = keel_dtype_size(kind->dtype);
  const uint32_t fraction = kind->dtype == KD_F32   ? 0x7fffff
                            : kind->dtype == KD_F16 ? 0x3ff
                                                    : 0x7f;
  char *data = malloc(count * size);
  uint32_t state = 1;
  if (!data) fail("no memory");
  for (size_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    uint32_t bits = ones[kind->dtype] | (state >> 8 & fraction) |
                    (state >> 31) << (8 * size - 1);
    memcpy(data + i * size, &bits, size);
  }
  return data;
}

static void raw_prepare(const struct kind *kind, int64_t side,
                        const void *numbers) {
  lt_preference wanted = NULL;
  lt_choice choice;
  int count = 0;
  need_lt(lt.MatmulDescCreate(&product.desc, LT_COMPUTE_F32, LT_F32),
          "a product");
  need_lt(lt.MatrixLayoutCreate(&product.layout, kind->type, (uint64_t)side,
                                (uint64_t)side, side),
          "a matrix");
  need_lt(lt.MatmulPreferenceCreate(&wanted), "a preference");
  need_lt(lt.MatmulPreferenceSetAttribute(wanted, LT_PREF_WORKSPACE,
                                          &raw.workspace_size,
                                          sizeof raw.workspace_size),
          "a preference");
  need_lt(lt.MatmulAlgoGetHeuristic(raw.handle, product.desc, product.layout,
                                    product.layout, product.layout,
                                    product.layout, wanted, 1, &choice, &count),
          "an algorithm");
  if (count < 1) fail("cuBLASLt has no algorithm");
  product.algo = choice.algo;
  lt.MatmulPreferenceDestroy(wanted);
  size_t bytes = (size_t)(side * side) * keel_dtype_size(kind->dtype);
  for (int i = 0; i < 3; i++) {
    product.memory[i] = device_memory(bytes);
    need_cu(cu.MemcpyHtoDAsync(product.memory[i], numbers, bytes, raw.stream),
            "a copy");
    need_cu(cu.StreamSynchronize(raw.stream), "cuStreamSynchronize");
  }
}

static void raw_run(void) {
  const float one = 1, none = 0;
  for (int i = 0; i < times; i++)
    need_lt(
        lt.Matmul(
            raw.handle, product.desc, &one,
            (const void *)(uintptr_t)product.memory[0], product.layout,
            (const void *)(uintptr_t)product.memory[1], product.layout, &none,
            (const void *)(uintptr_t)product.memory[2], product.layout,
            (void *)(uintptr_t)product.memory[2], product.layout, &product.algo,
            (void *)(uintptr_t)raw.workspace, raw.workspace_size, raw.stream),
        "cublasLtMatmul");
  need_cu(cu.StreamSynchronize(raw.stream), "cuStreamSynchronize");
}

static void raw_free(void) {
  lt.MatrixLayoutDestroy(product.layout);
  lt.MatmulDescDestroy(product.desc);
  for (int i = 0; i < 3; i++)
    cu.MemFree(product.memory[i]);
}

/* ---- both ------------------------------------------------------------------------------- */

static void keel_run(void) {
  call_and_wait(matmul, in, 2, times);
}

static void measure(const struct kind *kind, int64_t side) {
  double flops = 2.0 * (double)side * (double)side * (double)side;
  const int64_t dims[] = {side, side};
  double best[2];
  times = flops > 1e11 ? 10 : flops > 1e7 ? 50 : 2;
  void *numbers = random_numbers(kind, (size_t)(side * side));
  in[0] = bench_placed(kind->dtype, 2, dims, numbers);
  in[1] = bench_placed(kind->dtype, 2, dims, numbers);
  raw_prepare(kind, side, numbers);
  free(numbers);
  bench_in_turn(ROUNDS, (void (*const[2])(void)){raw_run, keel_run}, best);
  printf(
      "MatMul %-4s %5lld: cuBLASLt %8.2f TFLOP/s, Keel %8.2f TFLOP/s, ratio"
      " %.3f\n",
      kind->name, (long long)side, flops * times / best[0] * 1e-3,
      flops * times / best[1] * 1e-3, best[0] / best[1]);
  fflush(stdout);
  raw_free();
  keel_tensor_release(in[0]);
  keel_tensor_release(in[1]);
}

int main(int argc, char **argv) {
  static const int64_t sides[] = {1024, 2048, 4096, 8192};
  long given = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
  bool named = argc == 5;
  if ((argc > 2 && !named) || (argc > 1 && (given < 1 || given > 65536))) {
    fprintf(stderr, "usage: cuda_products [SIDE [DRIVER NVRTC CUBLASLT]]\n");
    return 2;
  }
  raw_open(named ? argv[2] : NULL, named ? argv[4] : NULL);
  open_keel(argv + 2, named ? 3 : 0);
  matmul = bench_op("MatMul");
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
    for (size_t i = 0; i < (given ? 1 : sizeof sides / sizeof *sides); i++)
      measure(&kinds[k], given ? given : sides[i]);
  keel_op_release(matmul);
  close_keel();
  return 0;
}
