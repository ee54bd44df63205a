/* table.c - all ops that Keel knows: those of device_api/onnx, which kernels run, and the
 * runtime's own, a row each, written as ops.def describes. */
#include "ops/resource.h"
#include "ops/runtime.h"
#include "ops/shapes.h"

/* of ops whose types are known after the run only */
#define keel_shape_none NULL
#define RUNTIME_AS(kind, name, since, params, attrs, shape, values, function) \
  {                                                                           \
    NULL, name, since, "any", params, attrs, keel_shape_##shape, values, 0,   \
        kind, keel_run_##function                                             \
  }
#define RUNTIME(...) RUNTIME_AS(KEEL_BY_HOST, __VA_ARGS__)
#define CONTROL(name, since, params, attrs, kind)                \
  {                                                              \
    NULL, name, since, "any", params, attrs, keel_shape_none, 0, \
        KEEL_OP_CONTROL, kind, NULL                              \
  }
#define RANDOM(name, since, params, attrs, shape, function)         \
  {                                                                 \
    NULL, name, since, "any", params, attrs, keel_shape_##shape, 0, \
        KEEL_OP_RANDOM, KEEL_BY_HOST, keel_run_##function           \
  }
#define KEEL(name, params, attrs, shape)                             \
  {                                                                  \
    "keel", name, 1, "any", params, attrs, keel_shape_##shape, 0, 0, \
        KEEL_BY_KERNEL, NULL                                         \
  }
#define TRAINING(name, params, attrs, shape)                     \
  {                                                              \
    "ai.onnx.preview.training", name, 1, "float", params, attrs, \
        keel_shape_##shape, 0, 0, KEEL_BY_KERNEL, NULL           \
  }
#define ONE_OF_BYTES \
  "X:T X_scale:f32 X_zero_point:T? Y_scale:f32 Y_zero_point:T? -> Y:T"
#define MICROSOFT(name, types, params, attrs, shape)                          \
  {                                                                           \
    "com.microsoft", name, 1, types, params, attrs, keel_shape_##shape, 0, 0, \
        KEEL_BY_KERNEL, NULL                                                  \
  }
#define EXPERTS                                                           \
  "activation_alpha:f=1 activation_beta:f=0 activation_type:s=relu k:i=1" \
  " normalize_routing_weights:i=0 swiglu_fusion:i=0 swiglu_limit:f"       \
  " swiglu_limit_after_activation:i=0 use_sparse_mixer:i=0"
#define ML(name, since, types, params, attrs, shape)                           \
  {                                                                            \
    "ai.onnx.ml", name, since, types, params, attrs, keel_shape_##shape, 0, 0, \
        KEEL_BY_KERNEL, NULL                                                   \
  }
#define TRANSFORM "post_transform:s=NONE|SOFTMAX|LOGISTIC|SOFTMAX_ZERO|PROBIT"
/* the nodes of a tree; *_as_tensor: the same in double */
#define TREE_NODES                                                     \
  "nodes_falsenodeids:I nodes_featureids:I nodes_hitrates:F"           \
  " nodes_hitrates_as_tensor:t nodes_missing_value_tracks_true:I"      \
  " nodes_modes:S nodes_nodeids:I nodes_treeids:I nodes_truenodeids:I" \
  " nodes_values:F nodes_values_as_tensor:t base_values:F"             \
  " base_values_as_tensor:t " TRANSFORM
#define SVM                                                              \
  "coefficients:F kernel_params:F kernel_type:s=LINEAR|POLY|RBF|SIGMOID" \
  " rho:F support_vectors:F " TRANSFORM
#define STATE(name, flag, params, attrs, function)                   \
  {                                                                  \
    "keel", name, 1, "any", params, attrs, keel_shape_none, 0, flag, \
        KEEL_BY_HOST, keel_run_##function                            \
  }
