/* nn.c - windows, resizing, quantisation, losses. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

#define SPACE 8 /* most spatial dimensions */

/* ---- windows ----------------------------------------------------------------------- */

/* Where a window over the spatial dimensions of `in` reads for one of `out`. */
typedef struct window {
  uint32_t n;
  int64_t in[SPACE], out[SPACE], kernel[SPACE];
  int64_t stride[SPACE], dilation[SPACE], pad[SPACE], pad_end[SPACE];
  int64_t taps, inner_in, inner_out;
} window;

static void nn_read_list(const ref_call *call, const char *name, uint32_t n,
                         int64_t fallback, int64_t *out) {
  int64_t given[2 * SPACE];
  int64_t count = ref_ints(call, name, given, 2 * SPACE);
  for (uint32_t i = 0; i < n; i++)
    out[i] = i < count ? given[i] : fallback;
}

/* Pads of `auto_pad`: what the output's size makes necessary; `big` is the side
 * that the window moves over. */
static void auto_pads(const ref_call *call, window *w, const int64_t *big,
                      const int64_t *small) {
  bool upper = ref_text_is(call, "auto_pad", "NOTSET", "SAME_UPPER");
  bool lower = ref_text_is(call, "auto_pad", "NOTSET", "SAME_LOWER");
  int64_t pads[2 * SPACE] = {0};
  bool valid = ref_text_is(call, "auto_pad", "NOTSET", "VALID");
  if (!valid) nn_read_list(call, "pads", 2 * w->n, 0, pads);
  for (uint32_t d = 0; d < w->n; d++) {
    w->pad[d] = pads[d];
    w->pad_end[d] = pads[w->n + d];
    if (!upper && !lower) continue;
    int64_t total = (small[d] - 1) * w->stride[d] +
                    (w->kernel[d] - 1) * w->dilation[d] + 1 - big[d];
    if (total < 0) total = 0;
    w->pad[d] = upper ? total / 2 : total - total / 2;
    w->pad_end[d] = total - w->pad[d];
  }
}

static bool window_make(const ref_call *call, const value *in, const value *out,
                        const int64_t *kernel, window *w) {
  memset(w, 0, sizeof *w);
  if (in->rank < 2 || in->rank - 2 > SPACE) return false;
  w->n = in->rank - 2;
  w->taps = w->inner_in = w->inner_out = 1;
  nn_read_list(call, "strides", w->n, 1, w->stride);
  nn_read_list(call, "dilations", w->n, 1, w->dilation);
  for (uint32_t d = 0; d < w->n; d++) {
    w->in[d] = in->dims[d + 2];
    w->out[d] = out->dims[d + 2];
    w->kernel[d] = kernel[d];
    w->taps *= kernel[d];
    w->inner_in *= w->in[d];
    w->inner_out *= w->out[d];
  }
  return true;
}

/* The input's index under tap `tap` for output `at`; -1 outside. counted: also
 * inside the padding. */
static int64_t tap_index(const window *w, int64_t at, int64_t tap,
                         bool *out_counted) {
  int64_t index = 0, step = 1;
  bool inside = true, counted = true;
  for (uint32_t d = w->n; d-- > 0;) {
    int64_t o = at % w->out[d], t = tap % w->kernel[d];
    at /= w->out[d];
    tap /= w->kernel[d];
    int64_t i = o * w->stride[d] + t * w->dilation[d] - w->pad[d];
    inside &= i >= 0 && i < w->in[d];
    counted &= i < w->in[d] + w->pad_end[d];
    index += i * step;
    step *= w->in[d];
  }
  if (out_counted) *out_counted = counted;
  return inside ? index : -1;
}

static real activate(const ref_call *call, real x) {
  if (call->variant == 2) {
    real hard = x / 6 + (real)0.5;
    if (ref_text_is(call, "activation", "Silu", "LeakyRelu"))
      return x < 0 ? x * ref_float(call, "alpha", (float)0.01) : x;
    if (ref_text_is(call, "activation", "Silu", "HardSwish"))
      return x * (hard < 0 ? 0 : hard > 1 ? 1 : hard);
    return x / (1 + expl(-x));
  }
  if (ref_text_is(call, "activation", "none", "Relu") && x < 0) return 0;
  if (ref_text_is(call, "activation", "none", "Clip")) {
    real low = ref_float(call, "low", -INFINITY);
    real high = ref_float(call, "high", INFINITY);
    return x < low ? low : x > high ? high : x;
  }
  return x;
}

