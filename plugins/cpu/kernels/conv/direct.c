/* direct.c - direct convolutions of f32, without im2col: groups of any width, any number of
 * dimensions.
 *
 * The channels of a band of the image are copied once with their padding (planes), elements
 * that a stride apart read side by side:
 *
 *     stride 1   p x0 x1 x2 x3 p          stride 2   p x1 x3 | x0 x2 p
 *
 * A tap is then one offset into a plane, the same for all outputs: each output is the sum over
 * channels and taps, k, of a weight times the element at its own place plus offsets[k].
 * Outputs are counted by the plane's rows; those between two rows are computed and dropped.
 *
 * Two micro-kernels (direct_loops.c), both with k innermost and sums in registers. `along`: a
 * vector is neighbouring outputs, for one to four filters; blocks of channels become planes on
 * the way in, results blocks on the way out. It suits narrow groups. `across`: a vector is a
 * block of filters at one output; channels and filters are whole blocks.
 *
 * A task is a band of steps of the first dimension, of some groups (a unit) of an image
 * (direct_plan.c); threads share tasks. Sums are in the order of k, wherever a task ends. */
#include "direct.h"

#include "blocked/blocked.h"
#include "products/tiles.h"

const cpu_direct_loops *cpu_direct_get(void) {
  return CPU_LOOPS(cpu_direct);
}

/* ---- from the input to planes --------------------------------------------------------- */

/* Channels side by side: one, or a block of them. */
typedef struct source {
  const float *x, *end; /* end: of all that may be read */
  int64_t lanes;
} source;

static void unravel(int64_t number, const int64_t *sizes, int count,
                    int64_t *out) {
  for (int i = count; i-- > 0; number /= sizes[i])
    out[i] = number % sizes[i];
}

/* Mostly one, for which a call would be too much. */
static inline void clear(float *to, int64_t count) {
  if (count > 0) to[0] = 0;
  if (count > 1) memset(to + 1, 0, (size_t)(count - 1) * sizeof *to);
}

/* Positions [low, high) of a row of one phase, a stride apart, from the input; zeros around. */
static void place_row(const cpu_direct *d, const source *s, const float *from,
                      int64_t low, int64_t high, float *to) {
  int last = d->w.space - 1;
  int64_t size = d->size[last], step = d->w.stride[last], count = high - low;
  int64_t lanes = s->lanes, g = d->grain;
  if (lanes > g && count > 0) {
    int64_t all =
        (count + 7) / 8 * 8; /* more is transposed, and written over */
    if (s->end - from >= ((all - 1) * step + 1) * lanes) count = all;
    cpu_tiles_get()->turn(from, step * lanes, count, lanes, to + low, d->plane);
  } else if (step == 1) {
    memcpy(to + low * g, from, (size_t)(count * g) * sizeof *to);
  } else {
    for (int64_t i = 0; i < count; i++)
      for (int64_t c = 0; c < g; c++)
        to[(low + i) * g + c] = from[i * step * g + c];
  }
  for (int64_t c = 0; c < lanes; c += g, to += d->plane) {
    clear(to, low * g);
    clear(to + high * g, (size - high) * g);
  }
}

/* What a band sees that begins with output `first` of the first dimension. */
static void direct_place(const cpu_direct *d, const source *s, int64_t first,
                         float *planes) {
  const window *w = &d->w;
  int last = w->space - 1;
  int64_t rows = d->phase / d->size[last], f[WINDOW_SPACE], q[WINDOW_SPACE];
  for (int64_t p = 0; p < d->phases; p++) {
    unravel(p, d->kept, w->space, f);
    for (int i = 0; i < w->space; i++)
      f[i] += (i == 0 ? first * w->stride[0] : 0) - w->begin[i];
    int64_t step = w->stride[last], at = f[last], size = d->size[last];
    int64_t low = at >= 0 ? 0 : (-at + step - 1) / step;
    int64_t high = at < w->in[last] ? (w->in[last] - 1 - at) / step + 1 : 0;
    low = low < size ? low : size;
    high = high < size ? high : size;
    for (int64_t r = 0; r < rows; r++, planes += size * d->grain) {
      int64_t row = 0;
      bool inside = high > low;
      unravel(r, d->size, last, q);
      for (int i = 0; i < last; i++) {
        int64_t here = q[i] * w->stride[i] + f[i];
        inside &= here >= 0 && here < w->in[i];
        row = row * w->in[i] + here;
      }
      row = (row * w->in[last] + at + low * step) * s->lanes;
      if (inside)
        place_row(d, s, s->x + row, low, high, planes);
      else
        place_row(d, s, s->x, 0, 0, planes);
    }
  }
}

