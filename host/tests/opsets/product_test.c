/* product_test.c - equal rows and equal columns of a matrix product, and equal filters of a
 * convolution, have equal results to the last bit, wherever they stand: a softmax of
 * large logits makes 0 and 1 of two that are one bit apart. And results are right, at each
 * number of rows. */
#include <math.h>

#include "cpu_sets.h"

static int open_cpu(const char *set, int32_t workers) {
  context = open_cpu_set(set, workers);
  return 0;
}

SETUP(open_one) {
  return open_cpu(NULL, 0);
}

SETUP(open_three) {
  return open_cpu(NULL, 3);
}

SETUP(open_avx2) {
  return open_cpu("cpu.isa=avx2", 3);
}

SETUP(open_base) {
  return open_cpu("cpu.isa=base", 3);
}

static uint64_t seed = 1;

static double next_number(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)(seed >> 11) * 0x1p-52 - 1;
}

/* A tensor of random numbers, all lines along `same` equal (-1: none). */
static keel_tensor *numbers(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                            int same) {
  int64_t count = 1, inner = 1;
  for (uint32_t i = 0; i < rank; i++) {
    count *= dims[i];
    if ((int)i > same) inner *= dims[i];
  }
  double *wide = malloc((size_t)count * sizeof *wide + 1);
  float *narrow = malloc((size_t)count * sizeof *narrow + 1);
  assert_true(wide && narrow);
  for (int64_t i = 0; i < count; i++) {
    bool again = same >= 0 && i / inner % dims[same] > 0;
    wide[i] = again ? wide[i - inner] : next_number();
    narrow[i] = (float)wide[i];
  }
  keel_tensor *tensor =
      create_tensor(context, dtype, rank, dims,
                    dtype == KD_F64 ? (void *)wide : (void *)narrow);
  free(wide);
  free(narrow);
  return tensor;
}

static void check_same(keel_tensor *y, int same, const char *op,
                       const char *what) {
  int64_t dims[8], inner = 1, total = 1;
  size_t size = keel_tensor_dtype(y) == KD_F64 ? 8 : 4;
  for (uint32_t i = 0; i < keel_tensor_rank(y); i++) {
    dims[i] = keel_tensor_dims(y)[i];
    total *= dims[i];
    if ((int)i > same) inner *= dims[i];
  }
  char *data = malloc((size_t)total * size + 1);
  assert_non_null(data);
  expect_ok(keel_tensor_read(y, data, (size_t)total * size));
  for (int64_t i = 0; i < total; i++)
    if (i / inner % dims[same] > 0 &&
        memcmp(data + (size_t)i * size, data + (size_t)(i - inner) * size,
               size) != 0)
      fail_msg("%s, %s: element %lld differs from that before it", op, what,
               (long long)i);
  free(data);
}

/* Calls an op and checks that all lines of the result along `same` are equal. */
static void expect_same(const char *op, const keel_attr *attrs, uint32_t count,
                        keel_tensor **in, uint32_t inputs, int same,
                        const char *what) {
  keel_tensor *y = call_op(context, op, attrs, count, in, inputs);
  check_same(y, same, op, what);
  keel_tensor_release(y);
}

/* The same in a program, whose weights are a constant: in the blocked layout, where the
 * plugin has it. */
static void expect_same_planned(const char *op, const keel_attr *attrs,
                                uint32_t count, keel_tensor **in, int same,
                                const char *what) {
  keel_tensor *y = NULL;
  keel_builder *builder = create_builder(context, "product");
  keel_value pair[] = {
      keel_builder_input(builder, "x", keel_tensor_dtype(in[0]),
                         keel_tensor_rank(in[0]), keel_tensor_dims(in[0])),
      keel_builder_constant(builder, in[1])};
  keel_plan *plan = plan_giving(
      builder, keel_builder_op(builder, op, attrs, count, pair, 2), NULL);
  expect_ok(keel_plan_run(plan, in, 1, &y, 1));
  check_same(y, same, op, what);
  RELEASE(y, plan);
}

static const int64_t lengths[] = {1,  2,  3,  5,   7,   8,  9,  12,
                                  13, 15, 16, 17,  24,  31, 32, 33,
                                  49, 64, 65, 100, 127, 130};