/* One output element: over the group's channels and the window's taps. */
static void conv_dot(const value *x, real zx, const value *f, real zf,
                     const window *w, int64_t image, int64_t channel,
                     int64_t groups, int64_t at, ref_sum *sum) {
  int64_t each = f->dims[1], per = f->dims[0] / groups;
  int64_t first = image * x->dims[1] + channel / per * each;
  for (int64_t t = 0; t < w->taps; t++) {
    int64_t from = tap_index(w, at, t, NULL);
    if (from < 0) continue;
    const real *a = x->x + first * w->inner_in + from;
    const real *b = f->x + channel * each * w->taps + t;
    for (int64_t c = 0; c < each; c++)
      ref_add(sum, (a[c * w->inner_in] - zx) * (b[c * w->taps] - zf));
  }
}

static bool run_conv(ref_call *call) {
  const value *x = call->in[0], *f = call->in[1], *bias = ref_in(call, 2);
  const value *added = call->variant ? ref_in(call, 3) : NULL;
  value *out = call->out[0];
  window w;
  if (!window_make(call, x, out, f->dims + 2, &w)) return false;
  auto_pads(call, &w, w.in, w.out);
  int64_t groups = ref_int(call, "group", 1), channels = out->dims[1];
  for (int64_t i = 0; i < out->count; i++) {
    int64_t at = i % w.inner_out, c = i / w.inner_out % channels;
    ref_sum sum = {0};
    conv_dot(x, 0, f, 0, &w, i / w.inner_out / channels, c, groups, at, &sum);
    if (bias) ref_add(&sum, bias->x[c]);
    if (added) ref_add(&sum, added->x[i]);
    ref_put(out, i, &sum, 1);
    if (call->variant) out->x[i] = activate(call, out->x[i]);
  }
  return true;
}

/* One filter for each channel; channels stand last. */
static bool run_depthwise(ref_call *call) {
  const value *x = call->in[0], *f = call->in[1], *bias = ref_in(call, 2);
  value *out = call->out[0];
  value in = *x, made = *out;
  window w;
  int64_t channels = x->dims[x->rank - 1];
  for (uint32_t d = 2; d < x->rank; d++) { /* as window_make reads them */
    in.dims[d] = x->dims[d - 1];
    made.dims[d] = out->dims[d - 1];
  }
  if (!window_make(call, &in, &made, f->dims, &w)) return false;
  auto_pads(call, &w, w.in, w.out);
  for (int64_t i = 0; i < out->count; i++) {
    int64_t c = i % channels, at = i / channels;
    const real *image = x->x + at / w.inner_out * w.inner_in * channels;
    ref_sum sum = {0};
    for (int64_t t = 0; t < w.taps; t++) {
      int64_t from = tap_index(&w, at % w.inner_out, t, NULL);
      if (from >= 0)
        ref_add(&sum, image[from * channels + c] * f->x[t * channels + c]);
    }
    if (bias) ref_add(&sum, bias->x[c]);
    ref_put(out, i, &sum, 1);
    real before = out->x[i];
    out->x[i] = ref_activated(call, before);
    if (value_slack(out))
      out->slack[i] =
          ref_activated_slack(call, out->slack[i], before, out->x[i]);
  }
  return true;
}

static real zero_of(const value *zero, int64_t line) {
  return zero ? zero->x[zero->count == 1 ? 0 : line] : 0;
}

static bool run_conv_integer(ref_call *call) {
  const value *x = call->in[0], *f = call->in[1];
  value *out = call->out[0];
  window w;
  if (!window_make(call, x, out, f->dims + 2, &w)) return false;
  auto_pads(call, &w, w.in, w.out);
  int64_t groups = ref_int(call, "group", 1), channels = out->dims[1];
  for (int64_t i = 0; i < out->count; i++) {
    int64_t at = i % w.inner_out, c = i / w.inner_out % channels;
    ref_sum sum = {0};
    conv_dot(x, zero_of(ref_in(call, 2), 0), f, zero_of(ref_in(call, 3), c), &w,
             i / w.inner_out / channels, c, groups, at, &sum);
    out->x[i] = dtype_round(ref_total(&sum), out->dtype);
  }
  return true;
}

