/* dims.h - dimensions of results, in shape functions. */
#ifndef KEEL_DIMS_H
#define KEEL_DIMS_H

#include "ops/node.h"

/* Rank and dims of a result under construction. */
typedef struct keel_dims {
  uint32_t rank;
  int64_t dims[KD_MAX_RANK];
} keel_dims;

static inline keel_dims keel_dims_of(const keel_type *type) {
  keel_dims result = {.rank = type->rank};
  for (uint32_t i = 0; i < type->rank; i++)
    result.dims[i] = type->dims[i];
  return result;
}

static inline keel_status keel_infer_dims(keel_infer *infer, uint32_t index,
                                          const keel_dims *dims) {
  return keel_infer_out(infer, index, dims->rank, dims->dims);
}

/* Broadcasts `with` into `dims` (ONNX, "Multidirectional Broadcasting"); false
 * where they do not fit. */
bool keel_dims_broadcast(keel_dims *dims, uint32_t rank, const int64_t *with);

/* Whether a number from a model is small enough to calculate with. */
static inline bool keel_is_plausible(int64_t value) {
  return value > -(INT64_C(1) << 40) && value < (INT64_C(1) << 40);
}

#endif /* KEEL_DIMS_H */
