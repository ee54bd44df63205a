/* shapes_strings.c - shapes of ops on strings. */
#include "ops/shapes.h"

/* Known after the run. */
keel_status keel_shape_by_content(keel_infer *infer) {
  infer->unknown = true;
  return KD_OK;
}

/* Rows of X, and a column for each index that n-grams have. */
keel_status keel_shape_tf_idf(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  const int64_t *indices = NULL;
  int64_t count = keel_attr_ints(infer->op, "ngram_indexes", &indices);
  int64_t dims[2] = {x->rank == 2 ? x->dims[0] : 1, 0};
  kd_dtype dtype = x->dtype;
  if (x->rank != 1 && x->rank != 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X must be [C] or [N, C]");
  if (dtype != KD_STRING && dtype != KD_I32 && dtype != KD_I64)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X must be strings, i32 or i64");
  for (int64_t i = 0; i < count; i++) {
    if (indices[i] < 0 || indices[i] >= INT32_MAX)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "ngram_indexes has %lld", (long long)indices[i]);
    if (indices[i] >= dims[1]) dims[1] = indices[i] + 1;
  }
  return keel_infer_out(infer, 0, x->rank, x->rank == 2 ? dims : dims + 1);
}