static bool run_qlinear_conv(ref_call *call) {
  const value *x = call->in[0], *f = call->in[3], *bias = ref_in(call, 8);
  value *out = call->out[0];
  window w;
  if (!window_make(call, x, out, f->dims + 2, &w)) return false;
  auto_pads(call, &w, w.in, w.out);
  int64_t groups = ref_int(call, "group", 1), channels = out->dims[1];
  const value *scales = call->in[4];
  for (int64_t i = 0; i < out->count; i++) {
    int64_t at = i % w.inner_out, c = i / w.inner_out % channels;
    ref_sum sum = {0};
    conv_dot(x, call->in[2]->x[0], f, zero_of(call->in[5], c), &w,
             i / w.inner_out / channels, c, groups, at, &sum);
    if (bias) ref_add(&sum, bias->x[c]);
    real scale = call->in[1]->x[0] * scales->x[scales->count == 1 ? 0 : c] /
                 call->in[6]->x[0];
    ref_quantize(out, i, ref_total(&sum) * scale, call->in[7]->x[0]);
  }
  return true;
}

/* The window moves over the output: each output gathers what reaches it. */
static bool run_conv_transpose(ref_call *call) {
  const value *x = call->in[0], *f = call->in[1], *bias = ref_in(call, 2);
  value *out = call->out[0];
  window w;
  int64_t extra[SPACE], wanted[SPACE];
  if (!window_make(call, x, out, f->dims + 2, &w)) return false;
  nn_read_list(call, "output_padding", w.n, 0, extra);
  bool shaped = ref_ints(call, "output_shape", wanted, SPACE) > 0;
  auto_pads(call, &w, w.out, w.in);
  bool upper = ref_text_is(call, "auto_pad", "NOTSET", "SAME_UPPER");
  bool same = upper || ref_text_is(call, "auto_pad", "NOTSET", "SAME_LOWER");
  for (uint32_t d = 0; d < w.n && (shaped || same); d++) {
    int64_t total = w.stride[d] * (w.in[d] - 1) + extra[d] +
                    (w.kernel[d] - 1) * w.dilation[d] + 1 - w.out[d];
    if (total < 0) total = 0; /* pads are not negative */
    w.pad[d] = upper ? total / 2 : total - total / 2;
  }
  int64_t groups = ref_int(call, "group", 1), per = f->dims[1];
  int64_t each = x->dims[1] / groups, channels = out->dims[1];
  for (int64_t i = 0; i < out->count; i++) {
    int64_t at = i % w.inner_out, c = i / w.inner_out % channels;
    int64_t image = i / w.inner_out / channels, group = c / per;
    ref_sum sum = {0};
    for (int64_t t = 0; t < w.taps; t++) {
      int64_t from = 0, step = 1, o = at, k = t;
      bool hit = true;
      for (uint32_t d = w.n; d-- > 0;) {
        int64_t p = o % w.out[d] + w.pad[d] - k % w.kernel[d] * w.dilation[d];
        o /= w.out[d];
        k /= w.kernel[d];
        hit &= p >= 0 && p % w.stride[d] == 0 && p / w.stride[d] < w.in[d];
        from += p / w.stride[d] * step;
        step *= w.in[d];
      }
      for (int64_t e = 0; e < each && hit; e++)
        ref_add(
            &sum,
            x->x[(image * x->dims[1] + group * each + e) * w.inner_in + from] *
                f->x[((group * each + e) * per + c % per) * w.taps + t]);
    }
    if (bias) ref_add(&sum, bias->x[c]);
    ref_put(out, i, &sum, 1);
  }
  return true;
}

/* ---- pools ---------------------------------------------------------------------------- */

enum { POOL_MAX, POOL_AVERAGE, POOL_LP };

