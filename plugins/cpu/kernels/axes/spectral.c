/* spectral.c - DFT (opset 20), STFT (opset 17) and the mel scale's matrix.
 *
 * Transforms are computed in double: by halves where the size is a power of two,
 * else as a convolution of that size (Bluestein, 1970). */
#include "kernels.h"

static const double pi = 3.14159265358979323846;

typedef struct complex_number {
  double re, im;
} complex_number;

static complex_number spectral_times(complex_number a, complex_number b) {
  return (complex_number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

/* e^(sign 2 pi i k / n) */
static complex_number root(int64_t k, int64_t n, double sign) {
  double angle = 2 * pi * (double)(k % n) / (double)n;
  return (complex_number){cos(angle), sign * sin(angle)};
}

/* A transform of one size and direction, with its tables. */
typedef struct transform {
  int64_t size, wide;     /* wide: a power of two, size itself or above twice */
  complex_number *roots;  /* of `wide`, half of them */
  complex_number *chirp;  /* of `size`, where size is no power of two */
  complex_number *filter; /* its transform, `wide` */
  complex_number *work;   /* `wide` */
} transform;

/* In place; data has t->wide elements. */
static void by_halves(const transform *t, complex_number *data, bool inverse) {
  int64_t n = t->wide;
  for (int64_t i = 1, k = 0; i < n; i++) { /* bits in reverse */
    int64_t bit = n >> 1;
    for (; k & bit; bit >>= 1)
      k ^= bit;
    k ^= bit;
    if (i < k) {
      complex_number swap = data[i];
      data[i] = data[k];
      data[k] = swap;
    }
  }
  for (int64_t size = 2; size <= n; size *= 2)
    for (int64_t from = 0; from < n; from += size)
      for (int64_t k = 0; k < size / 2; k++) {
        complex_number w = t->roots[k * (n / size)];
        if (inverse) w.im = -w.im;
        complex_number a = data[from + k];
        complex_number b = spectral_times(w, data[from + k + size / 2]);
        data[from + k] = (complex_number){a.re + b.re, a.im + b.im};
        data[from + k + size / 2] = (complex_number){a.re - b.re, a.im - b.im};
      }
}

static void transform_free(transform *t) {
  free(t->roots);
  free(t->chirp);
  free(t->filter);
  free(t->work);
}

static bool transform_make(transform *t, int64_t size, double sign) {
  *t = (transform){.size = size, .wide = 1};
  bool even = (size & (size - 1)) == 0;
  while (t->wide < (even ? size : 2 * size - 1))
    t->wide *= 2;
  size_t wide = (size_t)t->wide;
  t->roots = malloc((wide / 2 + 1) * sizeof *t->roots);
  t->work = malloc((wide + 1) * sizeof *t->work);
  if (!t->roots || !t->work) return false;
  for (int64_t k = 0; k < t->wide / 2; k++)
    t->roots[k] = root(k, t->wide, even ? sign : -1);
  if (even) return true;
  t->chirp = malloc((size_t)size * sizeof *t->chirp);
  t->filter = calloc(wide, sizeof *t->filter);
  if (!t->chirp || !t->filter) return false;
  for (int64_t k = 0; k < size; k++) /* k^2 is taken modulo 2 size */
    t->chirp[k] = root(k * k % (2 * size), 2 * size, sign);
  for (int64_t k = 0; k < size; k++) {
    complex_number c = {t->chirp[k].re, -t->chirp[k].im};
    t->filter[k] = c;
    if (k) t->filter[t->wide - k] = c;
  }
  by_halves(t, t->filter, false);
  return true;
}

/* Transforms t->work in place: its first `size` elements. */
static void transform_run(const transform *t) {
  if (!t->chirp) {
    by_halves(t, t->work, false);
    return;
  }
  for (int64_t k = 0; k < t->wide; k++)
    t->work[k] = k < t->size ? spectral_times(t->work[k], t->chirp[k])
                             : (complex_number){0, 0};
  by_halves(t, t->work, false);
  for (int64_t k = 0; k < t->wide; k++)
    t->work[k] = spectral_times(t->work[k], t->filter[k]);
  by_halves(t, t->work, true);
  for (int64_t k = 0; k < t->size; k++) {
    t->work[k] = spectral_times(t->work[k], t->chirp[k]);
    t->work[k].re /= (double)t->wide;
    t->work[k].im /= (double)t->wide;
  }
}

static complex_number read_complex(const kd_tensor *x, int64_t at,
                                   int64_t parts) {
  return (complex_number){
      cpu_get(x->data, x->dtype, at * parts),
      parts == 2 ? cpu_get(x->data, x->dtype, at * parts + 1) : 0};
}

/* What `half` of a spectrum says of all of it, where the signal is real: bin size - k is
 * the conjugate of bin k, so that 0 and the middle one are real. */
static void complete(complex_number *bins, int64_t size) {
  bins[0].im = 0;
  for (int64_t k = 1; k <= size / 2; k++) {
    if (2 * k == size) bins[k].im = 0;
    bins[size - k] = (complex_number){bins[k].re, -bins[k].im};
  }
}

static void write_complex(const kd_tensor *y, int64_t at, complex_number z,
                          double scale) {
  int64_t parts = y->dims[y->rank - 1];
  cpu_set(y->data, y->dtype, parts * at, z.re * scale);
  if (parts == 2) cpu_set(y->data, y->dtype, 2 * at + 1, z.im * scale);
}

CPU_KERNEL(cpu_run_dft) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  int64_t along = kd_has_input(launch, 2) ? int_at(&launch->inputs[2], 0) : -2;
  uint32_t axis = axis_of(along, x->rank);
  bool inverse = attr_int(launch, "inverse", 0) != 0;
  bool half = inverse && attr_int(launch, "onesided", 0);
  int64_t parts = x->dims[x->rank - 1], have = x->dims[axis];
  int64_t bins = y->dims[axis], outer = product(x->dims, 0, axis);
  int64_t inner = product(x->dims, axis + 1, x->rank - 1);
  int64_t size = half                      ? bins
                 : kd_has_input(launch, 1) ? int_at(&launch->inputs[1], 0)
                                           : have;
  if (size < 1 || !kd_elements(y)) return KD_OK;
  transform t;
  if (!transform_make(&t, size, inverse ? 1 : -1)) {
    transform_free(&t);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a transform of %lld",
                (long long)size);
  }
  for (int64_t line = 0; line < outer * inner; line++) {
    int64_t o = line / inner, r = line % inner;
    for (int64_t k = 0; k < size; k++)
      t.work[k] = k < have ? read_complex(x, (o * have + k) * inner + r, parts)
                           : (complex_number){0, 0};
    if (half) complete(t.work, size);
    transform_run(&t);
    for (int64_t k = 0; k < bins; k++)
      write_complex(y, (o * bins + k) * inner + r, t.work[k],
                    inverse ? 1 / (double)size : 1);
  }
  transform_free(&t);
  return KD_OK;
}

