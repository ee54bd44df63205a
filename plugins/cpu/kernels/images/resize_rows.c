/* resize_rows.c - Resize by rows that become vectors.
 *
 * Compiled once for each instruction set, with RESIZES naming the result. The
 * dimensions are resized one after the other, in doubles. Where the first one grows it is
 * the last to be resized, and what the others make of an input is kept for the outputs that
 * share it; where it shrinks it is the first, so that less is left for the others. */
#include "resize.h"

#include "dialect.h"

#define CHUNK 512 /* elements at once, in the nearest cache */

/* Elements below one index of axis `first`, of inputs or of outputs. */
static int64_t below(const resize_rows *r, int first, bool outputs) {
  int64_t count = r->tail;
  for (int a = first; a < r->count; a++)
    count *= outputs ? r->axes[a].out : r->axes[a].in;
  return count;
}

static bool resize_rows_stays(const resize_taps *axis) {
  bool same = axis->in == axis->out && axis->width == 1;
  for (int64_t o = 0; same && o < axis->out; o++)
    same = axis->index[o] == o;
  return same;
}

/* ---- nearest ----------------------------------------------------------------- */

/* Defines copy_type, an axis by nearest elements, and twice_type, by each of them twice. */
#define COPY(type)                                                          \
  static void copy_##type(const resize_taps *axis, const type *restrict x,  \
                          type *restrict y) {                               \
    for (int64_t o = 0; o < axis->out; o++)                                 \
      y[o] = x[axis->index[o]];                                             \
  }                                                                         \
  static void twice_##type(const resize_taps *axis, const type *restrict x, \
                           type *restrict y) {                              \
    for (int64_t o = 0; o < axis->in; o++)                                  \
      y[2 * o] = y[2 * o + 1] = x[o];                                       \
  }
COPY(uint8_t)
COPY(uint16_t)
COPY(uint32_t)
COPY(uint64_t)

static bool doubles(const resize_taps *axis) {
  bool twice = axis->out == 2 * axis->in;
  for (int64_t o = 0; twice && o < axis->out; o++)
    twice = axis->index[o] == o / 2;
  return twice;
}

/* What is known of the last axis. */
typedef struct near_row {
  bool stays[KD_MAX_RANK]; /* an axis and all behind it */
  bool twice;
} near_row;

static void near_elements(const resize_rows *r, const near_row *row,
                          const char *x, char *y) {
  const resize_taps *axis = &r->axes[r->count - 1];
  size_t bytes = (size_t)r->tail * r->size;
#define CASE(type)                                                   \
  case sizeof(type):                                                 \
    (row->twice ? twice_##type : copy_##type)(axis, (const void *)x, \
                                              (void *)y);            \
    return;
  switch (bytes) {
    CASE(uint8_t)
    CASE(uint16_t)
    CASE(uint32_t)
    CASE(uint64_t)
    default:
      for (int64_t o = 0; o < axis->out; o++)
        memcpy(y + (size_t)o * bytes, x + (size_t)axis->index[o] * bytes,
               bytes);
  }
}

/* Outputs [begin, end) of axis a; y is the first of them. */
static void near_axis(const resize_rows *r, const near_row *row, int a,
                      int64_t begin, int64_t end, const char *x, char *y) {
  size_t in = (size_t)below(r, a + 1, false) * r->size;
  size_t out = (size_t)below(r, a + 1, true) * r->size;
  const resize_taps *axis = &r->axes[a];
  if (row->stays[a]) {
    memcpy(y, x + (size_t)begin * in, (size_t)(end - begin) * in);
  } else if (a == r->count - 1 && begin == 0 && end == axis->out) {
    near_elements(r, row, x, y);
  } else {
    for (int64_t o = begin; o < end; o++, y += out) {
      const char *from = x + (size_t)axis->index[o] * in;
      if (o > begin && axis->index[o] == axis->index[o - 1])
        memcpy(y, y - out, out);
      else if (a == r->count - 1)
        memcpy(y, from, out);
      else
        near_axis(r, row, a + 1, 0, r->axes[a + 1].out, from, y);
    }
  }
}

/* The image, and where its first output of the item lies. */
typedef struct band {
  int64_t begin, end, x, y; /* outputs of the first axis; elements */
} band;

static band band_at(const resize_rows *r, int64_t item) {
  const resize_taps *first = &r->axes[0];
  int64_t outer = item / r->bands;
  band b = {.begin = item % r->bands * r->band};
  b.end = cpu_least(b.begin + r->band, first->out);
  b.x = outer * below(r, 0, false);
  b.y = outer * below(r, 0, true) + b.begin * below(r, 1, true);
  return b;
}

static void nearest(void *context, int64_t begin, int64_t end) {
  const resize_rows *r = context;
  near_row row = {.twice = doubles(&r->axes[r->count - 1])};
  bool all = true;
  for (int a = r->count - 1; a >= 0; a--)
    row.stays[a] = all = all && resize_rows_stays(&r->axes[a]);
  for (int64_t i = begin; i < end; i++) {
    band b = band_at(r, i);
    near_axis(r, &row, 0, b.begin, b.end,
              (const char *)r->x + (size_t)b.x * r->size,
              (char *)r->y + (size_t)b.y * r->size);
  }
}

