/* roi_align.c - RoiAlign (opset 22; He et al., Mask R-CNN, 2017).
 *
 * A sample of a bin reads four pixels, each with the product of a row's weight and a
 * column's. So the weights of a region's rows and columns are found once for all channels,
 * and a channel's rows become one, column by column, before the columns do. */
#include <stdatomic.h>

#include "kernels.h"
#include "lanes.h"

#define MOST_SAMPLES 4096 /* of a bin, each way */
#define CHANNELS     32   /* of a region, that one thread takes at once */

typedef struct roi_work {
  const kd_tensor *x, *rois, *items, *y;
  const void *pixels; /* x as f32 or f64 */
  const cpu_lanes *lanes;
  double scale;
  int64_t ratio;
  bool half, largest;
  atomic_bool failed; /* no memory for the weights */
} roi_work;

/* ---- regions ----------------------------------------------------------------------- */

/* In pixels, and how many samples a bin has each way. */
typedef struct region {
  double left, top, bin_width, bin_height;
  int64_t down, across, item;
} region;

static int64_t samples_of(double size) {
  if (!(size < MOST_SAMPLES)) return MOST_SAMPLES + 1; /* NaN, too */
  return size > 0 ? (int64_t)ceil(size) : 0;
}

static region region_of(const roi_work *w, int64_t r) {
  const kd_tensor *rois = w->rois;
  double v[4], shift = w->half ? 0.5 : 0;
  for (int i = 0; i < 4; i++)
    v[i] = cpu_get(rois->data, rois->dtype, 4 * r + i) * w->scale - shift;
  double width = v[2] - v[0], height = v[3] - v[1];
  if (!w->half) { /* as before opset 16: a pixel at the least */
    width = fmax(width, 1);
    height = fmax(height, 1);
  }
  region g = {.left = v[0],
              .top = v[1],
              .bin_width = width / (double)w->y->dims[3],
              .bin_height = height / (double)w->y->dims[2],
              .item = ((const int64_t *)w->items->data)[r]};
  g.down = w->ratio > 0 ? w->ratio : samples_of(g.bin_height);
  g.across = w->ratio > 0 ? w->ratio : samples_of(g.bin_width);
  return g;
}

/* ---- weights of bins' rows, or columns --------------------------------------------- */

/* A row, or column, that samples read: the sum of their weights, the largest and the
 * least. */
typedef struct line {
  int64_t at;
  double sum, most, least;
} line;

typedef struct bin {
  int64_t from, to; /* in the list */
  bool leaves;      /* a sample lies outside of the image */
} bin;

/* Of all bins of a region, one way. */
typedef struct lines {
  bin *bins;
  line *list;
  int64_t count, room; /* of the list */
  int64_t size;        /* of the image */
  int64_t first, end;  /* all that is read lies within [first, end) */
} lines;

/* Samples come in order: a line is one of the last two, or new. */
static void weigh(lines *l, const bin *b, int64_t at, double weight) {
  for (int64_t i = l->count; i-- > b->from && i + 2 >= l->count;) {
    line *here = &l->list[i];
    if (here->at != at) continue;
    here->sum += weight;
    here->most = fmax(here->most, weight);
    here->least = fmin(here->least, weight);
    return;
  }
  l->list[l->count++] = (line){at, weight, weight, weight};
  l->first = at < l->first ? at : l->first;
  l->end = at + 1 > l->end ? at + 1 : l->end;
}

/* The samples of a bin, which begins at `from` and is `length` pixels long. */
static void weigh_bin(lines *l, bin *b, double from, double length,
                      int64_t samples) {
  *b = (bin){.from = l->count};
  for (int64_t i = 0; i < samples; i++) {
    double y = from + length * ((double)i + 0.5) / (double)samples;
    if (!(y >= -1 && y <= (double)l->size)) {
      b->leaves = true;
      continue;
    }
    y = fmax(y, 0);
    int64_t y0 = (int64_t)y;
    if (y0 >= l->size - 1) y = (double)(y0 = l->size - 1);
    weigh(l, b, y0, 1 - (y - (double)y0));
    weigh(l, b, y0 < l->size - 1 ? y0 + 1 : y0, y - (double)y0);
  }
  b->to = l->count;
}

