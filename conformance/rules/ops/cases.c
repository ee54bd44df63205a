/* cases.c - the cases of each op, one line each, and their reader. Lengths are odd, or what
 * vectors divide: kernels that go by four, eight or sixteen have another way for each.
 *
 * A line has the op, its attributes (of the kinds that the schema knows; tensors as inputs are
 * written), its inputs, and how many outputs are asked for, where it is not one. Inputs are
 * written as
 *
 *   T[2,3]        the tested element type, this shape; T[] is a scalar
 *   F[2,3*5]      the same where that is f32, of 2 x 15: there is no such case of other types
 *   T(-1,1)[5]    with values of that range
 *   F?[5]         one in 1201 is an infinity, one NaN
 *   i64{2,-1}     this list;  i64=3 a scalar;  f32=0.5
 *   i64%4[2,3]    random integers from 0 to 3;  i64~4[2] from -4 to 3
 *   -             an absent optional input
 *   >2            two outputs
 *
 * Elementwise ops have the same shapes, each with the reference's ranges (# and @). */
#include "rules/ops/cases.h"

#include <ctype.h>
#include <math.h>

typedef struct line {
  const char *op, *attrs, *inputs;
} line;

/* Shapes of elementwise ops of one input and of two; the reference has the ranges. */
static const char *const unary_shapes[] = {
    "T#[]",     "T#[1]",     "T#[5]",     "T#[0]",
    "T#[257]",  "T#[3,5,7]", "T#[2,0,3]", "T#[1,2,1,3,1,2,1,2]",
    "T#[1021]", "T#[20000]"};

static const char *const binary_shapes[] = {
    "T#[4,5] T@[4,5]",   "T#[3,1,5] T@[2,1]",
    "T#[] T@[7]",        "T#[6] T@[]",
    "T#[1,3] T@[5,1]",   "T#[0] T@[1]",
    "T#[2,3,4] T@[4]",   "T#[2,3,4] T@[3,1]",
    "T#[1000] T@[1000]", "T#[2,1,3,1,2,1] T@[1,2,1,2,1,3]",
    "T#[33,17] T@[33,1]"};

#define REDUCE(op)                                                         \
  {op, "", "T(-2,2)[3,4,5]"}, {op, "keepdims=0", "T(-2,2)[3,4,5] i64{1}"}, \
      {op, "keepdims=1", "T(-2,2)[3,4,5] i64{-1}"},                        \
      {op, "keepdims=0", "T(-2,2)[3,4,5] i64{0,2}"},                       \
      {op, "", "T(-2,2)[257] i64{0}"}, {op, "", "T(-2,2)[1] i64{0}"}, {    \
    op, "keepdims=0", "T(-2,2)[2,1,17,3] i64{-2}"                          \
  }
#define REDUCE_POSITIVE(op)                                                  \
  {op, "", "T(0.5,2)[3,4,5]"}, {op, "keepdims=0", "T(0.5,2)[3,4,5] i64{1}"}, \
      {op, "keepdims=0", "T(0.5,2)[3,4,5] i64{0,2}"}, {                      \
    op, "", "T(0.5,2)[129] i64{0}"                                           \
  }

/* Trees whose two nodes have these modes; ensembles with such an aggregate. */
#define TREES_BY(modes)                                                     \
  {                                                                         \
    "keel::Trees",                                                          \
        "features=2,3,-1,-1,-1 modes=" modes                                \
        ",0,0,0 yes=1,2,0,1,2 no=4,3,1,2,3 roots=0"                         \
        " splits=T{1,0.5,0,0,0} targets=2 vote_targets=0,1,0"               \
        " vote_weights=f64{1.5,-2.25,3}",                                   \
        "T[6,4]{0,0,1,0.5,0,0,2,0.5,0,0,0,0.5,0,0,1,0,0,0,1,nan,0,0,nan,1}" \
  }
#define TREES_OF(aggregate)                                                  \
  {                                                                          \
    "keel::Trees",                                                           \
        "features=0,-1,-1,3,1,-1,-1,-1 modes=0,0,0,9,2,0,0,0"                \
        " yes=1,0,2,4,5,3,4,5 no=2,2,3,7,6,4,5,7 roots=0,3,3"                \
        " splits=T{0,0,0,0.25,-0.25,0,0,0} targets=3"                        \
        " vote_targets=0,1,2,0,1,1,2"                                        \
        " vote_weights=f64{1.5,-2.25,3,0.5,-1,4,-0.5} aggregate=" aggregate, \
        "T(-1,1)[33,4]"                                                      \
  }

/* A convolution whose sums below 0 become 0. */
#define RELU_CONV(attrs, inputs) \
  { "keel::FusedConv", "activation=Relu " attrs, inputs }

/* Products of m x k by k x n bytes of each kind, with a zero point, and one for each line. */
#define BYTE_PRODUCTS(m, k, n)                                            \
  {"MatMulInteger", "", "T[" #m "," #k "] u8[" #k "," #n "] T[] u8[]"}, { \
    "MatMulInteger", "",                                                  \
        "T[" #m "," #k "] i8~40[" #k "," #n "] T[" #m "] i8~40[" #n "]"   \
  }
/* The same for convolutions: x and w are shapes. */
#define BYTE_CONVS(attrs, x, w, channels)                                      \
  {"ConvInteger", attrs, "T[" x "] u8[" w "] T[] u8[]"},                       \
      {"ConvInteger", attrs, "T[" x "] i8~40[" w "] T[] i8~40[" channels "]"}, \
  {                                                                            \
    "QLinearConv", attrs,                                                      \
        "T[" x "] f32=0.5 T[] i8~40[" w "] f32(0.00002,0.004)[" channels       \
        "] i8~40[" channels "] f32=0.5 T[] i32~2000[" channels "]"             \
  }

/* A recurrent op of some gates; x is a shape of three, `ins` its last dimension. */
#define NET(op, gates, T, x, sides, hidden, ins, attrs, more)                  \
  {                                                                            \
    op, "hidden_size=" hidden " " attrs,                                       \
        T "[" x "] " T "[" sides "," gates "*" hidden "," ins "] " T "[" sides \
          "," gates "*" hidden "," hidden "] " T "[" sides ",2*" gates         \
          "*" hidden "] " more                                                 \
  }

#define PADS(mode, value)                                   \
  {"Pad", mode, "T[5,6,7] i64{1,2,3,2,1,4}" value},         \
      {"Pad", mode, "T[40,33,3] i64{0,2,0,0,3,0}" value},   \
      {"Pad", mode, "T[3,50,70] i64{2,0,0,1,0,0}" value},   \
      {"Pad", mode, "T[3,50,40] i64{0,0,2,0,0,0}" value}, { \
    "Pad", mode, "T[5,33,7] i64{1,-2,2,-1,3,-1}" value      \
  }

#define ROI_ALIGN(attrs, channels)                                          \
  {                                                                         \
    "RoiAlign", "output_height=5 output_width=3 spatial_scale=0.5 " attrs,  \
        "F(-25,25)[1," channels                                             \
        ",23,23] F[7,4]{-5,3,20.5,11,0.3,8.1,12.7,"                         \
        "30,35,-2.4,40,19.9,17,17,18,18.5,4.4,31,30,45,22.2,0,23.3,33,9,9," \
        "29.9,10.2} i64{0,0,0,0,0,0,0}"                                     \
  }

