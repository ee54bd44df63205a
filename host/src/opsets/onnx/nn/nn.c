/* nn.c - convolutions, pooling, resizing, RNNs: shapes, forms of older opsets, work. */
#include <kd/help.h>
#include <math.h>

#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/cost.h"
#include "passes/work.h"

#define MOST_SPACE     (KD_MAX_RANK - 2)
#define SAMPLES        4096 /* of a bin of RoiAlign, each way, at most */
#define TAPS_OF_RESIZE 16   /* that a resized element may read where it grows */

/* The window attributes of one op, checked. */
typedef struct window {
  uint32_t space; /* spatial dimensions */
  int64_t kernel[MOST_SPACE], strides[MOST_SPACE], dilations[MOST_SPACE];
  int64_t begin[MOST_SPACE], end[MOST_SPACE]; /* pads */
  int same; /* 1 SAME_UPPER, 2 SAME_LOWER, 0 explicit pads or VALID */
} window;

static keel_status nn_read_list(keel_infer *infer, const char *name,
                                uint32_t count, int64_t least, int64_t fallback,
                                int64_t *values) {
  const int64_t *given = NULL;
  int64_t size = keel_attr_ints(infer->op, name, &given);
  if (size >= 0 && size != count)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "attribute \"%s\" has %lld entries, not %u", name,
                           (long long)size, (unsigned)count);
  for (uint32_t i = 0; i < count; i++) {
    values[i] = given ? given[i] : fallback;
    if (values[i] < least || !keel_is_plausible(values[i]))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "attribute \"%s\" has %lld; %lld is the least",
                             name, (long long)values[i], (long long)least);
  }
  return KD_OK;
}

/* kernel: dims of the weights' window, or NULL: the attribute must say. */
static keel_status nn_read_window(keel_infer *infer, uint32_t rank,
                                  const int64_t *kernel, window *out) {
  const int64_t *given = NULL;
  if (rank < 3)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs N,C and at least one spatial dimension");
  out->space = rank - 2;
  int64_t size = keel_attr_ints(infer->op, "kernel_shape", &given);
  if (!kernel && size < 0)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "needs kernel_shape");
  KEEL_TRY(nn_read_list(infer, "kernel_shape", out->space, 1, 1, out->kernel));
  for (uint32_t i = 0; kernel && i < out->space; i++) {
    if (given && given[i] != kernel[i])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "kernel_shape is not that of the weights");
    out->kernel[i] = kernel[i];
  }
  KEEL_TRY(nn_read_list(infer, "strides", out->space, 1, 1, out->strides));
  KEEL_TRY(nn_read_list(infer, "dilations", out->space, 1, 1, out->dilations));
  int64_t pads[2 * MOST_SPACE];
  KEEL_TRY(nn_read_list(infer, "pads", 2 * out->space, INT64_MIN + 1, 0, pads));
  const char *mode = keel_attr_string(infer->op, "auto_pad", "NOTSET");
  out->same = !strcmp(mode, "SAME_UPPER")   ? 1
              : !strcmp(mode, "SAME_LOWER") ? 2
                                            : 0;
  if (!out->same && strcmp(mode, "NOTSET") != 0 && strcmp(mode, "VALID") != 0)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT,
        "auto_pad is \"%s\"; it can be NOTSET, SAME_UPPER, SAME_LOWER or VALID",
        mode);
  bool valid = !strcmp(mode, "VALID");
  for (uint32_t i = 0; i < out->space; i++) {
    out->begin[i] = valid ? 0 : pads[i];
    out->end[i] = valid ? 0 : pads[i + out->space];
    int64_t span = 0;
    if (!keel_mul_i64(out->kernel[i], out->dilations[i], &span) ||
        !keel_is_plausible(span))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "a window of %lld elements with dilation %lld is"
                             " too large",
                             (long long)out->kernel[i],
                             (long long)out->dilations[i]);
  }
  return KD_OK;
}

/* Windows along one dimension: span / stride, rounded down or up, and one more. Below one
 * where the window is larger than the padded input. */
