/* vision.c - sampling at places that data names: grids, regions, boxes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

/* ---- GridSample -------------------------------------------------------------------- */

/* A sample is the sum over all pixels of a picture of the pixel times a weight for each
 * dimension. Along a dimension, the kernel stands at the place and gives each whole
 * number around it (a tap) a weight; a tap outside the picture counts for the pixel that
 * the padding puts there, or for none. */

typedef enum padding { ZEROS, BORDER, REFLECTION } padding;

typedef real kernel(real distance);

/* Of the hat, and of Keys' cubic convolution (1981) with a = -0.75. */
static real hat(real t) {
  return fmaxl(0, 1 - fabsl(t));
}

static real keys(real t) {
  const real a = -0.75L;
  t = fabsl(t);
  if (t >= 2) return 0;
  return t > 1 ? a * (t - 1) * (t - 2) * (t - 2)
               : 1 - t * t * (a + 3 - (a + 2) * t);
}

/* The pixel that stands at a whole number; -1: none. */
static int64_t pixel_at(int64_t tap, int64_t size, padding how, bool aligned) {
  if (tap >= 0 && tap < size) return tap;
  if (how == ZEROS) return -1;
  if (how == BORDER || size == 1) return tap < 0 ? 0 : size - 1;
  /* mirrors stand on the last pixels' centres, or behind the pixels; either way the
   * picture repeats */
  int64_t period = 2 * (aligned ? size - 1 : size);
  int64_t at = (tap % period + period) % period;
  return at < size ? at : period - at - (aligned ? 0 : 1);
}

/* What a dimension has for a place. */
typedef struct taps {
  real *weight;  /* of each pixel */
  bool *reached; /* by a tap, be its weight zero */
} taps;

static void set_taps(taps *t, int64_t size, real place, kernel *k, int radius,
                     padding how, bool aligned) {
  memset(t->reached, 0, (size_t)size * sizeof *t->reached);
  for (int64_t i = 0; i < size; i++)
    t->weight[i] = 0;
  int64_t first = k ? (int64_t)ceill(place - radius) : (int64_t)rintl(place);
  int64_t last = k ? (int64_t)floorl(place + radius) : first;
  for (int64_t tap = first; tap <= last; tap++) {
    int64_t at = pixel_at(tap, size, how, aligned);
    if (at < 0) continue;
    t->weight[at] += k ? k(place - (real)tap) : 1;
    t->reached[at] = true;
  }
}

/* The sum over a picture's pixels; `reach` is that of those that a tap is on, without
 * signs and weights. */
static void contract(const real *picture, const int64_t *sizes, uint32_t space,
                     const taps *t, ref_sum *sum, real *reach) {
  int64_t pixels = 1;
  for (uint32_t d = 0; d < space; d++)
    pixels *= sizes[d];
  for (int64_t i = 0; i < pixels; i++) {
    int64_t rest = i;
    bool reached = true;
    real weight = 1;
    for (uint32_t d = space; d-- > 0; rest /= sizes[d]) {
      reached &= t[d].reached[rest % sizes[d]];
      weight *= t[d].weight[rest % sizes[d]];
    }
    if (!reached) continue;
    ref_add(sum, picture[i] * weight);
    *reach += fabsl(picture[i]);
  }
}

typedef struct sampler {
  kernel *k; /* NULL: the nearest pixel */
  int radius;
  padding how;
  bool aligned;
  real units; /* roundoff of the grid's type, in f32's */
} sampler;

static sampler read_sampler(const ref_call *call) {
  kd_dtype grid = call->in[1]->dtype;
  sampler s = {.k = hat,
               .radius = 1,
               .aligned = ref_int(call, "align_corners", 0) != 0,
               .units = fmaxl(dtype_unit(grid) / dtype_unit(KD_F32), 1)};
  if (ref_text_is(call, "mode", "linear", "nearest")) s.k = NULL;
  if (ref_text_is(call, "mode", "linear", "cubic")) s.k = keys, s.radius = 2;
  if (ref_text_is(call, "padding_mode", "zeros", "border")) s.how = BORDER;
  if (ref_text_is(call, "padding_mode", "zeros", "reflection"))
    s.how = REFLECTION;
  return s;
}

/* One element: `at` has a number for each dimension, the last one's first, from -1 at one
 * end of the picture to 1 at the other. False where that is too far off. */