#define LENGTHS (sizeof lengths / sizeof *lengths)

/* Of lists of sizes that are tried, one with the other: all, or every seventeenth; of large
 * products: all, or every third; and channels that are many. */
#ifdef KEEL_SANITIZED
enum { EVERY = 17, EVERY_LARGE = 3, MANY = 100 };
#else
enum { EVERY = 1, EVERY_LARGE = 1, MANY = 512 };
#endif

static void gemm(kd_dtype dtype, int64_t m, int64_t n, int64_t k, bool ta,
                 bool tb, int same) {
  const int64_t a_dims[] = {ta ? k : m, ta ? m : k};
  const int64_t b_dims[] = {tb ? n : k, tb ? k : n}, c_dims[] = {1, 1};
  const keel_attr attrs[] = {KEEL_INT("transA", ta), KEEL_INT("transB", tb),
                             KEEL_FLOAT("alpha", 0.7f)};
  char what[64];
  snprintf(what, sizeof what, "%lld x %lld x %lld%s%s%s", (long long)m,
           (long long)n, (long long)k, ta ? ", A turned" : "",
           tb ? ", B turned" : "", dtype == KD_F64 ? ", f64" : "");
  keel_tensor *in[] = {numbers(dtype, 2, a_dims, same == 0 ? ta : -1),
                       numbers(dtype, 2, b_dims, same == 1 ? !tb : -1),
                       numbers(dtype, 2, c_dims, -1)};
  expect_same("Gemm", attrs, 3, in, 3, same, what);
  if (!ta && !tb) expect_same_planned("MatMul", NULL, 0, in, same, what);
  release_all(in, 3);
}

LISTED_TEST(equal_lines_stay_equal) {
  static const int64_t depths[] = {7, 64, 300};
  for (size_t i = 0; i < LENGTHS; i++)
    for (size_t j = i % EVERY; j < LENGTHS; j += EVERY) {
      int64_t k = depths[(i + j) % 3];
      for (int how = 0; how < 4; how++) {
        gemm(KD_F32, lengths[i], lengths[j], k, how & 1, how >> 1, 0);
        gemm(KD_F32, lengths[i], lengths[j], k, how & 1, how >> 1, 1);
      }
      gemm(KD_F64, lengths[i], lengths[j], k, j & 1, i & 1, 0);
      gemm(KD_F64, lengths[i], lengths[j], k, j & 1, i & 1, 1);
    }
}

/* Beside sums in f64; a sum of k products is as far from them as its rounding allows. */
static void check_products(const float *x, const float *w, keel_tensor *y,
                           int64_t m, int64_t n, int64_t k) {
  const float *got = keel_tensor_data(y);
  for (int64_t i = 0; i < m * n; i++) {
    double sum = 0, most = 0;
    for (int64_t p = 0; p < k; p++) {
      double one = (double)x[i / n * k + p] * (double)w[p * n + i % n];
      sum += one;
      most += fabs(one);
    }
    if (!(fabs((double)got[i] - sum) <= most * 1e-5 + 1e-30))
      fail_msg("%lld x %lld x %lld: element %lld is %g, and not %g",
               (long long)m, (long long)n, (long long)k, (long long)i,
               (double)got[i], sum);
  }
}

/* Of constant weights, which are packed: each number of rows has tiles of its own. */
LISTED_TEST(rows_by_constant_weights_are_their_products) {
  static const int64_t widths[] = {5, 33, 64, 97, 130, 260};
  static const int64_t depths[] = {7, 130, 800};
  for (size_t i = 0; i < 18; i++) {
    const int64_t n = widths[i / 3], k = depths[i % 3];
    keel_tensor *w = numbers(KD_F32, 2, (const int64_t[]){k, n}, -1);
    keel_builder *b = create_builder(context, "rows");
    const keel_value pair[] = {
        keel_builder_input(b, "x", KD_F32, 2, (const int64_t[]){-1, k}),
        keel_builder_constant(b, w)};
    keel_plan *plan =
        plan_giving(b, keel_builder_op(b, "MatMul", NULL, 0, pair, 2), NULL);
    for (int64_t m = 1; m <= 28; m++) {
      keel_tensor *x = numbers(KD_F32, 2, (const int64_t[]){m, k}, -1);
      keel_tensor *y = output_of(plan, &x, 1);
      check_products(keel_tensor_data(x), keel_tensor_data(w), y, m, n, k);
      RELEASE(x, y);
    }
    RELEASE(w, plan);
  }
}

