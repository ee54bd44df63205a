/* table.c - what the plugin can do: one row an op. */
#include "table.h"

#include "cpu.h"
#include "defs/ops.h"
#include "families/estimate.h"
#include "elementwise/elementwise.h"
#include "kernels/kernels.h"

#define ANY       (KD_KERNEL_ANY_SHAPE | KD_KERNEL_ANY_OFFSET)
#define WALK      (ANY | KD_KERNEL_STRIDED) /* inputs are walked by their strides */
#define AGNOSTIC  (WALK | KD_KERNEL_LAYOUT_AGNOSTIC)
#define DYNAMIC   (ANY | KD_KERNEL_DYNAMIC_OUTPUT)
#define CONSTANTS (ANY | KD_KERNEL_CONSTANTS_IN_CREATE)
#define OWN       KD_KERNEL_OWN_LAYOUT
#define NUMBER(n) ((const void *)(uintptr_t)(n))

/* A kernel of those types and host inputs; `number` tells apart ops that share cpu_run_<run>.
 * What follows are further fields. */
#define ROW_AS(name, set, bits, run, number, ...)                            \
  {                                                                          \
    .struct_size = sizeof(kd_kernel_def), .op = #name, .input_types = {set}, \
    .host_inputs = bits, .data = NUMBER(number), .cost = cost,               \
    .enqueue = cpu_run_##run, __VA_ARGS__                                    \
  }
