// Products and a convolution, one behind the other: what becomes one recording.
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<8x16xf32>, %1: tensor<16x24xf32>, %2: tensor<24x16xf32>, %3: tensor<16xf32>, %4: tensor<4x1x3x3xf32>, %5: tensor<4xf32>):
    %7 = "onnx.MatMul"(%0, %1) : (tensor<8x16xf32>, tensor<16x24xf32>) -> (tensor<8x24xf32>)
    %8 = "onnx.Relu"(%7) : (tensor<8x24xf32>) -> (tensor<8x24xf32>)
    %9 = "onnx.Gemm"(%8, %2, %3) : (tensor<8x24xf32>, tensor<24x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>)
    %10 = "onnx.Constant"() {value = dense<[1, 1, 8, 16]> : tensor<4xi64>} : () -> (tensor<4xi64>)
    %11 = "onnx.Reshape"(%9, %10) : (tensor<8x16xf32>, tensor<4xi64>) -> (tensor<1x1x8x16xf32>)
    %12 = "onnx.Conv"(%11, %4, %5) : (tensor<1x1x8x16xf32>, tensor<4x1x3x3xf32>, tensor<4xf32>) -> (tensor<1x4x6x14xf32>)
    %13 = "onnx.Relu"(%12) : (tensor<1x4x6x14xf32>) -> (tensor<1x4x6x14xf32>)
    "keel.return"(%13) : (tensor<1x4x6x14xf32>) -> ()
  }) {version = 1 : i64, name = "products", inputs = ["x", "a", "b", "c", "f", "g"], input_types = [tensor<8x16xf32>, tensor<16x24xf32>, tensor<24x16xf32>, tensor<16xf32>, tensor<4x1x3x3xf32>, tensor<4xf32>], outputs = ["y"], output_types = [tensor<1x4x6x14xf32>], ops = {"onnx.Constant" = 13 : i64, "onnx.Conv" = 11 : i64, "onnx.Gemm" = 13 : i64, "onnx.MatMul" = 13 : i64, "onnx.Relu" = 14 : i64, "onnx.Reshape" = 14 : i64}} : () -> ()
}) : () -> ()