static void place_unit(const cpu_direct_run *run, int64_t image, int64_t unit,
                       int64_t first, float *planes) {
  const cpu_direct *d = run->d;
  int64_t space = product(d->w.in, 0, (uint32_t)d->w.space);
  int64_t all = d->groups * d->ins, lanes = 1, from = unit * d->unit * d->ins;
  if (d->blocks_in) {
    all = cpu_filled(all);
    lanes = d->block;
  }
  source s = {.end = run->x + d->images * all * space, .lanes = lanes};
  for (int64_t c = 0; c < direct_groups(d, unit) * d->ins; c += lanes) {
    s.x = run->x + (image * all + from + c) * space;
    direct_place(d, &s, first, planes);
    planes += lanes / d->grain * d->plane;
  }
}

/* ---- from sums to the output ---------------------------------------------------------- */

#define LINE 64 /* positions that are finished at once, in the nearest cache */

/* Sums are results, but for where they lie. */
static bool is_done(const cpu_finish *finish) {
  return !finish->z && finish->act.last < CPU_LAST_SILU;
}

/* Outputs of filters side by side, as many as `lanes`, to y, from element `to` on. z may lie
 * where y does. */
static void finish_row(const cpu_direct_run *run, const float *made,
                       int64_t width, int64_t lanes, int64_t to) {
  const cpu_tiles *tiles = cpu_tiles_get();
  const cpu_direct *d = run->d;
  float line[LINE * 16];
  int64_t i = 0, n = width / 8 * 8;
  bool done = is_done(run->finish), transposed = lanes > d->grain;
  if (done && transposed) {
    tiles->turn(made, d->step, lanes, n, run->y + to, lanes);
    i = n;
  } else if (done) {
    memcpy(run->y + to, made, (size_t)(width * lanes) * sizeof *line);
    i = width;
  }
  for (to += i * lanes; i < width; i += n, to += n * lanes) {
    cpu_finish finish = *run->finish;
    n = width - i < LINE ? width - i : LINE;
    if (transposed)
      tiles->turn(made + i, d->step, lanes, (n + 7) / 8 * 8, line, lanes);
    else
      memcpy(line, made + i * d->grain, (size_t)(n * lanes) * sizeof *line);
    if (finish.z) finish.z = (const float *)finish.z + to;
    if (!done) cpu_finish_row(&finish, 0, line, 0, n * lanes);
    memcpy(run->y + to, line, (size_t)(n * lanes) * sizeof *line);
  }
}

/* Outputs of `count` filters from `channel` of the image on, steps [first, first + steps). */
static void collect(const cpu_direct_run *run, int64_t image, int64_t channel,
                    int64_t count, int64_t first, int64_t steps, float *made) {
  const cpu_direct *d = run->d;
  const window *w = &d->w;
  int last = w->space - 1;
  int64_t space = product(w->out, 0, (uint32_t)w->space);
  int64_t all = d->groups * d->outs, lanes = 1, q[WINDOW_SPACE];
  int64_t width = last ? w->out[last] : steps;
  int64_t rows = last ? steps * product(w->out, 1, (uint32_t)last) : 1;
  int64_t begin = first * (space / w->out[0]);
  if (d->blocks_out) {
    all = cpu_filled(all);
    lanes = d->block;
  }
  for (int64_t c = count; c < lanes && !d->across; c++)
    memset(made + c * d->step, 0, (size_t)d->step * sizeof *made);
  for (int64_t r = 0; r < rows; r++, begin += width) {
    int64_t at = 0;
    unravel(r, w->out, last, q);
    for (int i = 0; i < last; i++)
      at += q[i] * d->pitch[i];
    for (int64_t c = 0; c < count; c += lanes)
      finish_row(run, made + c / d->grain * d->step + at * d->grain, width,
                 lanes, (image * all + channel + c) * space + begin * lanes);
  }
}