/* `count` bins from `from` on; false: there is no memory. */
static bool weigh_bins(lines *l, int64_t count, double from, double length,
                       int64_t samples) {
  int64_t most = 2 * samples * count;
  l->count = 0;
  l->first = l->size;
  l->end = 0;
  if (most > l->room) {
    free(l->list);
    l->list = malloc((size_t)most * sizeof *l->list);
    l->room = l->list ? most : 0;
    if (!l->list) return false;
  }
  for (int64_t i = 0; i < count; i++)
    weigh_bin(l, &l->bins[i], from + length * (double)i, length, samples);
  return true;
}

/* ---- bins ---------------------------------------------------------------------------- */

/* What a thread works on. */
typedef struct roi_room {
  lines rows, columns;
  double *across; /* rows of a bin become one */
} roi_room;

static void join_rows(const roi_work *w, const roi_room *room, const bin *rows,
                      int64_t plane) {
  const lines *columns = &room->columns;
  int64_t n = columns->end - columns->first;
  bool wide = w->x->dtype == KD_F64;
  for (int64_t i = rows->from; i < rows->to; i++) {
    const line *row = &room->rows.list[i];
    int64_t at = plane + row->at * columns->size + columns->first;
    const float *narrow_x = (const float *)w->pixels + at;
    const double *wide_x = (const double *)w->pixels + at;
    bool first = i == rows->from;
    if (w->largest && wide)
      w->lanes->most_f64(room->across, wide_x, row->most, row->least, n, first);
    else if (w->largest)
      w->lanes->most_f32(room->across, narrow_x, row->most, row->least, n,
                         first);
    else if (wide)
      w->lanes->add_f64(room->across, wide_x, row->sum, n, first);
    else
      w->lanes->add_f32(room->across, narrow_x, row->sum, n, first);
  }
}

static double roi_align_sum_of(const roi_room *room, const bin *rows,
                               const bin *columns) {
  const double *across = room->across - room->columns.first;
  double sum = 0;
  if (rows->from == rows->to) return 0;
  for (int64_t k = columns->from; k < columns->to; k++)
    sum += room->columns.list[k].sum * across[room->columns.list[k].at];
  return sum;
}

/* Of the four weighted pixels of each sample; one outside of the image counts as 0. */
static double largest_of(const roi_room *room, const bin *rows,
                         const bin *columns) {
  const double *across = room->across - room->columns.first;
  double best = rows->leaves || columns->leaves ? 0 : -INFINITY;
  if (rows->from == rows->to) return best;
  for (int64_t k = columns->from; k < columns->to; k++) {
    const line *column = &room->columns.list[k];
    double x = across[column->at];
    double value = (x < 0 ? column->least : column->most) * x;
    best = value > best ? value : best;
  }
  return best;
}

/* All bins of one region in one channel. */
static void pool_channel(const roi_work *w, const roi_room *room, int64_t r,
                         int64_t channel, const region *g) {
  int64_t channels = w->x->dims[1], down = w->y->dims[2], n = w->y->dims[3];
  int64_t samples = g->down * g->across;
  int64_t plane =
      (g->item * channels + channel) * room->rows.size * room->columns.size;
  for (int64_t p = 0; p < down; p++) {
    const bin *rows = &room->rows.bins[p];
    int64_t to = ((r * channels + channel) * down + p) * n;
    join_rows(w, room, rows, plane);
    for (int64_t q = 0; q < n; q++) {
      const bin *columns = &room->columns.bins[q];
      double value = samples < 1  ? 0
                     : w->largest ? largest_of(room, rows, columns)
                                  : roi_align_sum_of(room, rows, columns) /
                                        (double)samples;
      if (w->y->dtype == KD_F32)
        ((float *)w->y->data)[to + q] = (float)value;
      else
        cpu_set(w->y->data, w->y->dtype, to + q, value);
    }
  }
}

static bool roi_align_make_room(const roi_work *w, roi_room *room) {
  size_t down = (size_t)w->y->dims[2], across = (size_t)w->y->dims[3];
  *room = (roi_room){.rows.size = w->x->dims[2], .columns.size = w->x->dims[3]};
  room->rows.bins = malloc(down * sizeof(bin));
  room->columns.bins = malloc(across * sizeof(bin));
  room->across = malloc((size_t)w->x->dims[3] * sizeof(double));
  return room->rows.bins && room->columns.bins && room->across;
}

