/* norm_rows.c - layer norms, RMS and Lp norms, and softmax of f32, line by line.
 *
 * Compiled once for each instruction set, with NORMS naming the result. Loops along a line are
 * innermost, and become vectors.
 *
 * Norms read a line twice. First both moments in one pass, as doubles in four vectors of
 * partial sums, shifted by the line's first element d:
 *
 *     mean = d + E[x - d]          variance = E[(x - d)^2] - E[x - d]^2
 *
 * d is off the mean by at most the root of `count` deviations, so that a double loses
 * nothing that a float shows. Then (x - mean) / deviation in f32, with the mean as a sum of
 * two floats; in double where a value is too large or too small for that.
 *
 * Softmax takes three passes: the largest, exp(x - largest) with its sum (f32 in chunks, added
 * in double), the scaling. Short lines share chunks; lines across are taken side by side. */
#include "norm.h"

#include <string.h>

#include "powers_of_e.h"

#if defined(__AVX2__)
#define VECTOR 32 /* bytes; wider ones are no faster here */
#else
#define VECTOR 16
#endif
#define LANES (VECTOR / 8) /* doubles */
#define BLOCK (4 * LANES)  /* elements of four vectors of doubles */

typedef float floats
    __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef int32_t masks
    __attribute__((vector_size(VECTOR), aligned(4), may_alias));
typedef float halves
    __attribute__((vector_size(VECTOR / 2), aligned(4), may_alias));
typedef double reals __attribute__((vector_size(VECTOR)));

#define AT(x)    (*(const floats *)(x))
#define REALS(x) __builtin_convertvector(*(const halves *)(x), reals)

static double norm_rows_join(const reals *parts) {
  const reals s = (parts[0] + parts[1]) + (parts[2] + parts[3]);
  double sum = s[0];
  for (int i = 1; i < LANES; i++)
    sum += s[i];
  return sum;
}

/* ---- norms ---------------------------------------------------------------------- */

/* Sums of what x is over `base`, and of the squares of that. */
static void moments(const float *x, int64_t n, double base, double *out_sum,
                    double *out_squares) {
  reals s[4] = {{0}}, q[4] = {{0}};
  int64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    const reals a = REALS(x + i) - base, b = REALS(x + i + LANES) - base;
    const reals c = REALS(x + i + 2 * LANES) - base;
    const reals d = REALS(x + i + 3 * LANES) - base;
    s[0] += a;
    s[1] += b;
    s[2] += c;
    s[3] += d;
    q[0] += a * a;
    q[1] += b * b;
    q[2] += c * c;
    q[3] += d * d;
  }
  double sum = norm_rows_join(s), squares = norm_rows_join(q);
  for (; i < n; i++) {
    double a = (double)x[i] - base;
    sum += a;
    squares += a * a;
  }
  *out_sum = sum;
  *out_squares = squares;
}

/* What of a line becomes of it: (x - mean) * inverse, scaled and moved. Where `near`, in
 * floats: the mean is two of them, and what is left of x close to it is exact. */
typedef struct norming {
  double mean, inverse;
  float high, low, by;
  bool near;
} norming;

static norming norming_of(double mean, double inverse, double farthest) {
  norming v = {.mean = mean, .inverse = inverse};
  v.high = (float)mean;
  v.low = (float)(mean - (double)v.high);
  v.by = (float)inverse;
  v.near = fabs(mean) < 0x1p120 && farthest < 0x1p120 && inverse < 0x1p60 &&
           inverse > 0x1p-60;
  return v;
}

static void affine(const norming *v, const float *x, int64_t n, double scale,
                   double shift, float *y) {
  const float high = v->high, low = v->low;
  const float by = (float)(v->inverse * scale), moved = (float)shift;
  if (v->near && fabs(scale) < 0x1p60)
    for (int64_t i = 0; i < n; i++)
      y[i] = ((x[i] - high) - low) * by + moved;
  else
    for (int64_t i = 0; i < n; i++)
      y[i] = (float)(((double)x[i] - v->mean) * v->inverse * scale + shift);
}

static void affine_each(const norming *v, const float *x, int64_t n,
                        const float *scale, const float *shift, float *y) {
  const float high = v->high, low = v->low, by = v->by;
  if (v->near && shift)
    for (int64_t i = 0; i < n; i++)
      y[i] = ((x[i] - high) - low) * by * scale[i] + shift[i];
  else if (v->near)
    for (int64_t i = 0; i < n; i++)
      y[i] = ((x[i] - high) - low) * by * scale[i];
  else
    for (int64_t i = 0; i < n; i++)
      y[i] = (float)(((double)x[i] - v->mean) * v->inverse * (double)scale[i] +
                     (shift ? (double)shift[i] : 0));
}

