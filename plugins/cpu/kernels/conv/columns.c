/* columns.c - im2col and col2im: a convolution as a product of matrices.
 *
 *     columns[(channel, tap), output] = x[channel, output * stride + tap * dilation - pad]
 *     Y[filter, output] = weights[filter, (channel, tap)] x columns
 *
 * Of each tap, the outputs [low, high) of a row are inside the input: a run of the last
 * dimension is copied, or every stride-th element of it, and what lies outside is zero. The
 * innermost loop is along that run. cpu_columns_add is the transpose: it adds each column to
 * the elements that it came from (ConvTranspose). Both run on the calling thread. */
#include "columns.h"

/* A position in the window, and where its rows begin and end. */
typedef struct tap {
  const window *w;
  int64_t at[WINDOW_SPACE]; /* in the input, for output position 0 */
  int64_t low, high; /* of the last dimension's outputs: inside the input */
} tap;

static int64_t floor_div(int64_t a, int64_t b) {
  return a >= 0 ? a / b : -((-a + b - 1) / b);
}

static tap tap_of(const window *w, int64_t number) {
  tap t = {.w = w, .low = 0, .high = 1};
  for (int i = w->space - 1; i >= 0; number /= w->kernel[i--])
    t.at[i] = number % w->kernel[i] * w->dilation[i] - w->begin[i];
  if (!w->space) return t;
  int last = w->space - 1;
  int64_t step = w->stride[last], at = t.at[last];
  t.low = at >= 0 ? 0 : (-at + step - 1) / step;
  t.high = floor_div(w->in[last] - 1 - at, step) + 1;
  t.low = t.low < w->out[last] ? t.low : w->out[last];
  t.high = t.high < w->out[last] ? t.high : w->out[last];
  t.high = t.high > t.low ? t.high : t.low;
  return t;
}

/* The element of the plane that the row of outputs `index` begins at, if the dimensions
 * before the last are inside the input; else -1 and *inside is false. */
static int64_t columns_row_of(const tap *t, const int64_t *index,
                              bool *inside) {
  const window *w = t->w;
  int64_t from = 0;
  *inside = true;
  for (int i = 0; i + 1 < w->space; i++) {
    int64_t p = index[i] * w->stride[i] + t->at[i];
    *inside &= p >= 0 && p < w->in[i];
    from = from * w->in[i] + p;
  }
  int last = w->space - 1;
  return w->space ? from * w->in[last] + t->at[last] : 0;
}

/* to[i] = from[i * step], elements of `size` bytes. */
static void copy_row(char *to, const char *from, int64_t n, int64_t step,
                     size_t size) {
  if (step == 1) {
    memcpy(to, from, (size_t)n * size);
  } else if (size == 4) {
    const uint32_t *source = (const void *)from;
    for (int64_t i = 0; i < n; i++)
      ((uint32_t *)(void *)to)[i] = source[i * step];
  } else {
    for (int64_t i = 0; i < n; i++)
      memcpy(to + (size_t)i * size, from + (size_t)(i * step) * size, size);
  }
}

/* Outputs [begin, end) of one row. */
static void gather_row(const tap *t, const char *plane, const int64_t *index,
                       int64_t begin, int64_t end, size_t size, char *to) {
  bool inside;
  int64_t from = columns_row_of(t, index, &inside);
  int64_t step = t->w->space ? t->w->stride[t->w->space - 1] : 1;
  int64_t low = t->low > begin ? t->low : begin;
  int64_t high = t->high < end ? t->high : end;
  if (!inside || high <= low) {
    memset(to, 0, (size_t)(end - begin) * size);
    return;
  }
  memset(to, 0, (size_t)(low - begin) * size);
  copy_row(to + (size_t)(low - begin) * size,
           plane + (from + low * step) * (int64_t)size, high - low, step, size);
  memset(to + (size_t)(high - begin) * size, 0, (size_t)(end - high) * size);
}

static void next_row(const window *w, int64_t *index) {
  for (int i = w->space - 1; i-- > 0;) {
    if (++index[i] < w->out[i]) return;
    index[i] = 0;
  }
}

/* The row of outputs that position `from` is in, as an index of the dimensions before the
 * last; returns the position in that row. */
static int64_t row_index(const window *w, int64_t from, int64_t *index) {
  int64_t width = w->space ? w->out[w->space - 1] : 1;
  int64_t row = from / width;
  for (int i = w->space - 1; i-- > 0; row /= w->out[i])
    index[i] = row % w->out[i];
  return from % width;
}

static int64_t columns_taps_of(const window *w) {
  return product(w->kernel, 0, (uint32_t)w->space);
}

void cpu_columns(const window *w, const char *x, int64_t channels, size_t size,
                 int64_t from, int64_t to, char *columns) {
  int64_t taps = columns_taps_of(w),
          plane = product(w->in, 0, (uint32_t)w->space);
  int64_t width = w->space ? w->out[w->space - 1] : 1;
  for (int64_t k = 0; k < taps; k++) {
    tap t = tap_of(w, k);
    for (int64_t c = 0; c < channels; c++) {
      char *row = columns + (size_t)((c * taps + k) * (to - from)) * size;
      int64_t index[WINDOW_SPACE] = {0};
      int64_t begin = row_index(w, from, index);
      for (int64_t at = from, n; at < to; at += n, begin = 0) {
        n = to - at < width - begin ? to - at : width - begin;
        gather_row(&t, x + (size_t)(c * plane) * size, index, begin, begin + n,
                   size, row + (size_t)(at - from) * size);
        next_row(w, index);
      }
    }
  }
}

#define ADD_ROW(T)                        \
  do {                                    \
    const T *source = (const void *)from; \
    T *sums = (void *)to;                 \
    if (step == 1)                        \
      for (int64_t i = 0; i < n; i++)     \
        sums[i] += source[i];             \
    else                                  \
      for (int64_t i = 0; i < n; i++)     \
        sums[i * step] += source[i];      \
  } while (0)

static void add_row(char *to, const char *from, int64_t n, int64_t step,
                    kd_dtype dtype) {
  if (dtype == KD_F32)
    ADD_ROW(float);
  else
    ADD_ROW(double);
}

void cpu_columns_add(const window *w, char *x, int64_t channels, kd_dtype dtype,
                     const char *columns) {
  int64_t taps = columns_taps_of(w),
          plane = product(w->in, 0, (uint32_t)w->space);
  int64_t width = w->space ? w->out[w->space - 1] : 1;
  int64_t outs = product(w->out, 0, (uint32_t)w->space);
  int64_t step = w->space ? w->stride[w->space - 1] : 1;
  size_t size = kd_dtype_size(dtype);
  for (int64_t k = 0; k < taps; k++) {
    tap t = tap_of(w, k);
    for (int64_t c = 0; c < channels; c++) {
      const char *row = columns + (size_t)((c * taps + k) * outs) * size;
      int64_t index[WINDOW_SPACE] = {0};
      for (int64_t at = 0; at < outs; at += width) {
        bool inside;
        int64_t to = columns_row_of(&t, index, &inside);
        if (inside)
          add_row(x + (c * plane + to + t.low * step) * (int64_t)size,
                  row + (size_t)(at + t.low) * size, t.high - t.low, step,
                  dtype);
        next_row(w, index);
      }
    }
  }
}