static const line lines[] = {
    REDUCE("ReduceL1"),
    REDUCE("ReduceL2"),
    REDUCE_POSITIVE("ReduceLogSum"),
    REDUCE("ReduceLogSumExp"),
    REDUCE("ReduceMax"),
    REDUCE("ReduceMean"),
    REDUCE("ReduceMin"),
    REDUCE("ReduceSum"),
    REDUCE("ReduceSumSquare"),
    REDUCE_POSITIVE("ReduceProd"),
    {"ReduceSum", "noop_with_empty_axes=1", "T(-2,2)[3,4] i64{}"},
    {"ReduceMax", "noop_with_empty_axes=1", "T(-2,2)[3,4] i64{}"},
    {"ReduceL1", "noop_with_empty_axes=1", "T(-2,2)[3,4] i64{}"},
    {"ReduceL2", "noop_with_empty_axes=1", "T(-2,2)[3,4]"},
    {"ReduceSumSquare", "noop_with_empty_axes=1 keepdims=0", "T(-2,2)[3,4]"},
    {"ReduceLogSum", "noop_with_empty_axes=1", "T(0.5,2)[3,4] i64{}"},
    {"ReduceLogSumExp", "noop_with_empty_axes=1", "T(-2,2)[3,4] i64{}"},
    {"ReduceMax", "keepdims=0", "T[2,0] i64{1}"},
    {"ReduceMin", "keepdims=0", "T[2,0] i64{1}"},
    {"ReduceMax", "keepdims=0", "T[5,3] i64{1}"},
    {"ReduceMin", "keepdims=0", "T[5,2] i64{1}"},
    {"ReduceSum", "keepdims=0", "T[2,0] i64{1}"},
    {"ReduceSum", "keepdims=0", "T(-2,2)[5,5] i64{1}"},
    {"ReduceSum", "", "T(-2,2)[3,264] i64{1}"},
    {"ReduceMean", "keepdims=0", "T(-2,2)[264,3] i64{0}"},
    {"ReduceMax", "keepdims=0", "T(-2,2)[2,16,24] i64{1,2}"},
    {"ReduceLogSumExp", "", "T(-2,2)[2,300] i64{-1}"},
    {"ReduceLogSumExp", "", "T(-2,2)[2,5,300] i64{1}"},
    {"ReduceSum", "", "T(-2,2)[2,5,300] i64{1}"},
    {"ReduceMean", "", "T(-2,2)[2,3,4,35] i64{0,2}"},
    {"ReduceMax", "", "T[3,5,300] i64{0,1}"},
    {"ReduceMin", "", "T[2,77] i64{1}"},
    {"ReduceMax", "keepdims=0", "T[270,7] i64{1}"},
    {"ReduceL2", "", "T(-2,2)[3,6,19] i64{1}"},
    {"ArgMax", "axis=0", "T[5,7]"},
    {"ArgMax", "axis=-1 keepdims=0", "T[3,4,9]"},
    {"ArgMin", "axis=1", "T[5,7,2]"},
    {"ArgMin", "axis=0 keepdims=0", "T[11]"},
    {"CumSum", "", "T(-9,9)[3,9] i64=1"},
    {"CumSum", "exclusive=1", "T(-9,9)[3,9] i64=0"},
    {"CumSum", "reverse=1 exclusive=1", "T(-9,9)[2,3,4] i64=-1"},
    {"CumSum", "reverse=1", "T(-9,9)[17] i32=0"},
    {"CumProd", "", "T(1,2)[3,9] i64=1"},
    {"CumProd", "exclusive=1", "T(-2,2)[5,40] i64=0"},
    {"CumProd", "reverse=1 exclusive=1", "T(-2,2)[2,3,4] i64=-1"},
    {"CumProd", "reverse=1", "T(-2,2)[17] i32=0"},
    {"TopK", "", "T[3,11] i64{4} >2"},
    {"TopK", "largest=0 axis=0", "T[9,3] i64{9} >2"},
    {"TopK", "", "T[33] i64{1} >2"},

    {"Softmax", "", "T(-9,9)[3,17]"},
    {"Softmax", "axis=1", "T(-9,9)[2,5,3]"},
    {"Softmax", "axis=0", "T(-9,9)[7]"},
    {"Softmax", "", "T(-80,80)[4,64]"},
    {"Softmax", "", "T(-9,9)[3,264]"},
    {"Softmax", "axis=0", "T(-9,9)[264,2]"},
    {"Softmax", "axis=1", "T(-9,9)[2,5,270]"},
    {"Softmax", "", "T(-9,9)[70,7]"},
    {"LogSoftmax", "", "T(-9,9)[2,300]"},
    {"LogSoftmax", "axis=1", "T(-9,9)[2,5,270]"},
    {"LogSoftmax", "", "T(-9,9)[70,7]"},
    {"Hardmax", "", "T[3,264]"},
    {"LogSoftmax", "", "T(-9,9)[3,17]"},
    {"LogSoftmax", "axis=0", "T(-9,9)[5,3]"},
    {"Hardmax", "", "T[3,17]"},
    {"Hardmax", "axis=0", "T[5,4]"},
    {"LpNormalization", "", "T(-4,4)[3,9]"},
    {"LpNormalization", "p=1 axis=0", "T(-4,4)[5,4]"},
    {"LRN", "size=3", "T(-4,4)[2,5,4,3]"},
    {"LRN", "size=4 alpha=0.01 beta=0.5 bias=2", "T(-4,4)[1,7,3,3]"},
    {"MeanVarianceNormalization", "", "T(-4,4)[2,3,4,5]"},
    {"MeanVarianceNormalization", "axes=0,1", "T(-4,4)[6,7]"},
    {"MeanVarianceNormalization", "", "T(-4,4)[2,3,7,9]"},
    {"MeanVarianceNormalization", "axes=1", "T(-4,4)[3,5,6]"},
    {"BatchNormalization", "",
     "T(-4,4)[2,3,5,4] T(-2,2)[3] T(-2,2)[3] T(-1,1)[3] T(0.5,2)[3]"},
    {"BatchNormalization", "epsilon=0.01",
     "T(-4,4)[4,6] T(-2,2)[6] T(-2,2)[6] T(-1,1)[6] T(0.5,2)[6]"},
    {"BatchNormalization", "",
     "T(-4,4)[5,19] T(-2,2)[19] T(-2,2)[19] T(-2,2)[19] T(0.1,4)[19]"},
    {"BatchNormalization", "",
     "T(-4,4)[2,19,2,2] T(-2,2)[19] T(-2,2)[19] T(-2,2)[19] T(0.1,4)[19]"},
    {"InstanceNormalization", "", "T(-4,4)[2,3,5,4] T(-2,2)[3] T(-2,2)[3]"},
    {"InstanceNormalization", "", "T(30,34)[1,2,133] T(-2,2)[2] T(-2,2)[2]"},
    {"LayerNormalization", "", "T(30,34)[3,77] T(-2,2)[77] T(-2,2)[77]"},
    {"LayerNormalization", "", "T(-4,4)[3,5,77] T(-2,2)[77]"},
    {"LpNormalization", "p=1", "T(-4,4)[3,77]"},
    {"InstanceNormalization", "epsilon=0.1", "T(-4,4)[1,2,33] T[2] T[2]"},
    {"GroupNormalization", "num_groups=2",
     "T(-4,4)[3,4,2,3] T(-2,2)[4] T(-2,2)[4]"},
    {"GroupNormalization", "num_groups=3 epsilon=0.01",
     "T(-4,4)[2,6,17] T(-2,2)[6] T(-2,2)[6]"},
    {"GroupNormalization", "num_groups=1",
     "T(-4,4)[2,4] T(-2,2)[4] T(-2,2)[4]"},
    {"GroupNormalization", "num_groups=2",
     "T(-4,4)[1,4,16,8] T(-2,2)[4] T(-2,2)[4]"},
    {"LayerNormalization", "", "T(-4,4)[3,4,17] T(-2,2)[17] T(-2,2)[17]"},
    {"LayerNormalization", "axis=1", "T(-4,4)[3,4,5] T[4,5]"},
    {"LayerNormalization", "", "T(-4,4)[3,264] T(-2,2)[264] T(-2,2)[264]"},
    {"InstanceNormalization", "", "T(-4,4)[1,2,16,24] T(-2,2)[2] T(-2,2)[2]"},
    {"LpNormalization", "", "T(-4,4)[2,264]"},
    {"LayerNormalization", "axis=0 epsilon=0.1", "T(-4,4)[6,7] T[6,7] T[6,7]"},

    {"RMSNormalization", "", "T(-4,4)[3,4,17] T(-2,2)[17]"},
    {"RMSNormalization", "axis=1 epsilon=0.1", "T(-4,4)[3,4,5] T(-2,2)[4,5]"},
    {"RMSNormalization", "axis=-2", "T(-4,4)[2,3,8] T(-2,2)[8]"},
    {"RMSNormalization", "", "T(30,34)[3,264] T(-2,2)[264]"},
    {"RMSNormalization", "", "T(-4,4)[2,7] T(-2,2)[1]"},

    {"MatMul", "", "T[4,7] T[7,5]"},
    {"MatMul", "", "T[1,1] T[1,1]"},
    {"MatMul", "", "T[33,17] T[17,65]"},
    {"MatMul", "", "T[2,3,4,5] T[5,6]"},
    {"MatMul", "", "T[3,1,4,5] T[2,5,6]"},
    {"MatMul", "", "T[3,4,5] T[3,5,6]"},
    {"MatMul", "", "T[4,8] T[3,8,16]"},
    {"MatMul", "", "T[3,8,16] T[1,16,24]"},
    {"MatMul", "", "T[7] T[7,3]"},
    {"MatMul", "", "T[3,7] T[7]"},
    {"MatMul", "", "T[9] T[9]"},
    {"MatMul", "", "T[5,0] T[0,3]"},
    {"MatMul", "", "T[0,5] T[5,3]"},
    {"MatMul", "", "T[3,1024] T[1024,2]"},
    {"MatMulInteger", "", "T[4,7] T[7,5]"},
    {"MatMulInteger", "", "T[4,7] T[7,5] T=3 T=1"},
    {"MatMulInteger", "", "T[2,4,70] T[70,5] T=2"},
    {"MatMulInteger", "", "T[37,68] T[68,44]"},
    {"MatMulInteger", "", "T[8,16] T[16,8] T=3 T=1"},
    {"MatMulInteger", "", "T[2,3,16] T[16,8]"},
    {"MatMulInteger", "", "T[4,7] T[7,5] T=-3 T=-128"},
    {"MatMulInteger", "", "T[3,7] T[7,4] T{-1,-128,127} T{-7,127,-128,-1}"},
    {"MatMulInteger", "", "T[4,16] T[16,8] T=-1"},
    {"QLinearMatMul", "",
     "T[4,7] f32=0.02 T=-3 T[7,5] f32=0.03 T=-2 f32=0.05 T=-4"},
    {"QLinearMatMul", "",
     "T[2,7] f32{0.02,0.5} T{-3,127} T[7,3] f32{0.03,0.1,2} T{-1,-128,127}"
     " f32=0.05 T=-4"},
    {"QLinearMatMul", "",
     "T[4,7] f32=0.02 T=3 T[7,5] f32=0.03 T=2 f32=0.05 T=4"},
    {"QLinearMatMul", "",
     "T[2,7] f32{0.02,0.5} T{3,1} T[7,3] f32{0.03,0.1,2} T{2,0,5} f32=0.05"
     " T=4"},
    {"QLinearMatMul", "",
     "T[4,7] f16=0.02 T=3 T[7,5] f16=0.03 T=2 f16=0.05 T=4"},
    {"QLinearMatMul", "",
     "T[2,3,4] bf16=0.02 T=3 T[4,5] bf16=0.03 T=2 bf16=0.05 T=4"},
    {"Gemm", "", "T[4,7] T[7,5]"},
    {"Gemm", "", "T[4,7] T[7,5] T[5]"},
    {"Gemm", "transA=1 transB=1 alpha=0.5 beta=2", "T[7,4] T[5,7] T[4,5]"},
    {"Gemm", "transB=1", "T[3,65] T[9,65] T[3,1]"},
    {"Gemm", "transB=1 beta=0.5", "T[8,16] T[24,16] T[24]"},
    {"Gemm", "transA=1 alpha=2", "T[16,8] T[16,24] T[8,24]"},
    {"Gemm", "transA=1 beta=-1", "T[16,8] T[16,24] T[8,24]"},
    {"Gemm", "transA=1", "T[6,3] T[6,4] T[]"},
    {"Det", "", "T(-2,2)[4,4]"},
    {"Det", "", "T(-2,2)[3,5,5]"},

    {"Conv", "", "T[1,3,7,6] T[4,3,3,3]"},
    {"Conv", "pads=1,1,1,1 strides=2,2", "T[2,4,9,8] T[5,4,3,3] T[5]"},
    {"Conv", "group=4 pads=1,0,1,2", "T[1,4,6,6] T[4,1,3,2] T[4]"},
    {"Conv", "group=2 dilations=2,1", "T[1,6,8,7] T[4,3,2,3]"},
    {"Conv", "auto_pad=SAME_UPPER strides=2,2", "T[1,2,7,8] T[3,2,3,3]"},
    {"Conv", "auto_pad=SAME_LOWER", "T[1,2,5,5] T[3,2,2,2]"},
    {"Conv", "", "T[2,3,17] T[4,3,5] T[4]"},
    {"Conv", "strides=1,2,1", "T[1,2,4,5,6] T[3,2,2,3,2]"},
    {"Conv", "", "T[1,16,5,5] T[32,16,1,1] T[32]"},
    {"Conv", "pads=1,1,1,1", "T[1,32,6,5] T[16,32,3,3] T[16]"},
    {"Conv", "group=16 pads=1,1,1,1", "T[1,16,6,5] T[16,1,3,3] T[16]"},
    {"Conv", "group=6 strides=2,3 pads=2,1,0,2 dilations=1,2",
     "T[2,6,13,17] T[12,1,3,3] T[12]"},
    {"Conv", "group=5 pads=3,4 dilations=2", "T[1,5,70] T[5,1,4]"},
    {"Conv", "group=2 pads=1,0,1,1,1,0 strides=1,2,1",
     "T[1,2,3,6,37] T[2,1,2,3,3]"},
    {"Conv", "dilations=12,5 pads=12,5,12,5", "T[1,3,14,19] T[4,3,3,3]"},
    {"Conv", "", "T[1,24,30,31] T[3,24,3,3] T[3]"},
    {"com.microsoft::MatMulNBits", "K=64 N=12 block_size=32",
     "T(-1,1)[1,64] u8%256[12,2,16] T(0.01,0.1)[12,2]"},
    {"com.microsoft::MatMulNBits", "K=150 N=7 block_size=32",
     "T(-1,1)[3,150] u8%256[7,5,16] T(0.01,0.1)[7,5] u8%256[7,3]"},
    {"com.microsoft::MatMulNBits", "K=100 N=9 block_size=16",
     "T(-1,1)[2,5,100] u8%256[9,7,8] T(0.01,0.1)[63] T(0,15)[9,7] - T[9]"},
    {"com.microsoft::MatMulNBits", "K=288 N=130 block_size=32 accuracy_level=4",
     "T(-1,1)[2,288] u8%256[130,9,16] T(0.01,0.1)[130,9] u8%256[130,5]"},
    {"com.microsoft::MatMulNBits", "K=200 N=33 block_size=128 accuracy_level=4",
     "T(-1,1)[40,200] u8%256[33,2,64] T(0.01,0.1)[33,2]"},
    {"com.microsoft::MatMulNBits", "K=96 N=5 block_size=32 bits=8",
     "T(-1,1)[1,96] u8%256[5,3,32] T(0.001,0.01)[5,3] u8%256[5,3]"},
    {"com.microsoft::MatMulNBits", "K=70 N=11 block_size=64 bits=2",
     "T(-1,1)[9,70] u8%256[11,2,16] T(0.1,0.5)[11,2] u8%256[11,1]"},
    {"com.microsoft::MatMulNBits", "K=32 N=3 block_size=32",
     "T[0,32] u8%256[3,1,16] T[3,1]"},
    {"com.microsoft::GroupQueryAttention", "num_heads=4 kv_num_heads=2",
     "T(-1,1)[1,1,32] T(-1,1)[1,1,16] T(-1,1)[1,1,16] T(-1,1)[1,2,12,8]"
     " T(-1,1)[1,2,12,8] i32{6} i32=7 >3"},
    {"com.microsoft::GroupQueryAttention",
     "num_heads=4 kv_num_heads=2 do_rotary=1",
     "T(-1,1)[2,5,128] - - T(-1,1)[2,2,20,16] T(-1,1)[2,2,20,16] i32{13,6}"
     " i32=14 T(-1,1)[30,8] T(-1,1)[30,8] >3"},
    {"com.microsoft::GroupQueryAttention",
     "num_heads=3 kv_num_heads=1 do_rotary=1 rotary_interleaved=1",
     "T(-1,1)[1,9,36] T(-1,1)[1,9,12] T(-1,1)[1,9,12] - - i32{8} i32=9"
     " T(-1,1)[16,3] T(-1,1)[16,3] >3"},
    {"com.microsoft::GroupQueryAttention",
     "num_heads=2 kv_num_heads=2 local_window_size=4 scale=0.3",
     "T(-1,1)[1,7,10] T(-1,1)[1,7,10] T(-1,1)[1,7,10] T(-1,1)[1,2,16,5]"
     " T(-1,1)[1,2,16,5] i32{12} i32=13 >3"},
    {"com.microsoft::GroupQueryAttention",
     "num_heads=4 kv_num_heads=1 softcap=1.5",
     "T(-2,2)[2,1,16] T(-2,2)[2,1,4] T(-2,2)[2,1,4] T(-2,2)[2,1,6,4]"
     " T(-2,2)[2,1,6,4] i32{6,2} i32=7 - - - T(-2,2)[1,4,1,7] >3"},
    {"com.microsoft::GroupQueryAttention",
     "num_heads=4 kv_num_heads=2 local_window_size=3",
     "T(-1,1)[2,4,32] T(-1,1)[2,4,16] T(-1,1)[2,4,16] T(-1,1)[2,2,12,8]"
     " T(-1,1)[2,2,12,8] i32{9,5} i32=10 - - - - T(-2,2)[4] >3"},
    {"com.microsoft::GroupQueryAttention",
     "num_heads=2 kv_num_heads=1 smooth_softmax=1",
     "T(-1,1)[1,3,8] T(-1,1)[1,3,4] T(-1,1)[1,3,4] - - i32{2} i32=3 >3"},
    {"com.microsoft::GroupQueryAttention",
     "num_heads=2 kv_num_heads=1 do_rotary=1",
     "T(-1,1)[1,3,8] T(-1,1)[1,3,4] T(-1,1)[1,3,4] T(-1,1)[1,1,300,4]"
     " T(-1,1)[1,1,300,4] i32{290} i32=300 T(-1,1)[10,2] T(-1,1)[10,2]"
     " i64%10[1,3]"},
    {"keel::Attention", "scale=0.25",
     "T(-2,2)[2,3,5,16] T(-2,2)[2,3,7,16] T(-2,2)[2,3,7,8]"},
    {"keel::Attention", "", "T(-1,1)[3,1,5] T(-1,1)[3,4,5] T(-1,1)[3,4,9]"},
    {"keel::Attention", "heads_last=1 scale=0.2",
     "T(-2,2)[1,4,130,20] T(-2,2)[1,2,300,20] T(-2,2)[1,2,300,17]"
     " T(-3,3)[130,300]"},
    {"keel::Attention", "causal=1 scale=0.5",
     "T(-2,2)[2,2,9,8] T(-2,2)[2,1,9,8] T(-2,2)[2,1,9,8]"},
    {"keel::Attention", "causal=1 scale=0.3 nan_as_zero=1",
     "T(-2,2)[1,1,6,4] T(-2,2)[1,1,4,4] T(-2,2)[1,1,4,3] T(-3,3)[1,1,6,1]"},
    {"keel::Attention", "causal=1 scale=0.2",
     "T(-2,2)[1,2,100,12] T(-2,2)[1,2,513,12] T(-2,2)[1,2,513,24]"},
    {"keel::Attention", "scale=0.35",
     "T(-2,2)[2,8,1,8] T(-2,2)[2,2,40,8] T(-2,2)[2,2,40,8] T(-1,1)[2,1,1,40]"},
    {"keel::FusedMatMul", "", "T(-1,1)[4,7] T(-1,1)[7,5] T[5]"},
    {"keel::FusedMatMul", "activation=Relu",
     "T(-1,1)[2,3,40] T(-1,1)[40,66] T[66] T[2,3,66]"},
    {"keel::FusedMatMul", "activation=Gelu",
     "T(-1,1)[130,20] T(-1,1)[20,33] T(-1,1)[33]"},
    {"keel::FusedMatMul", "activation=GeluTanh",
     "T(-1,1)[1,3,9] T(-1,1)[9,17] - T[1,3,17]"},
    {"keel::FusedMatMul", "activation=Silu",
     "T(-1,1)[3,1,8] T(-1,1)[3,8,6] T[6]"},
    {"keel::PopCount", "", "T[7]"},
    {"keel::PopCount", "", "T[2,0,3]"},
    {"keel::PopCount", "", "T[33,65]"},
    {"keel::LeadingZeros", "", "T[7]"},
    {"keel::LeadingZeros", "", "T(0,4)[33,65]"},
    {"keel::Within", "input=lengths op=Attention", "i64{0,3,7} i64{0} i64{7}"},
    {"keel::Within", "input=lengths op=Attention", "i64{-2} i64{-2} i64{-2}"},
    {"keel::Find", "", "T{0,1,2,3,1,0,5,4} T{1,0,2,1,9}"},
    {"keel::Find", "", "T[2,0,3] T{3,1}"},
    {"keel::Find", "", "T(0,9)[3,401] T(0,9)[33]"},
    {"keel::Find", "", "T{1,2} T[0]"},
    {"keel::Find", "strict=1", "T[33,17] T=3"},
    {"keel::Find", "strict=1", "T{2,7,7,1} T{7,1,2}"},
    {"keel::Find", "", "f32{nan,1,-inf,0,-0} f32{-inf,nan,0,nan}"},
    {"keel::Find", "", "f64{nan,0,2} f64{-0,nan,2,2}"},
    {"keel::Trees",
     "features=0,1,-1,-1,-1 modes=0,0,0,0,0 yes=1,2,0,1,2 no=4,3,1,2,4"
     " roots=0 splits=T{1,0.5,0,0,0} targets=1 vote_targets=0,0,0,0"
     " vote_weights=f64{1.5,-2.25,3,0.125}",
     "T[5,4]{1,0.5,0,0,1,0.75,0,0,2,0,0,0,nan,0.5,0,0,0,nan,0,0}"},
    TREES_BY("1,9"),
    TREES_BY("2,10"),
    TREES_BY("3,11"),
    TREES_BY("4,12"),
    TREES_BY("5,13"),
    TREES_OF("sum"),
    TREES_OF("average"),
    TREES_OF("min"),
    TREES_OF("max"),
    {"keel::Trees",
     "features=-1 modes=0 yes=0 no=1 roots=0 splits=T{0} targets=2"
     " vote_targets=1 vote_weights=f64{2.5}",
     "T[0,4]"},
    {"keel::Couple", "classes=2", "T(0.05,0.95)[5,1]"},
    {"keel::Couple", "classes=3", "T(0.05,0.95)[9,3]"},
    {"keel::Couple", "classes=7", "T(0.05,0.95)[3,21]"},
    {"keel::Couple", "classes=4", "T[0,6]"},
    {"keel::ArgSort", "", "T[7]"},
    {"keel::ArgSort", "descending=1", "T(-3,3)[2,301]"},
    {"keel::ArgSort", "axis=0", "T(0,2)[65,3] T(0,3)[65,3]"},
    {"keel::ArgSort", "axis=1 descending=1",
     "T(0,2)[2,33,5] i64%3[2,33,5] f32[2,33,5]"},
    {"keel::ArgSort", "axis=1", "T[2,0,3]"},
    {"keel::DynamicSlice", "sizes=2,3", "T[4,7] i64{1,2}"},
    {"keel::DynamicSlice", "sizes=2,3,1", "T[4,3,5] i64{-2,9,3}"},
    {"keel::DynamicSlice", "sizes=0", "T[5] i64{2}"},
    {"keel::DynamicUpdateSlice", "", "T[4,7] T[2,3] i64{1,2}"},
    {"keel::DynamicUpdateSlice", "", "T[4,3,5] T[4,1,2] i64{3,-1,100}"},
    {"keel::DynamicUpdateSlice", "", "T[5] T[0] i64{2}"},
    {"keel::ReduceWindow", "window=3", "T(-2,2)[17] T=0"},
    {"keel::ReduceWindow", "window=1,2,3 strides=1,2,1 pads=0,1,2,0,0,1",
     "T(-2,2)[2,5,6] T=1"},
    {"keel::ReduceWindow",
     "reduction=max window=2,2 window_dilations=2,1 base_dilations=1,2",
     "T(-9,9)[6,5] T=-5"},
    {"keel::ReduceWindow", "reduction=min window=3,1 pads=-1,1,2,0",
     "T(-9,9)[6,5] T=9"},
    {"keel::ReduceWindow", "reduction=mul window=2", "T(0.5,1.5)[9] T=1"},
    {"keel::ReduceWindow", "window=9", "T(-2,2)[3] T=0"},
    {"keel::ReduceWindow",
     "window=2147483647,3 pads=2147483646,2,0,0 window_dilations=1,2",
     "T(-2,2)[4,9] T=1"},
    {"keel::ReduceWindow",
     "reduction=max window=3,2 base_dilations=3,2 window_dilations=2,3"
     " pads=2,1,-1,4",
     "T(-9,9)[4,5] T=-7"},
    {"keel::RngBitGenerator", "dtype=12 shape=7", "T[2] >2"},
    {"keel::RngBitGenerator", "dtype=13 shape=5,3", "T(0,9e18)[2] >2"},
    {"keel::RngBitGenerator", "dtype=2 shape=33,65", "T(0,9e18)[3] >2"},
    {"keel::RngBitGenerator", "dtype=6 shape=9001",
     "u64{5,18446744073709549568} >2"},
    {"keel::RngBitGenerator", "dtype=7 shape=4501",
     "u64{5,18446744073709549568,77} >2"},
    {"keel::RngBitGenerator", "algorithm=threefry dtype=12 shape=3,5,3",
     "T(0,9e18)[2] >2"},
    {"keel::RngBitGenerator", "algorithm=threefry dtype=4 shape=3,4,7",
     "T(0,9e18)[2] >2"},
    {"keel::RngBitGenerator", "algorithm=threefry dtype=13 shape=3001",
     "u64{5,18446744073709549568} >2"},
    {"keel::RngBitGenerator", "algorithm=threefry dtype=3 shape=0,3",
     "T[2] >2"},
    {"keel::SelectAndScatter", "window=1,2,2 strides=1,2,2",
     "T[2,6,4] T(-2,2)[2,3,2] T=0"},
    {"keel::SelectAndScatter", "select=le window=3 pads=1,1",
     "T[9] T(-2,2)[9] T=1"},
    {"keel::SelectAndScatter", "window=2147483647,2 pads=2147483646,0,0,0",
     "T[3,4] T(-2,2)[3,3] T=1"},
    {"keel::FusedConv", "activation=Relu pads=1,1,1,1",
     "T[1,16,6,5] T[16,16,3,3] T[16] T[1,16,6,5]"},
    {"keel::FusedConv", "activation=Relu", "T[1,3,7,6] T[4,3,3,3] T[4]"},
    {"keel::FusedConv", "activation=Relu", "T[1,3,7,6] T[4,3,3,3]"},
    {"keel::FusedConv", "activation=Clip low=-1 high=2 pads=1,1,1,1",
     "T[1,16,6,5] T[16,16,3,3] T[16] T[1,16,6,5]"},
    {"keel::FusedConv", "activation=Clip high=1 group=16",
     "T[1,16,7,6] T[16,1,3,3]"},
    {"keel::ActivatedConv", "activation=Silu pads=1,1,1,1",
     "T[1,16,6,5] T[16,16,3,3] T[16] T[1,16,6,5]"},
    {"keel::ActivatedConv", "", "T[1,3,7,6] T[4,3,3,3] T[4]"},
    {"keel::ActivatedConv", "activation=HardSwish group=20",
     "T[1,20,7,6] T[20,1,3,3]"},
    {"keel::ActivatedConv", "activation=LeakyRelu alpha=0.2 strides=2,2",
     "T[2,17,7,6] T[9,17,3,3] T[9]"},
    {"keel::DepthwiseConv", "pads=1,1,1,1", "T[1,6,5,16] T[3,3,16] T[16]"},
    {"keel::DepthwiseConv", "activation=Gelu strides=2,1 pads=1,0,0,2",
     "T(-1,1)[2,7,9,21] T(-1,1)[3,2,21] T(-1,1)[21]"},
    {"keel::DepthwiseConv", "activation=Silu dilations=2,2",
     "T(-1,1)[1,9,8,5] T(-1,1)[3,3,5]"},
    {"keel::DepthwiseConv", "activation=GeluTanh auto_pad=SAME_UPPER strides=2",
     "T(-1,1)[2,13,40] T(-1,1)[4,40] T(-1,1)[40]"},
    {"keel::DepthwiseConv", "activation=Relu pads=3,3,3,3",
     "T[1,12,11,33] T[7,7,33]"},
    {"ConvInteger", "pads=1,1,1,1", "T[1,2,5,5] T[3,2,3,3]"},
    {"ConvInteger", "", "T[1,2,5,5] T[3,2,3,3] T=3"},
    {"QLinearConv", "pads=1,1,1,1",
     "T[1,2,5,5] f32=0.02 T=3 T[3,2,3,3] f32=0.03 T=2 f32=0.05 T=4"},
    {"ConvInteger", "pads=1,1,1,1", "T[1,2,5,5] T[3,2,3,3] T=-3 T=-2"},
    {"ConvInteger", "", "T[1,2,5,5] T[3,2,3,3] T=-128 T{-1,-128,127}"},
    {"QLinearConv", "pads=1,1,1,1",
     "T[1,2,5,5] f32=0.02 T=-3 T[3,2,3,3] f32=0.03 T=-2 f32=0.05 T=-4"},
    {"QLinearConv", "",
     "T[1,2,5,5] f32=0.02 T=-128 T[3,2,3,3] f32{0.03,0.1,0.5} T{-1,-128,127}"
     " f32=0.05 T=-1"},
    {"Conv", "pads=1,1,1,1", "T[3,2,12,12] T[5,2,12,12] T[5]"},
    {"Conv", "strides=2,1 dilations=1,2 pads=2,1,0,3",
     "T[2,3,14,19] T[4,3,12,9]"},
    {"Conv", "dilations=3 pads=1,0", "T[2,2,70] T[3,2,21]"},
    {"Conv", "", "T[1,2,4,6,9] T[3,2,4,5,8]"},
    {"ConvTranspose", "", "T[1,3,4,5] T[3,4,3,3]"},
    {"ConvTranspose", "strides=2,2 pads=1,1,1,1 output_padding=1,1",
     "T[1,2,4,5] T[2,3,3,3] T[3]"},
    {"ConvTranspose", "group=2 strides=3,2", "T[1,4,3,3] T[4,2,2,3]"},
    {"ConvTranspose", "", "T[1,2,9] T[2,3,4]"},
    {"ConvTranspose", "strides=2,2", "T[2,5,4,7] T[5,3,2,2] T[3]"},
    {"ConvTranspose", "strides=2,3 group=2", "T[2,4,3,5] T[4,3,2,3] T[6]"},
    {"ConvTranspose", "strides=4", "T[1,3,6] T[3,2,4]"},
    {"ConvTranspose", "strides=2,1,3", "T[1,2,2,3,2] T[2,2,2,1,3]"},
    {"ConvTranspose", "strides=2,2", "T[1,20,9,9] T[20,18,2,2] T[18]"},
    {"ConvTranspose", "pads=1,1,1,1", "T[1,4,5,5] T[4,4,3,3]"},
    {"ConvTranspose", "strides=2,1 dilations=1,2 pads=1,2,0,1",
     "T[1,3,12,15] T[3,20,3,3] T[20]"},
    {"MaxPool", "kernel_shape=2,2", "T[1,3,6,6]"},
    {"MaxPool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", "T[2,3,7,8] >2"},
    {"MaxPool", "kernel_shape=3 ceil_mode=1 strides=2", "T[1,2,8]"},
    {"MaxPool", "kernel_shape=2,2 dilations=2,2", "T[1,1,7,7]"},
    {"MaxPool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", "T[1,16,8,8]"},
    {"MaxPool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1", "T[2,2,37,41]"},
    {"MaxPool", "kernel_shape=2,4 strides=3,1 dilations=2,3 pads=1,0,2,4",
     "T[1,2,17,23]"},
    {"MaxPool", "kernel_shape=2 strides=2", "T[1,1,1301]"},
    {"MaxPool", "kernel_shape=2,3,2 strides=1,2,6 pads=1,1,0,0,1,1",
     "T[1,2,4,9,26]"},
    {"MaxPool", "kernel_shape=5,5 pads=2,2,2,2", "T[1,1,130,97]"},
    {"MaxPool", "kernel_shape=3,3 strides=3,3 ceil_mode=1", "T[1,2,25,20]"},
    {"MaxPool", "kernel_shape=3,3 strides=3,2 ceil_mode=1", "T[1,2,1,5] >2"},
    {"MaxPool", "kernel_shape=4,1 strides=3,1 ceil_mode=1", "T[1,2,1,5] >2"},
    {"AveragePool", "kernel_shape=3,3 strides=3,2 ceil_mode=1", "T[1,2,1,5]"},
    {"AveragePool",
     "kernel_shape=5,4 strides=2,3 ceil_mode=1 count_include_pad=1"
     " pads=1,1,1,0",
     "T[1,2,1,2]"},
    {"AveragePool", "kernel_shape=2,2", "T[1,3,6,6]"},
    {"AveragePool", "kernel_shape=3,3 strides=2,2 pads=1,1,1,1",
     "T[2,2,37,41]"},
    {"AveragePool", "kernel_shape=2,5 strides=1,5 ceil_mode=1 pads=1,2,0,1",
     "T[1,2,9,33]"},
    {"AveragePool", "kernel_shape=3,3,3 pads=1,1,1,1,1,1 count_include_pad=1",
     "T[1,2,4,5,9]"},
    {"AveragePool", "kernel_shape=3,3,3 strides=2,2,2 pads=1,1,1,1,1,1",
     "T[1,2,4,5,9]"},
    {"AveragePool", "kernel_shape=3,3 strides=3,3 ceil_mode=1", "T[1,2,24,20]"},
    {"AveragePool", "kernel_shape=3,3 pads=1,1,1,1", "T[1,3,5,5]"},
    {"AveragePool", "kernel_shape=3,3 pads=1,1,1,1 count_include_pad=1",
     "T[1,3,5,5]"},
    {"AveragePool", "kernel_shape=3 strides=2", "T[2,2,11]"},
    {"LpPool", "kernel_shape=3,3 strides=2,2", "T[1,2,7,7]"},
    {"LpPool", "kernel_shape=2,2 p=1", "T[1,2,5,5]"},
    {"LpPool", "kernel_shape=3,4 strides=3,2 ceil_mode=1", "T[1,2,2,3]"},
    {"LpPool", "kernel_shape=2,4 strides=2,3 p=3", "T[1,2,8,21]"},
    /* lines that are given as planes of one column, and planes of few */
    {"Conv", "pads=2,0,2,0", "T[2,5,40,1] T[4,5,5,1] T[4]"},
    {"Conv", "pads=1,0,2,0 dilations=2,1", "T[2,3,23,3] T[6,3,3,1] T[6]"},
    {"Conv", "pads=0,1,0,0,1,0", "T[1,3,1,9,2] T[4,3,1,3,1]"},
    {"ConvTranspose", "strides=2,1", "T[1,3,9,1] T[3,4,4,1]"},
    {"QLinearConv", "pads=1,0,1,0",
     "T[1,2,15,2] f32=0.02 T=3 T[3,2,3,1] f32=0.03 T=2 f32=0.05 T=4"},
    {"MaxPool", "kernel_shape=3,1 pads=1,0,1,0", "T[2,3,37,2] >2"},
    {"MaxPool", "kernel_shape=3,1 storage_order=1", "T[1,2,9,3] >2"},
    {"MaxPool", "kernel_shape=3,1 strides=2,1 ceil_mode=1", "T[1,2,38,4]"},
    {"MaxPool", "kernel_shape=1,4,1 dilations=1,2,1", "T[1,2,1,19,1] >2"},
    {"AveragePool", "kernel_shape=3,1 pads=1,0,1,0", "T[2,3,41,1]"},
    {"AveragePool", "kernel_shape=3,1 pads=1,0,2,0 count_include_pad=1",
     "T[1,3,30,5]"},
    {"AveragePool", "kernel_shape=5,1 strides=3,1 pads=2,0,2,0 ceil_mode=1",
     "T[1,2,40,3]"},
    {"LpPool", "kernel_shape=3,1 pads=1,0,1,0", "T[1,2,21,2]"},
    {"GlobalAveragePool", "", "T[2,3,5,7]"},
    {"GlobalMaxPool", "", "T[2,3,5,7]"},
    {"GlobalLpPool", "p=2", "T[2,3,5,7]"},
    {"GlobalAveragePool", "", "T[1,16,7,7]"},
    {"GlobalAveragePool", "", "T[2,3,17,19]"},
    {"GlobalAveragePool", "", "T[1,2,36,36]"},
    {"GlobalMaxPool", "", "T[1,5,400]"},
    {"GlobalLpPool", "p=3", "T[1,2,16,16]"},
    {"MaxUnpool", "kernel_shape=2,2 strides=2,2",
     "T[1,1,2,2] i64[1,1,2,2]{5,7,13,15}"},
    {"MaxUnpool", "kernel_shape=2,2 strides=2,2",
     "T[1,1,2,2] i64[1,1,2,2]{5,7,13,15} i64{1,1,5,6}"},
    {"Resize", "mode=nearest", "T[1,2,3,4] - f32{1,1,2,3}"},
    {"Resize", "mode=linear", "T(0,9)[1,2,3,4] - f32{1,1,2,2}"},
    {"Resize", "mode=cubic", "T(0,9)[1,1,5,4] - - i64{1,1,9,8}"},
    {"Resize",
     "mode=nearest coordinate_transformation_mode=asymmetric"
     " nearest_mode=floor",
     "T[1,2,4,4] - f32{1,1,0.5,2}"},
    {"Resize",
     "mode=linear coordinate_transformation_mode=tf_crop_and_resize axes=2,3",
     "T(0,9)[1,2,4,5] f32{0.2,0.1,0.9,0.8} - i64{3,4}"},
    {"Resize",
     "mode=cubic coordinate_transformation_mode=tf_crop_and_resize axes=-1,1"
     " extrapolation_value=7",
     "T(0,9)[1,5,2,4] f32{0,0.5,0.75,1.5} f32{2,1}"},
    {"Resize",
     "coordinate_transformation_mode=tf_crop_and_resize nearest_mode=floor"
     " extrapolation_value=3",
     "T[1,2,4,5] f32{0,0,-0.3,0.8,1,1,0.6,0.1} f32{1,1,1,1}"},
    {"Resize", "mode=linear axes=3,2", "T(0,9)[1,2,3,4] - f32{2,1.5}"},
    {"Resize", "mode=linear", "T(0,9)[1,1,5,4] - f32{1,1,1.1,1.2}"},
    {"Resize", "mode=linear keep_aspect_ratio_policy=not_larger axes=2,3",
     "T(0,9)[1,2,6,4] - - i64{7,8}"},
    {"Resize", "mode=cubic keep_aspect_ratio_policy=not_smaller axes=-2,-1",
     "T(0,9)[1,1,6,4] - - i64{7,8}"},
    {"Resize", "keep_aspect_ratio_policy=not_larger nearest_mode=ceil",
     "T[4,6,5] - - i64{5,5,7}"},
    {"Resize", "mode=cubic cubic_coeff_a=-0.5 exclude_outside=1",
     "T(0,9)[1,1,5,4] - f32{1,1,0.8,1.7}"},
    {"Resize", "mode=linear antialias=1", "T(0,9)[1,1,9,8] - f32{1,1,0.4,0.6}"},
    {"Resize", "mode=cubic antialias=1 exclude_outside=1",
     "T(0,9)[1,1,9,8] - - i64{1,1,4,5}"},
    {"Resize", "mode=cubic", "T{0,255,0,255,255,0,0,255} - f32{2.5}"},
    {"Resize", "mode=linear", "T(0,9)[2,2,9,17] - f32{1,1,2.3,1.7}"},
    {"Resize", "mode=linear", "T(0,9)[1,2,23,19] - f32{1,1,0.4,1.5}"},
    {"Resize", "mode=cubic", "T(0,9)[1,2,23,19] - f32{1,1,0.6,0.3}"},
    {"Resize", "mode=linear coordinate_transformation_mode=align_corners",
     "T(0,9)[1,2,3,4,5] - - i64{1,2,5,7,11}"},
    {"Resize", "mode=linear", "T(0,9)[1,2,4,6,5] - - i64{1,2,3,6,9}"},
    {"Resize", "mode=cubic", "T(0,9)[1,5,6,7] - f32{1,2,3,1}"},
    {"Resize", "mode=linear", "T(0,9)[3,700] - f32{1,2}"},
    {"Resize", "mode=nearest", "T[2,3,9,8] - f32{1,1,2,2}"},
    {"Resize", "mode=nearest", "T[2,5,6,3] - f32{1,1.5,2.5,1}"},
    {"Resize",
     "mode=nearest coordinate_transformation_mode=asymmetric"
     " nearest_mode=floor",
     "T[1,2,3,4,5] - f32{1,1,2,1,2}"},
    {"GridSample", "", "T(-4,4)[2,3,4,5] f32(-1.4,1.4)[2,3,2,2]"},
    {"GridSample", "", "T(-4,4)[2,2,9,8] f32(-1.4,1.4)[2,11,13,2]"},
    {"GridSample", "padding_mode=border align_corners=1",
     "T(-4,4)[1,2,5,4] f32(-2,2)[1,4,3,2]"},
    {"GridSample", "mode=nearest padding_mode=reflection",
     "T(-4,4)[1,2,5,4] f32(-3,3)[1,4,3,2]"},
    {"GridSample", "mode=cubic", "T(-4,4)[1,2,6,5] f32(-1.4,1.4)[1,4,3,2]"},
    {"GridSample", "mode=cubic padding_mode=border",
     "T(-4,4)[1,2,6,5] f32(-2,2)[1,4,3,2]"},
    {"GridSample", "mode=cubic padding_mode=reflection align_corners=1",
     "T(-4,4)[1,2,6,5] f32(-3,3)[1,4,3,2]"},
    {"GridSample", "", "T(-4,4)[2,2,3,4,5] f32(-1.4,1.4)[2,2,3,2,3]"},
    {"GridSample", "mode=nearest padding_mode=border",
     "T(-4,4)[1,2,3,4,5] f32(-2,2)[1,2,3,2,3]"},
    {"GridSample", "mode=cubic padding_mode=reflection",
     "T(-4,4)[1,1,5,4,6] f32(-2,2)[1,2,2,3,3]"},
    {"GridSample", "align_corners=1", "T(-4,4)[2,3,7] f32(-1.2,1.2)[2,5,1]"},
    {"GridSample", "padding_mode=reflection",
     "T(-4,4)[1,1,3,4] T(-3,3)[1,4,3,2]"},
    {"RoiAlign",
     "output_height=3 output_width=2 sampling_ratio=2 spatial_scale=0.5",
     "T(-4,4)[2,3,8,9] T[3,4]{1,2,9,11,0,0,5,14,4,3,16,15} i64{0,1,0}"},
    {"RoiAlign",
     "output_height=2 output_width=2 mode=max"
     " coordinate_transformation_mode=output_half_pixel",
     "T(-4,4)[1,2,6,6] T[2,4]{0.5,1,4,5.25,2,2,2.5,2.5} i64{0,0}"},
    /* regions also where a rule turns or doubles these numbers */
    {"MaxRoiPool", "pooled_shape=2,2",
     "T(-4,4)[2,4,11,13] T[2,5]{0,1,2,6,0,0,7,3,5,0}"},
    {"MaxRoiPool", "pooled_shape=2,3 spatial_scale=0.5",
     "T(-4,4)[2,3,8,9] T[4,5]{0,1,2,9,11,1,0,0,5,14,1,12,8,20,25,0,9,9,1,1}"},
    {"MaxRoiPool", "pooled_shape=1,1", "T(-4,4)[1,2,3,3] T[1,5]{0,5,5,9,9}"},
    {"RoiAlign", "output_height=2 output_width=3",
     "T(-4,4)[1,2,9,9] T[1,4]{0.5,1,7.25,8.5} i64{0}"},

    {"Einsum", "equation=ij,jk->ik", "T(-4,4)[3,17] T(-4,4)[17,4]"},
    {"Einsum", "equation=bij,bkj->bik", "T(-4,4)[2,3,5] T(-4,4)[2,4,5]"},
    {"Einsum", "equation=...ii->...i", "T[2,3,3]"},
    {"Einsum", "equation=ij->ji", "T[3,5]"},
    {"Einsum", "equation=ij->", "T(-4,4)[7,9]"},
    {"Einsum", "equation=i,i", "T(-4,4)[33] T(-4,4)[33]"},
    {"Einsum", "equation=bhid,bhjd->bhij", "T(-4,4)[2,2,3,8] T(-4,4)[2,2,5,8]"},
    {"Einsum", "equation=i,ij,j->", "T(-2,2)[3] T(-2,2)[3,4] T(-2,2)[4]"},
    {"Einsum", "equation=...ij,...jk->...ik",
     "T(-4,4)[2,1,3,4] T(-4,4)[5,4,2]"},
    {"DFT", "", "T(-4,4)[2,10,1]"},
    {"DFT", "", "T(-4,4)[1,3,8,2] - i64=2"},
    {"DFT", "", "T(-4,4)[3,4,5,2] i32=6 i64=0"},
    {"DFT", "inverse=1", "T(-4,4)[1,12,2]"},
    {"DFT", "onesided=1", "T(-4,4)[1,9,1]"},
    {"DFT", "inverse=1 onesided=1", "T(-4,4)[2,5,2]"},
    {"DFT", "inverse=1 onesided=1", "T(-4,4)[4,3,2] i64=7 i64=-3"},
    {"DFT", "inverse=1 onesided=1", "T(-4,4)[1,4,2] i64=10"},
    {"DFT", "", "T(-4,4)[1,6,2] i64=16"},
    {"DFT", "", "T(-4,4)[1,97,1]"},
    {"STFT", "", "T(-4,4)[1,32,1] i64=8 T(0,1)[16]"},
    {"STFT", "onesided=0", "T(-4,4)[2,20,1] i64=5 - i64=7"},
    {"MelWeightMatrix", "", "T=8 T=16 T=8192 f32=0 f32=4096"},
    {"MelWeightMatrix", "", "T=20 T=512 T=16000 f32=300 f32=7600"},

    {"RNN", "hidden_size=4", "T(-1,1)[5,2,3] T(-1,1)[1,4,3] T(-1,1)[1,4,4] >2"},
    {"RNN", "hidden_size=3 direction=bidirectional activations=Relu,Softsign",
     "T(-1,1)[4,2,5] T(-1,1)[2,3,5] T(-1,1)[2,3,3] T(-1,1)[2,6] i32{4,2}"
     " T(-1,1)[2,2,3] >2"},
    {"RNN", "hidden_size=3 layout=1 direction=reverse clip=0.5",
     "T(-1,1)[2,4,5] T(-1,1)[1,3,5] T(-1,1)[1,3,3] >2"},
    {"GRU", "hidden_size=4",
     "T(-1,1)[5,2,3] T(-1,1)[1,12,3] T(-1,1)[1,12,4] >2"},
    {"GRU", "hidden_size=3 linear_before_reset=1 direction=bidirectional",
     "T(-1,1)[4,2,5] T(-1,1)[2,9,5] T(-1,1)[2,9,3] T(-1,1)[2,18] i32{3,4}"
     " T(-1,1)[2,2,3] >2"},
    {"GRU", "hidden_size=3 layout=1",
     "T(-1,1)[2,4,5] T(-1,1)[1,9,5] T(-1,1)[1,9,3] T(-1,1)[1,18] >2"},
    {"LSTM", "hidden_size=4",
     "T(-1,1)[5,2,3] T(-1,1)[1,16,3] T(-1,1)[1,16,4] >3"},
    {"LSTM", "hidden_size=3 direction=bidirectional",
     "T(-1,1)[4,2,5] T(-1,1)[2,12,5] T(-1,1)[2,12,3] T(-1,1)[2,24] i32{4,1}"
     " T(-1,1)[2,2,3] T(-1,1)[2,2,3] T(-1,1)[2,9] >3"},
    {"LSTM",
     "hidden_size=3 layout=1 activations=HardSigmoid,Tanh,Affine"
     " activation_alpha=0.3,2 activation_beta=0.4,0.1",
     "T(-1,1)[2,4,5] T(-1,1)[1,12,5] T(-1,1)[1,12,3] >3"},
    {"LSTM", "hidden_size=3 input_forget=1 clip=0.8",
     "T(-1,1)[3,1,5] T(-1,1)[1,12,5] T(-1,1)[1,12,3] >3"},

    {"Transpose", "", "T[2,3,5]"},
    {"Transpose", "perm=1,0", "T[17,33]"},
    {"Transpose", "perm=0,2,1,3", "T[2,3,4,5]"},
    {"Transpose", "perm=4,3,2,1,0", "T[2,3,1,2,3]"},
    {"Transpose", "perm=0", "T[9]"},
    {"Transpose", "perm=1,2,0", "T[3,0,2]"},
    {"Transpose", "perm=1,0", "T[8,16]"},
    {"Transpose", "perm=1,0,2", "T[4,3,16]"},
    {"Transpose", "perm=0,3,1,2", "T[2,4,3,8]"},
    {"Expand", "", "T[3,1] i64{2,3,4}"},
    {"Expand", "", "T[] i64{2,2}"},
    {"Expand", "", "T[1,5] i64{1}"},
    {"Expand", "", "T[8,1] i64{8,16}"},
    {"Expand", "", "T[16] i64{3,16}"},
    {"Concat", "axis=0", "T[2,3] T[4,3]"},
    {"Concat", "axis=-1", "T[2,3] T[2,1] T[2,4]"},
    {"Concat", "axis=1", "T[2,0,3] T[2,5,3]"},
    {"Concat", "axis=1", "T[3,5,2]"},
    {"Concat", "axis=-1", "T[8,1] T[8,1] T[8,1]"},
    {"Concat", "axis=-1", "T[4,8] T[4,16]"},
    {"Concat", "axis=1",
     "T[2,1] T[2,2] T[2,1] T[2,3] T[2,1] T[2,0] T[2,4] T[2,1] T[2,2] T[2,5]"
     " T[2,1]"},
    {"Concat", "axis=1", "T[2,4,3] T[2,8,3] T[2,4,3] T[2,0,3]"},
    {"Concat", "axis=-1", "T[4,8] T[4,3] T[4,4]"},
    {"Concat", "axis=1", "T[1,16,3,5] T[1,32,3,5]"},
    {"Concat", "axis=1", "T[1,8,4,2] T[1,13,4,2]"},
    {"Concat", "axis=1", "T[1,5,3] T[1,8,3]"},
    {"Concat", "axis=-1", "T[1,5] T[1,16]"},
    {"Split", "axis=0", "T[6,3] i64{1,2,3} >3"},
    {"Split", "axis=-1 num_outputs=3", "T[2,7] >3"},
    {"Split", "axis=1", "T[2,4,3] i64{0,4} >2"},
    {"Slice", "", "T[5,7] i64{1,2} i64{4,6}"},
    {"Slice", "", "T[9] i64{-1} i64{-10} i64{0} i64{-2}"},
    {"Slice", "", "T[4,5,6] i64{1} i64{100} i64{-1} i64{2}"},
    {"Slice", "", "T[4,5] i64{3} i64{3} i64{1}"},
    {"Slice", "", "T[4,16] i64{1} i64{9} i64{1}"},
    {"Slice", "", "T[8,16] i64{0} i64{16} i64{1} i64{2}"},
    {"Slice", "", "T[16] i64{-1} i64{-17} i64{0} i64{-1}"},
    {"Pad", "", "T[3,4] i64{1,0,2,3}"},
    {"Pad", "", "T[3,4] i64{1,0,2,3} T=5"},
    {"Pad", "mode=edge", "T[3,4] i64{1,2,2,1}"},
    {"Pad", "mode=reflect", "T[3,4] i64{1,2,2,1}"},
    {"Pad", "", "T[2,3] i64{0,-1,0,0}"},
    {"Pad", "", "T[2,3,5,1] i64{0,0,0,0,0,0,0,1} T=2"},
    {"Pad", "", "T[2,4,2] i64{1,2,3,0,1,1} T=3"},
    {"Pad", "", "T[3,4,2] i64{-1,1,1,0,-2,0}"},
    {"Pad", "", "T[3,6,3] i64{0,-2,2,1,1,2} T=7"},
    {"Tile", "", "T[2,3] i64{2,3}"},
    {"Tile", "", "T[1,2,3] i64{3,1,2}"},
    {"Tile", "", "T[4] i64{0}"},
    {"Gather", "", "T[5,3] i64~5[2,2]"},
    {"Gather", "axis=1", "T[3,6,2] i64~6[4]"},
    {"Gather", "axis=-1", "T[3,6] i32%6[]"},
    {"Gather", "", "T[7] i64%7[0]"},
    {"GatherElements", "axis=1", "T[3,6] i64~6[3,4]"},
    {"GatherElements", "axis=0", "T[5,2,3] i32%5[4,2,3]"},
    {"GatherND", "", "T[4,5,6] i64%4[3,2]"},
    {"GatherND", "batch_dims=1", "T[2,5,3] i64%3[2,4,1]"},
    {"ScatterElements", "axis=1", "T[3,5] i64[1,2]{1,3} T[1,2]"},
    {"ScatterElements", "axis=0", "T[4,2] i64[2,2]{0,3,2,1} T[2,2]"},
    {"ScatterElements", "axis=0 reduction=add",
     "T(-9,9)[4] i64{1,1,2} T(-9,9)[3]"},
    {"ScatterElements", "axis=-1 reduction=add",
     "T(-9,9)[3,4] i64%4[3,5] T(-9,9)[3,5]"},
    {"ScatterElements", "axis=0 reduction=add",
     "T(-9,9)[2,3,2] i64%2[4,3,2] T(-9,9)[4,3,2]"},
    {"ScatterND", "", "T[6] i64[3,1]{4,0,2} T[3]"},
    {"ScatterND", "", "T[4,3,2] i64[2,1]{3,1} T[2,3,2]"},
    {"DepthToSpace", "blocksize=2", "T[1,8,2,3]"},
    {"DepthToSpace", "blocksize=2 mode=CRD", "T[2,4,3,2]"},
    {"SpaceToDepth", "blocksize=2", "T[1,2,4,6]"},
    {"SpaceToDepth", "blocksize=2 mode=CRD", "T[2,3,4,6]"},
    {"ReverseSequence", "batch_axis=0 time_axis=1", "T[3,5] i64{1,5,3}"},
    {"ReverseSequence", "", "T[4,3,2] i64{4,1,2}"},
    {"Trilu", "", "T[4,5]"},
    {"Trilu", "upper=0", "T[2,3,3] i64=-1"},
    {"Trilu", "", "T[8,8] i64=1"},
    {"Compress", "axis=0", "T[4,3] bool{1,0,1,1}"},
    {"Compress", "", "T[3,3] bool{0,1,1,0,1}"},
    {"NonZero", "", "T(-2,2)[4,5]"},
    {"NonZero", "", "T(-2,2)[33]"},
    {"NonZero", "", "T[2,0]"},
    {"NonZero", "", "T[]"},
    {"Unique", "", "T(-4,4)[17] >4"},
    {"Unique", "axis=0", "T[3,3]{1,0,0,1,0,0,2,3,4} >4"},
    {"Unique", "axis=-1 sorted=0", "T(0,2)[2,9] >4"},
    {"NonMaxSuppression", "",
     "T(0,9)[1,12,4] T(0,1)[1,2,12] i64=4 f32=0.3 f32=0.2"},
    {"NonMaxSuppression", "center_point_box=1",
     "T(1,9)[2,7,4] T(0,1)[2,1,7] i64=7 f32=0.5"},
    {"NonMaxSuppression", "", "T(0,9)[1,5,4] T(0,1)[1,1,5]"},
    {"OneHot", "", "i64~5[3] i64=5 T{2,7}"},
    {"OneHot", "axis=0", "i64~4[2,3] i64=4 T{0,1}"},
    {"OneHot", "", "i64~8[3] i64=8 T{2,7}"},
    {"EyeLike", "", "T[4,5]"},
    {"EyeLike", "k=-1", "T[3,3]"},
    {"EyeLike", "k=1", "T[8,8]"},
    {"Range", "", "T=1 T=17 T=3"},
    {"Range", "", "T=0 T=32 T=2"},
    {"Range", "stash_type=11", "T=2 T=30 T=4"},
    {"Where", "", "bool[4,5] T[4,5] T[4,5]"},
    {"Where", "", "bool[5] T[3,1] T[]"},
    {"Where", "", "bool[2,1] T[3] T[2,3]"},
    {"Where", "", "bool[4,1] T[16] T[4,16]"},
    {"Where", "", "bool[3,1,2] T[1,4,2] T[2]"},
    {"Add", "", "T[2,3,16] T[3,1]"},
    {"Add", "", "T[8,16] T[16]"},
    {"Sub", "", "T[16,1] T[16]"},
    {"Shrink", "bias=0.5 lambd=1.5", "T{-3,-2,-1,0,1,2,3,4}"},
    {"Clip", "", "T[33] T=-2 T=3"},
    {"Clip", "", "T[4,5] - T=1"},
    {"Clip", "", "T[4,5] T=0"},
    {"Pow", "", "T{3,7,2,1,5,2,0,3} i64{9,2,6,0,3,-1,0,1}"},
    {"Pow", "", "i64{3,7,2,-1,-3,-1,10,-2} i64{39,20,62,-3,39,5,18,63}"},
    {"Pow", "", "T(-3,3)[37] T=2"},
    {"Pow", "", "T(-3,3)[3,5] T=3"},
    {"Pow", "", "T(-3,3)[3,1] T{4}"},
    {"Pow", "", "T(0.1,5)[300] f32=0.5"},
    {"Pow", "", "T(0.1,5)[37] f32=-0.5"},
    {"Pow", "", "T(1,5)[37] T=-1"},
    {"Pow", "", "T(1,5)[37] f32=-2"},
    {"Pow", "", "f32{-0,0,inf,-inf,nan,9} f32=0.5"},
    {"Pow", "", "f32{-0,0,inf,-inf,nan,4} f32=-0.5"},
    {"Pow", "", "f32{-0,0,inf,-inf,nan,4} f32=3"},
    {"PRelu", "", "T[3,4] T[4]"},
    {"PRelu", "", "T[2,3,4] T[3,1]"},
    {"Max", "", "T[3,4] T[4] T[3,1]"},
    {"Min", "", "T[5]"},
    {"Sum", "", "T[3,4] T[4] T[3,1] T[1]"},
    {"Mean", "", "T[3,4] T[4] T[3,1]"},
    {"Cast", "to=1", "T(0,100)[17]"},
    {"Cast", "to=11", "T(0,100)[17]"},
    {"Cast", "to=10", "T(0,100)[17]"},
    {"Cast", "to=16", "T(0,100)[17]"},
    {"Cast", "to=6", "T(0,100)[17]"},
    {"Cast", "to=7", "T(0,100)[3,5]"},
    {"Cast", "to=3", "T(0,100)[17]"},
    {"Cast", "to=2", "T(0,100)[17]"},
    {"Cast", "to=9", "T(-2,2)[17]"},
    {"CastLike", "", "T(0,100)[17] i32[1]"},

    {"QuantizeLinear", "", "T(-9,9)[33] f32=0.1 u8=128"},
    {"QuantizeLinear", "", "T(-90,90)[33] f32=0.25 i8=3"},
    {"QuantizeLinear", "", "T{0.5,1.5,2.5,3.5,-0.5,-1.5,-2.5} f32=1 i8=1"},
    {"QuantizeLinear", "", "T(-9,9)[33] f32=0.1 i8=-3"},
    {"QuantizeLinear", "", "T(-2,25)[33] f32=0.1 i8=-128"},
    {"QuantizeLinear", "axis=0",
     "T(-9,9)[3,4] f32{0.1,0.5,0.05} i8{-1,-128,127}"},
    {"QuantizeLinear", "axis=1", "T(-9,9)[2,3,4] f32{0.1,0.5,0.05} i8{1,2,-3}"},
    {"QuantizeLinear", "", "T(-9,9)[4,4] f32=0.05"},
    {"QuantizeLinear", "", "T(-9,9)[21] f32=0.001 u16=300"},
    {"QuantizeLinear", "output_dtype=5", "T(-9,9)[3,4] f32=0.0001"},
    {"QuantizeLinear", "", "T(-9,9)[33] f16=0.1 i8=3"},
    {"QuantizeLinear", "precision=16", "T(-9,9)[33] f32=0.1 u8=30"},
    {"QuantizeLinear", "axis=1 block_size=2",
     "T(-9,9)[2,6] f32[2,3]{0.1,0.5,0.05,1,2,0.25} i8[2,3]{1,2,-3,0,4,5}"},
    {"QuantizeLinear", "axis=-2 block_size=3",
     "T(-9,9)[4,2] f32[2,2]{0.1,0.5,0.05,1} u16[2,2]{1,2,3,40}"},
    {"QuantizeLinear", "", "T(-9,9)[33] f32=0.5 i4=3"},
    {"QuantizeLinear", "axis=1 block_size=4",
     "T(-9,9)[3,7] f32[3,2]{0.5,0.25,1,2,0.5,4} u4[3,2]{1,7,3,0,8,15}"},
    {"QuantizeLinear", "axis=0 block_size=3",
     "T(-9,9)[4,2,2] f32[2,2,2]{1,0.5,0.25,1,2,0.25,3,4}"
     " i4[2,2,2]{1,2,3,0,-8,7,4,5}"},
    {"DequantizeLinear", "", "T[33] f32=0.1 T=3"},
    {"DequantizeLinear", "", "T[33] f32=0.1 T=-3"},
    {"DequantizeLinear", "axis=0", "T[3,4] f32{0.1,0.5,0.25} T{-1,-128,127}"},
    {"DequantizeLinear", "axis=0", "T[3,4] f32{0.1,0.5,0.25} T{1,2,3}"},
    {"DequantizeLinear", "axis=1 block_size=2",
     "T[2,6] f32[2,3]{0.1,0.5,0.05,1,2,0.25} T[2,3]{1,2,3,0,4,5}"},
    {"DequantizeLinear", "axis=0 block_size=3",
     "T[4,2,2] f32[2,2,2]{0.1,0.5,0.05,1,2,0.25,3,4}"},
    {"DequantizeLinear", "axis=0 block_size=3",
     "u4%16[4,2,2] f32[2,2,2]{0.1,0.5,0.05,1,2,0.25,3,4}"
     " u4[2,2,2]{1,2,3,0,8,15,4,5}"},
    {"DequantizeLinear", "", "T[3,4] f16=0.125 T=2"},
    {"DequantizeLinear", "output_dtype=10", "T[9] f32=0.0004 T=2"},
    {"DynamicQuantizeLinear", "", "f32{0,0,0} >3"},
    {"DynamicQuantizeLinear", "", "T(-3,7)[41] >3"},
    {"NegativeLogLikelihoodLoss", "", "T(-4,4)[5,3] i64%3[5]"},
    {"NegativeLogLikelihoodLoss", "reduction=none",
     "T(-4,4)[2,3,4] i64%3[2,4]"},
    {"SoftmaxCrossEntropyLoss", "", "T(-4,4)[5,3] i64%3[5]"},
    {"SoftmaxCrossEntropyLoss", "reduction=sum",
     "T(-4,4)[5,3] i64%3[5] T(0.5,2)[3] >2"},
    {"BlackmanWindow", "", "i64=10"},
    {"HammingWindow", "periodic=0", "i64=9"},
    {"HannWindow", "", "i64=8"},
    {"ConstantOfShape", "", "i64{2,3}"},
    /* convolutions in fewer products; channels that fill no block, gaps between taps, layers */
    RELU_CONV("pads=1,1,1,1", "F[1,64,9,11] F[64,64,3,3] F[64]"),
    RELU_CONV("", "F[1,60,14,8] F[93,60,3,3] F[93] F[1,93,12,6]"),
    {"keel::ActivatedConv", "pads=0,1,2,0", "F[3,61,9,8] F[62,61,3,3] F[62]"},
    {"Conv", "pads=1,1,1,1", "F[2,79,8,6] F[61,79,3,3] F[61]"},
    {"keel::ActivatedConv", "pads=1,1,1,1", "F[1,96,4,4] F[128,96,3,3] F[128]"},
    RELU_CONV("pads=1,1,1,1", "F[1,32,30,22] F[64,32,3,3] F[64] F[1,64,30,22]"),
    RELU_CONV("pads=2,2,2,2 dilations=2,2",
              "F[1,64,15,18] F[60,64,3,3] F[60] F[1,60,15,18]"),
    {"keel::ActivatedConv", "pads=3,1,3,1 dilations=3,1",
     "F[2,64,17,10] F[64,64,3,3] F[64]"},
    RELU_CONV("pads=0,4,1,4 dilations=1,4", "F[1,40,12,15] F[64,40,3,3] F[64]"),
    RELU_CONV("pads=1,1,1,1,1,1", "F[1,32,4,9,8] F[64,32,3,3,3] F[64]"),
    RELU_CONV("pads=1,1,1,0,1,1 strides=2,1,1 dilations=2,1,1",
              "F[2,48,5,6,8] F[64,48,2,3,3] F[64] F[2,64,2,6,8]"),
    {"keel::ActivatedConv", "pads=0,2,1,0,2,1 dilations=1,2,1",
     "F[1,64,3,12,9] F[64,64,1,3,3] F[64]"},
    /* what is no number reaches those outputs alone that see it; sums that would be too large */
    {"Conv", "pads=1,1,1,1", "F?[1,64,9,11] F[64,64,3,3] F[64]"},
    {"Conv", "pads=3,1,3,1 dilations=3,1", "F?[2,64,17,10] F[64,64,3,3] F[64]"},
    {"Conv", "pads=1,1,1,1,1,1", "F?[1,32,4,9,8] F[64,32,3,3,3] F[64]"},
    {"Conv", "", "F[1,60,14,8] F?[93,60,3,3] F[93]"},
    {"Conv", "pads=1,1,1,1",
     "F(-1.7e38,1.7e38)[1,64,9,11] F(-1e-6,1e-6)[64,64,3,3]"},
    /* most taps see padding; strides, other windows, outputs that see nothing, long rows */
    RELU_CONV("pads=12,12,12,12 dilations=12,12",
              "F[1,16,14,14] F[64,16,3,3] F[64]"),
    RELU_CONV("pads=6,11,6,11 dilations=6,11",
              "F[2,20,9,13] F[75,20,3,3] F[75] F[2,75,9,13]"),
    {"keel::ActivatedConv", "pads=7,5,9,8 dilations=7,5",
     "F[1,16,10,9] F[56,16,3,3] F[56]"},
    RELU_CONV("pads=8,10,8,10 strides=2,1 dilations=8,5",
              "F[3,24,23,14] F[16,24,3,5] F[16] F[3,16,12,14]"),
    {"Conv", "pads=6,9,6,9 dilations=5,7", "F[1,12,18,23] F[48,12,4,4] F[48]"},
    {"keel::ActivatedConv", "pads=12,80,12,80 dilations=9,80",
     "F[1,16,2,90] F[64,16,2,2] F[64]"},
    RELU_CONV("pads=4,120,4,120 dilations=4,120",
              "F[1,16,4,150] F[80,16,3,3] F[80] F[1,80,4,150]"),
    RELU_CONV("pads=60,60 dilations=30", "F[2,32,44] F[40,32,5] F[40]"),
    RELU_CONV("pads=3,4,5,3,4,5 dilations=3,4,5",
              "F[1,16,6,9,10] F[48,16,3,3,3] F[48] F[1,48,6,9,10]"),
    /* groups of any width, few channels, windows that see padding alone or skip what is between */
    RELU_CONV("group=8 pads=1,1,1,1", "F[1,32,9,11] F[32,4,3,3] F[32]"),
    RELU_CONV("group=16 pads=1,1,1,1 strides=2,2",
              "F[2,32,13,7] F[32,2,3,3] F[32] F[2,32,7,4]"),
    {"keel::ActivatedConv", "group=12 pads=1,1,1,1",
     "F[1,60,10,20] F[60,5,3,3] F[60]"},
    {"Conv", "group=3 pads=0,1,1,0 strides=1,2",
     "F[3,21,8,8] F[27,7,2,3] F[27]"},
    RELU_CONV("group=10 pads=1,1,1,1", "F[1,240,7,7] F[240,24,3,3] F[240]"),
    RELU_CONV("group=4 pads=0,2,0,2 dilations=1,2",
              "F[1,12,6,70] F[68,3,1,3] F[68] F[1,68,6,70]"),
    {"keel::ActivatedConv", "group=6 pads=1,1,1,1 strides=2,2",
     "F[1,48,15,15] F[48,8,3,3] F[48]"},
    RELU_CONV("group=5 pads=2,2,2,2", "F[1,60,9,9] F[20,12,5,5] F[20]"),
    {"Conv", "group=6 pads=1,1,1,1", "F[1,6,11,9] F[18,1,3,3] F[18]"},
    RELU_CONV("group=4 pads=1,1,1,1",
              "F[1,64,6,6] F[64,16,3,3] F[64] F[1,64,6,6]"),
    RELU_CONV("group=9 pads=6,6 dilations=3", "F[2,36,100] F[36,4,5] F[36]"),
    {"keel::ActivatedConv", "group=3 pads=0,5 strides=3",
     "F[1,18,33] F[30,6,4] F[30]"},
    RELU_CONV("group=4 pads=1,1,1,1,1,1 strides=1,2,1",
              "F[1,16,4,9,8] F[16,4,3,3,3] F[16]"),
    {"Conv", "group=4 pads=6,6,6,6 dilations=6,6",
     "F[1,16,5,5] F[16,4,3,3] F[16]"},
    RELU_CONV("group=8 strides=3,4", "F[1,16,9,9] F[16,2,1,1] F[16]"),
    RELU_CONV("group=2 pads=4,4,4,4 strides=2,2",
              "F[1,10,3,3] F[10,5,3,3] F[10] F[1,10,5,5]"),
    RELU_CONV("pads=1,1,1,1", "F[1,8,17,19] F[8,8,3,3] F[8]"),
    RELU_CONV("pads=1,1,1,1", "F[1,20,16,16] F[16,20,3,3] F[16] F[1,16,16,16]"),
    {"keel::ActivatedConv", "pads=1,1,1,1 strides=2,2",
     "F[1,32,9,14] F[13,32,3,3] F[13]"},
    RELU_CONV("", "F[2,16,12,12] F[11,16,1,1] F[11] F[2,11,12,12]"),
    {"Conv", "pads=1,1,1,1", "F[1,24,20,20] F[3,24,3,3] F[3]"},
    RELU_CONV("pads=1,1,1,1", "F[1,16,1,1] F[40,16,3,3] F[40]"),
    {"Conv", "dilations=128", "F[1,48,301] F[96,48,2] F[96]"},
    RELU_CONV("pads=4,4 dilations=4", "F[3,12,90] F[21,12,3] F[21] F[3,21,90]"),
    RELU_CONV("pads=1,1,1,1,1,1", "F[1,16,3,10,10] F[8,16,3,3,3] F[8]"),
    /* planes of one column or of few, some of them where convolutions lie in blocks */
    RELU_CONV("pads=4,0,4,0", "F[1,32,200,1] F[48,32,9,1] F[48]"),
    RELU_CONV("pads=2,0,1,0", "F[2,24,67,3] F[40,24,4,1] F[40] F[2,40,67,3]"),
    RELU_CONV("strides=2,1", "F[1,16,90,2] F[32,16,5,1] F[32]"),
    RELU_CONV("pads=1,0,1,0 group=32", "F[1,32,61,4] F[32,1,3,1] F[32]"),
    RELU_CONV("", "F[1,40,9,5] F[24,40,1,1] F[24]"),
    /* blocks of channels, full and not */
    {"MaxPool", "kernel_shape=3,3 pads=1,1,1,1", "F[2,24,7,7]"},
    {"MaxPool", "kernel_shape=3,3 pads=1,1,1,1", "F[2,77,7,7]"},
    {"MaxPool", "kernel_shape=3,2 strides=2,3 pads=1,0,0,1 ceil_mode=1",
     "F[2,24,7,7]"},
    {"MaxPool", "kernel_shape=2,3 strides=1,2 dilations=3,2 pads=0,2,1,1",
     "F[2,77,7,7]"},
    {"MaxPool", "kernel_shape=5,5 pads=2,2,2,2", "F[2,77,7,7]"},
    {"MaxPool", "kernel_shape=7,1", "F[2,24,7,7]"},
    {"MaxPool", "kernel_shape=3,1 pads=1,0,1,0", "F[2,24,50,3]"},
    {"AveragePool", "kernel_shape=3,1 pads=1,0,1,0", "F[2,24,50,2]"},
    {"AveragePool", "kernel_shape=4,1 strides=2,1", "F[2,77,50,1]"},
    {"AveragePool", "kernel_shape=3,3 pads=1,1,1,1", "F?[2,77,7,7]"},
    {"AveragePool", "kernel_shape=3,3 pads=1,1,1,1 count_include_pad=1",
     "F[2,24,7,7]"},
    {"AveragePool",
     "kernel_shape=2,4 strides=3,2 pads=0,2,1,1 count_include_pad=1 "
     "ceil_mode=1",
     "F[2,77,7,7]"},
    {"AveragePool",
     "kernel_shape=3,2 strides=2,2 dilations=1,2 pads=1,0,2,1 ceil_mode=1",
     "F?[2,24,7,7]"},
    /* weights that are packed, and such that are not: groups, few outputs, many positions */
    {"ConvTranspose", "strides=2,2 pads=1,1,1,1",
     "F[1,64,8,8] F[64,32,4,4] F[32]"},
    {"ConvTranspose", "strides=2,1 pads=1,0,0,1",
     "F[2,40,5,7] F[40,33,3,3] F[33]"},
    {"ConvTranspose", "", "F[1,100,1,1] F[100,48,4,4] F[48]"},
    {"ConvTranspose", "strides=2,2", "F[1,17,6,3] F[17,200,2,2] F[200]"},
    {"ConvTranspose", "strides=1,3 pads=2,0,1,0 dilations=2,1",
     "F[1,16,9,9] F[16,40,3,2] F[40]"},
    {"ConvTranspose", "strides=3 pads=2,1", "F[3,32,50] F[32,48,5] F[48]"},
    {"ConvTranspose", "strides=2 pads=3,2 dilations=2",
     "F[2,24,301] F[24,35,7] F[35]"},
    {"ConvTranspose", "strides=2,2,2", "F[1,24,3,4,5] F[24,20,2,2,2] F[20]"},
    {"ConvTranspose", "strides=1,2 pads=1,1,1,1",
     "F[1,24,20,20] F[24,16,3,3] F[16]"},
    {"ConvTranspose", "strides=2,2 pads=1,1,0,0",
     "F[2,20,17,31] F[20,96,3,3] F[96]"},
    {"ConvTranspose", "strides=2,2 pads=1,1,1,1 group=4",
     "F[1,32,7,7] F[32,8,3,3] F[32]"},
    {"ConvTranspose", "strides=2,2 pads=1,1,1,1",
     "F[1,64,8,8] F[64,3,4,4] F[3]"},
    {"ConvTranspose", "strides=2,2", "F[1,16,65,64] F[16,32,2,2] F[32]"},
    /* products: many columns and few, rows that fill tiles and that do not, several matrices */
    {"MatMul", "", "F[64,96] F[96,512]"},
    {"MatMul", "", "F[37,100] F[100,64]"},
    {"MatMul", "", "F[24,33] F[33,32]"},
    {"MatMul", "", "F[13,1024] F[1024,64]"},
    {"MatMul", "", "F[2,30,260] F[260,128]"},
    {"MatMul", "", "F[11,800] F[800,96]"},
    {"MatMul", "", "F[1,300] F[300,64]"},
    {"MatMul", "", "F[50,64] F[64,31]"},
    {"MatMul", "", "F[29,1500] F[1500,3]"},
    {"MatMul", "", "F[40,1024] F[1024,15]"},
    {"MatMul", "", "F[5,300] F[300,200]"},
    {"MatMul", "", "F[31,257] F[257,48]"},
    {"Gemm", "beta=2", "F[26,70] F[70,9] F[26,9]"},
    {"Gemm", "transA=1", "F[70,26] F[70,2] F[2]"},
    {"MatMul", "", "F[3,17,40] F[3,40,66]"},
    {"MatMul", "", "F[3,26,64] F[3,64,64]"},
    {"MatMul", "", "F[2,3,5,40] F[3,40,64]"},
    {"MatMul", "", "F[12,40] F[3,40,64]"},
    {"MatMul", "", "F[1,12,40] F[5,40,16]"},
    {"MatMul", "", "F[2,1,9,40] F[1,4,40,48]"},
    {"MatMul", "", "F[4,12,40] F[1,40,64]"},
    {"MatMul", "", "F[40] F[3,40,32]"},
    /* bytes of both kinds, with a zero point and with one for each row and column */
    BYTE_PRODUCTS(1, 1, 1),
    BYTE_PRODUCTS(1, 7, 300),
    BYTE_PRODUCTS(5, 33, 17),
    BYTE_PRODUCTS(2, 2, 8),
    BYTE_PRODUCTS(13, 130, 31),
    BYTE_PRODUCTS(12, 64, 65),
    BYTE_PRODUCTS(1, 1100, 33),
    BYTE_PRODUCTS(200, 5, 9),
    BYTE_PRODUCTS(97, 600, 49),
    BYTE_PRODUCTS(33, 515, 300),
    BYTE_PRODUCTS(401, 70, 130),
    BYTE_PRODUCTS(30, 257, 700),
    BYTE_CONVS("", "1,5,9,11", "7,5,1,1", "7"),
    BYTE_CONVS("strides=2,3", "2,6,9,11", "4,6,1,1", "4"),
    BYTE_CONVS("pads=2,1", "1,3,70", "5,3,1", "5"),
    BYTE_CONVS("pads=1,1,1,1", "1,3,17,15", "13,3,3,3", "13"),
    BYTE_CONVS("pads=2,0,1,3 strides=2,2 dilations=1,2", "2,4,12,19", "5,4,3,5",
               "5"),
    BYTE_CONVS("group=3 pads=0,1,1,2 strides=1,3 dilations=2,1", "1,6,8,9",
               "15,2,3,2", "15"),
    BYTE_CONVS("group=5 pads=2,2,2,2", "2,5,7,7", "5,1,5,5", "5"),
    BYTE_CONVS("group=4 pads=0,1,1,1 strides=2,2", "1,4,15,34", "12,1,3,3",
               "12"),
    BYTE_CONVS("group=3 pads=1,3,0,3 strides=1,3 dilations=1,2", "1,3,9,40",
               "18,1,2,4", "18"),
    BYTE_CONVS("group=2 pads=4,1 strides=3 dilations=2", "2,6,50", "8,3,5",
               "8"),
    BYTE_CONVS("pads=1,0,1,0,1,1 strides=1,2,1 dilations=2,1,1", "1,2,5,6,7",
               "3,2,2,3,3", "3"),
    BYTE_CONVS("group=4 pads=1,1,1,1,1,1 strides=1,2,2", "1,4,5,6,7",
               "4,1,3,3,3", "4"),
    BYTE_CONVS("pads=4,4,4,4", "1,2,3,3", "3,2,2,2", "3"),
    BYTE_CONVS("pads=1,1,1,1", "1,64,21,20", "33,64,3,3", "33"),
    BYTE_CONVS("pads=1,1,1,1", "1,8,30,31", "11,8,3,3", "11"),
    BYTE_CONVS("", "2,140,7,7", "100,140,1,1", "100"),
    BYTE_CONVS("group=40 pads=1,1,1,1", "1,40,40,60", "40,1,3,3", "40"),
    {"DynamicQuantizeLinear", "", "F(-2.5,3)[20011] >3"},
    /* states that fill blocks of units and that do not, with what else is given and without */
    NET("RNN", "1", "F", "4,1,9", "1", "1", "9", "", "i32%5[1] F[1,1,1] >2"),
    NET("GRU", "3", "F", "4,3,9", "2", "1", "9", "direction=bidirectional",
        " >2"),
    NET("LSTM", "4", "F", "4,5,9", "1", "1", "9", "",
        "i32%5[5] F[1,5,1] F[1,5,1] F[1,3*1] >3"),
    NET("RNN", "1", "F", "4,5,9", "2", "5", "9", "direction=bidirectional",
        " >2"),
    NET("GRU", "3", "F", "4,13,9", "1", "5", "9", "linear_before_reset=1",
        "i32%5[13] F[1,13,5] >2"),
    NET("LSTM", "4", "T", "4,1,9", "2", "5", "9", "direction=bidirectional",
        " >3"),
    NET("RNN", "1", "F", "4,1,9", "1", "16", "9", "", "i32%5[1] F[1,1,16] >2"),
    NET("GRU", "3", "T", "4,3,9", "2", "16", "9",
        "direction=bidirectional linear_before_reset=1", " >2"),
    NET("LSTM", "4", "F", "4,1,9", "1", "16", "9", "",
        "i32%5[1] F[1,1,16] F[1,1,16] F[1,3*16] >3"),
    NET("RNN", "1", "T", "4,5,9", "2", "31", "9", "direction=bidirectional",
        " >2"),
    NET("GRU", "3", "F", "4,3,9", "1", "31", "9", "", "i32%5[3] F[1,3,31] >2"),
    NET("LSTM", "4", "F", "4,5,9", "2", "31", "9", "direction=bidirectional",
        " >3"),
    NET("RNN", "1", "F", "4,5,9", "1", "32", "9", "", "i32%5[5] F[1,5,32] >2"),
    NET("GRU", "3", "F", "4,13,9", "2", "32", "9", "direction=bidirectional",
        " >2"),
    NET("LSTM", "4", "F", "4,1,9", "1", "32", "9", "",
        "i32%5[1] F[1,1,32] F[1,1,32] F[1,3*32] >3"),
    NET("RNN", "1", "F", "4,1,9", "2", "33", "9", "direction=bidirectional",
        " >2"),
    NET("GRU", "3", "F", "4,3,9", "1", "33", "9", "linear_before_reset=1",
        "i32%5[3] F[1,3,33] >2"),
    NET("LSTM", "4", "T", "4,5,9", "2", "33", "9", "direction=bidirectional",
        " >3"),
    NET("RNN", "1", "F", "4,5,9", "1", "64", "9", "", "i32%5[5] F[1,5,64] >2"),
    NET("GRU", "3", "T", "4,13,9", "2", "64", "9",
        "direction=bidirectional linear_before_reset=1", " >2"),
    NET("LSTM", "4", "F", "4,5,9", "1", "64", "9", "",
        "i32%5[5] F[1,5,64] F[1,5,64] F[1,3*64] >3"),
    NET("RNN", "1", "T", "4,1,9", "2", "70", "9", "direction=bidirectional",
        " >2"),
    NET("GRU", "3", "F", "4,13,9", "1", "70", "9", "",
        "i32%5[13] F[1,13,70] >2"),
    NET("LSTM", "4", "F", "4,1,9", "2", "70", "9", "direction=bidirectional",
        " >3"),
    NET("RNN", "1", "F", "4,1,9", "1", "100", "9", "",
        "i32%5[1] F[1,1,100] >2"),
    NET("GRU", "3", "F", "4,3,9", "2", "100", "9", "direction=bidirectional",
        " >2"),
    NET("LSTM", "4", "F", "4,5,9", "1", "100", "9", "",
        "i32%5[5] F[1,5,100] F[1,5,100] F[1,3*100] >3"),
    NET("RNN", "1", "F", "3,29,40", "1", "120", "40", "", " >2"),
    NET("RNN", "1", "F", "3,29,40", "2", "120", "40", "direction=bidirectional",
        "i32%4[29] F[2,29,120] >2"),
    NET("GRU", "3", "F", "3,29,40", "1", "120", "40", "", " >2"),
    NET("GRU", "3", "F", "3,29,40", "2", "120", "40",
        "direction=bidirectional linear_before_reset=1",
        "i32%4[29] F[2,29,120] >2"),
    NET("LSTM", "4", "F", "3,29,40", "1", "120", "40", "", " >3"),
    NET("LSTM", "4", "F", "3,29,40", "2", "120", "40",
        "direction=bidirectional",
        "i32%4[29] F[2,29,120] F[2,29,120] F[2,3*120] >3"),
    /* moves that threads share, and that fill blocks and do not */
    {"Transpose", "perm=1,0", "T[67,130]"},
    {"Transpose", "perm=0,2,1", "T[3,33,40]"},
    {"Transpose", "perm=2,0,1", "T[3,33,40]"},
    {"Transpose", "perm=2,1,0", "T[40,33,3]"},
    {"Transpose", "perm=1,2,0", "T[40,33,3]"},
    {"Transpose", "perm=0,2,3,1", "T[4,1,33,40]"},
    {"Transpose", "perm=4,3,2,1,0", "T[2,3,5,7,11]"},
    {"Transpose", "perm=1,3,0,4,2", "T[2,3,5,7,11]"},
    {"Transpose", "perm=0,2,1,3", "T[2,40,4,75]"},
    {"Transpose", "perm=0,1,3,2", "T[17,2,9,64]"},
    {"Transpose", "perm=1,0,3,2", "T[17,2,9,64]"},
    {"Transpose", "perm=2,0,1", "T[8,130,16]"},
    {"Transpose", "perm=0,2,1", "T[8,130,16]"},
    {"Transpose", "perm=1,0", "T[8,1100]"},
    PADS("", " T=7"),
    PADS("mode=edge", ""),
    PADS("mode=reflect", ""),
    PADS("mode=wrap", ""),
    {"CumSum", "", "F~200[9,700] i64=1"},
    {"CumSum", "", "F~200[3,130,75] i64=1"},
    {"CumSum", "exclusive=1", "F~200[9,700] i64=1"},
    {"CumSum", "exclusive=1", "F~200[3,130,32] i64=1"},
    {"CumSum", "reverse=1", "F~200[9,700] i64=1"},
    {"CumSum", "reverse=1", "F~200[3,130,31] i64=1"},
    {"CumSum", "reverse=1 exclusive=1", "F~200[9,700] i64=1"},
    {"CumSum", "reverse=1 exclusive=1", "F~200[3,130,75] i64=1"},
    {"NonZero", "", "F~2[13,1,57,11]"},
    {"ScatterElements", "axis=0 reduction=add",
     "F~200[30,20,50] i64~30[17,19,41] F~200[17,19,41]"},
    {"ScatterElements", "axis=0 reduction=add",
     "F~200[9,1,5000] i64~9[40,1,5000] F~200[40,1,5000]"},
    {"ScatterElements", "axis=0 reduction=add",
     "F~200[5000,7,1] i64~5000[5000,7,1] F~200[5000,7,1]"},
    {"ScatterElements", "axis=1 reduction=add",
     "F~200[30,20,50] i64~20[17,19,41] F~200[17,19,41]"},
    {"ScatterElements", "axis=1 reduction=add",
     "F~200[9,1,5000] i64~1[9,1,5000] F~200[9,1,5000]"},
    {"ScatterElements", "axis=1 reduction=add",
     "F~200[5000,7,1] i64~7[5000,30,1] F~200[5000,30,1]"},
    {"ScatterElements", "axis=2 reduction=add",
     "F~200[30,20,50] i64~50[17,19,41] F~200[17,19,41]"},
    {"ScatterElements", "axis=2 reduction=add",
     "F~200[9,1,5000] i64~5000[9,1,5000] F~200[9,1,5000]"},
    {"ScatterElements", "axis=2 reduction=add",
     "F~200[5000,7,1] i64~1[5000,7,1] F~200[5000,7,1]"},
    {"NonMaxSuppression", "",
     "F%500[1,3000,4] F%1000[1,1,3000] i64=3000 f32=0.5 f32=100"},
    {"NonMaxSuppression", "",
     "F%500[1,1500,4] F%1000[1,1,1500] i64=77 f32=0.5 f32=100"},
    {"NonMaxSuppression", "",
     "F%500[1,300,4] F%1000[1,20,300] i64=300 f32=0.5 f32=100"},
    ROI_ALIGN("sampling_ratio=1 mode=avg", "1"),
    ROI_ALIGN("sampling_ratio=1 mode=max", "75"),
    ROI_ALIGN("sampling_ratio=2 mode=avg", "75"),
    ROI_ALIGN("sampling_ratio=2 mode=max", "1"),
    ROI_ALIGN("sampling_ratio=3 mode=avg", "1"),
    ROI_ALIGN("sampling_ratio=3 mode=max", "75"),
    {"Where", "", "bool[3,70,51] T[3,70,51] T[3,70,51]"},
    {"Where", "", "bool[3,70,51] T[3,70,51] T[1,1,1]"},
    {"Where", "", "bool[3,70,51] T[1,1,1] T[3,70,51]"},
    {"Where", "", "bool[3,70,51] T[1,1,1] T[1,1,1]"},
    {"Where", "", "bool[1,1,51] T[3,70,51] T[3,70,1]"},
    {"Where", "", "bool[3,70,1] T[3,1,51] T[1,70,51]"},
    {"Where", "", "bool[1,70,51] T[3,70,51] T[1,1,1]"},
    {"Where", "", "bool[2,3,1100] T[2,3,1100] T[2,3,1100]"},
    {"Where", "", "bool[2,3,1100] T[2,3,1100] T[1,1,1]"},
    {"Where", "", "bool[2,3,1100] T[1,1,1] T[2,3,1100]"},
    {"Where", "", "bool[2,3,1100] T[1,1,1] T[1,1,1]"},
    {"Where", "", "bool[1,1,1100] T[2,3,1100] T[2,3,1]"},
    {"Where", "", "bool[2,3,1] T[2,1,1100] T[1,3,1100]"},
    {"Where", "", "bool[1,3,1100] T[2,3,1100] T[1,1,1]"},
    {"IsInf", "detect_positive=0", "T[1021]"},
    {"IsInf", "detect_negative=0", "T[1021]"},
    {"IsInf", "detect_positive=0 detect_negative=0", "T[1021]"},
};

