/* pool_rows.c - pooling by tiles of an image, whose rows become vectors.
 *
 * Compiled once for each instruction set, with POOLS naming the result. A window is separable:
 * taps are joined downwards first, then across, so that K x L taps cost K + L operations.
 *
 *     image    rows of the input that a tile sees, padded with the neutral element (NONE),
 *              in phases: those a stride apart side by side, r0 r2 r4 ... | r1 r3 r5 ...
 *     joined   of each row of results, its taps downwards
 *     split    the same with its elements in phases, e0 e2 e4 ... | e1 e3 e5 ...
 *     across   the results
 *
 * In phases, one tap of all windows is one run of neighbours: the innermost loop goes along a
 * run, and becomes vectors. Strides of more than 4 across are taken element by element
 * (leaps). Maxima are of the elements' width; sums are doubles. */
#include "pool.h"

#include "dialect.h"

/* One tile: where its results lie, and its rows in memory. */
typedef struct tile {
  const pool_work *work;
  int64_t row, column, rows, columns; /* of results */
  int64_t plane;                      /* of image and channel */
  int64_t high, wide; /* of the image: rows of a phase, and their elements */
  /* its place in all dimensions but the last two */
  int64_t outer[WINDOW_SPACE];
} tile;

/* The geometry of the last two dimensions; a row alone is a plane of one. */
typedef struct side {
  int64_t kernel, stride, dilation, begin, end, in, out;
} side;

static inline side side_of(const window *w, int from_last) {
  int d = w->space - from_last;
  if (d < 0) return (side){1, 1, 1, 0, 0, 1, 1};
  return (side){w->kernel[d], w->stride[d], w->dilation[d], w->begin[d],
                w->end[d],    w->in[d],     w->out[d]};
}

/* Longer steps across are taken as they are: a row by so many phases is none. */
static inline int64_t phases_of(const side *x) {
  return x->stride <= 4 ? x->stride : 1;
}

static tile tile_at(const pool_work *work, int64_t item) {
  const side y = side_of(&work->w, 2), x = side_of(&work->w, 1);
  tile t = {.work = work};
  t.column = item % work->across * work->wide;
  item /= work->across;
  t.row = item % work->down * work->tall;
  item /= work->down;
  for (int d = work->w.space - 3; d >= 0; d--) {
    t.outer[d] = item % work->w.out[d];
    item /= work->w.out[d];
  }
  t.plane = item;
  t.rows = cpu_least(work->tall, y.out - t.row);
  t.columns = cpu_least(work->wide, x.out - t.column);
  t.high = t.rows + (y.kernel - 1) * y.dilation / y.stride;
  t.wide = (t.columns - 1) * x.stride + (x.kernel - 1) * x.dilation + 1;
  t.wide = (t.wide + phases_of(&x) - 1) / phases_of(&x) * phases_of(&x);
  return t;
}

/* Elements that a tile needs: its image, joined rows, those by phases, results. */
static size_t tile_size(const tile *t) {
  const side y = side_of(&t->work->w, 2);
  return (size_t)((y.stride * t->high + 3 * t->rows) * t->wide);
}

/* Whether some tap falls on rows of this phase. */
static bool phase_used(const side *s, int64_t phase) {
  for (int64_t k = 0; k < cpu_least(s->kernel, s->stride); k++)
    if (k * s->dilation % s->stride == phase) return true;
  return false;
}

/* The plane of the image that tap n of the outer dimensions is on, or -1 outside. */
static int64_t outer_plane(const tile *t, int64_t n) {
  const window *w = &t->work->w;
  int64_t plane = 0, scale = 1, total = 1;
  bool inside = true;
  for (int d = w->space - 3; d >= 0; d--) {
    int64_t at = t->outer[d] * w->stride[d] - w->begin[d] +
                 n % w->kernel[d] * w->dilation[d];
    n /= w->kernel[d];
    inside = inside && at >= 0 && at < w->in[d];
    plane += at * scale;
    scale *= w->in[d];
  }
  total = scale;
  return inside ? t->plane * total + plane : -1;
}

