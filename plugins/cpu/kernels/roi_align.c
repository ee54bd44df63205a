/* roi_align.c - RoiAlign (opset 22; He et al., Mask R-CNN, 2017).
 *
 * A sample of a bin reads four pixels, each with the product of a row's weight and a
 * column's. So the weights of a bin's rows and columns are found once, and each pixel is
 * read once, however many samples there are. */
#include <stdatomic.h>

#include "kernels.h"

#define MOST_SAMPLES 4096 /* of a bin, each way */

typedef struct roi_work {
  const kd_tensor *x, *rois, *items, *y;
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

/* ---- weights of a bin's rows, or columns ------------------------------------------- */

/* A row, or column, that samples read: the sum of their weights, the largest and the
 * least. */
typedef struct line {
  int64_t at;
  double sum, most, least;
} line;

typedef struct lines {
  line *list;    /* of at most `size` */
  int64_t *slot; /* of each row of the image in the list; -1: it is not read */
  int64_t count, size;
  bool leaves; /* a sample lies outside of the image */
} lines;

static void weigh(lines *l, int64_t at, double weight) {
  if (l->slot[at] < 0) {
    l->slot[at] = l->count;
    l->list[l->count++] = (line){at, weight, weight, weight};
    return;
  }
  line *here = &l->list[l->slot[at]];
  here->sum += weight;
  here->most = fmax(here->most, weight);
  here->least = fmin(here->least, weight);
}

/* The samples of a bin, which begins at `from` and is `length` pixels long. */
static void weigh_bin(lines *l, double from, double length, int64_t samples) {
  while (l->count)
    l->slot[l->list[--l->count].at] = -1;
  l->leaves = false;
  for (int64_t i = 0; i < samples; i++) {
    double y = from + length * ((double)i + 0.5) / (double)samples;
    if (!(y >= -1 && y <= (double)l->size)) {
      l->leaves = true;
      continue;
    }
    y = fmax(y, 0);
    int64_t y0 = (int64_t)y;
    if (y0 >= l->size - 1) y = (double)(y0 = l->size - 1);
    weigh(l, y0, 1 - (y - (double)y0));
    weigh(l, y0 < l->size - 1 ? y0 + 1 : y0, y - (double)y0);
  }
}

static bool lines_make(lines *l, int64_t size) {
  *l = (lines){.size = size};
  l->list = cpu_host->allocate(cpu_host, (uint64_t)size * sizeof *l->list, 0);
  l->slot = cpu_host->allocate(cpu_host, (uint64_t)size * sizeof *l->slot, 0);
  for (int64_t i = 0; i < size && l->slot; i++)
    l->slot[i] = -1;
  return l->list && l->slot;
}

static void lines_free(lines *l) {
  if (l->list) cpu_host->release(cpu_host, l->list);
  if (l->slot) cpu_host->release(cpu_host, l->slot);
}

/* ---- bins ---------------------------------------------------------------------------- */

static double sum_of(const roi_work *w, const lines *rows, const lines *columns,
                     int64_t plane) {
  double sum = 0;
  for (int64_t i = 0; i < rows->count; i++) {
    int64_t row = plane + rows->list[i].at * columns->size;
    double along = 0;
    for (int64_t k = 0; k < columns->count; k++)
      along += columns->list[k].sum *
               cpu_get(w->x->data, w->x->dtype, row + columns->list[k].at);
    sum += rows->list[i].sum * along;
  }
  return sum;
}

/* Of the four weighted pixels of each sample; one outside of the image counts as 0. */
static double largest_of(const roi_work *w, const lines *rows,
                         const lines *columns, int64_t plane) {
  double best = rows->leaves || columns->leaves ? 0 : -INFINITY;
  for (int64_t i = 0; i < rows->count; i++) {
    const line *row = &rows->list[i];
    for (int64_t k = 0; k < columns->count; k++) {
      const line *column = &columns->list[k];
      double x = cpu_get(w->x->data, w->x->dtype,
                         plane + row->at * columns->size + column->at);
      double weight =
          x < 0 ? row->least * column->least : row->most * column->most;
      best = fmax(best, weight * x);
    }
  }
  return best;
}

/* A row of bins of one region, in all channels. */
static void pool_row(const roi_work *w, int64_t r, int64_t p, lines *rows,
                     lines *columns) {
  region g = region_of(w, r);
  int64_t channels = w->x->dims[1], plane = rows->size * columns->size;
  int64_t down = w->y->dims[2], across = w->y->dims[3];
  int64_t samples = g.down * g.across;
  weigh_bin(rows, g.top + g.bin_height * (double)p, g.bin_height, g.down);
  for (int64_t q = 0; q < across; q++) {
    weigh_bin(columns, g.left + g.bin_width * (double)q, g.bin_width, g.across);
    for (int64_t c = 0; c < channels; c++) {
      int64_t from = (g.item * channels + c) * plane;
      double value = samples < 1 ? 0
                     : w->largest
                         ? largest_of(w, rows, columns, from)
                         : sum_of(w, rows, columns, from) / (double)samples;
      cpu_set(w->y->data, w->y->dtype,
              ((r * channels + c) * down + p) * across + q, value);
    }
  }
}

static void pool_rows(void *context, int64_t begin, int64_t end) {
  roi_work *w = context;
  lines rows = {0}, columns = {0};
  bool made =
      lines_make(&rows, w->x->dims[2]) && lines_make(&columns, w->x->dims[3]);
  if (!made) atomic_store(&w->failed, true);
  for (int64_t i = begin; i < end && made; i++)
    pool_row(w, i / w->y->dims[2], i % w->y->dims[2], &rows, &columns);
  lines_free(&rows);
  lines_free(&columns);
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
  (void)self;
  (void)stream;
  const char *mode = attr_string(launch, "mode", "avg");
  const char *name =
      attr_string(launch, "coordinate_transformation_mode", "half_pixel");
  roi_work work = {.x = &launch->inputs[0],
                   .rois = &launch->inputs[1],
                   .items = &launch->inputs[2],
                   .y = &launch->outputs[0],
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
  cpu_host->parallel_for(cpu_host, work.rois->dims[0] * work.y->dims[2], 1,
                         pool_rows, &work);
  return atomic_load(&work.failed)
             ? FAIL(KD_OUT_OF_MEMORY, "no memory for the weights of a bin")
             : KD_OK;
}
