/* runtime.c - views of data, and facts about it. */
#include "ops/runtime.h"
#include "device/context.h"
#include "memory/access.h"

#include <kd/help.h>

#include "memory/copy.h"
#include "memory/transfer.h"
#include "values/strings.h"

keel_status keel_call_fail(const keel_host_call *call, keel_status status,
                           const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  const char *where = call->where;
  return keel_fail(status, "%s%s%s%s: %s", call->op->schema->name,
                   *where ? " \"" : "", where, *where ? "\"" : "", text);
}

keel_status keel_call_int(const keel_host_call *call, uint32_t index,
                          int64_t fallback, int64_t *out_value) {
  *out_value = fallback;
  if (index >= call->input_count || !call->inputs[index]) return KD_OK;
  keel_tensor *here = NULL;
  KEEL_TRY(keel_tensor_to_host(call->inputs[index], &here));
  keel_status status = KD_OK;
  if (here->type->elements != 1 ||
      (here->type->dtype != KD_I64 && here->type->dtype != KD_I32))
    status = keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "input %u must be one integer", (unsigned)index);
  else
    *out_value = here->type->dtype == KD_I64 ? *(const int64_t *)here->data
                                             : *(const int32_t *)here->data;
  keel_tensor_release(here);
  return status;
}

keel_status keel_run_identity(keel_host_call *call) {
  if (call->input_count != 1 || !call->inputs[0])
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "takes one input");
  call->outputs[0] = keel_tensor_retain(call->inputs[0]);
  return KD_OK;
}

keel_status keel_run_view(keel_host_call *call) {
  if (!call->types[0])
    return keel_call_fail(call, KD_INTERNAL, "the shape is not known");
  keel_tensor *plain = NULL;
  KEEL_TRY(keel_copy_rows(call->inputs[0], &plain));
  keel_status status =
      keel_tensor_view(plain, call->types[0], &call->outputs[0]);
  keel_tensor_release(plain);
  return status;
}

/* Where the reader, a kernel of the scope's device, finds it: no copy of a part could have
 * the part's strides. */
keel_status keel_run_part(keel_host_call *call) {
  if (!call->part)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "it occurs in plans only; a program uses Slice, "
                          "Split, Transpose, Expand and Gather");
  const int64_t *strides = NULL;
  keel_attr_ints(call->op, "strides", &strides);
  keel_tensor *plain = NULL, *there = NULL;
  KEEL_TRY(keel_copy_rows(call->inputs[0], &plain));
  /* a part is of data that has arrived, not of a pending copy */
  keel_status status = keel_transfer_reaches(plain, call->scope)
                           ? (there = keel_tensor_retain(plain), KD_OK)
                       : keel_device_addressable(call->scope)
                           ? keel_copy_to(plain, call->scope, &there)
                           : keel_transfer_begin(plain, call->scope, &there);
  keel_tensor_release(plain);
  if (status != KD_OK) return status;
  status = keel_tensor_part(there, call->part,
                            (uint64_t)keel_attr_int(call->op, "offset", 0) *
                                kd_dtype_size(call->part->dtype),
                            strides, &call->outputs[0]);
  keel_tensor_release(there);
  return status;
}

/* keel::Copy: to the call site's device or, with `host`, from it. */
keel_status keel_run_copy(keel_host_call *call) {
  if (call->input_count != 1 || !call->inputs[0])
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "takes one input");
  bool to_host = keel_attr_int(call->op, "host", 0) != 0;
  keel_device *device = to_host ? NULL : call->scope;
  char text[200];
  keel_status status =
      keel_transfer_begin(call->inputs[0], device, &call->outputs[0]);
  if (status == KD_OK) return KD_OK;
  keel_tensor_text(call->inputs[0], text, sizeof text);
  return keel_while(status, "while \"%s\", %s, was copied to %s", call->where,
                    text, device ? device->name : "the host");
}

