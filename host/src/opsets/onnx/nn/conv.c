/* conv.c - convolutions and pooling: shapes, forms of older opsets, work, derivatives. */
#include <kd/help.h>

#include "opsets/onnx/training/gradient.h"
#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/cost.h"
#include "passes/work.h"

#define MOST_SPACE (KD_MAX_RANK - 2)
#define SAMPLES    4096 /* of a bin of RoiAlign, each way, at most */

/* ---- shapes ------------------------------------------------------------------ */

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

/* ---- older opsets ------------------------------------------------------------ */

/* Regions were not moved by half a pixel. */
static keel_status old_roi_align(keel_draft *draft) {
  keel_upgrade_set_string(draft, "coordinate_transformation_mode",
                          "output_half_pixel");
  return KD_OK;
}

/* ---- work of kernels --------------------------------------------------------- */

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

/* ---- derivatives ------------------------------------------------------------- */

/* A convolution from `wide` to `narrow`, the larger and the smaller images. */
typedef struct gradient_window {
  uint32_t space;
  int64_t group;
  int64_t strides[MOST_SPACE], dilations[MOST_SPACE], pads[2 * MOST_SPACE];
} gradient_window;

/* Pads so that there are as many windows as strides fit (auto_pad SAME_*). */
static bool find_pads(gradient_window *w, const keel_type *x,
                      const int64_t *kernel, bool upper) {
  for (uint32_t i = 0; x && kernel && i < w->space; i++) {
    int64_t size = x->dims[2 + i], count = 0;
    if (size < 0 || kernel[i] < 1) return false;
    count = (size + w->strides[i] - 1) / w->strides[i];
    int64_t all = (count - 1) * w->strides[i] +
                  (kernel[i] - 1) * w->dilations[i] + 1 - size;
    all = all > 0 ? all : 0;
    w->pads[i] = upper ? all / 2 : all - all / 2;
    w->pads[w->space + i] = all - w->pads[i];
  }
  return x && kernel;
}

static bool read_numbers(const keel_gradient *g, gradient_window *w) {
  const keel_emit here = {.node = g->node};
  int64_t space = w->space;
  bool fits = keel_emit_list(&here, "strides", space, 1, w->strides) &&
              keel_emit_list(&here, "dilations", space, 1, w->dilations) &&
              keel_emit_list(&here, "pads", 2 * space, 0, w->pads);
  for (uint32_t i = 0; fits && i < w->space; i++)
    fits = w->strides[i] > 0 && w->strides[i] < INT32_MAX &&
           w->dilations[i] > 0 && w->dilations[i] < INT32_MAX;
  return fits;
}

/* kernel: its dimensions, or NULL where they are not known. */
static bool gradient_read_window(keel_gradient *g, gradient_window *w,
                                 uint32_t rank, const keel_type *x,
                                 const int64_t *kernel) {
  const char *mode = keel_attr_string(g->node.op, "auto_pad", "NOTSET");
  bool same = !strncmp(mode, "SAME", 4), fits = rank > 2;
  *w = (gradient_window){.space = fits ? rank - 2 : 0,
                         .group = keel_attr_int(g->node.op, "group", 1)};
  fits = fits && w->group > 0 && read_numbers(g, w);
  if (fits && !strcmp(mode, "VALID")) memset(w->pads, 0, sizeof w->pads);
  if (fits && same) fits = find_pads(w, x, kernel, !strcmp(mode, "SAME_UPPER"));
  if (!fits)
    keel_gradient_refuse(g,
                         "has a gradient only where its rank, and with"
                         " auto_pad its sizes, are known");
  return fits;
}

static uint32_t with_window(keel_gradient *g, const char *op,
                            const gradient_window *w, const int64_t *pads,
                            const int64_t *strides, const int64_t *dilations,
                            uint32_t a, uint32_t b) {
  int64_t space = w->space;
  return keel_gradient_text(
      g, "%s[group=%i, pads=%l, strides=%l, dilations=%l](%v, %v)", op,
      w->group, pads, 2 * space, strides, space, dilations, space, a, b);
}

/* `value` made as large as `like` is by zeros behind it, or cut off. */
static uint32_t fitted(keel_gradient *g, const gradient_window *w,
                       uint32_t value, uint32_t like) {
  static const int64_t zeros[MOST_SPACE + 4];
  return keel_gradient_text(
      g, "Pad(%v, Concat[axis=0](%l, dims(%v, 2) - dims(%v, 2)))", value, zeros,
      (int64_t)w->space + 4, like, value);
}

