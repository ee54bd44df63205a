/* resize.c - Resize: nearest, linear and cubic, in any number of dimensions.
 *
 * Semantics: ONNX Resize-18. Each output element is a weighted sum over a box
 * of input elements, and the weights of the dimensions multiply; so each
 * dimension gets a table of taps, made once. */
#include "kernels.h"

typedef struct tap_list {
  int64_t *index; /* by output: `width` input indices, -1 outside */
  double *weight;
  int width;
} tap_list;

typedef struct resize {
  const char *mode, *coordinates, *nearest;
  double cubic_a, extrapolation;
  bool exclude, antialias;
} resize;

static double source_of(const resize *r, int64_t out, int64_t out_size,
                        int64_t in_size, double scale, double roi_start,
                        double roi_end) {
  const char *mode = r->coordinates;
  double x = (double)out, last = (double)(in_size - 1);
  double length = scale * (double)in_size; /* before it is cut to a whole */
  if (!strcmp(mode, "asymmetric")) return x / scale;
  if (!strcmp(mode, "align_corners"))
    return length == 1 ? 0 : x * last / (length - 1);
  if (!strcmp(mode, "pytorch_half_pixel"))
    return out_size > 1 ? (x + 0.5) / scale - 0.5 : 0;
  if (!strcmp(mode, "tf_half_pixel_for_nn")) return (x + 0.5) / scale;
  if (!strcmp(mode, "tf_crop_and_resize"))
    return out_size > 1 ? roi_start * last + x * (roi_end - roi_start) * last /
                                                 (double)(out_size - 1)
                        : 0.5 * (roi_start + roi_end) * last;
  if (!strcmp(mode, "half_pixel_symmetric")) {
    double adjust = (double)out_size / (scale * (double)in_size);
    double center = (double)in_size / 2;
    return center * (1 - adjust) + (x + 0.5) / scale - 0.5;
  }
  return (x + 0.5) / scale - 0.5;
}

static int64_t nearest_of(const resize *r, double x) {
  double down = floor(x);
  if (!strcmp(r->nearest, "floor")) return (int64_t)down;
  if (!strcmp(r->nearest, "ceil")) return (int64_t)ceil(x);
  if (!strcmp(r->nearest, "round_prefer_ceil")) return (int64_t)floor(x + 0.5);
  return (int64_t)ceil(x - 0.5);
}

static double cubic(double a, double distance) {
  double x = fabs(distance);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((x - 5) * x + 8) * x * a - 4 * a;
  return 0;
}

/* Antialiasing stretches the filter where the image shrinks. */
static double weight_of(const resize *r, double distance, double stretch) {
  distance /= stretch;
  if (*r->mode == 'c') return cubic(r->cubic_a, distance);
  double x = fabs(distance);
  return x < 1 ? 1 - x : 0;
}

static void taps_at(const resize *r, double x, int64_t in_size, double stretch,
                    int width, int64_t *index, double *weight) {
  if (*r->mode == 'n') {
    int64_t at = nearest_of(r, x);
    index[0] = at < 0 ? 0 : at >= in_size ? in_size - 1 : at;
    weight[0] = 1;
    return;
  }
  double total = 0;
  int64_t first = (int64_t)floor(x) - width / 2 + 1;
  for (int k = 0; k < width; k++) {
    int64_t at = first + k;
    bool inside = at >= 0 && at < in_size;
    weight[k] = weight_of(r, x - (double)at, stretch);
    if (!inside && r->exclude) weight[k] = 0;
    index[k] = at < 0 ? 0 : at >= in_size ? in_size - 1 : at;
    total += weight[k];
  }
  for (int k = 0; k < width && total != 0; k++)
    if (r->exclude || r->antialias) weight[k] /= total;
}

static bool make_taps(const resize *r, int64_t in_size, int64_t out_size,
                      double scale, double roi_start, double roi_end,
                      tap_list *taps) {
  bool shrinks = r->antialias && scale < 1 && *r->mode != 'n';
  double stretch = shrinks ? 1 / scale : 1;
  int reach = *r->mode == 'n' ? 1 : *r->mode == 'c' ? 4 : 2;
  taps->width = shrinks ? 2 * (int)ceil((double)reach / 2 * stretch) : reach;
  size_t count = (size_t)out_size * (size_t)taps->width;
  taps->index = malloc((count + 1) * sizeof *taps->index);
  taps->weight = malloc((count + 1) * sizeof *taps->weight);
  if (!taps->index || !taps->weight) return false;
  bool crop = !strcmp(r->coordinates, "tf_crop_and_resize");
  for (int64_t o = 0; o < out_size; o++) {
    double x = source_of(r, o, out_size, in_size, scale, roi_start, roi_end);
    int64_t *index = taps->index + o * taps->width;
    taps_at(r, x, in_size, stretch, taps->width, index,
            taps->weight + o * taps->width);
    for (int k = 0;
         crop && (x < 0 || x > (double)(in_size - 1)) && k < taps->width; k++)
      index[k] = -1;
  }
  return true;
}