/* ---- finding --------------------------------------------------------------------- */

#define SHAPES(list) (uint32_t) KC_COUNT_OF(list)

/* The index-th case of an op: its words, with # and @ for ranges. */
static bool cases_find(const char *domain, const char *op, uint32_t index,
                       char *attrs, char *inputs, size_t capacity) {
  char full[80];
  bool standard = !domain || !strcmp(domain, "ai.onnx") || !*domain;
  const char *a = "", *b = "";
  const char *shape = NULL, *words = NULL;
  snprintf(full, sizeof full, "%s%s%s", standard ? "" : domain,
           standard ? "" : "::", op);
  for (uint32_t i = 0; i < ref_operands_count && !shape; i++) {
    const ref_operands *of = &ref_operands_of[i];
    if (!of->a || strcmp(of->op, full) != 0) continue;
    uint32_t count = of->b ? SHAPES(binary_shapes) : SHAPES(unary_shapes);
    if (index < count) {
      shape = of->b ? binary_shapes[index] : unary_shapes[index];
      a = of->a;
      b = of->b;
      words = of->attrs;
    } else {
      index -= count;
    }
  }
  for (size_t i = 0; i < KC_COUNT_OF(lines) && !shape; i++) {
    if (strcmp(lines[i].op, full) != 0) continue;
    if (index--) continue;
    shape = lines[i].inputs;
    words = lines[i].attrs;
  }
  if (!shape) return false;
  snprintf(attrs, capacity, "%s", words ? words : "");
  size_t used = 0;
  inputs[0] = 0;
  for (; *shape && used + 16 < capacity; shape++) {
    const char *with = *shape == '#' ? a : *shape == '@' ? b : NULL;
    if (with)
      used += (size_t)snprintf(inputs + used, capacity - used, "%s", with);
    else
      inputs[used++] = *shape;
    inputs[used] = 0;
  }
  return true;
}

