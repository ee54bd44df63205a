/* winograd_loops.c - the transforms and products of winograd.c.
 *
 * Compiled once for each instruction set that has blocks, with WINOGRAD naming the result.
 *
 *          1   0   0            1  0 -1  0           1  0
 *     G = .5  .5  .5       B' = 0  1  1  0       A = 1  1
 *         .5 -.5  .5            0 -1  1  0           1 -1
 *          0   0   1            0  1  0 -1           0 -1
 *
 * A lane is a channel where the input is transformed, else a filter. In the product, the loop
 * over channels is innermost: the sums of up to ROWS tiles by a panel, two vectors of filters,
 * stay in registers. All factors of transforms are 0, 1 and halves: no bit of a small integer
 * is lost.
 *
 *   EACH(X)  X(1) X(2) ... X(ROWS)     TILE(R)  defines rows_R: `rows` with R constant */
#include "unroll.h"
#include "winograd.h"

#ifdef __AVX512F__
#define LANES   16
#define ROWS    12
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#else
#define LANES   8
#define ROWS    6
#define EACH(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
#define PANEL ((int64_t)2 * LANES)
#define TAPS  9

typedef float vector
    __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t mask
    __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

INLINE vector load(const float *from) {
  return *(const vector *)from;
}

INLINE void store(float *to, vector value) {
  *(vector *)to = value;
}

/* ---- weights -------------------------------------------------------------------------- */

/* Three taps of a row or column become four. */
INLINE void widen(const vector *taps, int64_t step, vector *to,
                  int64_t to_step) {
  vector ends = taps[0] + taps[2 * step], middle = taps[step];
  to[0] = taps[0];
  to[to_step] = (ends + middle) * 0.5f;
  to[2 * to_step] = (ends - middle) * 0.5f;
  to[3 * to_step] = taps[2 * step];
}

/* Nine taps of one panel; false: not all sums of them are numbers. */
static bool pack_taps(const float *taps, float *u, int64_t step) {
  vector w[TAPS], tall[12], all[WINOGRAD_SPOTS], strange = {0};
  for (int64_t half = 0; half < PANEL; half += LANES) {
    for (int t = 0; t < TAPS; t++)
      w[t] = load(taps + t * PANEL + half);
    for (int64_t i = 0; i < 3; i++)
      widen(w + i, 3, tall + i, 3);
    for (int64_t i = 0; i < 4; i++)
      widen(tall + 3 * i, 1, all + 4 * i, 1);
    for (int64_t s = 0; s < WINOGRAD_SPOTS; s++) {
      store(u + s * step + half, all[s]);
      strange += all[s] * 0;
    }
  }
  bool numbers = true;
  for (int i = 0; i < LANES; i++)
    numbers = numbers && strange[i] == 0;
  return numbers;
}

static bool winograd_loops_pack(const float *weights, int64_t filters,
                                int64_t ins, int64_t layers, float *u,
                                int64_t step) {
  int64_t depth = (ins + LANES - 1) / LANES * LANES;
  bool numbers = true;
  for (int64_t layer = 0; layer < layers; layer++)
    for (int64_t k = 0; k < depth; k++, u += PANEL) {
      float taps[TAPS * 2 * LANES] = {0};
      for (int64_t f = 0; f < filters && k < ins; f++)
        for (int64_t t = 0; t < TAPS; t++)
          taps[t * PANEL + f] =
              weights[((f * ins + k) * layers + layer) * TAPS + t];
      numbers = pack_taps(taps, u, step) && numbers;
    }
  return numbers;
}

/* ---- the input ------------------------------------------------------------------------ */

/* Four elements of a row or column become as many sums. */
INLINE void mix(const vector *from, int64_t step, vector *to, int64_t to_step) {
  vector one = from[step], two = from[2 * step];
  to[0] = from[0] - two;
  to[to_step] = one + two;
  to[2 * to_step] = two - one;
  to[3 * to_step] = one - from[3 * step];
}

/* One block of channels. */
INLINE void mix_tile(const float *x, int64_t row, int64_t column, float *to,
                     int64_t step) {
  vector in[WINOGRAD_SPOTS], tall[WINOGRAD_SPOTS], all[4];
  UNROLL for (int i = 0; i < WINOGRAD_SPOTS; i++) in[i] =
      load(x + i / 4 * row + i % 4 * column);
  UNROLL for (int i = 0; i < 4; i++) mix(in + i, 4, tall + i, 4);
  UNROLL for (int i = 0; i < 4; i++) {
    mix(tall + 4 * i, 1, all, 1);
    UNROLL for (int j = 0; j < 4; j++) store(to + (4 * i + j) * step, all[j]);
  }
}

