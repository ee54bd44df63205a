/* cast.c - converting elements between all plain types.
 *
 * Floats to integers: defs/whole.h. */
#include "cpu.h"

#include "defs/small.h"

/* those up to 2^63 */
#define INTEGERS(X)   \
  X(KD_I8, int8_t)    \
  X(KD_I16, int16_t)  \
  X(KD_I32, int32_t)  \
  X(KD_I64, int64_t)  \
  X(KD_U8, uint8_t)   \
  X(KD_U16, uint16_t) \
  X(KD_U32, uint32_t)

static bool cast_is_float(kd_dtype dtype) {
  return (KD_TYPES_FLOAT & KD_TYPES(dtype)) != 0;
}

double cpu_get(const void *data, kd_dtype dtype, int64_t i) {
  switch (dtype) {
#define GET(D, S) \
  case D:         \
    return (double)((const S *)data)[i];
    INTEGERS(GET)
    GET(KD_U64, uint64_t)
    GET(KD_BOOL, uint8_t)
    GET(KD_F32, float)
    GET(KD_F64, double)
#undef GET
    case KD_F16:
      return (double)f16_float(((const cpu_f16 *)data)[i]);
    case KD_BF16:
      return (double)bf16_float(((const cpu_bf16 *)data)[i]);
    default:
      return onnx_is_small(dtype) ? onnx_small_get(data, dtype, i) : 0;
  }
}

double cpu_get_odd(const void *data, kd_dtype dtype, int64_t i) {
  if (dtype == KD_I64) {
    int64_t v = ((const int64_t *)data)[i];
    if (v > INT64_C(1) << 53 || v < -(INT64_C(1) << 53))
      v = (int64_t)(((uint64_t)v & ~UINT64_C(2047)) |
                    (uint64_t)((v & 2047) != 0) << 11);
    return (double)v;
  }
  if (dtype == KD_U64) {
    uint64_t v = ((const uint64_t *)data)[i];
    if (v > UINT64_C(1) << 53)
      v = (v & ~UINT64_C(2047)) | (uint64_t)((v & 2047) != 0) << 11;
    return (double)v;
  }
  return cpu_get(data, dtype, i);
}

/* value within [low, high], toward zero; high is a power of two, not reached */
static double clamp(double value, double low, double high) {
  if (value != value) return 0;
  return value < low ? low : value >= high ? nextafter(high, 0) : value;
}

int64_t cpu_get_whole(const void *data, kd_dtype dtype, int64_t i) {
  if (dtype == KD_I64) return ((const int64_t *)data)[i];
  return (int64_t)clamp(cpu_get(data, dtype, i), -0x1p63, 0x1p63);
}

void cpu_set(void *data, kd_dtype dtype, int64_t i, double value) {
  switch (dtype) {
    case KD_F32:
      ((float *)data)[i] = (float)value;
      break;
    case KD_F64:
      ((double *)data)[i] = value;
      break;
    case KD_F16:
      ((cpu_f16 *)data)[i] = float_f16(odd_float(value));
      break;
    case KD_BF16:
      ((cpu_bf16 *)data)[i] = float_bf16(odd_float(value));
      break;
#define SET(D, S)                                               \
  case D:                                                       \
    ((S *)data)[i] = (S)(int64_t)clamp(value, -0x1p63, 0x1p63); \
    break;
      INTEGERS(SET)
#undef SET
    case KD_U64:
      ((uint64_t *)data)[i] = value < 0
                                  ? (uint64_t)(int64_t)clamp(value, -0x1p63, 0)
                                  : (uint64_t)clamp(value, 0, 0x1p64);
      break;
    case KD_BOOL:
      ((uint8_t *)data)[i] = value != 0;
      break;
    default:
      break;
  }
}

static int64_t get_int(const void *data, kd_dtype dtype, int64_t i) {
  switch (dtype) {
#define GET(D, S) \
  case D:         \
    return ((const S *)data)[i];
    INTEGERS(GET)
#undef GET
    case KD_U64:
      return ((const int64_t *)data)[i];
    default:
      return ((const uint8_t *)data)[i];
  }
}