/* A tensor in host memory, typed as output 0. */
static keel_status host_output(keel_host_call *call, uint32_t index) {
  return keel_tensor_on(&call->context->host, call->types[index],
                        &call->outputs[index]);
}

keel_status keel_run_shape(keel_host_call *call) {
  const keel_type *type = call->inputs[0]->type;
  int64_t rank = type->rank;
  int64_t start = keel_attr_int(call->op, "start", 0);
  start += start < 0 ? rank : 0;
  start = start < 0 ? 0 : start > rank ? rank : start;
  KEEL_TRY(host_output(call, 0));
  if (call->types[0]->bytes)
    memcpy(call->outputs[0]->data, type->dims + start, call->types[0]->bytes);
  return KD_OK;
}

keel_status keel_run_size(keel_host_call *call) {
  KEEL_TRY(host_output(call, 0));
  memcpy(call->outputs[0]->data, &call->inputs[0]->type->elements,
         sizeof(int64_t));
  return KD_OK;
}

/* A constant that is a string, or a list of them. */
static keel_status string_constant(keel_host_call *call,
                                   const keel_attr *value) {
  const keel_type *type = call->types[0];
  keel_piece *pieces = keel_pieces_new(type->elements);
  if (!pieces) return KD_OUT_OF_MEMORY;
  for (int64_t i = 0; i < type->elements; i++) {
    const char *at =
        value->kind == KD_ATTR_STRING ? value->s : value->strings[i];
    pieces[i] = (keel_piece){at, strlen(at)};
  }
  keel_status status =
      keel_strings_tensor(call->context, type, pieces, &call->outputs[0]);
  free(pieces);
  return status;
}

keel_status keel_run_constant(keel_host_call *call) {
  const keel_attr *value = &call->op->attrs[0].value;
  if (value->kind == KD_ATTR_STRING || value->kind == KD_ATTR_STRINGS)
    return string_constant(call, value);
  if (value->kind == KD_ATTR_TENSOR) {
    call->outputs[0] = keel_tensor_retain(value->tensor);
    return KD_OK;
  }
  const void *data = value->kind == KD_ATTR_INT     ? (const void *)&value->i
                     : value->kind == KD_ATTR_FLOAT ? (const void *)&value->f
                     : value->kind == KD_ATTR_INTS
                         ? (const void *)value->ints
                         : (const void *)value->floats;
  KEEL_TRY(host_output(call, 0));
  if (call->types[0]->bytes)
    memcpy(call->outputs[0]->data, data, call->types[0]->bytes);
  return KD_OK;
}

/* The axes of `wide` that `narrow` has not, or has with another size. */
static keel_status broadcast_axes(keel_host_call *call, const keel_tensor *wide,
                                  const keel_tensor *narrow) {
  int64_t rank = wide->type->elements, missing = rank - narrow->type->elements;
  const int64_t *from = wide->data, *to = narrow->data;
  int64_t axes[KD_MAX_RANK], count = 0;
  if (wide->type->rank != 1 || narrow->type->rank != 1 || missing < 0 ||
      rank > (int64_t)KD_MAX_RANK)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "takes two shapes, of which the first has at least as"
                          " many dimensions, and %u at most",
                          (unsigned)KD_MAX_RANK);
  for (int64_t i = 0; i < rank; i++)
    if (i < missing || to[i - missing] != from[i]) axes[count++] = i;
  return keel_tensor_create(call->context, KD_I64, 1, &count, axes,
                            &call->outputs[0]);
}

keel_status keel_run_broadcast_axes(keel_host_call *call) {
  keel_tensor *wide = NULL, *narrow = NULL;
  KEEL_TRY(keel_tensor_to_host(call->inputs[0], &wide));
  keel_status status = keel_tensor_to_host(call->inputs[1], &narrow);
  if (status == KD_OK) status = broadcast_axes(call, wide, narrow);
  keel_tensor_release(wide);
  keel_tensor_release(narrow);
  return status;
}
