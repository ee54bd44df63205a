/* emit.c - values of the builder that is being filled. */
#include <math.h>

#include "base/float.h"
#include "frontends/stablehlo/lower.h"
#include "program/builder.h"

keel_value hlo_node(hlo *h, const char *op, const keel_attr *attrs,
                    uint32_t attr_count, const keel_value *inputs,
                    uint32_t input_count) {
  if (++h->made > h->most) {
    keel_builder_sticky(
        h->at, keel_fail(KD_UNIMPLEMENTED,
                         "the program needs more than %llu ops, too many for a"
                         " file of its size",
                         (unsigned long long)h->most));
    return KEEL_ABSENT;
  }
  return keel_builder_op(h->at, op, attrs, attr_count, inputs, input_count);
}

const keel_type *hlo_known(const hlo *h, keel_value value) {
  const keel_function *function = h->at->function;
  return value < function->value_count ? function->values[value].type : NULL;
}

/* ---- constants -------------------------------------------------------------------- */

keel_value hlo_constant(hlo *h, kd_dtype dtype, uint32_t rank,
                        const int64_t *dims, const void *data) {
  keel_tensor *tensor = NULL;
  keel_status status =
      keel_tensor_create(h->context, dtype, rank, dims, data, &tensor);
  if (status != KD_OK) {
    keel_builder_sticky(h->at, status);
    return KEEL_ABSENT;
  }
  keel_value value = keel_builder_constant(h->at, tensor);
  keel_tensor_release(tensor);
  return value;
}

keel_value hlo_i64s(hlo *h, uint32_t count, const int64_t *numbers) {
  const int64_t dims[] = {count};
  return hlo_constant(h, KD_I64, 1, dims, numbers);
}

keel_value hlo_i64(hlo *h, int64_t number) {
  return hlo_constant(h, KD_I64, 0, NULL, &number);
}

keel_value hlo_number(hlo *h, kd_dtype dtype, double number) {
  uint8_t element[8] = {0};
  int64_t integer = 0;
  if (!keel_float_encode(dtype, number, element)) {
    integer = (int64_t)number; /* the low bytes are those of any width */
    memcpy(element, &integer, sizeof integer);
  }
  return hlo_constant(h, dtype, 0, NULL, element);
}

keel_value hlo_least(hlo *h, kd_dtype dtype, bool most) {
  if (hlo_is_float(dtype))
    return hlo_number(h, dtype, most ? (double)INFINITY : -(double)INFINITY);
  uint64_t bits = dtype == KD_BOOL ? 1 : 8 * (uint64_t)keel_dtype_size(dtype);
  bool has_sign = hlo_is_signed(dtype);
  uint64_t ones = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  uint64_t sign = has_sign ? UINT64_C(1) << (bits - 1) : 0;
  uint64_t value = most ? ones ^ sign : sign;
  return hlo_constant(h, dtype, 0, NULL, &value);
}

keel_value hlo_range(hlo *h, int64_t count) {
  return HLO(h, "Range", hlo_i64(h, 0), hlo_i64(h, count), hlo_i64(h, 1));
}

/* ---- shapes ------------------------------------------------------------------------ */

keel_value hlo_cast(hlo *h, keel_value value, kd_dtype dtype) {
  const keel_type *type = hlo_known(h, value);
  if (type && type->dtype == dtype) return value;
  const keel_attr to = KEEL_INT("to", dtype);
  return hlo_node(h, "Cast", &to, 1, &value, 1);
}

keel_value hlo_bits_as(hlo *h, keel_value value, kd_dtype dtype) {
  const keel_type *type = hlo_known(h, value);
  if (type && type->dtype == dtype) return value;
  const keel_attr to = KEEL_INT("to", dtype);
  return hlo_node(h, "BitCast", &to, 1, &value, 1);
}