static bool sample(const sampler *s, const real *picture, const int64_t *sizes,
                   uint32_t space, const real *at, taps *t, value *out,
                   int64_t i) {
  real farthest = 0, tie = 1, reach = 0;
  ref_sum sum = {0};
  for (uint32_t d = 0; d < space; d++) {
    real size = (real)sizes[d], half = (at[space - 1 - d] + 1) / 2;
    real place = s->aligned ? half * (size - 1) : half * size - 0.5L;
    if (!(fabsl(place) < 0x1p40L)) return false;
    farthest = fmaxl(farthest, fabsl(place) + size);
    tie = fminl(tie, fabsl(place - floorl(place) - 0.5L));
    set_taps(&t[d], sizes[d], place, s->k, s->radius, s->how, s->aligned);
  }
  contract(picture, sizes, space, t, &sum, &reach);
  ref_put(out, i, &sum, 1);
  real off =
      4 * s->units * (1 + farthest); /* of the place, in unit roundoffs */
  if (s->k) out->slack[i] += (off + 8) * 4 * reach;
  /* halfway, two pixels are as near */
  if (!s->k && tie < off * 0x1p-22L) value_slack(out)[i] = INFINITY;
  return true;
}

static bool run_grid_sample(ref_call *call) {
  const value *x = call->in[0], *grid = call->in[1];
  value *out = call->out[0];
  sampler s = read_sampler(call);
  uint32_t space = x->rank - 2;
  int64_t plane = 1, spots = 1;
  taps t[KD_MAX_RANK] = {0};
  bool good = !s.k || dtype_is_float(x->dtype);
  for (uint32_t d = 0; d < space; d++) {
    size_t size = (size_t)x->dims[2 + d];
    t[d].weight = calloc(size + 1, sizeof *t[d].weight);
    t[d].reached = calloc(size + 1, sizeof *t[d].reached);
    good &= t[d].weight && t[d].reached;
    plane *= x->dims[2 + d];
    spots *= out->dims[2 + d];
  }
  for (int64_t i = 0; i < out->count && good; i++) {
    int64_t picture = i / spots, item = picture / x->dims[1];
    good = sample(&s, x->x + picture * plane, x->dims + 2, space,
                  grid->x + (item * spots + i % spots) * space, t, out, i);
  }
  for (uint32_t d = 0; d < space; d++) {
    free(t[d].weight);
    free(t[d].reached);
  }
  return good;
}

/* ---- RoiAlign (He et al., Mask R-CNN, 2017) ------------------------------------------ */

/* Four neighbours and their weights; no weight outside the picture. */
typedef struct corners {
  int64_t at[4];
  real w[4];
} corners;