static void write_line(const norm_work *work, int64_t line, const norming *v) {
  const float *scale = work->scale, *shift = work->shift;
  const float *x = (const float *)work->x + line * work->count;
  float *y = (float *)work->y + line * work->count;
  if (!work->channels) {
    affine_each(v, x, work->count, scale, shift, y);
    return;
  }
  int64_t run = work->space ? work->space : work->count;
  int64_t each = work->count / run;
  for (int64_t k = 0; k < each; k++) {
    int64_t c = (line * each + k) % work->channels;
    affine(v, x + k * run, run, (double)scale[c], shift ? (double)shift[c] : 0,
           y + k * run);
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
    double inverse = 1 / sqrt((variance > 0 ? variance : 0) + work->epsilon);
    if (work->mean) cpu_set(work->mean->data, work->mean->dtype, line, mean);
    if (work->inverse)
      cpu_set(work->inverse->data, work->inverse->dtype, line, inverse);
    const norming v = norming_of(mean, inverse, sqrt(squares) + fabs(off));
    write_line(work, line, &v);
  }
}

static void squares(void *context, int64_t begin, int64_t end) {
  const norm_work *work = context;
  const float *scale = work->scale;
  for (int64_t line = begin; line < end; line++) {
    const float *x = (const float *)work->x + line * work->count;
    float *y = (float *)work->y + line * work->count;
    double sum = 0, square = 0;
    moments(x, work->count, 0, &sum, &square);
    double mean = square / (double)work->count;
    const double inverse = 1 / sqrt(mean + work->epsilon);
    const float by = (float)inverse;
    if (inverse < 0x1p60 && inverse > 0x1p-60)
      for (int64_t i = 0; i < work->count; i++)
        y[i] = x[i] * by * scale[i];
    else
      for (int64_t i = 0; i < work->count; i++)
        y[i] = (float)((double)x[i] * inverse * (double)scale[i]);
  }
}

/* Of line `line`, run after run, the sums from its first element on. */
static void run_moments(const norm_work *work, const float *x, double *out_sum,
                        double *out_squares) {
  const strided *gone = &work->gone;
  int64_t offsets[STRIDED_OPERANDS] = {0}, index[STRIDED_RANK] = {0};
  *out_sum = *out_squares = 0;
  for (int64_t r = 0, runs = strided_rows(gone); r < runs; r++) {
    double sum = 0, squares = 0;
    moments(x + offsets[0], gone->dims[gone->rank - 1], (double)x[0], &sum,
            &squares);
    *out_sum += sum;
    *out_squares += squares;
    strided_next(gone, index, offsets);
  }
}

static void run_affine(const norm_work *work, const norming *v, int64_t from) {
  const strided *gone = &work->gone;
  const float *x = (const float *)work->x + from;
  float *y = (float *)work->y + from;
  int64_t offsets[STRIDED_OPERANDS] = {0}, index[STRIDED_RANK] = {0};
  for (int64_t r = 0, runs = strided_rows(gone); r < runs; r++) {
    affine(v, x + offsets[0], gone->dims[gone->rank - 1], 1, 0, y + offsets[0]);
    strided_next(gone, index, offsets);
  }
}

static void plain(void *context, int64_t begin, int64_t end) {
  const norm_work *work = context;
  const strided *kept = &work->kept;
  double count = (double)work->count;
  for (int64_t line = begin; line < end; line++) {
    int64_t from = 0, rest = line;
    for (int d = kept->rank - 1; d >= 0; rest /= kept->dims[d--])
      from += rest % kept->dims[d] * kept->steps[0][d];
    const float *x = (const float *)work->x + from;
    double sum = 0, squares = 0;
    run_moments(work, x, &sum, &squares);
    double off = sum / count, variance = squares / count - off * off;
    if (!(squares < (double)INFINITY)) { /* infinities, NaN */
      work->plain(context, line, line + 1);
      continue;
    }
    double deviation_of = sqrt(variance > 0 ? variance : 0);
    const norming v =
        norming_of((double)x[0] + off, 1 / (deviation_of + (double)1e-9f),
                   sqrt(squares) + fabs(off));
    run_affine(work, &v, from);
  }
}