/* Elements of a block from the image's first on; -1: outside. */
INLINE int64_t place(const cpu_winograd_source *s, int64_t layer, int64_t row,
                     int64_t column) {
  int64_t at[] = {s->first[0] + layer * s->gap[0],
                  s->first[1] + row * s->gap[1],
                  s->first[2] + column * s->gap[2]};
  bool inside = true;
  UNROLL for (int i = 0; i < 3; i++) inside =
      inside && at[i] >= 0 && at[i] < s->size[i];
  return inside ? ((at[0] * s->size[1] + at[1]) * s->size[2] + at[2]) * LANES
                : -1;
}

/* A tile at the image's edge, with zeros for what is outside. */
static void mix_edge(const cpu_winograd_source *s, int64_t layer, int64_t block,
                     float *to, int64_t step) {
  int64_t at[WINOGRAD_SPOTS];
  float around[WINOGRAD_SPOTS * LANES];
  const float *x = s->x;
  for (int64_t i = 0; i < WINOGRAD_SPOTS; i++)
    at[i] = place(s, layer, i / 4, i % 4);
  for (int64_t k = 0; k < s->ins; k += LANES, x += block) {
    for (int64_t i = 0; i < WINOGRAD_SPOTS; i++)
      store(around + i * LANES, at[i] >= 0 ? load(x + at[i]) : (vector){0});
    mix_tile(around, (int64_t)4 * LANES, LANES, to + k, step);
  }
}

static void winograd_loops_in(const cpu_winograd_source *s, float *to,
                              int64_t step) {
  int64_t block = s->size[0] * s->size[1] * s->size[2] * LANES;
  int64_t row = s->gap[1] * s->size[2] * LANES, column = s->gap[2] * LANES;
  for (int64_t layer = 0; layer < s->layers; layer++, to += s->ins) {
    int64_t begin = place(s, layer, 0, 0), end = place(s, layer, 3, 3);
    const float *x = s->x;
    if (begin < 0 || end < 0)
      mix_edge(s, layer, block, to, step);
    else if (column == LANES)
      for (int64_t k = 0; k < s->ins; k += LANES, x += block)
        mix_tile(x + begin, row, LANES, to + k, step);
    else
      for (int64_t k = 0; k < s->ins; k += LANES, x += block)
        mix_tile(x + begin, row, column, to + k, step);
  }
}

/* ---- products ------------------------------------------------------------------------- */

/* R rows of one panel; the next panel comes nearer meanwhile. */
INLINE void rows(const float *v, int64_t width, const float *u, int64_t depth,
                 bool ahead, float *made, int64_t pitch, const int R) {
  const int64_t next = depth * PANEL;
  vector sum[ROWS][2];
  UNROLL for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = (vector){0};
  for (int64_t k = 0; k < depth; k++, v++, u += PANEL) {
    vector left = load(u), right = load(u + LANES);
    if (ahead) {
      __builtin_prefetch(u + next, 0, 2);
      if (LANES == 16) __builtin_prefetch(u + next + LANES, 0, 2);
    }
    UNROLL for (int r = 0; r < R; r++) {
      sum[r][0] += v[r * width] * left;
      sum[r][1] += v[r * width] * right;
    }
  }
  UNROLL for (int r = 0; r < R; r++) {
    store(made + r * pitch, sum[r][0]);
    store(made + r * pitch + LANES, sum[r][1]);
  }
}

#define TILE(R)                                                     \
  __attribute__((noinline)) static void rows_##R(                   \
      const float *v, int64_t width, const float *u, int64_t depth, \
      bool ahead, float *made, int64_t pitch) {                     \
    if (ahead)                                                      \
      rows(v, width, u, depth, true, made, pitch, R);               \
    else                                                            \
      rows(v, width, u, depth, false, made, pitch, R);              \
  }
EACH(TILE)

#define NAME(R) rows_##R,
static void products(const float *v, int64_t width, int64_t count,
                     const float *u, int64_t depth, int64_t panels, float *made,
                     int64_t pitch) {
  static void (*const tiles[])(const float *, int64_t, const float *, int64_t,
                               bool, float *, int64_t) = {EACH(NAME)};
  for (int64_t p = 0; p < panels; p++, u += depth * PANEL) {
    int64_t strips = (count + ROWS - 1) / ROWS;
    for (int64_t r = 0, height; r < count; r += height, strips--) {
      height = (count - r + strips - 1) / strips;
      tiles[height - 1](v + r * width, width, u, depth,
                        r == 0 && p + 1 < panels, made + r * pitch + p * PANEL,
                        pitch);
    }
  }
}

