/* sequence.c - ops on sequences and optionals. */
#include "memory/access.h"
#include "memory/copy.h"
#include "ops/chunks.h"
#include "ops/runtime.h"
#include "opsets/tables.h"
#include "values/strings.h"

/* Tensors of a sequence that one op makes: a tensor of no elements has as many parts as
 * its file likes, and each costs memory. */
#define KEEL_SEQUENCE_MOST (1 << 20)

static keel_status need_sequence(const keel_host_call *call) {
  if (call->input_count < 1 || !call->inputs[0] ||
      call->inputs[0]->kind != KEEL_SEQUENCE)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "the first input is not a sequence");
  return KD_OK;
}

/* A position in [0, count], or in [0, count) where `inside`. */
static keel_status position(const keel_host_call *call, uint32_t input,
                            int64_t fallback, bool inside, uint32_t *out_at) {
  int64_t count = call->inputs[0]->item_count, at = 0;
  KEEL_TRY(keel_call_int(call, input, fallback, &at));
  int64_t from = at;
  at += at < 0 ? count : 0;
  if (at < 0 || at > count || (inside && at == count))
    return keel_call_fail(call, KD_OUT_OF_RANGE,
                          "position %lld in a sequence of %lld",
                          (long long)from, (long long)count);
  *out_at = (uint32_t)at;
  return KD_OK;
}

static keel_status run_sequence_construct(keel_host_call *call) {
  for (uint32_t i = 0; i < call->input_count; i++)
    if (!call->inputs[i] || !keel_is_tensor(call->inputs[i]))
      return keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "input %u is not a tensor", (unsigned)i);
  return keel_sequence_create(call->context, call->inputs, call->input_count,
                              &call->outputs[0]);
}

static keel_status run_sequence_insert(keel_host_call *call) {
  KEEL_TRY(need_sequence(call));
  if (call->input_count < 2 || !call->inputs[1] ||
      !keel_is_tensor(call->inputs[1]))
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "the second input is not a tensor");
  const keel_tensor *sequence = call->inputs[0];
  uint32_t at = 0, count = sequence->item_count;
  KEEL_TRY(position(call, 2, count, false, &at));
  keel_tensor **items = malloc((count + 1) * sizeof *items);
  if (!items) return keel_no_memory((count + 1) * sizeof *items);
  for (uint32_t i = 0; i <= count; i++)
    items[i] = i == at  ? call->inputs[1]
               : i < at ? sequence->items[i]
                        : sequence->items[i - 1];
  keel_status status =
      keel_sequence_create(call->context, items, count + 1, &call->outputs[0]);
  free(items);
  return status;
}

static keel_status run_sequence_erase(keel_host_call *call) {
  KEEL_TRY(need_sequence(call));
  const keel_tensor *sequence = call->inputs[0];
  uint32_t at = 0, count = sequence->item_count;
  KEEL_TRY(position(call, 1, (int64_t)count - 1, true, &at));
  keel_tensor **items = malloc(count * sizeof *items);
  if (!items) return keel_no_memory(count * sizeof *items);
  for (uint32_t i = 0, to = 0; i < count; i++)
    if (i != at) items[to++] = sequence->items[i];
  keel_status status =
      keel_sequence_create(call->context, items, count - 1, &call->outputs[0]);
  free(items);
  return status;
}

static keel_status run_sequence_at(keel_host_call *call) {
  uint32_t at = 0;
  KEEL_TRY(need_sequence(call));
  KEEL_TRY(position(call, 1, 0, true, &at));
  call->outputs[0] = keel_tensor_retain(call->inputs[0]->items[at]);
  return KD_OK;
}

static keel_status run_sequence_length(keel_host_call *call) {
  KEEL_TRY(need_sequence(call));
  int64_t length = call->inputs[0]->item_count;
  return keel_tensor_create(call->context, KD_I64, 0, NULL, &length,
                            &call->outputs[0]);
}

/* ---- splitting ------------------------------------------------------------ */

/* Parts of one size, `each`, of which the last may be shorter. */
static keel_status equal_parts(const keel_host_call *call, int64_t total,
                               int64_t each, int64_t *out_count) {
  if (each < 1)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "split is %lld; a part has at least 1 element",
                          (long long)each);
  *out_count = total / each + (total % each != 0);
  return KD_OK;
}