static int64_t parts_of(const roi_work *w) {
  return (w->x->dims[1] + CHANNELS - 1) / CHANNELS;
}

/* Regions, a part of the channels of each. */
static void pool_parts(void *context, int64_t begin, int64_t end) {
  roi_work *w = context;
  int64_t parts = parts_of(w), of_lines = -1;
  roi_room room;
  bool made = roi_align_make_room(w, &room);
  for (int64_t i = begin; i < end && made; i++) {
    int64_t r = i / parts, channel = i % parts * CHANNELS;
    region g = region_of(w, r);
    if (r != of_lines)
      made =
          weigh_bins(&room.rows, w->y->dims[2], g.top, g.bin_height, g.down) &&
          weigh_bins(&room.columns, w->y->dims[3], g.left, g.bin_width,
                     g.across);
    of_lines = r;
    for (int64_t c = 0; c < CHANNELS && channel + c < w->x->dims[1] && made;
         c++)
      pool_channel(w, &room, r, channel + c, &g);
  }
  if (!made) atomic_store(&w->failed, true);
  free(room.rows.bins);
  free(room.rows.list);
  free(room.columns.bins);
  free(room.columns.list);
  free(room.across);
}

/* ---- the kernel ---------------------------------------------------------------------- */

static kd_status check_regions(const roi_work *w) {
  for (int64_t i = 0; i < kd_elements(w->items); i++) {
    int64_t item = ((const int64_t *)w->items->data)[i];
    region g = region_of(w, i);
    if (item < 0 || item >= w->x->dims[0])
      return FAIL(KD_OUT_OF_RANGE, "batch_indices[%lld] is %lld of %lld images",
                  (long long)i, (long long)item, (long long)w->x->dims[0]);
    if (g.down > MOST_SAMPLES || g.across > MOST_SAMPLES)
      return FAIL(KD_INVALID_ARGUMENT,
                  "region %lld takes %lld by %lld samples a bin; at most %d"
                  " each way",
                  (long long)i, (long long)g.down, (long long)g.across,
                  MOST_SAMPLES);
  }
  return KD_OK;
}

CPU_KERNEL(cpu_run_roi_align) {
  const char *mode = attr_string(launch, "mode", "avg");
  const char *name =
      attr_string(launch, "coordinate_transformation_mode", "half_pixel");
  roi_work work = {.x = &launch->inputs[0],
                   .rois = &launch->inputs[1],
                   .items = &launch->inputs[2],
                   .y = &launch->outputs[0],
                   .lanes = cpu_lanes_get(),
                   .scale = (double)attr_float(launch, "spatial_scale", 1),
                   .ratio = attr_int(launch, "sampling_ratio", 0),
                   .half = !strcmp(name, "half_pixel"),
                   .largest = !strcmp(mode, "max")};
  if (!work.half && strcmp(name, "output_half_pixel") != 0)
    return FAIL(KD_UNIMPLEMENTED, "RoiAlign has no \"%s\"", name);
  if (!work.largest && strcmp(mode, "avg") != 0)
    return FAIL(KD_UNIMPLEMENTED, "RoiAlign has no mode \"%s\"", mode);
  if (!kd_elements(work.y)) return KD_OK;
  if (!kd_elements(work.x))
    return FAIL(KD_INVALID_ARGUMENT, "there is nothing to sample");
  kd_status status = check_regions(&work);
  if (status != KD_OK) return status;
  void *wide = NULL;
  bool half = work.x->dtype != KD_F32 && work.x->dtype != KD_F64;
  if (half) {
    int64_t count = kd_elements(work.x);
    wide = malloc((size_t)count * sizeof(float));
    if (!wide) return FAIL(KD_OUT_OF_MEMORY, "no memory for an image's floats");
    cpu_convert(work.x->data, work.x->dtype, wide, KD_F32, count);
  }
  work.pixels = half ? wide : work.x->data;
  int64_t bins = work.y->dims[2] * work.y->dims[3];
  cpu_host->parallel_for(cpu_host, work.rois->dims[0] * parts_of(&work),
                         CPU_GRAIN / 16 / (bins * CHANNELS) + 1, pool_parts,
                         &work);
  free(wide);
  return atomic_load(&work.failed)
             ? FAIL(KD_OUT_OF_MEMORY, "no memory for the weights of a bin")
             : KD_OK;
}
