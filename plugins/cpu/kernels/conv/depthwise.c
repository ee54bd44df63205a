/* depthwise.c - keel::DepthwiseConv: one filter for each channel, f32, channels last (NHWC).
 *
 *     y[p, c] = bias[c] + sum over taps t of x[p's place + offset(t), c] * w[t, c]
 *
 * A vector is neighbouring channels. A row of outputs is cut into spans of pixels that see the
 * same taps, so that padding costs no copy, and no test inside of a span:
 *
 *     | taps 1, 2 |         taps 0, 1, 2         | taps 0, 1 |
 *
 * The loop over taps is innermost, with the sums of up to 8 pixels in registers
 * (depthwise_loops.c). Threads share rows of outputs. Sums are f32, in the order of taps. */
#include "depthwise.h"

#include "elementwise/elementwise.h"
#include "families/window.h"
#include "kernels.h"

#define TAPS 1024 /* of a window, at most */

/* Height and width; a line is an image of one row. */
typedef struct plane {
  int64_t kernel, stride, dilation, begin, in, out;
} plane;

typedef struct depthwise {
  plane high, wide;
  int64_t channels;
  const float *x, *weights, *bias;
  float *y;
  void (*activation)(const void *x, void *y, int64_t n, double a, double b);
} depthwise;

/* The output's pixels [*begin, *end) whose tap lies inside. */
static void inside(const plane *of, int64_t tap, int64_t *begin, int64_t *end) {
  int64_t at = tap * of->dilation - of->begin; /* of pixel 0 */
  int64_t last = of->in - 1 - at;
  *begin = at >= 0 ? 0 : (-at + of->stride - 1) / of->stride;
  *end = last < 0 ? 0 : last / of->stride + 1;
  if (*end > of->out) *end = of->out;
  if (*begin > *end) *begin = *end;
}

/* The taps that pixel `x` of output row `y` sees, where they read for its first channel,
 * from the image's begin on; in *until, the first pixel after it that sees others. */
static int64_t list_taps(const depthwise *d, int64_t y, int64_t x,
                         int64_t *offsets, int64_t *places, int64_t *until) {
  int64_t count = 0;
  *until = d->wide.out;
  for (int64_t j = 0; j < d->high.kernel; j++) {
    int64_t row = y * d->high.stride + j * d->high.dilation - d->high.begin;
    if (row < 0 || row >= d->high.in) continue;
    for (int64_t i = 0; i < d->wide.kernel; i++) {
      int64_t begin = 0, end = 0;
      inside(&d->wide, i, &begin, &end);
      if (x < begin && begin < *until) *until = begin;
      if (x < begin || x >= end) continue;
      if (end < *until) *until = end;
      int64_t column =
          x * d->wide.stride + i * d->wide.dilation - d->wide.begin;
      offsets[count] = (row * d->wide.in + column) * d->channels;
      places[count++] = (j * d->wide.kernel + i) * d->channels;
    }
  }
  return count;
}

static void run_row(const depthwise *d, const float *image, int64_t y,
                    float *out) {
  int64_t offsets[TAPS], places[TAPS], until = 0;
  for (int64_t x = 0; x < d->wide.out; x = until) {
    cpu_depthwise_span span = {
        .x = image,
        .weights = d->weights,
        .bias = d->bias,
        .y = out + x * d->channels,
        .offsets = offsets,
        .places = places,
        .taps = list_taps(d, y, x, offsets, places, &until),
        .channels = d->channels,
        .step = d->wide.stride * d->channels};
    span.pixels = until - x;
    CPU_LOOPS(cpu_depthwise)->span(&span);
  }
  if (d->activation) d->activation(out, out, d->wide.out * d->channels, 0, 0);
}

static void depthwise_run_rows(void *context, int64_t begin, int64_t end) {
  const depthwise *d = context;
  for (int64_t i = begin; i < end; i++)
    run_row(d, d->x + i / d->high.out * d->high.in * d->wide.in * d->channels,
            i % d->high.out, d->y + i * d->wide.out * d->channels);
}

static plane plane_of(const window *w, int i) {
  if (i < 0) return (plane){1, 1, 1, 0, 1, 1};
  return (plane){w->kernel[i], w->stride[i], w->dilation[i],
                 w->begin[i],  w->in[i],     w->out[i]};
}

/* The window, as if channels stood first. */
static bool depthwise_read_window(const kd_node *node, const kd_tensor *x,
                                  const int64_t *kernel, const int64_t *out,
                                  window *w) {
  int64_t in_dims[4] = {0}, out_dims[4] = {0};
  kd_tensor in = {.dims = in_dims, .rank = x->rank};
  kd_tensor made = {.dims = out_dims, .rank = x->rank};
  for (uint32_t i = 2; i < x->rank; i++) {
    in_dims[i] = x->dims[i - 1];
    out_dims[i] = out[i - 1];
  }
  return window_read(cpu_host, node, &in, &made, kernel, 0, w);
}

CPU_SUPPORTS(depthwise) {
  kd_type x, w;
  if (cpu_host->node->input_type(node, 0, &x) != KD_OK ||
      cpu_host->node->input_type(node, 1, &w) != KD_OK)
    return FAIL(KD_UNIMPLEMENTED, "types must be known");
  if (x.rank < 3 || x.rank > 4)
    return FAIL(KD_UNIMPLEMENTED, "rank %u is not supported (3 or 4)",
                (unsigned)x.rank);
  int64_t taps = product(w.dims, 0, w.rank - 1);
  return taps <= TAPS
             ? KD_OK
             : FAIL(KD_UNIMPLEMENTED,
                    "a window of %lld taps is not supported (at most %d)",
                    (long long)taps, TAPS);
}

CPU_KERNEL(cpu_run_depthwise) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const kd_tensor *weights = &launch->inputs[1];
  window w;
  if (!kd_elements(y)) return KD_OK;
  if (!depthwise_read_window(launch->node, x, weights->dims, y->dims, &w))
    return FAIL(KD_UNIMPLEMENTED, "%u dimensions", (unsigned)x->rank);
  depthwise d = {
      .high = plane_of(&w, w.space - 2),
      .wide = plane_of(&w, w.space - 1),
      .channels = x->dims[x->rank - 1],
      .x = x->data,
      .weights = weights->data,
      .bias = kd_has_input(launch, 2) ? launch->inputs[2].data : NULL,
      .y = y->data,
      .activation =
          cpu_activation_loop(attr_string(launch, "activation", "none"))};
  int64_t row = d.wide.out * d.channels;
  int64_t work = row * (1 + d.high.kernel * d.wide.kernel / 8);
  cpu_host->parallel_for(cpu_host, x->dims[0] * d.high.out,
                         CPU_GRAIN / work + 1, depthwise_run_rows, &d);
  return KD_OK;
}