keel_value hlo_reshape(hlo *h, keel_value value, uint32_t rank,
                       const int64_t *dims) {
  const keel_type *type = hlo_known(h, value);
  const keel_attr zero = KEEL_INT("allowzero", 1);
  if (type && type->rank == rank &&
      (!rank || !memcmp(type->dims, dims, rank * sizeof *dims)))
    return value;
  const keel_value in[] = {value, hlo_i64s(h, rank, dims)};
  return hlo_node(h, "Reshape", &zero, 1, in, 2);
}

keel_value hlo_transpose(hlo *h, keel_value value, uint32_t rank,
                         const int64_t *permutation) {
  bool same = true;
  for (uint32_t i = 0; i < rank; i++)
    same = same && permutation[i] == i;
  if (same) return value;
  const keel_attr perm = KEEL_INTS("perm", rank, permutation);
  return hlo_node(h, "Transpose", &perm, 1, &value, 1);
}

keel_value hlo_expand(hlo *h, keel_value value, uint32_t rank,
                      const int64_t *dims) {
  const keel_type *type = hlo_known(h, value);
  if (type && type->rank == rank &&
      (!rank || !memcmp(type->dims, dims, rank * sizeof *dims)))
    return value;
  return HLO(h, "Expand", value, hlo_i64s(h, rank, dims));
}

keel_value hlo_part(hlo *h, keel_value value, int64_t axis, int64_t first,
                    int64_t limit, int64_t step) {
  const keel_type *type = hlo_known(h, value);
  if (type && axis < type->rank && !first && step == 1 &&
      type->dims[axis] == limit)
    return value;
  return HLO(h, "Slice", value, hlo_i64s(h, 1, &first), hlo_i64s(h, 1, &limit),
             hlo_i64s(h, 1, &axis), hlo_i64s(h, 1, &step));
}

keel_value hlo_reverse(hlo *h, keel_value value, int64_t axis) {
  static const int64_t last = -1, before = INT64_MIN, step = -1;
  return HLO(h, "Slice", value, hlo_i64s(h, 1, &last), hlo_i64s(h, 1, &before),
             hlo_i64s(h, 1, &axis), hlo_i64s(h, 1, &step));
}

keel_value hlo_concat(hlo *h, int64_t axis, const keel_value *values,
                      uint32_t count) {
  const keel_attr attr = KEEL_INT("axis", axis);
  return count == 1 ? values[0]
                    : hlo_node(h, "Concat", &attr, 1, values, count);
}

keel_value hlo_gather(hlo *h, keel_value data, keel_value indices,
                      int64_t axis) {
  const keel_attr attr = KEEL_INT("axis", axis);
  const keel_value in[] = {data, indices};
  return hlo_node(h, "Gather", &attr, 1, in, 2);
}

/* ---- padding ------------------------------------------------------------------------- */

/* n elements become n * (interior + 1) - interior. */
static keel_value emit_spread(hlo *h, keel_value value, keel_value padding,
                              uint32_t rank, int64_t *dims, uint32_t axis,
                              int64_t interior) {
  int64_t wide[KD_MAX_RANK + 1], pads[2 * (KD_MAX_RANK + 1)] = {0};
  int64_t count = dims[axis];
  if (count <= 1 || !interior) return value;
  if (rank == KD_MAX_RANK) {
    keel_builder_sticky(
        h->at,
        keel_fail(KD_UNIMPLEMENTED,
                  "interior padding of rank %u is not supported", KD_MAX_RANK));
    return KEEL_ABSENT;
  }
  memcpy(wide, dims, (axis + 1) * sizeof *dims);
  wide[axis + 1] = 1;
  memcpy(wide + axis + 2, dims + axis + 1, (rank - axis - 1) * sizeof *dims);
  value = hlo_reshape(h, value, rank + 1, wide);
  pads[rank + 1 + axis + 1] = interior;
  value = HLO(h, "Pad", value, hlo_i64s(h, 2 * (rank + 1), pads), padding);
  if (!keel_mul_i64(count, interior + 1, &dims[axis])) {
    keel_builder_sticky(
        h->at, keel_fail(KD_DATA_LOSS, "padding makes more elements than fit"));
    return KEEL_ABSENT;
  }
  value = hlo_reshape(h, value, rank, dims);
  value = hlo_part(h, value, axis, 0, dims[axis] - interior, 1);
  dims[axis] -= interior;
  return value;
}