static void scale(const float *x, const float *by, const float *shift,
                  int64_t n, float *y) {
  for (int64_t i = 0; i < n; i++)
    y[i] = x[i] * by[i] + shift[i];
}

/* The sum of n elements. */
static double total(const float *x, int64_t n) {
  reals s[4] = {{0}};
  int64_t i = 0;
  for (; i + BLOCK <= n; i += BLOCK) {
    s[0] += REALS(x + i);
    s[1] += REALS(x + i + LANES);
    s[2] += REALS(x + i + 2 * LANES);
    s[3] += REALS(x + i + 3 * LANES);
  }
  double sum = norm_rows_join(s);
  for (; i < n; i++)
    sum += (double)x[i];
  return sum;
}

#define CHUNK 256 /* elements at once, in the nearest cache */

static double sizes(const float *x, int64_t n) {
  float chunk[CHUNK];
  double sum = 0;
  for (int64_t from = 0; from < n; from += CHUNK) {
    int64_t count = cpu_least(CHUNK, n - from);
    for (int64_t i = 0; i < count; i++)
      chunk[i] = fabsf(x[from + i]);
    sum += total(chunk, count);
  }
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

static float norm_rows_largest(const float *x, int64_t n) {
  float most = x[0];
  int64_t i = 0;
  if (n >= BLOCK) {
    floats a = AT(x), b = AT(x + BLOCK / 2);
    for (i = BLOCK; i + BLOCK <= n; i += BLOCK) {
      const floats c = AT(x + i), d = AT(x + i + BLOCK / 2);
      const masks m = (masks)(c > a), k = (masks)(d > b);
      a = (floats)((m & (masks)c) | (~m & (masks)a));
      b = (floats)((k & (masks)d) | (~k & (masks)b));
    }
    for (int k = 0; k < BLOCK / 2; k++) {
      most = a[k] > most ? a[k] : most;
      most = b[k] > most ? b[k] : most;
    }
  }
  for (; i < n; i++)
    most = x[i] > most ? x[i] : most;
  return most;
}

/* The sum of all powers, which are left in y where there is one. */
static double powers(const float *x, int64_t n, float most, float *y) {
  double sum = 0;
  float chunk[CHUNK];
  for (int64_t from = 0; from < n; from += CHUNK) {
    int64_t count = cpu_least(CHUNK, n - from);
    float *to = y ? y + from : chunk;
    for (int64_t i = 0; i < count; i++)
      to[i] = power_of_e(x[from + i] - most);
    sum += sum_of_powers(to, count);
  }
  return sum;
}

static void soft_line(const soft_work *work, const float *x, float *y) {
  int64_t n = work->all.length;
  float most = norm_rows_largest(x, n);
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

/* Lines of CHUNK elements in all, at most; their powers are made at once. */
static void soft_short(const soft_work *work, const float *x, float *y,
                       int64_t lines) {
  int64_t n = work->all.length;
  float part[CHUNK];
  for (int64_t l = 0; l < lines; l++) {
    float most = norm_rows_largest(x + l * n, n);
    for (int64_t i = 0; i < n; i++)
      part[l * n + i] = x[l * n + i] - most;
  }
  if (work->how == SOFT_LOG) memcpy(y, part, (size_t)(lines * n) * sizeof *y);
  for (int64_t i = 0; i < lines * n; i++)
    part[i] = power_of_e(part[i]);
  for (int64_t l = 0; l < lines; l++) {
    double sum = sum_of_powers(part + l * n, n);
    float scale = (float)(1 / sum);
    float shift = work->how == SOFT_LOG ? (float)log(sum) : 0;
    for (int64_t i = l * n; i < (l + 1) * n; i++)
      y[i] = work->how == SOFT_LOG ? y[i] - shift : part[i] * scale;
  }
}

#define SHORT 64 /* a line */

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
    if (step == 1)
      n = work->all.length <= SHORT
              ? cpu_least(CHUNK / work->all.length, end - i)
              : 1;
    else
      n = cpu_least(cpu_least(CHUNK, end - i), step - i % step);
    if (step == 1 && work->all.length <= SHORT)
      soft_short(work, x + start, y + start, n);
    else if (step == 1)
      soft_line(work, x + start, y + start);
    else
      soft_columns(work, x + start, y + start, n);
  }
}

const cpu_norms NORMS = {.deviation = deviation,
                         .squares = squares,
                         .lengths = {length_1, length_2},
                         .plain = plain,
                         .scale = scale,
                         .soft = soft_lines};