uint32_t kc_case_count(const char *domain, const char *op) {
  char a[512], b[512];
  uint32_t count = 0;
  while (cases_find(domain, op, count, a, b, sizeof a))
    count++;
  return count;
}

/* ---- values -------------------------------------------------------------------------- */

typedef struct input_spec {
  kd_dtype dtype;
  bool tested, listed, absent, ranged, whole, rare;
  double low, high;
  uint32_t rank;
  int64_t dims[KD_MAX_RANK];
  double items[32];
  uint32_t item_count;
} input_spec;

static kd_dtype dtype_named(const char *name, size_t size) {
  for (kd_dtype t = 0; t < KD_DTYPE_COUNT; t++)
    if (strlen(kd_dtype_name(t)) == size &&
        !strncmp(kd_dtype_name(t), name, size))
      return t;
  return KD_NONE;
}

static bool read_input(const char *word, kd_dtype dtype, input_spec *out) {
  char *end = NULL;
  memset(out, 0, sizeof *out);
  if (*word == '-' && !word[1]) {
    out->absent = true;
    return true;
  }
  size_t size = 0;
  while (isalnum((unsigned char)word[size]))
    size++;
  out->tested =
      size == 1 && (*word == 'T' || (*word == 'F' && dtype == KD_F32));
  out->dtype = out->tested ? dtype : dtype_named(word, size);
  word += size;
  out->rare = *word == '?';
  word += out->rare;
  if (*word == '%' || *word == '~') {
    bool both = *word == '~';
    out->high = strtod(word + 1, &end);
    out->low = both ? -out->high : 0;
    out->high -= 1;
    out->ranged = out->whole = true;
    word = end;
  }
  if (*word == '(') {
    out->low = strtod(word + 1, &end);
    out->high = strtod(end + 1, &end);
    out->ranged = true;
    word = end + 1;
  }
  bool shaped = *word == '[';
  if (shaped) {
    for (word++; *word && *word != ']'; word = end + (*end == ',')) {
      int64_t dim = strtoll(word, &end, 10);
      while (*end == '*')
        dim *= strtoll(end + 1, &end, 10);
      out->dims[out->rank++] = dim;
    }
    word++;
  }
  if (*word == '=') {
    out->listed = true;
    out->items[out->item_count++] = strtod(word + 1, &end);
  } else if (*word == '{') {
    out->listed = true;
    for (word++; *word && *word != '}'; word = end + (*end == ','))
      out->items[out->item_count++] = strtod(word, &end);
    if (!shaped) {
      out->rank = 1;
      out->dims[0] = out->item_count;
    }
  }
  return out->dtype != KD_NONE;
}