static int64_t window_count(const window *w, uint32_t i, int64_t size,
                            bool ceil) {
  int64_t stride = w->strides[i];
  if (w->same) return (size + stride - 1) / stride;
  int64_t span = size + w->begin[i] + w->end[i] -
                 ((w->kernel[i] - 1) * w->dilations[i] + 1);
  int64_t count = span / stride + 1;
  if (span % stride && ceil == (span > 0)) count += ceil ? 1 : -1;
  /* the last window of ceil_mode must start inside the input or its left pad */
  if (ceil && (count - 1) * stride >= size + w->begin[i]) count--;
  return count;
}

/* Sets how many windows there are along one dimension; fewer than `least` are an error,
 * but for an empty input. */
static keel_status count_windows(keel_infer *infer, const window *w, uint32_t i,
                                 int64_t size, bool ceil, int64_t least,
                                 int64_t *out) {
  int64_t count = window_count(w, i, size, ceil);
  if (count < least && size > 0)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "the window is larger than the padded input");
  *out = count > 0 ? count : 0;
  return KD_OK;
}

static keel_status conv_dims(keel_infer *infer, const keel_type *x,
                             const keel_type *w, keel_dims *out) {
  window win = {0};
  int64_t group = keel_attr_int(infer->op, "group", 1), channels = 0;
  if (x->rank < 3 || w->rank != x->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X and W must have one rank of 3 or more");
  KEEL_TRY(nn_read_window(infer, x->rank, w->dims + 2, &win));
  if (group < 1 || !keel_mul_i64(w->dims[1], group, &channels) ||
      x->dims[1] != channels || w->dims[0] % group)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%lld channels in %lld groups do not fit W",
                           (long long)x->dims[1], (long long)group);
  *out = keel_dims_of(x);
  out->dims[1] = w->dims[0];
  for (uint32_t i = 0; i < win.space; i++) {
    KEEL_TRY(count_windows(infer, &win, i, x->dims[i + 2], false, 1,
                           &out->dims[i + 2]));
  }
  return KD_OK;
}

static keel_status check_bias(keel_infer *infer, uint32_t index,
                              int64_t channels) {
  const keel_type *bias = keel_infer_in(infer, index);
  if (bias && (bias->rank != 1 || bias->dims[0] != channels))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "B must have %lld elements", (long long)channels);
  return KD_OK;
}

keel_status keel_shape_conv(keel_infer *infer) {
  keel_dims dims = {0};
  KEEL_TRY(conv_dims(infer, infer->in[0], infer->in[1], &dims));
  if (!strcmp(infer->op->schema->name, "Conv"))
    KEEL_TRY(check_bias(infer, 2, dims.dims[1]));
  return keel_infer_dims(infer, 0, &dims);
}

/* Whether a tensor is N, count, then the space of Y. */
static bool is_for_places(const keel_type *type, const keel_dims *y,
                          int64_t count) {
  bool fits = type->rank == y->rank && type->dims[0] == y->dims[0] &&
              type->dims[1] == count;
  for (uint32_t i = 2; fits && i < y->rank; i++)
    fits = type->dims[i] == y->dims[i];
  return fits;
}

keel_status keel_shape_deform_conv(keel_infer *infer) {
  const keel_type *x = infer->in[0], *w = infer->in[1], *mask = NULL;
  int64_t groups = keel_attr_int(infer->op, "offset_group", 1), taps = 0;
  keel_dims dims = {0};
  KEEL_TRY(conv_dims(infer, x, w, &dims));
  KEEL_TRY(check_bias(infer, 3, dims.dims[1]));
  if (groups < 1 || x->dims[1] % groups)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%lld channels are not in offset_group = %lld groups"
                           " of one size",
                           (long long)x->dims[1], (long long)groups);
  taps = groups;
  for (uint32_t i = 2; i < w->rank; i++)
    KEEL_TRY(keel_infer_grow(infer, &taps, w->dims[i]));
  int64_t numbers = taps;
  KEEL_TRY(keel_infer_grow(infer, &numbers, (int64_t)x->rank - 2));
  mask = keel_infer_in(infer, 4);
  if (!is_for_places(infer->in[2], &dims, numbers) ||
      (mask && !is_for_places(mask, &dims, taps)))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "for each place of Y, offset must have %lld numbers"
                           " and mask %lld",
                           (long long)numbers, (long long)taps);
  return keel_infer_dims(infer, 0, &dims);
}