static int64_t outer_taps(const window *w) {
  int64_t taps = 1;
  for (int d = 0; d + 2 < w->space; d++)
    taps *= w->kernel[d];
  return taps;
}

static int64_t inner_outs(const window *w) {
  int64_t count = 1;
  for (int d = 0; d + 2 < w->space; d++)
    count *= w->out[d];
  return count;
}

/* Where a tile's first result lies, and how far the next row is. */
static int64_t result_at(const tile *t) {
  const window *w = &t->work->w;
  const side y = side_of(w, 2), x = side_of(w, 1);
  int64_t at = t->plane * inner_outs(w), scale = 1;
  for (int d = w->space - 3; d >= 0; d--) {
    at += t->outer[d] * scale;
    scale *= w->out[d];
  }
  return (at * y.out + t->row) * x.out + t->column;
}

/* Taps of a window that count, along one dimension. */
static double taps_of(const pool_work *work, const side *s, int64_t out) {
  int64_t at = out * s->stride - s->begin, length = s->in - at;
  if (at >= 0 && (s->kernel - 1) * s->dilation < length) /* all inside */
    return (double)s->kernel;
  int64_t skip = TAPS_BELOW(0 - at, s->dilation, s->kernel);
  if (work->count_pad)
    return (double)TAPS_BELOW(length + s->end, s->dilation, s->kernel);
  return (double)(TAPS_BELOW(length, s->dilation, s->kernel) - skip);
}

/* The same over all dimensions but the last. */
static double taps_of_row(const tile *t, int64_t row) {
  const window *w = &t->work->w;
  const side y = side_of(w, 2);
  double taps = w->space > 1 ? taps_of(t->work, &y, row) : 1;
  for (int d = 0; d + 2 < w->space; d++) {
    const side s = side_of(w, w->space - d);
    taps *= taps_of(t->work, &s, t->outer[d]);
  }
  return taps;
}

#define COLUMNS_COUNTED \
  4096 /* columns of results whose taps are counted ahead */

/* Whether all results of a tile are of as many taps: none of its windows leaves the image. */
static bool has_one_count(const tile *t) {
  const window *w = &t->work->w;
  const side y = side_of(w, 2), x = side_of(w, 1);
  int64_t top = t->row * y.stride - y.begin;
  return w->space <= 2 && x.kernel == 1 && !x.begin && !x.end && top >= 0 &&
         top + (t->rows - 1) * y.stride + (y.kernel - 1) * y.dilation < y.in;
}

#define POWER(x) \
  (work->p == 2 ? (x) * (x) : work->p == 1 ? (x) : pow(x, (double)work->p))
#define ROOT(x) \
  (work->p == 2 ? sqrt(x) : work->p == 1 ? (x) : pow(x, 1 / (double)work->p))

#define EACH      "windows/pool_rows_typed.h"
#define KIND      0
#define POOL      largest
#define T         C
#define NONE      ((T)-INFINITY)
#define FILLED(v) (v)
/* NaN stays */
#define JOIN(s, x) ((x) != (x) || (x) > (s) ? (x) : (s))
#include "each_float.h"
#undef NONE
#define NONE JOINED(LEAST_, TYPE)
#define TYPE u8
#include EACH
#undef TYPE
#define TYPE i8
#include EACH
#undef TYPE
#undef KIND
#undef POOL
#undef NONE
#undef T
#undef JOIN
#define T          double
#define NONE       0
#define JOIN(s, x) ((s) + (x))
#define KIND       1
#define POOL       mean
#include "each_float.h"
#undef KIND
#undef POOL
#undef FILLED
#define FILLED(v) POWER(fabs(v))
#define KIND      2
#define POOL      norm
#include "each_float.h"

const cpu_pools POOLS = {
    .tiles = {
        {FLOAT_TABLE(largest), [KD_U8] = largest_u8, [KD_I8] = largest_i8},
        {FLOAT_TABLE(mean)},
        {FLOAT_TABLE(norm)}}};
