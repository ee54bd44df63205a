/* vision.c - sampling at places that data names: grids, regions, boxes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

/* ---- GridSample -------------------------------------------------------------------- */

enum { ZEROS, BORDER, REFLECTION };
enum { NEAREST = 1, LINEAR = 2, CUBIC = 4 }; /* neighbours a side */

typedef struct sampler {
  const value *x;
  uint32_t space; /* dimensions of a picture */
  bool aligned;
  int padding, wide;
} sampler;

/* -1 ... 1 to pixels: of the corners' centres, or of their outer edges. */
static real to_pixels(const sampler *s, real at, int64_t size) {
  return s->aligned ? (at + 1) / 2 * (real)(size - 1)
                    : ((at + 1) * (real)size - 1) / 2;
}

/* Mirrored between two lines until it lies between them. */
static real reflect(real x, real low, real high) {
  real range = high - low;
  if (range <= 0) return low;
  real from = fmodl(fabsl(x - low), 2 * range);
  return low + (from > range ? 2 * range - from : from);
}

/* What lies outside the picture comes into it first, and then neighbours are looked for;
 * but a cubic place's neighbours come in one by one. */
static real pad_place(const sampler *s, real x, int64_t size) {
  real low = s->aligned ? 0 : -0.5L;
  real high = s->aligned ? (real)(size - 1) : (real)size - 0.5L;
  if (s->padding == ZEROS || (x >= low && x <= high)) return x;
  if (s->padding == REFLECTION) return reflect(x, low, high);
  return fminl(fmaxl(x, 0), (real)(size - 1));
}

/* Keys' kernel with a = -0.75 at a distance. */
static real cubic(real far) {
  const real a = -0.75L;
  far = fabsl(far);
  if (far <= 1) return ((a + 2) * far - (a + 3)) * far * far + 1;
  return ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
}

/* Of neighbour k along one dimension, its place there; false outside. */
static bool neighbour(const sampler *s, real place, int64_t size, int k,
                      int64_t *out_at, real *out_weight) {
  real at = floorl(place) + k - (s->wide == CUBIC);
  *out_weight = s->wide == NEAREST  ? 1
                : s->wide == LINEAR ? 1 - fabsl(place - at)
                                    : cubic(place - at);
  at = pad_place(s, at, size);
  if (s->padding != ZEROS) at = fminl(fmaxl(at, 0), (real)(size - 1));
  *out_at = (int64_t)at;
  return at >= 0 && at < (real)size;
}

/* `off`: of the place, in unit roundoffs. */
static void interpolate(const sampler *s, const real *picture,
                        const real *places, real off, value *out, int64_t at) {
  int64_t all = 1;
  real most = 0;
  ref_sum sum = {0};
  for (uint32_t d = 0; d < s->space; d++)
    all *= s->wide;
  for (int64_t n = 0; n < all; n++) {
    int64_t from = 0, step = 1, rest = n;
    real weight = 1;
    bool inside = true;
    for (uint32_t d = s->space; d-- > 0; rest /= s->wide) {
      int64_t size = s->x->dims[2 + d], here = 0;
      real part = 0;
      inside &=
          neighbour(s, places[d], size, (int)(rest % s->wide), &here, &part);
      weight *= part;
      from += here * step;
      step *= size;
    }
    real p = inside ? picture[from] : 0;
    ref_add(&sum, p * weight);
    most += fabsl(p);
  }
  ref_put(out, at, &sum, 1);
  if (s->wide != NEAREST) out->slack[at] += (off + 8) * 4 * most;
}

