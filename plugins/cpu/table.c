/* table.c - what the plugin can do: one row an op. */
#include "table.h"

#include "cpu.h"
#include "families/estimate.h"
#include "kernels/elementwise.h"
#include "kernels/kernels.h"

#define ANY (KD_KERNEL_ANY_SHAPE | KD_KERNEL_ANY_OFFSET)
/* inputs are walked by their strides */
#define WALK      (ANY | KD_KERNEL_STRIDED)
#define AGNOSTIC  (WALK | KD_KERNEL_LAYOUT_AGNOSTIC)
#define NUMBER(n) ((const void *)(uintptr_t)(n))

#define ROW_WITH(name, set, run, number, ...)                               \
  {                                                                         \
    .struct_size = sizeof(kd_kernel_def), .op = name, .input_types = {set}, \
    .data = NUMBER(number), .cost = cost, .enqueue = run, __VA_ARGS__       \
  }
#define ROW(name, set, run, number) \
  ROW_WITH(name, set, run, number, .flags = ANY)
/* inputs that the kernel reads on the host, by bit */
#define HOST(name, set, run, number, bits) \
  ROW_WITH(name, set, run, number, .flags = ANY, .host_inputs = bits)
/* the output may take the first input's memory */
#define INPLACE(name, set, run, number) \
  ROW_WITH(name, set, run, number, .flags = ANY, .inplace = 1)
/* outputs of another type than the inputs: all that can be written */
#define TYPED(name, set, run, number, out) \
  ROW_WITH(name, set, run, number, .flags = ANY, .output_types = {out})
#define DYNAMIC(name, set, run) \
  ROW_WITH(name, set, run, 0, .flags = ANY | KD_KERNEL_DYNAMIC_OUTPUT)
