/* attention_rows.c - the online softmax of attention, block after block of a row.
 *
 * Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018:
 *
 *     most'  = max(most, scores of the block)
 *     sum'   = sum * since + sum of exp(score - most')        since = exp(most - most')
 *
 * attention.c multiplies the products of earlier blocks by `since`. Powers are f32, 0 below e
 * to the LEAST; sums of CHUNK powers are added in double.
 *
 * Compiled once for each instruction set, with ATTENTION naming the result. */
#include "attention.h"
#include "powers_of_e.h"

#define LANES 16 /* running maxima beside each other */

/* Below, a power is less than the least normal float: next to the largest one, which is 1,
 * it counts as 0, and products meet no denormals. */
#define LEAST (-87.0f)

#define NEAR  2048 /* scores that are made powers at once, in the first cache */
#define CHUNK 256  /* powers that are summed as floats */

static void add_mask(float *scores, int64_t n, const float *mask,
                     int64_t step) {
  if (step == 1)
    for (int64_t i = 0; i < n; i++)
      scores[i] += mask[i];
  else
    for (int64_t i = 0; i < n; i++)
      scores[i] += mask[i * step];
}

static float attention_rows_largest(const float *x, int64_t n) {
  float lanes[LANES], most = -INFINITY;
  int64_t i = 0;
  for (int k = 0; k < LANES; k++)
    lanes[k] = -INFINITY;
  for (; i + LANES <= n; i += LANES)
    for (int k = 0; k < LANES; k++)
      lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
  for (; i < n; i++)
    most = x[i] > most ? x[i] : most;
  for (int width = LANES / 2; width; width /= 2)
    for (int k = 0; k < width; k++)
      lanes[k] = lanes[k + width] > lanes[k] ? lanes[k + width] : lanes[k];
  return lanes[0] > most ? lanes[0] : most;
}

/* Scores less the largest so far. */
static void lower(const attention_scores *s, attention_row *state) {
  float *x = s->scores, before = state->most;
  if (s->mask) add_mask(x, s->seen, s->mask, s->step);
  float most = attention_rows_largest(x, s->seen);
  most = before > most ? before : most;
  const float shift = most == -INFINITY ? 0 : most;
  for (int64_t i = 0; i < s->seen; i++)
    x[i] -= shift;
  for (int64_t i = s->seen; i < s->count; i++)
    x[i] = -INFINITY;
  state->since = before == -INFINITY ? 0 : power_of_e(before - shift);
  state->most = most;
}

static void powers(float *x, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    const float power = power_of_e(x[i]);
    x[i] = x[i] < LEAST ? 0 : power;
  }
}

static void count(const attention_scores *s, attention_row *state) {
  double sum = state->sum * (double)state->since;
  for (int64_t from = 0; from < s->seen; from += CHUNK) {
    int64_t left = s->seen - from;
    sum += sum_of_powers(s->scores + from, left < CHUNK ? left : CHUNK);
  }
  state->sum = sum;
}

static void soften(const attention_scores *list, int64_t rows,
                   attention_row *states) {
  int64_t once = list->count ? NEAR / list->count : rows;
  once = once < 1 ? 1 : once;
  for (int64_t from = 0, end; from < rows; from = end) {
    end = from + once < rows ? from + once : rows;
    for (int64_t i = from; i < end; i++)
      lower(&list[i], &states[i]);
    powers(list[from].scores, (end - from) * list->count);
    for (int64_t i = from; i < end; i++)
      count(&list[i], &states[i]);
  }
}

static void scale(float *y, int64_t n, float by) {
  for (int64_t i = 0; i < n; i++)
    y[i] *= by;
}

const cpu_attention_rows ATTENTION = {.soften = soften, .scale = scale};
