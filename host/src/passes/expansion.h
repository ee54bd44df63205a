/* expansion.h - ops that are written with simpler ones where a list of statements (ops.def) does not
 * reach: their form depends on ranks, attributes and which inputs there are. Each gives all outputs
 * that are wanted. */
#ifndef KEEL_EXPANSION_H
#define KEEL_EXPANSION_H

#include "passes/passes.h"
#include "program/emit.h"

void keel_expand_attention(keel_emit *all);
void keel_expand_rotary_embedding(keel_emit *all);
void keel_expand_tensor_scatter(keel_emit *all);
void keel_expand_center_crop_pad(keel_emit *all);
void keel_expand_affine_grid(keel_emit *all);
void keel_expand_col2im(keel_emit *all);
void keel_expand_causal_conv(keel_emit *all);
void keel_expand_linear_attention(keel_emit *all);
void keel_expand_deform_conv(keel_emit *all);
void keel_expand_flex_attention(keel_emit *all);
void keel_expand_gradient(keel_emit *all);
void keel_expand_momentum(keel_emit *all);
void keel_expand_adagrad(keel_emit *all);
void keel_expand_adam(keel_emit *all);
void keel_expand_matmul_nbits(keel_emit *all);
void keel_expand_group_query_attention(keel_emit *all);
void keel_expand_skip_norm(keel_emit *all);
void keel_expand_skip_simplified_norm(keel_emit *all);
void keel_expand_simplified_norm(keel_emit *all);
void keel_expand_gelu(keel_emit *all);
void keel_expand_fast_gelu(keel_emit *all);
void keel_expand_quick_gelu(keel_emit *all);
void keel_expand_microsoft_rotary(keel_emit *all);
void keel_expand_multi_head_attention(keel_emit *all);
void keel_expand_projected_attention(keel_emit *all);
void keel_expand_quantised_attention(keel_emit *all);
void keel_expand_embed_layer_norm(keel_emit *all);
void keel_expand_gather_block_quantized(keel_emit *all);
void keel_expand_experts(keel_emit *all);
void keel_expand_quantised_experts(keel_emit *all);
void keel_expand_qlinear_add(keel_emit *all);
void keel_expand_qlinear_mul(keel_emit *all);
void keel_expand_qlinear_sigmoid(keel_emit *all);
void keel_expand_qlinear_leaky_relu(keel_emit *all);
void keel_expand_qlinear_average_pool(keel_emit *all);
void keel_expand_qlinear_global_average_pool(keel_emit *all);
void keel_expand_qlinear_softmax(keel_emit *all);
void keel_expand_qlinear_concat(keel_emit *all);
void keel_expand_matmul_integer_to_float(keel_emit *all);
void keel_expand_dynamic_quantize_matmul(keel_emit *all);
void keel_expand_qgemm(keel_emit *all);
void keel_expand_quantize_linear(keel_emit *all);
void keel_expand_dequantize_linear(keel_emit *all);
void keel_expand_array_feature_extractor(keel_emit *all);
void keel_expand_binarizer(keel_emit *all);
void keel_expand_cast_map(keel_emit *all);
void keel_expand_category_mapper(keel_emit *all);
void keel_expand_dict_vectorizer(keel_emit *all);
void keel_expand_feature_vectorizer(keel_emit *all);
void keel_expand_imputer(keel_emit *all);
void keel_expand_label_encoder(keel_emit *all);
void keel_expand_linear_classifier(keel_emit *all);
void keel_expand_linear_regressor(keel_emit *all);
void keel_expand_normalizer(keel_emit *all);
void keel_expand_one_hot_encoder(keel_emit *all);
void keel_expand_scaler(keel_emit *all);
void keel_expand_svm_classifier(keel_emit *all);
void keel_expand_svm_regressor(keel_emit *all);
void keel_expand_tree_classifier(keel_emit *all);
void keel_expand_tree_regressor(keel_emit *all);
void keel_expand_trees(keel_emit *all);
void keel_expand_within(keel_emit *all);
void keel_expand_zip_map(keel_emit *all);

#endif /* KEEL_EXPANSION_H */