/* Cuts off what negative padding says. */
static keel_value crop(hlo *h, keel_value value, uint32_t rank, int64_t *dims,
                       const int64_t *low, const int64_t *high) {
  for (uint32_t i = 0; i < rank; i++) {
    int64_t first = low[i] < 0 ? -low[i] : 0;
    int64_t limit = dims[i] + (high[i] < 0 ? high[i] : 0);
    if (first > dims[i]) first = dims[i];
    if (limit < first) limit = first;
    value = hlo_part(h, value, i, first, limit, 1);
    dims[i] = limit - first;
  }
  return value;
}

/* What is padded and cut off again at the other end is no element of the value, so a low
 * side that is cut comes after a high side that is added, and the other way round. */
keel_value hlo_pad(hlo *h, keel_value value, keel_value padding, uint32_t rank,
                   int64_t *dims, const int64_t *low, const int64_t *high,
                   const int64_t *interior) {
  int64_t pads[2 * KD_MAX_RANK];
  bool more = false;
  for (uint32_t i = 0; interior && i < rank; i++)
    value = emit_spread(h, value, padding, rank, dims, i, interior[i]);
  for (uint32_t i = 0; i < rank; i++) {
    pads[i] = low[i] > 0 ? low[i] : 0;
    pads[rank + i] = high[i] > 0 ? high[i] : 0;
    more = more || pads[i] || pads[rank + i];
    dims[i] += pads[i] + pads[rank + i];
  }
  if (more) value = HLO(h, "Pad", value, hlo_i64s(h, 2 * rank, pads), padding);
  return crop(h, value, rank, dims, low, high);
}

/* ---- attributes with their bounds -------------------------------------------------------- */

keel_status hlo_ints(const hlo *h, const hlo_op *op, const char *name,
                     uint32_t count, int64_t *numbers) {
  uint32_t have = 0;
  KEEL_TRY(vhlo_ints(&h->v, op->raw, name, count, &have, numbers));
  if (have == count) return KD_OK;
  return hlo_wrong(h, op, "attribute \"%s\" has %u numbers, and %u are needed",
                   name, (unsigned)have, (unsigned)count);
}

keel_status hlo_axes(const hlo *h, const hlo_op *op, const char *name,
                     uint32_t rank, uint32_t *out_count, int64_t *axes) {
  bool seen[KD_MAX_RANK] = {0};
  KEEL_TRY(vhlo_ints(&h->v, op->raw, name, KD_MAX_RANK, out_count, axes));
  for (uint32_t i = 0; i < *out_count; i++) {
    if (axes[i] < 0 || axes[i] >= rank || seen[axes[i]])
      return hlo_wrong(h, op,
                       "attribute \"%s\" names dimension %lld of %u twice or"
                       " where there is none",
                       name, (long long)axes[i], (unsigned)rank);
    seen[axes[i]] = true;
  }
  return KD_OK;
}

keel_status hlo_axis(const hlo *h, const hlo_op *op, const char *name,
                     uint32_t rank, int64_t *out_axis) {
  KEEL_TRY(vhlo_int(&h->v, op->raw, name, out_axis));
  if (*out_axis >= 0 && *out_axis < rank) return KD_OK;
  return hlo_wrong(h, op, "attribute \"%s\" is dimension %lld of %u", name,
                   (long long)*out_axis, (unsigned)rank);
}

keel_status hlo_arity(const hlo *h, const hlo_op *op, uint32_t inputs,
                      uint32_t outputs) {
  if (op->input_count != inputs || op->output_count != outputs)
    return hlo_wrong(h, op, "%u inputs and %u results (%u and %u are needed)",
                     (unsigned)op->input_count, (unsigned)op->output_count,
                     (unsigned)inputs, (unsigned)outputs);
  return KD_OK;
}
