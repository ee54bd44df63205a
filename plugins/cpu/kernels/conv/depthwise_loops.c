/* depthwise_loops.c - the sums of depthwise.c, which stay in registers.
 *
 * Compiled once for each instruction set, with DEPTHWISE naming the result. A channel is
 * summed by the same instructions wherever it stands. PIXELS(P) defines pixels_P: `pixels`
 * with P constant. */
#include "depthwise.h"
#include "unroll.h"

#if defined(__AVX512F__)
#define LANES 16
#define WIDE  2 /* vectors of channels at once */
#else
#ifdef __AVX2__
#define LANES 8
#else
#define LANES 4
#endif
#define WIDE 1
#endif
#define MANY 8 /* pixels at once */

typedef float vector
    __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

/* P pixels of V vectors of channels. */
INLINE void sums(const cpu_depthwise_span *s, const float *x, float *y,
                 int64_t c, const int P, const int V) {
  vector sum[MANY][WIDE], w[WIDE];
  UNROLL for (int v = 0; v < V; v++) w[v] =
      s->bias ? *(const vector *)(s->bias + c + v * LANES) : (vector){0};
  UNROLL for (int p = 0; p < P; p++) UNROLL for (int v = 0; v < V; v++)
      sum[p][v] = w[v];
  for (int64_t k = 0, taps = s->taps; k < taps; k++) {
    const float *from = x + s->offsets[k] + c;
    const float *weights = s->weights + s->places[k] + c;
    UNROLL for (int v = 0; v < V; v++) w[v] =
        *(const vector *)(weights + v * LANES);
    UNROLL for (int p = 0; p < P; p++) UNROLL for (int v = 0; v < V; v++)
        sum[p][v] += *(const vector *)(from + p * s->step + v * LANES) * w[v];
  }
  UNROLL for (int p = 0; p < P; p++) UNROLL for (int v = 0; v < V; v++) *
      (vector *)(y + p * s->channels + c + v * LANES) = sum[p][v];
}

/* One channel of P pixels, where there are too few for a vector. */
INLINE void sum_one(const cpu_depthwise_span *s, const float *x, float *y,
                    int64_t c, const int P) {
  float sum[MANY];
  for (int p = 0; p < P; p++)
    sum[p] = s->bias ? s->bias[c] : 0;
  for (int64_t k = 0; k < s->taps; k++)
    for (int p = 0; p < P; p++)
      sum[p] +=
          x[s->offsets[k] + c + p * s->step] * s->weights[s->places[k] + c];
  for (int p = 0; p < P; p++)
    y[p * s->channels + c] = sum[p];
}

/* All channels of P pixels. The last vector lies over the one before it. */
INLINE void pixels(const cpu_depthwise_span *s, const float *x, float *y,
                   const int P) {
  int64_t c = 0, channels = s->channels;
  for (; c + WIDE * LANES <= channels; c += WIDE * LANES)
    sums(s, x, y, c, P, WIDE);
  if (WIDE > 1 && c + LANES <= channels) {
    sums(s, x, y, c, P, 1);
    c += LANES;
  }
  if (c < channels && channels >= LANES)
    sums(s, x, y, channels - LANES, P, 1);
  else
    for (; c < channels; c++)
      sum_one(s, x, y, c, P);
}

#define PIXELS(P)                                                  \
  static void pixels_##P(const cpu_depthwise_span *s, int64_t p) { \
    pixels(s, s->x + p * s->step, s->y + p * s->channels, P);      \
  }
PIXELS(8)
PIXELS(4)
PIXELS(2)
PIXELS(1)

static void span(const cpu_depthwise_span *s) {
  int64_t p = 0, count = s->pixels;
  for (; p + MANY <= count; p += MANY)
    pixels_8(s, p);
  if (count - p >= 4) {
    pixels_4(s, p);
    p += 4;
  }
  if (count - p >= 2) {
    pixels_2(s, p);
    p += 2;
  }
  if (p < count) pixels_1(s, p);
}

const cpu_depthwise_loops DEPTHWISE = {.span = span};