/* The weighted sum of one output element; taps of each dimension at `at`. */
static double sample(const resize *r, const kd_tensor *x, const tap_list *taps,
                     const int64_t *at, const int64_t *packed) {
  int tap[KD_MAX_RANK] = {0};
  double sum = 0;
  for (;;) {
    double weight = 1;
    int64_t from = 0;
    for (uint32_t d = 0; d < x->rank; d++) {
      int64_t k = at[d] * taps[d].width + tap[d];
      if (taps[d].index[k] < 0) return r->extrapolation;
      weight *= taps[d].weight[k];
      from += taps[d].index[k] * packed[d];
    }
    sum += weight * cpu_get(x->data, x->dtype, from);
    int d = (int)x->rank - 1;
    for (; d >= 0 && ++tap[d] == taps[d].width; d--)
      tap[d] = 0;
    if (d < 0) return sum;
  }
}

typedef struct resize_work {
  const resize *r;
  const kd_tensor *x, *y;
  const tap_list *taps;
  bool copy; /* nearest: elements are copied whole */
} resize_work;

static void resize_piece(void *context, int64_t begin, int64_t end) {
  const resize_work *work = context;
  int64_t packed[KD_MAX_RANK], at[KD_MAX_RANK];
  size_t size = kd_dtype_size(work->x->dtype);
  strided_packed(work->x->dims, work->x->rank, packed);
  for (int64_t i = begin; i < end; i++) {
    int64_t rest = i, from = 0;
    for (uint32_t d = work->y->rank; d-- > 0; rest /= work->y->dims[d])
      at[d] = rest % work->y->dims[d];
    for (uint32_t d = 0; work->copy && d < work->x->rank; d++)
      from += work->taps[d].index[at[d]] * packed[d];
    if (work->copy)
      memcpy((char *)work->y->data + (size_t)i * size,
             (const char *)work->x->data + (size_t)from * size, size);
    else
      cpu_set(work->y->data, work->y->dtype, i,
              sample(work->r, work->x, work->taps, at, packed));
  }
}

/* The given scale of dimension d, or the ratio of the sizes. */
static double scale_of(const kd_launch *launch, uint32_t d) {
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  const int64_t *axes = NULL;
  int64_t named = attr_ints(launch, "axes", &axes);
  int64_t at = named < 0 ? (int64_t)d : -1;
  for (int64_t i = 0; i < named; i++)
    if (axis_of(axes[i], x->rank) == d) at = i;
  if (kd_has_input(launch, 2) && at >= 0 &&
      at < kd_elements(&launch->inputs[2]))
    return (double)((const float *)launch->inputs[2].data)[at];
  return x->dims[d] ? (double)y->dims[d] / (double)x->dims[d] : 1;
}

CPU_KERNEL(cpu_run_resize) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  resize r = {
      .mode = attr_string(launch, "mode", "nearest"),
      .coordinates =
          attr_string(launch, "coordinate_transformation_mode", "half_pixel"),
      .nearest = attr_string(launch, "nearest_mode", "round_prefer_floor"),
      .cubic_a = (double)attr_float(launch, "cubic_coeff_a", -0.75f),
      .extrapolation = (double)attr_float(launch, "extrapolation_value", 0),
      .exclude = attr_int(launch, "exclude_outside", 0) != 0,
      .antialias = attr_int(launch, "antialias", 0) != 0,
  };
  if (strcmp(r.mode, "nearest") != 0 && strcmp(r.mode, "linear") != 0 &&
      strcmp(r.mode, "cubic") != 0)
    return FAIL(KD_UNIMPLEMENTED, "Resize has no mode \"%s\"", r.mode);
  if (strcmp(attr_string(launch, "keep_aspect_ratio_policy", "stretch"),
             "stretch") != 0)
    return FAIL(KD_UNIMPLEMENTED, "keep_aspect_ratio_policy is not supported");
  if (!kd_elements(y)) return KD_OK;
  if (!kd_elements(x))
    return FAIL(KD_INVALID_ARGUMENT, "there is nothing to resize");
  tap_list taps[KD_MAX_RANK] = {{0}};
  const kd_tensor *roi = kd_has_input(launch, 1) ? &launch->inputs[1] : NULL;
  bool whole = true;
  for (uint32_t d = 0; d < x->rank && whole; d++) {
    double start = 0, end = 1;
    if (roi && kd_elements(roi) == 2 * (int64_t)x->rank) {
      start = cpu_get(roi->data, roi->dtype, d);
      end = cpu_get(roi->data, roi->dtype, (int64_t)d + x->rank);
    }
    resize one = r;
    if (x->dims[d] == y->dims[d] && start == 0 && end == 1)
      one = (resize){
          .mode = "nearest", .coordinates = "asymmetric", .nearest = "floor"};
    whole = make_taps(&one, x->dims[d], y->dims[d],
                      x->dims[d] == y->dims[d] ? 1 : scale_of(launch, d), start,
                      end, &taps[d]);
  }
  resize_work work = {
      &r, x, y, taps,
      *r.mode == 'n' && strcmp(r.coordinates, "tf_crop_and_resize") != 0};
  if (whole)
    cpu_host->parallel_for(kd_elements(y), CPU_GRAIN / 16, resize_piece, &work);
  for (uint32_t d = 0; d < x->rank; d++) {
    free(taps[d].index);
    free(taps[d].weight);
  }
  return whole ? KD_OK : FAIL(KD_OUT_OF_MEMORY, "Resize: no memory");
}