#define EXCHANGE(name, params, attrs)                                   \
  {                                                                     \
    "keel", name, 1, "any", params, attrs, keel_shape_exchange, 0,      \
        KEEL_OP_WRITES | KEEL_OP_MEETS, KEEL_BY_HOST, keel_run_exchange \
  }

const keel_schema_row keel_schema_rows[] = {
#define UNARY_OP(op, since, types, kernels, attributes) \
  {                                                     \
      NULL,                                             \
      #op,                                              \
      since,                                            \
      #types,                                           \
      "X:T -> Y:T",                                     \
      attributes,                                       \
      keel_shape_same,                                  \
      0,                                                \
      0,                                                \
      KEEL_BY_KERNEL,                                   \
      NULL},
#define BINARY_OP(op, since, types, attributes) \
  {NULL,                                        \
   #op,                                         \
   since,                                       \
   #types,                                      \
   "A:T B:T -> C:T",                            \
   attributes,                                  \
   keel_shape_broadcast,                        \
   0,                                           \
   0,                                           \
   KEEL_BY_KERNEL,                              \
   NULL},
#define KEEL_UNARY_OP(op, types)                              \
  {"keel",          #op, 1, #types,         "X:T -> Y:T", "", \
   keel_shape_same, 0,   0, KEEL_BY_KERNEL, NULL},
#define KEEL_BINARY_OP(op, types) \
  {"keel",                        \
   #op,                           \
   1,                             \
   #types,                        \
   "A:T B:T -> C:T",              \
   "",                            \
   keel_shape_broadcast,          \
   0,                             \
   0,                             \
   KEEL_BY_KERNEL,                \
   NULL},
#define COMPARE_OP(op, since, types) \
  {NULL,                             \
   #op,                              \
   since,                            \
   #types,                           \
   "A:T B:T -> C:bool",              \
   "",                               \
   keel_shape_broadcast,             \
   0,                                \
   0,                                \
   KEEL_BY_KERNEL,                   \
   NULL},
#include "onnx/elementwise.def"
#define OP(op, since, types, params, attrs, shape, values)                 \
  {NULL,   #op, since,          #types, params, attrs, keel_shape_##shape, \
   values, 0,   KEEL_BY_KERNEL, NULL},
#define DYNAMIC_OP(op, since, types, params, attrs) \
  {NULL,                                            \
   #op,                                             \
   since,                                           \
   #types,                                          \
   params,                                          \
   attrs,                                           \
   keel_shape_dynamic,                              \
   0,                                               \
   KEEL_OP_DYNAMIC,                                 \
   KEEL_BY_KERNEL,                                  \
   NULL},
#define KEEL_OP(op, types, params, attrs, shape)                            \
  {"keel",         #op, 1, #types, params, attrs, keel_shape_##shape, 0, 0, \
   KEEL_BY_KERNEL, NULL},
#define MS_OP(op, types, params, attrs, shape, values)           \
  {"com.microsoft",    #op,    1, #types,         params, attrs, \
   keel_shape_##shape, values, 0, KEEL_BY_KERNEL, NULL},
#include "onnx/ops.def"

    /* derivatives and optimisers, which are written with other ops. Gradient's inputs are values
     * for xs and zs, then these and y, which the importer finds by their names */
    {"ai.onnx.preview.training", "Gradient", 1, "any",
     "Inputs:any% -> Outputs:any%", "xs:S! y:s! zs:S", keel_shape_none, 0, 0,
     KEEL_BY_KERNEL, NULL},
    TRAINING("Momentum", "R:T T:i64 inputs:S=float* -> outputs:S*",
             "alpha:f! beta:f! mode:s=standard|nesterov norm_coefficient:f!",
             trained_by_three),
    TRAINING("Adagrad", "R:T T:i64 inputs:S=float* -> outputs:S*",
             "decay_factor:f=0 epsilon:f=1e-06 norm_coefficient:f=0",
             trained_by_three),
    TRAINING("Adam", "R:T T:i64 inputs:S=float* -> outputs:S*",
             "alpha:f=0.9 beta:f=0.999 epsilon:f=1e-06 norm_coefficient:f=0"
             " norm_coefficient_post:f=0",
             trained_by_four),
    /* attention with functions of the model's own, written with other ops, too */
    {"ai.onnx.preview", "FlexAttention", 1, "float",
     "Q:T K:T V:T captures:any?% -> Y:T",
     "prob_mod:g score_mod:g scale:f softmax_precision:i",
     keel_shape_flex_attention, 0, 0, KEEL_BY_KERNEL, NULL},

    /* what ONNX Runtime's optimiser makes of models, written with other ops, too */
    MICROSOFT("BiasGelu", "float", "A:T B:T -> C:T", "", first),
    MICROSOFT("FastGelu", "float", "X:T bias:T? -> Y:T", "", first),
    MICROSOFT("Gelu", "float", "X:T -> Y:T", "", same),
    MICROSOFT("QuickGelu", "float", "X:T -> Y:T", "alpha:f=1.702", same),
    MICROSOFT("RotaryEmbedding", "float",
              "input:T position_ids:i64 cos_cache:T sin_cache:T -> output:T",
              "interleaved:i=0 is_packed_batching:i=0 num_heads:i=0"
              " rotary_embedding_dim:i=0 scale:f=1",
              same),
    MICROSOFT("SkipLayerNormalization", "float",
              "input:T skip:T gamma:T beta:T? bias:T? -> output:T mean:any"
              " inv_std_var:any input_skip_bias_sum:T",
              "epsilon:f=1e-12", skip_norm),
    MICROSOFT("SkipSimplifiedLayerNormalization", "float",
              "input:T skip:T gamma:T bias:T? -> output:T mean:any"
              " inv_std_var:any input_skip_bias_sum:T",
              "epsilon:f=1e-12", skip_norm),
    MICROSOFT("MultiHeadAttention", "f32_or_half",
              "query:T key:T? value:T? bias:T? key_padding_mask:i32?"
              " attention_bias:T? past_key:T? past_value:T?"
              " past_sequence_length:i32? cache_indirection:i32? -> output:T"
              " present_key:T present_value:T qk:T",
              "mask_filter_value:f=-10000 num_heads:i! scale:f=0"
              " unidirectional:i=0",
              multi_head_attention),
    MICROSOFT("Attention", "f32_or_half",
              "input:T weights:T bias:T? mask_index:i32? past:T?"
              " attention_bias:T? past_sequence_length:i32? -> output:T"
              " present:T",
              "do_rotary:i=0 mask_filter_value:f=-10000 num_heads:i!"
              " past_present_share_buffer:i=0 qkv_hidden_sizes:I"
              " rotary_embedding_dim:i=0 scale:f=0 unidirectional:i=0",
              projected_attention),
    MICROSOFT("QAttention", "byte",
              "input:T weight:W=byte bias:S=f32_or_half input_scale:S"
              " weight_scale:S mask_index:i32? input_zero_point:T?"
              " weight_zero_point:W? past:S? -> output:S present:S",
              "do_rotary:i=0 mask_filter_value:f=-10000 num_heads:i!"
              " past_present_share_buffer:i=0 scale:f=0 unidirectional:i=0",
              quantised_attention),
    MICROSOFT("EmbedLayerNormalization", "i32",
              "input_ids:T segment_ids:T? word_embedding:W=f32_or_half"
              " position_embedding:W segment_embedding:W? gamma:W beta:W"
              " mask:T? position_ids:T? -> output:W mask_index:T"
              " embedding_sum:W",
              "epsilon:f=1e-12 mask_index_type:i", embed_layer_norm),
    MICROSOFT("GatherBlockQuantized", "order_or_small",
              "data:T indices:index scales:S=f32_or_half zero_points:T? ->"
              " output:S",
              "bits:i=4 block_size:i=128 gather_axis:i=0 quantize_axis:i=1",
              gather_block_quantized),
    MICROSOFT("MoE", "f32_or_half",
              "input:T router_probs:T fc1_experts_weights:T"
              " fc1_experts_bias:T? fc2_experts_weights:T fc2_experts_bias:T?"
              " fc3_experts_weights:T? fc3_experts_bias:T? -> output:T",
              EXPERTS, experts),
    MICROSOFT(
        "QMoE", "f32_or_half",
        "input:T router_probs:T fc1_experts_weights:u8 fc1_scales:S=float?"
        " fc1_experts_bias:T? fc2_experts_weights:u8 fc2_scales:S?"
        " fc2_experts_bias:T? fc3_experts_weights:u8? fc3_scales:S?"
        " fc3_experts_bias:T? fc1_zero_points:u8? fc2_zero_points:u8?"
        " fc3_zero_points:u8? router_weights:T? fc1_global_scale:any?"
        " fc2_global_scale:any? fc1_act_scale:any? fc2_act_scale:any?"
        " fc1_act_block_scale:any? fc2_act_block_scale:any? -> output:T",
        EXPERTS " accuracy_level:i=0 block_size:i=0 expert_weight_bits:i=4"
                " fc1_expert_weight_bits:i fc2_expert_weight_bits:i"
                " fc3_expert_weight_bits:i quant_type:s=int"
                " weights_prepacked:i=-1",
        quantised_experts),
    MICROSOFT("QLinearAdd", "byte",
              "A:T A_scale:f32 A_zero_point:T? B:T B_scale:f32 B_zero_point:T?"
              " C_scale:f32 C_zero_point:T? -> C:T",
              "", qlinear_binary),
    MICROSOFT("QLinearMul", "byte",
              "A:T A_scale:f32 A_zero_point:T? B:T B_scale:f32 B_zero_point:T?"
              " C_scale:f32 C_zero_point:T? -> C:T",
              "", qlinear_binary),
    MICROSOFT("QLinearSigmoid", "byte", ONE_OF_BYTES, "", same),
    MICROSOFT("QLinearLeakyRelu", "byte", ONE_OF_BYTES, "alpha:f=0.01", same),
    MICROSOFT("QLinearSoftmax", "byte", ONE_OF_BYTES, "axis:i=-1 opset:i!",
              same),
    MICROSOFT("QLinearAveragePool", "byte", ONE_OF_BYTES,
              "auto_pad:s=NOTSET|SAME_UPPER|SAME_LOWER|VALID ceil_mode:i=0"
              " channels_last:i=0 count_include_pad:i=0 kernel_shape:I! pads:I"
              " strides:I",
              pool),
    MICROSOFT("QLinearGlobalAveragePool", "byte", ONE_OF_BYTES,
              "channels_last:i=0", global_pool),
    MICROSOFT("QLinearConcat", "f32",
              "Y_scale:T Y_zero_point:B=byte inputs:any% -> Y:B", "axis:i!",
              qlinear_concat),
    MICROSOFT("MatMulIntegerToFloat", "byte",
              "A:T B:B=byte a_scale:S=float b_scale:S a_zero_point:T?"
              " b_zero_point:B? bias:S? -> Y:S",
              "", matmul),
    MICROSOFT("DynamicQuantizeMatMul", "f32",
              "A:T B:B=byte b_scale:T b_zero_point:B? bias:T? -> Y:T", "",
              matmul),
    MICROSOFT("QGemm", "byte",
              "A:T a_scale:f32 a_zero_point:T B:B=byte b_scale:f32"
              " b_zero_point:B C:i32? y_scale:f32? y_zero_point:byte? -> Y:any",
              "alpha:f=1 transA:i=0 transB:i=0", qgemm),
    MICROSOFT("QuantizeLinear", "float",
              "x:T y_scale:T y_zero_point:quant_or_small? -> y:any", "axis:i",
              quantize),
    MICROSOFT("DequantizeLinear", "num_or_small",
              "x:T x_scale:float x_zero_point:T? -> y:any", "axis:i",
              dequantize),
    {NULL, "SimplifiedLayerNormalization", 1, "float",
     "X:T scale:T -> Y:T inv_std_var:any",
     "axis:i=-1 epsilon:f=1e-05 stash_type:i=1", keel_shape_norm_alone, 0, 0,
     KEEL_BY_KERNEL, NULL},
    /* models of scikit-learn and its like, which are written with other ops, too */
    ML("ArrayFeatureExtractor", 1, "plain", "X:T Y:i64 -> Z:T", "",
       ml_features),
    ML("Binarizer", 1, "num", "X:T -> Y:T", "threshold:f=0", same),
    ML("CastMap", 1, "any", "X:any% -> Y:any",
       "cast_to:s=TO_FLOAT|TO_STRING|TO_INT64 map_form:s=DENSE|SPARSE"
       " max_map:i=1",
       by_content),
    ML("DictVectorizer", 1, "any", "X:any% -> Y:any",
       "int64_vocabulary:I string_vocabulary:S", by_content),
    ML("CategoryMapper", 1, "i64", "X:any -> Y:any",
       "cats_int64s:I cats_strings:S default_int64:i=-1"
       " default_string:s=_Unused",
       ml_encoded),
    ML("FeatureVectorizer", 1, "num", "X:num% -> Y:f32", "inputdimensions:I",
       ml_joined),
    ML("Imputer", 1, "num", "X:T -> Y:T",
       "imputed_value_floats:F imputed_value_int64s:I replaced_value_float:f=0"
       " replaced_value_int64:i=0",
       same),
    ML("LabelEncoder", 4, "order", "X:T -> Y:any",
       "classes_strings:S default_float:f=0 default_int64:i=-1"
       " default_string:s=_Unused default_tensor:t keys_floats:F keys_int64s:I"
       " keys_strings:S keys_tensor:t values_floats:F values_int64s:I"
       " values_strings:S values_tensor:t",
       ml_encoded),
    ML("LinearClassifier", 1, "num", "X:T -> Y:any Z:f32",
       "classlabels_ints:I classlabels_strings:S coefficients:F! intercepts:F"
       " multi_class:i=0 " TRANSFORM,
       ml_classes),
    ML("LinearRegressor", 1, "num", "X:T -> Y:f32",
       "coefficients:F intercepts:F targets:i=1 " TRANSFORM, ml_targets),
    ML("Normalizer", 1, "num", "X:T -> Y:f32", "norm:s=MAX|L1|L2", same),
    ML("OneHotEncoder", 1, "order", "X:T -> Y:f32",
       "cats_int64s:I cats_strings:S zeros:i=1", ml_one_hot),
    ML("Scaler", 1, "num", "X:T -> Y:f32", "offset:F scale:F", same),
    ML("SVMClassifier", 1, "num", "X:T -> Y:any Z:f32",
       "classlabels_ints:I classlabels_strings:S prob_a:F prob_b:F"
       " vectors_per_class:I " SVM,
       ml_classes),
    ML("SVMRegressor", 1, "num", "X:T -> Y:f32",
       "n_supports:i=0 one_class:i=0 " SVM, ml_targets),
    ML("TreeEnsemble", 5, "float", "X:T -> Y:T",
       "aggregate_function:i=1 leaf_targetids:I! leaf_weights:t!"
       " membership_values:t n_targets:i nodes_falseleafs:I!"
       " nodes_falsenodeids:I! nodes_featureids:I! nodes_hitrates:t"
       " nodes_missing_value_tracks_true:I nodes_modes:t! nodes_splits:t!"
       " nodes_trueleafs:I! nodes_truenodeids:I! post_transform:i=0"
       " tree_roots:I!",
       ml_targets),
    ML("TreeEnsembleClassifier", 5, "num", "X:T -> Y:any Z:f32",
       "class_ids:I class_nodeids:I class_treeids:I class_weights:F"
       " class_weights_as_tensor:t classlabels_int64s:I"
       " classlabels_strings:S " TREE_NODES,
       ml_classes),
    ML("TreeEnsembleRegressor", 5, "num", "X:T -> Y:f32",
       "aggregate_function:s=SUM|AVERAGE|MIN|MAX n_targets:i target_ids:I"
       " target_nodeids:I target_treeids:I target_weights:F"
       " target_weights_as_tensor:t " TREE_NODES,
       ml_targets),
    ML("ZipMap", 1, "f32", "X:T -> Z:T",
       "classlabels_int64s:I classlabels_strings:S", ml_zip),

    /* numbers at random */
    RANDOM("RandomNormal", 1, "-> output:any",
           "dtype:i=1 mean:f=0 scale:f=1 seed:f shape:I!", random,
           random_normal),
    RANDOM("RandomUniform", 1, "-> output:any",
           "dtype:i=1 high:f=1 low:f=0 seed:f shape:I!", random,
           random_uniform),
    RANDOM("RandomNormalLike", 1, "input:plain -> output:any",
           "dtype:i mean:f=0 scale:f=1 seed:f", random_like, random_normal),
    RANDOM("RandomUniformLike", 1, "input:plain -> output:any",
           "dtype:i high:f=1 low:f=0 seed:f", random_like, random_uniform),
    RANDOM("Multinomial", 7, "input:float -> output:any",
           "dtype:i=6 sample_size:i=1 seed:f", multinomial, multinomial),
    RANDOM("Bernoulli", 15, "input:float -> output:any", "dtype:i seed:f",
           random_like, bernoulli),

    /* the runtime's own: views of data, values that are no tensors, control */
    RUNTIME_AS(KEEL_IDENTITY, "Identity", 16, "input:any -> output:any", "",
               none, 0, identity),
    RUNTIME_AS(KEEL_VIEW, "Reshape", 14, "data:T=plain shape:i64 -> reshaped:T",
               "allowzero:i=0", reshape, 2, view),
    RUNTIME_AS(KEEL_VIEW, "Flatten", 13, "input:T=plain -> output:T",
               "axis:i=1", flatten, 0, view),
    RUNTIME_AS(KEEL_VIEW, "Squeeze", 13, "data:T=plain axes:i64? -> squeezed:T",
               "", squeeze, 2, view),
    RUNTIME_AS(KEEL_VIEW, "Unsqueeze", 13,
               "data:T=plain axes:i64 -> expanded:T", "", unsqueeze, 2, view),
    RUNTIME_AS(KEEL_VIEW, "BitCast", 26, "input:any -> output:any", "to:i!",
               bit_cast, 0, view),
    RUNTIME_AS(KEEL_FACT, "Shape", 15, "data:plain -> shape:i64",
               "end:i start:i=0", shape, 0, shape),
    RUNTIME_AS(KEEL_FACT, "Size", 13, "data:plain -> size:i64", "", size, 0,
               size),
    RUNTIME("Dropout", 13,
            "data:T=float ratio:float? training_mode:bool? -> output:T"
            " mask:bool",
            "seed:i", dropout, 0, dropout),
    RUNTIME("ImageDecoder", 20, "encoded_stream:u8 -> image:u8",
            "pixel_format:s=RGB|BGR|Grayscale", by_content, 0, image_decoder),
    RUNTIME("Constant", 13, "-> output:any",
            "sparse_value:t value:t value_float:f value_floats:F value_int:i"
            " value_ints:I value_string:s value_strings:S",
            constant, 0, constant),
    RUNTIME("SequenceEmpty", 11, "-> output:any", "dtype:i", none, 0,
            sequence_construct),
    RUNTIME("SequenceConstruct", 11, "inputs:any* -> output:any", "", none, 0,
            sequence_construct),
    RUNTIME("SequenceInsert", 11,
            "input_sequence:any tensor:any position:index? -> output:any", "",
            none, 0, sequence_insert),
    RUNTIME("SequenceErase", 11,
            "input_sequence:any position:index? ->"
            " output:any",
            "", none, 0, sequence_erase),
    RUNTIME("SequenceAt", 11,
            "input_sequence:any position:index ->"
            " tensor:any",
            "", none, 0, sequence_at),
    RUNTIME("SequenceLength", 11, "input_sequence:any -> length:i64", "", none,
            0, sequence_length),
    RUNTIME("SplitToSequence", 11, "input:any split:index? -> output:any",
            "axis:i=0 keepdims:i=1", none, 0, split_to_sequence),
    RUNTIME("ConcatFromSequence", 11, "input_sequence:any -> concat:any",
            "axis:i! new_axis:i=0", none, 0, concat_from_sequence),
    RUNTIME("Optional", 15, "input:any? -> output:any", "type:t", none, 0,
            optional),
    RUNTIME("OptionalHasElement", 18, "input:any? -> output:bool", "", none, 0,
            optional_has_element),
    RUNTIME("OptionalGetElement", 18, "input:any -> output:any", "", none, 0,
            optional_get_element),
    RUNTIME("StringConcat", 20, "X:string Y:string -> Z:string", "", broadcast,
            0, string_concat),
    RUNTIME("StringNormalizer", 10, "X:string -> Y:string",
            "case_change_action:s=NONE|LOWER|UPPER is_case_sensitive:i=0"
            " locale:s stopwords:S",
            by_content, 0, string_normalizer),
    RUNTIME("StringSplit", 20, "X:string -> Y:string Z:i64",
            "delimiter:s maxsplit:i", by_content, 0, string_split),
    RUNTIME("RegexFullMatch", 20, "X:string -> Y:bool", "pattern:s", same, 0,
            regex_full_match),
    RUNTIME("TfIdfVectorizer", 9, "X:any -> Y:f32",
            "max_gram_length:i! max_skip_count:i! min_gram_length:i!"
            " mode:s=TF|IDF|TFIDF ngram_counts:I! ngram_indexes:I!"
            " pool_int64s:I pool_strings:S weights:F",
            tf_idf, 0, tf_idf_vectorizer),
    {"com.microsoft", "Tokenizer", 1, "any", "X:string -> Y:string",
     "mark:i! mincharnum:i! pad_value:s! separators:S stopwords:S tokenexp:s",
     keel_shape_by_content, 0, 0, KEEL_BY_HOST, keel_run_tokenizer},
    CONTROL("If", 16, "cond:bool captures:any% -> outputs:any%",
            "then_branch:g! else_branch:g!", KEEL_IF),
    CONTROL("Loop", 16, "M:any? cond:any? v_initial:any% -> outputs:any%",
            "body:g!", KEEL_LOOP),
    CONTROL("Scan", 16, "inputs:any% -> outputs:any%",
            "body:g! num_scan_inputs:i! scan_input_axes:I"
            " scan_input_directions:I scan_output_axes:I"
            " scan_output_directions:I",
            KEEL_SCAN),
    CONTROL("SequenceMap", 17, "inputs:any% -> outputs:any%", "body:g!",
            KEEL_SEQUENCE_MAP),

    /* keel's own */
    {"keel", "Copy", 1, "any", "X:any -> Y:any", "host:i=0", keel_shape_none, 0,
     0, KEEL_COPY, keel_run_copy},
    /* StableHLO's bitcast_convert: as BitCast, and between elements of different sizes with a
     * last dimension for the parts of the larger one */
    {"keel", "Bitcast", 1, "any", "X:any -> Y:any", "to:i!", keel_shape_bitcast,
     0, 0, KEEL_VIEW, keel_run_view},
    /* what a device records, of a function with nodes elsewhere (passes/outline.c) */
    {"keel", "Call", 1, "any", "inputs:any% -> outputs:any%", "body:g!",
     keel_shape_none, 0, KEEL_OP_CONTROL, KEEL_CALL, NULL},
    /* elements of X where they lie; plans make it (passes/parts.c) */
    {"keel", "Part", 1, "any", "X:any -> Y:any", "offset:i=0 strides:I",
     keel_shape_none, 0, 0, KEEL_PART, keel_run_part},
    /* numbers in [0, 1), and normal ones: functions of seed and counter */
    {"keel", "Uniform", 1, "any", "seed:i64 counter:i64 shape:i64 -> Y:any",
     "dtype:i=1", keel_shape_counted, 4, 0, KEEL_BY_HOST, keel_run_uniform},
    {"keel", "Normal", 1, "any", "seed:i64 counter:i64 shape:i64 -> Y:any",
     "dtype:i=1", keel_shape_counted, 4, 0, KEEL_BY_HOST, keel_run_normal},
    /* along which a shape is broadcast to another, in which it fits: for gradients */
    {"keel", "BroadcastAxes", 1, "i64", "wide:T narrow:T -> axes:T", "",
     keel_shape_by_content, 0, 0, KEEL_BY_HOST, keel_run_broadcast_axes},
    KEEL("Reorder", "X:T -> Y:T", "", same),
    /* what a device compiled as a whole; plans make it (passes/regions.c) */
    KEEL("Region", "inputs:any% -> outputs:any%", "ops:S", region),
    /* what keeps its content between runs; see keel/op.h */
    STATE("Variable", KEEL_OP_MAKES, "initial:any -> variable:any",
          "any_shape:i=0", variable),
    STATE("VariableRead", KEEL_OP_READS, "variable:any -> value:any", "",
          variable_read),
    STATE("VariableAssign", KEEL_OP_WRITES,
          "variable:any value:any -> assigned:any", "", variable_assign),
    STATE("Counter", KEEL_OP_MAKES, "start:i64? -> counter:any", "", counter),
    STATE("CounterAdd", KEEL_OP_WRITES, "counter:any by:i64? -> before:i64", "",
          counter_add),
    STATE("Table", KEEL_OP_MAKES, "absent:any -> table:any", "", table),
    STATE("TableInsert", KEEL_OP_WRITES,
          "table:any keys:i64 rows:any -> count:i64", "", table_insert),
    STATE("TableFind", KEEL_OP_READS,
          "table:any keys:i64 -> rows:any found:bool", "", table_find),
    STATE("TableErase", KEEL_OP_WRITES, "table:any keys:i64 -> erased:i64", "",
          table_erase),
    STATE("TableEntries", KEEL_OP_READS, "table:any -> keys:i64 rows:any", "",
          table_entries),
    /* by which the members of a group exchange values; see keel/op.h */
    EXCHANGE("AllReduce", "member:any X:T -> Y:T",
             "reduction:s=sum|product|min|max size:i=0 ranks:I"),
    EXCHANGE("AllGather", "member:any X:T -> Y:T", "size:i! ranks:I"),
    EXCHANGE("ReduceScatter", "member:any X:T -> Y:T",
             "reduction:s=sum|product|min|max size:i! ranks:I"),
    EXCHANGE("AllToAll", "member:any X:T -> Y:T", "size:i! ranks:I"),
    EXCHANGE("Broadcast", "member:any X:T -> Y:T", "size:i=0 ranks:I"),
    EXCHANGE("Permute", "member:any X:T -> Y:T", "pairs:I!"),
    {"keel", "Send", 1, "any", "member:any X:T -> Y:T", "to:i!",
     keel_shape_exchange, 0, KEEL_OP_WRITES | KEEL_OP_MEETS, KEEL_BY_HOST,
     keel_run_pair},
    {"keel", "Receive", 1, "any", "member:any -> Y:any",
     "from:i! dtype:i=1 shape:I", keel_shape_random, 0,
     KEEL_OP_WRITES | KEEL_OP_MEETS, KEEL_BY_HOST, keel_run_pair},
    {"keel", "Rank", 1, "any", "member:any -> rank:i64", "", keel_shape_rank, 0,
     KEEL_OP_READS, KEEL_BY_HOST, keel_run_rank},
};

const uint32_t keel_schema_row_count = KEEL_COUNT_OF(keel_schema_rows);
