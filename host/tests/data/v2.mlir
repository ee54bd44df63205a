// What came with version 2: names of open dimensions. v2.keel beside it is the same in
// version 2 of the binary form; both must be read for ever.
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<?x3x?xf32>, %1: tensor<?x?xf32>, %2: tensor<f32>):
    %9 = "keel.constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
    %3 = "onnx.Unsqueeze"(%1, %9) : (tensor<?x?xf32>, tensor<1xi64>) -> tensor<?x1x?xf32>
    %4 = "onnx.Add"(%0, %3) : (tensor<?x3x?xf32>, tensor<?x1x?xf32>) -> tensor<?x3x?xf32>
    %5 = "onnx.Mul"(%4, %2) : (tensor<?x3x?xf32>, tensor<f32>) -> tensor<?x3x?xf32>
    "keel.return"(%5) : (tensor<?x3x?xf32>) -> ()
  }) {version = 1 : i64, name = "v2", inputs = ["x", "mask", "scale"], input_types = [tensor<?x3x?xf32>, tensor<?x?xf32>, tensor<f32>], input_symbols = [["batch", "", "the \"length\""], ["batch", "the \"length\""], []], outputs = ["y"], output_types = [tensor<?x3x?xf32>], output_symbols = [["batch", "", ""]]} : () -> ()
}) : () -> ()