/* The gradient of the larger image, of which windows were taken. */
static uint32_t of_wide(keel_gradient *g, const gradient_window *w,
                        uint32_t narrow, uint32_t kernel, uint32_t like) {
  int64_t pads[2 * MOST_SPACE] = {0};
  memcpy(pads, w->pads,
         w->space * sizeof *pads); /* nothing is cut off behind */
  return fitted(g, w,
                with_window(g, "ConvTranspose", w, pads, w->strides,
                            w->dilations, narrow, kernel),
                like);
}

/* [N, G * C, ...] as [C, G * N, ...], or with `first` as [G * C, N, ...]. */
static uint32_t channels_first(keel_gradient *g, const gradient_window *w,
                               uint32_t value, bool first) {
  int64_t perm[3 + MOST_SPACE] = {first ? 1 : 2, first ? 2 : 1, 0};
  for (uint32_t i = 0; i < w->space; i++)
    perm[3 + i] = 3 + (int64_t)i;
  return keel_gradient_text(
      g,
      "x = %v; n = dims(x, 0, 1); c = dims(x, 1, 2); space = dims(x, 2);"
      "group = {%i}; each = c / group;"
      "moved = Transpose[perm=%l](Reshape(x, {n, group, each, space}));"
      "Reshape(moved, %b ? {c, n, space} : {each, group * n, space})",
      value, w->group, perm, 3 + (int64_t)w->space, first);
}

/* The gradient of the weights: the larger image by the smaller one, whose strides are dilations
 * now. The excess at the end is cut off. */
static uint32_t of_weights(keel_gradient *g, const gradient_window *w,
                           uint32_t wide, uint32_t narrow, uint32_t like) {
  int64_t perm[2 + MOST_SPACE] = {1, 0}, axes[MOST_SPACE];
  int64_t zeros[MOST_SPACE] = {0};
  for (uint32_t i = 0; i < w->space; i++)
    perm[2 + i] = axes[i] = 2 + (int64_t)i;
  uint32_t sums = with_window(g, "Conv", w, w->pads, w->dilations, w->strides,
                              channels_first(g, w, wide, false),
                              channels_first(g, w, narrow, true));
  return keel_gradient_text(
      g, "Transpose[perm=%l](Slice(%v, %l, dims(%v, 2), %l))", perm,
      2 + (int64_t)w->space, sums, zeros, (int64_t)w->space, like, axes,
      (int64_t)w->space);
}

/* A sum over all axes but the channels. */
static void give_bias(keel_gradient *g, const gradient_window *w) {
  int64_t axes[1 + MOST_SPACE] = {0};
  for (uint32_t i = 0; i < w->space; i++)
    axes[1 + i] = 2 + (int64_t)i;
  keel_gradient_text(g, "$2 = ReduceSum[keepdims=0](^0, %l)", axes,
                     1 + (int64_t)w->space);
}

static uint32_t rank_of(const keel_type *a, const keel_type *b) {
  return a ? a->rank : b ? b->rank : 0;
}

static void conv(keel_gradient *g) {
  uint32_t x = keel_gradient_in(g, 0), weights = keel_gradient_in(g, 1),
           got = keel_gradient_got(g, 0);
  const keel_type *of_x = keel_gradient_type(g, x),
                  *of_w = keel_gradient_type(g, weights);
  gradient_window w;
  if (!gradient_read_window(g, &w, rank_of(of_w, of_x), of_x,
                            of_w ? of_w->dims + 2 : NULL))
    return;
  if (keel_gradient_wants(g, 0))
    keel_gradient_give(g, 0, of_wide(g, &w, got, weights, x));
  if (keel_gradient_wants(g, 1))
    keel_gradient_give(g, 1, of_weights(g, &w, x, got, weights));
  give_bias(g, &w);
}

static void conv_transpose(keel_gradient *g) {
  uint32_t x = keel_gradient_in(g, 0), weights = keel_gradient_in(g, 1),
           got = keel_gradient_got(g, 0);
  const keel_type *of_x = keel_gradient_type(g, x),
                  *of_w = keel_gradient_type(g, weights);
  const int64_t *given = NULL;
  gradient_window w;
  if (!gradient_read_window(g, &w, rank_of(of_w, of_x), NULL, NULL)) return;
  if (keel_attr_ints(g->node.op, "output_shape", &given) >= 0) {
    keel_gradient_refuse(g, "has no gradient in Keel with output_shape");
    return;
  }
  if (keel_gradient_wants(g, 0))
    keel_gradient_give(g, 0,
                       fitted(g, &w,
                              with_window(g, "Conv", &w, w.pads, w.strides,
                                          w.dilations, got, weights),
                              x));
  if (keel_gradient_wants(g, 1))
    keel_gradient_give(g, 1, of_weights(g, &w, got, x, weights));
  give_bias(g, &w);
}

