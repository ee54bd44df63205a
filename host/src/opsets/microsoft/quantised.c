/* quantised.c - com.microsoft's ops on bytes (onnxruntime/docs/ContribOperators.md), as
 * what they mean: DequantizeLinear, an op of ONNX, QuantizeLinear. The passes bring that into the
 * form in which a device computes it best. */
#include "opsets/microsoft/microsoft.h"
#include "opsets/onnx/passes.h"
#include "opsets/terms.h"
#include "opsets/text.h"

/* ---- shapes ---- */

/* A function of ONNX's, for some of the inputs. */
static keel_status as_of(keel_infer *infer, const keel_type *const *in,
                         uint32_t count,
                         keel_status (*shape)(keel_infer *infer)) {
  const keel_type *const *own = infer->in;
  uint32_t own_count = infer->input_count;
  infer->in = in;
  infer->input_count = count;
  keel_status status = shape(infer);
  infer->in = own;
  infer->input_count = own_count;
  return status == KD_INVALID_ARGUMENT
             ? keel_infer_fail(infer, status,
                               "the shapes of its operands do not fit")
             : status;
}

/* Operands are inputs 0 and 3. */
keel_status keel_shape_qlinear_binary(keel_infer *infer) {
  const keel_type *const in[] = {infer->in[0], infer->in[3]};
  return as_of(infer, in, 2, keel_shape_broadcast);
}

/* Operands are inputs 2, 5, 8 ... */
keel_status keel_shape_qlinear_concat(keel_infer *infer) {
  uint32_t count = infer->input_count < 2 ? 0 : (infer->input_count - 2) / 3;
  if (!count || (infer->input_count - 2) % 3)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "has Y_scale, Y_zero_point, and then three inputs"
                           " for each part: not %u",
                           (unsigned)infer->input_count);
  const keel_type **in = calloc(count, sizeof *in);
  if (!in) return keel_no_memory(count * sizeof *in);
  for (uint32_t i = 0; i < count; i++)
    in[i] = infer->in[2 + 3 * i];
  keel_status status =
      in[0] ? as_of(infer, in, count, keel_shape_concat)
            : keel_infer_fail(infer, KD_INVALID_ARGUMENT, "input 2 is missing");
  free(in);
  return status;
}

keel_status keel_shape_qgemm(keel_infer *infer) {
  const keel_type *const in[] = {infer->in[0], infer->in[3],
                                 keel_infer_in(infer, 6)};
  const keel_type *zero = keel_infer_in(infer, 8);
  infer->dtypes[0] = !keel_infer_in(infer, 7) ? KD_F32
                     : zero                   ? zero->dtype
                                              : infer->in[0]->dtype;
  return as_of(infer, in, 3, keel_shape_gemm);
}

/* ---- in simpler ops ---- */

/* Inputs from `x` on as numbers: bytes, their scale and their zero point. */
#define NUMBERS(x, scale, zero) "DequantizeLinear(" x ", " scale ", " zero ")"

/* Gives the output as bytes, by a scale and a zero point. Without a zero point, bytes are of the type
 * of input 0. */
static void give_bytes(keel_emit *all, uint32_t value, uint32_t scale) {
  kd_dtype dtype = keel_emit_dtype(all, keel_emit_in(all, 0));
  uint32_t zero = keel_emit_in(all, scale + 1);
  keel_emit_text(all,
                 "%0 = %b ? QuantizeLinear[output_dtype=%i](%v, %v)"
                 "        : QuantizeLinear(%v, %v, %v)",
                 zero == KEEL_ABSENT, (int64_t)(dtype == KD_I8 ? 3 : 2), value,
                 keel_emit_in(all, scale), value, keel_emit_in(all, scale),
                 zero);
}

/* ---- elementwise, and windows ---------------------------------------------------------------- */

#define OPERANDS NUMBERS("$0", "$1", "$2") ", " NUMBERS("$3", "$4", "$5")

static void expand_qlinear_add(keel_emit *all) {
  give_bytes(all, keel_emit_text(all, "Add(" OPERANDS ")"), 6);
}

static void expand_qlinear_mul(keel_emit *all) {
  give_bytes(all, keel_emit_text(all, "Mul(" OPERANDS ")"), 6);
}

/* An op of one operand. */
static void one(keel_emit *all, const char *op) {
  if (keel_attr_int(all->node.op, "channels_last", 0))
    all->status = keel_fail(KD_UNIMPLEMENTED,
                            "%s \"%s\": channels_last is not supported; export"
                            " the model with channels first",
                            all->node.op->schema->name, all->node.name);
  uint32_t x = keel_emit_text(all, NUMBERS("$0", "$1", "$2"));
  give_bytes(all, keel_emit_text(all, op, x), 3);
}

static void expand_qlinear_sigmoid(keel_emit *all) {
  one(all, "Sigmoid(%v)");
}

static void expand_qlinear_leaky_relu(keel_emit *all) {
  one(all, "LeakyRelu[alpha=@alpha](%v)");
}

static void expand_qlinear_average_pool(keel_emit *all) {
  one(all,
      "AveragePool[auto_pad=@auto_pad, ceil_mode=@ceil_mode, pads=@pads,"
      "            count_include_pad=@count_include_pad, strides=@strides,"
      "            kernel_shape=@kernel_shape](%v)");
}