/* ---- weighted sums ------------------------------------------------------------ */

/* n elements of the sum of `width` rows, `apart` elements from each other by index. */
static void sum_rows(const double *x, const int64_t *index,
                     const double *weight, int64_t width, int64_t apart,
                     int64_t n, double *restrict y) {
  const double *a = x + index[0] * apart;
  double wa = weight[0];
  int64_t k = 1;
  if (width == 1) {
    for (int64_t i = 0; i < n; i++)
      y[i] = a[i] * wa;
  } else {
    const double *b = x + index[1] * apart, wb = weight[1];
    for (int64_t i = 0; i < n; i++)
      y[i] = a[i] * wa + b[i] * wb;
    k = 2;
  }
  for (; k + 1 < width; k += 2) {
    const double *c = x + index[k] * apart, *d = x + index[k + 1] * apart;
    const double wc = weight[k], wd = weight[k + 1];
    for (int64_t i = 0; i < n; i++)
      y[i] = y[i] + c[i] * wc + d[i] * wd;
  }
  if (k < width) {
    const double *c = x + index[k] * apart, wc = weight[k];
    for (int64_t i = 0; i < n; i++)
      y[i] += c[i] * wc;
  }
}

/* A row of elements, resized. */
static void sum_elements(const resize_taps *axis, const double *x,
                         double *restrict y) {
  const int64_t *index = axis->index;
  const double *weight = axis->weight;
  int64_t width = axis->width;
  if (width == 2) {
    for (int64_t o = 0; o < axis->out; o++)
      y[o] = x[index[2 * o]] * weight[2 * o] +
             x[index[2 * o + 1]] * weight[2 * o + 1];
    return;
  }
  for (int64_t o = 0; o < axis->out; o++, index += width, weight += width) {
    double sum = x[index[0]] * weight[0];
    for (int64_t k = 1; k < width; k++)
      sum += x[index[k]] * weight[k];
    y[o] = sum;
  }
}

/* Axes from `first` on of what is in `from`, resized by way of `other`, the last one
 * first; returns which of the two has it. */
static double *sum_axes(const resize_rows *r, int first, double *from,
                        double *other) {
  int64_t inner = r->tail;
  for (int a = r->count - 1; a >= first; a--) {
    const resize_taps *axis = &r->axes[a];
    int64_t before = 1;
    for (int b = first; b < a; b++)
      before *= r->axes[b].in;
    if (!resize_rows_stays(axis)) {
      for (int64_t i = 0; i < before; i++) {
        const double *x = from + i * axis->in * inner;
        double *y = other + i * axis->out * inner;
        if (inner == 1)
          sum_elements(axis, x, y);
        else
          for (int64_t o = 0; o < axis->out; o++)
            sum_rows(x, axis->index + o * axis->width,
                     axis->weight + o * axis->width, axis->width, inner, inner,
                     y + o * inner);
      }
      double *swap = from;
      from = other;
      other = swap;
    }
    inner *= axis->out;
  }
  return from;
}

/* Elements of the largest that is between two axes. */
static int64_t widest(const resize_rows *r) {
  int64_t most = below(r, 1, false), size = most;
  for (int a = r->count - 1; a >= 1; a--) {
    size = size / r->axes[a].in * r->axes[a].out;
    most = size > most ? size : most;
  }
  return most;
}

/* Rows that are kept at once: those of a window lie in a row, and are at most so many. */
static int64_t slots_of(const resize_rows *r) {
  return r->axes[0].width;
}

/* Whether the first axis goes first. */
static bool shrinks(const resize_rows *r) {
  return r->axes[0].out < r->axes[0].in;
}

#define EACH   "images/resize_rows_typed.h"
#define STORED STORE
#include "each_float.h"
#undef STORED

/* Cut off toward zero, within the type; what is a whole number but for the rounding of
 * its sum is that number. */
static inline int32_t resize_rows_whole(double x, double least, double most) {
  double near = x < 0 ? x - 0x1p-30 : x + 0x1p-30;
  near = near > least ? near : least;
  return (int32_t)(near < most ? near : most);
}

#define STORED(v)                                        \
  ((S)resize_rows_whole(v, (double)JOINED(LEAST_, TYPE), \
                        (double)JOINED(MOST_, TYPE)))
#define TYPE u8
#include EACH
#undef TYPE
#define TYPE i8
#include EACH
#undef TYPE
#define TYPE u16
#include EACH
#undef TYPE
#define TYPE i16
#include EACH
#undef TYPE
#define TYPE i32
#include EACH
#undef TYPE

const cpu_resizes RESIZES = {
    .nearest = nearest,
    .sums = {FLOAT_TABLE(sums), [KD_U8] = sums_u8, [KD_I8] = sums_i8,
             [KD_U16] = sums_u16, [KD_I16] = sums_i16, [KD_I32] = sums_i32}};
