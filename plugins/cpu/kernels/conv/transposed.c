/* transposed.c - ConvTranspose, line by line: what input positions add to an output position
 * stands side by side for 16 channels, and is added so; then it goes to their planes. */
#include "transposed.h"

#include "products/tiles.h"

#define GROUP TRANSPOSED_GROUP
#define PART  256 /* positions of a line at once, in the first cache */

void cpu_transposed_order(const float *weights, int64_t in, int64_t out,
                          int64_t taps, float *ordered) {
  for (int64_t i = 0; i < in; i++)
    for (int64_t first = 0; first < out; first += GROUP) {
      int64_t wide = out - first < GROUP ? out - first : GROUP;
      const float *from = weights + (i * out + first) * taps;
      for (int64_t k = 0; k < taps; k++)
        for (int64_t c = 0; c < wide; c++)
          *ordered++ = from[c * taps + k];
    }
}

static int64_t lines_of_plane(const window *w) {
  return product(w->out, 0, (uint32_t)w->space - 1);
}

int64_t cpu_transposed_lines(const cpu_transposed *t) {
  return (t->channels + GROUP - 1) / GROUP * lines_of_plane(t->w);
}

/* The line of the input that adds to output line `line` by a tap of the dimensions before the
 * last; -1: none does. */
static int64_t input_line(const window *w, int64_t line, int64_t tap) {
  int64_t from = 0, place = 1;
  for (int i = w->space - 1; i-- > 0;) {
    int64_t out = line % w->out[i], k = tap % w->kernel[i];
    int64_t at = out + w->begin[i] - k * w->dilation[i];
    if (at < 0 || at % w->stride[i] || at / w->stride[i] >= w->in[i]) return -1;
    from += at / w->stride[i] * place;
    place *= w->in[i];
    line /= w->out[i];
    tap /= w->kernel[i];
  }
  return from;
}

/* n positions, `to_step` and `from_step` elements apart. */
static inline void transposed_add(float *to, int64_t to_step, const float *from,
                                  int64_t from_step, int64_t n,
                                  const int64_t wide) {
  for (int64_t j = 0; j < n; j++, to += to_step, from += from_step)
    for (int64_t c = 0; c < wide; c++)
      to[c] += from[c];
}

static int64_t ceil_div(int64_t a, int64_t b) {
  return a >= 0 ? (a + b - 1) / b : -(-a / b);
}

/* What one line of the input adds to positions [begin, end) of one of the output by a tap of
 * the last dimension. from: its first position's. */
static void add_line(const cpu_transposed *t, int64_t k, int64_t begin,
                     int64_t end, const float *from, float *sums,
                     int64_t wide) {
  const window *w = t->w;
  const int last = w->space - 1;
  const int64_t stride = w->stride[last];
  const int64_t shift = k * w->dilation[last] - w->begin[last];
  int64_t low = ceil_div(begin - shift, stride);
  int64_t high = ceil_div(end - shift, stride);
  low = low < 0 ? 0 : low;
  high = high < w->in[last] ? high : w->in[last];
  if (high <= low) return;
  float *to = sums + (low * stride + shift - begin) * wide;
  from += low * t->step;
  if (wide == GROUP)
    transposed_add(to, stride * GROUP, from, t->step, high - low, GROUP);
  else
    transposed_add(to, stride * wide, from, t->step, high - low, wide);
}

static void run_line(const cpu_transposed *t, int64_t group, int64_t line) {
  const window *w = t->w;
  const int last = w->space - 1;
  const int64_t taps = product(w->kernel, 0, (uint32_t)w->space);
  const int64_t outs = product(w->out, 0, (uint32_t)w->space);
  const int64_t inner = w->kernel[last], first = group * GROUP;
  const int64_t left = t->channels - first, wide = left < GROUP ? left : GROUP;
  float sums[PART * GROUP];
  for (int64_t at = 0; at < w->out[last]; at += PART) {
    int64_t end = at + PART < w->out[last] ? at + PART : w->out[last];
    memset(sums, 0, (size_t)((end - at) * wide) * sizeof *sums);
    for (int64_t k = 0; k < taps; k += inner) {
      int64_t from = input_line(w, line, k / inner);
      for (int64_t i = k; from >= 0 && i < k + inner; i++)
        add_line(
            t, i - k, at, end,
            t->rows + from * w->in[last] * t->step + first * taps + i * wide,
            sums, wide);
    }
    cpu_tiles_get()->turn(sums, wide, end - at, wide,
                          t->y + first * outs + line * w->out[last] + at, outs);
  }
}

void cpu_transposed_run(void *transposed, int64_t begin, int64_t end) {
  const cpu_transposed *t = transposed;
  int64_t lines = lines_of_plane(t->w);
  for (int64_t i = begin; i < end; i++)
    run_line(t, i / lines, i % lines);
}
