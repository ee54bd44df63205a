/* norm_rows.c - norms and softmax of f32, by rows that become vectors.
 *
 * Compiled once for each instruction set, with NORMS naming the result. Sums are
 * doubles, in lanes beside each other: as many on each instruction set. */
#include "norm.h"

#include <string.h>

typedef float f8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef double d8 __attribute__((vector_size(64)));

#define AT(x)    (*(const f8 *)(x))
#define REALS(x) __builtin_convertvector(AT(x), d8)

static int64_t least_of(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static double join(const d8 *a, const d8 *b) {
  const d8 s = *a + *b;
  return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

/* ---- norms ---------------------------------------------------------------------- */

/* Sums of what x is over `base`, and of the squares of that. */
static void moments(const float *x, int64_t n, double base, double *out_sum,
                    double *out_squares) {
  d8 s = {0}, t = {0}, p = {0}, q = {0};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const d8 a = REALS(x + i) - base, b = REALS(x + i + 8) - base;
    s += a;
    t += b;
    p += a * a;
    q += b * b;
  }
  double sum = join(&s, &t), squares = join(&p, &q);
  for (; i < n; i++) {
    double a = (double)x[i] - base;
    sum += a;
    squares += a * a;
  }
  *out_sum = sum;
  *out_squares = squares;
}

static void affine(const float *x, int64_t n, double mean, double scale,
                   double shift, float *y) {
  for (int64_t i = 0; i < n; i++)
    y[i] = (float)(((double)x[i] - mean) * scale + shift);
}

static void affine_each(const float *x, int64_t n, double mean, double inverse,
                        const float *scale, const float *shift, float *y) {
  if (shift)
    for (int64_t i = 0; i < n; i++)
      y[i] = (float)(((double)x[i] - mean) * inverse * (double)scale[i] +
                     (double)shift[i]);
  else
    for (int64_t i = 0; i < n; i++)
      y[i] = (float)(((double)x[i] - mean) * inverse * (double)scale[i]);
}

static void write_line(const norm_work *work, int64_t line, double mean,
                       double inverse) {
  const float *scale = work->scale, *shift = work->shift;
  const float *x = (const float *)work->x + line * work->count;
  float *y = (float *)work->y + line * work->count;
  if (!work->channels) {
    affine_each(x, work->count, mean, inverse, scale, shift, y);
    return;
  }
  int64_t run = work->space ? work->space : work->count;
  int64_t each = work->count / run;
  for (int64_t k = 0; k < each; k++) {
    int64_t c = (line * each + k) % work->channels;
    affine(x + k * run, run, mean, inverse * (double)scale[c],
           shift ? (double)shift[c] : 0, y + k * run);
  }
}

/* The sums are taken from a line's own first element on: it is off the mean by no more
 * than the root of `count` deviations, so that nothing is lost in a double. */
static void deviation(void *context, int64_t begin, int64_t end) {
  const norm_work *work = context;
  double count = (double)work->count;
  for (int64_t line = begin; line < end; line++) {
    const float *x = (const float *)work->x + line * work->count;
    double sum = 0, squares = 0;
    moments(x, work->count, (double)x[0], &sum, &squares);
    double off = sum / count;
    double variance = squares / count - off * off;
    if (!(fabs(squares) < (double)INFINITY)) { /* infinities, NaN */
      work->plain(context, line, line + 1);
      continue;
    }
    double mean = (double)x[0] + off;
    double inverse =
        1 / sqrt((variance > 0 ? variance : 0) + work->epsilon);
    if (work->mean)
      cpu_set(work->mean->data, work->mean->dtype, line, mean);
    if (work->inverse)
      cpu_set(work->inverse->data, work->inverse->dtype, line, inverse);
    write_line(work, line, mean, inverse);
  }
}

static double sizes(const float *x, int64_t n) {
  d8 s = {0}, t = {0};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    float a[16];
    for (int k = 0; k < 16; k++)
      a[k] = fabsf(x[i + k]);
    s += REALS(a);
    t += REALS(a + 8);
  }
  double sum = join(&s, &t);
  for (; i < n; i++)
    sum += fabs((double)x[i]);
  return sum;
}

static void length_lines(const norm_work *work, int p, int64_t begin,
                         int64_t end) {
  for (int64_t line = begin; line < end; line++) {
    const float *x = (const float *)work->x + line * work->count;
    float *y = (float *)work->y + line * work->count;
    double sum = 0, norm = 0;
    if (p == 1)
      norm = sizes(x, work->count);
    else
      moments(x, work->count, 0, &sum, &norm);
    norm = p == 1 ? norm : sqrt(norm);
    for (int64_t i = 0; i < work->count; i++)
      y[i] = norm == 0 ? 0 : (float)((double)x[i] / norm);
  }
}

static void length_1(void *context, int64_t begin, int64_t end) {
  length_lines(context, 1, begin, end);
}
static void length_2(void *context, int64_t begin, int64_t end) {
  length_lines(context, 2, begin, end);
}

