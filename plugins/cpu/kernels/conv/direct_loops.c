/* direct_loops.c - the sums of direct.c, which stay in registers.
 *
 * Compiled once for each instruction set, with DIRECT naming the result. A filter is summed by
 * the same instructions wherever it stands.
 *
 *   WIDTH(R)      vectors at once of R filters;  FEW(C)  positions at once of C blocks: as many
 *                 as registers hold
 *   ROWS(R, V)    the case of V vectors of R filters;  STRIPS(R)  defines strips_R: all of them
 *   POINTS(C, P)  the case of P positions of C blocks; BLOCKS(C)  defines blocks_C: all */
#include "direct.h"
#include "unroll.h"

#if defined(__AVX512F__)
#define LANES    16
#define WIDTH(R) ((R) == 4 ? 6 : 8)
#define FEW(C)   12
#else
#ifdef __AVX2__
#define LANES 8
#else
#define LANES 4
#endif
#define WIDTH(R) ((R) == 4 ? 3 : (R) == 1 ? 8 : 4)
#define FEW(C)   ((C) == 1 ? 12 : 6)
#endif

typedef float vector
    __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t mask
    __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

INLINE vector chosen(mask first, vector a, vector b) {
  return (vector)(((mask)a & first) | ((mask)b & ~first));
}

/* What is no number stays that. */
INLINE vector bound(vector value, float low, float high) {
  const vector least = (vector){0} + low, most = (vector){0} + high;
  value = chosen(value < least, least, value);
  return chosen(value > most, most, value);
}

/* ---- along the image ------------------------------------------------------------------ */

/* R filters, V vectors of each. */
INLINE void rows(const cpu_direct_sum *s, const float *x, float *y, const int R,
                 const int V) {
  vector sum[DIRECT_ROWS][8], in[8];
  const float *weights = s->weights;
  const int64_t *offsets = s->offsets;
  UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++)
      sum[r][v] = (vector){0} + s->bias[r];
  for (int64_t k = 0, count = s->count; k < count; k++, weights += R) {
    const float *from = x + offsets[k];
    UNROLL for (int v = 0; v < V; v++) in[v] =
        *(const vector *)(from + v * LANES);
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++)
        sum[r][v] += weights[r] * in[v];
  }
  UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) *
      (vector *)(y + r * s->step + v * LANES) =
      bound(sum[r][v], s->low, s->high);
}

#define ROWS(R, V)                                \
  case V:                                         \
    if ((V) <= WIDTH(R)) rows(s, x, y, (R), (V)); \
    break;

/* All positions of R filters, in strips of about one width. */
#define STRIPS(R)                                              \
  static void strips_##R(const cpu_direct_sum *s) {            \
    const float *x = s->x;                                     \
    float *y = s->y;                                           \
    int64_t left = (s->n + LANES - 1) / LANES;                 \
    int64_t strips = (left + WIDTH(R) - 1) / WIDTH(R);         \
    for (int64_t width; strips > 0; strips--, left -= width) { \
      width = (left + strips - 1) / strips;                    \
      switch (width) {                                         \
        ROWS(R, 1)                                             \
        ROWS(R, 2)                                             \
        ROWS(R, 3)                                             \
        ROWS(R, 4)                                             \
        ROWS(R, 5)                                             \
        ROWS(R, 6)                                             \
        ROWS(R, 7)                                             \
        ROWS(R, 8)                                             \
      }                                                        \
      x += width * LANES;                                      \
      y += width * LANES;                                      \
    }                                                          \
  }
STRIPS(1)
STRIPS(2)
STRIPS(3)
STRIPS(4)

static void direct_loops_along(const cpu_direct_sum *sum, int64_t filters) {
  static void (*const strips[])(const cpu_direct_sum *) = {strips_1, strips_2,
                                                           strips_3, strips_4};
  strips[filters - 1](sum);
}

/* ---- across filters ------------------------------------------------------------------- */

#if LANES >= 8
/* P positions of C blocks. */
INLINE void points(const cpu_direct_sum *s, const float *x, float *y,
                   const int C, const int P) {
  vector sum[12][2], w[2];
  const float *weights = s->weights;
  const int64_t *offsets = s->offsets;
  UNROLL for (int p = 0; p < P; p++) UNROLL for (int c = 0; c < C; c++)
      sum[p][c] = *(const vector *)(s->more ? y + c * s->step + p * LANES
                                            : s->bias + c * LANES);
  for (int64_t k = 0, count = s->count; k < count; k++) {
    const float *from = x + offsets[k];
    if (s->places) weights = s->weights + s->places[k] * (LANES * C * LANES);
    for (int i = 0; i < LANES; i++, from++, weights += C * LANES) {
      UNROLL for (int c = 0; c < C; c++) w[c] =
          *(const vector *)(weights + c * LANES);
      UNROLL for (int p = 0; p < P; p++) UNROLL for (int c = 0; c < C; c++)
          sum[p][c] += from[p * LANES] * w[c];
    }
  }
  UNROLL for (int p = 0; p < P; p++) UNROLL for (int c = 0; c < C; c++) *
      (vector *)(y + c * s->step + p * LANES) =
      bound(sum[p][c], s->low, s->high);
}

#define POINTS(C, P)                              \
  case P:                                         \
    if ((P) <= FEW(C)) points(s, x, y, (C), (P)); \
    break;

/* All positions of C blocks. */
#define BLOCKS(C)                                               \
  static void blocks_##C(const cpu_direct_sum *s) {             \
    const float *x = s->x;                                      \
    float *y = s->y;                                            \
    int64_t left = s->n, strips = (left + FEW(C) - 1) / FEW(C); \
    for (int64_t width; strips > 0; strips--, left -= width) {  \
      width = (left + strips - 1) / strips;                     \
      switch (width) {                                          \
        POINTS(C, 1)                                            \
        POINTS(C, 2)                                            \
        POINTS(C, 3)                                            \
        POINTS(C, 4)                                            \
        POINTS(C, 5)                                            \
        POINTS(C, 6)                                            \
        POINTS(C, 7)                                            \
        POINTS(C, 8)                                            \
        POINTS(C, 9)                                            \
        POINTS(C, 10)                                           \
        POINTS(C, 11)                                           \
        POINTS(C, 12)                                           \
      }                                                         \
      x += width * LANES;                                       \
      y += width * LANES;                                       \
    }                                                           \
  }
BLOCKS(1)
BLOCKS(2)

static void all_blocks(const cpu_direct_sum *sum, int64_t blocks) {
  if (blocks == 1)
    blocks_1(sum);
  else
    blocks_2(sum);
}
#else
#define all_blocks NULL
#endif

const cpu_direct_loops DIRECT = {.along = direct_loops_along,
                                 .across = all_blocks};
