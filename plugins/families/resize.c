/* resize.c - Resize-18 by sizes or scales (kernels/resize.k). */
#include <stdio.h>
#include <string.h>

#include "families/map.h"
#include "families/resize.h"
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

/* A list of reals: as f64 where places are, else each as two floats, whose sum is
 * nearer. */
static void use_reals(fam_plan *plan, fam_pass *pass, const char *name,
                      uint32_t count, const double *values) {
  int64_t bits[2 * KD_MAX_RANK] = {0};
  bool whole = plan->float64 && plan->int64;
  char list[32];
  for (uint32_t i = 0; i < count; i++) {
    float high = (float)values[i], low = (float)(values[i] - (double)high);
    int32_t words[2];
    memcpy(&words[0], &high, sizeof high);
    memcpy(&words[1], &low, sizeof low);
    int64_t word = 0;
    memcpy(&word, &values[i], sizeof word);
    bits[2 * i] = whole ? (int32_t)(word >> 32) : words[0];
    bits[2 * i + 1] = whole ? (int32_t)(word & 0xffffffff) : words[1];
  }
  snprintf(list, sizeof list, "%s_BITS", name);
  fam_ints(plan, pass, list, count > 8 ? 2 * (int64_t)count : 16, bits);
  snprintf(list, sizeof list, "%s(d)", name);
  fam_define(pass, list,
             whole ? "AS_F64(WORD(%s_BITS(2 * (d)), %s_BITS(2 * (d) + 1)))"
                   : "(CAST(R, AS_F32(%s_BITS(2 * (d)))) + CAST(R,"
                     " AS_F32(%s_BITS(2 * (d) + 1))))",
             name, name);
}

/* At most `room` elements of a host input; returns how many it has. */
static int64_t resize_read_list(const fam_op *op, uint32_t input, int64_t room,
                                double *out) {
  if (!fam_has(op, input)) return 0;
  for (int64_t i = 0; i < op->in[input].count && i < room; i++)
    out[i] = fam_host_real(&op->in[input], i);
  return op->in[input].count;
}

/* What is given of each dimension; fails where it is wrong. */
static bool read_axes(const fam_op *op, fam_plan *plan, bool crop,
                      resize_axis *axes) {
  static const char *const policies[] = {"stretch", "not_larger",
                                         "not_smaller"};
  resize_given given = {.rank = op->in[0].rank,
                        .in = op->in[0].dims,
                        .out = op->out[0].dims,
                        .policy = policies[0],
                        .crop = crop};
  for (int i = 0; i < 3; i++)
    if (fam_attr_is(op, "keep_aspect_ratio_policy", "stretch", policies[i]))
      given.policy = policies[i];
  given.axis_count = op->host->node->attr_ints(op->node, "axes", &given.axes);
  given.roi_count = resize_read_list(op, 1, 2 * KD_MAX_RANK, given.roi);
  given.scale_count = resize_read_list(op, 2, KD_MAX_RANK, given.scales);
  given.size_count = resize_read_list(op, 3, KD_MAX_RANK, given.sizes);
  const char *wrong = resize_read(&given, axes);
  if (wrong) fam_fail(op, plan, KD_INVALID_ARGUMENT, "%s", wrong);
  return !wrong;
}

/* The ends of an integer type, as floats that lie in it. */
static bool ends_of(kd_dtype dtype, double *least, double *most) {
  static const double ends[KD_DTYPE_COUNT][2] = {
      [KD_I8] = {-0x1p7, 0x1p7 - 1},       [KD_U8] = {0, 0x1p8 - 1},
      [KD_I16] = {-0x1p15, 0x1p15 - 1},    [KD_U16] = {0, 0x1p16 - 1},
      [KD_I32] = {-0x1p31, 0x1.fffffep30}, [KD_U32] = {0, 0x1.fffffep31},
      [KD_I64] = {-0x1p63, 0x1.fffffep62}, [KD_U64] = {0, 0x1.fffffep63}};
  *least = ends[dtype][0];
  *most = ends[dtype][1];
  return *most > 0;
}

/* NaN is 0. */
static double within(double x, double least, double most) {
  return x < least ? least : x > most ? most : x == x ? x : 0;
}

/* What is given of each dimension. */
static void use_axes(fam_plan *plan, fam_pass *pass, uint32_t rank,
                     const resize_axis *axes) {
  double scales[KD_MAX_RANK], starts[KD_MAX_RANK], ends[KD_MAX_RANK];
  int64_t moved[KD_MAX_RANK];
  for (uint32_t d = 0; d < rank; d++) {
    scales[d] = axes[d].scale;
    starts[d] = axes[d].roi_start;
    ends[d] = axes[d].roi_end;
    moved[d] = axes[d].moved;
  }
  fam_dims(plan, pass, "MOVED", rank, moved);
  use_reals(plan, pass, "SCALE", rank, scales);
  use_reals(plan, pass, "ROI_START", rank, starts);
  use_reals(plan, pass, "ROI_END", rank, ends);
}

/* What stands outside of the picture, and what an integer holds: of sums, too. */
static void use_ends(const fam_op *op, fam_pass *pass, bool sums) {
  double outside = fam_attr_real(op, "extrapolation_value", 0);
  double least = 0, most = 0;
  if (ends_of(op->in[0].dtype, &least, &most)) {
    outside = within(outside, least, most);
    fam_real(pass, "LEAST", least);
    fam_real(pass, "MOST", most);
    if (sums) fam_define(pass, "SATURATES", "1");
  }
  fam_real(pass, "EXTRAPOLATION", outside);
}

void fam_plan_resize(const fam_op *op, fam_plan *plan) {
  const fam_tensor *x = &op->in[0], *y = &op->out[0];
  resize_axis axes[KD_MAX_RANK];
  int64_t packed[KD_MAX_RANK], boxes = 1;
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
  if (!weights[mode].mode || !place || !nearest || fam_attr(op, "antialias", 0))
    FAM_REFUSE(op, plan, KD_UNIMPLEMENTED, "this mode");
  if (!read_axes(op, plan, crop, axes)) return;
  if (!x->count && y->count)
    FAM_REFUSE(op, plan, KD_INVALID_ARGUMENT, "there is nothing to resize");
  int64_t taps = weights[mode].taps;
  for (uint32_t d = 0; d < x->rank; d++)
    if (axes[d].moved) boxes *= taps;
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
  use_axes(plan, pass, x->rank, axes);
  fam_real(pass, "CUBIC", fam_attr_real(op, "cubic_coeff_a", -0.75));
  use_ends(op, pass, weights[mode].text != NULL);
  fam_in(pass, "X", op, 0);
  fam_out(pass, "Y", op, 0);
}