/* keel::FusedConv: a Conv, then an addition of Z, then an activation: none, Relu, or Clip
 * to [low, high], where those are given. keel::ActivatedConv: x * sigmoid(x), HardSwish or
 * LeakyRelu, which kernels of FusedConv need not know. */
keel_status keel_shape_fused_conv(keel_infer *infer) {
  keel_dims dims = {0};
  const keel_type *z = keel_infer_in(infer, 3);
  KEEL_TRY(conv_dims(infer, infer->in[0], infer->in[1], &dims));
  KEEL_TRY(check_bias(infer, 2, dims.dims[1]));
  bool fits = !z || z->rank == dims.rank;
  for (uint32_t i = 0; z && fits && i < z->rank; i++)
    fits = z->dims[i] == dims.dims[i];
  if (!fits)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "Z must have the shape of the convolution");
  return keel_infer_dims(infer, 0, &dims);
}

/* keel::DepthwiseConv: a Conv of as many groups as channels, which stand last: X and Y are
 * N, spatial..., C, and W is its window, then C. An activation follows, as of FusedMatMul. */
keel_status keel_shape_depthwise_conv(keel_infer *infer) {
  const keel_type *x = infer->in[0], *w = infer->in[1];
  window win = {0};
  if (x->rank < 3 || w->rank != x->rank - 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X must have a rank of 3 or more, and W one less");
  int64_t channels = x->dims[x->rank - 1];
  KEEL_TRY(nn_read_window(infer, x->rank, w->dims, &win));
  if (w->dims[w->rank - 1] != channels)
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT, "W has %lld channels, X %lld",
        (long long)w->dims[w->rank - 1], (long long)channels);
  KEEL_TRY(check_bias(infer, 2, channels));
  keel_dims dims = keel_dims_of(x);
  for (uint32_t i = 0; i < win.space; i++) {
    KEEL_TRY(count_windows(infer, &win, i, x->dims[i + 1], false, 1,
                           &dims.dims[i + 1]));
  }
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_qlinear_conv(keel_infer *infer) {
  keel_dims dims = {0};
  KEEL_TRY(conv_dims(infer, infer->in[0], infer->in[3], &dims));
  KEEL_TRY(check_bias(infer, 8, dims.dims[1]));
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_conv_transpose(keel_infer *infer) {
  const keel_type *x = infer->in[0], *w = infer->in[1];
  window win = {0};
  int64_t group = keel_attr_int(infer->op, "group", 1);
  int64_t extra[MOST_SPACE], shape[MOST_SPACE];
  const int64_t *given = NULL;
  if (x->rank < 3 || w->rank != x->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X and W must have one rank of 3 or more");
  KEEL_TRY(nn_read_window(infer, x->rank, w->dims + 2, &win));
  KEEL_TRY(nn_read_list(infer, "output_padding", win.space, 0, 0, extra));
  KEEL_TRY(nn_read_list(infer, "output_shape", win.space, 0, 0, shape));
  bool fixed = keel_attr_ints(infer->op, "output_shape", &given) >= 0;
  if (group < 1 || !keel_is_plausible(group) || x->dims[1] != w->dims[0] ||
      w->dims[0] % group)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%lld channels in %lld groups do not fit W",
                           (long long)x->dims[1], (long long)group);
  keel_dims dims = keel_dims_of(x);
  if (!keel_mul_i64(w->dims[1], group, &dims.dims[1]))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "too many channels");
  for (uint32_t i = 0; i < win.space; i++) {
    int64_t size = x->dims[i + 2];
    if (!fixed && !win.same) size--;
    KEEL_TRY(keel_infer_grow(infer, &size, win.strides[i]));
    if (fixed)
      size = shape[i];
    else if (!win.same)
      size += extra[i] + (win.kernel[i] - 1) * win.dilations[i] + 1 -
              win.begin[i] - win.end[i];
    dims.dims[i + 2] = size;
  }
  KEEL_TRY(check_bias(infer, 2, dims.dims[1]));
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_pool(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  window win = {0};
  KEEL_TRY(nn_read_window(infer, x->rank, NULL, &win));
  bool ceil = keel_attr_int(infer->op, "ceil_mode", 0) != 0;
  keel_dims dims = keel_dims_of(x);
  for (uint32_t i = 0; i < win.space; i++) {
    if (win.begin[i] >= win.kernel[i] * win.dilations[i] ||
        win.end[i] >= win.kernel[i] * win.dilations[i])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "a pad is as large as the window");
    KEEL_TRY(count_windows(infer, &win, i, x->dims[i + 2], ceil, 0,
                           &dims.dims[i + 2]));
  }
  KEEL_TRY(keel_infer_dims(infer, 0, &dims));
  return keel_infer_dims(infer, 1, &dims);
}

keel_status keel_shape_global_pool(keel_infer *infer) {
  keel_dims dims = keel_dims_of(infer->in[0]);
  if (dims.rank < 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "needs N,C,...");
  for (uint32_t i = 2; i < dims.rank; i++)
    dims.dims[i] = 1;
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_max_unpool(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  window win = {0};
  keel_dims dims = keel_dims_of(x);
  KEEL_TRY(nn_read_window(infer, x->rank, NULL, &win));
  if (keel_infer_in(infer, 2)) {
    int64_t count = keel_infer_ints(infer, 2, dims.dims, KD_MAX_RANK);
    if (count < 0) return KD_INVALID_ARGUMENT;
    if (count != (int64_t)x->rank)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "output_shape has %lld entries, not %u",
                             (long long)count, (unsigned)x->rank);
    dims.rank = (uint32_t)count;
    return keel_infer_dims(infer, 0, &dims);
  }
  for (uint32_t i = 0; i < win.space; i++) {
    dims.dims[i + 2]--;
    KEEL_TRY(keel_infer_grow(infer, &dims.dims[i + 2], win.strides[i]));
    dims.dims[i + 2] += win.kernel[i] - win.begin[i] - win.end[i];
  }
  return keel_infer_dims(infer, 0, &dims);
}

/* ---- Resize ---------------------------------------------------------------- */

#define RESIZE_MOST 1e12 /* elements of a dimension */

static keel_status resize_scales(keel_infer *infer, keel_dims *dims,
                                 const uint32_t *axes, uint32_t count) {
  const keel_type *type = infer->in[2];
  if (!infer->values || !infer->values[2]) {
    infer->unknown = true;
    return KD_OK;
  }
  if (type->elements != count)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "scales has %lld entries, not %u",
                           (long long)type->elements, (unsigned)count);
  const float *scales = infer->values[2]->data;
  for (uint32_t i = 0; i < count; i++) {
    double size = (double)dims->dims[axes[i]] * (double)scales[i];
    if (!(scales[i] > 0) || !isfinite(scales[i]))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "scales[%u] is %g, and must be positive and"
                             " finite",
                             (unsigned)i, (double)scales[i]);
    if (size > RESIZE_MOST)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "scales[%u] is %g, which makes %g elements of"
                             " dimension %u",
                             (unsigned)i, (double)scales[i], size,
                             (unsigned)axes[i]);
    dims->dims[axes[i]] = (int64_t)size;
  }
  return keel_infer_dims(infer, 0, dims);
}

