/* rows_test.c - ops that move, pick and order elements, at sizes that threads share and that
 * fill blocks and do not, each against the plainest loop for it. */
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

UNWATCHED static uint8_t *random_bytes(int64_t count) {
  uint8_t *data = malloc((size_t)count + 16);
  assert_non_null(data);
  for (int64_t i = 0; i < count; i++)
    data[i] = (uint8_t)next_number(256);
  return data;
}

/* ---- moving ---------------------------------------------------------------------- */

static const kd_dtype dtypes[] = {KD_U8, KD_I16, KD_I32, KD_I64, KD_C128};

static void transpose(kd_dtype dtype, uint32_t rank, const int64_t *dims,
                      const int64_t *perm) {
  int64_t count = 1, steps[5] = {0}, size = (int64_t)keel_dtype_size(dtype);
  int64_t bytes = 0;
  void *out = NULL;
  for (uint32_t d = rank; d-- > 0; count *= dims[d])
    steps[d] = count;
  uint8_t *data = random_bytes(count * size);
  keel_tensor *in[] = {make(dtype, rank, dims, data)};
  const keel_attr attrs[] = {KEEL_INTS("perm", rank, perm)};
  run("Transpose", attrs, 1, in, 1, &out, &bytes, 1);
  assert_int_equal(bytes, count * size);
  for (int64_t i = 0; i < count; i++) {
    int64_t rest = i, from = 0;
    for (uint32_t d = rank; d-- > 0; rest /= dims[perm[d]])
      from += rest % dims[perm[d]] * steps[perm[d]];
    if (memcmp((uint8_t *)out + i * size, data + from * size, (size_t)size) !=
        0)
      fail_msg("Transpose of %lld bytes each: element %lld", (long long)size,
               (long long)i);
  }
  free(out);
  free(data);
}

static void transposes(void **state) {
  static const int64_t shapes[][5] = {
      {1, 1, 1, 130, 257}, {1, 1, 3, 61, 67},  {1, 1, 67, 61, 3},
      {1, 4, 1, 33, 40},   {2, 3, 5, 7, 11},   {1, 2, 40, 4, 300},
      {1, 17, 2, 9, 64},   {1, 1, 8, 512, 16}, {1, 1, 1, 8, 20000}};
  static const int64_t perms[][5] = {
      {0, 1, 2, 4, 3}, {0, 1, 3, 4, 2}, {0, 1, 4, 2, 3}, {0, 1, 4, 3, 2},
      {0, 2, 1, 3, 4}, {4, 3, 2, 1, 0}, {1, 3, 0, 4, 2}, {0, 1, 2, 3, 4}};
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
    for (size_t k = 0; k < sizeof perms / sizeof *perms; k++)
      for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
        transpose(dtypes[t], 5, shapes[i], perms[k]);
}

static int64_t place(int64_t at, int64_t size, const char *mode) {
  if (at >= 0 && at < size) return at;
  if (!strcmp(mode, "constant")) return -1;
  if (!strcmp(mode, "edge")) return at < 0 ? 0 : size - 1;
  if (!strcmp(mode, "wrap")) return ((at % size) + size) % size;
  int64_t period = 2 * (size - 1), in = ((at % period) + period) % period;
  return in < size ? in : period - in;
}

static void pad(kd_dtype dtype, const int64_t *dims, const int64_t *pads,
                const char *mode) {
  int64_t size = (int64_t)keel_dtype_size(dtype), to[3], count = 1, bytes = 0;
  int64_t all = dims[0] * dims[1] * dims[2], six = 6;
  uint8_t *data = random_bytes(all * size), value[16];
  void *out = NULL;
  memset(value, 7, sizeof value);
  for (int d = 0; d < 3; d++)
    count *= to[d] = dims[d] + pads[d] + pads[d + 3];
  keel_tensor *in[] = {make(dtype, 3, dims, data), make(KD_I64, 1, &six, pads),
                       make(dtype, 0, NULL, value)};
  const keel_attr attrs[] = {KEEL_STRING("mode", mode)};
  run("Pad", attrs, 1, in, 3, &out, &bytes, 1);
  assert_int_equal(bytes, count * size);
  for (int64_t i = 0; i < count; i++) {
    int64_t a = place(i / (to[1] * to[2]) - pads[0], dims[0], mode);
    int64_t b = place(i / to[2] % to[1] - pads[1], dims[1], mode);
    int64_t c = place(i % to[2] - pads[2], dims[2], mode);
    const uint8_t *want = a < 0 || b < 0 || c < 0
                              ? value
                              : data + ((a * dims[1] + b) * dims[2] + c) * size;
    if (memcmp((uint8_t *)out + i * size, want, (size_t)size) != 0)
      fail_msg("Pad by %s: element %lld", mode, (long long)i);
  }
  free(out);
  free(data);
}

