/* infer.c - checks arguments against the schema and runs the shape function. */
#include <kd/help.h>

#include "defs/small.h"
#include "ops/dims.h"

keel_status keel_infer_fail(const keel_infer *infer, keel_status status,
                            const char *format, ...) {
  char text[1024], type[160];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  keel_text call = {0};
  const keel_schema *schema = infer->op->schema;
  for (uint32_t i = 0; i < infer->input_count && i < 12; i++) {
    const keel_param *param = keel_schema_input(schema, i);
    keel_text_add(&call, "%s%s %s", i ? ", " : "", param ? param->name : "?",
                  keel_type_text(infer->in[i], type, sizeof type));
  }
  const char *where = infer->where ? infer->where : "";
  keel_fail(status, "%s%s%s%s(%s): %s", schema->name, *where ? " \"" : "",
            where, *where ? "\"" : "", keel_text_get(&call), text);
  keel_text_free(&call);
  return status;
}

keel_status keel_infer_out(keel_infer *infer, uint32_t index, uint32_t rank,
                           const int64_t *dims) {
  if (index >= infer->output_count) return KD_OK;
  kd_dtype dtype =
      infer->dtypes[index < KEEL_COUNT_OF(infer->dtypes) ? index : 0];
  if (dtype == KD_NONE)
    return keel_infer_fail(infer, KD_INTERNAL, "output %u has no element type",
                           (unsigned)index);
  for (uint32_t i = 0; i < rank && rank <= KD_MAX_RANK; i++)
    if (dims[i] < 0)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "output %u would have %lld elements in dimension"
                             " %u",
                             (unsigned)index, (long long)dims[i], (unsigned)i);
  keel_status status = keel_type_of(dtype, rank, dims, &infer->out[index]);
  if (status == KD_OK) return KD_OK;
  char why[300];
  snprintf(why, sizeof why, "%s", keel_message());
  return keel_infer_fail(infer, status, "output %u: %s", (unsigned)index, why);
}

int64_t keel_infer_ints(keel_infer *infer, uint32_t index, int64_t *out_values,
                        uint32_t capacity) {
  const keel_type *type = keel_infer_in(infer, index);
  if (!type) return 0;
  const keel_param *param = keel_schema_input(infer->op->schema, index);
  if (type->rank > 1 || (type->dtype != KD_I64 && type->dtype != KD_I32) ||
      type->elements > (int64_t)capacity) {
    keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                    "%s must be a scalar or list of at most %u integers",
                    param ? param->name : "an input", (unsigned)capacity);
    return -2;
  }
  keel_tensor *value = infer->values ? infer->values[index] : NULL;
  if (!value) {
    infer->unknown = true;
    return -1;
  }
  for (int64_t i = 0; i < type->elements; i++)
    out_values[i] = type->dtype == KD_I64 ? ((const int64_t *)value->data)[i]
                                          : ((const int32_t *)value->data)[i];
  return type->elements;
}

keel_status keel_infer_within(const keel_infer *infer, uint32_t index,
                              int64_t count, int64_t least, int64_t most) {
  const keel_type *type = keel_infer_in(infer, index);
  const keel_tensor *value =
      type && infer->values ? infer->values[index] : NULL;
  for (int64_t i = 0; value && i < count && i < type->elements; i++) {
    int64_t at = type->dtype == KD_I64 ? ((const int64_t *)value->data)[i]
                                       : ((const int32_t *)value->data)[i];
    if (at < least || at > most)
      return keel_infer_fail(
          infer, KD_INVALID_ARGUMENT, "%s[%lld] is %lld, outside of %lld..%lld",
          keel_schema_input(infer->op->schema, index)->name, (long long)i,
          (long long)at, (long long)least, (long long)most);
  }
  return KD_OK;
}

keel_status keel_infer_axis(const keel_infer *infer, int64_t axis,
                            uint32_t rank, uint32_t *out_axis) {
  if (axis < -(int64_t)rank || axis >= (int64_t)rank)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "axis %lld is not in a tensor of rank %u",
                           (long long)axis, (unsigned)rank);
  *out_axis = (uint32_t)(axis < 0 ? axis + rank : axis);
  return KD_OK;
}

keel_status keel_infer_new_axis(const keel_infer *infer, int64_t axis,
                                uint32_t rank, uint32_t *seen,
                                uint32_t *out_axis) {
  KEEL_TRY(keel_infer_axis(infer, axis, rank, out_axis));
  if (*seen >> *out_axis & 1)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "axis %u is named twice; name each axis once",
                           (unsigned)*out_axis);
  *seen |= UINT32_C(1) << *out_axis;
  return KD_OK;
}

keel_status keel_infer_grow(const keel_infer *infer, int64_t *size,
                            int64_t by) {
  if (keel_mul_i64(*size, by, size) && *size < INT64_MAX / 4) return KD_OK;
  return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                         "a dimension of the result would be larger than 2^61");
}

