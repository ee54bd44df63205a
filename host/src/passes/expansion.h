/* expansion.h - writes an op with simpler ones, where a list of statements (ops.def) does not
 * reach: for ops whose form depends on ranks, attributes and which inputs there are.
 *
 * Values are added one after the other. Nothing is added after the first failure, and values
 * are KEEL_ABSENT then: who writes looks at `status` once, at the end. */
#ifndef KEEL_EXPANSION_H
#define KEEL_EXPANSION_H

#include "passes/passes.h"

typedef struct keel_expansion {
  keel_function *function;
  keel_node node; /* a copy: the function's nodes may move */
  keel_status status;
} keel_expansion;

/* An input of the op, or KEEL_ABSENT; its type, where dimensions may be open (-1), or NULL where
 * nothing is known of it. */
uint32_t keel_expansion_in(const keel_expansion *all, uint32_t index);
const keel_type *keel_expansion_type(const keel_expansion *all, uint32_t index);

/* Whether somebody reads the op's output. */
bool keel_expansion_wants(const keel_expansion *all, uint32_t index);

/* An op of ONNX with one output. Absent inputs at the end are left out. */
uint32_t keel_expansion_op(keel_expansion *all, const char *op,
                           const keel_attr *attrs, uint32_t attr_count,
                           const uint32_t *inputs, uint32_t input_count);

/* One of several outputs, without attributes; all are KEEL_ABSENT after a failure. */
void keel_expansion_op_n(keel_expansion *all, const char *op,
                         const uint32_t *inputs, uint32_t input_count,
                         uint32_t *outputs, uint32_t output_count);

/* The same of an op of domain "keel". */
uint32_t keel_expansion_own(keel_expansion *all, const char *op,
                            const keel_attr *attrs, uint32_t attr_count,
                            const uint32_t *inputs, uint32_t input_count);

/* An op of the function's, with the same attributes. outputs: those that are not KEEL_ABSENT get new
 * values; all are KEEL_ABSENT after a failure. */
void keel_expansion_again(keel_expansion *all, keel_opdef *op,
                          const uint32_t *inputs, uint32_t input_count,
                          uint32_t *outputs, uint32_t output_count);

/* The same of domain "com.microsoft". */
uint32_t keel_expansion_microsoft(keel_expansion *all, const char *op,
                                  const keel_attr *attrs, uint32_t attr_count,
                                  const uint32_t *inputs, uint32_t input_count);

/* An op of ONNX without attributes, of one input and of two. */
uint32_t keel_expansion_of(keel_expansion *all, const char *op, uint32_t a);
uint32_t keel_expansion_of_two(keel_expansion *all, const char *op, uint32_t a,
                               uint32_t b);

/* A constant list of integers, and such a list of one. */
uint32_t keel_expansion_ints(keel_expansion *all, const int64_t *list,
                             int64_t count);
uint32_t keel_expansion_int(keel_expansion *all, int64_t number);

/* An attribute's integers, `count` of them; not there: all `otherwise`. False where it has
 * another number of them. */
bool keel_expansion_list(const keel_expansion *all, const char *name,
                         int64_t count, int64_t otherwise, int64_t *out);

/* A constant. */
uint32_t keel_expansion_constant(keel_expansion *all, kd_dtype dtype,
                                 uint32_t rank, const int64_t *dims,
                                 const void *data);

/* The same of strings, a list of them. */
uint32_t keel_expansion_strings(keel_expansion *all, const char *const *strings,
                                int64_t count);

/* The element type that a value will have, as far as that can be told without its shape; or
 * KD_NONE. */
kd_dtype keel_expansion_dtype(const keel_expansion *all, uint32_t value);
uint32_t keel_expansion_cast(keel_expansion *all, uint32_t value,
                             kd_dtype dtype);

/* A constant of the element type that `like` has; a scalar. */
uint32_t keel_expansion_number(keel_expansion *all, double number,
                               uint32_t like);

/* Often needed: dimensions [begin, end) of a value as a list (end INT64_MAX: all that follow),
 * lists put together, Where, Transpose, Slice of one axis. */
uint32_t keel_expansion_dims(keel_expansion *all, uint32_t value, int64_t begin,
                             int64_t end);
uint32_t keel_expansion_concat(keel_expansion *all, int64_t axis,
                               const uint32_t *parts, uint32_t count);
uint32_t keel_expansion_where(keel_expansion *all, uint32_t condition,
                              uint32_t yes, uint32_t no);
uint32_t keel_expansion_transpose(keel_expansion *all, uint32_t value,
                                  const int64_t *perm, uint32_t rank);
uint32_t keel_expansion_slice(keel_expansion *all, uint32_t value, int64_t axis,
                              int64_t begin, int64_t end, int64_t step);

/* Element `index` of a value's first axis, with these dimensions. A constant's is its memory, not a
 * copy of that, where kernels can read it there. */
