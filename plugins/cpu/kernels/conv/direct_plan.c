/* direct_plan.c - how a direct convolution (direct.c) is cut, and where its loops read.
 *
 * A band is as high as TASK_BYTES of planes allow; then lower, until tasks are dealt out to
 * threads evenly. Weights are packed [k][filter], for the filters that are summed at once. */
#include "blocked/blocked.h"
#include "direct.h"

#define TASK_BYTES (192 * 1024) /* of planes: they stay in the second cache */

/* Lays out the planes of a band of so many steps. */
static void direct_plan_lay_out(cpu_direct *d, int64_t band) {
  const window *w = &d->w;
  d->band = band;
  d->phase = d->phases = d->wide = 1;
  for (int i = w->space; i-- > 0;) {
    int64_t outs = i == 0 ? band : w->out[i];
    int64_t seen =
        (outs - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
    d->kept[i] = 0;
    for (int64_t k = 0; k < w->kernel[i] && d->kept[i] < w->stride[i]; k++) {
      int64_t phase = k * w->dilation[i] % w->stride[i];
      d->kept[i] = phase < d->kept[i] ? d->kept[i] : phase + 1;
    }
    d->size[i] = (seen + w->stride[i] - 1) / w->stride[i];
    d->pitch[i] = d->phase;
    d->wide += (outs - 1) * d->phase;
    d->phase *= d->size[i];
    d->phases *= d->kept[i];
  }
  d->plane = (d->phases * d->phase + DIRECT_SLACK) * d->grain;
  if (d->lies) d->plane = product(w->in, 0, (uint32_t)w->space) * d->grain;
  d->step = (d->wide + DIRECT_SLACK) * d->grain;
}

/* Bytes in whole lines of the cache. */
static int64_t lines(int64_t count, size_t size) {
  return (count * (int64_t)size + 63) / 64 * 64;
}

int64_t cpu_direct_part(const cpu_direct *d) {
  int64_t made = d->across ? 2 : d->block;
  return lines(d->planes * d->plane + made * d->step, sizeof(float));
}

int64_t cpu_direct_before(const cpu_direct *d) {
  return lines(d->depth / d->grain, sizeof(int64_t));
}

uint64_t cpu_direct_room(const cpu_direct *d) {
  return (uint64_t)(cpu_direct_before(d) + d->parts * cpu_direct_part(d));
}

static void cut_bands(cpu_direct *d) {
  int64_t steps = d->w.out[0], threads = cpu_host->worker_count(cpu_host);
  int64_t others = d->images * d->units, bands = 1;
  direct_plan_lay_out(d, steps);
  for (; d->band > 1 && cpu_direct_part(d) > TASK_BYTES; bands += bands / 4 + 1)
    direct_plan_lay_out(d, (steps + bands - 1) / bands);
  /* few tasks are dealt out evenly */
  bands = (steps + d->band - 1) / d->band;
  while (bands < steps && others * bands < 4 * threads &&
         others * bands % threads)
    bands++;
  direct_plan_lay_out(d, (steps + bands - 1) / bands);
  d->bands = (steps + d->band - 1) / d->band;
  int64_t tasks = others * d->bands;
  d->parts = tasks < threads ? tasks : threads;
}

/* Whether a position sees what lies there, and nothing else. */
static bool sees_points(const window *w) {
  bool point = true;
  for (int i = 0; i < w->space; i++)
    point = point && w->kernel[i] == 1 && w->stride[i] == 1 &&
            w->begin[i] == 0 && w->end[i] == 0;
  return point;
}

void cpu_direct_plan(cpu_direct *d) {
  d->block = cpu_block();
  d->grain = d->across ? d->block : 1;
  d->taps = product(d->w.kernel, 0, (uint32_t)d->w.space);
  d->depth = (d->across ? cpu_filled(d->ins) : d->ins) * d->taps;
  d->unit = 1; /* groups whose channels are whole blocks */
  while (d->unit < d->groups &&
         ((d->blocks_in && d->unit * d->ins % d->block) ||
          (d->blocks_out && d->unit * d->outs % d->block)))
    d->unit++;
  d->units = (d->groups + d->unit - 1) / d->unit;
  d->planes = d->unit * d->ins;
  if (d->blocks_in) d->planes = cpu_filled(d->planes) / d->grain;
  d->lies = d->across && sees_points(&d->w);
  if (d->lies) d->planes = 0;
  cut_bands(d);
}

/* ---- filters -------------------------------------------------------------------------- */

int64_t cpu_direct_filters(const cpu_direct *d, int64_t at, int64_t count) {
  int64_t left = count - at, block = d->block - at % d->block;
  int64_t group = d->outs - at % d->outs;
  if (d->across) return left < 2 * d->block ? left : 2 * d->block;
  left = left < block ? left : block;
  left = left < group ? left : group;
  int64_t turns = (left + DIRECT_ROWS - 1) / DIRECT_ROWS;
  return (left + turns - 1) / turns;
}

int64_t cpu_direct_weights(const cpu_direct *d) {
  int64_t outs = d->groups * d->outs;
  return (d->across ? cpu_filled(outs) : outs) * d->depth;
}

static void pack_along(const cpu_direct *d, const float *from, int64_t filters,
                       float *to) {
  for (int64_t k = 0; k < d->depth; k++)
    for (int64_t r = 0; r < filters; r++)
      *to++ = from[r * d->depth + k];
}

/* Zeros for channels that fill up blocks. */
static void pack_across(const cpu_direct *d, const float *from, int64_t filters,
                        float *to) {
  int64_t b = d->block, all = cpu_filled(filters);
  for (int64_t k = 0; k < d->depth / b; k++)
    for (int64_t i = 0; i < b; i++)
      for (int64_t r = 0; r < all; r++) {
        int64_t in = k / d->taps * b + i, tap = k % d->taps;
        *to++ = r < filters && in < d->ins
                    ? from[(r * d->ins + in) * d->taps + tap]
                    : 0;
      }
}

void cpu_direct_pack(const cpu_direct *d, const float *weights, float *packed) {
  for (int64_t u = 0; u < d->units; u++) {
    int64_t count = direct_groups(d, u) * d->outs;
    for (int64_t at = 0, filters; at < count; at += filters) {
      filters = cpu_direct_filters(d, at, count);
      (d->across ? pack_across : pack_along)(d, weights, filters, packed);
      weights += filters * d->ins * d->taps;
      packed += (d->across ? cpu_filled(filters) : filters) * d->depth;
    }
  }
}

void cpu_direct_offsets(const cpu_direct *d, int64_t *offsets) {
  const window *w = &d->w;
  for (int64_t k = 0; k < d->depth / d->grain; k++) {
    int64_t rest = k % d->taps, scale = 1, phase = 0, at = 0;
    for (int i = w->space; i-- > 0; rest /= w->kernel[i]) {
      int64_t p = rest % w->kernel[i] * w->dilation[i];
      phase += p % w->stride[i] * scale;
      scale *= d->kept[i];
      at += p / w->stride[i] * d->pitch[i];
    }
    offsets[k] = k / d->taps * d->plane + (phase * d->phase + at) * d->grain;
  }
}
