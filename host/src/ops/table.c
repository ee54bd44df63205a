/* table.c - all ops that Keel knows, one line each.
 *
 * Names, parameters and attributes are ONNX's (onnx/docs/Operators.md), in the
 * newest form up to opset 28; the importer brings older models to it. Rows read
 * as: inputs and outputs, NAME:TYPES, where a capital letter is a type that all
 * its arguments share (T=float: one of the floating types), then ? optional,
 * * any number, % any number of any types; attributes NAME:KIND, with kinds
 * f float, i int, s string, t tensor, g graph, F I S lists of these, then !
 * required or =default, and what else a string can be, |words. The sets are in
 * schema.c. */
#include "ops/resource.h"
#include "ops/runtime.h"
#include "ops/shapes.h"

/* of ops whose types are known after the run only */
#define keel_shape_none NULL
#define UNARY(name, since, set, attrs) \
  { NULL, name, since, "X:T=" set " -> Y:T", attrs, keel_shape_same, 0, 0, KEEL_BY_KERNEL, NULL }
#define BINARY(name, since, set, attrs)                                  \
  {                                                                      \
    NULL, name, since, "A:T=" set " B:T -> C:T", attrs,                  \
        keel_shape_broadcast, 0, 0, KEEL_BY_KERNEL, NULL                                 \
  }
#define REDUCE(name, since)                                              \
  {                                                                      \
    NULL, name, since, "data:T=num axes:i64? -> reduced:T",                 \
        "keepdims:i=1 noop_with_empty_axes:i=0", keel_shape_reduce, 2, 0, \
        KEEL_BY_KERNEL, NULL                                                             \
  }
/* of true and false, too */
#define REDUCE_ENDS(name)                                                 \
  {                                                                       \
    NULL, name, 20, "data:T=order axes:i64? -> reduced:T",                \
        "keepdims:i=1 noop_with_empty_axes:i=0", keel_shape_reduce, 2, 0, \
        KEEL_BY_KERNEL, NULL                                                              \
  }