static int64_t column_major(const window *w, int64_t index) {
  int64_t result = 0, at[SPACE];
  for (uint32_t d = w->n; d-- > 0; index /= w->in[d])
    at[d] = index % w->in[d];
  for (uint32_t d = w->n; d-- > 0;)
    result = result * w->in[d] + at[d];
  return result;
}

static bool run_pool(ref_call *call) {
  const value *x = call->in[0];
  value *out = call->out[0], *indices = ref_out(call, 1);
  int64_t kernel[SPACE];
  window w;
  bool global =
      x->rank >= 2 && ref_ints(call, "kernel_shape", kernel, SPACE) < 0;
  for (uint32_t d = 0; global && d + 2 < x->rank && d < SPACE; d++)
    kernel[d] = x->dims[d + 2];
  if (!window_make(call, x, out, kernel, &w)) return false;
  if (!global) auto_pads(call, &w, w.in, w.out);
  bool all = ref_int(call, "count_include_pad", 0) != 0;
  real p = ref_int(call, "p", 2);
  for (int64_t i = 0; i < out->count; i++) {
    int64_t at = i % w.inner_out, plane = i / w.inner_out;
    int64_t best = -1, counted = 0;
    ref_sum sum = {0};
    for (int64_t t = 0; t < w.taps; t++) {
      bool padded = false;
      int64_t from = tap_index(&w, at, t, &padded);
      counted += from >= 0 || (all && padded);
      if (from < 0) continue;
      real v = x->x[plane * w.inner_in + from];
      real top = best < 0 ? -INFINITY : x->x[plane * w.inner_in + best];
      if (best < 0 || v > top || (isnan(v) && !isnan(top))) best = from;
      ref_add(&sum, call->variant == POOL_LP ? powl(fabsl(v), p) : v);
    }
    if (call->variant == POOL_MAX) {
      out->x[i] =
          best < 0
              ? (dtype_is_float(out->dtype) ? -INFINITY : dtype_min(out->dtype))
              : x->x[plane * w.inner_in + best];
      if (indices && isnan(out->x[i])) value_slack(indices)[i] = INFINITY;
      if (indices)
        indices->x[i] =
            plane * w.inner_in + (ref_int(call, "storage_order", 0) && best >= 0
                                      ? column_major(&w, best)
                                      : best);
    } else if (call->variant == POOL_AVERAGE) {
      ref_put(out, i, &sum, counted ? 1.0L / (real)counted : 1);
    } else {
      real total = ref_total(&sum);
      out->x[i] = powl(total, 1 / p);
      out->ulps = 16;
      value_slack(out)[i] =
          total > 0 ? out->x[i] * (8 + 4 * ref_spread(&sum) / total) : 0;
    }
  }
  return true;
}

static bool run_max_unpool(ref_call *call) {
  value *out = call->out[0];
  const value *x = call->in[0], *indices = call->in[1];
  window w;
  int64_t kernel[SPACE], dims[SPACE];
  nn_read_list(call, "kernel_shape", SPACE, 1, kernel);
  if (!window_make(call, x, out, kernel, &w)) return false;
  auto_pads(call, &w, w.out, w.in);
  int64_t inner = 1;
  for (uint32_t d = 0; d < w.n; d++) { /* indices are into this shape */
    dims[d] =
        (w.in[d] - 1) * w.stride[d] + w.kernel[d] - w.pad[d] - w.pad_end[d];
    inner *= dims[d];
  }
  for (int64_t i = 0; i < x->count; i++) {
    int64_t index = (int64_t)indices->x[i], to = 0, step = 1;
    int64_t plane = index / inner;
    bool fits = true;
    for (uint32_t d = w.n; d-- > 0; index /= dims[d]) {
      fits &= index % dims[d] < w.out[d];
      to += index % dims[d] * step;
      step *= w.out[d];
    }
    if (fits) out->x[plane * w.inner_out + to] = x->x[i];
  }
  return true;
}

/* ---- resize ----------------------------------------------------------------------------- */

typedef struct axis_map {
  real scale;
  real roi_start, roi_end;
  int64_t in, out;
} axis_map;

