/* sample.c - reading an image between its pixels: GridSample. */
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

#define PLACES 64 /* whose neighbours are known at once */
#define TAPS   16 /* of each of them, at most */

typedef struct near_places {
  int count; /* of neighbours of each */
  int64_t at[TAPS][PLACES];
  double weights[TAPS][PLACES];
} near_places;

/* One channel of `n` places, of f32; neighbours by tap and place. Outside, the index is
 * that of some element, and its value is not taken. */
static void grid_channel(const float *x, const near_places *near, int64_t n,
                         float *y) {
  double sums[PLACES] = {0};
  for (int k = 0; k < near->count; k++)
    for (int64_t i = 0; i < n; i++) {
      int64_t from = near->at[k][i];
      double value = (double)x[from < 0 ? 0 : from];
      sums[i] += from < 0 ? 0 : near->weights[k][i] * value;
    }
  for (int64_t i = 0; i < n; i++)
    y[i] = (float)sums[i];
}

/* Places of f32 images, some of them for all channels. */
static void grid_blocks(void *context, int64_t begin, int64_t end) {
  const grid_work *w = context;
  int64_t channels = w->x->dims[1], one[NEIGHBOURS], n = 0;
  double weight[NEIGHBOURS];
  near_places near = {0};
  for (int64_t i = begin; i < end; i += n) {
    int64_t image = i / w->places, place = i % w->places;
    n = w->places - place;
    n = n < end - i ? n : end - i;
    n = n < PLACES ? n : PLACES;
    for (int64_t p = 0; p < n; p++) {
      near.count = neighbours(w, i + p, one, weight);
      for (int k = 0; k < near.count; k++) {
        near.at[k][p] = one[k];
        near.weights[k][p] = weight[k];
      }
    }
    for (int64_t c = image * channels; c < (image + 1) * channels; c++)
      grid_channel((const float *)w->x->data + c * w->plane, &near, n,
                   (float *)w->y->data + c * w->places + place);
  }
}

/* More neighbours than have a table, or other types, go place by place. */
static bool in_blocks(const grid_work *w) {
  int count = 1;
  for (uint32_t d = 0; d < w->space && count <= TAPS; d++)
    count *= w->wide;
  return w->x->dtype == KD_F32 && count <= TAPS && w->wide > 1;
}

CPU_KERNEL(cpu_run_grid_sample) {
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
  cpu_host->parallel_for(cpu_host, y->dims[0] * work.places,
                         CPU_GRAIN / 64 / x->dims[1] + 1,
                         in_blocks(&work) ? grid_blocks : grid_places, &work);
  return KD_OK;
}
