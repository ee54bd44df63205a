/* depthwise.c - convolutions of single channels, f32.
 *
 * A plane is copied once, with its padding, so that what one position of the window
 * sees is a row without gaps: elements that a stride apart read stand together (a
 * phase). The convolution is then a sum of shifted copies of that row. Between two rows
 * of the output it computes some elements that nobody wants. */
#include "depthwise.h"

#include <stdatomic.h>

static const cpu_depthwise *loops_get(void) {
  static const cpu_depthwise *const sets[] = {
    &cpu_depthwise_base,
#if defined(__x86_64__)
    &cpu_depthwise_avx2,
    &cpu_depthwise_avx512,
#endif
  };
  return sets[cpu_isa()];
}

typedef struct depthwise_work {
  const window *w;
  const float *x, *weights, *bias;
  float *y;
  int64_t groups, out_c, ins, outs, taps;
  int64_t padded[WINDOW_SPACE]; /* elements that windows see */
  int64_t pitch[WINDOW_SPACE];  /* steps in a phase */
  int64_t phase;                /* elements of a phase */
  int64_t phases, wide;         /* wide: computed outputs of a plane */
  int64_t *offsets;             /* by tap */
  atomic_bool failed;
} depthwise_work;

/* Lays out the phases. */
static void lay_out(depthwise_work *work) {
  const window *w = work->w;
  work->phase = work->phases = work->wide = 1;
  for (int i = w->space; i-- > 0;) {
    work->padded[i] = (w->out[i] - 1) * w->stride[i] +
                      (w->kernel[i] - 1) * w->dilation[i] + 1;
    work->pitch[i] = work->phase;
    work->wide += (w->out[i] - 1) * work->phase;
    work->phase *= (work->padded[i] + w->stride[i] - 1) / w->stride[i];
    work->phases *= w->stride[i];
  }
  for (int64_t k = 0; k < work->taps; k++) {
    int64_t rest = k, scale = 1, phase = 0, at = 0;
    for (int i = w->space; i-- > 0; rest /= w->kernel[i]) {
      int64_t p = rest % w->kernel[i] * w->dilation[i];
      phase += p % w->stride[i] * scale;
      scale *= w->stride[i];
      at += p / w->stride[i] * work->pitch[i];
    }
    work->offsets[k] = phase * work->phase + at;
  }
}

/* One row of the input to where it belongs. */
static void place_row(const depthwise_work *work, const float *row, float *base,
                      int64_t scale) {
  int last = work->w->space - 1;
  int64_t step = work->w->stride[last], begin = work->w->begin[last];
  int64_t low = begin < 0 ? -begin : 0, high = work->padded[last] - begin;
  high = high < work->w->in[last] ? high : work->w->in[last];
  if (step == 1) {
    if (high > low)
      memcpy(base + low + begin, row + low, (size_t)(high - low) * sizeof *row);
    return;
  }
  for (int64_t f = 0; f < step; f++) {
    float *to = base + f * scale * work->phase;
    int64_t first = low + ((f - low - begin) % step + step) % step;
    int64_t q = (first + begin) / step;
    for (int64_t i = first; i < high; i += step)
      to[q++] = row[i];
  }
}

/* A plane to its phases; what is padding stays as it is. */
static void place(const depthwise_work *work, const float *x, float *room) {
  const window *w = work->w;
  int last = w->space - 1;
  int64_t index[WINDOW_SPACE] = {0}, rows = work->ins / w->in[last];
  for (int64_t r = 0; r < rows; r++, x += w->in[last]) {
    int64_t scale = w->stride[last], phase = 0, at = 0;
    bool seen = true;
    for (int i = last; i-- > 0; scale *= w->stride[i]) {
      int64_t p = index[i] + w->begin[i];
      seen &= p >= 0 && p < work->padded[i];
      phase += (seen ? p % w->stride[i] : 0) * scale;
      at += (seen ? p / w->stride[i] : 0) * work->pitch[i];
    }
    if (seen) place_row(work, x, room + phase * work->phase + at, 1);
    for (int i = last; i-- > 0;) {
      if (++index[i] < w->in[i]) break;
      index[i] = 0;
    }
  }
}

/* The wanted ones of the computed outputs. */
static void collect(const depthwise_work *work, const float *made, float *y) {
  const window *w = work->w;
  int last = w->space - 1;
  int64_t index[WINDOW_SPACE] = {0}, rows = work->outs / w->out[last];
  for (int64_t r = 0; r < rows; r++, y += w->out[last]) {
    int64_t at = 0;
    for (int i = last; i-- > 0;)
      at += index[i] * work->pitch[i];
    memcpy(y, made + at, (size_t)w->out[last] * sizeof *y);
    for (int i = last; i-- > 0;) {
      if (++index[i] < w->out[i]) break;
      index[i] = 0;
    }
  }
}

static void planes(void *context, int64_t begin, int64_t end) {
  depthwise_work *work = context;
  const cpu_depthwise *loops = loops_get();
  int64_t placed = work->phases * work->phase + DEPTHWISE_SLACK;
  int64_t made = work->wide + DEPTHWISE_SLACK;
  float *room = calloc((size_t)(placed + made), sizeof *room);
  if (!room) {
    atomic_store(&work->failed, true);
    return;
  }
  for (int64_t i = begin; i < end; i++) {
    int64_t g = i % work->groups;
    place(work, work->x + i * work->ins, room);
    for (int64_t c = 0; c < work->out_c; c++) {
      int64_t channel = g * work->out_c + c;
      loops->taps(room, work->offsets, work->weights + channel * work->taps,
                  work->taps, work->bias ? work->bias[channel] : 0,
                  room + placed, work->wide);
      collect(work, room + placed,
              work->y + (i * work->out_c + c) * work->outs);
    }
  }
  free(room);
}

kd_status cpu_run_depthwise(const window *w, const float *x,
                            const float *weights, const float *bias, float *y,
                            int64_t batch, int64_t groups, int64_t out_c) {
  uint32_t space = (uint32_t)w->space;
  depthwise_work work = {.w = w,
                         .x = x,
                         .weights = weights,
                         .bias = bias,
                         .groups = groups,
                         .out_c = out_c,
                         .ins = product(w->in, 0, space),
                         .outs = product(w->out, 0, space),
                         .taps = product(w->kernel, 0, space)};
  work.y = y;
  work.offsets = calloc((size_t)work.taps + 1, sizeof *work.offsets);
  if (!work.offsets) return KD_OUT_OF_MEMORY;
  lay_out(&work);
  int64_t each = work.ins + work.wide * work.taps * out_c / 4;
  cpu_host->parallel_for(cpu_host, batch * groups, CPU_GRAIN / (each + 1) + 1,
                         planes, &work);
  free(work.offsets);
  return atomic_load(&work.failed) ? KD_OUT_OF_MEMORY : KD_OK;
}
