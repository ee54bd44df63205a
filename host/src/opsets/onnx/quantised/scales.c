/* scales.c - bytes with scales: shapes. */
#include <kd/help.h>

#include "defs/small.h"
#include "opsets/shapes.h"

/* Scales, and zero points with them, are one for all; one for each place along the axis;
 * or one for each block of it: x's dimensions with blocks for elements. */
static keel_status check_scales(const keel_infer *infer) {
  const keel_type *x = infer->in[0], *scale = infer->in[1];
  const keel_type *zero = keel_infer_in(infer, 2);
  int64_t block = keel_attr_int(infer->op, "block_size", 0);
  uint32_t axis = 0;
  bool fits = !zero || zero->elements == scale->elements;
  if (block < 0)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "block_size is %lld; it must be 0 or more",
                           (long long)block);
  if (block || scale->elements != 1)
    KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", 1),
                             x->rank, &axis));
  if (block) {
    fits = fits && scale->rank == x->rank && (!zero || zero->rank == x->rank);
    for (uint32_t i = 0; fits && i < x->rank; i++) {
      int64_t want = x->dims[i];
      if (i == axis) want = want / block + (want % block != 0);
      fits = scale->dims[i] == want && (!zero || zero->dims[i] == want);
    }
  } else if (scale->elements != 1) {
    fits = fits && scale->rank == 1 && scale->dims[0] == x->dims[axis];
  }
  if (fits) return KD_OK;
  return keel_infer_fail(
      infer, KD_INVALID_ARGUMENT,
      "scales and zero points must be scalars or have one element"
      " per element of the axis or, with block_size, per block");
}

keel_status keel_shape_quantize(keel_infer *infer) {
  static const uint64_t precisions = KD_TYPES_FLOAT | KD_TYPES(KD_NONE);
  const keel_type *zero = keel_infer_in(infer, 2);
  int64_t to = keel_attr_int(infer->op, "output_dtype", KD_NONE);
  int64_t by = keel_attr_int(infer->op, "precision", KD_NONE);
  if (!to) to = zero ? zero->dtype : KD_U8;
  bool small = to > 0 && to < (int64_t)KD_DTYPE_COUNT &&
               onnx_is_small((kd_dtype)to) && to != KD_F8E8M0;
  if (to != KD_U8 && to != KD_I8 && to != KD_U16 && to != KD_I16 && !small)
    return keel_infer_fail(
        infer, KD_UNIMPLEMENTED,
        "output_dtype is %lld; it can be u8 (2), i8 (3), u16 (4), i16 (5), or a"
        " type of 8 bits or less (17 to 23, 25, 26)",
        (long long)to);
  if (zero && zero->dtype != (kd_dtype)to)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "output_dtype is not the type of the zero point");
  if (by < 0 || by >= (int64_t)KD_DTYPE_COUNT || !(precisions >> by & 1))
    return keel_infer_fail(
        infer, KD_UNIMPLEMENTED,
        "precision is %lld, which is not a floating-point type", (long long)by);
  KEEL_TRY(check_scales(infer));
  infer->dtypes[0] = (kd_dtype)to;
  return keel_shape_same(infer);
}

keel_status keel_shape_dequantize(keel_infer *infer) {
  int64_t to = keel_attr_int(infer->op, "output_dtype", KD_NONE);
  if (!to) to = infer->in[1]->dtype;
  if (to != KD_F32 && to != KD_F16 && to != KD_BF16)
    return keel_infer_fail(
        infer, KD_UNIMPLEMENTED,
        "output_dtype is %lld; it can be f32 (1), f16 (10) or bf16 (16)",
        (long long)to);
  KEEL_TRY(check_scales(infer));
  infer->dtypes[0] = (kd_dtype)to;
  return keel_shape_same(infer);
}

keel_status keel_shape_dynamic_quantize(keel_infer *infer) {
  KEEL_TRY(keel_shape_same(infer));
  KEEL_TRY(keel_infer_out(infer, 1, 0, NULL));
  return keel_infer_out(infer, 2, 0, NULL);
}
