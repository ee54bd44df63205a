/* order_test.c - TopK, ArgMax and ArgMin where elements are equal or NaN, which the suite does
 * not judge, at sizes that threads share and that fill blocks and do not. */
#include <math.h>

#define WORKERS 3
#include "with_cpu.h"

static uint64_t seed = 1;

UNWATCHED static int64_t next_number(int64_t below) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)(seed >> 33) % below;
}

static keel_tensor *make(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                         const void *data) {
  return create_tensor(context, dtype, rank, dims, data);
}

/* Runs an op; what its outputs hold, to be freed. Releases the inputs. */
static void run(const char *op, const keel_attr *attrs, uint32_t attr_count,
                keel_tensor **in, uint32_t inputs, void **out, int64_t *bytes,
                uint32_t outputs) {
  keel_tensor *y[2] = {NULL, NULL};
  expect_ok(keel_call(context, op, attrs, attr_count, in, inputs, y, outputs));
  for (uint32_t i = 0; i < outputs; i++) {
    expect_ok(keel_tensor_wait(y[i]));
    int64_t count = 1;
    for (uint32_t d = 0; d < keel_tensor_rank(y[i]); d++)
      count *= keel_tensor_dims(y[i])[d];
    bytes[i] = count * (int64_t)keel_dtype_size(keel_tensor_dtype(y[i]));
    out[i] = malloc((size_t)bytes[i] + 1);
    assert_non_null(out[i]);
    expect_ok(keel_tensor_read(y[i], out[i], (size_t)bytes[i]));
    keel_tensor_release(y[i]);
  }
  release_all(in, inputs);
}

/* Few values, so that many are equal; some NaN, infinities and zeros of both signs. */
static float *random_floats(int64_t count, bool odd) {
  static const float few[] = {0, -0.0f, INFINITY, -INFINITY, NAN};
  float *data = malloc((size_t)count * sizeof *data + 1);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++)
    data[i] = odd && next_number(20) == 0 ? few[next_number(5)]
                                          : (float)(next_number(401) - 200) / 8;
  return data;
}

/* NaN is larger than all. */
static bool above(float a, float b) {
  return a > b || (a != a && b == b);
}

static void top_k(int64_t outer, int64_t n, int64_t inner, int64_t k,
                  bool largest) {
  const int64_t dims[] = {outer, n, inner}, one = 1;
  int64_t bytes[2];
  float *x = random_floats(outer * n * inner, true);
  void *out[2];
  keel_tensor *in[] = {make(KD_F32, 3, dims, x), make(KD_I64, 1, &one, &k)};
  const keel_attr attrs[] = {KEEL_INT("axis", 1), KEEL_INT("largest", largest)};
  run("TopK", attrs, 2, in, 2, out, bytes, 2);
  const int64_t *at = out[1];
  bool *taken = calloc((size_t)n + 1, 1);
  assert_non_null(taken);
  for (int64_t o = 0; o < outer * inner; o++) {
    const float *line = x + o / inner * n * inner + o % inner;
    memset(taken, 0, (size_t)n);
    for (int64_t i = 0; i < k; i++) {
      int64_t best = -1, to = (o / inner * k + i) * inner + o % inner;
      for (int64_t j = 0; j < n; j++)
        if (!taken[j] &&
            (best < 0 ||
             (largest ? above(line[j * inner], line[best * inner])
                      : above(line[best * inner], line[j * inner]))))
          best = j;
      if (at[to] != best)
        fail_msg("TopK of %lld: number %lld is %lld, not %lld", (long long)n,
                 (long long)i, (long long)at[to], (long long)best);
      assert_memory_equal((float *)out[0] + to, line + best * inner, 4);
      taken[best] = true;
    }
  }
  free(taken);
  free(out[0]);
  free(out[1]);
  free(x);
}

TEST_THAT(tops) {
  static const int64_t sizes[] = {1, 15, 16, 64, 65, 100, 500, 3000};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int how = 0; how < 4; how++) {
      int64_t n = sizes[i], inner = how & 1 ? 3 : 1;
      top_k(2, n, inner, n < 5 ? n : 5, how < 2);
      top_k(1, n, inner, n < 70 ? n : 70, how < 2);
      if (n <= 500) top_k(1, n, inner, n, how < 2);
    }
}

static void arg(const char *op, int64_t outer, int64_t n, int64_t inner,
                bool last) {
  const int64_t dims[] = {outer, n, inner};
  bool most = !strcmp(op, "ArgMax");
  int64_t bytes = 0;
  float *x = random_floats(outer * n * inner, next_number(2) == 0);
  void *out = NULL;
  keel_tensor *in[] = {make(KD_F32, 3, dims, x)};
  const keel_attr attrs[] = {KEEL_INT("axis", 1),
                             KEEL_INT("select_last_index", last)};
  run(op, attrs, 2, in, 1, &out, &bytes, 1);
  for (int64_t o = 0; o < outer * inner; o++) {
    const float *line = x + o / inner * n * inner + o % inner;
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
      float a = line[i * inner], b = line[best * inner];
      bool better = most ? above(a, b) : a < b || (a != a && b == b);
      bool worse = most ? above(b, a) : b < a || (b != b && a == a);
      if (better || (last && !worse)) best = i;
    }
    if (((int64_t *)out)[o] != best)
      fail_msg("%s of %lld by %lld: line %lld", op, (long long)n,
               (long long)inner, (long long)o);
  }
  free(out);
  free(x);
}

TEST_THAT(args) {
  static const int64_t sizes[] = {1, 2, 15, 16, 17, 40, 1000};
  static const int64_t beside[] = {1, 2, 16, 37};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t k = 0; k < sizeof beside / sizeof *beside; k++)
      for (int last = 0; last < 2; last++) {
        arg("ArgMax", 31, sizes[i], beside[k], last);
        arg("ArgMin", 31, sizes[i], beside[k], last);
      }
}

RUN_TESTS(open_cpu, close_context)
