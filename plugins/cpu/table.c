/* table.c - what the plugin can do: one row an op. */
#include "table.h"

#include "cpu.h"
#include "defs/ops.h"
#include "families/estimate.h"
#include "elementwise/elementwise.h"
#include "kernels/kernels.h"

#define ANY (KD_KERNEL_ANY_SHAPE | KD_KERNEL_ANY_OFFSET)
/* inputs are walked by their strides */
#define WALK      (ANY | KD_KERNEL_STRIDED)
#define AGNOSTIC  (WALK | KD_KERNEL_LAYOUT_AGNOSTIC)
#define NUMBER(n) ((const void *)(uintptr_t)(n))

/* a kernel of op's types, which reads those inputs on the host whose values its shape depends
 * on */
#define ROW_WITH(op, run, number, ...) \
  ROW_AS(op, ONNX_TYPES_##op, ONNX_VALUES_##op, run, number, __VA_ARGS__)
/* the same, of other types and host inputs */
#define ROW_AS(name, set, bits, run, number, ...)                            \
  {                                                                          \
    .struct_size = sizeof(kd_kernel_def), .op = #name, .input_types = {set}, \
    .host_inputs = bits, .data = NUMBER(number), .cost = cost,               \
    .enqueue = cpu_run_##run, __VA_ARGS__                                    \
  }
#define ROW(op, run, number) ROW_WITH(op, run, number, .flags = ANY)
/* the output may take the first input's memory */
#define INPLACE(op, run, number) \
  ROW_WITH(op, run, number, .flags = ANY, .inplace = 1)
/* outputs of another type than the inputs: all that can be written */
#define TYPED(op, run, out) \
  ROW_AS(op, ONNX_TYPES_##op, 0, run, 0, .flags = ANY, .output_types = {out})
#define DYNAMIC(op, run) \
  ROW_WITH(op, run, 0, .flags = ANY | KD_KERNEL_DYNAMIC_OUTPUT)
#define UNARY(name, set) \
  ROW_AS(name, set, 0, unary, UNARY_##name, .flags = AGNOSTIC, .inplace = 1)
/* an operand that is broadcast can't be overwritten: the host forwards only
 * inputs of the output's size */
#define BINARY(name, set) \
  ROW_AS(name, set, 0, binary, BINARY_##name, .flags = AGNOSTIC, .inplace = 3)
#define WALKED(op, run, number) ROW_WITH(op, run, number, .flags = WALK)

/* a constant second matrix is packed once */
#define PACKED                                                  \
  .create = cpu_create_product, .destroy = cpu_destroy_product, \
  .taken = cpu_taken_product

/* products of bytes; a constant operand is packed when the kernel is made */
#define BYTES(op, run, of)                                               \
  ROW_WITH(op, run, 0, .flags = ANY | KD_KERNEL_CONSTANTS_IN_CREATE,     \
           .create = cpu_create_int8_##of, .taken = cpu_taken_int8_##of, \
           .destroy = cpu_destroy_int8_##of)

#define REDUCTION(op) ROW(op, reduce, CPU_##op)

/* of domain "keel" */
#define OWN(op, run, ...) OWN_OF(op, run, __VA_ARGS__, .flags = ANY)
#define OWN_OF(op, run, number, ...) \
  ROW_WITH(op, run, number, .domain = "keel", __VA_ARGS__)

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
#define FEWER(space, name, kind, forward)                                  \
  {                                                                        \
    .struct_size = sizeof(kd_kernel_def), .flags = KD_KERNEL_OWN_LAYOUT,   \
    .domain = space, .op = name, .input_types = {F32}, .inplace = forward, \
    .priority = 3, .supports = cpu_supports_##kind, .cost = cost,          \
    .create = cpu_create_##kind, .taken = cpu_taken_##kind,                \
    .workspace = cpu_##kind##_workspace, .enqueue = cpu_run_##kind,        \
    .destroy = cpu_destroy_##kind,                                         \
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

#define F32 ONNX_SET_f32

/* the output is the input, in which some elements change */
static const kd_alias updated = {.flags = KD_ALIAS_MUST};
/* the last state may lie where the first one did */
static const kd_alias carried[] = {{.output = 1, .input = 5},
                                   {.output = 2, .input = 6}};
/* rows are written into the cache that was there */
static const kd_alias cached[] = {
    {.output = 1, .input = 3, .flags = KD_ALIAS_MUST},
    {.output = 2, .input = 4, .flags = KD_ALIAS_MUST}};
static kd_status cost(kd_device *device, const kd_node *node,
                      kd_cost *out_cost) {
  (void)device;
  return estimate_cost(cpu_host, node, out_cost);
}

const kd_kernel_def cpu_kernels[] = {
#define UNARY_OP(op, since, types, kernels, attributes) \
  UNARY(op, ONNX_SET_##kernels),
#define BINARY_OP(op, since, types, attributes) BINARY(op, ONNX_SET_##types),
#define KEEL_UNARY_OP(op, types)                                       \
  ROW_AS(op, ONNX_SET_##types, 0, unary, UNARY_##op, .domain = "keel", \
         .flags = AGNOSTIC, .inplace = 1),
#define KEEL_BINARY_OP(op, types)                                        \
  ROW_AS(op, ONNX_SET_##types, 0, binary, BINARY_##op, .domain = "keel", \
         .flags = AGNOSTIC, .inplace = 3),
#define COMPARE_OP(op, since, types) \
  ROW_AS(op, ONNX_SET_##types, 0, binary, BINARY_##op, .flags = WALK),
#include "defs/elementwise.def"
    UNARY(Shrink, ONNX_SET_int),
    ROW_WITH(Gelu, gelu, 0, .flags = AGNOSTIC, .inplace = 1),
    INPLACE(Not, not, 0),
    ROW(IsInf, is_inf, 0),
    ROW(IsNaN, is_nan, 0),
    TYPED(Cast, cast, ONNX_TYPES_Cast),
    TYPED(CastLike, cast, ONNX_TYPES_CastLike),
    INPLACE(Clip, clip, 0),

    WALKED(Mod, mod, 0),
    WALKED(BitShift, shift, 0),
    WALKED(Pow, pow, 0),
    WALKED(Where, where, 0),
    WALKED(Max, variadic, BINARY_Max),
    WALKED(Min, variadic, BINARY_Min),
    WALKED(Sum, variadic, BINARY_Add),
    WALKED(Mean, mean, 0),

    REDUCTION(ReduceSum),
    REDUCTION(ReduceMean),
    REDUCTION(ReduceProd),
    REDUCTION(ReduceMax),
    REDUCTION(ReduceMin),
    REDUCTION(ReduceL1),
    REDUCTION(ReduceL2),
    REDUCTION(ReduceSumSquare),
    REDUCTION(ReduceLogSum),
    REDUCTION(ReduceLogSumExp),
    ROW(ArgMax, arg_reduce, 1),
    ROW(ArgMin, arg_reduce, 0),
    ROW_AS(CumSum, ONNX_TYPES_CumSum, 2, cum_sum, 0, .flags = ANY),
    ROW_AS(CumProd, ONNX_TYPES_CumProd, 2, cum_sum, 1, .flags = ANY),
    ROW(TopK, top_k, 0),
    ROW(Softmax, softmax, 0),
    ROW(LogSoftmax, softmax, 1),
    ROW(Hardmax, softmax, 2),
    ROW(LpNormalization, lp_normalization, 0),

    ROW(BatchNormalization, batch_norm, 0),
    ROW(InstanceNormalization, instance_norm, 0),
    ROW(GroupNormalization, group_norm, 0),
    ROW(LayerNormalization, layer_norm, 0),
    ROW(RMSNormalization, rms_norm, 0),
    ROW(LRN, lrn, 0),
    ROW(MeanVarianceNormalization, mvn, 0),

    ROW_WITH(MatMul, matmul, 0, .flags = WALK,
             .workspace = cpu_matmul_workspace, PACKED),
    ROW_AS(FusedMatMul, ONNX_SET_f32, 0, fused_matmul, 0, .domain = "keel",
           .flags = ANY, PACKED),
    BYTES(MatMulInteger, matmul_integer, matmul),
    BYTES(QLinearMatMul, qlinear_matmul, matmul),
    ROW_WITH(MatMulNBits, nbits, 0, .domain = "com.microsoft",
             .flags = ANY | KD_KERNEL_CONSTANTS_IN_CREATE,
             .create = cpu_create_nbits, .taken = cpu_taken_nbits,
             .workspace = cpu_nbits_workspace, .destroy = cpu_destroy_nbits),
    ROW_WITH(Gemm, gemm, 0, .flags = ANY, PACKED),
    ROW(Det, det, 0),
    ROW(Einsum, einsum, 0),
    ROW_WITH(RNN, recurrent, 0, .flags = ANY, .aliases = carried,
             .create = cpu_create_recurrent,
             .workspace = cpu_recurrent_workspace,
             .destroy = cpu_destroy_recurrent, .alias_count = 1),
    ROW_WITH(GRU, recurrent, 1, .flags = ANY, .aliases = carried,
             .create = cpu_create_recurrent,
             .workspace = cpu_recurrent_workspace,
             .destroy = cpu_destroy_recurrent, .alias_count = 1),
    ROW_WITH(LSTM, recurrent, 2, .flags = ANY, .aliases = carried,
             .create = cpu_create_recurrent,
             .workspace = cpu_recurrent_workspace,
             .destroy = cpu_destroy_recurrent, .alias_count = 2),
    ROW(DFT, dft, 0),
    ROW(STFT, stft, 0),
    ROW_WITH(MelWeightMatrix, mel, 0, .flags = ANY,
             .output_types = {ONNX_SET_num}),
    ROW(GridSample, grid_sample, 0),
    ROW(MaxRoiPool, max_roi_pool, 0),
    ROW(RoiAlign, roi_align, 0),

    {.struct_size = sizeof(kd_kernel_def),
     .flags = WALK,
     .domain = "keel",
     .op = "Attention",
     .input_types = {F32},
     .cost = cost,
     .enqueue = cpu_run_attention},
    ROW_AS(GroupQueryAttention, ONNX_SET_f32, ONNX_VALUES_GroupQueryAttention,
           grouped, 0, .domain = "com.microsoft", .flags = ANY,
           .aliases = cached, .alias_count = 2,
           .workspace = cpu_grouped_workspace),
    {.struct_size = sizeof(kd_kernel_def),
     .flags = ANY,
     .domain = "keel",
     .op = "DepthwiseConv",
     .input_types = {F32},
     .supports = cpu_supports_depthwise,
     .cost = cost,
     .enqueue = cpu_run_depthwise},
    ROW(Conv, conv, 0),
    {.struct_size = sizeof(kd_kernel_def),
     .flags = ANY,
     .domain = "keel",
     .op = "FusedConv",
     .input_types = {ONNX_SET_float},
     .data = NUMBER(1),
     .cost = cost,
     .enqueue = cpu_run_conv},
    {.struct_size = sizeof(kd_kernel_def),
     .flags = ANY,
     .domain = "keel",
     .op = "ActivatedConv",
     .input_types = {ONNX_SET_float},
     .data = NUMBER(1),
     .cost = cost,
     .enqueue = cpu_run_conv},
    ROW_WITH(ConvTranspose, conv_transpose, 0, .flags = ANY, PACKED),
    BYTES(ConvInteger, conv_integer, conv),
    BYTES(QLinearConv, qlinear_conv, conv),
    ROW(MaxPool, pool, 0),
    ROW(AveragePool, pool, 1),
    ROW(LpPool, pool, 2),
    ROW(GlobalMaxPool, global_pool, 0),
    ROW(GlobalAveragePool, global_pool, 1),
    ROW(GlobalLpPool, global_lp_pool, 2),
    ROW(MaxUnpool, max_unpool, 0),
    ROW_AS(Resize, ONNX_TYPES_Resize, 14, resize, 0, .flags = ANY),

    ROW(Transpose, transpose, 0),
    ROW_WITH(Expand, expand, 0, .flags = WALK),
    WALKED(Concat, concat, 0),
    ROW(Split, split, 0),
    ROW(Slice, slice, 0),
    ROW_AS(Pad, ONNX_TYPES_Pad, 14, pad, 0, .flags = ANY),
    ROW(Tile, tile, 0),
    ROW(DepthToSpace, depth_to_space, 0),
    ROW(SpaceToDepth, space_to_depth, 0),
    ROW_AS(Trilu, ONNX_TYPES_Trilu, 2, trilu, 0, .flags = ANY),
    ROW(ReverseSequence, reverse_sequence, 0),
    ROW(Gather, gather, 0),
    ROW(GatherElements, gather_elements, 0),
    ROW(GatherND, gather_nd, 0),
    ROW_WITH(ScatterElements, scatter_elements, 0, .flags = ANY,
             .aliases = &updated, .alias_count = 1,
             .supports = cpu_supports_scatter),
    ROW_WITH(ScatterND, scatter_nd, 0, .flags = ANY, .aliases = &updated,
             .alias_count = 1, .supports = cpu_supports_scatter),
    ROW(OneHot, one_hot, 0),
    DYNAMIC(Compress, compress),
    DYNAMIC(NonZero, non_zero),
    DYNAMIC(Unique, unique),
    DYNAMIC(NonMaxSuppression, non_max_suppression),

    ROW(ConstantOfShape, constant_of_shape, 0),
    ROW(Range, range, 0),
    TYPED(EyeLike, eye_like, ONNX_TYPES_EyeLike),
    TYPED(BlackmanWindow, window, ONNX_SET_float),
    TYPED(HammingWindow, window, ONNX_SET_float),
    TYPED(HannWindow, window, ONNX_SET_float),

    OWN(PopCount, count_bits, 0),
    OWN(LeadingZeros, count_bits, 1),
    OWN(ArgSort, arg_sort, 0),
    OWN(DynamicSlice, dynamic_slice, 0),
    OWN(DynamicUpdateSlice, dynamic_update, 0, .aliases = &updated,
        .alias_count = 1),
    OWN(RngBitGenerator, random_bits, 0,
        .output_types = {ONNX_SET_u64, ONNX_SET_int}),
    OWN(Within, within, 0, .inplace = 1),
    OWN(Find, find, 0),
    OWN(Couple, couple, 0),
    ROW_AS(Trees, KD_TYPES(KD_F32) | KD_TYPES(KD_F64), 0, trees, 0,
           .domain = "keel", .flags = ANY, .create = cpu_create_trees,
           .destroy = cpu_destroy_trees),
    OWN(ReduceWindow, reduce_window, 0),
    OWN(SelectAndScatter, select_and_scatter, 0),

    ROW(QuantizeLinear, quantize, 0),
    ROW(DequantizeLinear, dequantize, 0),
    ROW(DynamicQuantizeLinear, dynamic_quantize, 0),
    ROW(NegativeLogLikelihoodLoss, nll_loss, 0),
    ROW(SoftmaxCrossEntropyLoss, sce_loss, 0),

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