uint32_t keel_expansion_part(keel_expansion *all, uint32_t value, int64_t index,
                             uint32_t rank, const int64_t *dims);

/* A list of i64 as it is, if all are in [least, most], lists of one. `input` names it, where a run
 * finds that one is not. */
uint32_t keel_expansion_within(keel_expansion *all, uint32_t list,
                               uint32_t least, uint32_t most,
                               const char *input);

/* 0, 1, 2 ... of i64; count: a list of one. */
uint32_t keel_expansion_range(keel_expansion *all, uint32_t count);

/* Numbers of 2, 4 or 8 bits, the first in the lowest of a byte, as bytes in one more dimension. */
uint32_t keel_expansion_unpacked(keel_expansion *all, uint32_t bytes,
                                 int64_t bits);

/* Fails with the op's name and the text, if nothing has failed before. */
void keel_expansion_fail(keel_expansion *all, keel_status status,
                         const char *format, ...) KD_PRINTF(3, 4);

/* Makes a value the op's output `index`. */
void keel_expansion_give(keel_expansion *all, uint32_t index, uint32_t value);

/* The ops that are written so (expand.c). Each gives all outputs that are wanted. */
void keel_expand_attention(keel_expansion *all);
void keel_expand_rotary_embedding(keel_expansion *all);
void keel_expand_tensor_scatter(keel_expansion *all);
void keel_expand_center_crop_pad(keel_expansion *all);
void keel_expand_affine_grid(keel_expansion *all);
void keel_expand_col2im(keel_expansion *all);
void keel_expand_causal_conv(keel_expansion *all);
void keel_expand_linear_attention(keel_expansion *all);
void keel_expand_deform_conv(keel_expansion *all);
void keel_expand_flex_attention(keel_expansion *all);
void keel_expand_gradient(keel_expansion *all);
void keel_expand_momentum(keel_expansion *all);
void keel_expand_adagrad(keel_expansion *all);
void keel_expand_adam(keel_expansion *all);
void keel_expand_matmul_nbits(keel_expansion *all);
void keel_expand_group_query_attention(keel_expansion *all);
void keel_expand_skip_norm(keel_expansion *all);
void keel_expand_skip_simplified_norm(keel_expansion *all);
void keel_expand_simplified_norm(keel_expansion *all);
void keel_expand_gelu(keel_expansion *all);
void keel_expand_fast_gelu(keel_expansion *all);
void keel_expand_quick_gelu(keel_expansion *all);
void keel_expand_microsoft_rotary(keel_expansion *all);
void keel_expand_multi_head_attention(keel_expansion *all);
void keel_expand_projected_attention(keel_expansion *all);
void keel_expand_quantised_attention(keel_expansion *all);
void keel_expand_embed_layer_norm(keel_expansion *all);
void keel_expand_gather_block_quantized(keel_expansion *all);
void keel_expand_experts(keel_expansion *all);
void keel_expand_quantised_experts(keel_expansion *all);
void keel_expand_qlinear_add(keel_expansion *all);
void keel_expand_qlinear_mul(keel_expansion *all);
void keel_expand_qlinear_sigmoid(keel_expansion *all);
void keel_expand_qlinear_leaky_relu(keel_expansion *all);
void keel_expand_qlinear_average_pool(keel_expansion *all);
void keel_expand_qlinear_global_average_pool(keel_expansion *all);
void keel_expand_qlinear_softmax(keel_expansion *all);
void keel_expand_qlinear_concat(keel_expansion *all);
void keel_expand_matmul_integer_to_float(keel_expansion *all);
void keel_expand_dynamic_quantize_matmul(keel_expansion *all);
void keel_expand_qgemm(keel_expansion *all);
void keel_expand_quantize_linear(keel_expansion *all);
void keel_expand_dequantize_linear(keel_expansion *all);
void keel_expand_array_feature_extractor(keel_expansion *all);
void keel_expand_binarizer(keel_expansion *all);
void keel_expand_cast_map(keel_expansion *all);
void keel_expand_category_mapper(keel_expansion *all);
void keel_expand_dict_vectorizer(keel_expansion *all);
void keel_expand_feature_vectorizer(keel_expansion *all);
void keel_expand_imputer(keel_expansion *all);
void keel_expand_label_encoder(keel_expansion *all);
void keel_expand_linear_classifier(keel_expansion *all);
void keel_expand_linear_regressor(keel_expansion *all);
void keel_expand_normalizer(keel_expansion *all);
void keel_expand_one_hot_encoder(keel_expansion *all);
void keel_expand_scaler(keel_expansion *all);
void keel_expand_svm_classifier(keel_expansion *all);
void keel_expand_svm_regressor(keel_expansion *all);
void keel_expand_tree_classifier(keel_expansion *all);
void keel_expand_tree_regressor(keel_expansion *all);
void keel_expand_trees(keel_expansion *all);
void keel_expand_within(keel_expansion *all);
void keel_expand_zip_map(keel_expansion *all);

#endif /* KEEL_EXPANSION_H */
