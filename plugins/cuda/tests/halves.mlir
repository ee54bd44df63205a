// Attention in f16, of 8 rows: one op; of 40 rows by products, where a library has those by tensor
// cores (standin_test.sh makes those of this text).
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<1x4x8x16xf16>, %1: tensor<1x4x8x16xf16>, %2: tensor<1x4x8x16xf16>):
    %3 = "keel.constant"() {value = dense<2.5e-01> : tensor<f16>} : () -> (tensor<f16>)
    %4 = "onnx.Mul"(%0, %3) : (tensor<1x4x8x16xf16>, tensor<f16>) -> (tensor<1x4x8x16xf16>)
    %8 = "onnx.Transpose"(%1) {perm = [0, 1, 3, 2]} : (tensor<1x4x8x16xf16>) -> (tensor<1x4x16x8xf16>)
    %5 = "onnx.MatMul"(%4, %8) : (tensor<1x4x8x16xf16>, tensor<1x4x16x8xf16>) -> (tensor<1x4x8x8xf16>)
    %6 = "onnx.Softmax"(%5) {axis = -1 : i64} : (tensor<1x4x8x8xf16>) -> (tensor<1x4x8x8xf16>)
    %7 = "onnx.MatMul"(%6, %2) : (tensor<1x4x8x8xf16>, tensor<1x4x8x16xf16>) -> (tensor<1x4x8x16xf16>)
    "keel.return"(%7) : (tensor<1x4x8x16xf16>) -> ()
  }) {version = 1 : i64, name = "halves", inputs = ["q", "k", "v"], input_types = [tensor<1x4x8x16xf16>, tensor<1x4x8x16xf16>, tensor<1x4x8x16xf16>], outputs = ["y"], output_types = [tensor<1x4x8x16xf16>], ops = {"onnx.MatMul" = 13 : i64, "onnx.Mul" = 14 : i64, "onnx.Softmax" = 13 : i64, "onnx.Transpose" = 13 : i64}} : () -> ()
}) : () -> ()