static int64_t sequence_number_at(const keel_tensor *list, int64_t index) {
  return list->type->dtype == KD_I64 ? ((const int64_t *)list->data)[index]
                                     : ((const int32_t *)list->data)[index];
}

/* Sizes of the parts: one by one, of one size, or as `given` lists them. */
static keel_status fill_sizes(const keel_host_call *call, int64_t total,
                              const keel_tensor *given, int64_t **out_sizes,
                              uint32_t *out_count) {
  const keel_type *type = given ? given->type : NULL;
  bool listed = type && type->rank == 1;
  int64_t each = type && !listed ? sequence_number_at(given, 0) : 1;
  int64_t count = listed ? type->elements : 0;
  if (!listed) KEEL_TRY(equal_parts(call, total, each, &count));
  if (count > KEEL_SEQUENCE_MOST)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "it would make %lld parts; a sequence has at most %d"
                          " tensors",
                          (long long)count, KEEL_SEQUENCE_MOST);
  int64_t *sizes = calloc((size_t)count + 1, sizeof *sizes);
  if (!sizes) return keel_no_memory((uint64_t)count * sizeof *sizes);
  for (int64_t i = 0; i < count; i++)
    sizes[i] = listed          ? sequence_number_at(given, i)
               : i + 1 < count ? each
                               : total - i * each;
  *out_sizes = sizes;
  *out_count = (uint32_t)count;
  return KD_OK;
}

static keel_status part_sizes(const keel_host_call *call, int64_t total,
                              int64_t **out_sizes, uint32_t *out_count) {
  keel_tensor *here = NULL;
  if (call->input_count > 1 && call->inputs[1]) {
    if (!keel_is_tensor(call->inputs[1]))
      return keel_call_fail(call, KD_INVALID_ARGUMENT, "split is not a tensor");
    KEEL_TRY(keel_tensor_to_host(call->inputs[1], &here));
  }
  const keel_type *type = here ? here->type : NULL;
  bool fits = !type || (type->rank <= 1 &&
                        (type->dtype == KD_I64 || type->dtype == KD_I32));
  keel_status status =
      fits ? fill_sizes(call, total, here, out_sizes, out_count)
           : keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "split must be a scalar or list of integers");
  keel_tensor_release(here);
  return status;
}

/* Drops the axis of length 1 from each part. */
static keel_status squeeze_parts(keel_tensor **parts, uint32_t count,
                                 uint32_t axis) {
  for (uint32_t i = 0; i < count; i++) {
    const keel_type *type = parts[i]->type, *narrow = NULL;
    int64_t dims[KD_MAX_RANK];
    for (uint32_t d = 0, to = 0; d < type->rank; d++)
      if (d != axis) dims[to++] = type->dims[d];
    keel_tensor *view = NULL;
    KEEL_TRY(keel_type_of(type->dtype, type->rank - 1, dims, &narrow));
    KEEL_TRY(keel_tensor_view(parts[i], narrow, &view));
    keel_tensor_release(parts[i]);
    parts[i] = view;
  }
  return KD_OK;
}

/* Whether parts along the first axis can be copied out: else Split makes them, or reports their
 * errors. */
static bool splits_as_parts(keel_tensor *tensor, const int64_t *sizes,
                            uint32_t count, uint32_t axis) {
  int64_t left = tensor->type->dims[axis];
  for (uint32_t i = 0; i < count; i++) {
    if (sizes[i] < 0 || sizes[i] > left) return false;
    left -= sizes[i];
  }
  return !axis && !left && keel_chunks_fit(&tensor, 1);
}

static keel_status split_parts(keel_tensor *tensor, const int64_t *sizes,
                               uint32_t count, keel_tensor **parts) {
  const keel_type *type = tensor->type, *part = NULL;
  int64_t dims[KD_MAX_RANK];
  uint64_t offset = 0;
  memcpy(dims, type->dims, type->rank * sizeof *dims);
  for (uint32_t i = 0; i < count; i++) {
    dims[0] = sizes[i];
    KEEL_TRY(keel_type_of(type->dtype, type->rank, dims, &part));
    KEEL_TRY(keel_chunk_take(tensor, offset, part, &parts[i]));
    offset += part->bytes;
  }
  return KD_OK;
}

