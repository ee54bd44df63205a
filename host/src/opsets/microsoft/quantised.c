/* quantised.c - com.microsoft's ops on bytes (onnxruntime/docs/ContribOperators.md), as
 * what they mean: DequantizeLinear, an op of ONNX, QuantizeLinear. The passes bring that into the
 * form in which a device computes it best. */
#include "opsets/microsoft/microsoft.h"
#include "opsets/onnx/passes.h"
#include "opsets/terms.h"

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

/* ---- from bytes and back --------------------------------------------------------------------- */

/* Inputs `first`, its scale and its zero point, as numbers. */
static uint32_t numbers_of(keel_emit *all, uint32_t first) {
  const uint32_t inputs[] = {keel_emit_in(all, first),
                             keel_emit_in(all, first + 1),
                             keel_emit_in(all, first + 2)};
  return keel_emit_op(all, "DequantizeLinear", NULL, 0, inputs, 3);
}

/* The output as bytes, by the scale and zero point from input `scale` on. Without a zero point,
 * bytes are of the type of input 0. */
static void give_bytes(keel_emit *all, uint32_t value, uint32_t scale) {
  kd_dtype dtype = keel_emit_dtype(all, keel_emit_in(all, 0));
  const keel_attr own =
      KEEL_INT("output_dtype", dtype == KD_I8 ? 3 : 2); /* ONNX's */
  uint32_t zero = keel_emit_in(all, scale + 1);
  const uint32_t inputs[] = {value, keel_emit_in(all, scale), zero};
  keel_emit_give(all, 0,
                 keel_emit_op(all, "QuantizeLinear", &own,
                              zero == KEEL_ABSENT ? 1 : 0, inputs, 3));
}

/* ---- elementwise, and windows ---------------------------------------------------------------- */

static void quantised_two(keel_emit *all, const char *op) {
  uint32_t a = numbers_of(all, 0), b = numbers_of(all, 3);
  give_bytes(all, keel_emit_binary(all, op, a, b), 6);
}

static void expand_qlinear_add(keel_emit *all) {
  quantised_two(all, "Add");
}

static void expand_qlinear_mul(keel_emit *all) {
  quantised_two(all, "Mul");
}

/* An op of one operand that has the node's attributes, but those that only com.microsoft has. */
static void one(keel_emit *all, const char *op) {
  keel_attr attrs[16];
  uint32_t count = 0, x = numbers_of(all, 0);
  const keel_opdef *own = all->node.op;
  for (uint32_t i = 0; i < own->attr_count && count < 16; i++) {
    const char *name = own->attrs[i].value.name;
    if (!strcmp(name, "channels_last") || !strcmp(name, "opset")) continue;
    attrs[count++] = own->attrs[i].value;
  }
  if (keel_attr_int(own, "channels_last", 0))
    all->status = keel_fail(KD_UNIMPLEMENTED,
                            "%s \"%s\": channels_last is not supported; export"
                            " the model with channels first",
                            own->schema->name, all->node.name);
  give_bytes(all, keel_emit_op(all, op, attrs, count, &x, 1), 3);
}

static void expand_qlinear_sigmoid(keel_emit *all) {
  one(all, "Sigmoid");
}

static void expand_qlinear_leaky_relu(keel_emit *all) {
  one(all, "LeakyRelu");
}

static void expand_qlinear_average_pool(keel_emit *all) {
  one(all, "AveragePool");
}

static void expand_qlinear_global_average_pool(keel_emit *all) {
  one(all, "GlobalAveragePool");
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
  one(all, "Softmax");
}

static void expand_qlinear_concat(keel_emit *all) {
  uint32_t count = (all->node.input_count - 2) / 3;
  uint32_t *parts = calloc((size_t)count + 1, sizeof *parts);
  const keel_attr axis =
      KEEL_INT("axis", keel_attr_int(all->node.op, "axis", 0));
  if (!parts) {
    all->status = keel_no_memory(count * sizeof *parts);
    return;
  }
  for (uint32_t i = 0; i < count; i++)
    parts[i] = numbers_of(all, 2 + 3 * i);
  uint32_t joined = keel_emit_op(all, "Concat", &axis, 1, parts, count);
  const uint32_t inputs[] = {joined, keel_emit_in(all, 0),
                             keel_emit_in(all, 1)};
  keel_emit_give(all, 0,
                 keel_emit_op(all, "QuantizeLinear", NULL, 0, inputs, 3));
  free(parts);
}

/* ---- products --------------------------------------------------------------------------------- */

/* Sums of products of bytes, in 32 bits. */
static uint32_t sums(keel_emit *all, uint32_t a, uint32_t b, uint32_t zero_a,
                     uint32_t zero_b) {
  const uint32_t inputs[] = {a, b, zero_a, zero_b};
  return keel_emit_op(all, "MatMulInteger", NULL, 0, inputs, 4);
}