static real special(kd_dtype dtype, uint64_t which) {
  const real most = dtype_max(dtype), least = dtype_least(dtype);
  const real values[] = {0,     -0.0L, 1,      -1,    INFINITY, -INFINITY,
                         NAN,   most,  -most,  least, -least,   0.5L,
                         -0.5L, 1.5L,  2.5L,   -2.5L, 2,        -2,
                         3,     1e-3L, -1e-3L, 100,   -100};
  return values[which % KC_COUNT_OF(values)];
}

static real random_real(const input_spec *spec, kc_probe probe,
                        kc_random *random, int64_t index) {
  uint64_t bits = kc_next(random);
  real unit = (real)(int64_t)(bits >> 11) * 0x1p-53L; /* [0, 1) */
  bool is_float = dtype_is_float(spec->dtype);
  real low = spec->low, high = spec->high;
  if (spec->dtype == KD_BOOL) return bits >> 40 & 1;
  if (spec->dtype == KD_C64 || spec->dtype == KD_C128) return (real)(bits | 1);
  if (spec->rare && index % 1201 == 77) return INFINITY;
  if (spec->rare && index % 1201 == 500) return NAN;
  if (spec->tested && probe == KC_PROBE_SPECIAL && is_float)
    return special(spec->dtype, (uint64_t)index + (bits & 3) * 7);
  if (spec->tested && probe == KC_PROBE_TINY && is_float)
    return (unit * 2 - 1) * dtype_least(spec->dtype);
  if (!spec->ranged) {
    if (!is_float && probe == KC_PROBE_FULL) { /* any bits */
      return dtype_round(
          (real)(dtype_is_signed(spec->dtype) ? (real)(int64_t)bits
                                              : (real)bits),
          spec->dtype);
    }
    low = -1;
    high = 1;
  }
  if (spec->tested && probe == KC_PROBE_INTS) {
    real a = ceill(spec->ranged && low > -4 ? low : -4);
    real b = floorl(spec->ranged && high < 4 ? high : 4);
    if (b < a) b = a;
    if (!dtype_is_signed(spec->dtype) && a < 0) a = 0;
    return a + (real)(uint64_t)(unit * (b - a + 1));
  }
  if (!is_float || spec->whole) {
    if (!dtype_is_signed(spec->dtype) && low < 0) low = 0;
    if (high > dtype_max(spec->dtype)) high = dtype_max(spec->dtype);
    if (low < dtype_min(spec->dtype)) low = dtype_min(spec->dtype);
    return ceill(low) + floorl(unit * (floorl(high) - ceill(low) + 1));
  }
  return low + unit * (high - low);
}