bool keel_dims_broadcast(keel_dims *dims, uint32_t with_rank,
                         const int64_t *with) {
  uint32_t rank = dims->rank > with_rank ? dims->rank : with_rank;
  keel_dims result = {.rank = rank};
  for (uint32_t i = 0; i < rank; i++) {
    uint32_t back = rank - i; /* counted from the last dimension */
    int64_t a = back <= dims->rank ? dims->dims[dims->rank - back] : 1;
    int64_t b = back <= with_rank ? with[with_rank - back] : 1;
    if (a != b && a != 1 && b != 1) return false;
    result.dims[i] = a == 1 ? b : a;
  }
  *dims = result;
  return true;
}

/* ---- the schema's rules --------------------------------------------------- */

keel_status keel_infer_counts(const keel_infer *infer) {
  const keel_schema *schema = infer->op->schema;
  bool any =
      schema->input_count && schema->inputs[schema->input_count - 1].variadic;
  if (infer->input_count < schema->least_inputs ||
      (infer->input_count > schema->input_count && !any))
    return keel_infer_fail(
        infer, KD_INVALID_ARGUMENT, "takes %u%s inputs, not %u",
        (unsigned)schema->least_inputs,
        any                                          ? " or more"
        : schema->input_count > schema->least_inputs ? " and optional"
                                                     : "",
        (unsigned)infer->input_count);
  if (!infer->output_count)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "is called without outputs");
  if (!keel_schema_output(schema, infer->output_count - 1))
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "has no output %u",
                           (unsigned)infer->output_count - 1);
  return KD_OK;
}

bool keel_dtype_exists(kd_dtype dtype) {
  uint64_t there = KD_TYPES_PLAIN | KD_TYPES(KD_C64) | KD_TYPES(KD_C128) |
                   KD_TYPES(KD_STRING) | ONNX_SMALL;
  return dtype < KD_DTYPE_COUNT && (there & KD_TYPES(dtype));
}

static keel_status refuse_type(const keel_infer *infer, const char *name,
                               kd_dtype dtype, uint64_t types) {
  if (!keel_dtype_exists(dtype))
    return keel_infer_fail(infer, KD_UNIMPLEMENTED,
                           "%s is %s, a type that Keel does not have yet", name,
                           kd_dtype_name(dtype));
  keel_text there = {0};
  for (kd_dtype i = 1; i < KD_DTYPE_COUNT; i++)
    if (types & KD_TYPES(i))
      keel_text_add(&there, "%s%s", there.size ? ", " : "", kd_dtype_name(i));
  keel_infer_fail(infer, KD_INVALID_ARGUMENT, "%s can't be %s; it is one of %s",
                  name, kd_dtype_name(dtype), keel_text_get(&there));
  keel_text_free(&there);
  return KD_INVALID_ARGUMENT;
}

bool keel_schema_takes(const keel_schema *schema, const keel_param *param,
                       kd_dtype dtype) {
  if (!param->types || (param->types & KD_TYPES(dtype))) return true;
  return dtype == KD_STRING && (schema->traits & KEEL_OP_STRINGS) &&
         (param->types & KD_TYPES_PLAIN) == KD_TYPES_PLAIN;
}

static keel_status bind_type(const keel_infer *infer, uint32_t index,
                             kd_dtype *bound) {
  const keel_param *param = keel_schema_input(infer->op->schema, index);
  const keel_type *type = infer->in[index];
  if (!type) {
    if (!param->optional && !param->mixed &&
        !keel_schema_takes_resource(infer->op->schema, index))
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT, "%s is missing",
                             param->name);
    return KD_OK;
  }
  if (!keel_schema_takes(infer->op->schema, param, type->dtype))
    return refuse_type(infer, param->name, type->dtype, param->types);
  if (param->variable < 0 || param->mixed) return KD_OK;
  kd_dtype *variable = &bound[param->variable];
  if (*variable != KD_NONE && *variable != type->dtype)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s is %s and must be %s, like the inputs before it;"
                           " Cast one of them",
                           param->name, kd_dtype_name(type->dtype),
                           kd_dtype_name(*variable));
  *variable = type->dtype;
  return KD_OK;
}

keel_status keel_infer_types(keel_infer *infer) {
  const keel_schema *schema = infer->op->schema;
  kd_dtype bound[8] = {0};
  KEEL_TRY(keel_infer_counts(infer));
  for (uint32_t i = 0; i < infer->input_count; i++)
    KEEL_TRY(bind_type(infer, i, bound));
  for (uint32_t i = 0; i < KEEL_COUNT_OF(infer->dtypes); i++) {
    const keel_param *param = keel_schema_output(schema, i);
    infer->dtypes[i] = !param                 ? KD_NONE
                       : param->variable >= 0 ? bound[param->variable]
                                              : keel_types_only(param->types);
  }
  infer->unknown = false;
  keel_status status = schema->infer ? schema->infer(infer) : KD_OK;
  /* a missing value is not a failure: the answer comes later */
  return infer->unknown ? KD_OK : status;
}
