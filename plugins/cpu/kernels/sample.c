/* sample.c - reading an image between its pixels: GridSample, RoiAlign. */
#include "kernels.h"

/* ---- GridSample (opset 20) --------------------------------------------------------- */

#define SPACE      (KD_MAX_RANK - 2) /* most dimensions of an image */
#define NEIGHBOURS 256 /* most of a place: 4 a side in 4 dimensions */

enum { ZEROS, BORDER, REFLECTION };

typedef struct grid_work {
  const kd_tensor *x, *grid, *y;
  bool aligned;
  int padding, wide; /* neighbours a side: 1 nearest, 2 linear, 4 cubic */
  uint32_t space;    /* dimensions of an image */
  const int64_t *dims;
  int64_t plane, places;
} grid_work;

static double to_pixels(const grid_work *w, double at, int64_t size) {
  return w->aligned ? (at + 1) / 2 * (double)(size - 1)
                    : ((at + 1) * (double)size - 1) / 2;
}

/* Mirrored between two lines until it lies between them. */
static double reflect(double x, double low, double high) {
  double range = high - low;
  if (range <= 0) return low;
  double from = fmod(fabs(x - low), 2 * range);
  return low + (from > range ? 2 * range - from : from);
}

/* A place outside the image brought into it. */
static double pad_place(const grid_work *w, double x, int64_t size) {
  double low = w->aligned ? 0 : -0.5;
  double high = w->aligned ? (double)(size - 1) : (double)size - 0.5;
  if (w->padding == ZEROS || (x >= low && x <= high)) return x;
  if (w->padding == REFLECTION) return reflect(x, low, high);
  return fmin(fmax(x, 0), (double)(size - 1));
}

/* A pixel along one dimension, or -1 outside; NaN is outside. */
static int64_t pixel_at(const grid_work *w, double x, int64_t size) {
  x = pad_place(w, x, size);
  if (w->padding != ZEROS) x = fmin(fmax(x, 0), (double)(size - 1));
  return x >= 0 && x < (double)size ? (int64_t)x : -1;
}

/* Keys' kernel (a = -0.75) at the four neighbours of t behind the second. */
static void cubic_weights(double t, double *out) {
  const double a = -0.75;
  const double x[4] = {1 + t, t, 1 - t, 2 - t};
  for (int i = 0; i < 4; i++)
    out[i] = i == 1 || i == 2
                 ? ((a + 2) * x[i] - (a + 3)) * x[i] * x[i] + 1
                 : ((a * x[i] - 5 * a) * x[i] + 8 * a) * x[i] - 4 * a;
}

/* The neighbours along one dimension: places (-1 outside) and weights. A cubic place
 * stays outside, and its neighbours are brought in one by one: so PyTorch has it, from
 * where the op comes, and ONNX Runtime; onnx.reference brings in the place. */
static void beside(const grid_work *w, double x, int64_t size, int64_t *at,
                   double *weights) {
  if (w->wide == 1) x = rint(x);
  if (w->wide != 4) x = pad_place(w, x, size);
  double first = floor(x), t = x - first;
  weights[0] = w->wide == 1 ? 1 : 1 - t;
  weights[1] = t;
  if (w->wide == 4) cubic_weights(t, weights);
  for (int i = 0; i < w->wide; i++)
    at[i] = pixel_at(w, first + i - (w->wide == 4), size);
}

/* Neighbours and weights of a place: the same for all channels. Returns how many. */
static int neighbours(const grid_work *w, int64_t place, int64_t *at,
                      double *weights) {
  int count = 1;
  at[0] = 0;
  weights[0] = 1;
  for (uint32_t d = 0; d < w->space;
       d++) { /* the grid names the last one first */
    double where = cpu_get(w->grid->data, w->grid->dtype,
                           place * w->space + w->space - 1 - d);
    int64_t next[4], size = w->dims[d];
    double part[4];
    beside(w, to_pixels(w, where, size), size, next, part);
    for (int i = count * w->wide; i-- > 0;) { /* from behind: in place */
      int before = i / w->wide, k = i % w->wide;
      at[i] = at[before] < 0 || next[k] < 0 ? -1 : at[before] * size + next[k];
      weights[i] = weights[before] * part[k];
    }
    count *= w->wide;
  }
  return count;
}

static void grid_places(void *context, int64_t begin, int64_t end) {
  const grid_work *w = context;
  const kd_tensor *x = w->x, *y = w->y;
  int64_t channels = x->dims[1], at[NEIGHBOURS];
  double weights[NEIGHBOURS];
  size_t size = kd_dtype_size(x->dtype);
  for (int64_t i = begin; i < end; i++) {
    int count = neighbours(w, i, at, weights);
    for (int64_t c = 0; c < channels; c++) {
      int64_t from = (i / w->places * channels + c) * w->plane;
      int64_t to = (i / w->places * channels + c) * w->places + i % w->places;
      double sum = 0;
      if (w->wide == 1 && at[0] >= 0) {
        memcpy((char *)y->data + (size_t)to * size,
               (const char *)x->data + (size_t)(from + at[0]) * size, size);
        continue;
      }
      for (int k = 0; k < count; k++)
        if (at[k] >= 0)
          sum += weights[k] * cpu_get(x->data, x->dtype, from + at[k]);
      cpu_set(y->data, y->dtype, to, sum);
    }
  }
}

