/* resize.c - Resize: nearest, linear and cubic, in any number of dimensions.
 *
 * Semantics: ONNX Resize-18, by families/rules.def. Each output element is a weighted
 * sum over a box of input elements, and the weights of the dimensions multiply; so
 * each dimension gets a table of taps, made once. */
#include "resize.h"

#include "blocked/blocked.h"
#include "dialect.h"
#include "families/resize.h"
#include "kernels.h"

typedef struct tap_list {
  int64_t *index; /* by output: `width` input indices, -1 outside */
  double *weight;
  int64_t width;
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

/* Taps of one dimension; more are more than any memory has. */
#define TAPS_MOST (INT64_C(1) << 40)

typedef struct resize {
  double (*place)(const axis *d, int64_t o);
  double (*nearest)(double x);
  double (*weight)(double far, double cubic_a); /* NULL: nearest */
  int taps;
  double cubic_a, extrapolation;
  bool exclude, antialias, crop;
} resize;

/* x as an integer, where it fits into one; any x has a result. */
static int64_t resize_whole(double x) {
  return (int64_t)fmin(fmax(x, -0x1p53), 0x1p53);
}

static void taps_at(const resize *r, const axis *d, double x, double stretch,
                    int64_t width, int64_t *index, double *weight) {
  double total = 0;
  int64_t first = r->weight ? resize_whole(floor(x)) - width / 2 + 1
                            : resize_whole(r->nearest(x));
  for (int64_t k = 0; k < width; k++) {
    int64_t at = first + k;
    bool inside = WITHIN(at, d->in);
    /* antialiasing stretches the filter where the image shrinks */
    weight[k] =
        r->weight ? r->weight(fabs(x - (double)at) / stretch, r->cubic_a) : 1;
    if (!inside && r->exclude && r->weight) weight[k] = 0;
    index[k] = inside ? at : at < 0 ? 0 : d->in - 1;
    total += weight[k];
  }
  for (int64_t k = 0; k < width && total != 0; k++)
    if (r->exclude || r->antialias) weight[k] /= total;
}

static bool make_taps(const resize *r, const axis *d, tap_list *taps) {
  bool shrinks = r->antialias && d->scale < 1 && r->weight;
  double stretch = shrinks ? 1 / d->scale : 1;
  taps->width =
      shrinks ? 2 * resize_whole(ceil((double)r->taps / 2 * stretch)) : r->taps;
  if (taps->width > TAPS_MOST / d->out) return false;
  size_t count = (size_t)d->out * (size_t)taps->width;
  taps->index = malloc((count + 1) * sizeof *taps->index);
  taps->weight = malloc((count + 1) * sizeof *taps->weight);
  if (!taps->index || !taps->weight) return false;
  for (int64_t o = 0; o < d->out; o++) {
    double x = r->place(d, o);
    int64_t *index = taps->index + o * taps->width;
    taps_at(r, d, x, stretch, taps->width, index,
            taps->weight + o * taps->width);
    bool outside = r->crop && !(x >= 0 && x <= (double)(d->in - 1));
    for (int64_t k = 0; outside && k < taps->width; k++)
      index[k] = -1;
  }
  return true;
}

/* The weighted sum of one output element; taps of each dimension at `at`. */
static double sample(const resize *r, const kd_tensor *x, const tap_list *taps,
                     const int64_t *at, const int64_t *packed) {
  int64_t tap[KD_MAX_RANK] = {0};
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

/* An element of the result: what an integer can't hold is the nearest that it can. */
static void resize_put(const kd_tensor *y, int64_t i, double value) {
  static const double ends[KD_DTYPE_COUNT][2] = {
      [KD_I8] = {INT8_MIN, INT8_MAX},
      [KD_U8] = {0, UINT8_MAX},
      [KD_I16] = {INT16_MIN, INT16_MAX},
      [KD_U16] = {0, UINT16_MAX},
      [KD_I32] = {INT32_MIN, INT32_MAX},
      [KD_U32] = {0, UINT32_MAX},
      [KD_U64] = {0, 0x1p64}};
  const double *end = ends[y->dtype];
  if (end[1] > 0 && value < end[0]) value = end[0];
  if (end[1] > 0 && value > end[1]) value = end[1];
  cpu_set(y->data, y->dtype, i, value);
}

typedef struct resize_work {
  const resize *r;
  const kd_tensor *x, *y;
  const tap_list *taps;
} resize_work;

/* Nearest: elements are copied whole. */
static void copy_one(const resize_work *work, int64_t i, const int64_t *at,
                     const int64_t *packed) {
  size_t size = kd_dtype_size(work->x->dtype);
  int64_t from = 0;
  for (uint32_t d = 0; d < work->x->rank; d++) {
    int64_t index = work->taps[d].index[at[d]];
    if (index < 0) {
      resize_put(work->y, i, work->r->extrapolation);
      return;
    }
    from += index * packed[d];
  }
  memcpy((char *)work->y->data + (size_t)i * size,
         (const char *)work->x->data + (size_t)from * size, size);
}

static void resize_piece(void *context, int64_t begin, int64_t end) {
  const resize_work *work = context;
  int64_t packed[KD_MAX_RANK], at[KD_MAX_RANK];
  strided_packed(work->x->dims, work->x->rank, packed);
  for (int64_t i = begin; i < end; i++) {
    int64_t rest = i;
    for (uint32_t d = work->y->rank; d-- > 0; rest /= work->y->dims[d])
      at[d] = rest % work->y->dims[d];
    if (work->r->weight)
      resize_put(work->y, i, sample(work->r, work->x, work->taps, at, packed));
    else
      copy_one(work, i, at, packed);
  }
}

/* ---- by rows ---------------------------------------------------------------------- */

/* Taps of the first dimension that may be kept at once. */
#define WIDTH_MOST 512

static bool all_inside(const tap_list *taps, int64_t outs) {
  for (int64_t i = 0; i < outs * taps->width; i++)
    if (taps->index[i] < 0) return false;
  return true;
}

static resize_taps resize_taps_of(const kd_tensor *x, const kd_tensor *y,
                                  uint32_t d, const tap_list *taps) {
  return (resize_taps){x->dims[d], y->dims[d], taps->width, taps->index,
                       taps->weight};
}

/* The dimensions that rows are made of; false where it is to go by elements: some lie
 * outside of the picture, or sums are of integers that doubles do not hold. */
static bool make_rows(resize_work *work, const resize_axis *given,
                      const kd_loop_body *body, resize_rows *rows) {
  static const int64_t only[1] = {0};
  static const double one[1] = {1};
  const kd_tensor *x = work->x, *y = work->y;
  int first = 0, last = (int)x->rank - 1;
  while (first < last && !given[first].moved)
    first++;
  while (last > first && !given[last].moved)
    last--;
  *rows = (resize_rows){.tail = product(x->dims, (uint32_t)last + 1, x->rank),
                        .size = kd_dtype_size(x->dtype),
                        .x = x->data,
                        .y = y->data,
                        .plain = resize_piece,
                        .context = work};
  if (!x->rank || !*body) return false;
  if (first == last && first > 0) first--; /* rows, not elements */
  rows->outer = product(x->dims, 0, (uint32_t)first);
  if (first == last)
    rows->axes[rows->count++] = (resize_taps){1, 1, 1, only, one};
  for (int d = first; d <= last; d++) {
    if (!all_inside(&work->taps[d], y->dims[d])) return false;
    rows->axes[rows->count++] =
        resize_taps_of(x, y, (uint32_t)d, &work->taps[d]);
  }
  return rows->axes[0].width <= WIDTH_MOST;
}

static void run_resize(resize_work *work, const resize_axis *given) {
  resize_rows rows;
  const kd_tensor *y = work->y;
  const cpu_resizes *set = CPU_LOOPS(cpu_resizes);
  const kd_loop_body *body =
      work->r->weight ? &set->sums[y->dtype] : &set->nearest;
  if (!make_rows(work, given, body, &rows)) {
    cpu_host->parallel_for(cpu_host, kd_elements(y), CPU_GRAIN / 16,
                           resize_piece, work);
    return;
  }
  const resize_taps *top = &rows.axes[0];
  int64_t each = kd_elements(y) / rows.outer / top->out;
  int64_t few =
      CPU_GRAIN / each + 1 + 4 * top->width; /* shared by neighbours */
  rows.band = few < top->out ? few : top->out;
  rows.bands = (top->out - 1) / rows.band + 1;
  cpu_host->parallel_for(cpu_host, rows.outer * rows.bands,
                         CPU_GRAIN / (each * rows.band) + 1, *body, &rows);
}

/* At most `room` elements of a host input; returns how many it has. */
static int64_t resize_read_list(const kd_launch *launch, uint32_t input,
                                int64_t room, double *out) {
  if (!kd_has_input(launch, input)) return 0;
  const kd_tensor *in = &launch->inputs[input];
  for (int64_t i = 0; i < kd_elements(in) && i < room; i++)
    out[i] = cpu_get(in->data, in->dtype, i);
  return kd_elements(in);
}

/* What is given of each dimension; false where it is wrong, which it then tells. */
static bool read_axes(const kd_launch *launch, const resize *r,
                      resize_axis *axes) {
  const kd_tensor *x = &launch->inputs[0];
  resize_given given = {
      .rank = x->rank,
      .in = x->dims,
      .out = launch->outputs[0].dims,
      .policy = attr_string(launch, "keep_aspect_ratio_policy", "stretch"),
      .crop = r->crop};
  given.axis_count = attr_ints(launch, "axes", &given.axes);
  given.roi_count = resize_read_list(launch, 1, 2 * KD_MAX_RANK, given.roi);
  given.scale_count = resize_read_list(launch, 2, KD_MAX_RANK, given.scales);
  given.size_count = resize_read_list(launch, 3, KD_MAX_RANK, given.sizes);
  const char *wrong = resize_read(&given, axes);
  if (wrong) FAIL(KD_INVALID_ARGUMENT, "Resize: %s", wrong);
  return !wrong;
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

/* Whether no axis changes, as where a model brings inputs of any size to one. */
static bool resize_stays(const kd_tensor *x, const kd_tensor *y,
                         const resize_axis *axes) {
  for (uint32_t d = 0; d < x->rank; d++)
    if (axes[d].moved || x->dims[d] != y->dims[d]) return false;
  return true;
}

/* Blocks of channels as rows: a dimension more, whose elements stay together. */
static void unfold(kd_tensor *tensor, int64_t *dims) {
  uint32_t rank = tensor->rank;
  memcpy(dims, tensor->dims, rank * sizeof *dims);
  dims[1] = cpu_filled(dims[1]) / cpu_block();
  dims[rank] = cpu_block();
  tensor->dims = dims;
  tensor->rank = rank + 1;
  tensor->layout = KD_LAYOUT_ROW_MAJOR;
}

CPU_KERNEL(cpu_run_resize) {
  kd_tensor in = launch->inputs[0], out = launch->outputs[0];
  const kd_tensor *x = &in, *y = &out;
  int64_t in_dims[KD_MAX_RANK], out_dims[KD_MAX_RANK];
  resize r;
  if (!read_mode(launch, &r))
    return FAIL(KD_UNIMPLEMENTED,
                "Resize has no mode \"%s\" with coordinates \"%s\" and"
                " nearest \"%s\"",
                attr_string(launch, "mode", "nearest"),
                attr_string(launch, "coordinate_transformation_mode", ""),
                attr_string(launch, "nearest_mode", ""));
  resize_axis given[KD_MAX_RANK];
  if (!read_axes(launch, &r, given)) return KD_INVALID_ARGUMENT;
  if (in.layout == BLOCKED) {
    given[in.rank] = (resize_axis){.scale = 1};
    unfold(&in, in_dims);
    unfold(&out, out_dims);
  }
  if (!kd_elements(y)) return KD_OK;
  if (!kd_elements(x))
    return FAIL(KD_INVALID_ARGUMENT, "there is nothing to resize");
  if (resize_stays(x, y, given)) {
    memcpy(y->data, x->data, (size_t)kd_elements(x) * kd_dtype_size(x->dtype));
    return KD_OK;
  }
  tap_list taps[KD_MAX_RANK] = {{0}};
  bool made = true;
  for (uint32_t d = 0; d < x->rank && made; d++) {
    axis at = {x->dims[d], y->dims[d], given[d].scale, given[d].roi_start,
               given[d].roi_end};
    resize one = r;
    if (!given[d].moved)
      one = (resize){
          .place = place_asymmetric, .nearest = nearest_floor, .taps = 1};
    made = make_taps(&one, &at, &taps[d]);
  }
  resize_work work = {&r, x, y, taps};
  if (made) run_resize(&work, given);
  for (uint32_t d = 0; d < x->rank; d++) {
    free(taps[d].index);
    free(taps[d].weight);
  }
  return made ? KD_OK : FAIL(KD_OUT_OF_MEMORY, "Resize: no memory");
}
