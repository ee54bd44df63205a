"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: !keel.resource, %1: tensor<4x8xf32>):
    %2 = "keel.AllReduce"(%0, %1) : (!keel.resource, tensor<4x8xf32>) -> (tensor<4x8xf32>)
    %3 = "onnx.Relu"(%2) : (tensor<4x8xf32>) -> (tensor<4x8xf32>)
    %4 = "keel.AllGather"(%0, %3) {size = 2 : i64} : (!keel.resource, tensor<4x8xf32>) -> (tensor<8x8xf32>)
    "keel.return"(%4) : (tensor<8x8xf32>) -> ()
  }) {version = 1 : i64, name = "sum", inputs = ["keel.member", "x"], input_types = [!keel.resource, tensor<4x8xf32>], outputs = ["y"], output_types = [tensor<8x8xf32>], ops = {"keel.AllReduce" = 1 : i64, "keel.AllGather" = 1 : i64, "onnx.Relu" = 14 : i64}} : () -> ()
}) : () -> ()
