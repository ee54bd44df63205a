/* whole.h - floats as integers, as Cast has it where ONNX leaves it open.
 *
 * The fraction goes. An i64 (of u32, i64 and u64; of the others an i32) that holds the rest gives
 * its low bits, and u64 holds up to 2^64. Of what is beyond, of infinities and of NaN the
 * smallest i64 (i32) is taken for that, but 0 above u64: what x86 makes of them, and so NumPy,
 * PyTorch and ONNX Runtime. */
#ifndef ONNX_WHOLE_H
#define ONNX_WHOLE_H

#include <kd/help.h>

/* The bits of an integer of the type, which are the low ones. */
static inline uint64_t onnx_whole(kd_dtype dtype, double value) {
  const uint64_t wide = KD_TYPES(KD_U32) | KD_TYPES(KD_I64) | KD_TYPES(KD_U64);
  bool is_wide = (wide & KD_TYPES(dtype)) != 0;
  double end = is_wide ? 0x1p63 : 0x1p31;
  if (value >= -end && value < end) return (uint64_t)(int64_t)value;
  if (dtype == KD_U64 && value >= end)
    return value < 0x1p64 ? (uint64_t)value : 0;
  return (uint64_t)(is_wide ? INT64_MIN : INT32_MIN);
}

#endif /* ONNX_WHOLE_H */
