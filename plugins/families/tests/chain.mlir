// A chain of elementwise ops, which is one region, and another behind a sum.
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<8x24xf32>, %1: tensor<24xf32>):
    %2 = "onnx.Add"(%0, %1) : (tensor<8x24xf32>, tensor<24xf32>) -> (tensor<8x24xf32>)
    %3 = "onnx.Sigmoid"(%2) : (tensor<8x24xf32>) -> (tensor<8x24xf32>)
    %4 = "onnx.Mul"(%2, %3) : (tensor<8x24xf32>, tensor<8x24xf32>) -> (tensor<8x24xf32>)
    %5 = "onnx.Sub"(%4, %1) : (tensor<8x24xf32>, tensor<24xf32>) -> (tensor<8x24xf32>)
    %6 = "onnx.Abs"(%5) : (tensor<8x24xf32>) -> (tensor<8x24xf32>)
    "keel.return"(%6) : (tensor<8x24xf32>) -> ()
  }) {version = 1 : i64, name = "chain", inputs = ["x", "row"], input_types = [tensor<8x24xf32>, tensor<24xf32>], outputs = ["y"], output_types = [tensor<8x24xf32>]} : () -> ()
}) : () -> ()