static bool run_grid_sample(ref_call *call) {
  const value *x = call->in[0], *grid = call->in[1];
  value *out = call->out[0];
  sampler s = {x, x->rank - 2, ref_int(call, "align_corners", 0) != 0, ZEROS,
               LINEAR};
  if (ref_text_is(call, "mode", "linear", "nearest")) s.wide = NEAREST;
  if (ref_text_is(call, "mode", "linear", "cubic")) s.wide = CUBIC;
  if (s.wide != NEAREST && !dtype_is_float(x->dtype)) return false;
  if (ref_text_is(call, "padding_mode", "zeros", "border")) s.padding = BORDER;
  if (ref_text_is(call, "padding_mode", "zeros", "reflection"))
    s.padding = REFLECTION;
  int64_t spots = 1, plane = 1, channels = x->dims[1];
  for (uint32_t d = 0; d < s.space; d++) {
    spots *= out->dims[2 + d];
    plane *= x->dims[2 + d];
  }
  real units = dtype_is_float(grid->dtype)
                   ? fmaxl(dtype_unit(grid->dtype) / dtype_unit(KD_F32), 1)
                   : 1;
  for (int64_t i = 0; i < out->count; i++) {
    int64_t item = i / spots / channels;
    real places[KD_MAX_RANK], most = 0, tie = 1;
    for (uint32_t d = 0; d < s.space; d++) {
      int64_t size = x->dims[2 + d];
      real p = to_pixels(
          &s, grid->x[(item * spots + i % spots) * s.space + s.space - 1 - d],
          size);
      most = fmaxl(most, fabsl(p) + (real)size);
      tie = fminl(tie, fabsl(fabsl(p - truncl(p)) - 0.5L));
      if (s.wide == NEAREST) p = rintl(p);
      places[d] = s.wide == CUBIC ? p : pad_place(&s, p, size);
    }
    real off = 4 * units * (1 + most);
    interpolate(&s, x->x + i / spots * plane, places, off, out, i);
    /* halfway, two pixels are as near */
    if (s.wide == NEAREST && tie < off * 0x1p-22L)
      value_slack(out)[i] = INFINITY;
  }
  return true;
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

/* ---- NonMaxSuppression ------------------------------------------------------------------- */

typedef struct box {
  real y0, x0, y1, x1;
} box;

static box box_at(const value *boxes, int64_t index, bool centred) {
  const real *b = boxes->x + index * 4;
  if (centred)
    return (box){b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2,
                 b[0] + b[2] / 2};
  return (box){fminl(b[0], b[2]), fminl(b[1], b[3]), fmaxl(b[0], b[2]),
               fmaxl(b[1], b[3])};
}

static real overlap(box a, box b) {
  real height = fminl(a.y1, b.y1) - fmaxl(a.y0, b.y0);
  real width = fminl(a.x1, b.x1) - fmaxl(a.x0, b.x0);
  real common = height > 0 && width > 0 ? height * width : 0;
  real all = (a.y1 - a.y0) * (a.x1 - a.x0) + (b.y1 - b.y0) * (b.x1 - b.x0);
  return all - common > 0 ? common / (all - common) : 0;
}

typedef struct candidate {
  real score;
  int64_t box;
} candidate;

static int by_score(const void *a, const void *b) {
  const candidate *p = a, *q = b;
  if (p->score != q->score) return p->score > q->score ? -1 : 1;
  return p->box < q->box ? -1 : 1;
}

static real scalar(const ref_call *call, uint32_t index, real fallback) {
  const value *in = ref_in(call, index);
  return in && in->count ? in->x[0] : fallback;
}

/* Greedy, by falling score; equal scores by the box's number. */
static bool run_nms(ref_call *call) {
  const value *boxes = call->in[0], *scores = call->in[1];
  int64_t classes = scores->dims[1], n = boxes->dims[1];
  int64_t most = (int64_t)scalar(call, 2, 0), count = 0;
  real threshold = scalar(call, 3, 0), least = scalar(call, 4, -INFINITY);
  bool centred = ref_int(call, "center_point_box", 0) != 0, sure = true;
  int64_t lines = scores->dims[0] * classes;
  int64_t *chosen = calloc((size_t)(lines * n * 3) + 1, sizeof *chosen);
  candidate *order = calloc((size_t)n + 1, sizeof *order);
  for (int64_t line = 0; line < lines; line++) {
    int64_t candidates = 0, first = count;
    for (int64_t i = 0; i < n; i++)
      if (scores->x[line * n + i] > least)
        order[candidates++] = (candidate){scores->x[line * n + i], i};
    qsort(order, (size_t)candidates, sizeof *order, by_score);
    for (int64_t i = 0; i < candidates && count - first < most; i++) {
      box b = box_at(boxes, line / classes * n + order[i].box, centred);
      bool covered = false;
      for (int64_t k = first; k < count && !covered; k++) {
        real iou = overlap(
            b, box_at(boxes, line / classes * n + chosen[k * 3 + 2], centred));
        covered = iou > threshold;
        sure &= fabsl(iou - threshold) > 1e-5L || iou == threshold;
      }
      if (covered) continue;
      chosen[count * 3] = line / classes;
      chosen[count * 3 + 1] = line % classes;
      chosen[count++ * 3 + 2] = order[i].box;
    }
  }
  int64_t dims[2] = {count, 3};
  value *out = value_make(KD_I64, 2, dims);
  for (int64_t i = 0; out && i < out->count; i++)
    out->x[i] = chosen[i];
  call->out[0] = out;
  free(chosen);
  free(order);
  return out && sure;
}

const ref_op ref_vision[] = {
    {NULL, "GridSample", REF_SUM, 0, run_grid_sample, false},
    {NULL, "RoiAlign", REF_SUM, 0, run_roi_align, false},
    {NULL, "NonMaxSuppression", REF_EXACT, 0, run_nms, true},
};
const uint32_t ref_vision_count =
    (uint32_t)(sizeof ref_vision / sizeof *ref_vision);