static void pads(void **state) {
  static const int64_t shapes[][3] = {{5, 6, 7}, {40, 33, 3}, {3, 50, 200}};
  static const int64_t by[][6] = {{0, 0, 0, 0, 0, 0},   {1, 2, 3, 2, 1, 4},
                                  {0, 2, 0, 0, 3, 0},   {2, 0, 0, 1, 0, 0},
                                  {0, 0, 2, 0, 0, 0},   {1, -2, 2, -1, 3, -1},
                                  {-1, -1, -1, 0, 0, 0}};
  static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
  (void)state;
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 7; k++)
      for (int m = 0; m < 4; m++)
        for (int t = 0; t < 5; t++)
          pad(dtypes[t], shapes[i], by[k], modes[m]);
}

/* ---- order ------------------------------------------------------------------------- */

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

static void tops(void **state) {
  static const int64_t sizes[] = {1, 15, 16, 64, 65, 100, 500, 3000};
  (void)state;
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

static void args(void **state) {
  static const int64_t sizes[] = {1, 2, 15, 16, 17, 40, 1000};
  static const int64_t beside[] = {1, 2, 16, 37};
  (void)state;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (size_t k = 0; k < sizeof beside / sizeof *beside; k++)
      for (int last = 0; last < 2; last++) {
        arg("ArgMax", 31, sizes[i], beside[k], last);
        arg("ArgMin", 31, sizes[i], beside[k], last);
      }
}

static void cum_sum(int64_t outer, int64_t n, int64_t inner, int how) {
  const int64_t dims[] = {outer, n, inner}, axis = 1;
  int64_t bytes = 0;
  float *x = random_floats(outer * n * inner, false);
  void *out = NULL;
  keel_tensor *in[] = {make(KD_F32, 3, dims, x), make(KD_I64, 0, NULL, &axis)};
  const keel_attr attrs[] = {KEEL_INT("reverse", how & 1),
                             KEEL_INT("exclusive", how >> 1)};
  run("CumSum", attrs, 2, in, 2, &out, &bytes, 1);
  for (int64_t o = 0; o < outer * inner; o++) {
    int64_t from = o / inner * n * inner + o % inner;
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
      int64_t at = from + (how & 1 ? n - 1 - i : i) * inner;
      double before = sum;
      sum += (double)x[at];
      assert_true(((float *)out)[at] == (float)(how >> 1 ? before : sum));
    }
  }
  free(out);
  free(x);
}

static void sums(void **state) {
  (void)state;
  for (int how = 0; how < 4; how++) {
    cum_sum(9, 700, 1, how);
    cum_sum(2, 130, 31, how);
    cum_sum(2, 130, 32, how);
    cum_sum(3, 130, 75, how);
  }
}

static void non_zero(void **state) {
  const int64_t dims[] = {13, 1, 57, 11};
  int64_t bytes = 0, count = 13 * 57 * 11, found = 0;
  float *x = random_floats(count, true);
  void *out = NULL;
  (void)state;
  for (int64_t i = 0; i < count; i++) {
    if (next_number(2)) x[i] = i % 2 ? 0 : -0.0f;
    found += x[i] != 0;
  }
  keel_tensor *in[] = {make(KD_F32, 4, dims, x)};
  run("NonZero", NULL, 0, in, 1, &out, &bytes, 1);
  assert_int_equal(bytes, found * 4 * 8);
  const int64_t *y = out;
  for (int64_t i = 0, at = 0; i < count; i++) {
    if (x[i] == 0) continue;
    assert_int_equal(y[at], i / (57 * 11));
    assert_int_equal(y[found + at], 0);
    assert_int_equal(y[2 * found + at], i / 11 % 57);
    assert_int_equal(y[3 * found + at], i % 11);
    at++;
  }
  free(out);
  free(x);
}