static keel_status split_by_kernel(const keel_host_call *call,
                                   keel_tensor *tensor, const int64_t *sizes,
                                   uint32_t count, uint32_t axis,
                                   keel_tensor **parts) {
  keel_tensor *list = NULL;
  int64_t length = count;
  KEEL_TRY(keel_tensor_create(call->context, KD_I64, 1, &length, sizes, &list));
  keel_tensor *inputs[] = {tensor, list};
  keel_attr attr = KEEL_INT("axis", axis);
  keel_status status =
      call->run_op(call->context, "Split", &attr, 1, inputs, 2, parts, count);
  keel_tensor_release(list);
  return status;
}

static keel_status sequence_split(keel_host_call *call, keel_tensor *tensor,
                                  const int64_t *sizes, uint32_t count,
                                  uint32_t axis, bool squeeze) {
  keel_tensor **parts = calloc(count + 1, sizeof(keel_tensor *));
  if (!parts) return keel_no_memory(count * sizeof *parts);
  keel_status status =
      splits_as_parts(tensor, sizes, count, axis)
          ? split_parts(tensor, sizes, count, parts)
          : split_by_kernel(call, tensor, sizes, count, axis, parts);
  if (status == KD_OK && squeeze) status = squeeze_parts(parts, count, axis);
  if (status == KD_OK)
    status =
        keel_sequence_create(call->context, parts, count, &call->outputs[0]);
  for (uint32_t i = 0; i < count; i++)
    keel_tensor_release(parts[i]);
  free(parts);
  return status;
}

static keel_status run_split_to_sequence(keel_host_call *call) {
  if (call->input_count < 1 || !call->inputs[0] ||
      !keel_is_tensor(call->inputs[0]))
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "the input is not a tensor");
  const keel_type *type = call->inputs[0]->type;
  int64_t axis = keel_attr_int(call->op, "axis", 0);
  axis += axis < 0 ? type->rank : 0;
  if (axis < 0 || axis >= (int64_t)type->rank)
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "axis is out of range");
  bool squeeze =
      call->input_count < 2 && !keel_attr_int(call->op, "keepdims", 1);
  int64_t *sizes = NULL;
  uint32_t count = 0;
  KEEL_TRY(part_sizes(call, type->dims[axis], &sizes, &count));
  keel_status status = sequence_split(call, call->inputs[0], sizes, count,
                                      (uint32_t)axis, squeeze);
  free(sizes);
  return status;
}

/* ---- joining -------------------------------------------------------------- */

/* Adds an axis of length 1 to a view of each item. */
static keel_status sequence_widen(keel_tensor *const *items, uint32_t count,
                                  int64_t axis, keel_tensor **views) {
  for (uint32_t i = 0; i < count; i++) {
    const keel_type *type = items[i]->type, *wide = NULL;
    int64_t dims[KD_MAX_RANK + 1], at = axis;
    at += at < 0 ? type->rank + 1 : 0;
    if (at < 0 || at > (int64_t)type->rank)
      return keel_fail(KD_INVALID_ARGUMENT,
                       "ConcatFromSequence: axis %lld is out of range",
                       (long long)axis);
    for (uint32_t d = 0, from = 0; d <= type->rank; d++)
      dims[d] = d == (uint32_t)at ? 1 : type->dims[from++];
    KEEL_TRY(keel_type_of(type->dtype, type->rank + 1, dims, &wide));
    KEEL_TRY(keel_tensor_view(items[i], wide, &views[i]));
  }
  return KD_OK;
}

/* The type of tensors one behind the other along their first axis; NULL: they don't lie so,
 * or don't fit together, which Concat says. */
static const keel_type *joined_type(keel_tensor *const *items, uint32_t count,
                                    int64_t axis) {
  const keel_type *first = items[0]->type, *type = NULL;
  int64_t dims[KD_MAX_RANK];
  if (!keel_chunks_fit(items, count) || !first->rank ||
      (axis != 0 && axis != -(int64_t)first->rank))
    return NULL;
  memcpy(dims, first->dims, first->rank * sizeof *dims);
  for (uint32_t i = 1; i < count; i++) {
    const keel_type *one = items[i]->type;
    if (one->dtype != first->dtype || one->rank != first->rank ||
        memcmp(one->dims + 1, first->dims + 1,
               (first->rank - 1) * sizeof *dims) != 0 ||
        __builtin_add_overflow(dims[0], one->dims[0], &dims[0]))
      return NULL;
  }
  return keel_type_of(first->dtype, first->rank, dims, &type) == KD_OK ? type
                                                                       : NULL;
}

