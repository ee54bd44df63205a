/* shapes.h - the shape functions that the table of ops names. */
#ifndef KEEL_SHAPES_H
#define KEEL_SHAPES_H

#include "ops/node.h"

#define SHAPE(name)                                                 keel_status keel_shape_##name(keel_infer *infer);
#define OP(op, since, types, parameters, attributes, shape, values) SHAPE(shape)
#include "onnx/ops.def"
/* of the runtime's own ops (table.c), and of those in elementwise.def */
SHAPE(ml_classes)
SHAPE(ml_encoded)
SHAPE(ml_features)
SHAPE(ml_joined)
SHAPE(ml_one_hot)
SHAPE(ml_targets)
SHAPE(ml_zip)
SHAPE(trained_by_three)
SHAPE(trained_by_four)
SHAPE(bit_cast)
SHAPE(bitcast)
SHAPE(broadcast)
SHAPE(by_content)
SHAPE(constant)
SHAPE(counted)
SHAPE(dropout)
SHAPE(embed_layer_norm)
SHAPE(exchange)
SHAPE(experts)
SHAPE(first)
SHAPE(flatten)
SHAPE(flex_attention)
SHAPE(multinomial)
SHAPE(gather_block_quantized)
SHAPE(multi_head_attention)
SHAPE(norm_alone)
SHAPE(projected_attention)
SHAPE(qgemm)
SHAPE(qlinear_binary)
SHAPE(qlinear_concat)
SHAPE(quantised_attention)
SHAPE(quantised_experts)
SHAPE(random)
SHAPE(random_like)
SHAPE(rank)
SHAPE(region)
SHAPE(reshape)
SHAPE(same)
SHAPE(shape)
SHAPE(size)
SHAPE(skip_norm)
SHAPE(squeeze)
SHAPE(tf_idf)
SHAPE(unsqueeze)
#undef SHAPE

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

#endif /* KEEL_SHAPES_H */
