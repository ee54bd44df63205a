/* shapes.h - the shape functions that the table of ops names. */
#ifndef KEEL_SHAPES_H
#define KEEL_SHAPES_H

#include "ops/node.h"

/* clang-format off */
#define KEEL_SHAPES(X) \
  X(same) X(broadcast) X(cast) X(cast_like) X(reduce) X(arg_reduce) \
  X(matmul) X(gemm) X(batch_norm) X(group_norm) X(layer_norm) X(rms_norm) X(dropout) X(quantize) \
  X(dequantize) X(dynamic_quantize) X(qlinear_matmul) X(transpose) \
  X(reshape) X(flatten) X(squeeze) X(unsqueeze) X(expand) X(concat) \
  X(split) X(slice) X(gather) X(gather_elements) X(gather_nd) X(scatter) \
  X(pad) X(tile) X(depth_to_space) X(space_to_depth) X(resize) X(dynamic) \
  X(one_hot) X(eye_like) X(shape) X(size) X(constant) X(constant_of_shape) \
  X(range) X(top_k) X(where) X(conv) X(qlinear_conv) X(conv_transpose) \
  X(pool) X(global_pool) X(max_unpool) X(control) X(region) X(random) X(random_like) X(counted) \
  X(reverse_sequence) X(det) X(einsum) X(rnn) X(grid_sample) X(roi_align) X(window) X(nll_loss) \
  X(sce_loss) X(fused_conv) X(depthwise_conv) X(fused_matmul) X(attention) X(dft) X(stft) X(mel)
/* clang-format on */

#define KEEL_SHAPE_DECLARE(name) \
  keel_status keel_shape_##name(keel_infer *infer);
KEEL_SHAPES(KEEL_SHAPE_DECLARE)
#undef KEEL_SHAPE_DECLARE

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
