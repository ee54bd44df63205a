/* make.c - ops that make data, or tell of it: shapes. */
#include <kd/help.h>

#include "base/float.h"
#include "opsets/tables.h"

keel_status keel_shape_dynamic(keel_infer *infer) {
  (void)infer; /* the kernel sets the shapes */
  return KD_OK;
}

/* Plans make it when types are known; programs can't contain it. */
keel_status keel_shape_region(keel_infer *infer) {
  return keel_infer_fail(
      infer, KD_UNIMPLEMENTED,
      "it is a region that a device compiled in another process; use the "
      "program as it was before the pass \"regions\"");
}

keel_status keel_shape_eye_like(keel_infer *infer) {
  const keel_type *in = infer->in[0];
  int64_t to = keel_attr_int(infer->op, "dtype", in->dtype);
  if (in->rank != 2 || to <= 0 || to >= (int64_t)KD_DTYPE_COUNT)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs a matrix, and an element type as dtype");
  infer->dtypes[0] = (kd_dtype)to;
  return keel_shape_same(infer);
}

keel_status keel_shape_shape(keel_infer *infer) {
  int64_t rank = infer->in[0]->rank;
  int64_t start = keel_attr_int(infer->op, "start", 0);
  int64_t end = keel_attr_int(infer->op, "end", rank);
  start += start < 0 ? rank : 0;
  end += end < 0 ? rank : 0;
  start = start < 0 ? 0 : start > rank ? rank : start;
  end = end < 0 ? 0 : end > rank ? rank : end;
  int64_t count = end > start ? end - start : 0;
  return keel_infer_out(infer, 0, 1, &count);
}

keel_status keel_shape_size(keel_infer *infer) {
  return keel_infer_out(infer, 0, 0, NULL);
}

keel_status keel_shape_constant(keel_infer *infer) {
  const keel_opdef *op = infer->op;
  const keel_node_attr *attr = op->attr_count ? &op->attrs[0] : NULL;
  if (op->attr_count != 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "needs one attribute with the value");
  int64_t count = attr->value.count;
  switch (attr->value.kind) {
    case KD_ATTR_TENSOR: {
      const keel_type *type = attr->value.tensor->type;
      infer->dtypes[0] = type->dtype;
      return keel_infer_out(infer, 0, type->rank, type->dims);
    }
    case KD_ATTR_INT:
    case KD_ATTR_INTS:
      infer->dtypes[0] = KD_I64;
      break;
    case KD_ATTR_FLOAT:
    case KD_ATTR_FLOATS:
      infer->dtypes[0] = KD_F32;
      break;
    default:
      infer->dtypes[0] = KD_STRING;
  }
  bool list = attr->value.kind == KD_ATTR_INTS ||
              attr->value.kind == KD_ATTR_FLOATS ||
              attr->value.kind == KD_ATTR_STRINGS;
  return keel_infer_out(infer, 0, list ? 1 : 0, &count);
}

keel_status keel_shape_constant_of_shape(keel_infer *infer) {
  keel_dims dims = {0};
  int64_t count = keel_infer_ints(infer, 0, dims.dims, KD_MAX_RANK);
  if (count < 0) return KD_INVALID_ARGUMENT;
  const keel_node_attr *value = keel_attr_find(infer->op, "value");
  if (value && value->value.tensor->type->elements != 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "attribute \"value\" is not one element");
  infer->dtypes[0] = value ? value->value.tensor->type->dtype : KD_F32;
  dims.rank = (uint32_t)count;
  return keel_infer_dims(infer, 0, &dims);
}

static bool data_number_at(const keel_tensor *value, double *out_number) {
  kd_dtype dtype = value->type->dtype;
  uint64_t bits = 0;
  if (!(KD_TYPES(dtype) & KD_TYPES_INT))
    return keel_float_decode(dtype, value->data, out_number, &bits);
  uint32_t size = keel_dtype_size(dtype), unused = 64 - 8 * size;
  memcpy(&bits, value->data, size);
  *out_number = KD_TYPES(dtype) & KD_TYPES_SIGNED
                    ? (double)((int64_t)(bits << unused) >> unused)
                    : (double)bits;
  return true;
}