static real map_back(const ref_call *call, const axis_map *m, int64_t to) {
  const char *name = "coordinate_transformation_mode", *half = "half_pixel";
  real x = to;
  if (ref_text_is(call, name, half, "half_pixel"))
    return (x + 0.5L) / m->scale - 0.5L;
  if (ref_text_is(call, name, half, "pytorch_half_pixel"))
    return m->out > 1 ? (x + 0.5L) / m->scale - 0.5L : 0;
  if (ref_text_is(call, name, half, "tf_half_pixel_for_nn"))
    return (x + 0.5L) / m->scale;
  if (ref_text_is(call, name, half, "align_corners")) {
    real resized = (real)m->in * m->scale; /* not rounded down, as in ONNX */
    return resized > 1 ? x * (real)(m->in - 1) / (resized - 1) : 0;
  }
  if (ref_text_is(call, name, half, "asymmetric")) return x / m->scale;
  if (ref_text_is(call, name, half, "half_pixel_symmetric")) {
    real adjusted = m->out / (m->scale * (real)m->in);
    return (real)m->in / 2 * (1 - adjusted) + (x + 0.5L) / m->scale - 0.5L;
  }
  /* tf_crop_and_resize */
  return m->out > 1 ? m->roi_start * (real)(m->in - 1) +
                          x * (m->roi_end - m->roi_start) * (real)(m->in - 1) /
                              (real)(m->out - 1)
                    : (m->roi_start + m->roi_end) * (real)(m->in - 1) / 2;
}

#define TAPS 64

/* The weights of an axis at one place: neighbours from `first` on. */
typedef struct taps {
  int64_t index[TAPS];
  real weight[TAPS];
  int count;
  bool outside;
} taps;

static real nearest_place(const ref_call *call, real x) {
  const char *name = "nearest_mode", *fallback = "round_prefer_floor";
  if (ref_text_is(call, name, fallback, "floor")) return floorl(x);
  if (ref_text_is(call, name, fallback, "ceil")) return ceill(x);
  if (ref_text_is(call, name, fallback, "round_prefer_ceil"))
    return floorl(x + 0.5L);
  return ceill(x - 0.5L);
}

static void add_tap(taps *out, const axis_map *m, int64_t i, real weight) {
  out->index[out->count] = i < 0 ? 0 : i >= m->in ? m->in - 1 : i;
  out->weight[out->count++] = weight;
}