/* The sums as numbers of the scales' type, with a bias or KEEL_ABSENT. */
static uint32_t quantised_scaled(keel_emit *all, uint32_t value,
                                 uint32_t scale_a, uint32_t scale_b,
                                 uint32_t bias) {
  uint32_t scale = keel_emit_binary(all, "Mul", scale_a, scale_b);
  value = keel_emit_binary(all, "CastLike", value, scale);
  value = keel_emit_binary(all, "Mul", value, scale);
  return bias == KEEL_ABSENT ? value
                             : keel_emit_binary(all, "Add", value, bias);
}

static void expand_matmul_integer_to_float(keel_emit *all) {
  uint32_t value = sums(all, keel_emit_in(all, 0), keel_emit_in(all, 1),
                        keel_emit_in(all, 4), keel_emit_in(all, 5));
  keel_emit_give(all, 0,
                 quantised_scaled(all, value, keel_emit_in(all, 2),
                                  keel_emit_in(all, 3), keel_emit_in(all, 6)));
}

static void expand_dynamic_quantize_matmul(keel_emit *all) {
  enum { BYTES, SCALE, ZERO };
  uint32_t a[] = {KEEL_ABSENT, KEEL_ABSENT, KEEL_ABSENT},
           x = keel_emit_in(all, 0);
  keel_emit_node(all, "DynamicQuantizeLinear", NULL, 0, &x, 1, a, 3);
  uint32_t value =
      sums(all, a[BYTES], keel_emit_in(all, 1), a[ZERO], keel_emit_in(all, 3));
  keel_emit_give(all, 0,
                 quantised_scaled(all, value, a[SCALE], keel_emit_in(all, 2),
                                  keel_emit_in(all, 4)));
}

static uint32_t quantised_turned(keel_emit *all, uint32_t index,
                                 const char *name) {
  static const int64_t turn[] = {1, 0};
  uint32_t value = keel_emit_in(all, index);
  return keel_attr_int(all->node.op, name, 0)
             ? keel_emit_transpose(all, value, turn, 2)
             : value;
}

/* alpha * A B, with C in steps of alpha * scale_a * scale_b. */
static void expand_qgemm(keel_emit *all) {
  uint32_t value = sums(all, quantised_turned(all, 0, "transA"),
                        quantised_turned(all, 3, "transB"),
                        keel_emit_in(all, 2), keel_emit_in(all, 5));
  uint32_t c = keel_emit_in(all, 6), scale_a = keel_emit_in(all, 1);
  double alpha = (double)keel_attr_float(all->node.op, "alpha", 1);
  if (c != KEEL_ABSENT) value = keel_emit_binary(all, "Add", value, c);
  if (alpha != 1)
    scale_a = keel_emit_binary(all, "Mul", scale_a,
                               keel_emit_number(all, alpha, scale_a));
  value =
      quantised_scaled(all, value, scale_a, keel_emit_in(all, 4), KEEL_ABSENT);
  if (keel_emit_in(all, 7) == KEEL_ABSENT)
    keel_emit_give(all, 0, value);
  else
    give_bytes(all, value, 7);
}

/* ---- QuantizeLinear and DequantizeLinear ------------------------------------------------------ */

/* ONNX has them now; here the axis must be given where there are several scales. */
static void as_onnx(keel_emit *all, const char *op) {
  const uint32_t inputs[] = {keel_emit_in(all, 0), keel_emit_in(all, 1),
                             keel_emit_in(all, 2)};
  const keel_attr axis =
      KEEL_INT("axis", keel_attr_int(all->node.op, "axis", 0));
  keel_emit_give(
      all, 0,
      keel_emit_op(all, op, &axis, keel_attr_find(all->node.op, "axis") != NULL,
                   inputs, 3));
}

static void expand_quantize_linear(keel_emit *all) {
  as_onnx(all, "QuantizeLinear");
}

static void expand_dequantize_linear(keel_emit *all) {
  as_onnx(all, "DequantizeLinear");
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
    {"com.microsoft::MatMulIntegerToFloat",
     .expand = expand_matmul_integer_to_float, .flops = keel_product_flops},
    {"com.microsoft::DynamicQuantizeMatMul",
     .expand = expand_dynamic_quantize_matmul, .flops = keel_product_flops},
    {"com.microsoft::QGemm", .expand = expand_qgemm},
    {"com.microsoft::QuantizeLinear", .expand = expand_quantize_linear},
    {"com.microsoft::DequantizeLinear", .expand = expand_dequantize_linear},
};

const keel_op_table keel_ops_microsoft_quantised = {KEEL_TABLE_ROWS(rows),
                                                    KEEL_TABLE_RULES(rules)};