static keel_status sequence_join(const keel_host_call *call,
                                 keel_tensor *const *items, uint32_t count,
                                 int64_t axis) {
  const keel_type *type = joined_type(items, count, axis);
  if (type)
    return keel_chunks_join(items, count, false, type, &call->outputs[0]);
  keel_attr attr = KEEL_INT("axis", axis);
  return call->run_op(call->context, "Concat", &attr, 1, items, count,
                      call->outputs, 1);
}

static keel_status run_concat_from_sequence(keel_host_call *call) {
  KEEL_TRY(need_sequence(call));
  const keel_tensor *sequence = call->inputs[0];
  uint32_t count = sequence->item_count;
  bool fresh = keel_attr_int(call->op, "new_axis", 0) != 0;
  int64_t axis = keel_attr_int(call->op, "axis", 0);
  keel_tensor **views = calloc(count + 1, sizeof(keel_tensor *));
  if (!views) return keel_no_memory(count * sizeof *views);
  keel_status status = count ? KD_OK
                             : keel_call_fail(call, KD_INVALID_ARGUMENT,
                                              "the sequence is empty");
  if (status == KD_OK && fresh)
    status = sequence_widen(sequence->items, count, axis, views);
  if (status == KD_OK)
    status = sequence_join(call, fresh ? views : sequence->items, count, axis);
  for (uint32_t i = 0; i < count; i++)
    keel_tensor_release(views[i]);
  free(views);
  return status;
}

/* ---- optionals ------------------------------------------------------------ */

static keel_status run_optional(keel_host_call *call) {
  if (call->input_count && call->inputs[0]) {
    call->outputs[0] = keel_tensor_retain(call->inputs[0]);
    return KD_OK;
  }
  return keel_optional_empty(call->context, &call->outputs[0]);
}

static keel_status run_optional_has_element(keel_host_call *call) {
  uint8_t has = call->input_count && call->inputs[0] &&
                call->inputs[0]->kind != KEEL_OPTIONAL_EMPTY;
  return keel_tensor_create(call->context, KD_BOOL, 0, NULL, &has,
                            &call->outputs[0]);
}

static keel_status run_optional_get_element(keel_host_call *call) {
  if (!call->input_count || !call->inputs[0] ||
      call->inputs[0]->kind == KEEL_OPTIONAL_EMPTY)
    return keel_call_fail(call, KD_INVALID_ARGUMENT, "the optional is empty");
  call->outputs[0] = keel_tensor_retain(call->inputs[0]);
  return KD_OK;
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    RUNTIME("SequenceEmpty", 11, "-> output:any", "dtype:i", none, 0,
            run_sequence_construct),
    RUNTIME("SequenceConstruct", 11, "inputs:any* -> output:any", "", none, 0,
            run_sequence_construct),
    RUNTIME("SequenceInsert", 11,
            "input_sequence:any tensor:any position:index? -> output:any", "",
            none, 0, run_sequence_insert),
    RUNTIME("SequenceErase", 11,
            "input_sequence:any position:index? ->"
            " output:any",
            "", none, 0, run_sequence_erase),
    RUNTIME("SequenceAt", 11,
            "input_sequence:any position:index ->"
            " tensor:any",
            "", none, 0, run_sequence_at),
    RUNTIME("SequenceLength", 11, "input_sequence:any -> length:i64", "", none,
            0, run_sequence_length),
    RUNTIME("SplitToSequence", 11, "input:any split:index? -> output:any",
            "axis:i=0 keepdims:i=1", none, 0, run_split_to_sequence),
    RUNTIME("ConcatFromSequence", 11, "input_sequence:any -> concat:any",
            "axis:i! new_axis:i=0", none, 0, run_concat_from_sequence),
    RUNTIME("Optional", 15, "input:any? -> output:any", "type:t", none, 0,
            run_optional),
    RUNTIME("OptionalHasElement", 18, "input:any? -> output:bool", "", none, 0,
            run_optional_has_element),
    RUNTIME("OptionalGetElement", 18, "input:any -> output:any", "", none, 0,
            run_optional_get_element),
};

const keel_op_table keel_ops_sequence = {KEEL_TABLE_ROWS(rows)};