/* The op's second output has the places of the largest elements in the whole tensor. */
static void max_pool(keel_gradient *g) {
  if (keel_attr_int(g->node.op, "storage_order", 0))
    keel_gradient_refuse(g, "has no gradient in Keel with storage_order");
  else
    keel_gradient_text(
        g,
        "largest, places = self($0);"
        "sums = ScatterElements[reduction=add]("
        "    Reshape(Expand(0~$0, dims($0)), {-1}), Reshape(places, {-1}),"
        "    Reshape(^0, {-1}));"
        "$0 = Reshape(sums, dims($0))");
}

/* Windows of ones, of each channel by itself. */
static void average_pool(keel_gradient *g) {
  const int64_t *kernel = NULL;
  int64_t shape[2 + MOST_SPACE] = {1, 1}, all = 1;
  uint32_t x = keel_gradient_in(g, 0), got = 0;
  const keel_type *of_x = keel_gradient_type(g, x);
  gradient_window w;
  int64_t size = keel_attr_ints(g->node.op, "kernel_shape", &kernel);
  if (size < 1 || size > (int64_t)MOST_SPACE ||
      !gradient_read_window(g, &w, (uint32_t)size + 2, of_x, kernel))
    return;
  if (keel_attr_int(g->node.op, "ceil_mode", 0)) {
    keel_gradient_refuse(g, "has no gradient in Keel with ceil_mode");
    return;
  }
  for (uint32_t i = 0; i < w.space; i++) {
    shape[2 + i] = kernel[i];
    if (!keel_mul_i64(all, kernel[i], &all)) all = INT64_MAX;
  }
  uint32_t ones =
      keel_gradient_text(g, "Expand(1~^0, %l)", shape, 2 + (int64_t)w.space);
  if (keel_attr_int(g->node.op, "count_include_pad", 0)) {
    got = keel_gradient_text(g, "^0 * %f", 1 / (double)all);
  } else { /* the pixels of each window that are no padding */
    uint32_t image = keel_gradient_text(g, "Expand(1~^0, {1, 1, dims($0, 2)})");
    got = keel_gradient_text(g, "^0 / %v",
                             with_window(g, "Conv", &w, w.pads, w.strides,
                                         w.dilations, image, ones));
  }
  got = keel_gradient_text(
      g, "Reshape(%v, {ReduceProd(dims($0, 0, 2)), 1, dims(^0, 2)})", got);
  keel_gradient_text(g, "$0 = Reshape(%v, dims($0))",
                     of_wide(g, &w, got, ones, x));
}

/* ---- rows -------------------------------------------------------------------- */

#define SIZE                "CastLike(ReduceProd(dims($0, 2)), ^0)"
#define GLOBAL_AVERAGE_POOL "$0 = Expand(^0 / " SIZE ", dims($0))"
/* Shared by those that are as large. */
#define GLOBAL_MAX_POOL              \
  "chosen = CastLike($0 == %0, ^0);" \
  "$0 = chosen * (^0 / (GlobalAveragePool(chosen) * " SIZE "))"

static const keel_op_upgrade upgrades[] = {
    {"RoiAlign", 10, 16, old_roi_align},
};

static const keel_op_rule rules[] = {
    {"Conv", .steps = conv_steps, .flops = conv_flops, .gradient = conv},
    {"ConvInteger", .steps = conv_steps, .flops = conv_flops},
    {"QLinearConv", .steps = qlinear_conv_steps},
    {"keel::FusedConv", .steps = conv_steps, .flops = conv_flops},
    {"keel::ActivatedConv", .steps = conv_steps, .flops = conv_flops},
    {"keel::DepthwiseConv", .steps = depthwise_steps, .flops = depthwise_flops},
    {"ConvTranspose", .steps = conv_transpose_steps,
     .flops = conv_transpose_flops, .gradient = conv_transpose},
    {"DeformConv", .flops = conv_flops},
    {"CausalConvWithState", .flops = conv_flops},
    {"MaxPool", .steps = window_steps, .gradient = max_pool},
    {"AveragePool", .steps = window_steps, .gradient = average_pool},
    {"LpPool", .steps = window_steps},
    {"GlobalAveragePool", .slopes = GLOBAL_AVERAGE_POOL},
    {"GlobalMaxPool", .slopes = GLOBAL_MAX_POOL},
    {"MaxRoiPool", .steps = window_steps},
    {"RoiAlign", .steps = roi_align_steps},
};

const keel_op_table keel_ops_conv = {KEEL_TABLE_RULES(rules),
                                     KEEL_TABLE_UPGRADES(upgrades)};