keel_status keel_shape_one_hot(keel_infer *infer) {
  const keel_type *indices = infer->in[0], *depth_type = infer->in[1];
  keel_tensor *value = infer->values ? infer->values[1] : NULL;
  infer->dtypes[0] = infer->in[2]->dtype;
  if (depth_type->elements != 1 || infer->in[2]->elements != 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "depth is one number, values are two");
  if (!value) {
    infer->unknown = true;
    return KD_OK;
  }
  double number = 0;
  if (!data_number_at(value, &number))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED, "depth can't be %s",
                           kd_dtype_name(depth_type->dtype));
  int64_t depth = number >= 0 && number < 1e12 ? (int64_t)number : -1;
  int64_t at = keel_attr_int(infer->op, "axis", -1);
  uint32_t axis = 0;
  KEEL_TRY(keel_infer_axis(infer, at, indices->rank + 1, &axis));
  if (indices->rank + 1 > KD_MAX_RANK || depth < 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "depth is %.17g; it must be 1 to 1e12, and indices "
                           "leave room for a dimension",
                           number);
  keel_dims dims = {.rank = indices->rank + 1};
  for (uint32_t i = 0, from = 0; i < dims.rank; i++)
    dims.dims[i] = i == axis ? depth : indices->dims[from++];
  return keel_infer_dims(infer, 0, &dims);
}

/* A number as it is: `whole` of the integer types, else `real`. */
typedef struct number {
  bool is_whole;
  int64_t whole;
  double real;
} number;

static bool range_number(const keel_tensor *value, number *out) {
  kd_dtype dtype = value->type->dtype;
  *out = (number){.is_whole = (KD_TYPES_SIGNED & KD_TYPES(dtype)) != 0};
  if (!data_number_at(value, &out->real)) return false;
  if (dtype == KD_I64)
    out->whole = *(const int64_t *)value->data; /* a double may be another */
  else if (out->is_whole)
    out->whole = (int64_t)out->real;
  return true;
}

static double as_real(const number *from) {
  return from->is_whole ? (double)from->whole : from->real;
}

#define RANGE_MOST 1e12

/* Numbers from one to another by steps, the last not among them; -1 where their count is
 * beyond reason. */
static int64_t range_length(const number *from, const number *to,
                            const number *step) {
  if (!from->is_whole) {
    double span = (to->real - from->real) / step->real;
    if (!(span < RANGE_MOST)) return -1;
    int64_t count = span > 0 ? (int64_t)span : 0;
    return count + ((double)count < span);
  }
  if (!step->whole) return -1;
  /* the distance of two int64s needs 65 bits */
  bool up = step->whole > 0;
  uint64_t by = up ? (uint64_t)step->whole : -(uint64_t)step->whole;
  if (up ? to->whole <= from->whole : to->whole >= from->whole) return 0;
  uint64_t span = up ? (uint64_t)to->whole - (uint64_t)from->whole
                     : (uint64_t)from->whole - (uint64_t)to->whole;
  uint64_t count = span / by + (span % by != 0);
  return (double)count < RANGE_MOST ? (int64_t)count : -1;
}

/* Range: max(ceil((limit - start) / delta), 0) elements (ONNX Range-27), of f16 and bf16
 * by numbers of a wider type. */
keel_status keel_shape_range(keel_infer *infer) {
  number numbers[3];
  int64_t stash = keel_attr_int(infer->op, "stash_type", KD_F32);
  bool narrow = infer->in[0]->dtype == KD_F16 || infer->in[0]->dtype == KD_BF16;
  if (narrow && stash != KD_F32 && stash != KD_F64)
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "stash_type is %lld; it can be f32 (1) or f64 (11)",
                           (long long)stash);
  for (uint32_t i = 0; i < 3; i++) {
    if (infer->in[i]->elements != 1)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "start, limit and delta are one number each");
    if (!infer->values || !infer->values[i]) {
      infer->unknown = true;
      return KD_OK;
    }
    if (!range_number(infer->values[i], &numbers[i]))
      return keel_infer_fail(infer, KD_UNIMPLEMENTED, "can't be of %s",
                             kd_dtype_name(infer->in[i]->dtype));
  }
  int64_t count = range_length(&numbers[0], &numbers[1], &numbers[2]);
  if (count < 0)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "from %g to %g by %g has no sensible length",
                           as_real(&numbers[0]), as_real(&numbers[1]),
                           as_real(&numbers[2]));
  return keel_infer_out(infer, 0, 1, &count);
}