static value *make_value(const input_spec *spec, kc_probe probe,
                         kc_random *random) {
  value *made = value_make(spec->dtype, spec->rank, spec->dims);
  if (!made) return NULL;
  for (int64_t i = 0; i < made->count; i++) {
    real x = spec->listed ? spec->items[spec->item_count == 1 ? 0 : i % 32]
                          : random_real(spec, probe, random, i);
    if (spec->listed && !dtype_is_signed(spec->dtype) && x < 0) x = 0;
    made->x[i] = dtype_round(x, spec->dtype);
  }
  return made;
}

/* ---- attributes ------------------------------------------------------------------- */

/* A tensor as inputs are written. */
static bool cases_read_tensor(kc_op_case *out, const char *word, kd_dtype dtype,
                              keel_attr *attr) {
  input_spec spec;
  kc_random random = {0};
  if (out->tensor_count == KC_CASE_TENSORS || !read_input(word, dtype, &spec))
    return false;
  value *made = make_value(&spec, KC_PROBE_FULL, &random);
  keel_tensor *tensor = &out->tensors[out->tensor_count];
  if (!made || keel_type_of(made->dtype, made->rank, made->dims,
                            &tensor->type) != KD_OK) {
    value_free(made);
    return false;
  }
  tensor->data = kc_take(value_size(made) + 16);
  atomic_init(&tensor->refs, 1u << 30); /* never freed by a release */
  value_store(made, tensor->data);
  value_free(made);
  attr->tensor = tensor;
  out->tensor_count++;
  return true;
}