CPU_KERNEL(cpu_run_grid_sample) {
  (void)self;
  (void)stream;
  const char *mode = attr_string(launch, "mode", "linear");
  const char *padding = attr_string(launch, "padding_mode", "zeros");
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  grid_work work = {.x = x,
                    .grid = &launch->inputs[1],
                    .y = y,
                    .aligned = attr_int(launch, "align_corners", 0) != 0,
                    .padding = !strcmp(padding, "border")       ? BORDER
                               : !strcmp(padding, "reflection") ? REFLECTION
                                                                : ZEROS,
                    .wide = !strcmp(mode, "nearest")  ? 1
                            : !strcmp(mode, "linear") ? 2
                            : !strcmp(mode, "cubic")  ? 4
                                                      : 0,
                    .space = x->rank - 2,
                    .dims = x->dims + 2,
                    .plane = product(x->dims, 2, x->rank),
                    .places = product(y->dims, 2, y->rank)};
  if (!work.wide)
    return FAIL(KD_UNIMPLEMENTED, "GridSample has no mode \"%s\"", mode);
  if (work.padding == ZEROS && strcmp(padding, "zeros") != 0)
    return FAIL(KD_UNIMPLEMENTED, "GridSample has no padding_mode \"%s\"",
                padding);
  if (work.wide == 4 && work.space > 4)
    return FAIL(KD_UNIMPLEMENTED, "cubic in %u dimensions, and 4 are the most",
                (unsigned)work.space);
  if (!kd_elements(y)) return KD_OK;
  if (!work.plane)
    return FAIL(KD_INVALID_ARGUMENT, "there is nothing to sample");
  cpu_host->parallel_for(y->dims[0] * work.places,
                         CPU_GRAIN / 64 / x->dims[1] + 1, grid_places, &work);
  return KD_OK;
}

/* ---- RoiAlign (opset 16; He et al., Mask R-CNN, 2017) ------------------------------------ */

typedef struct roi_work {
  const kd_tensor *x, *rois, *items, *y;
  double scale;
  int64_t ratio;
  bool half, largest;
} roi_work;

typedef struct corners {
  int64_t at[4];
  double w[4];
} corners;

static corners corners_of(double y, double x, int64_t height, int64_t width) {
  corners c = {{0}, {0}};
  if (!(y >= -1 && x >= -1 && y <= (double)height && x <= (double)width))
    return c;
  y = fmax(y, 0);
  x = fmax(x, 0);
  int64_t y0 = (int64_t)y, x0 = (int64_t)x;
  if (y0 >= height - 1) y = (double)(y0 = height - 1);
  if (x0 >= width - 1) x = (double)(x0 = width - 1);
  int64_t y1 = y0 < height - 1 ? y0 + 1 : y0;
  int64_t x1 = x0 < width - 1 ? x0 + 1 : x0;
  double fy = y - (double)y0, fx = x - (double)x0;
  return (corners){
      {y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
      {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
}

/* A region in pixels, and how many samples a bin has each way. */
typedef struct region {
  double left, top, bin_width, bin_height;
  int64_t down, across, item;
} region;

#define MOST_SAMPLES 4096 /* a bin, each way */

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

static double pool_bin(const roi_work *w, const region *g, int64_t plane,
                       int64_t p, int64_t q) {
  double sum = 0, best = -INFINITY;
  for (int64_t s = 0; s < g->down; s++)
    for (int64_t t = 0; t < g->across; t++) {
      double fy = ((double)s + 0.5) / (double)g->down;
      double fx = ((double)t + 0.5) / (double)g->across;
      corners c = corners_of(g->top + g->bin_height * ((double)p + fy),
                             g->left + g->bin_width * ((double)q + fx),
                             w->x->dims[2], w->x->dims[3]);
      for (int k = 0; k < 4; k++) {
        double term =
            c.w[k] * cpu_get(w->x->data, w->x->dtype, plane + c.at[k]);
        sum += term;
        best = fmax(best, term);
      }
    }
  int64_t count = g->down * g->across;
  if (count < 1) return 0;
  return w->largest ? best : sum / (double)count;
}

static void roi_planes(void *context, int64_t begin, int64_t end) {
  const roi_work *w = context;
  int64_t channels = w->x->dims[1], rows = w->y->dims[2];
  int64_t columns = w->y->dims[3], plane = w->x->dims[2] * w->x->dims[3];
  for (int64_t i = begin; i < end; i++) {
    region g = region_of(w, i / channels);
    int64_t from = (g.item * channels + i % channels) * plane;
    for (int64_t p = 0; p < rows; p++)
      for (int64_t q = 0; q < columns; q++)
        cpu_set(w->y->data, w->y->dtype, (i * rows + p) * columns + q,
                pool_bin(w, &g, from, p, q));
  }
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
  for (int64_t i = 0; i < kd_elements(work.items); i++) {
    int64_t item = ((const int64_t *)work.items->data)[i];
    region g = region_of(&work, i);
    if (item < 0 || item >= work.x->dims[0])
      return FAIL(KD_OUT_OF_RANGE, "batch_indices[%lld] is %lld of %lld images",
                  (long long)i, (long long)item, (long long)work.x->dims[0]);
    if (g.down > MOST_SAMPLES || g.across > MOST_SAMPLES)
      return FAIL(KD_INVALID_ARGUMENT,
                  "region %lld takes %lld by %lld samples"
                  " a bin",
                  (long long)i, (long long)g.down, (long long)g.across);
  }
  cpu_host->parallel_for(work.rois->dims[0] * work.x->dims[1], 1, roi_planes,
                         &work);
  return KD_OK;
}
