/* resize.c - Resize and GridSample: shapes, forms of older opsets, work. */
#include <kd/help.h>
#include <math.h>

#include "opsets/onnx/upgrade.h"
#include "opsets/tables.h"
#include "passes/work.h"

#define TAPS_OF_RESIZE 16 /* that a resized element may read where it grows */

/* ---- shapes ------------------------------------------------------------------ */

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

/* ---- older opsets and work --------------------------------------------------- */

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

static keel_status old_grid_sample(keel_draft *draft) {
  const keel_attr *mode = keel_upgrade_attr(draft, "mode", KD_ATTR_STRING);
  if (mode && !strcmp(mode->s, "bilinear"))
    keel_upgrade_set_string(draft, "mode", "linear");
  else if (mode && !strcmp(mode->s, "bicubic"))
    keel_upgrade_set_string(draft, "mode", "cubic");
  return KD_OK;
}

static uint64_t resize_steps(const keel_work *work) {
  return keel_times(keel_plus(work->read, work->written), TAPS_OF_RESIZE);
}

/* ---- rows -------------------------------------------------------------------- */

static const keel_op_upgrade upgrades[] = {
    {"Upsample", 1, 99, old_resize},
    {"Resize", 10, 11, old_resize},
    {"GridSample", 16, 20, old_grid_sample},
};

static const keel_op_rule rules[] = {
    {"Resize", .steps = resize_steps,
     .traits = KEEL_OP_RESIZES | KEEL_OP_HANDS_ON},
};

const keel_op_table keel_ops_resize = {KEEL_TABLE_RULES(rules),
                                       KEEL_TABLE_UPGRADES(upgrades)};