static bool cases_read_attr(kc_op_case *out, const keel_schema *schema,
                            kd_dtype dtype, char *word) {
  char *equals = strchr(word, '=');
  keel_attr *attr = &out->op.attrs[out->op.attr_count];
  uint32_t n = out->op.attr_count;
  if (!equals || n >= KC_CASE_ATTRS) return false;
  *equals = 0;
  const char *text = equals + 1;
  for (uint32_t i = 0; i < schema->attr_count; i++) {
    const keel_attr_rule *rule = &schema->attrs[i];
    if (strcmp(rule->name, word) != 0) continue;
    *attr = (keel_attr){.name = rule->name, .kind = rule->kind};
    if (rule->kind == KD_ATTR_INT) attr->i = strtoll(text, NULL, 10);
    if (rule->kind == KD_ATTR_FLOAT) attr->f = strtof(text, NULL);
    if (rule->kind == KD_ATTR_STRING) {
      snprintf(out->strings[n], sizeof out->strings[n], "%s", text);
      attr->s = out->strings[n];
    }
    if (rule->kind == KD_ATTR_INTS) {
      for (char *end = NULL; *text && attr->count < 32;
           text = end + (*end == ','))
        out->ints[n][attr->count++] = strtoll(text, &end, 10);
      attr->ints = out->ints[n];
    }
    if (rule->kind == KD_ATTR_FLOATS) {
      for (char *end = NULL; *text && attr->count < 16;
           text = end + (*end == ','))
        out->floats[n][attr->count++] = strtof(text, &end);
      attr->floats = out->floats[n];
    }
    if (rule->kind == KD_ATTR_STRINGS) {
      char *save = NULL;
      snprintf(out->strings[n], sizeof out->strings[n], "%s", text);
      for (char *one = strtok_r(out->strings[n], ",", &save);
           one && attr->count < 8; one = strtok_r(NULL, ",", &save))
        out->words[n][attr->count++] = one;
      attr->strings = out->words[n];
    }
    if (rule->kind == KD_ATTR_TENSOR &&
        !cases_read_tensor(out, text, dtype, attr))
      return false;
    out->op.attr_count++;
    return true;
  }
  return false;
}