static void expand_qlinear_global_average_pool(keel_emit *all) {
  one(all, "GlobalAveragePool(%v)");
}

/* Before opset 13, Softmax took all dimensions from the axis on as one. */
static void expand_qlinear_softmax(keel_emit *all) {
  const keel_opdef *own = all->node.op;
  int64_t axis = keel_attr_int(own, "axis", -1);
  const keel_type *type = keel_emit_type(all, 0);
  bool last = axis == -1 || (type && axis == (int64_t)type->rank - 1);
  if (keel_attr_int(own, "opset", 13) < 13 && !last) {
    all->status = keel_fail(KD_UNIMPLEMENTED,
                            "QLinearSoftmax \"%s\" of an opset before 13 is"
                            " supported along the last axis only",
                            all->node.name);
    return;
  }
  one(all, "Softmax[axis=@axis](%v)");
}

static void expand_qlinear_concat(keel_emit *all) {
  uint32_t count = (all->node.input_count - 2) / 3;
  uint32_t *parts = calloc((size_t)count + 1, sizeof *parts);
  if (!parts) {
    all->status = keel_no_memory(count * sizeof *parts);
    return;
  }
  for (uint32_t i = 0; i < count; i++)
    parts[i] = keel_emit_text(
        all, NUMBERS("%v", "%v", "%v"), keel_emit_in(all, 2 + 3 * i),
        keel_emit_in(all, 3 + 3 * i), keel_emit_in(all, 4 + 3 * i));
  int64_t axis = keel_attr_int(all->node.op, "axis", 0);
  keel_emit_text(all, "%0 = QuantizeLinear(%v, $0, $1)",
                 keel_emit_concat(all, axis, parts, count));
  free(parts);
}

/* ---- products --------------------------------------------------------------------------------- */

/* Sums of products of bytes, in 32 bits, become numbers of the scales' type. */
#define MATMUL_INTEGER_TO_FLOAT                                 \
  "scale = $2 * $3;"                                            \
  "y = CastLike(MatMulInteger($0, $1, $4, $5), scale) * scale;" \
  "%0 = $6 ? y + $6 : y"
#define DYNAMIC_QUANTIZE_MATMUL                                             \
  "bytes, a_scale, zero = DynamicQuantizeLinear($0); scale = a_scale * $2;" \
  "y = CastLike(MatMulInteger(bytes, $1, zero, $3), scale) * scale;"        \
  "%0 = $4 ? y + $4 : y"

/* alpha * A B, with C in steps of alpha * scale_a * scale_b. */
static void expand_qgemm(keel_emit *all) {
  uint32_t y = keel_emit_text(
      all,
      "a = @transA ? Transpose[perm=(1 0)]($0) : $0;"
      "b = @transB ? Transpose[perm=(1 0)]($3) : $3;"
      "sums = MatMulInteger(a, b, $2, $5); sums = $6 ? sums + $6 : sums;"
      "scale = (%b ? $1 * @alpha : $1) * $4; CastLike(sums, scale) * scale",
      keel_attr_float(all->node.op, "alpha", 1) != 1);
  if (keel_emit_in(all, 7) == KEEL_ABSENT)
    keel_emit_give(all, 0, y);
  else
    give_bytes(all, y, 7);
}

/* ---- rows ---- */

#define ONE_OF_BYTES \
  "X:T X_scale:f32 X_zero_point:T? Y_scale:f32 Y_zero_point:T? -> Y:T"

static const keel_schema_row rows[] = {
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
};

static const keel_op_rule rules[] = {
    {"com.microsoft::QLinearAdd", .expand = expand_qlinear_add},
    {"com.microsoft::QLinearMul", .expand = expand_qlinear_mul},
    {"com.microsoft::QLinearSigmoid", .expand = expand_qlinear_sigmoid},
    {"com.microsoft::QLinearLeakyRelu", .expand = expand_qlinear_leaky_relu},
    {"com.microsoft::QLinearAveragePool",
     .expand = expand_qlinear_average_pool},
    {"com.microsoft::QLinearGlobalAveragePool",
     .expand = expand_qlinear_global_average_pool},
    {"com.microsoft::QLinearSoftmax", .expand = expand_qlinear_softmax},
    {"com.microsoft::QLinearConcat", .expand = expand_qlinear_concat},
    {"com.microsoft::MatMulIntegerToFloat", .body = MATMUL_INTEGER_TO_FLOAT,
     .flops = keel_product_flops},
    {"com.microsoft::DynamicQuantizeMatMul", .body = DYNAMIC_QUANTIZE_MATMUL,
     .flops = keel_product_flops},
    {"com.microsoft::QGemm", .expand = expand_qgemm},
    /* ONNX has them now; here the axis must be given where there are several scales */
    {"com.microsoft::QuantizeLinear",
     .body = "%0 = QuantizeLinear[axis=@axis]($0, $1, $2)"},
    {"com.microsoft::DequantizeLinear",
     .body = "%0 = DequantizeLinear[axis=@axis]($0, $1, $2)"},
};

const keel_op_table keel_ops_microsoft_quantised = {KEEL_TABLE_ROWS(rows),
                                                    KEEL_TABLE_RULES(rules)};