/* ---- tasks ---------------------------------------------------------------------------- */

/* Sums of filters [o, o + filters) of a unit, whose first is `channel`. */
static void sum_filters(const cpu_direct_run *run, int64_t channel, int64_t o,
                        int64_t filters, const float *planes, int64_t steps,
                        float *made) {
  const cpu_direct *d = run->d;
  const cpu_activation *act = &run->finish->act;
  bool done = is_done(run->finish);
  float bias[32] = {0};
  cpu_direct_sum sum = {
      .x = planes + o / d->outs * (d->ins / d->grain) * d->plane,
      .weights = run->packed + (channel + o) * d->depth,
      .bias = bias,
      .offsets = run->room,
      .count = d->depth / d->grain,
      .n = d->wide - (d->band - steps) * d->pitch[0],
      .step = d->step,
      .low = done ? act->low : -INFINITY,
      .high = done ? act->high : INFINITY};
  sum.y = made;
  if (run->bias)
    memcpy(bias, run->bias + channel + o, (size_t)filters * sizeof *bias);
  if (d->across)
    cpu_direct_get()->across(&sum, filters > d->block ? 2 : 1);
  else
    cpu_direct_get()->along(&sum, filters);
}

/* What a task reads; in `room`, if not where it lies. */
static const float *planes_of(const cpu_direct_run *run, int64_t image,
                              int64_t unit, int64_t first, float *room) {
  const cpu_direct *d = run->d;
  int64_t inner = product(d->w.in, 1, (uint32_t)d->w.space);
  if (d->lies)
    return run->x +
           (image * cpu_filled(d->groups * d->ins) + unit * d->ins) *
               d->w.in[0] * inner +
           first * inner * d->grain;
  place_unit(run, image, unit, first, room);
  return room;
}

static void run_task(const cpu_direct_run *run, int64_t task, float *room) {
  const cpu_direct *d = run->d;
  int64_t image = task / d->bands / d->units, unit = task / d->bands % d->units;
  int64_t first = task % d->bands * d->band, left = d->w.out[0] - first;
  int64_t steps = left < d->band ? left : d->band;
  int64_t count = direct_groups(d, unit) * d->outs;
  int64_t channel = unit * d->unit * d->outs;
  int64_t most = d->across ? 2 * d->block : d->block;
  float *made = room + d->planes * d->plane;
  const float *planes = planes_of(run, image, unit, first, room);
  for (int64_t o = 0, filters, within; o < count; o += filters) {
    filters = cpu_direct_filters(d, o, count);
    within = o % most;
    sum_filters(run, channel, o, filters, planes, steps,
                made + within / d->grain * d->step);
    within += filters;
    if (within == most || o + filters == count)
      collect(run, image, channel + o + filters - within, within, first, steps,
              made);
  }
}

static void direct_run_parts(void *context, int64_t begin, int64_t end) {
  const cpu_direct_run *run = context;
  const cpu_direct *d = run->d;
  int64_t tasks = d->images * d->units * d->bands;
  for (int64_t part = begin; part < end; part++) {
    char *room = run->room;
    room += cpu_direct_before(d) + part * cpu_direct_part(d);
    for (int64_t i = part * tasks / d->parts; i < (part + 1) * tasks / d->parts;
         i++)
      run_task(run, i, (void *)room);
  }
}

void cpu_direct_start(const cpu_direct_run *run) {
  cpu_direct_offsets(run->d, run->room);
  cpu_host->parallel_for(cpu_host, run->d->parts, 1, direct_run_parts,
                         (void *)(uintptr_t)run);
}
