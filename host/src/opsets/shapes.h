/* shapes.h - the shape functions that the table of ops names. */
#ifndef KEEL_SHAPES_H
#define KEEL_SHAPES_H

#include "ops/dims.h"

#define SHAPE(name)                                                 keel_status keel_shape_##name(keel_infer *infer);
#define OP(op, since, types, parameters, attributes, shape, values) SHAPE(shape)
#include "defs/ops.def"
/* of ops whose rows are in the op sets, and of those in elementwise.def */
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

/* The output's type is that of an attribute, or `otherwise`. */
keel_status keel_infer_dtype_attr(keel_infer *infer, const char *name,
                                  kd_dtype otherwise);

/* Rows of X, which is [rows, features], or a single row. */
static inline keel_status keel_infer_rows(const keel_infer *infer,
                                          int64_t *out_rows) {
  const keel_type *x = infer->in[0];
  if (x->rank != 1 && x->rank != 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X must be [rows, features], or one row");
  *out_rows = x->rank == 2 ? x->dims[0] : 1;
  return KD_OK;
}

#endif /* KEEL_SHAPES_H */