bool kc_case_make(const char *domain, const char *op, uint32_t index,
                  kd_dtype dtype, kc_probe probe, kc_random *random,
                  kc_op_case *out) {
  char attrs[512], inputs[512], *save = NULL;
  memset(out, 0, sizeof *out);
  if (keel_schema_ready() != KD_OK ||
      !cases_find(domain, op, index, attrs, inputs, sizeof attrs))
    return false;
  out->op.out_count = 1;
  bool standard = !domain || !strcmp(domain, "ai.onnx");
  const keel_schema *schema = keel_schema_find(standard ? "" : domain, op);
  if (!schema) return false;
  out->op.domain = standard ? NULL : domain;
  out->op.name = op;
  for (char *word = strtok_r(attrs, " ", &save); word;
       word = strtok_r(NULL, " ", &save))
    if (!cases_read_attr(out, schema, dtype, word)) {
      kc_case_free(out);
      return false;
    }
  save = NULL;
  for (char *word = strtok_r(inputs, " ", &save); word;
       word = strtok_r(NULL, " ", &save)) {
    input_spec spec;
    uint32_t i = out->op.in_count;
    if (*word == '>') {
      out->op.out_count = (uint32_t)strtoul(word + 1, NULL, 10);
      continue;
    }
    if (i >= KC_PORTS || !read_input(word, dtype, &spec)) {
      kc_case_free(out);
      return false;
    }
    if (!spec.absent) out->own[i] = make_value(&spec, probe, random);
    out->op.in[i] = out->own[i];
    out->op.in_count++;
  }
  return true;
}

value *kc_case_add(kc_op_case *one, value *in) {
  uint32_t i = one->op.in_count++;
  one->own[i] = in;
  one->op.in[i] = in;
  return in;
}

kc_op_case kc_case_floats(const char *op, uint32_t inputs, uint32_t rank,
                          const int64_t *dims, kc_random *random) {
  kc_op_case one = {.op = {.name = op, .out_count = 1}};
  while (one.op.in_count < inputs)
    kc_case_add(&one, kc_floats(rank, dims, random));
  return one;
}

void kc_case_free(kc_op_case *one) {
  for (uint32_t i = 0; i < KC_PORTS; i++) {
    value_free(one->own[i]);
    one->own[i] = NULL;
  }
  while (one->tensor_count)
    free(one->tensors[--one->tensor_count].data);
}

bool kc_def_takes(const kd_kernel_def *def, kd_dtype dtype) {
  for (uint32_t i = 0; i < KD_MAX_TYPED_INPUTS; i++)
    if (!def->input_types[i] || (def->input_types[i] & KD_TYPES(dtype)))
      return true;
  return false;
}