/* The same of op's own types: on the host are the inputs whose values its shape depends on. */
#define ROW_WITH(op, run, number, ...) \
  ROW_AS(op, ONNX_TYPES_##op, ONNX_VALUES_##op, run, number, __VA_ARGS__)
#define ROW(op, run, number) ROW_WITH(op, run, number, .flags = ANY)

/* A kernel in the layout of blocked.h. */
#define BLOCKED(op, bits, rank, how, run, ...) \
  ROW_AS(op, F32, bits, run, 0, .priority = rank, .supports = cpu_##how, __VA_ARGS__)
/* The three convolutions; the output may take input 3, the sum. */
#define CONVS(rank, how, run, ...)                                                               \
  BLOCKED(Conv, 0, rank, how, run, .flags = OWN, __VA_ARGS__),                                   \
      BLOCKED(FusedConv, 0, rank, how, run, .domain = "keel", .flags = OWN, .inplace = 8,        \
              __VA_ARGS__),                                                                      \
      BLOCKED(ActivatedConv, 0, rank, how, run, .domain = "keel", .flags = OWN, .inplace = 8,    \
              __VA_ARGS__)

/* Fields of kernels that keep something: packed weights, mostly. */
#define KEEPS(kind) .create = cpu_create_##kind, .destroy = cpu_destroy_##kind
#define PACKS(kind) KEEPS(kind), .taken = cpu_taken_##kind
#define SHARED(kind) .create = cpu_create_##kind, .destroy = cpu_destroy_shared
#define SHARED_PACKS(kind) SHARED(kind), .taken = cpu_taken_##kind
#define PACKS_WITH_WORKSPACE(kind) PACKS(kind), .workspace = cpu_##kind##_workspace
#define BY_ONEDNN(kind) \
  .create = cpu_create_##kind, .destroy = cpu_destroy_blocked, .workspace = cpu_blocked_workspace

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
  ROW_AS(op, ONNX_SET_##kernels, 0, unary, UNARY_##op, .flags = AGNOSTIC, .inplace = 1),
/* the output may take either operand that has its size */
#define BINARY_OP(op, since, types, attributes) \
  ROW_AS(op, ONNX_SET_##types, 0, binary, BINARY_##op, .flags = AGNOSTIC, .inplace = 3),
#define KEEL_UNARY_OP(op, types)                                       \
  ROW_AS(op, ONNX_SET_##types, 0, unary, UNARY_##op, .domain = "keel", \
         .flags = AGNOSTIC, .inplace = 1),
#define KEEL_BINARY_OP(op, types)                                        \
  ROW_AS(op, ONNX_SET_##types, 0, binary, BINARY_##op, .domain = "keel", \
         .flags = AGNOSTIC, .inplace = 3),
#define COMPARE_OP(op, since, types) \
  ROW_AS(op, ONNX_SET_##types, 0, binary, BINARY_##op, .flags = WALK),
#include "defs/elementwise.def"
    ROW_AS(Shrink, ONNX_SET_int, 0, unary, UNARY_Shrink, .flags = AGNOSTIC, .inplace = 1),
    ROW_WITH(Gelu, gelu, 0, .flags = AGNOSTIC, .inplace = 1),
    ROW_WITH(Not, not, 0, .flags = ANY, .inplace = 1),
    ROW(IsInf, is_inf, 0),
    ROW(IsNaN, is_nan, 0),
    ROW_AS(Cast, ONNX_TYPES_Cast, 0, cast, 0, .flags = ANY, .output_types = {ONNX_TYPES_Cast}),
    ROW_AS(CastLike, ONNX_TYPES_CastLike, 0, cast, 0, .flags = ANY,
           .output_types = {ONNX_TYPES_CastLike}),
    ROW_WITH(Clip, clip, 0, .flags = ANY, .inplace = 1),

    ROW_WITH(Mod, mod, 0, .flags = WALK),
    ROW_WITH(BitShift, shift, 0, .flags = WALK),
    ROW_WITH(Pow, pow, 0, .flags = WALK),
    ROW_WITH(Where, where, 0, .flags = WALK),
    ROW_WITH(Max, variadic, BINARY_Max, .flags = WALK),
    ROW_WITH(Min, variadic, BINARY_Min, .flags = WALK),
    ROW_WITH(Sum, variadic, BINARY_Add, .flags = WALK),
    ROW_WITH(Mean, mean, 0, .flags = WALK),

    ROW(ReduceSum, reduce, CPU_ReduceSum),
    ROW(ReduceMean, reduce, CPU_ReduceMean),
    ROW(ReduceProd, reduce, CPU_ReduceProd),
    ROW(ReduceMax, reduce, CPU_ReduceMax),
    ROW(ReduceMin, reduce, CPU_ReduceMin),
    ROW(ReduceL1, reduce, CPU_ReduceL1),
    ROW(ReduceL2, reduce, CPU_ReduceL2),
    ROW(ReduceSumSquare, reduce, CPU_ReduceSumSquare),
    ROW(ReduceLogSum, reduce, CPU_ReduceLogSum),
    ROW(ReduceLogSumExp, reduce, CPU_ReduceLogSumExp),
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
             .workspace = cpu_matmul_workspace, PACKS(product)),
    ROW_AS(FusedMatMul, ONNX_SET_f32, 0, fused_matmul, 0, .domain = "keel",
           .flags = ANY, PACKS(product)),
    ROW_WITH(MatMulInteger, matmul_integer, 0, .flags = CONSTANTS, SHARED_PACKS(int8_matmul)),
    ROW_WITH(QLinearMatMul, qlinear_matmul, 0, .flags = CONSTANTS, SHARED_PACKS(int8_matmul)),
    ROW_WITH(MatMulNBits, nbits, 0, .domain = "com.microsoft",
             .flags = CONSTANTS, SHARED_PACKS(nbits),
             .workspace = cpu_nbits_workspace),
    ROW_WITH(Gemm, gemm, 0, .flags = ANY, PACKS(product)),
    ROW(Det, det, 0),
    ROW(Einsum, einsum, 0),
    ROW_WITH(RNN, recurrent, 0, .flags = ANY, .aliases = carried, .alias_count = 1,
             .workspace = cpu_recurrent_workspace, SHARED(recurrent)),
    ROW_WITH(GRU, recurrent, 1, .flags = ANY, .aliases = carried, .alias_count = 1,
             .workspace = cpu_recurrent_workspace, SHARED(recurrent)),
    ROW_WITH(LSTM, recurrent, 2, .flags = ANY, .aliases = carried, .alias_count = 2,
             .workspace = cpu_recurrent_workspace, SHARED(recurrent)),
    ROW(DFT, dft, 0),
    ROW(STFT, stft, 0),
    ROW_WITH(MelWeightMatrix, mel, 0, .flags = ANY,
             .output_types = {ONNX_SET_num}),
    ROW(GridSample, grid_sample, 0),
    ROW(MaxRoiPool, max_roi_pool, 0),
    ROW(RoiAlign, roi_align, 0),

    ROW_AS(Attention, F32, 0, attention, 0, .domain = "keel", .flags = WALK),
    ROW_AS(GroupQueryAttention, ONNX_SET_f32, ONNX_VALUES_GroupQueryAttention,
           grouped, 0, .domain = "com.microsoft", .flags = ANY,
           .aliases = cached, .alias_count = 2,
           .workspace = cpu_grouped_workspace),
    ROW_AS(DepthwiseConv, F32, 0, depthwise, 0, .domain = "keel", .flags = ANY,
           .supports = cpu_supports_depthwise),
    ROW(Conv, conv, 0),
    ROW_AS(FusedConv, ONNX_SET_float, 0, conv, 1, .domain = "keel", .flags = ANY),
    ROW_AS(ActivatedConv, ONNX_SET_float, 0, conv, 1, .domain = "keel", .flags = ANY),
    /* it packs weights where an image is small */
    ROW_WITH(ConvTranspose, conv_transpose, 0, .flags = KD_KERNEL_ANY_OFFSET, PACKS(product)),
    ROW_WITH(ConvInteger, conv_integer, 0, .flags = CONSTANTS, SHARED_PACKS(int8_conv)),
    ROW_WITH(QLinearConv, qlinear_conv, 0, .flags = CONSTANTS, SHARED_PACKS(int8_conv)),
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
    ROW_WITH(Concat, concat, 0, .flags = WALK),
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
    ROW_WITH(Compress, compress, 0, .flags = DYNAMIC),
    ROW_WITH(NonZero, non_zero, 0, .flags = DYNAMIC),
    ROW_WITH(Unique, unique, 0, .flags = DYNAMIC),
    ROW_WITH(NonMaxSuppression, non_max_suppression, 0, .flags = DYNAMIC),

    ROW(ConstantOfShape, constant_of_shape, 0),
    ROW(Range, range, 0),
    ROW_AS(EyeLike, ONNX_TYPES_EyeLike, 0, eye_like, 0, .flags = ANY,
           .output_types = {ONNX_TYPES_EyeLike}),
    ROW_AS(BlackmanWindow, ONNX_TYPES_BlackmanWindow, 0, window, 0, .flags = ANY,
           .output_types = {ONNX_SET_float}),
    ROW_AS(HammingWindow, ONNX_TYPES_HammingWindow, 0, window, 0, .flags = ANY,
           .output_types = {ONNX_SET_float}),
    ROW_AS(HannWindow, ONNX_TYPES_HannWindow, 0, window, 0, .flags = ANY,
           .output_types = {ONNX_SET_float}),

    ROW_WITH(PopCount, count_bits, 0, .domain = "keel", .flags = ANY),
    ROW_WITH(LeadingZeros, count_bits, 1, .domain = "keel", .flags = ANY),
    ROW_WITH(ArgSort, arg_sort, 0, .domain = "keel", .flags = ANY),
    ROW_WITH(DynamicSlice, dynamic_slice, 0, .domain = "keel", .flags = ANY),
    ROW_WITH(DynamicUpdateSlice, dynamic_update, 0, .domain = "keel", .flags = ANY,
             .aliases = &updated, .alias_count = 1),
    ROW_WITH(RngBitGenerator, random_bits, 0, .domain = "keel", .flags = ANY,
             .output_types = {ONNX_SET_u64, ONNX_SET_int}),
    ROW_WITH(Within, within, 0, .domain = "keel", .flags = ANY, .inplace = 1),
    ROW_WITH(Find, find, 0, .domain = "keel", .flags = ANY),
    ROW_WITH(Couple, couple, 0, .domain = "keel", .flags = ANY),
    ROW_AS(Trees, KD_TYPES(KD_F32) | KD_TYPES(KD_F64), 0, trees, 0,
           .domain = "keel", .flags = ANY, KEEPS(trees)),
    ROW_WITH(ReduceWindow, reduce_window, 0, .domain = "keel", .flags = ANY),
    ROW_WITH(SelectAndScatter, select_and_scatter, 0, .domain = "keel", .flags = ANY),

    ROW(QuantizeLinear, quantize, 0),
    ROW(DequantizeLinear, dequantize, 0),
    ROW(DynamicQuantizeLinear, dynamic_quantize, 0),
    ROW(NegativeLogLikelihoodLoss, nll_loss, 0),
    ROW(SoftmaxCrossEntropyLoss, sce_loss, 0),

#ifdef KEEL_WITH_DNNL
    /* of one priority, the first that supports a node: dilated before winograd */
    CONVS(3, supports_dilated, dilated, PACKS_WITH_WORKSPACE(dilated)),
    CONVS(3, supports_winograd, winograd, PACKS_WITH_WORKSPACE(winograd)),
    /* where it is faster than oneDNN; below, where oneDNN has no code */
    CONVS(2, prefers_direct, direct_blocked, PACKS_WITH_WORKSPACE(direct)),
    CONVS(1, supports_conv, conv_blocked, BY_ONEDNN(conv), .taken = cpu_taken_conv),
    CONVS(1, supports_direct, direct_blocked, PACKS_WITH_WORKSPACE(direct)),
    BLOCKED(MaxPool, 0, 2, supports_pool_blocks, pool_blocks, .flags = OWN, KEEPS(pool_blocks)),
    BLOCKED(AveragePool, 0, 2, supports_pool_blocks, pool_blocks, .flags = OWN, KEEPS(pool_blocks)),
    BLOCKED(MaxPool, 0, 1, supports_pool, pool_blocked, .flags = OWN, BY_ONEDNN(pool)),
    BLOCKED(AveragePool, 0, 1, supports_pool, pool_blocked, .flags = OWN, BY_ONEDNN(pool)),
    BLOCKED(GlobalMaxPool, 0, 1, supports_pool, pool_blocked, .flags = OWN, BY_ONEDNN(pool)),
    BLOCKED(GlobalAveragePool, 0, 1, supports_pool, pool_blocked, .flags = OWN, BY_ONEDNN(pool)),
    BLOCKED(Mul, 0, 1, supports_scale, scale_blocked, .flags = OWN, .inplace = 3),
    BLOCKED(Concat, 0, 1, supports_join, concat_blocked, .flags = OWN | KD_KERNEL_ADJOINS),
    BLOCKED(Slice, 30, 1, supports_cut, slice_blocked, .flags = OWN),
    BLOCKED(Transpose, 0, 1, supports_turn, transpose_blocked, .flags = OWN | KD_KERNEL_ANY_OFFSET),
    BLOCKED(Resize, 14, 1, supports_resize, resize, .flags = OWN),
    BLOCKED(BatchNormalization, 0, 1, supports_norm, norm_blocked, .flags = OWN, .inplace = 1),
#endif
};

_Static_assert(sizeof cpu_kernels / sizeof *cpu_kernels == CPU_KERNEL_COUNT,
               "CPU_KERNEL_COUNT in table.h is the number of rows");