/* ---- the output ----------------------------------------------------------------------- */

/* Weights of nine taps: those of 16 spots taken apart again, or those that are kept. */
static void winograd_loops_taps_of(const cpu_winograd_weights *w, int64_t block,
                                   int64_t k, vector *taps) {
  int64_t depth = w->layers * w->ins, step = w->panels * depth * PANEL;
  int64_t at = block / 2 * depth + k, half = block % 2 * LANES;
  const float *u = w->u + at * PANEL + half;
  vector wide[12];
  for (int64_t i = 0; i < 4; i++, u += 4 * step) {
    wide[3 * i] = load(u);
    wide[3 * i + 1] = load(u + step) - load(u + 2 * step);
    wide[3 * i + 2] = load(u + 3 * step);
  }
  for (int i = 0; i < 3; i++) {
    taps[i] = wide[i];
    taps[3 + i] = wide[3 + i] - wide[6 + i];
    taps[6 + i] = wide[9 + i];
  }
  for (int64_t i = 0; i < TAPS && w->plain; i++)
    taps[i] = load(w->plain + (at * TAPS + i) * PANEL + half);
}

/* The sums of one block as they are defined. */
static void sum_taps(const cpu_winograd_source *s,
                     const cpu_winograd_weights *w, int64_t block,
                     vector *made) {
  int64_t size = s->size[0] * s->size[1] * s->size[2] * LANES;
  for (int i = 0; i < 4; i++)
    made[i] = (vector){0};
  for (int64_t k = 0; k < s->layers * s->ins; k++) {
    const float *x = s->x + k % s->ins / LANES * size + k % LANES;
    vector taps[TAPS];
    winograd_loops_taps_of(w, block, k, taps);
    for (int64_t i = 0; i < 4; i++)
      for (int64_t t = 0; t < TAPS; t++) {
        int64_t at = place(s, k / s->ins, i / 2 + t / 3, i % 2 + t % 3);
        if (at >= 0) made[i] += x[at] * taps[t];
      }
  }
}

INLINE bool all_numbers(const vector *made) {
  vector all = {0};
  UNROLL for (int i = 0; i < 4; i++) all += made[i] * 0;
  mask zeros = all == (vector){0};
  int32_t every = -1;
  UNROLL for (int i = 0; i < LANES; i++) every &= zeros[i];
  return every != 0;
}

INLINE vector chosen(mask first, vector a, vector b) {
  return (vector)(((mask)a & first) | ((mask)b & ~first));
}

/* What is no number stays that. */
INLINE vector bound(vector value, float low, float high) {
  const vector least = (vector){0} + low, most = (vector){0} + high;
  value = chosen(value < least, least, value);
  return chosen(value > most, most, value);
}

/* Four sums of a row or column become two. */
INLINE void gather(const vector *from, int64_t step, vector *to,
                   int64_t to_step) {
  to[0] = from[0] + from[step] + from[2 * step];
  to[to_step] = from[step] - from[2 * step] - from[3 * step];
}

static void out(const cpu_winograd_out *o, const cpu_winograd_source *source,
                const cpu_winograd_weights *weights) {
  float *y = o->y;
  const float *z = o->z;
  for (int64_t b = 0; b < o->blocks; b++, y += o->block) {
    vector from[WINOGRAD_SPOTS], tall[8], made[4], bias = {0};
    UNROLL for (int i = 0; i < WINOGRAD_SPOTS; i++) from[i] =
        load(o->made + i * o->step + b * LANES);
    UNROLL for (int i = 0; i < 4; i++) gather(from + i, 4, tall + i, 4);
    UNROLL for (int i = 0; i < 2; i++) gather(tall + 4 * i, 1, made + 2 * i, 1);
    if (!all_numbers(made)) sum_taps(source, weights, o->first + b, made);
    if (o->bias) bias = load(o->bias + b * LANES);
    UNROLL for (int64_t i = 0; i < 4; i++) {
      int64_t at = i / 2 * o->row + i % 2 * o->column;
      if (i / 2 >= o->rows || i % 2 >= o->columns) continue;
      vector value = made[i] + bias;
      if (z) value += load(z + b * o->block + at);
      store(y + at, bound(value, o->low, o->high));
    }
  }
}

const cpu_winograd_loops WINOGRAD = {.pack = winograd_loops_pack,
                                     .in = winograd_loops_in,
                                     .product = products,
                                     .out = out};