/* Updates of one place in their order; fewer of them than x has elements, each way. */
static void scatter(int64_t axis, const int64_t *dims, const int64_t *part,
                    bool add) {
  int64_t count = dims[0] * dims[1] * dims[2], bytes = 0;
  int64_t updates = part[0] * part[1] * part[2];
  float *x = random_floats(count, false), *u = random_floats(updates, false);
  int64_t *index = malloc((size_t)updates * sizeof *index);
  void *out = NULL;
  assert_non_null(index);
  for (int64_t i = 0; i < updates; i++)
    index[i] = next_number(2 * dims[axis]) - dims[axis];
  keel_tensor *in[] = {make(KD_F32, 3, dims, x), make(KD_I64, 3, part, index),
                       make(KD_F32, 3, part, u)};
  const keel_attr attrs[] = {KEEL_INT("axis", axis),
                             KEEL_STRING("reduction", add ? "add" : "none")};
  run("ScatterElements", attrs, 2, in, 3, &out, &bytes, 1);
  for (int64_t i = 0; i < updates; i++) {
    int64_t at[3] = {i / (part[1] * part[2]), i / part[2] % part[1],
                     i % part[2]};
    at[axis] = index[i] < 0 ? index[i] + dims[axis] : index[i];
    float *to = x + (at[0] * dims[1] + at[1]) * dims[2] + at[2];
    *to = add ? *to + u[i] : u[i];
  }
  assert_memory_equal(out, x, (size_t)count * 4);
  free(out);
  free(index);
  free(x);
  free(u);
}

static void scatters(void **state) {
  static const int64_t shapes[][2][3] = {{{30, 20, 50}, {30, 20, 50}},
                                         {{30, 20, 50}, {17, 19, 41}},
                                         {{9, 1, 5000}, {40, 1, 5000}},
                                         {{5000, 7, 1}, {5000, 30, 1}}};
  (void)state;
  for (int i = 0; i < 4; i++)
    for (int64_t axis = 0; axis < 3; axis++)
      for (int add = 0; add < 2; add++) {
        int64_t part[3];
        for (int d = 0; d < 3; d++) {
          int64_t size = shapes[i][0][d], wanted = shapes[i][1][d];
          part[d] = d != axis && wanted > size ? size : wanted;
        }
        scatter(axis, shapes[i][0], part, add);
      }
}

/* ---- regions of images ----------------------------------------------------------------- */

static double overlap(const float *a, const float *b) {
  double h =
      fmin((double)a[2], (double)b[2]) - fmax((double)a[0], (double)b[0]);
  double w =
      fmin((double)a[3], (double)b[3]) - fmax((double)a[1], (double)b[1]);
  double common = h > 0 && w > 0 ? h * w : 0;
  double all = ((double)a[2] - (double)a[0]) * ((double)a[3] - (double)a[1]) +
               ((double)b[2] - (double)b[0]) * ((double)b[3] - (double)b[1]);
  return common / (all - common);
}

/* The best that no chosen one covers, again and again. */
static int64_t choose(const float *boxes, const float *scores, int64_t n,
                      int64_t most, int64_t *chosen) {
  int64_t count = 0;
  bool *gone = calloc((size_t)n + 1, 1);
  assert_non_null(gone);
  while (count < most) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++)
      if (!gone[i] && scores[i] > 0.1f &&
          (best < 0 || scores[i] > scores[best]))
        best = i;
    if (best < 0) break;
    chosen[count++] = best;
    gone[best] = true;
    for (int64_t i = 0; i < n; i++)
      gone[i] |= overlap(boxes + best * 4, boxes + i * 4) > 0.5;
  }
  free(gone);
  return count;
}

static void suppress(int64_t n, int64_t classes, int64_t most) {
  const int64_t box_dims[] = {1, n, 4}, score_dims[] = {1, classes, n}, one = 1;
  float *boxes = malloc((size_t)n * 16), threshold = 0.5f, least = 0.1f;
  float *scores = malloc((size_t)(n * classes) * 4);
  int64_t *chosen = malloc((size_t)n * 8), bytes = 0, at = 0;
  void *out = NULL;
  assert_true(boxes && scores && chosen);
  for (int64_t i = 0; i < n; i++)
    for (int k = 0; k < 2; k++) {
      boxes[i * 4 + k] = (float)next_number(4000) / 8;
      boxes[i * 4 + k + 2] =
          boxes[i * 4 + k] + 20 + (float)next_number(400) / 8;
    }
  for (int64_t i = 0; i < n * classes; i++)
    scores[i] = (float)next_number(1000) / 1000; /* many are equal */
  keel_tensor *in[] = {
      make(KD_F32, 3, box_dims, boxes), make(KD_F32, 3, score_dims, scores),
      make(KD_I64, 1, &one, &most), make(KD_F32, 1, &one, &threshold),
      make(KD_F32, 1, &one, &least)};
  run("NonMaxSuppression", NULL, 0, in, 5, &out, &bytes, 1);
  for (int64_t c = 0; c < classes; c++) {
    int64_t count = choose(boxes, scores + c * n, n, most, chosen);
    for (int64_t i = 0; i < count; i++, at++) {
      assert_true((at + 1) * 24 <= bytes);
      assert_int_equal(((int64_t *)out)[at * 3 + 1], c);
      assert_int_equal(((int64_t *)out)[at * 3 + 2], chosen[i]);
    }
  }
  assert_int_equal(bytes, at * 24);
  free(out);
  free(boxes);
  free(scores);
  free(chosen);
}