/* Large enough for several threads, and for several blocks of each length. */
LISTED_TEST(so_they_do_in_large_products) {
  static const int64_t sizes[][3] = {{1, 1000, 2048},  {1000, 1, 2048},
                                     {130, 1000, 70},  {257, 1030, 260},
                                     {1000, 130, 257}, {13, 700, 600}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t how = i % EVERY_LARGE; how < 4; how += EVERY_LARGE)
      for (int same = 0; same < 2; same++)
        gemm(how == 2 ? KD_F64 : KD_F32, sizes[i][0], sizes[i][1], sizes[i][2],
             how & 1, how >> 1, same);
}

static void conv(kd_dtype dtype, int64_t in, int64_t out, int64_t side,
                 int64_t window, int64_t group) {
  const int64_t x_dims[] = {1, in, side, side};
  const int64_t pads[] = {window / 2, window / 2, window / 2, window / 2};
  const keel_attr attrs[] = {KEEL_INTS("pads", 4, pads),
                             KEEL_INT("group", group)};
  char what[80];
  snprintf(what, sizeof what, "%lld to %lld channels of %lld^2, %lld^2%s",
           (long long)in, (long long)out, (long long)side, (long long)window,
           dtype == KD_F64 ? ", f64" : "");
  keel_tensor *x[] = {numbers(dtype, 4, x_dims, group > 1 ? 1 : -1),
                      numbers(dtype, DIMS(out, in / group, window, window), 0)};
  expect_same("Conv", attrs, 2, x, 2, 1, what);
  expect_same_planned("Conv", attrs, 2, x, 1, what);
  release_all(x, 2);
}

LISTED_TEST(equal_filters_stay_equal) {
  static const int64_t outs[] = {1,  2,  7,  8,  9,  15,  16,  17,
                                 31, 33, 48, 64, 72, 100, 130, 1000};
  static const int64_t sides[] = {1, 2, 5, 13, 28};
  for (size_t i = 0; i < sizeof outs / sizeof *outs; i++)
    for (size_t j = i % EVERY; j < sizeof sides / sizeof *sides; j += EVERY) {
      conv(KD_F32, 16, outs[i], sides[j], 1, 1);
      conv(KD_F32, MANY, outs[i], sides[j] < 14 ? sides[j] : 14, 1, 1);
      conv(KD_F32, 32, outs[i], sides[j], 3, 1);
      conv(KD_F32, 3, outs[i], sides[j], 5, 1);
      if (sides[j] < 28) conv(KD_F64, 12, outs[i], sides[j], 3, 1);
    }
  for (size_t j = 0; j < sizeof sides / sizeof *sides; j++) {
    conv(KD_F32, 16, 16, sides[j], 3, 16);
    conv(KD_F32, 64, 64, sides[j], 3, 64);
    conv(KD_F32, 32, 32, sides[j], 3, 8);
    conv(KD_F32, 20, 60, sides[j], 3, 4);
    conv(KD_F32, 72, 72, sides[j], 3, 3);
    conv(KD_F32, 33, 22, sides[j], 3, 11);
  }
}

#define EACH(open)                                                           \
  cmocka_unit_test_setup_teardown(equal_lines_stay_equal, open,              \
                                  close_context),                            \
      cmocka_unit_test_setup_teardown(                                       \
          rows_by_constant_weights_are_their_products, open, close_context), \
      cmocka_unit_test_setup_teardown(so_they_do_in_large_products, open,    \
                                      close_context),                        \
      cmocka_unit_test_setup_teardown(equal_filters_stay_equal, open,        \
                                      close_context)

int main(void) {
  const struct CMUnitTest tests[] = {EACH(open_one), EACH(open_three),
                                     EACH(open_avx2), EACH(open_base)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
