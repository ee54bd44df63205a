/* resize.c - Resize-18 by sizes or scales (kernels/resize.k). */
#include <stdio.h>
#include <string.h>

#include "families/map.h"
#include "families/rows.h"

static const fam_expression places[] = {
#define RESIZE_PLACE(name, text) {#name, #text},
#include "families/rules.def"
    {NULL, NULL}};

static const fam_expression roundings[] = {
#define RESIZE_NEAREST(name, text) {#name, #text},
#include "families/rules.def"
    {NULL, NULL}};

static const struct {
  const char *mode, *text;
  int64_t taps;
} weights[] = {{"nearest", NULL, 1},
#define RESIZE_WEIGHT(mode, taps, text) {#mode, #text, taps},
#include "families/rules.def"
               {NULL, NULL, 0}};

/* A list of reals, each as two floats, whose sum is nearer. */
static void use_reals(fam_plan *plan, fam_pass *pass, const char *name,
                      uint32_t count, const double *values) {
  int64_t bits[2 * KD_MAX_RANK];
  char list[32];
  for (uint32_t i = 0; i < count; i++) {
    float high = (float)values[i], low = (float)(values[i] - (double)high);
    int32_t word = 0;
    memcpy(&word, &high, sizeof word);
    bits[2 * i] = word;
    memcpy(&word, &low, sizeof word);
    bits[2 * i + 1] = word;
  }
  for (uint32_t i = 2 * count; i < 16; i++)
    bits[i] = 0;
  snprintf(list, sizeof list, "%s_BITS", name);
  fam_ints(plan, pass, list, count > 8 ? 2 * (int64_t)count : 16, bits);
  snprintf(list, sizeof list, "%s(d)", name);
  fam_define(pass, list,
             "(CAST(R, AS_F32(%s_BITS(2 * (d)))) + CAST(R, AS_F32(%s_BITS(2 *"
             " (d) + 1))))",
             name, name);
}

/* Scales: the given ones, or the ratios of the sizes. */
static bool read_scales(const fam_op *op, fam_plan *plan, double *scales) {
  const fam_tensor *x = &op->in[0], *y = &op->out[0];
  int64_t axes[KD_MAX_RANK];
  int64_t named = fam_attr_list(op, "axes", axes, KD_MAX_RANK);
  for (uint32_t d = 0; d < x->rank; d++)
    scales[d] = x->dims[d] ? (double)y->dims[d] / (double)x->dims[d] : 1;
  for (int64_t i = 0; fam_has(op, 2) && i < op->in[2].count; i++)
    scales[fam_axis(op, plan, i < named ? axes[i] : i, x->rank)] =
        fam_host_real(&op->in[2], i);
  return plan->status == KD_OK;
}

void fam_plan_resize(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *y = &op->out[0];
  double scales[KD_MAX_RANK], roi[2][KD_MAX_RANK];
  int64_t packed[KD_MAX_RANK], moved[KD_MAX_RANK], boxes = 1;
  bool crop = fam_attr_is(op, "coordinate_transformation_mode", "half_pixel",
                          "tf_crop_and_resize");
  int mode = 0;
  while (weights[mode].mode &&
         !fam_attr_is(op, "mode", "nearest", weights[mode].mode))
    mode++;
  const char *place =
      fam_rule(op, "coordinate_transformation_mode", "half_pixel", places);
  const char *nearest =
      fam_rule(op, "nearest_mode", "round_prefer_floor", roundings);
  if (!read_scales(op, plan, scales)) return;
  if (!weights[mode].mode || !place || !nearest ||
      fam_attr(op, "antialias", 0) ||
      !fam_attr_is(op, "keep_aspect_ratio_policy", "stretch", "stretch")) {
    fam_fail(op, plan, KD_UNIMPLEMENTED, "this mode");
    return;
  }
  if (!x->count && y->count) {
    fam_fail(op, plan, KD_INVALID_ARGUMENT, "there is nothing to resize");
    return;
  }
  bool has_roi = fam_has(op, 1) && op->in[1].count == 2 * (int64_t)x->rank;
  int64_t taps = weights[mode].taps;
  for (uint32_t d = 0; d < x->rank; d++) {
    roi[0][d] = has_roi ? fam_host_real(&op->in[1], d) : 0;
    roi[1][d] = has_roi ? fam_host_real(&op->in[1], (int64_t)d + x->rank) : 1;
    bool whole = !crop || (roi[0][d] == 0 && roi[1][d] == 1);
    moved[d] = !(x->dims[d] == y->dims[d] && whole);
    if (x->dims[d] == y->dims[d]) scales[d] = 1;
    if (moved[d]) boxes *= taps;
  }
  kd_dtype compute =
      x->dtype == KD_F64 || (!fam_is_float(x->dtype) && mode == 0) ? x->dtype
                                                                   : KD_F32;
  bool wide = plan->float64;
  strided_packed(x->dims, x->rank, packed);
  fam_pass *pass = fam_begin(plan, "resize");
  fam_define(pass, "V", "%s", kd_dtype_name(fam_compute(compute)));
  fam_define(pass, "R", wide ? "f64" : "f32");
  fam_int(plan, pass, "RANK", x->rank);
  fam_define(pass, "TAPS", "%lld", (long long)taps);
  fam_define(pass, "PLACE(o, d)", "(%s)", place);
  if (weights[mode].text)
    fam_define(pass, "WEIGHT", "(%s)", weights[mode].text);
  else
    fam_define(pass, "NEAREST", "(%s)", nearest);
  fam_define(pass, "CUBIC_A", "CAST(R, CUBIC)");
  fam_define(pass, "CROP", "%d", crop);
  fam_define(pass, "EXCLUDE", "%d", fam_attr(op, "exclude_outside", 0) != 0);
  fam_items(plan, pass, y->count);
  fam_int(plan, pass, "BOXES", boxes);
  fam_dims(plan, pass, "DIMS", y->rank, y->dims);
  fam_dims(plan, pass, "SIZES", x->rank, x->dims);
  fam_dims(plan, pass, "STEPS", x->rank, packed);
  fam_dims(plan, pass, "MOVED", x->rank, moved);
  use_reals(plan, pass, "SCALE", x->rank, scales);
  use_reals(plan, pass, "ROI_START", x->rank, roi[0]);
  use_reals(plan, pass, "ROI_END", x->rank, roi[1]);
  fam_real(pass, "CUBIC", fam_attr_real(op, "cubic_coeff_a", -0.75));
  fam_real(pass, "EXTRAPOLATION", fam_attr_real(op, "extrapolation_value", 0));
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
}
