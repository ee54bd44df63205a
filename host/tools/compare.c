/* compare.c - whether two values agree. */
#include <math.h>

#include "defs/small.h"
#include "system/printable.h"
#include "tool.h"

static double half_to_double(uint16_t bits) {
  int sign = bits >> 15, exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31  ? (fraction ? NAN : INFINITY)
                 : exponent == 0 ? ldexp(fraction, -24)
                                 : ldexp(fraction + 1024, exponent - 25);
  return sign ? -value : value;
}

static double bfloat_to_double(uint16_t bits) {
  uint32_t wide = (uint32_t)bits << 16;
  float value = 0;
  memcpy(&value, &wide, sizeof value);
  return value;
}

static double element_at(const void *data, kd_dtype dtype, int64_t i) {
  switch (dtype) {
    case KD_F32:
      return ((const float *)data)[i];
    case KD_F64:
      return ((const double *)data)[i];
    case KD_F16:
      return half_to_double(((const uint16_t *)data)[i]);
    case KD_BF16:
      return bfloat_to_double(((const uint16_t *)data)[i]);
    case KD_I8:
      return ((const int8_t *)data)[i];
    case KD_U8:
    case KD_BOOL:
      return ((const uint8_t *)data)[i];
    case KD_I16:
      return ((const int16_t *)data)[i];
    case KD_U16:
      return ((const uint16_t *)data)[i];
    case KD_I32:
      return ((const int32_t *)data)[i];
    case KD_U32:
      return ((const uint32_t *)data)[i];
    case KD_I64:
      return (double)((const int64_t *)data)[i];
    case KD_U64:
      return (double)((const uint64_t *)data)[i];
    default:
      return onnx_is_small(dtype) ? onnx_small_get(data, dtype, i) : NAN;
  }
}

static bool near(double got, double want, tolerance within) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got);
  if (isinf(want) || isinf(got)) return got == want;
  return fabs(got - want) <= within.atol + within.rtol * fabs(want);
}

static bool compare_is_float(kd_dtype dtype) {
  return dtype == KD_F32 || dtype == KD_F64 || dtype == KD_F16 ||
         dtype == KD_BF16;
}

static void where_text(keel_tensor *tensor, int64_t index, char *text,
                       size_t size) {
  int64_t at[16];
  uint32_t rank = keel_tensor_rank(tensor);
  const int64_t *dims = keel_tensor_dims(tensor);
  for (uint32_t i = rank; i-- > 0; index /= dims[i] ? dims[i] : 1)
    at[i] = dims[i] ? index % dims[i] : 0;
  size_t used = 0;
  text[0] = 0;
  for (uint32_t i = 0; i < rank && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "",
                             (long long)at[i]);
}

/* No tolerance is finer than the type. ONNX's data in f16 and bf16 were computed op by op, each
 * rounded (bf16 even truncated): off by two units in the last place. A sum that should be 0 is off
 * by a unit in the last place of its operands. */
static void coarsen(tolerance *within, const void *wanted, kd_dtype dtype,
                    int64_t count) {
  double rtol = dtype == KD_BF16 ? 0x1p-6 : dtype == KD_F16 ? 0x1p-9 : 0;
  double unit = dtype == KD_F32 ? 0x1p-23 : dtype == KD_F64 ? 0x1p-52 : 0;
  double largest = 0, part = unit > within->norm ? unit : within->norm;
  if (within->rtol <= 0) return;
  for (int64_t i = 0; part > 0 && i < count; i++) {
    double size = fabs(element_at(wanted, dtype, i));
    if (isfinite(size) && size > largest) largest = size;
  }
  if (within->rtol < rtol) within->rtol = rtol;
  if (within->atol < part * largest) within->atol = part * largest;
}

static bool same_bits(const void *a, const void *b, kd_dtype dtype, int64_t i) {
  size_t each = keel_dtype_size(dtype);
  return each ? !memcmp((const char *)a + (size_t)i * each,
                        (const char *)b + (size_t)i * each, each)
              : onnx_small_bits(a, dtype, i) == onnx_small_bits(b, dtype, i);
}

static bool data_agree(keel_tensor *got, keel_tensor *want, tolerance within,
                       char *text, size_t size) {
  kd_dtype dtype = keel_tensor_dtype(want);
  int64_t count = keel_tensor_elements(want);
  uint64_t bytes = keel_tensor_size(want);
  char *a = malloc(bytes + 1), *b = malloc(bytes + 1);
  bool agree = a && b && keel_tensor_read(got, a, bytes) == KD_OK &&
               keel_tensor_read(want, b, bytes) == KD_OK;
  if (!agree) snprintf(text, size, "%s", keel_message());
  bool exact = !compare_is_float(dtype);
  coarsen(&within, b, dtype, agree ? count : 0);
  for (int64_t i = 0; i < count && agree; i++) {
    double x = element_at(a, dtype, i), y = element_at(b, dtype, i);
    agree = exact ? same_bits(a, b, dtype, i) : near(x, y, within);
    if (!agree) {
      char where[128];
      where_text(want, i, where, sizeof where);
      snprintf(text, size, "[%s] is %.9g, expected %.9g", where, x, y);
    }
  }
  free(a);
  free(b);
  return agree;
}

static bool strings_agree(keel_tensor *got, keel_tensor *want, char *text,
                          size_t size) {
  for (int64_t i = 0; i < keel_tensor_elements(want); i++) {
    const char *a = "", *b = "";
    uint64_t a_size = 0, b_size = 0;
    bool read = keel_strings_at(got, i, &a, &a_size) == KD_OK &&
                keel_strings_at(want, i, &b, &b_size) == KD_OK;
    if (read && a_size == b_size && !memcmp(a, b, a_size)) continue;
    char where[128];
    where_text(want, i, where, sizeof where);
    if (read)
      snprintf(text, size, "[%s] is \"%.60s\", expected \"%.60s\"", where, a,
               b);
    else
      snprintf(text, size, "%s", keel_message());
    keel_make_printable(text, "");
    return false;
  }
  return true;
}

static bool items_agree(keel_tensor *got, keel_tensor *want, tolerance within,
                        char *text, size_t size) {
  int64_t count = keel_sequence_length(want);
  if (keel_sequence_length(got) != count) {
    snprintf(text, size, "%lld items, expected %lld",
             (long long)keel_sequence_length(got), (long long)count);
    return false;
  }
  bool agree = true;
  for (int64_t i = 0; i < count && agree; i++) {
    keel_tensor *a = NULL, *b = NULL;
    agree = keel_sequence_at(got, i, &a) == KD_OK &&
            keel_sequence_at(want, i, &b) == KD_OK &&
            values_agree(a, b, within, text, size);
    keel_tensor_release(a);
    keel_tensor_release(b);
  }
  return agree;
}

bool values_agree(keel_tensor *got, keel_tensor *want, tolerance within,
                  char *text, size_t size) {
  char a[200], b[200];
  text[0] = 0;
  if (keel_sequence_length(want) >= 0)
    return items_agree(got, want, within, text, size);
  keel_tensor_text(got, a, sizeof a);
  keel_tensor_text(want, b, sizeof b);
  if (strcmp(a, b) != 0) {
    snprintf(text, size, "%s, expected %s", a, b);
    return false;
  }
  if (keel_tensor_dtype(want) == KD_STRING)
    return strings_agree(got, want, text, size);
  return keel_optional_is_empty(want) ||
         data_agree(got, want, within, text, size);
}