/* a over b against c over d, none negative, b and d not zero: exact, by Euclid's
 * algorithm. Returns negative, 0 or positive. */
static int compare_ratios(int64_t a, int64_t b, int64_t c, int64_t d) {
  for (int sign = 1;; sign = -sign) {
    if (a / b != c / d) return a / b < c / d ? -sign : sign;
    int64_t p = a % b, q = c % d;
    if (!p || !q) return p == q ? 0 : p ? sign : -sign;
    a = b, b = p, c = d, d = q; /* the inverses of what is left */
  }
}

/* Sizes that keep the picture's form: all of one scale, the least or the largest of
 * those that are asked for, rounded to the nearest, up at a half. */
static keel_status resize_alike(keel_infer *infer, keel_dims *dims,
                                const uint32_t *axes, uint32_t count,
                                const int64_t *sizes, bool larger) {
  int64_t size = 0, in = 0; /* the scale is size over in */
  for (uint32_t i = 0; i < count; i++) {
    int64_t from = dims->dims[axes[i]];
    if (sizes[i] < 0)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "sizes[%u] is %lld; it must be 0 or more",
                             (unsigned)i, (long long)sizes[i]);
    int order = in && from ? compare_ratios(sizes[i], from, size, in) : 0;
    if (from && (!in || (larger ? order > 0 : order < 0))) {
      size = sizes[i];
      in = from;
    }
  }
  for (uint32_t i = 0; i < count && in; i++) {
    int64_t twice = 0, from = dims->dims[axes[i]];
    if (!keel_mul_i64(from, size, &twice) || twice > INT64_MAX / 2 - in ||
        (double)from * (double)size / (double)in > RESIZE_MOST)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "dimension %u of %lld elements at a scale of"
                             " %lld / %lld is too large",
                             (unsigned)axes[i], (long long)from,
                             (long long)size, (long long)in);
    dims->dims[axes[i]] = (2 * twice + in) / (2 * in);
  }
  return keel_infer_dims(infer, 0, dims);
}