#define ROW(name, since, params, attrs, shape, values) \
  { NULL, name, since, params, attrs, keel_shape_##shape, values, 0, KEEL_BY_KERNEL, NULL }
#define DYNAMIC(name, since, params, attrs)                  \
  {                                                          \
    NULL, name, since, params, attrs, keel_shape_dynamic, 0, \
        KEEL_OP_DYNAMIC, KEEL_BY_KERNEL, NULL                                \
  }
#define RUNTIME_AS(kind, name, since, params, attrs, shape, values, function) \
  {                                                                     \
    NULL, name, since, params, attrs, keel_shape_##shape, values, 0,    \
        kind, keel_run_##function                                       \
  }
#define RUNTIME(...) RUNTIME_AS(KEEL_BY_HOST, __VA_ARGS__)
#define CONTROL(name, since, params, attrs, kind)        \
  {                                                      \
    NULL, name, since, params, attrs, keel_shape_none, 0, \
        KEEL_OP_CONTROL, kind, NULL                      \
  }
#define RANDOM(name, since, params, attrs, shape, function)             \
  {                                                                     \
    NULL, name, since, params, attrs, keel_shape_##shape, 0,            \
        KEEL_OP_RANDOM, KEEL_BY_HOST, keel_run_##function                             \
  }
#define KEEL(name, params, attrs, shape) \
  { "keel", name, 1, params, attrs, keel_shape_##shape, 0, 0, KEEL_BY_KERNEL, NULL }

#define STATE(name, flag, params, attrs, function)                    \
  {                                                                   \
    "keel", name, 1, params, attrs, keel_shape_none, 0, flag,      \
        KEEL_BY_HOST, keel_run_##function                             \
  }

#define WINDOW "auto_pad:s=NOTSET|SAME_UPPER|SAME_LOWER|VALID dilations:I kernel_shape:I pads:I strides:I"

const keel_schema_row keel_schema_rows[] = {
    /* one element each, or two that are broadcast */
#define UNARY_OP(op, since, types, kernels, attributes)                    \
  {NULL, #op, since, "X:T=" #types " -> Y:T", attributes, keel_shape_same, \
   0,    0,   KEEL_BY_KERNEL, NULL},
#define BINARY_OP(op, since, types, attributes)                      \
  {NULL, #op, since, "A:T=" #types " B:T -> C:T", attributes,        \
   keel_shape_broadcast, 0, 0, KEEL_BY_KERNEL, NULL},
#define COMPARE_OP(op, since, types)                                    \
  {NULL, #op, since, "A:T=" #types " B:T -> C:bool", "",                \
   keel_shape_broadcast, 0, 0, KEEL_BY_KERNEL, NULL},
#include "onnx/elementwise.def"
    UNARY("Gelu", 20, "float", "approximate:s=none|tanh"),
    UNARY("Not", 1, "bool", ""),
    ROW("IsInf", 10, "X:T=float -> Y:bool",
        "detect_negative:i=1 detect_positive:i=1", same, 0),
    ROW("IsNaN", 13, "X:T=float -> Y:bool", "", same, 0),
    ROW("Cast", 13, "X:plain -> Y:any", "to:i! saturate:i=1", cast, 0),
    ROW("CastLike", 15, "X:plain like:plain -> Y:any", "saturate:i=1",
        cast_like, 0),
    ROW("Clip", 13, "X:T=num min:T? max:T? -> Y:T", "", same, 0),

    /* two or more, broadcast */
    BINARY("Mod", 28, "num", "fmod:i=0"),
    BINARY("BitShift", 28, "int", "direction:s!LEFT|RIGHT"),
    ROW("Pow", 15, "X:T=num Y:num -> Z:T", "", broadcast, 0),
    ROW("Where", 16, "condition:bool X:T=plain Y:T -> Z:T", "", where, 0),
    ROW("Max", 13, "data:T=num* -> max:T", "", broadcast, 0),
    ROW("Mean", 13, "data:T=float* -> mean:T", "", broadcast, 0),
    ROW("Min", 13, "data:T=num* -> min:T", "", broadcast, 0),
    ROW("Sum", 13, "data:T=float* -> sum:T", "", broadcast, 0),

    /* reductions */
    REDUCE("ReduceL1", 18),
    REDUCE("ReduceL2", 18),
    REDUCE("ReduceLogSum", 18),
    REDUCE("ReduceLogSumExp", 18),
    REDUCE_ENDS("ReduceMax"),
    REDUCE("ReduceMean", 18),
    REDUCE_ENDS("ReduceMin"),
    REDUCE("ReduceProd", 18),
    REDUCE("ReduceSum", 13),
    REDUCE("ReduceSumSquare", 18),
    ROW("ArgMax", 13, "data:T=num -> reduced:i64",
        "axis:i=0 keepdims:i=1 select_last_index:i=0", arg_reduce, 0),
    ROW("ArgMin", 13, "data:T=num -> reduced:i64",
        "axis:i=0 keepdims:i=1 select_last_index:i=0", arg_reduce, 0),
    ROW("CumSum", 14, "x:T=num axis:index -> y:T", "exclusive:i=0 reverse:i=0",
        same, 0),
    ROW("TopK", 11, "X:T=num K:i64 -> Values:T Indices:i64",
        "axis:i=-1 largest:i=1 sorted:i=1", top_k, 2),

    /* normalisation */
    UNARY("Softmax", 13, "float", "axis:i=-1"),
    UNARY("LogSoftmax", 13, "float", "axis:i=-1"),
    UNARY("Hardmax", 13, "float", "axis:i=-1"),
    UNARY("LpNormalization", 1, "float", "axis:i=-1 p:i=2"),
    UNARY("LRN", 13, "float",
          "alpha:f=0.0001 beta:f=0.75 bias:f=1 size:i!"),
    UNARY("MeanVarianceNormalization", 13, "float", "axes:I"),
    ROW("BatchNormalization", 15,
        "X:T=float scale:S=float B:S input_mean:U=float input_var:U ->"
        " Y:T running_mean:U running_var:U",
        "epsilon:f=1e-05 momentum:f=0.9 training_mode:i=0", batch_norm, 0),
    ROW("InstanceNormalization", 6, "input:T=float scale:T B:T -> output:T",
        "epsilon:f=1e-05", same, 0),
    ROW("GroupNormalization", 21, "X:T=float scale:T bias:T -> Y:T",
        "epsilon:f=1e-05 num_groups:i! stash_type:i=1", group_norm, 0),
    ROW("LayerNormalization", 17,
        "X:T=float Scale:T B:T? -> Y:T Mean:any InvStdDev:any",
        "axis:i=-1 epsilon:f=1e-05 stash_type:i=1", layer_norm, 0),
    ROW("RMSNormalization", 23, "X:T=float scale:T -> Y:T",
        "axis:i=-1 epsilon:f=1e-05 stash_type:i=1", rms_norm, 0),

    /* products */
    ROW("MatMul", 13, "A:T=num B:T -> Y:T", "", matmul, 0),
    ROW("MatMulInteger", 10,
        "A:A=byte B:B=byte a_zero_point:A? b_zero_point:B? -> Y:i32", "",
        matmul, 0),
    ROW("QLinearMatMul", 21,
        "a:A=byte a_scale:S=scale a_zero_point:A b:B=byte b_scale:S"
        " b_zero_point:B y_scale:S y_zero_point:C=byte -> y:C",
        "", qlinear_matmul, 0),
    ROW("Gemm", 13, "A:T=num B:T C:T? -> Y:T",
        "alpha:f=1 beta:f=1 transA:i=0 transB:i=0", gemm, 0),
    ROW("Einsum", 12, "Inputs:T=num* -> Output:T", "equation:s!", einsum, 0),
    ROW("Det", 11, "X:T=float -> Y:T", "", det, 0),

    /* windows */
    ROW("Conv", 11, "X:T=float W:T B:T? -> Y:T", "group:i=1 " WINDOW, conv, 0),
    ROW("ConvInteger", 10,
        "x:A=byte w:B=byte x_zero_point:A? w_zero_point:B? -> y:i32",
        "group:i=1 " WINDOW, conv, 0),
    ROW("QLinearConv", 10,
        "x:A=byte x_scale:f32 x_zero_point:A w:B=byte w_scale:f32"
        " w_zero_point:B y_scale:f32 y_zero_point:C=byte B:i32? -> y:C",
        "group:i=1 " WINDOW, qlinear_conv, 0),
    ROW("ConvTranspose", 11, "X:T=float W:T B:T? -> Y:T",
        "group:i=1 output_padding:I output_shape:I " WINDOW, conv_transpose, 0),
    ROW("MaxPool", 12, "X:T=num -> Y:T Indices:i64",
        "ceil_mode:i=0 storage_order:i=0 " WINDOW, pool, 0),
    ROW("AveragePool", 19, "X:T=float -> Y:T",
        "ceil_mode:i=0 count_include_pad:i=0 " WINDOW, pool, 0),
    ROW("LpPool", 18, "X:T=float -> Y:T", "ceil_mode:i=0 p:i=2 " WINDOW, pool,
        0),
    ROW("GlobalAveragePool", 1, "X:T=float -> Y:T", "", global_pool, 0),
    ROW("GlobalLpPool", 2, "X:T=float -> Y:T", "p:i=2", global_pool, 0),
    ROW("GlobalMaxPool", 1, "X:T=float -> Y:T", "", global_pool, 0),
    ROW("MaxUnpool", 11, "X:T=float I:i64 output_shape:i64? -> output:T",
        "kernel_shape:I! pads:I strides:I", max_unpool, 4),
    ROW("Resize", 18,
        "X:T=num roi:float? scales:f32? sizes:i64? -> Y:T",
        "antialias:i=0 axes:I coordinate_transformation_mode:s=half_pixel "
        "cubic_coeff_a:f=-0.75 exclude_outside:i=0 extrapolation_value:f=0 "
        "keep_aspect_ratio_policy:s=stretch mode:s=nearest "
        "nearest_mode:s=round_prefer_floor",
        resize, 12),
    ROW("GridSample", 20, "X:T=num grid:S=float -> Y:T",
        "align_corners:i=0 mode:s=linear|nearest|cubic"
        " padding_mode:s=zeros|border|reflection", grid_sample, 0),
    ROW("RoiAlign", 16, "X:T=float rois:T batch_indices:i64 -> Y:T",
        "coordinate_transformation_mode:s=half_pixel|output_half_pixel"
        " mode:s=avg|max"
        " output_height:i=1 output_width:i=1 sampling_ratio:i=0"
        " spatial_scale:f=1",
        roi_align, 0),

    /* moving data */
    ROW("Transpose", 13, "data:T=plain -> transposed:T", "perm:I", transpose,
        0),
    ROW("Expand", 13, "input:T=plain shape:i64 -> output:T", "", expand, 2),
    ROW("Concat", 13, "inputs:T=plain* -> concat_result:T", "axis:i!", concat,
        0),
    ROW("Split", 18, "input:T=plain split:i64? -> outputs:T*",
        "axis:i=0 num_outputs:i", split, 2),
    ROW("Slice", 13,
        "data:T=plain starts:I=index ends:I axes:I? steps:I? -> output:T", "",
        slice, 30),
    ROW("Pad", 18,
        "data:T=plain pads:i64 constant_value:T? axes:index? -> output:T",
        "mode:s=constant|edge|reflect|wrap", pad, 10),
    ROW("Tile", 13, "input:T=plain repeats:i64 -> output:T", "", tile, 2),
    ROW("Gather", 13, "data:T=plain indices:index -> output:T", "axis:i=0",
        gather, 0),
    ROW("GatherElements", 13, "data:T=plain indices:index -> output:T",
        "axis:i=0", gather_elements, 0),
    ROW("GatherND", 13, "data:T=plain indices:i64 -> output:T",
        "batch_dims:i=0", gather_nd, 0),
    ROW("ScatterElements", 18,
        "data:T=plain indices:index updates:T -> output:T",
        "axis:i=0 reduction:s=none|add|mul|max|min", scatter, 0),
    ROW("ScatterND", 18, "data:T=plain indices:i64 updates:T -> output:T",
        "reduction:s=none|add|mul|max|min", scatter, 0),
    ROW("DepthToSpace", 13, "input:T=plain -> output:T",
        "blocksize:i! mode:s=DCR|CRD", depth_to_space, 0),
    ROW("SpaceToDepth", 28, "input:T=plain -> output:T",
        "blocksize:i! mode:s=DCR|CRD", space_to_depth, 0),
    ROW("ReverseSequence", 10, "input:T=plain sequence_lens:i64 -> Y:T",
        "batch_axis:i=1 time_axis:i=0", reverse_sequence, 0),
    ROW("Trilu", 14, "input:T=plain k:i64? -> output:T", "upper:i=1", same, 0),
    DYNAMIC("Compress", 11, "input:T=plain condition:bool -> output:T",
            "axis:i"),
    DYNAMIC("NonZero", 13, "X:T=plain -> Y:i64", ""),
    DYNAMIC("Unique", 11,
            "X:T=order -> Y:T indices:i64 inverse_indices:i64 counts:i64",
            "axis:i sorted:i=1"),
    DYNAMIC("NonMaxSuppression", 11,
            "boxes:f32 scores:f32 max_output_boxes_per_class:i64?"
            " iou_threshold:f32? score_threshold:f32? -> selected_indices:i64",
            "center_point_box:i=0"),

    /* making data */
    ROW("OneHot", 11, "indices:num depth:num values:T=plain -> output:T",
        "axis:i=-1", one_hot, 2),
    ROW("EyeLike", 9, "input:plain -> output:any", "dtype:i k:i=0", eye_like,
        0),
    ROW("ConstantOfShape", 9, "input:i64 -> output:any", "value:t",
        constant_of_shape, 1),
    ROW("Range", 27, "start:T=num limit:T delta:T -> output:T",
        "stash_type:i=1", range, 7),
    ROW("BlackmanWindow", 17, "size:index -> output:any",
        "output_datatype:i=1 periodic:i=1", window, 1),
    ROW("HammingWindow", 17, "size:index -> output:any",
        "output_datatype:i=1 periodic:i=1", window, 1),
    ROW("HannWindow", 17, "size:index -> output:any",
        "output_datatype:i=1 periodic:i=1", window, 1),
    ROW("DFT", 20,
        "input:T=float dft_length:index? axis:index? -> output:T",
        "inverse:i=0 onesided:i=0", dft, 6),
    ROW("STFT", 17,
        "signal:T=float frame_step:I=index window:T? frame_length:I? ->"
        " output:T",
        "onesided:i=1", stft, 10),
    ROW("MelWeightMatrix", 17,
        "num_mel_bins:I=index dft_length:I sample_rate:I"
        " lower_edge_hertz:F=float upper_edge_hertz:F -> output:any",
        "output_datatype:i=1", mel, 3),
    RANDOM("RandomNormal", 1, "-> output:any",
           "dtype:i=1 mean:f=0 scale:f=1 seed:f shape:I!", random,
           random_normal),
    RANDOM("RandomUniform", 1, "-> output:any",
           "dtype:i=1 high:f=1 low:f=0 seed:f shape:I!", random,
           random_uniform),
    RANDOM("RandomNormalLike", 1, "input:plain -> output:any",
           "dtype:i mean:f=0 scale:f=1 seed:f", random_like,
           random_normal),
    RANDOM("RandomUniformLike", 1, "input:plain -> output:any",
           "dtype:i high:f=1 low:f=0 seed:f", random_like,
           random_uniform),
    RANDOM("Bernoulli", 15, "input:float -> output:any", "dtype:i seed:f",
           random_like, bernoulli),

    /* quantisation */
    ROW("QuantizeLinear", 23,
        "x:num y_scale:scale y_zero_point:quant? -> y:any",
        "axis:i=1 block_size:i=0 output_dtype:i=0 precision:i=0 saturate:i=1",
        quantize, 0),
    ROW("DequantizeLinear", 23,
        "x:T=num x_scale:scale x_zero_point:T? -> y:any",
        "axis:i=1 block_size:i=0 output_dtype:i=0", dequantize, 0),
    ROW("DynamicQuantizeLinear", 11,
        "x:f32 -> y:u8 y_scale:f32 y_zero_point:u8", "", dynamic_quantize, 0),

    /* recurrent */
    ROW("RNN", 14,
        "X:T=float W:T R:T B:T? sequence_lens:i32? initial_h:T? ->"
        " Y:T Y_h:T",
        "activation_alpha:F activation_beta:F activations:S clip:f"
        " direction:s=forward|reverse|bidirectional hidden_size:i layout:i=0",
        rnn, 0),
    ROW("GRU", 14,
        "X:T=float W:T R:T B:T? sequence_lens:i32? initial_h:T? ->"
        " Y:T Y_h:T",
        "activation_alpha:F activation_beta:F activations:S clip:f"
        " direction:s=forward|reverse|bidirectional hidden_size:i layout:i=0 linear_before_reset:i=0",
        rnn, 0),
    ROW("LSTM", 14,
        "X:T=float W:T R:T B:T? sequence_lens:i32? initial_h:T? initial_c:T?"
        " P:T? -> Y:T Y_h:T Y_c:T",
        "activation_alpha:F activation_beta:F activations:S clip:f"
        " direction:s=forward|reverse|bidirectional hidden_size:i input_forget:i=0 layout:i=0",
        rnn, 0),

    /* losses */
    ROW("NegativeLogLikelihoodLoss", 13,
        "input:T=float target:index weight:T? -> loss:T",
        "ignore_index:i reduction:s=mean|sum|none", nll_loss, 0),
    ROW("SoftmaxCrossEntropyLoss", 13,
        "scores:T=float labels:index weights:T? -> output:T log_prob:T",
        "ignore_index:i reduction:s=mean|sum|none", sce_loss, 0),

    /* the runtime's own: views of data, values that are no tensors, control */
    RUNTIME_AS(KEEL_IDENTITY, "Identity", 16, "input:any -> output:any", "", none, 0,
            identity),
    RUNTIME_AS(KEEL_VIEW, "Reshape", 14, "data:T=plain shape:i64 -> reshaped:T",
            "allowzero:i=0", reshape, 2, view),
    RUNTIME_AS(KEEL_VIEW, "Flatten", 13, "input:T=plain -> output:T", "axis:i=1", flatten, 0,
            view),
    RUNTIME_AS(KEEL_VIEW, "Squeeze", 13, "data:T=plain axes:i64? -> squeezed:T", "", squeeze,
            2, view),
    RUNTIME_AS(KEEL_VIEW, "Unsqueeze", 13, "data:T=plain axes:i64 -> expanded:T", "",
            unsqueeze, 2, view),
    RUNTIME_AS(KEEL_FACT, "Shape", 15, "data:plain -> shape:i64", "end:i start:i=0", shape, 0,
            shape),
    RUNTIME_AS(KEEL_FACT, "Size", 13, "data:plain -> size:i64", "", size, 0, size),
    RUNTIME("Dropout", 13,
            "data:T=float ratio:float? training_mode:bool? -> output:T"
            " mask:bool",
            "seed:i", dropout, 0, dropout),
    RUNTIME("Constant", 13, "-> output:any",
            "sparse_value:t value:t value_float:f value_floats:F value_int:i"
            " value_ints:I value_string:s value_strings:S",
            constant, 0, constant),
    RUNTIME("SequenceEmpty", 11, "-> output:any", "dtype:i", none, 0,
            sequence_construct),
    RUNTIME("SequenceConstruct", 11, "inputs:any* -> output:any", "", none,
            0, sequence_construct),
    RUNTIME("SequenceInsert", 11,
            "input_sequence:any tensor:any position:index? -> output:any", "",
            none, 0, sequence_insert),
    RUNTIME("SequenceErase", 11, "input_sequence:any position:index? ->"
            " output:any", "", none, 0, sequence_erase),
    RUNTIME("SequenceAt", 11, "input_sequence:any position:index ->"
            " tensor:any", "", none, 0, sequence_at),
    RUNTIME("SequenceLength", 11, "input_sequence:any -> length:i64", "",
            none, 0, sequence_length),
    RUNTIME("SplitToSequence", 11, "input:any split:index? -> output:any",
            "axis:i=0 keepdims:i=1", none, 0, split_to_sequence),
    RUNTIME("ConcatFromSequence", 11, "input_sequence:any -> concat:any",
            "axis:i! new_axis:i=0", none, 0, concat_from_sequence),
    RUNTIME("Optional", 15, "input:any? -> output:any", "type:t", none, 0,
            optional),
    RUNTIME("OptionalHasElement", 18, "input:any? -> output:bool", "", none,
            0, optional_has_element),
    RUNTIME("OptionalGetElement", 18, "input:any -> output:any", "", none, 0,
            optional_get_element),
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
    KEEL("FusedConv", "X:T=float W:T B:T? Z:T? -> Y:T",
         "activation:s=none|Relu|Clip group:i=1 high:f low:f " WINDOW, fused_conv),
    KEEL("ActivatedConv", "X:T=float W:T B:T? Z:T? -> Y:T",
         "activation:s=Silu|HardSwish|LeakyRelu alpha:f=0.01 group:i=1 " WINDOW,
         fused_conv),
    KEEL("DepthwiseConv", "X:T=float W:T B:T? -> Y:T",
         "activation:s=none|Relu|Gelu|GeluTanh|Silu " WINDOW, depthwise_conv),
    KEEL("FusedMatMul", "A:T=float B:T bias:T? Z:T? -> Y:T",
         "activation:s=none|Relu|Gelu|GeluTanh|Silu", fused_matmul),
    KEEL("Attention", "Q:T=float K:T V:T mask:T? -> Y:T",
         "scale:f=1 causal:i=0 heads_last:i=0 nan_as_zero:i=0", attention),
    {"keel", "Copy", 1, "X:any -> Y:any", "host:i=0", keel_shape_none, 0, 0,
     KEEL_COPY, keel_run_copy},
    /* elements of X where they lie; plans make it (passes/parts.c) */
    {"keel", "Part", 1, "X:any -> Y:any", "offset:i=0 strides:I",
     keel_shape_none, 0, 0, KEEL_PART, keel_run_part},
    /* numbers in [0, 1), and normal ones: functions of seed and counter */
    {"keel", "Uniform", 1, "seed:i64 counter:i64 shape:i64 -> Y:any",
     "dtype:i=1", keel_shape_counted, 4, 0, KEEL_BY_HOST, keel_run_uniform},
    {"keel", "Normal", 1, "seed:i64 counter:i64 shape:i64 -> Y:any",
     "dtype:i=1", keel_shape_counted, 4, 0, KEEL_BY_HOST, keel_run_normal},
    KEEL("Reorder", "X:T=any -> Y:T", "", same),
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
    STATE("CounterAdd", KEEL_OP_WRITES, "counter:any by:i64? -> before:i64",
          "", counter_add),
    STATE("Table", KEEL_OP_MAKES, "absent:any -> table:any", "", table),
    STATE("TableInsert", KEEL_OP_WRITES,
          "table:any keys:i64 rows:any -> count:i64", "", table_insert),
    STATE("TableFind", KEEL_OP_READS,
          "table:any keys:i64 -> rows:any found:bool", "", table_find),
    STATE("TableErase", KEEL_OP_WRITES, "table:any keys:i64 -> erased:i64", "",
          table_erase),
    STATE("TableEntries", KEEL_OP_READS, "table:any -> keys:i64 rows:any", "",
          table_entries),
};

const uint32_t keel_schema_row_count = KEEL_COUNT_OF(keel_schema_rows);