static void suppressions(void **state) {
  (void)state;
  suppress(3000, 1, 3000); /* several tiles, shared by threads */
  suppress(1500, 1, 77);
  suppress(300, 20, 300);
  suppress(40, 3, 5);
}

/* A pixel between four; beyond the edge by more than one: none. */
static void sample(const float *x, int64_t size, double v, double h, bool most,
                   double *total) {
  if (v < -1 || v > (double)size || h < -1 || h > (double)size) {
    if (most) *total = fmax(*total, 0);
    return;
  }
  v = fmin(fmax(v, 0), (double)(size - 1));
  h = fmin(fmax(h, 0), (double)(size - 1));
  int64_t y = (int64_t)v, z = (int64_t)h;
  for (int k = 0; k < 4; k++) {
    int64_t r = y + k / 2 < size ? y + k / 2 : y;
    int64_t c = z + k % 2 < size ? z + k % 2 : z;
    double fy = v - (double)y, fz = h - (double)z;
    double part =
        (k / 2 ? fy : 1 - fy) * (k % 2 ? fz : 1 - fz) * (double)x[r * size + c];
    *total = most ? fmax(*total, part) : *total + part;
  }
}

static void roi_align(int64_t channels, int64_t ratio, bool most) {
  enum { SIDE = 23, DOWN = 5, ACROSS = 3, REGIONS = 7 };
  const int64_t dims[] = {1, channels, SIDE, SIDE}, of[] = {REGIONS, 4};
  int64_t items[REGIONS] = {0}, bytes = 0;
  const int64_t regions = REGIONS;
  float *x = random_floats(channels * SIDE * SIDE, false), rois[REGIONS][4];
  void *out = NULL;
  for (int64_t i = 0; i < REGIONS; i++)
    for (int k = 0; k < 2; k++) {
      rois[i][k] = (float)next_number(400) / 10 - 5;
      rois[i][k + 2] = rois[i][k] + 1 + (float)next_number(300) / 10;
    }
  keel_tensor *in[] = {make(KD_F32, 4, dims, x), make(KD_F32, 2, of, rois),
                       make(KD_I64, 1, &regions, items)};
  const keel_attr attrs[] = {
      KEEL_INT("output_height", DOWN), KEEL_INT("output_width", ACROSS),
      KEEL_INT("sampling_ratio", ratio), KEEL_FLOAT("spatial_scale", 0.5f),
      KEEL_STRING("mode", most ? "max" : "avg")};
  run("RoiAlign", attrs, 5, in, 3, &out, &bytes, 1);
  for (int64_t i = 0; i < REGIONS * channels * DOWN * ACROSS; i++) {
    int64_t q = i % ACROSS, p = i / ACROSS % DOWN;
    int64_t c = i / (ACROSS * DOWN) % channels;
    const float *g = rois[i / (ACROSS * DOWN * channels)];
    double left = (double)g[0] * 0.5 - 0.5, top = (double)g[1] * 0.5 - 0.5;
    double w = ((double)g[2] - (double)g[0]) * 0.5 / ACROSS;
    double h = ((double)g[3] - (double)g[1]) * 0.5 / DOWN;
    int64_t nv = ratio ? ratio : (int64_t)ceil(h);
    int64_t nh = ratio ? ratio : (int64_t)ceil(w);
    double total = most ? -INFINITY : 0;
    for (int64_t s = 0; s < nv * nh; s++) {
      int64_t row = s / nh, column = s % nh;
      sample(x + c * SIDE * SIDE, SIDE,
             top + h * ((double)p + ((double)row + 0.5) / (double)nv),
             left + w * ((double)q + ((double)column + 0.5) / (double)nh), most,
             &total);
    }
    if (!most) total /= (double)(nv * nh);
    if (!(fabs((double)((float *)out)[i] - total) <= 1e-4))
      fail_msg("RoiAlign: element %lld is %g, not %g", (long long)i,
               (double)((float *)out)[i], total);
  }
  free(out);
  free(x);
}

