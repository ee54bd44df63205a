/* types.c - names of element types. */
#include "mlir.h"

static const struct {
  const char *name;
  kd_dtype dtype;
} names[] = {
    {"f32", KD_F32},
    {"f64", KD_F64},
    {"f16", KD_F16},
    {"bf16", KD_BF16},
    {"i1", KD_BOOL},
    {"i8", KD_I8},
    {"i16", KD_I16},
    {"i32", KD_I32},
    {"i64", KD_I64},
    {"ui8", KD_U8},
    {"ui16", KD_U16},
    {"ui32", KD_U32},
    {"ui64", KD_U64},
    {"complex<f32>", KD_C64},
    {"complex<f64>", KD_C128},
    {"f8E4M3FN", KD_F8E4M3FN},
    {"f8E4M3FNUZ", KD_F8E4M3FNUZ},
    {"f8E5M2", KD_F8E5M2},
    {"f8E5M2FNUZ", KD_F8E5M2FNUZ},
    {"i4", KD_I4},
    {"ui4", KD_U4},
    {"i2", KD_I2},
    {"ui2", KD_U2},
    {"f8E8M0FNU", KD_F8E8M0},
    {"!keel.f4E2M1", KD_F4E2M1},
    {"!keel.string", KD_STRING},
};

const char *keel_mlir_dtype_name(kd_dtype dtype) {
  for (size_t i = 0; i < KEEL_COUNT_OF(names); i++)
    if (names[i].dtype == dtype) return names[i].name;
  return NULL;
}

kd_dtype keel_mlir_dtype_of(const char *name, size_t size) {
  for (size_t i = 0; i < KEEL_COUNT_OF(names); i++)
    if (strlen(names[i].name) == size && !memcmp(names[i].name, name, size))
      return names[i].dtype;
  return KD_NONE;
}