CPU_KERNEL(cpu_run_stft) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const kd_tensor *window = kd_has_input(launch, 2) ? &launch->inputs[2] : NULL;
  int64_t step = int_at(&launch->inputs[1], 0), samples = x->dims[1];
  int64_t size = kd_has_input(launch, 3) ? int_at(&launch->inputs[3], 0)
                 : window                ? kd_elements(window)
                                         : 0;
  int64_t parts = x->rank == 3 ? x->dims[2] : 1;
  int64_t frames = y->dims[1], bins = y->dims[2];
  if (!kd_elements(y)) return KD_OK;
  if (size < 1 || (window && kd_elements(window) != size))
    return FAIL(KD_INVALID_ARGUMENT, "a window of %lld for frames of %lld",
                (long long)(window ? kd_elements(window) : 0), (long long)size);
  transform t;
  if (!transform_make(&t, size, -1)) {
    transform_free(&t);
    return FAIL(KD_OUT_OF_MEMORY, "no memory for a transform of %lld",
                (long long)size);
  }
  for (int64_t i = 0; i < x->dims[0] * frames; i++) {
    int64_t from = i / frames * samples + i % frames * step;
    for (int64_t k = 0; k < size; k++) {
      double w = window ? cpu_get(window->data, window->dtype, k) : 1;
      complex_number z = read_complex(x, from + k, parts);
      t.work[k] = (complex_number){z.re * w, z.im * w};
    }
    transform_run(&t);
    for (int64_t k = 0; k < bins; k++)
      write_complex(y, i * bins + k, t.work[k], 1);
  }
  transform_free(&t);
  return KD_OK;
}

/* Triangles between bins of the spectrum, evenly spaced in mel. */
CPU_KERNEL(cpu_run_mel) {
  const kd_tensor *in = launch->inputs, *y = &launch->outputs[0];
  int64_t mels = int_at(&in[0], 0), size = int_at(&in[1], 0);
  double rate = (double)int_at(&in[2], 0);
  double low = 2595 * log10(1 + cpu_get(in[3].data, in[3].dtype, 0) / 700);
  double high = 2595 * log10(1 + cpu_get(in[4].data, in[4].dtype, 0) / 700);
  double step = (high - low) / (double)(mels + 2);
  int64_t bins = y->dims[0], edges[3] = {0, 0, 0};
  if (!(rate > 0)) return FAIL(KD_INVALID_ARGUMENT, "sample_rate is %g", rate);
  if (y->size) memset(y->data, 0, y->size);
  for (int64_t i = 0; i < mels + 2; i++) {
    double hertz = 700 * (pow(10, (low + step * (double)i) / 2595) - 1);
    double edge = floor((double)(size + 1) * hertz / rate);
    edges[0] = edges[1];
    edges[1] = edges[2];
    edges[2] = edge < 0 ? 0 : edge < (double)bins ? (int64_t)edge : bins;
    if (i < 2) continue;
    for (int64_t k = edges[0]; k < edges[2] && k < bins; k++) {
      double up = (double)(k - edges[0]) / (double)(edges[1] - edges[0]);
      double down = (double)(edges[2] - k) / (double)(edges[2] - edges[1]);
      cpu_set(y->data, y->dtype, k * mels + i - 2, k < edges[1] ? up : down);
    }
    if (edges[1] < bins) cpu_set(y->data, y->dtype, edges[1] * mels + i - 2, 1);
  }
  return KD_OK;
}