/* ---- keel's own -------------------------------------------------------------- */

/* All keys have one shape. */
keel_status keel_shape_arg_sort(keel_infer *infer) {
  const keel_type *x = keel_infer_in(infer, 0);
  uint32_t axis = 0;
  if (!x) return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "needs a key");
  KEEL_TRY(keel_infer_axis(infer, keel_attr_int(infer->op, "axis", -1), x->rank,
                           &axis));
  for (uint32_t i = 0; i < infer->input_count; i++) {
    const keel_type *key = infer->in[i];
    if (!key || key->rank != x->rank ||
        (x->rank && memcmp(key->dims, x->dims, x->rank * sizeof *x->dims) != 0))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "key %u has another shape than key 0",
                             (unsigned)i);
    if (key->dtype == KD_C64 || key->dtype == KD_C128)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "key %u: complex numbers have no order",
                             (unsigned)i);
    if (!(KD_TYPES_PLAIN & KD_TYPES(key->dtype))) /* a mixed input's are any */
      return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                             "key %u is %s, which is not sorted", (unsigned)i,
                             kd_dtype_name(key->dtype));
  }
  return keel_infer_out(infer, 0, x->rank, x->dims);
}

/* Input `index` has a number for each dimension. */
static keel_status check_starts(const keel_infer *infer, uint32_t index,
                                uint32_t rank) {
  const keel_type *starts = infer->in[index];
  return starts->rank == 1 && starts->dims[0] == (int64_t)rank
             ? KD_OK
             : keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                               "starts must have %u numbers, one for each"
                               " dimension",
                               (unsigned)rank);
}

static keel_status check_part(const keel_infer *infer, const char *what,
                              uint32_t rank, const int64_t *sizes) {
  const keel_type *x = infer->in[0];
  if (rank != x->rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s has %u dimensions, and X %u", what,
                           (unsigned)rank, (unsigned)x->rank);
  for (uint32_t i = 0; i < rank; i++)
    if (sizes[i] < 0 || sizes[i] > x->dims[i])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "%s is larger than X, or less than nothing, in"
                             " dimension %u",
                             what, (unsigned)i);
  return KD_OK;
}

keel_status keel_shape_dynamic_slice(keel_infer *infer) {
  const int64_t *sizes = NULL;
  int64_t count = keel_attr_ints(infer->op, "sizes", &sizes);
  KEEL_TRY(check_part(infer, "sizes", (uint32_t)count, sizes));
  KEEL_TRY(check_starts(infer, 1, (uint32_t)count));
  return keel_infer_out(infer, 0, (uint32_t)count, sizes);
}

keel_status keel_shape_dynamic_update(keel_infer *infer) {
  const keel_type *x = infer->in[0], *update = infer->in[1];
  KEEL_TRY(check_part(infer, "update", update->rank, update->dims));
  KEEL_TRY(check_starts(infer, 2, x->rank));
  return keel_infer_out(infer, 0, x->rank, x->dims);
}

/* Known after the run. */
keel_status keel_shape_by_content(keel_infer *infer) {
  infer->unknown = true;
  return KD_OK;
}

/* ---- rows -------------------------------------------------------------------- */

static const keel_op_rule rules[] = {
    {"Shape", .traits = KEEL_OP_STRINGS},
    {"Size", .traits = KEEL_OP_STRINGS},
    {"OneHot", .traits = KEEL_OP_STRINGS},
};

const keel_op_table keel_ops_make = {KEEL_TABLE_RULES(rules)};
