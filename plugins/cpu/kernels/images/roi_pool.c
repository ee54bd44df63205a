/* roi_pool.c - MaxRoiPool (opset 22; Girshick, Fast R-CNN, 2015): the largest pixel of each of a
 * region's bins, whose edges are whole pixels. */
#include "kernels.h"

#define PIXEL_MOST 1e9 /* of a region's edges, either way */

typedef struct pool_work {
  const kd_tensor *x, *rois, *y;
  double scale;
} pool_work;

/* A region's edges in pixels: first and last, rows before columns. */
typedef struct pixels {
  int64_t first[2], last[2], item;
} pixels;

/* False where it is no region of an image. */
static bool read_region(const pool_work *w, int64_t r, pixels *out) {
  double v[5];
  for (int i = 0; i < 5; i++)
    v[i] = cpu_get(w->rois->data, w->rois->dtype, 5 * r + i);
  if (!(v[0] >= 0 && v[0] < (double)w->x->dims[0])) return false;
  out->item = (int64_t)v[0];
  for (int i = 1; i < 5; i++) {
    v[i] = round(v[i] * w->scale);
    if (!(fabs(v[i]) <= PIXEL_MOST)) return false;
  }
  for (int i = 0; i < 2; i++) {
    out->first[i] = (int64_t)v[2 - i];
    out->last[i] = (int64_t)v[4 - i];
  }
  return true;
}

/* The pixels [begin, end) of bin `i` of `bins` along rows or columns, inside the image. */
static void edges_of(const pixels *p, int axis, int64_t i, int64_t bins,
                     int64_t image, int64_t *begin, int64_t *end) {
  int64_t size = p->last[axis] - p->first[axis] + 1;
  size = size > 1 ? size : 1;
  *begin = p->first[axis] + i * size / bins;
  *end = p->first[axis] + ((i + 1) * size + bins - 1) / bins;
  *begin = *begin < 0 ? 0 : *begin > image ? image : *begin;
  *end = *end < 0 ? 0 : *end > image ? image : *end;
}

/* NaN where there is one; 0 of no pixels. */
static double roi_pool_largest(const pool_work *w, int64_t plane,
                               const int64_t rows[2],
                               const int64_t columns[2]) {
  if (rows[0] >= rows[1] || columns[0] >= columns[1]) return 0;
  double best = -INFINITY;
  for (int64_t y = rows[0]; y < rows[1]; y++)
    for (int64_t x = columns[0]; x < columns[1]; x++) {
      double value =
          cpu_get(w->x->data, w->x->dtype, plane + y * w->x->dims[3] + x);
      if (isnan(value)) return value;
      best = value > best ? value : best;
    }
  return best;
}

/* Channels of regions. */
static void pool_channels(void *context, int64_t begin, int64_t end) {
  const pool_work *w = context;
  const int64_t *x = w->x->dims, *y = w->y->dims;
  for (int64_t i = begin; i < end; i++) {
    int64_t r = i / x[1], channel = i % x[1], rows[2], columns[2];
    pixels p = {0};
    if (!read_region(w, r, &p)) continue; /* cannot be: they were checked */
    int64_t plane = (p.item * x[1] + channel) * x[2] * x[3];
    for (int64_t bin = 0; bin < y[2] * y[3]; bin++) {
      edges_of(&p, 0, bin / y[3], y[2], x[2], &rows[0], &rows[1]);
      edges_of(&p, 1, bin % y[3], y[3], x[3], &columns[0], &columns[1]);
      cpu_set(w->y->data, w->y->dtype, i * y[2] * y[3] + bin,
              roi_pool_largest(w, plane, rows, columns));
    }
  }
}

CPU_KERNEL(cpu_run_max_roi_pool) {
  pool_work work = {.x = &launch->inputs[0],
                    .rois = &launch->inputs[1],
                    .y = &launch->outputs[0],
                    .scale = (double)attr_float(launch, "spatial_scale", 1)};
  int64_t regions = work.rois->dims[0];
  pixels p = {0};
  if (!kd_elements(work.y)) return KD_OK;
  for (int64_t r = 0; r < regions; r++)
    if (!read_region(&work, r, &p))
      return FAIL(KD_OUT_OF_RANGE,
                  "rois[%lld] is no region of one of %lld images: its first"
                  " number is the image's, and the others its edges, which may"
                  " be %g pixels at most",
                  (long long)r, (long long)work.x->dims[0], PIXEL_MOST);
  int64_t each = work.x->dims[2] * work.x->dims[3] + 1;
  cpu_host->parallel_for(cpu_host, regions * work.x->dims[1],
                         CPU_GRAIN / each + 1, pool_channels, &work);
  return KD_OK;
}
