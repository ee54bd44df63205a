/* small.c - elements of eight bits or less: Cast, QuantizeLinear and DequantizeLinear
 * (kernels/small.k). */
#include "defs/small.h"

#include "families/map.h"
#include "families/rows.h"
#include "families/small.h"

/* The formats, as the kernel has them. */
static fam_pass *small_begin(fam_plan *plan, kd_dtype dtype) {
  const onnx_small_float *f = onnx_small_float_of(dtype);
  bool whole = dtype == KD_I4 || dtype == KD_I2;
  int form = f ? 2 : dtype == KD_F8E8M0 ? 3 : whole ? 0 : 1;
  unsigned bits = kd_dtype_bits(dtype);
  fam_pass *pass = fam_begin(plan, "small");
  fam_define(pass, "FORM", "%d", form);
  fam_define(pass, "BITS", "%u", bits);
  fam_define(pass, "PER", "%u", 8 / bits);
  if (!f) return pass;
  fam_define(pass, "M", "%d", f->mantissa);
  fam_define(pass, "BIAS", "%d", f->bias);
  fam_define(pass, "LARGEST", "%d", f->largest);
  fam_define(pass, "INF_BITS", "%d", f->infinity);
  fam_define(pass, "NAN_BITS", "%d", f->nan);
  if (f->unsigned_zero) fam_define(pass, "ONE_ZERO", "1");
  return pass;
}

/* What makes small elements: an item for each byte. */
static void small_narrow(const fam_op *op, fam_plan *plan, fam_pass *pass) {
  int64_t per = 8 / (int64_t)kd_dtype_bits(op->out[0].dtype);
  int64_t count = op->out[0].count;
  fam_define(pass, "NARROW", "1");
  fam_define(pass, "SATURATE", "%d", (int)fam_attr(op, "saturate", 1));
  fam_int(plan, pass, "COUNT", count);
  fam_items(plan, pass, count / per + (count % per != 0));
  fam_in(pass, "X", op, 0);
  fam_bind(pass, "Z", FAM_OUTPUT, 0, KD_U8);
}

static void small_widen(const fam_op *op, fam_plan *plan, fam_pass *pass) {
  fam_items(plan, pass, op->out[0].count);
  fam_bind(pass, "X", FAM_INPUT, 0, KD_U8);
  fam_out(pass, "Z", op, 0);
}

/* ---- Cast ------------------------------------------------------------------------ */

/* Elements pass through f32. Integers that it has not are too large for every small float, but
 * powers of two see their last digit. */
static bool goes_by_f32(kd_dtype from, kd_dtype to) {
  bool wide = from == KD_F64 || kd_dtype_size(from) == 8 || from == KD_I32 ||
              from == KD_U32;
  return from != KD_F64 && !(to == KD_F8E8M0 && wide);
}

bool fam_small_cast(const fam_op *op, fam_plan *plan) {
  kd_dtype from = op->in[0].dtype, to = op->out[0].dtype;
  bool is_small = onnx_is_small(to);
  if (!is_small && !onnx_is_small(from)) return false;
  if (is_small && (onnx_is_small(from) || !goes_by_f32(from, to))) {
    fam_fail(op, plan, KD_UNIMPLEMENTED, "from %s to %s", kd_dtype_name(from),
             kd_dtype_name(to));
    return true;
  }
  fam_pass *pass = small_begin(plan, is_small ? to : from);
  fam_define(pass, "SCALED", "0");
  if (is_small) {
    bool down = fam_attr_is(op, "round_mode", "up", "down");
    bool up = fam_attr_is(op, "round_mode", "up", "up");
    fam_define(pass, "ROUND", "%d", down ? 0 : up ? 1 : 2);
    if (!fam_is_float(from) && !onnx_small_float_of(to) && to != KD_F8E8M0)
      fam_define(pass, "WHOLE", "1");
    small_narrow(op, plan, pass);
  } else {
    if (to == KD_BOOL) fam_define(pass, "TRUTH", "1");
    fam_define(pass, "AS_Z(x)", "%s", fam_cast_of(KD_F32, to));
    small_widen(op, plan, pass);
  }
  return true;
}

/* ---- QuantizeLinear, DequantizeLinear ---------------------------------------------- */

/* One scale for all, one a step of the axis, or one for each block of it. */
static void add_scales(const fam_op *op, fam_plan *plan, fam_pass *pass) {
  const fam_tensor *x = &op->in[0];
  int64_t block = fam_attr(op, "block_size", 0);
  bool one = op->in[1].count == 1;
  uint32_t axis =
      one ? 0 : fam_axis(op, plan, fam_attr(op, "axis", 1), x->rank);
  fam_define(pass, "SCALED", "%d", one ? 1 : block ? 3 : 2);
  fam_in(pass, "SCALES", op, 1);
  if (fam_has(op, 2)) {
    fam_bind(pass, "ZEROS", FAM_INPUT, 2, KD_U8);
    fam_define(pass, "ZERO", "ZEROS");
  }
  if (one) return;
  int64_t length = x->dims[axis];
  fam_int(plan, pass, "LENGTH", length);
  fam_int(plan, pass, "INNER", fam_product(x->dims, axis + 1, x->rank));
  if (!block) return;
  fam_int(plan, pass, "BLOCK", block < length ? block : length ? length : 1);
  fam_int(plan, pass, "BLOCKS", length ? (length - 1) / block + 1 : 0);
}

static bool has_scales(const fam_op *op, fam_plan *plan) {
  kd_dtype by = op->in[1].dtype;
  if (by == KD_F32 || by == KD_F16 || by == KD_BF16) return true;
  fam_fail(op, plan, KD_UNIMPLEMENTED, "by scales of %s", kd_dtype_name(by));
  return false;
}

bool fam_small_quantize(const fam_op *op, fam_plan *plan) {
  kd_dtype to = op->out[0].dtype;
  static const int ends[KD_DTYPE_COUNT][2] = {[KD_U4] = {0, 15},
                                              [KD_I4] = {-8, 7},
                                              [KD_U2] = {0, 3},
                                              [KD_I2] = {-2, 1}};
  if (!onnx_is_small(to)) return false;
  if (op->in[0].dtype == KD_F64) {
    fam_fail(op, plan, KD_UNIMPLEMENTED, "of f64");
    return true;
  }
  if (!has_scales(op, plan)) return true;
  fam_pass *pass = small_begin(plan, to);
  fam_define(pass, "ROUND", "0");
  fam_define(pass, "LEAST", "%d", ends[to][0]);
  fam_define(pass, "MOST", "%d", ends[to][1]);
  add_scales(op, plan, pass);
  small_narrow(op, plan, pass);
  return true;
}

bool fam_small_dequantize(const fam_op *op, fam_plan *plan) {
  if (!onnx_is_small(op->in[0].dtype)) return false;
  if (!has_scales(op, plan)) return true;
  fam_pass *pass = small_begin(plan, op->in[0].dtype);
  add_scales(op, plan, pass);
  small_widen(op, plan, pass);
  return true;
}