/* Integers keep their low bits. */
static void int_to_int(const void *from, kd_dtype from_type, void *to,
                       kd_dtype to_type, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    int64_t value = get_int(from, from_type, i);
    if (to_type == KD_BOOL)
      ((uint8_t *)to)[i] = value != 0;
    else
      memcpy((char *)to + (size_t)i * kd_dtype_size(to_type), &value,
             kd_dtype_size(to_type)); /* little-endian */
  }
}

static void float_to_int(const void *from, kd_dtype from_type, void *to,
                         kd_dtype to_type, int64_t n) {
  size_t size = kd_dtype_size(to_type);
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = onnx_whole(to_type, cpu_get(from, from_type, i));
    memcpy((char *)to + (size_t)i * size, &bits, size); /* little-endian */
  }
}

static inline uint8_t is_set(float value) {
  return value != 0;
}

static inline uint8_t is_set_whole(int64_t value) {
  return value != 0;
}

/* The pairs that models use most, as loops that become vectors. */
static bool fast(const void *from, kd_dtype from_type, void *to,
                 kd_dtype to_type, int64_t n) {
#define PAIR(F, FS, LOAD, D, DS, STORE) \
  if (from_type == F && to_type == D) { \
    const FS *x = from;                 \
    DS *y = to;                         \
    for (int64_t i = 0; i < n; i++)     \
      y[i] = STORE(LOAD(x[i]));         \
    return true;                        \
  }
  PAIR(KD_F16, cpu_f16, f16_float, KD_F32, float, plain_float)
  PAIR(KD_F32, float, plain_float, KD_F16, cpu_f16, float_f16)
  PAIR(KD_BF16, cpu_bf16, bf16_float, KD_F32, float, plain_float)
  PAIR(KD_F32, float, plain_float, KD_BF16, cpu_bf16, float_bf16)
  PAIR(KD_F32, float, plain_float, KD_F64, double, plain_double)
  PAIR(KD_I64, int64_t, (float), KD_F32, float, plain_float)
  PAIR(KD_I32, int32_t, (float), KD_F32, float, plain_float)
  PAIR(KD_I32, int32_t, (int64_t), KD_I64, int64_t, )
  PAIR(KD_I64, int64_t, (int32_t), KD_I32, int32_t, )
  PAIR(KD_BOOL, uint8_t, (float), KD_F32, float, plain_float)
  PAIR(KD_U8, uint8_t, (float), KD_F32, float, plain_float)
  PAIR(KD_I8, int8_t, (float), KD_F32, float, plain_float)
  PAIR(KD_F32, float, plain_float, KD_BOOL, uint8_t, is_set)
  PAIR(KD_I64, int64_t, , KD_BOOL, uint8_t, is_set_whole)
  PAIR(KD_I32, int32_t, , KD_BOOL, uint8_t, is_set_whole)
  PAIR(KD_BOOL, uint8_t, (int64_t), KD_I64, int64_t, )
  PAIR(KD_BOOL, uint8_t, (int32_t), KD_I32, int32_t, )
#undef PAIR
  return false;
}

void cpu_convert(const void *from, kd_dtype from_type, void *to,
                 kd_dtype to_type, int64_t n) {
  if (n <= 0) return;
  if (from_type == to_type)
    memmove(to, from, (size_t)n * kd_dtype_size(to_type));
  else if (fast(from, from_type, to, to_type, n))
    return;
  else if (!cast_is_float(from_type) && !cast_is_float(to_type))
    int_to_int(from, from_type, to, to_type, n);
  else if (!cast_is_float(to_type) && to_type != KD_BOOL)
    float_to_int(from, from_type, to, to_type, n);
  else if (to_type == KD_F64)
    for (int64_t i = 0; i < n; i++)
      ((double *)to)[i] = cpu_get(from, from_type, i);
  else
    for (int64_t i = 0; i < n; i++)
      cpu_set(to, to_type, i, cpu_get_odd(from, from_type, i));
}