#define UNARY(name, set)                                                  \
  {                                                                       \
    .struct_size = sizeof(kd_kernel_def), .flags = AGNOSTIC, .op = #name, \
    .input_types = {set}, .inplace = 1, .data = NUMBER(UNARY_##name),     \
    .cost = cost, .enqueue = cpu_run_unary                                \
  }
/* an operand that is broadcast can't be overwritten: the host forwards only
 * inputs of the output's size */
#define BINARY(name, set)                                                 \
  {                                                                       \
    .struct_size = sizeof(kd_kernel_def), .flags = AGNOSTIC, .op = #name, \
    .input_types = {set}, .inplace = 3, .data = NUMBER(BINARY_##name),    \
    .cost = cost, .enqueue = cpu_run_binary                               \
  }
#define WALKED(name, set, run, number) \
  ROW_WITH(name, set, run, number, .flags = WALK)

/* a constant second matrix is packed once */
#define PACKED                                                  \
  .create = cpu_create_product, .destroy = cpu_destroy_product, \
  .taken = cpu_taken_product

/* products of bytes; a constant operand is packed when the kernel is made */
#define BYTES(name, kind, of)                                            \
  ROW_WITH(#name, BYTE, cpu_run_##kind, 0,                               \
           .flags = ANY | KD_KERNEL_CONSTANTS_IN_CREATE,                 \
           .create = cpu_create_int8_##of, .taken = cpu_taken_int8_##of, \
           .destroy = cpu_destroy_int8_##of)

#define REDUCTION_OF(name, set) HOST(#name, set, cpu_run_reduce, CPU_##name, 2)
#define REDUCTION(name)         REDUCTION_OF(name, N)

/* without oneDNN, in the same layout: where it is preferred, and where oneDNN has no code */
#define DIRECT(space, name, how, rank, forward)                            \
  {                                                                        \
    .struct_size = sizeof(kd_kernel_def), .flags = KD_KERNEL_OWN_LAYOUT,   \
    .domain = space, .op = name, .input_types = {F32}, .inplace = forward, \
    .priority = rank, .supports = cpu_##how##_direct, .cost = cost,        \
    .create = cpu_create_direct, .taken = cpu_taken_direct,                \
    .workspace = cpu_direct_workspace, .enqueue = cpu_run_direct_blocked,  \
    .destroy = cpu_destroy_direct,                                         \
  }

/* in the same layout, those that do with fewer products */
#define FEWER(space, name, kind, forward)                                 \
  {                                                                       \
    .struct_size = sizeof(kd_kernel_def),                                 \
    .flags = KD_KERNEL_OWN_LAYOUT, .domain = space, .op = name,           \
    .input_types = {F32}, .inplace = forward, .priority = 3,              \
    .supports = cpu_supports_##kind, .cost = cost,                        \
    .create = cpu_create_##kind, .taken = cpu_taken_##kind,               \
    .workspace = cpu_##kind##_workspace,                                  \
    .enqueue = cpu_run_##kind, .destroy = cpu_destroy_##kind,             \
  }

/* by oneDNN, in the layout of blocked.c; the output may take input `forward` */
#define BLOCKED(space, name, kind, forward, ...)                           \
  {                                                                        \
    .struct_size = sizeof(kd_kernel_def), .flags = KD_KERNEL_OWN_LAYOUT,   \
    .domain = space, .op = name, .input_types = {F32}, .inplace = forward, \
    .priority = 1, .supports = cpu_supports_##kind, .cost = cost,          \
    .create = cpu_create_##kind, .workspace = cpu_blocked_workspace,       \
    .enqueue = cpu_run_##kind##_blocked, .destroy = cpu_destroy_blocked,   \
    __VA_ARGS__                                                            \
  }

/* by blocked_pool.c, in the same layout */
#define POOLED(name)                                                     \
  {                                                                      \
    .struct_size = sizeof(kd_kernel_def), .flags = KD_KERNEL_OWN_LAYOUT, \
    .op = name, .input_types = {F32}, .priority = 2,                     \
    .supports = cpu_supports_pool_blocks, .cost = cost,                  \
    .create = cpu_create_pool_blocks, .enqueue = cpu_run_pool_blocks,    \
    .destroy = cpu_destroy_pool_blocks,                                  \
  }

#include "onnx/sets.def"
#define F32 KD_TYPES(KD_F32)

/* the output is the input, in which some elements change */
static const kd_alias updated = {.flags = KD_ALIAS_MUST};
/* the last state may lie where the first one did */
static const kd_alias carried[] = {{.output = 1, .input = 5},
                                   {.output = 2, .input = 6}};
static kd_status cost(kd_device *device, const kd_node *node,
                      kd_cost *out_cost) {
  (void)device;
  return estimate_cost(cpu_host, node, out_cost);
}

const kd_kernel_def cpu_kernels[] = {
#define UNARY_OP(op, since, types, kernels, attributes) \
  UNARY(op, ONNX_SET_##kernels),
#define BINARY_OP(op, since, types, attributes) BINARY(op, ONNX_SET_##types),
#define COMPARE_OP(op, since, types)             \
  ROW_WITH(#op, ONNX_SET_##types, cpu_run_binary, BINARY_##op, .flags = WALK),
#include "onnx/elementwise.def"
    UNARY(Shrink, I),
    ROW_WITH("Gelu", F, cpu_run_gelu, 0, .flags = AGNOSTIC, .inplace = 1),
    INPLACE("Not", BOOL, cpu_run_not, 0),
    ROW("IsInf", F, cpu_run_is_inf, 0),
    ROW("IsNaN", F, cpu_run_is_nan, 0),
    TYPED("Cast", P, cpu_run_cast, 0, P),
    TYPED("CastLike", P, cpu_run_cast, 0, P),
    INPLACE("Clip", N, cpu_run_clip, 0),

    WALKED("Mod", N, cpu_run_mod, 0),
    WALKED("BitShift", I, cpu_run_shift, 0),
    WALKED("Pow", N, cpu_run_pow, 0),
    WALKED("Where", BOOL, cpu_run_where, 0),
    WALKED("Max", N, cpu_run_variadic, BINARY_Max),
    WALKED("Min", N, cpu_run_variadic, BINARY_Min),
    WALKED("Sum", F, cpu_run_variadic, BINARY_Add),
    WALKED("Mean", F, cpu_run_mean, 0),

    REDUCTION(ReduceSum),
    REDUCTION(ReduceMean),
    REDUCTION(ReduceProd),
    REDUCTION_OF(ReduceMax, N | BOOL),
    REDUCTION_OF(ReduceMin, N | BOOL),
    REDUCTION(ReduceL1),
    REDUCTION(ReduceL2),
    REDUCTION(ReduceSumSquare),
    REDUCTION(ReduceLogSum),
    REDUCTION(ReduceLogSumExp),
    ROW("ArgMax", N, cpu_run_arg_reduce, 1),
    ROW("ArgMin", N, cpu_run_arg_reduce, 0),
    HOST("CumSum", N, cpu_run_cum_sum, 0, 2),
    HOST("TopK", N, cpu_run_top_k, 0, 2),
    ROW("Softmax", F, cpu_run_softmax, 0),
    ROW("LogSoftmax", F, cpu_run_softmax, 1),
    ROW("Hardmax", F, cpu_run_softmax, 2),
    ROW("LpNormalization", F, cpu_run_lp_normalization, 0),

    ROW("BatchNormalization", F, cpu_run_batch_norm, 0),
    ROW("InstanceNormalization", F, cpu_run_instance_norm, 0),
    ROW("GroupNormalization", F, cpu_run_group_norm, 0),
    ROW("LayerNormalization", F, cpu_run_layer_norm, 0),
    ROW("RMSNormalization", F, cpu_run_rms_norm, 0),
    ROW("LRN", F, cpu_run_lrn, 0),
    ROW("MeanVarianceNormalization", F, cpu_run_mvn, 0),

    ROW_WITH("MatMul", N, cpu_run_matmul, 0, .flags = WALK,
             .workspace = cpu_matmul_workspace, PACKED),
    ROW_WITH("FusedMatMul", F32, cpu_run_fused_matmul, 0, .domain = "keel",
             .flags = ANY, PACKED),
    BYTES(MatMulInteger, matmul_integer, matmul),
    BYTES(QLinearMatMul, qlinear_matmul, matmul),
    ROW_WITH("Gemm", N, cpu_run_gemm, 0, .flags = ANY, PACKED),
    ROW("Det", F, cpu_run_det, 0),
    ROW("Einsum", N, cpu_run_einsum, 0),
    ROW_WITH("RNN", F, cpu_run_recurrent, 0, .flags = ANY, .aliases = carried,
             .create = cpu_create_recurrent,
             .workspace = cpu_recurrent_workspace,
             .destroy = cpu_destroy_recurrent, .alias_count = 1),
    ROW_WITH("GRU", F, cpu_run_recurrent, 1, .flags = ANY, .aliases = carried,
             .create = cpu_create_recurrent,
             .workspace = cpu_recurrent_workspace,
             .destroy = cpu_destroy_recurrent, .alias_count = 1),
    ROW_WITH("LSTM", F, cpu_run_recurrent, 2, .flags = ANY, .aliases = carried,
             .create = cpu_create_recurrent,
             .workspace = cpu_recurrent_workspace,
             .destroy = cpu_destroy_recurrent, .alias_count = 2),
    HOST("DFT", F, cpu_run_dft, 0, 6),
    HOST("STFT", F, cpu_run_stft, 0, 10),
    ROW_WITH("MelWeightMatrix", INDEX, cpu_run_mel, 0, .flags = ANY,
             .output_types = {N}, .host_inputs = 3),
    ROW("GridSample", N, cpu_run_grid_sample, 0),
    ROW("RoiAlign", F, cpu_run_roi_align, 0),

    {.struct_size = sizeof(kd_kernel_def),
     .flags = WALK,
     .domain = "keel",
     .op = "Attention",
     .input_types = {F32},
     .cost = cost,
     .enqueue = cpu_run_attention},
    {.struct_size = sizeof(kd_kernel_def),
     .flags = ANY,
     .domain = "keel",
     .op = "DepthwiseConv",
     .input_types = {F32},
     .supports = cpu_supports_depthwise,
     .cost = cost,
     .enqueue = cpu_run_depthwise},
    ROW("Conv", F, cpu_run_conv, 0),
    {.struct_size = sizeof(kd_kernel_def),
     .flags = ANY,
     .domain = "keel",
     .op = "FusedConv",
     .input_types = {F},
     .data = NUMBER(1),
     .cost = cost,
     .enqueue = cpu_run_conv},
    {.struct_size = sizeof(kd_kernel_def),
     .flags = ANY,
     .domain = "keel",
     .op = "ActivatedConv",
     .input_types = {F},
     .data = NUMBER(1),
     .cost = cost,
     .enqueue = cpu_run_conv},
    ROW_WITH("ConvTranspose", F, cpu_run_conv_transpose, 0, .flags = ANY,
             PACKED),
    BYTES(ConvInteger, conv_integer, conv),
    BYTES(QLinearConv, qlinear_conv, conv),
    ROW("MaxPool", F | BYTE, cpu_run_pool, 0),
    ROW("AveragePool", F, cpu_run_pool, 1),
    ROW("LpPool", F, cpu_run_pool, 2),
    ROW("GlobalMaxPool", F, cpu_run_global_pool, 0),
    ROW("GlobalAveragePool", F, cpu_run_global_pool, 1),
    ROW("GlobalLpPool", F, cpu_run_global_lp_pool, 2),
    HOST("MaxUnpool", F, cpu_run_max_unpool, 0, 4),
    HOST("Resize", N, cpu_run_resize, 0, 14),

    ROW("Transpose", MOVED, cpu_run_transpose, 0),
    ROW_WITH("Expand", MOVED, cpu_run_expand, 0, .flags = WALK,
             .host_inputs = 2),
    WALKED("Concat", MOVED, cpu_run_concat, 0),
    HOST("Split", MOVED, cpu_run_split, 0, 2),
    HOST("Slice", MOVED, cpu_run_slice, 0, 30),
    HOST("Pad", MOVED, cpu_run_pad, 0, 14),
    HOST("Tile", MOVED, cpu_run_tile, 0, 2),
    ROW("DepthToSpace", MOVED, cpu_run_depth_to_space, 0),
    ROW("SpaceToDepth", MOVED, cpu_run_space_to_depth, 0),
    HOST("Trilu", MOVED, cpu_run_trilu, 0, 2),
    ROW("ReverseSequence", MOVED, cpu_run_reverse_sequence, 0),
    ROW("Gather", MOVED, cpu_run_gather, 0),
    ROW("GatherElements", MOVED, cpu_run_gather_elements, 0),
    ROW("GatherND", MOVED, cpu_run_gather_nd, 0),
    ROW_WITH("ScatterElements", MOVED, cpu_run_scatter_elements, 0,
             .flags = ANY, .aliases = &updated, .alias_count = 1,
             .supports = cpu_supports_scatter),
    ROW_WITH("ScatterND", MOVED, cpu_run_scatter_nd, 0, .flags = ANY,
             .aliases = &updated, .alias_count = 1,
             .supports = cpu_supports_scatter),
    HOST("OneHot", N, cpu_run_one_hot, 0, 2),
    DYNAMIC("Compress", MOVED, cpu_run_compress),
    DYNAMIC("NonZero", MOVED, cpu_run_non_zero),
    DYNAMIC("Unique", N | BOOL, cpu_run_unique),
    DYNAMIC("NonMaxSuppression", F32, cpu_run_non_max_suppression),

    HOST("ConstantOfShape", KD_TYPES(KD_I64), cpu_run_constant_of_shape, 0, 1),
    HOST("Range", N, cpu_run_range, 0, 7),
    TYPED("EyeLike", P, cpu_run_eye_like, 0, P),
    TYPED("BlackmanWindow", INDEX, cpu_run_window, 0, F),
    TYPED("HammingWindow", INDEX, cpu_run_window, 0, F),
    TYPED("HannWindow", INDEX, cpu_run_window, 0, F),

    ROW("QuantizeLinear", N, cpu_run_quantize, 0),
    ROW("DequantizeLinear", N, cpu_run_dequantize, 0),
    ROW("DynamicQuantizeLinear", F32, cpu_run_dynamic_quantize, 0),
    ROW("NegativeLogLikelihoodLoss", F, cpu_run_nll_loss, 0),
    ROW("SoftmaxCrossEntropyLoss", F, cpu_run_sce_loss, 0),

#ifdef KEEL_WITH_DNNL
    FEWER("ai.onnx", "Conv", dilated, 0),
    FEWER("keel", "FusedConv", dilated, 8),
    FEWER("keel", "ActivatedConv", dilated, 8),
    FEWER("ai.onnx", "Conv", winograd, 0),
    FEWER("keel", "FusedConv", winograd, 8),
    FEWER("keel", "ActivatedConv", winograd, 8),
    DIRECT("ai.onnx", "Conv", prefers, 2, 0),
    DIRECT("keel", "FusedConv", prefers, 2, 8),
    DIRECT("keel", "ActivatedConv", prefers, 2, 8),
    BLOCKED("ai.onnx", "Conv", conv, 0, .taken = cpu_taken_conv),
    BLOCKED("keel", "FusedConv", conv, 8, .taken = cpu_taken_conv),
    BLOCKED("keel", "ActivatedConv", conv, 8, .taken = cpu_taken_conv),
    DIRECT("ai.onnx", "Conv", supports, 1, 0),
    DIRECT("keel", "FusedConv", supports, 1, 8),
    DIRECT("keel", "ActivatedConv", supports, 1, 8),
    POOLED("MaxPool"),
    POOLED("AveragePool"),
    BLOCKED("ai.onnx", "MaxPool", pool, 0, .taken = NULL),
    BLOCKED("ai.onnx", "AveragePool", pool, 0, .taken = NULL),
    BLOCKED("ai.onnx", "GlobalMaxPool", pool, 0, .taken = NULL),
    BLOCKED("ai.onnx", "GlobalAveragePool", pool, 0, .taken = NULL),
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_OWN_LAYOUT,
     .op = "Mul",
     .input_types = {F32},
     .inplace = 3,
     .priority = 1,
     .supports = cpu_supports_scale,
     .cost = cost,
     .enqueue = cpu_run_scale_blocked},
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_OWN_LAYOUT | KD_KERNEL_ADJOINS,
     .op = "Concat",
     .input_types = {F32},
     .priority = 1,
     .supports = cpu_supports_join,
     .cost = cost,
     .enqueue = cpu_run_concat_blocked},
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_OWN_LAYOUT,
     .op = "Slice",
     .input_types = {F32},
     .host_inputs = 30,
     .priority = 1,
     .supports = cpu_supports_cut,
     .cost = cost,
     .enqueue = cpu_run_slice_blocked},
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_OWN_LAYOUT | KD_KERNEL_ANY_OFFSET,
     .op = "Transpose",
     .input_types = {F32},
     .priority = 1,
     .supports = cpu_supports_turn,
     .cost = cost,
     .enqueue = cpu_run_transpose_blocked},
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_OWN_LAYOUT,
     .op = "Resize",
     .input_types = {F32},
     .host_inputs = 14,
     .priority = 1,
     .supports = cpu_supports_resize,
     .cost = cost,
     .enqueue = cpu_run_resize},
    {.struct_size = sizeof(kd_kernel_def),
     .flags = KD_KERNEL_OWN_LAYOUT,
     .op = "BatchNormalization",
     .input_types = {F32},
     .inplace = 1,
     .priority = 1,
     .supports = cpu_supports_norm,
     .cost = cost,
     .enqueue = cpu_run_norm_blocked},
#endif
};

_Static_assert(sizeof cpu_kernels / sizeof *cpu_kernels == CPU_KERNEL_COUNT,
               "CPU_KERNEL_COUNT in table.h is the number of rows");