static real cubic(real t, real a) {
  t = fabsl(t);
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

static bool weigh(const ref_call *call, const axis_map *m, int64_t to,
                  taps *out) {
  real x = map_back(call, m, to);
  bool linear = ref_text_is(call, "mode", "nearest", "linear");
  bool cubes = ref_text_is(call, "mode", "nearest", "cubic");
  bool crop = ref_text_is(call, "coordinate_transformation_mode", "half_pixel",
                          "tf_crop_and_resize");
  out->outside = crop && !(x >= 0 && x <= (real)(m->in - 1));
  out->count = 0;
  x = fminl(fmaxl(x, -0x1p40L), 0x1p40L); /* where C's integers end */
  if (out->outside || (!linear && !cubes)) {
    add_tap(out, m, (int64_t)nearest_place(call, x), 1);
    return true;
  }
  bool shrinks = ref_int(call, "antialias", 0) && m->scale < 1;
  real a = ref_float(call, "cubic_coeff_a", -0.75f), total = 0;
  real narrow = shrinks ? m->scale : 1, reach = (linear ? 1 : 2) / narrow;
  bool exclude = ref_int(call, "exclude_outside", 0) != 0;
  int64_t first = (int64_t)floorl(x - reach) + 1;
  for (int64_t i = first; (real)i < x + reach; i++) {
    if (out->count == TAPS) return false;
    real far = fabsl(x - (real)i) * narrow;
    real weight = linear ? fmaxl(1 - far, 0) : cubic(far, a);
    if (exclude && (i < 0 || i >= m->in)) weight = 0;
    add_tap(out, m, i, weight);
    total += weight;
  }
  for (int k = 0; k < out->count && (exclude || shrinks) && total != 0; k++)
    out->weight[k] /= total;
  return true;
}

static bool run_resize(ref_call *call) {
  const value *in = call->in[0], *roi = ref_in(call, 1);
  const value *scales = ref_in(call, 2), *sizes = ref_in(call, 3);
  value *out = call->out[0];
  int64_t axes[KD_MAX_RANK], strides[KD_MAX_RANK];
  int64_t n = ref_ints(call, "axes", axes, KD_MAX_RANK);
  axis_map maps[KD_MAX_RANK];
  bool fixed = sizes && sizes->count;
  bool keep = fixed && !ref_text_is(call, "keep_aspect_ratio_policy", "stretch",
                                    "stretch");
  if (n < 0)
    for (n = 0; n < in->rank; n++)
      axes[n] = n;
  for (uint32_t d = 0; d < in->rank; d++)
    maps[d] = (axis_map){1, 0, 1, in->dims[d], out->dims[d]};
  real policy = 0;
  for (int64_t i = 0; i < n; i++) {
    uint32_t d = ref_axis(axes[i], in->rank);
    maps[d].scale = fixed ? sizes->x[i] / (real)in->dims[d] : scales->x[i];
    bool larger =
        ref_text_is(call, "keep_aspect_ratio_policy", "stretch", "not_larger");
    if (i == 0 || (larger ? maps[d].scale < policy : maps[d].scale > policy))
      policy = maps[d].scale;
    if (roi && roi->count) {
      maps[d].roi_start = roi->x[i];
      maps[d].roi_end = roi->x[i + n];
    }
  }
  for (int64_t i = 0; i < n && keep; i++)
    maps[ref_axis(axes[i], in->rank)].scale = policy;
  row_strides(in->rank, in->dims, strides);
  bool moved = ref_text_is(call, "mode", "nearest", "nearest");
  bool inexact = dtype_is_float(out->dtype);
  if (!moved) {
    if (inexact) out->ulps = 2;
    value_slack(out);
  }
  real outside = ref_float(call, "extrapolation_value", 0);
  for (int64_t i = 0; i < out->count; i++) {
    taps t[KD_MAX_RANK];
    int64_t rest = i, combos = 1;
    bool out_there = false;
    for (uint32_t d = in->rank; d-- > 0; rest /= out->dims[d]) {
      if (maps[d].in == maps[d].out && maps[d].scale == 1 &&
          !(roi && roi->count))
        t[d] = (taps){{rest % out->dims[d]}, {1}, 1, false};
      else if (!weigh(call, &maps[d], rest % out->dims[d], &t[d]))
        return false;
      out_there |= t[d].outside;
      combos *= t[d].count;
    }
    ref_sum sum = {0};
    real size = 0;
    for (int64_t c = 0; c < combos; c++) {
      int64_t from = 0, which = c;
      real weight = 1;
      for (uint32_t d = in->rank; d-- > 0; which /= t[d].count) {
        int k = (int)(which % t[d].count);
        from += t[d].index[k] * strides[d];
        weight *= t[d].weight[k];
      }
      ref_add(&sum, in->x[from] * weight);
      size += fabsl(in->x[from]);
    }
    out->x[i] = out_there ? outside : ref_total(&sum);
    if (moved) continue;
    /* The place is computed in f32: its error moves the weights. A whole result
     * has it cut off, and may be on either side of a whole number. */
    real capacity = 64 * size + 4 * ref_spread(&sum);
    real off = fabsl(out->x[i] - roundl(out->x[i]));
    out->slack[i] = inexact ? capacity : off <= capacity * dtype_unit(KD_F32);
    if (!inexact)
      out->x[i] = fminl(fmaxl(truncl(out->x[i]), dtype_min(out->dtype)),
                        dtype_max(out->dtype));
  }
  return true;
}

/* ---- quantisation -------------------------------------------------------------------------- */

/* The scale that belongs to an element: one, one a line of the axis, or one a block. */
static int64_t scale_index(const ref_call *call, const value *x,
                           const value *scale, int64_t at) {
  if (scale->count == 1) return 0;
  uint32_t axis = ref_axis(ref_int(call, "axis", 1), x->rank);
  int64_t block = ref_int(call, "block_size", 0), from = 0, step = 1;
  for (uint32_t d = x->rank; d-- > 0; at /= x->dims[d]) {
    int64_t here = at % x->dims[d];
    if (!block && d == axis) return here;
    if (!block) continue;
    from += (d == axis ? here / block : here) * step;
    step *= scale->dims[d];
  }
  return from;
}

static bool run_quantize(ref_call *call) {
  const value *x = call->in[0], *scale = call->in[1], *zero = ref_in(call, 2);
  value *out = call->out[0];
  kd_dtype by = (kd_dtype)ref_int(call, "precision", 0);
  if (!by) by = scale->dtype;
  if (!dtype_is_int(out->dtype)) return false;
  for (int64_t i = 0; i < x->count; i++) {
    int64_t s = scale_index(call, x, scale, i);
    real q =
        dtype_is_int(x->dtype) && by == KD_F32
            ? x->x[i] / scale->x[s]
            : dtype_round(
                  dtype_round(x->x[i], by) / dtype_round(scale->x[s], by), by);
    ref_quantize(out, i, q, zero ? zero->x[s] : 0);
  }
  return true;
}

static bool run_dequantize(ref_call *call) {
  const value *x = call->in[0], *scale = call->in[1], *zero = ref_in(call, 2);
  value *out = call->out[0];
  if (!dtype_is_int(x->dtype)) return false;
  out->ulps = 1;
  for (int64_t i = 0; i < x->count; i++) {
    int64_t s = scale_index(call, x, scale, i);
    out->x[i] = (x->x[i] - (zero ? zero->x[s] : 0)) * scale->x[s];
  }
  return true;
}

static bool run_dynamic_quantize(ref_call *call) {
  const value *x = call->in[0];
  value *y = ref_out(call, 0), *scale = ref_out(call, 1);
  value *zero = ref_out(call, 2);
  real low = 0, high = 0;
  for (int64_t i = 0; i < x->count; i++) {
    if (x->x[i] < low) low = x->x[i];
    if (x->x[i] > high) high = x->x[i];
  }
  /* everything after it is computed with the rounded scale */
  real s = high == low ? 1 : dtype_round((high - low) / 255, KD_F32);
  real z = s > 0 ? rintl(-low / s) : 0;
  z = z < 0 ? 0 : z > 255 ? 255 : z;
  for (int64_t i = 0; i < x->count && y; i++)
    ref_quantize(y, i, s > 0 ? dtype_round(x->x[i] / s, KD_F32) : 0, z);
  for (int64_t i = 0; y && y->slack && i < x->count; i++)
    y->slack[i] = fabsl(fabsl(s > 0 ? x->x[i] / s : 0) -
                        truncl(fabsl(s > 0 ? x->x[i] / s : 0)) - 0.5L) < 1e-3L;
  if (scale) {
    scale->x[0] = s;
    scale->ulps = 3;
  }
  if (zero) zero->x[0] = z;
  return true;
}

/* ---- losses ------------------------------------------------------------------------------------ */

static bool nll(ref_call *call, const value *scores, const value *target,
                const value *weight, const real *extra, value *out) {
  int64_t classes = scores->dims[1], n = target->count;
  int64_t none = INT64_MIN, ignored = ref_int(call, "ignore_index", none);
  int64_t inner = 1;
  for (uint32_t d = 2; d < scores->rank; d++)
    inner *= scores->dims[d];
  bool mean = ref_text_is(call, "reduction", "mean", "mean");
  bool each = ref_text_is(call, "reduction", "mean", "none");
  ref_sum sum = {0}, weights = {0};
  real slack = 0;
  value_slack(out);
  out->ulps = 2;
  for (int64_t i = 0; i < n; i++) {
    int64_t which = (int64_t)target->x[i];
    bool skip = which == ignored;
    if (!skip && (which < 0 || which >= classes)) return false;
    real w = skip ? 0 : weight ? weight->x[which] : 1;
    int64_t at = (i / inner * classes + (skip ? 0 : which)) * inner + i % inner;
    real loss = skip ? 0 : -scores->x[at] * w;
    real capacity =
        (extra && !skip ? extra[at] * fabsl(w) : 0) + 2 * fabsl(loss);
    if (each) {
      out->x[i] = loss;
      out->slack[i] = capacity;
    }
    slack += capacity;
    ref_add(&sum, loss);
    ref_add(&weights, w);
  }
  if (each) return true;
  real divide = mean ? ref_total(&weights) : 1;
  out->x[0] = ref_total(&sum) / divide;
  out->slack[0] = (slack + 4 * ref_spread(&sum)) / fabsl(divide) +
                  4 * fabsl(out->x[0]) * sqrtl((real)n);
  if (!isfinite(out->slack[0])) out->slack[0] = 0;
  return true;
}

static bool run_nll(ref_call *call) {
  return nll(call, call->in[0], call->in[1], ref_in(call, 2), NULL,
             call->out[0]);
}

static bool run_sce(ref_call *call) {
  const value *scores = call->in[0];
  value *logs = value_copy(scores), *asked = ref_out(call, 1);
  int64_t classes = scores->dims[1], inner = 1;
  for (uint32_t d = 2; d < scores->rank; d++)
    inner *= scores->dims[d];
  real *slack = value_slack(logs);
  for (int64_t o = 0; o < scores->dims[0]; o++)
    for (int64_t r = 0; r < inner; r++) {
      real most = -INFINITY;
      ref_sum sum = {0};
      for (int64_t c = 0; c < classes; c++)
        most = fmaxl(most, scores->x[(o * classes + c) * inner + r]);
      for (int64_t c = 0; c < classes; c++)
        ref_add(&sum, expl(scores->x[(o * classes + c) * inner + r] - most));
      real total = ref_total(&sum);
      for (int64_t c = 0; c < classes; c++) {
        int64_t at = (o * classes + c) * inner + r;
        logs->x[at] = scores->x[at] - most - logl(total);
        slack[at] =
            4 * (4 + fabsl(scores->x[at] - most) + 4 * sqrtl((real)classes)) +
            2 * fabsl(most);
      }
    }
  bool done =
      nll(call, logs, call->in[1], ref_in(call, 2), slack, call->out[0]);
  if (asked) {
    memcpy(asked->x, logs->x, (size_t)logs->count * sizeof *logs->x);
    memcpy(value_slack(asked), slack, (size_t)logs->count * sizeof *slack);
    asked->ulps = 2;
  }
  value_free(logs);
  return done;
}

const ref_op ref_nn[] = {
    {NULL, "Conv", REF_SUM, 0, run_conv, false},
    {"keel", "FusedConv", REF_SUM, 1, run_conv, false},
    {"keel", "ActivatedConv", REF_SUM, 2, run_conv, false},
    {"keel", "DepthwiseConv", REF_SUM, 0, run_depthwise, false},
    {NULL, "ConvInteger", REF_EXACT, 0, run_conv_integer, false},
    {NULL, "QLinearConv", REF_QUANT, 0, run_qlinear_conv, false},
    {NULL, "ConvTranspose", REF_SUM, 0, run_conv_transpose, false},
    {NULL, "MaxPool", REF_EXACT, POOL_MAX, run_pool, false},
    {NULL, "AveragePool", REF_SUM, POOL_AVERAGE, run_pool, false},
    {NULL, "LpPool", REF_SUM, POOL_LP, run_pool, false},
    {NULL, "GlobalMaxPool", REF_EXACT, POOL_MAX, run_pool, false},
    {NULL, "GlobalAveragePool", REF_SUM, POOL_AVERAGE, run_pool, false},
    {NULL, "GlobalLpPool", REF_SUM, POOL_LP, run_pool, false},
    {NULL, "MaxUnpool", REF_EXACT, 0, run_max_unpool, false},
    {NULL, "Resize", REF_SUM, 0, run_resize, false},
    {NULL, "QuantizeLinear", REF_QUANT, 0, run_quantize, false},
    {NULL, "DequantizeLinear", REF_ULP, 0, run_dequantize, false},
    {NULL, "DynamicQuantizeLinear", REF_QUANT, 0, run_dynamic_quantize, false},
    {NULL, "NegativeLogLikelihoodLoss", REF_SUM, 0, run_nll, false},
    {NULL, "SoftmaxCrossEntropyLoss", REF_SUM, 0, run_sce, false},
};
const uint32_t ref_nn_count = (uint32_t)(sizeof ref_nn / sizeof *ref_nn);