static corners corners_of(real y, real x, int64_t height, int64_t width) {
  corners c = {0};
  if (y < -1 || x < -1 || y > (real)height || x > (real)width) return c;
  y = fmaxl(y, 0);
  x = fmaxl(x, 0);
  int64_t y0 = (int64_t)y, x0 = (int64_t)x;
  if (y0 >= height - 1) y = y0 = height - 1;
  if (x0 >= width - 1) x = x0 = width - 1;
  int64_t y1 = y0 < height - 1 ? y0 + 1 : y0, x1 = x0 < width - 1 ? x0 + 1 : x0;
  real fy = y - (real)y0, fx = x - (real)x0;
  return (corners){
      {y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
      {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx}};
}

static bool run_roi_align(ref_call *call) {
  const value *x = call->in[0], *rois = call->in[1], *items = call->in[2];
  value *out = call->out[0];
  int64_t channels = x->dims[1], height = x->dims[2], width = x->dims[3];
  int64_t rows = out->dims[2], columns = out->dims[3];
  int64_t given = ref_int(call, "sampling_ratio", 0);
  real scale = ref_float(call, "spatial_scale", 1);
  bool half = ref_text_is(call, "coordinate_transformation_mode", "half_pixel",
                          "half_pixel");
  bool largest = ref_text_is(call, "mode", "avg", "max");
  for (int64_t i = 0; i < out->count; i++) {
    int64_t q = i % columns, p = i / columns % rows;
    int64_t c = i / columns / rows % channels,
            r = i / columns / rows / channels;
    const real *roi = rois->x + r * 4;
    real left = roi[0] * scale - (half ? 0.5L : 0);
    real top = roi[1] * scale - (half ? 0.5L : 0);
    real roi_width = roi[2] * scale - (half ? 0.5L : 0) - left;
    real roi_height = roi[3] * scale - (half ? 0.5L : 0) - top;
    if (!half) { /* as before opset 16: at least one pixel */
      roi_width = fmaxl(roi_width, 1);
      roi_height = fmaxl(roi_height, 1);
    }
    real bin_height = roi_height / (real)rows,
         bin_width = roi_width / (real)columns;
    int64_t down = given > 0 ? given : (int64_t)ceill(bin_height);
    int64_t across = given > 0 ? given : (int64_t)ceill(bin_width);
    if (given <= 0 && (fabsl(bin_height - rintl(bin_height)) < 1e-4L ||
                       fabsl(bin_width - rintl(bin_width)) < 1e-4L))
      value_slack(out)[i] = INFINITY; /* one sample more, or not */
    const real *plane =
        x->x + ((int64_t)items->x[r] * channels + c) * height * width;
    ref_sum sum = {0};
    real best = -INFINITY, most = 0;
    for (int64_t s = 0; s < down * across; s++) {
      int64_t row = s / across, column = s % across;
      real y = ((real)row + 0.5L) / (real)down;
      real z = ((real)column + 0.5L) / (real)across;
      real sy = top + bin_height * ((real)p + y);
      real sx = left + bin_width * ((real)q + z);
      corners n = corners_of(sy, sx, height, width);
      for (int k = 0; k < 4; k++) {
        real term = n.w[k] * plane[n.at[k]];
        ref_add(&sum, term);
        best = fmaxl(best, term);
        most = fmaxl(most, fabsl(plane[n.at[k]]));
      }
    }
    real count = (real)(down * across > 0 ? down * across : 1);
    bool open = out->slack && isinf(out->slack[i]);
    ref_put(out, i, &sum, 1 / count);
    if (largest) out->x[i] = down * across > 0 ? best : 0;
    /* the place itself is rounded: 8 units of its size, and the slope there */
    out->slack[i] =
        open ? INFINITY
             : out->slack[i] + 16 * most *
                                   (4 + fabsl(left) + fabsl(top) +
                                    fabsl(roi_width) + fabsl(roi_height));
  }
  return true;
}

/* ---- MaxRoiPool (Girshick, Fast R-CNN, 2015) ------------------------------------------ */

/* Pixels [from, to) of a bin. */
static void bin_edges(real low, real high, int64_t bin, int64_t bins,
                      int64_t image, int64_t *from, int64_t *to) {
  real size = fmaxl(high - low + 1, 1);
  *from = (int64_t)(low + floorl((real)bin * size / (real)bins));
  *to = (int64_t)(low + ceill((real)(bin + 1) * size / (real)bins));
  if (*from < 0) *from = 0;
  if (*to > image) *to = image;
}

static bool run_max_roi_pool(ref_call *call) {
  const value *x = call->in[0], *rois = call->in[1];
  value *out = call->out[0];
  int64_t channels = x->dims[1], height = x->dims[2], width = x->dims[3];
  int64_t rows = out->dims[2], columns = out->dims[3];
  real scale = ref_float(call, "spatial_scale", 1);
  for (int64_t i = 0; i < out->count; i++) {
    int64_t q = i % columns, p = i / columns % rows;
    int64_t c = i / columns / rows % channels,
            r = i / columns / rows / channels;
    real edge[4];
    for (int k = 0; k < 4; k++)
      edge[k] = roundl(rois->x[r * 5 + 1 + k] * scale);
    int64_t top, bottom, left, right;
    bin_edges(edge[1], edge[3], p, rows, height, &top, &bottom);
    bin_edges(edge[0], edge[2], q, columns, width, &left, &right);
    const real *plane =
        x->x + ((int64_t)rois->x[r * 5] * channels + c) * height * width;
    real best = top < bottom && left < right ? -INFINITY : 0;
    for (int64_t y = top; y < bottom; y++)
      for (int64_t z = left; z < right; z++)
        best = isnan(best) || isnan(plane[y * width + z])
                   ? NAN
                   : fmaxl(best, plane[y * width + z]);
    out->x[i] = best;
  }
  return true;
}

/* ---- NonMaxSuppression ------------------------------------------------------------------- */

/* Where a box lies along y (0) or x (1): two of its corners, in any order, or its centre
 * and its size, x first. */
static void extent(const real *box, int axis, bool centred, real *low,
                   real *high) {
  if (centred) {
    real middle = box[1 - axis], size = box[3 - axis];
    *low = middle - size / 2;
    *high = middle + size / 2;
  } else {
    *low = fminl(box[axis], box[axis + 2]);
    *high = fmaxl(box[axis], box[axis + 2]);
  }
}

/* The part of what two boxes cover that both cover. */
static real shared_part(const real *a, const real *b, bool centred) {
  real both = 1, of_a = 1, of_b = 1;
  for (int axis = 0; axis < 2; axis++) {
    real a0, a1, b0, b1;
    extent(a, axis, centred, &a0, &a1);
    extent(b, axis, centred, &b0, &b1);
    both *= fmaxl(0, fminl(a1, b1) - fmaxl(a0, b0));
    of_a *= a1 - a0;
    of_b *= b1 - b0;
  }
  real either = of_a + of_b - both;
  return either > 0 ? both / either : 0;
}

static real scalar(const ref_call *call, uint32_t index, real fallback) {
  const value *in = ref_in(call, index);
  return in && in->count ? in->x[0] : fallback;
}

/* What one class of one picture is chosen from. */
typedef struct field {
  const real *boxes, *scores;
  int64_t count;
  bool *alive; /* neither chosen nor suppressed */
  bool centred;
  real threshold;
} field;

/* The box that is alive with the highest score, the first of equals; -1: none. */
static int64_t best_alive(const field *f) {
  int64_t best = -1;
  for (int64_t i = 0; i < f->count; i++)
    if (f->alive[i] && (best < 0 || f->scores[i] > f->scores[best])) best = i;
  return best;
}

/* Ends those that share too much with a box; false where it is too close to tell. */
static bool suppress(field *f, int64_t by) {
  bool sure = true;
  f->alive[by] = false;
  for (int64_t i = 0; i < f->count; i++) {
    if (!f->alive[i]) continue;
    real part = shared_part(f->boxes + by * 4, f->boxes + i * 4, f->centred);
    sure &= fabsl(part - f->threshold) > 1e-5L || part == f->threshold;
    f->alive[i] = part <= f->threshold;
  }
  return sure;
}

/* The best box is chosen and ends what it overlaps, until there are enough. */
static bool run_nms(ref_call *call) {
  const value *boxes = call->in[0], *scores = call->in[1];
  int64_t classes = scores->dims[1], n = boxes->dims[1], count = 0;
  int64_t lines = scores->dims[0] * classes;
  int64_t most = (int64_t)scalar(call, 2, 0);
  real least = scalar(call, 4, -INFINITY);
  bool sure = true;
  const int64_t room[2] = {lines * n, 3};
  value *all = value_make(KD_I64, 2, room);
  field f = {.count = n,
             .alive = calloc((size_t)n + 1, sizeof *f.alive),
             .centred = ref_int(call, "center_point_box", 0) != 0,
             .threshold = scalar(call, 3, 0)};
  for (int64_t line = 0; line < lines && all && f.alive; line++) {
    f.boxes = boxes->x + line / classes * n * 4;
    f.scores = scores->x + line * n;
    for (int64_t i = 0; i < n; i++)
      f.alive[i] = f.scores[i] > least;
    for (int64_t chosen = 0; chosen < most; chosen++) {
      int64_t best = best_alive(&f);
      if (best < 0) break;
      sure &= suppress(&f, best);
      real *row = all->x + 3 * count++;
      int64_t item = line / classes;
      row[0] = (real)item;
      row[1] = (real)(line % classes);
      row[2] = (real)best;
    }
  }
  bool good = all && f.alive && sure;
  const int64_t dims[2] = {count, 3};
  value *out = good ? value_make(KD_I64, 2, dims) : NULL;
  if (out) memcpy(out->x, all->x, (size_t)out->count * sizeof *out->x);
  call->out[0] = out;
  value_free(all);
  free(f.alive);
  return out != NULL;
}

const ref_op ref_vision[] = {
    {NULL, "GridSample", REF_SUM, 0, run_grid_sample, false},
    {NULL, "MaxRoiPool", REF_EXACT, 0, run_max_roi_pool, false},
    {NULL, "RoiAlign", REF_SUM, 0, run_roi_align, false},
    {NULL, "NonMaxSuppression", REF_EXACT, 0, run_nms, true},
};
const uint32_t ref_vision_count =
    (uint32_t)(sizeof ref_vision / sizeof *ref_vision);