static void aligned(void **state) {
  (void)state;
  for (int64_t ratio = 0; ratio < 4; ratio++)
    for (int most = 0; most < 2; most++) {
      roi_align(1, ratio, most);
      roi_align(75, ratio, most); /* several parts of the channels */
    }
}

/* ---- choosing ---------------------------------------------------------------------- */

/* Where of operands that are broadcast: bit d of a mask: the operand has dimension d. */
static void where(kd_dtype dtype, const int64_t *full, const int *masks) {
  int64_t dims[3][3], counts[3] = {1, 1, 1}, all = full[0] * full[1] * full[2];
  int64_t size = (int64_t)keel_dtype_size(dtype), bytes = 0;
  uint8_t *data[3], *out = NULL;
  keel_tensor *in[3];
  for (int k = 0; k < 3; k++) {
    for (int d = 0; d < 3; d++)
      counts[k] *= dims[k][d] = masks[k] >> d & 1 ? full[d] : 1;
    data[k] = random_bytes(counts[k] * size);
    for (int64_t i = 0; i < counts[0] && !k; i++)
      data[0][i] &= 1;
    in[k] = make(k ? dtype : KD_BOOL, 3, dims[k], data[k]);
  }
  run("Where", NULL, 0, in, 3, (void **)&out, &bytes, 1);
  assert_int_equal(bytes, all * size);
  for (int64_t i = 0; i < all; i++) {
    int64_t at[3] = {i / full[2] / full[1], i / full[2] % full[1], i % full[2]};
    int64_t from[3];
    for (int k = 0; k < 3; k++) {
      from[k] = 0;
      for (int d = 0; d < 3; d++)
        from[k] = from[k] * dims[k][d] + (dims[k][d] > 1 ? at[d] : 0);
    }
    int k = data[0][from[0]] ? 1 : 2;
    assert_memory_equal(out + i * size, data[k] + from[k] * size, size);
  }
  free(out);
  for (int k = 0; k < 3; k++)
    free(data[k]);
}

static void wheres(void **state) {
  static const int64_t shapes[][3] = {{3, 70, 51}, {2, 3, 40000}, {1, 1, 9}};
  static const int masks[][3] = {{7, 7, 7}, {7, 7, 0}, {7, 0, 7}, {7, 0, 0},
                                 {4, 7, 3}, {3, 5, 6}, {6, 7, 0}};
  (void)state;
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
    for (size_t s = 0; s < 3; s++)
      for (size_t m = 0; m < 7; m++)
        where(dtypes[t], shapes[s], masks[m]);
}

static void not_finite(void **state) {
  enum { COUNT = 70001 };
  static float x[COUNT];
  static const float special[] = {NAN,   INFINITY,  -INFINITY, 0,
                                  -0.0f, 0x1p-140f, -NAN};
  const int64_t count = COUNT;
  (void)state;
  for (int64_t i = 0; i < COUNT; i++) {
    int64_t n = next_number(9);
    x[i] = n < 7 ? special[n] : (float)n;
  }
  for (int how = 0; how < 5; how++) { /* 4: IsNaN; else bits: plus, minus */
    const keel_attr attrs[] = {KEEL_INT("detect_positive", how & 1),
                               KEEL_INT("detect_negative", how >> 1 & 1)};
    keel_tensor *in = make(KD_F32, 1, &count, x);
    uint8_t *out = NULL;
    int64_t bytes = 0;
    run(how == 4 ? "IsNaN" : "IsInf", attrs, how == 4 ? 0 : 2, &in, 1,
        (void **)&out, &bytes, 1);
    for (int64_t i = 0; i < COUNT; i++)
      assert_int_equal(
          out[i], how == 4 ? isnan(x[i]) != 0
                           : isinf(x[i]) && (x[i] > 0 ? how & 1 : how & 2));
    free(out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(transposes), cmocka_unit_test(pads),
      cmocka_unit_test(tops),       cmocka_unit_test(args),
      cmocka_unit_test(sums),       cmocka_unit_test(non_zero),
      cmocka_unit_test(scatters),   cmocka_unit_test(suppressions),
      cmocka_unit_test(aligned),    cmocka_unit_test(wheres),
      cmocka_unit_test(not_finite)};
  return cmocka_run_group_tests(tests, open_cpu, close_context);
}