static keel_status resize_sizes(keel_infer *infer, keel_dims *dims,
                                const uint32_t *axes, uint32_t count) {
  const char *policy =
      keel_attr_string(infer->op, "keep_aspect_ratio_policy", "stretch");
  int64_t values[KD_MAX_RANK];
  int64_t got = keel_infer_ints(infer, 3, values, KD_MAX_RANK);
  if (got < 0) return KD_INVALID_ARGUMENT;
  if (got != count)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "sizes has %lld entries, not %u", (long long)got,
                           (unsigned)count);
  if (strcmp(policy, "stretch") != 0)
    return resize_alike(infer, dims, axes, count, values,
                        !strcmp(policy, "not_smaller"));
  for (uint32_t i = 0; i < count; i++)
    dims->dims[axes[i]] = values[i];
  return keel_infer_dims(infer, 0, dims);
}

/* The dimensions that scales, sizes and roi are of. */
static keel_status resize_axes(keel_infer *infer, uint32_t *axes,
                               uint32_t *out_count) {
  uint32_t rank = infer->in[0]->rank;
  bool seen[KD_MAX_RANK] = {false};
  const int64_t *given = NULL;
  int64_t named = keel_attr_ints(infer->op, "axes", &given);
  for (uint32_t i = 0; i < rank; i++)
    axes[i] = i;
  if (named > (int64_t)rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "axes has %lld entries, and X %u dimensions",
                           (long long)named, (unsigned)rank);
  *out_count = named < 0 ? rank : (uint32_t)named;
  for (int64_t i = 0; i < named; i++) {
    KEEL_TRY(keel_infer_axis(infer, given[i], rank, &axes[i]));
    if (seen[axes[i]])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "axes names dimension %u twice",
                             (unsigned)axes[i]);
    seen[axes[i]] = true;
  }
  return KD_OK;
}

keel_status keel_shape_resize(keel_infer *infer) {
  const keel_type *roi = keel_infer_in(infer, 1);
  const keel_type *scales = keel_infer_in(infer, 2);
  const keel_type *sizes = keel_infer_in(infer, 3);
  uint32_t axes[KD_MAX_RANK], count = 0;
  keel_dims dims = keel_dims_of(infer->in[0]);
  const char *place = keel_attr_string(
      infer->op, "coordinate_transformation_mode", "half_pixel");
  const char *policy =
      keel_attr_string(infer->op, "keep_aspect_ratio_policy", "stretch");
  KEEL_TRY(resize_axes(infer, axes, &count));
  if (strcmp(policy, "stretch") != 0 && strcmp(policy, "not_larger") != 0 &&
      strcmp(policy, "not_smaller") != 0)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "keep_aspect_ratio_policy \"%s\" is none of stretch,"
                           " not_larger and not_smaller",
                           policy);
  if (roi && roi->elements && !strcmp(place, "tf_crop_and_resize") &&
      roi->elements != 2 * (int64_t)count)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "roi has %lld entries, not %u: the starts of %u"
                           " axes, then their ends",
                           (long long)roi->elements, 2 * (unsigned)count,
                           (unsigned)count);
  if (scales && scales->elements && sizes && sizes->elements)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "has both scales and sizes; leave one out");
  if (sizes && sizes->elements) return resize_sizes(infer, &dims, axes, count);
  if (!scales)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "needs scales or sizes");
  return resize_scales(infer, &dims, axes, count);
}

