// What version 1 of the text can hold. v1.keel beside it is the same in version 1 of
// the binary form; both must be read for ever.
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<?x4xf32>, %1: tensor<i1>):
    %2 = "keel.constant"() {value = dense<[1.5, -2.5, 0x7F800000, 1.0e-3]> : tensor<4xf32>} : () -> tensor<4xf32>
    %3 = "keel.constant"() {value = dense_resource<keel_0> : tensor<4x6xf32>} : () -> tensor<4x6xf32>
    %4 = "keel.constant"() {value = dense<[[0, -1], [9223372036854775807, -9223372036854775808]]> : tensor<2x2xi64>} : () -> tensor<2x2xi64>
    %5 = "keel.constant"() {value = dense<[true, false, true]> : tensor<3xi1>} : () -> tensor<3xi1>
    %6 = "keel.constant"() {value = dense<> : tensor<0x3xui8>} : () -> tensor<0x3xui8>
    %7 = "keel.constant"() {value = dense<2.5> : tensor<2x3xf16>} : () -> tensor<2x3xf16>
    %8 = "keel.constant"() {value = dense<"0x0000803F000000400000404000008040"> : tensor<2xcomplex<f32>>} : () -> tensor<2xcomplex<f32>>
    %9 = "keel.none"() : () -> none
    %10 = "keel.constant"() {value = dense<6.0> : tensor<f32>} : () -> tensor<f32>
    %16 = "keel.constant"() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
    %11 = "onnx.Min"(%0, %2) {keel.name = "a \"name\" of \C3\A9 and \09"} : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
    %12 = "onnx.Clip"(%11, %9, %10) : (tensor<?x4xf32>, none, tensor<f32>) -> (tensor<?x4xf32>)
    %13 = "onnx.Gemm"(%12, %3) {alpha = 0.5 : f32, transB = 0 : i64} : (tensor<?x4xf32>, tensor<4x6xf32>) -> tensor<?x6xf32>
    %14 = "onnx.If"(%1, %12, %13, %13) ({
    ^bb0(%20: tensor<?x4xf32>, %21: tensor<?x6xf32>):
      %22 = "onnx.Transpose"(%20) {perm = array<i64: 1, 0>} : (tensor<?x4xf32>) -> tensor<4x?xf32>
      %23 = "onnx.MatMul"(%22, %21) : (tensor<4x?xf32>, tensor<?x6xf32>) -> tensor<4x6xf32>
      "keel.return"(%23) : (tensor<4x6xf32>) -> ()
    }, {
    ^bb0(%20: tensor<?x6xf32>):
      %22 = "onnx.Relu"(%20) : (tensor<?x6xf32>) -> !keel.value
      "keel.return"(%22) : (!keel.value) -> ()
    }) {keel.graphs = [{attribute = "then_branch", captures = 2 : i64, name = "yes"}, {attribute = "else_branch", captures = 1 : i64}]} : (tensor<i1>, tensor<?x4xf32>, tensor<?x6xf32>, tensor<?x6xf32>) -> !keel.value
    %15:2 = "onnx.TopK"(%13, %16) {axis = -1 : i64} : (tensor<?x6xf32>, tensor<1xi64>) -> (tensor<?x2xf32>, tensor<?x2xi64>)
    "keel.return"(%14, %15#1, %4, %5, %6, %7, %8) : (!keel.value, tensor<?x2xi64>, tensor<2x2xi64>, tensor<3xi1>, tensor<0x3xui8>, tensor<2x3xf16>, tensor<2xcomplex<f32>>) -> ()
  }) {version = 1 : i64, name = "v1", inputs = ["x", "which way"], input_types = [tensor<?x4xf32>, tensor<i1>], outputs = ["y", "places", "longs", "bools", "none", "halves", "complex"], output_types = [!keel.value, tensor<?x2xi64>, tensor<2x2xi64>, tensor<3xi1>, tensor<0x3xui8>, tensor<2x3xf16>, tensor<2xcomplex<f32>>], ops = {"onnx.Clip" = 13 : i64, "onnx.Gemm" = 13 : i64}} : () -> ()
}) : () -> ()

{-#
  dialect_resources: {
    builtin: {
      keel_0: "0x040000000000000000000040000080400000803F000040400000000000000040000080400000803F000040400000000000000040000080400000803F000040400000000000000040000080400000803F000040400000000000000040000080400000803F"
    }
  }
#-}
