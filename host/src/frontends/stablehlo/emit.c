/* emit.c - values of the builder that is being filled. */
#include <math.h>

#include "base/float.h"
#include "device/device.h"
#include "frontends/stablehlo/lower.h"
#include "program/builder.h"

keel_emit *hlo_at(hlo *h) {
  keel_emit *e = &h->emit;
  keel_builder_sticky(h->at, e->status);
  e->function = h->at->function;
  e->node = (keel_node){.name = h->at->node_name ? h->at->node_name : "",
                        .device = keel_device_scope(h->context)};
  e->status = h->at->status;
  return e;
}

/* Counts nodes, which may be far more than the file has ops. */
static void emit_count(hlo *h, uint64_t more) {
  h->made += more;
  if (h->made > h->most)
    keel_builder_sticky(
        h->at, keel_fail(KD_UNIMPLEMENTED,
                         "the program needs more than %llu ops, too many for a"
                         " file of its size",
                         (unsigned long long)h->most));
}

keel_value hlo_node(hlo *h, const char *op, const keel_attr *attrs,
                    uint32_t attr_count, const keel_value *inputs,
                    uint32_t input_count) {
  emit_count(h, 1);
  return keel_emit_op(hlo_at(h), op, attrs, attr_count, inputs, input_count);
}

static uint32_t emit_read(void *context, char sigil, uint32_t index) {
  const hlo_op *op = context;
  uint32_t count = sigil == '%' ? op->output_count : op->input_count;
  return index >= count ? KEEL_ABSENT
         : sigil == '$' ? op->in[index]
         : sigil == '^' ? op->in_imag[index]
                        : op->out[index];
}

static bool emit_wants(void *context, char sigil, uint32_t index) {
  const hlo_op *op = context;
  return sigil == '%' && index < op->output_count;
}

static void emit_give(void *context, char sigil, uint32_t index, uint32_t value,
                      bool narrow) {
  const hlo_op *op = context;
  (void)sigil;
  (void)narrow;
  op->out[index] = value;
}

keel_value hlo_text(hlo *h, const hlo_op *op, const char *text, ...) {
  static const hlo_op none = {NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL};
  keel_text_of of = {.all = hlo_at(h),
                     .context = (void *)(uintptr_t)(op ? op : &none),
                     .read = emit_read,
                     .wants = emit_wants,
                     .give = emit_give};
  uint32_t before = h->at->function->node_count;
  va_list arguments;
  va_start(arguments, text);
  keel_value value = keel_text_write(&of, text, arguments);
  va_end(arguments);
  emit_count(h, h->at->function->node_count - before);
  return value;
}

const keel_type *hlo_known(const hlo *h, keel_value value) {
  const keel_function *function = h->at->function;
  return value < function->value_count ? function->values[value].type : NULL;
}

/* ---- constants -------------------------------------------------------------------- */

keel_value hlo_number(hlo *h, kd_dtype dtype, double number) {
  uint8_t element[8] = {0};
  int64_t integer = 0;
  if (!keel_float_encode(dtype, number, element)) {
    integer = (int64_t)number; /* the low bytes are those of any width */
    memcpy(element, &integer, sizeof integer);
  }
  return keel_emit_constant(hlo_at(h), dtype, 0, NULL, element);
}

keel_value hlo_least(hlo *h, kd_dtype dtype, bool most) {
  if (hlo_is_float(dtype))
    return hlo_number(h, dtype, most ? (double)INFINITY : -(double)INFINITY);
  uint64_t bits = dtype == KD_BOOL ? 1 : 8 * (uint64_t)keel_dtype_size(dtype);
  bool has_sign = hlo_is_signed(dtype);
  uint64_t ones = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
  uint64_t sign = has_sign ? UINT64_C(1) << (bits - 1) : 0;
  uint64_t value = most ? ones ^ sign : sign;
  return keel_emit_constant(hlo_at(h), dtype, 0, NULL, &value);
}

keel_value hlo_range(hlo *h, int64_t count) {
  return HLO(h, "Range", hlo_i64(h, 0), hlo_i64(h, count), hlo_i64(h, 1));
}

/* ---- shapes ------------------------------------------------------------------------ */

keel_value hlo_bits_as(hlo *h, keel_value value, kd_dtype dtype) {
  const keel_type *type = hlo_known(h, value);
  return type && type->dtype == dtype
             ? value
             : hlo_text(h, NULL, "BitCast[to=%i](%v)", (int64_t)dtype, value);
}

static bool is_of_shape(const hlo *h, keel_value value, uint32_t rank,
                        const int64_t *dims) {
  const keel_type *type = hlo_known(h, value);
  return type && type->rank == rank &&
         (!rank || !memcmp(type->dims, dims, rank * sizeof *dims));
}

keel_value hlo_reshape(hlo *h, keel_value value, uint32_t rank,
                       const int64_t *dims) {
  return is_of_shape(h, value, rank, dims)
             ? value
             : hlo_text(h, NULL, "Reshape[allowzero=1](%v, %l)", value, dims,
                        (int64_t)rank);
}

keel_value hlo_expand(hlo *h, keel_value value, uint32_t rank,
                      const int64_t *dims) {
  return is_of_shape(h, value, rank, dims)
             ? value
             : hlo_text(h, NULL, "Expand(%v, %l)", value, dims, (int64_t)rank);
}

keel_value hlo_part(hlo *h, keel_value value, int64_t axis, int64_t first,
                    int64_t limit, int64_t step) {
  const keel_type *type = hlo_known(h, value);
  if (type && axis < type->rank && !first && step == 1 &&
      type->dims[axis] == limit)
    return value;
  return hlo_text(h, NULL, "Slice(%v, {%i}, {%i}, {%i}, {%i})", value, first,
                  limit, axis, step);
}

keel_value hlo_reverse(hlo *h, keel_value value, int64_t axis) {
  return hlo_text(h, NULL, "Slice(%v, {-1}, {%i}, {%i}, {-1})", value,
                  INT64_MIN, axis);
}

keel_value hlo_gather(hlo *h, keel_value data, keel_value indices,
                      int64_t axis) {
  return hlo_text(h, NULL, "Gather[axis=%i](%v, %v)", axis, data, indices);
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
  value = HLO(h, "Pad", value, keel_emit_ints(hlo_at(h), pads, 2 * (rank + 1)),
              padding);
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

/* Cuts by negative padding. */
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

/* Padding that is cut off again at the other end is not an element of the value, so a low side that
 * is cut comes after a high side that is added, and the other way round. */
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
  if (more)
    value = HLO(h, "Pad", value, keel_emit_ints(hlo_at(h), pads, 2 * rank),
                padding);
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