/* ---- RNN, GRU, LSTM -------------------------------------------------------- */

keel_status keel_shape_rnn(keel_infer *infer) {
  const keel_type *x = infer->in[0], *w = infer->in[1], *r = infer->in[2];
  const char *name = infer->op->schema->name;
  int64_t gates = !strcmp(name, "LSTM") ? 4 : !strcmp(name, "GRU") ? 3 : 1;
  if (x->rank != 3 || w->rank != 3 || r->rank != 3 ||
      w->dims[0] != r->dims[0] || w->dims[2] != x->dims[2] ||
      r->dims[2] * gates != r->dims[1] || w->dims[1] != r->dims[1])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X is [seq,batch,in], W [dir,%lld*hidden,in], R"
                           " [dir,%lld*hidden,hidden]",
                           (long long)gates, (long long)gates);
  int64_t units = keel_attr_int(infer->op, "hidden_size", r->dims[2]);
  if (units != r->dims[2])
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "hidden_size is %lld, and R has %lld units",
                           (long long)units, (long long)r->dims[2]);
  const char *direction = keel_attr_string(infer->op, "direction", "forward");
  if (w->dims[0] != (strcmp(direction, "bidirectional") ? 1 : 2))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "W has %lld directions, and direction is %s",
                           (long long)w->dims[0], direction);
  int64_t hidden = r->dims[2], dirs = w->dims[0];
  bool batch_first = keel_attr_int(infer->op, "layout", 0) != 0;
  int64_t seq = x->dims[batch_first], batch = x->dims[!batch_first];
  int64_t y[4] = {seq, dirs, batch, hidden}, h[3] = {dirs, batch, hidden};
  int64_t yb[4] = {batch, seq, dirs, hidden}, hb[3] = {batch, dirs, hidden};
  infer->dtypes[1] = infer->dtypes[2] = infer->dtypes[0];
  KEEL_TRY(keel_infer_out(infer, 0, 4, batch_first ? yb : y));
  KEEL_TRY(keel_infer_out(infer, 1, 3, batch_first ? hb : h));
  return keel_infer_out(infer, 2, 3, batch_first ? hb : h);
}

/* ---- sampling ------------------------------------------------------------- */

keel_status keel_shape_grid_sample(keel_infer *infer) {
  const keel_type *x = infer->in[0], *grid = infer->in[1];
  if (x->rank < 3 || grid->rank != x->rank || grid->dims[0] != x->dims[0] ||
      grid->dims[grid->rank - 1] != (int64_t)x->rank - 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X is [N,C,H,W] and grid [N,h,w,2], X is [N,C,D,H,W]"
                           " and grid [N,d,h,w,3], and so on");
  keel_dims dims = keel_dims_of(x);
  for (uint32_t i = 2; i < x->rank; i++)
    dims.dims[i] = grid->dims[i - 1];
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_max_roi_pool(keel_infer *infer) {
  const keel_type *x = infer->in[0], *rois = infer->in[1];
  int64_t bins[2] = {0, 0};
  if (x->rank != 4 || rois->rank != 2 || rois->dims[1] != 5)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X is [N,C,H,W] and rois [n,5]: an image's number,"
                           " then x and y of two corners");
  KEEL_TRY(nn_read_list(infer, "pooled_shape", 2, 1, 1, bins));
  int64_t dims[4] = {rois->dims[0], x->dims[1], bins[0], bins[1]};
  return keel_infer_out(infer, 0, 4, dims);
}

