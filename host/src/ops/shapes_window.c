/* shapes_window.c - shapes of windows over all dimensions: keel::ReduceWindow and
 * SelectAndScatter. */
#include "ops/shapes.h"

/* A list of an attribute, one number a dimension; not there: all `otherwise`. */
static keel_status read_list(const keel_infer *infer, const char *name,
                             uint32_t count, int64_t otherwise, int64_t least,
                             int64_t *out) {
  const int64_t *given = NULL;
  int64_t length = keel_attr_ints(infer->op, name, &given);
  if (length > 0 && length != (int64_t)count)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "%s has %lld numbers instead of %u", name,
                           (long long)length, (unsigned)count);
  for (uint32_t i = 0; i < count; i++) {
    out[i] = length > 0 ? given[i] : otherwise;
    if (out[i] < least || out[i] > INT32_MAX || out[i] < -INT32_MAX)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "%s has %lld, which is out of range", name,
                             (long long)out[i]);
  }
  return KD_OK;
}

/* The number of windows in each dimension. */
static keel_status count_windows(const keel_infer *infer, keel_dims *out) {
  const keel_type *x = infer->in[0];
  uint32_t rank = x->rank;
  int64_t window[KD_MAX_RANK], strides[KD_MAX_RANK], base[KD_MAX_RANK];
  int64_t spread[KD_MAX_RANK], pads[2 * KD_MAX_RANK];
  KEEL_TRY(read_list(infer, "window", rank, 1, 1, window));
  KEEL_TRY(read_list(infer, "strides", rank, 1, 1, strides));
  KEEL_TRY(read_list(infer, "base_dilations", rank, 1, 1, base));
  KEEL_TRY(read_list(infer, "window_dilations", rank, 1, 1, spread));
  KEEL_TRY(read_list(infer, "pads", 2 * rank, 0, -INT32_MAX, pads));
  out->rank = rank;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t size = x->dims[i];
    if (size > INT64_MAX / 2 / base[i])
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "dimension %u, dilated, is too large",
                             (unsigned)i);
    size = size ? (size - 1) * base[i] + 1 : 0;
    size += pads[i] + pads[rank + i];
    int64_t reach = (window[i] - 1) * spread[i] + 1;
    out->dims[i] = size < reach ? 0 : (size - reach) / strides[i] + 1;
  }
  return KD_OK;
}

/* Input `index` is one number. */
static keel_status check_init(const keel_infer *infer, uint32_t index) {
  const keel_type *init = infer->in[index];
  return init->elements == 1 ? KD_OK
                             : keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                                               "init must be one number");
}

keel_status keel_shape_reduce_window(keel_infer *infer) {
  keel_dims dims = {0};
  KEEL_TRY(check_init(infer, 1));
  KEEL_TRY(count_windows(infer, &dims));
  return keel_infer_dims(infer, 0, &dims);
}

keel_status keel_shape_select_and_scatter(keel_infer *infer) {
  const keel_type *x = infer->in[0], *source = infer->in[1];
  keel_dims dims = {0};
  KEEL_TRY(check_init(infer, 2));
  KEEL_TRY(count_windows(infer, &dims));
  bool same = source->rank == dims.rank;
  for (uint32_t i = 0; same && i < dims.rank; i++)
    same = source->dims[i] == dims.dims[i];
  if (!same)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "source must have an element for each window");
  return keel_infer_out(infer, 0, x->rank, x->dims);
}