/* ---- softmax -------------------------------------------------------------------- */

/* e to the x up to 0, within 2 units in the last place (a polynomial around 0, the
 * rest by the exponent's bits; Cody and Waite's two parts of log 2). NaN stays. */
static inline float power_of_e(float x) {
  x = x < -105.0f ? -105.0f : x; /* 0 from there on */
  const float moved = x * 1.44269504f + 0x1.8p23f;
  const int32_t n = (int32_t)(float_bits(moved) - 0x4b400000u);
  const float whole = moved - 0x1.8p23f;
  const float r = x - whole * 0.693359375f + whole * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t half = n >> 1; /* twice, for what is below the least exponent */
  return p * bits_float((uint32_t)(half + 127) << 23) *
         bits_float((uint32_t)(n - half + 127) << 23);
}

static float largest(const float *x, int64_t n) {
  float most = x[0];
  int64_t i = 0;
  if (n >= 16) {
    f8 a = AT(x), b = AT(x + 8);
    for (i = 16; i + 16 <= n; i += 16) {
      const f8 c = AT(x + i), d = AT(x + i + 8);
      const i8 m = (i8)(c > a), k = (i8)(d > b);
      a = (f8)((m & (i8)c) | (~m & (i8)a));
      b = (f8)((k & (i8)d) | (~k & (i8)b));
    }
    for (int k = 0; k < 8; k++) {
      most = a[k] > most ? a[k] : most;
      most = b[k] > most ? b[k] : most;
    }
  }
  for (; i < n; i++)
    most = x[i] > most ? x[i] : most;
  return most;
}

#define CHUNK 256

/* The sum of all powers, which are left in y where there is one. */
static double powers(const float *x, int64_t n, float most, float *y) {
  d8 s = {0}, t = {0};
  double sum = 0;
  float chunk[CHUNK];
  for (int64_t from = 0; from < n; from += CHUNK) {
    int64_t count = least_of(CHUNK, n - from), i = 0;
    float *to = y ? y + from : chunk;
    for (i = 0; i < count; i++)
      to[i] = power_of_e(x[from + i] - most);
    for (i = 0; i + 16 <= count; i += 16) {
      s += REALS(to + i);
      t += REALS(to + i + 8);
    }
    for (; i < count; i++)
      sum += (double)to[i];
  }
  return sum + join(&s, &t);
}

static void soft_line(const soft_work *work, const float *x, float *y) {
  int64_t n = work->all.length;
  float most = largest(x, n);
  bool log_of = work->how == SOFT_LOG;
  double sum = powers(x, n, most, log_of ? NULL : y);
  if (log_of) {
    float shift = (float)log(sum);
    for (int64_t i = 0; i < n; i++)
      y[i] = x[i] - most - shift;
  } else {
    float scale = (float)(1 / sum);
    for (int64_t i = 0; i < n; i++)
      y[i] *= scale;
  }
}

/* n lines that are neighbours, CHUNK at most; elements of a line are `step` apart. */
static void soft_columns(const soft_work *work, const float *x, float *y,
                         int64_t n) {
  int64_t length = work->all.length, step = work->all.step;
  float most[CHUNK], part[CHUNK];
  double sums[CHUNK] = {0};
  bool log_of = work->how == SOFT_LOG;
  memcpy(most, x, (size_t)n * sizeof *most);
  for (int64_t k = 1; k < length; k++)
    for (int64_t i = 0; i < n; i++)
      most[i] = x[k * step + i] > most[i] ? x[k * step + i] : most[i];
  for (int64_t k = 0; k < length; k++) {
    float *to = log_of ? part : y + k * step;
    for (int64_t i = 0; i < n; i++)
      to[i] = power_of_e(x[k * step + i] - most[i]);
    for (int64_t i = 0; i < n; i++)
      sums[i] += (double)to[i];
  }
  for (int64_t i = 0; i < n; i++)
    part[i] = (float)(log_of ? log(sums[i]) : 1 / sums[i]);
  for (int64_t k = 0; k < length; k++)
    for (int64_t i = 0; i < n; i++)
      y[k * step + i] = log_of ? x[k * step + i] - most[i] - part[i]
                               : y[k * step + i] * part[i];
}

static void soft_lines(void *context, int64_t begin, int64_t end) {
  const soft_work *work = context;
  const float *x = work->x->data;
  float *y = work->y->data;
  for (int64_t i = begin, n = 1; i < end; i += n) {
    int64_t start = lines_start(&work->all, i), step = work->all.step;
    n = least_of(least_of(CHUNK, end - i), step - i % step);
    if (step == 1)
      soft_line(work, x + start, y + start);
    else
      soft_columns(work, x + start, y + start, n);
  }
}

const cpu_norms NORMS = {.deviation = deviation,
                         .lengths = {length_1, length_2},
                         .soft = soft_lines};