keel_status keel_shape_roi_align(keel_infer *infer) {
  const keel_type *x = infer->in[0], *rois = infer->in[1], *at = infer->in[2];
  int64_t h = keel_attr_int(infer->op, "output_height", 1);
  int64_t w = keel_attr_int(infer->op, "output_width", 1);
  if (x->rank != 4 || rois->rank != 2 || rois->dims[1] != 4 || at->rank != 1 ||
      at->dims[0] != rois->dims[0] || h < 1 || w < 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X is [N,C,H,W], rois [n,4], batch_indices [n]");
  int64_t dims[4] = {rois->dims[0], x->dims[1], h, w};
  return keel_infer_out(infer, 0, 4, dims);
}

/* ---- older opsets ----------------------------------------------------------- */

/* Upsample and Resize-10 are Resize with these modes. */
static keel_status old_resize(keel_draft *draft) {
  const keel_attr *mode = keel_upgrade_attr(draft, "mode", KD_ATTR_STRING);
  if (mode && !strcmp(mode->s, "bilinear"))
    keel_upgrade_set_string(draft, "mode", "linear");
  /* looked for here, as setting an attribute moves the others */
  const keel_attr *scales = keel_upgrade_attr(draft, "scales", KD_ATTR_FLOATS);
  if (scales) {
    KEEL_TRY(
        keel_upgrade_input(draft, 2, KD_F32, 1, scales->count, scales->floats));
    keel_upgrade_drop(draft, "scales");
  } else if (draft->input_count == 2) {
    draft->inputs[2] = draft->inputs[1];
    draft->inputs[1] = KEEL_ABSENT;
    draft->input_count = 3;
  }
  keel_upgrade_set_string(draft, "coordinate_transformation_mode",
                          "asymmetric");
  keel_upgrade_set_string(draft, "nearest_mode", "floor");
  draft->op = "Resize";
  return KD_OK;
}

/* It said whether the first output is wanted, as being named does. */
static keel_status old_rnn(keel_draft *draft) {
  keel_upgrade_drop(draft, "output_sequence");
  return KD_OK;
}

static keel_status old_grid_sample(keel_draft *draft) {
  const keel_attr *mode = keel_upgrade_attr(draft, "mode", KD_ATTR_STRING);
  if (mode && !strcmp(mode->s, "bilinear"))
    keel_upgrade_set_string(draft, "mode", "linear");
  else if (mode && !strcmp(mode->s, "bicubic"))
    keel_upgrade_set_string(draft, "mode", "cubic");
  return KD_OK;
}

/* Regions were not moved by half a pixel. */
static keel_status old_roi_align(keel_draft *draft) {
  keel_upgrade_set_string(draft, "coordinate_transformation_mode",
                          "output_half_pixel");
  return KD_OK;
}

/* ---- work of kernels ---------------------------------------------------------- */

/* A filter's elements, of one output channel. */
static uint64_t filter_steps(const keel_work *work, const keel_type *filters,
                             int channels) {
  uint64_t count = keel_work_dim(filters, channels);
  return keel_work_each(
      work, keel_plus(keel_work_elements(filters) / (count + !count), 1));
}

static uint64_t conv_steps(const keel_work *work) {
  return filter_steps(work, work->in[1], 0);
}

static uint64_t qlinear_conv_steps(const keel_work *work) {
  return filter_steps(work, work->in[3], 0);
}

static uint64_t depthwise_steps(const keel_work *work) {
  return filter_steps(work, work->in[1], -1);
}

static uint64_t conv_transpose_steps(const keel_work *work) {
  return keel_times(work->read, keel_work_elements(work->in[1]) /
                                        (keel_work_dim(work->in[1], 0) + 1) +
                                    1);
}

/* Windows are clipped to the image. */
static uint64_t window_steps(const keel_work *work) {
  const keel_type *x = work->in[0];
  uint64_t image = 1;
  for (uint32_t i = 2; x && i < x->rank; i++)
    image = keel_times(image, (uint64_t)x->dims[i]);
  return keel_work_each(work, keel_plus(image, 1));
}

static uint64_t roi_align_steps(const keel_work *work) {
  int64_t given = keel_attr_int(work->node->op, "sampling_ratio", 0);
  uint64_t each = given > 0 ? (uint64_t)given : SAMPLES;
  return keel_work_each(
      work, keel_plus(each, keel_times(keel_work_dim(work->in[0], 2),
                                       keel_work_dim(work->in[0], 3))));
}

/* Its window is of channels. */
static uint64_t lrn_steps(const keel_work *work) {
  return keel_times(work->read, keel_work_dim(work->in[0], 1));
}

static uint64_t resize_steps(const keel_work *work) {
  return keel_times(keel_plus(work->read, work->written), TAPS_OF_RESIZE);
}

static uint64_t recurrent_steps(const keel_work *work) {
  return keel_times(
      keel_times(keel_work_dim(work->in[0], 0), keel_work_dim(work->in[0], 1)),
      keel_plus(keel_work_elements(work->in[1]),
                keel_work_elements(work->in[2])));
}

/* Of filters' dimensions [begin, end), for each element of `type`. */
static double taps_flops(const keel_type *filters, uint32_t begin, uint32_t end,
                         const keel_type *type) {
  double taps = 1;
  for (uint32_t i = begin; i < end; i++)
    taps *= (double)filters->dims[i];
  return 2 * taps * (double)type->elements;
}

static double conv_flops(const keel_flops_of *of) {
  const keel_type *w = of->in[1];
  return keel_flops_known(w, 3) ? taps_flops(w, 1, w->rank, of->out) : 0;
}

static double conv_transpose_flops(const keel_flops_of *of) {
  const keel_type *w = of->in[1];
  return keel_flops_known(w, 3) ? taps_flops(w, 1, w->rank, of->in[0]) : 0;
}

/* Its filters have their channels last. */
static double depthwise_flops(const keel_flops_of *of) {
  const keel_type *w = of->in[1];
  return keel_flops_known(w, 2) ? taps_flops(w, 0, w->rank - 1, of->out) : 0;
}

/* ---- rows --------------------------------------------------------------------- */

static const keel_op_upgrade upgrades[] = {
    {"Upsample", 1, 99, old_resize},
    {"Resize", 10, 11, old_resize},
    {"RNN", 1, 7, old_rnn},
    {"GRU", 1, 7, old_rnn},
    {"LSTM", 1, 7, old_rnn},
    {"GridSample", 16, 20, old_grid_sample},
    {"RoiAlign", 10, 16, old_roi_align},
};

static const keel_op_rule rules[] = {
    {"Conv", .steps = conv_steps, .flops = conv_flops},
    {"ConvInteger", .steps = conv_steps, .flops = conv_flops},
    {"QLinearConv", .steps = qlinear_conv_steps},
    {"keel::FusedConv", .steps = conv_steps, .flops = conv_flops},
    {"keel::ActivatedConv", .steps = conv_steps, .flops = conv_flops},
    {"keel::DepthwiseConv", .steps = depthwise_steps, .flops = depthwise_flops},
    {"ConvTranspose", .steps = conv_transpose_steps,
     .flops = conv_transpose_flops},
    {"DeformConv", .flops = conv_flops},
    {"CausalConvWithState", .flops = conv_flops},
    {"MaxPool", .steps = window_steps},
    {"AveragePool", .steps = window_steps},
    {"LpPool", .steps = window_steps},
    {"MaxRoiPool", .steps = window_steps},
    {"RoiAlign", .steps = roi_align_steps},
    {"LRN", .steps = lrn_steps},
    {"Resize", .steps = resize_steps},
    {"LSTM", .steps = recurrent_steps},
    {"GRU", .steps = recurrent_steps},
    {"RNN", .steps = recurrent_steps},
};

const keel_op_table keel_ops_nn = {KEEL_TABLE_RULES(rules),
                                   KEEL_TABLE_UPGRADES(upgrades)};
