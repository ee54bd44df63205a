/* resize.c - Resize: nearest, linear and cubic, in any number of dimensions.
 *
 * Semantics: ONNX Resize-18, by families/rules.def. Each output element is a weighted
 * sum over a box of input elements, and the weights of the dimensions multiply; so
 * each dimension gets a table of taps, made once. */
#include "dialect.h"
#include "kernels.h"

typedef struct tap_list {
  int64_t *index; /* by output: `width` input indices, -1 outside */
  double *weight;
  int width;
} tap_list;

/* One dimension of a resize; the words of rules.def for it. */
typedef struct axis {
  int64_t in, out;
  double scale, roi_start, roi_end;
} axis;

typedef double R;
#define SCALE(d)     d->scale
#define SIZES(d)     d->in
#define DIMS(d)      d->out
#define ROI_START(d) d->roi_start
#define ROI_END(d)   d->roi_end
#define CUBIC_A      cubic_a

#define RESIZE_PLACE(name, expression)                   \
  static double place_##name(const axis *d, int64_t o) { \
    return expression;                                   \
  }
#define RESIZE_NEAREST(name, expression)   \
  static double nearest_##name(double x) { \
    return expression;                     \
  }
#define RESIZE_WEIGHT(mode, taps, expression)               \
  static double weight_##mode(double far, double cubic_a) { \
    (void)cubic_a;                                          \
    return expression;                                      \
  }
#include "families/rules.def"

static const struct {
  const char *name;
  double (*place)(const axis *d, int64_t o);
} places[] = {
#define RESIZE_PLACE(name, expression) {#name, place_##name},
#include "families/rules.def"
};
static const struct {
  const char *name;
  double (*nearest)(double x);
} roundings[] = {
#define RESIZE_NEAREST(name, expression) {#name, nearest_##name},
#include "families/rules.def"
};
static const struct {
  const char *name;
  int taps;
  double (*weight)(double far, double cubic_a);
} modes[] = {
    {"nearest", 1, NULL},
#define RESIZE_WEIGHT(mode, taps, expression) {#mode, taps, weight_##mode},
#include "families/rules.def"
};

typedef struct resize {
  double (*place)(const axis *d, int64_t o);
  double (*nearest)(double x);
  double (*weight)(double far, double cubic_a); /* NULL: nearest */
  int taps;
  double cubic_a, extrapolation;
  bool exclude, antialias, crop;
} resize;

static void taps_at(const resize *r, const axis *d, double x, double stretch,
                    int width, int64_t *index, double *weight) {
  double total = 0;
  int64_t first =
      r->weight ? (int64_t)floor(x) - width / 2 + 1 : (int64_t)r->nearest(x);
  for (int k = 0; k < width; k++) {
    int64_t at = first + k;
    bool inside = WITHIN(at, d->in);
    /* antialiasing stretches the filter where the image shrinks */
    weight[k] =
        r->weight ? r->weight(fabs(x - (double)at) / stretch, r->cubic_a) : 1;
    if (!inside && r->exclude && r->weight) weight[k] = 0;
    index[k] = inside ? at : at < 0 ? 0 : d->in - 1;
    total += weight[k];
  }
  for (int k = 0; k < width && total != 0; k++)
    if (r->exclude || r->antialias) weight[k] /= total;
}

static bool make_taps(const resize *r, const axis *d, tap_list *taps) {
  bool shrinks = r->antialias && d->scale < 1 && r->weight;
  double stretch = shrinks ? 1 / d->scale : 1;
  taps->width =
      shrinks ? 2 * (int)ceil((double)r->taps / 2 * stretch) : r->taps;
  size_t count = (size_t)d->out * (size_t)taps->width;
  taps->index = malloc((count + 1) * sizeof *taps->index);
  taps->weight = malloc((count + 1) * sizeof *taps->weight);
  if (!taps->index || !taps->weight) return false;
  for (int64_t o = 0; o < d->out; o++) {
    double x = r->place(d, o);
    int64_t *index = taps->index + o * taps->width;
    taps_at(r, d, x, stretch, taps->width, index,
            taps->weight + o * taps->width);
    bool outside = r->crop && (x < 0 || x > (double)(d->in - 1));
    for (int k = 0; outside && k < taps->width; k++)
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

/* Reads the mode; false where one of its words is not known. */
static bool read_mode(const kd_launch *launch, resize *r) {
  const char *mode = attr_string(launch, "mode", "nearest");
  const char *place =
      attr_string(launch, "coordinate_transformation_mode", "half_pixel");
  const char *nearest =
      attr_string(launch, "nearest_mode", "round_prefer_floor");
  *r = (resize){
      .cubic_a = (double)attr_float(launch, "cubic_coeff_a", -0.75f),
      .extrapolation = (double)attr_float(launch, "extrapolation_value", 0),
      .exclude = attr_int(launch, "exclude_outside", 0) != 0,
      .antialias = attr_int(launch, "antialias", 0) != 0,
      .crop = !strcmp(place, "tf_crop_and_resize")};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    if (!strcmp(place, places[i].name)) r->place = places[i].place;
  for (size_t i = 0; i < sizeof roundings / sizeof *roundings; i++)
    if (!strcmp(nearest, roundings[i].name)) r->nearest = roundings[i].nearest;
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
    if (!strcmp(mode, modes[i].name)) {
      r->taps = modes[i].taps;
      r->weight = modes[i].weight;
    }
  return r->place && r->nearest && r->taps;
}

CPU_KERNEL(cpu_run_resize) {
  (void)self;
  (void)stream;
  const kd_tensor *x = &launch->inputs[0], *y = &launch->outputs[0];
  resize r;
  if (!read_mode(launch, &r))
    return FAIL(KD_UNIMPLEMENTED,
                "Resize has no mode \"%s\" with coordinates \"%s\" and"
                " nearest \"%s\"",
                attr_string(launch, "mode", "nearest"),
                attr_string(launch, "coordinate_transformation_mode", ""),
                attr_string(launch, "nearest_mode", ""));
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
    axis at = {x->dims[d], y->dims[d], 1, 0, 1};
    if (roi && kd_elements(roi) == 2 * (int64_t)x->rank) {
      at.roi_start = cpu_get(roi->data, roi->dtype, d);
      at.roi_end = cpu_get(roi->data, roi->dtype, (int64_t)d + x->rank);
    }
    bool moved =
        at.in != at.out || (r.crop && (at.roi_start != 0 || at.roi_end != 1));
    if (at.in != at.out) at.scale = scale_of(launch, d);
    resize one = r;
    if (!moved)
      one = (resize){
          .place = place_asymmetric, .nearest = nearest_floor, .taps = 1};
    whole = make_taps(&one, &at, &taps[d]);
  }
  resize_work work = {&r, x, y, taps, !r.weight && !r.crop};
  if (whole)
    cpu_host->parallel_for(kd_elements(y), CPU_GRAIN / 16, resize_piece, &work);
  for (uint32_t d = 0; d < x->rank; d++) {
    free(taps[d].index);
    free(taps[d].weight);
  }
  return whole ? KD_OK : FAIL(KD_OUT_OF_MEMORY, "Resize: no memory");
}
