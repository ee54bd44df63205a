// Convolutions that are padded more on one side: of one dimension at the front (a), of two as
// "SAME" pads with a stride (b), and as attributes say, with a bias and a ReLU (c), of three (d).
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<2x3x9xf32>, %1: tensor<4x3x3xf32>, %2: tensor<1x4x8x8xf32>, %3: tensor<6x4x3x3xf32>, %4: tensor<6xf32>, %5: tensor<1x2x5x6x7xf32>, %6: tensor<3x2x2x3x2xf32>):
    %7 = "onnx.Conv"(%0, %1) {pads = [2, 0]} : (tensor<2x3x9xf32>, tensor<4x3x3xf32>) -> (tensor<2x4x9xf32>)
    %8 = "onnx.Conv"(%2, %3) {auto_pad = "SAME_UPPER", strides = [2, 2]} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> (tensor<1x6x4x4xf32>)
    %9 = "onnx.Conv"(%2, %3, %4) {dilations = [2, 1], pads = [3, 0, 0, 2]} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> (tensor<1x6x7x8xf32>)
    %10 = "onnx.Relu"(%9) : (tensor<1x6x7x8xf32>) -> (tensor<1x6x7x8xf32>)
    %11 = "onnx.Conv"(%5, %6) {pads = [1, 0, 0, 0, 2, 1]} : (tensor<1x2x5x6x7xf32>, tensor<3x2x2x3x2xf32>) -> (tensor<1x3x5x6x7xf32>)
    "keel.return"(%7, %8, %10, %11) : (tensor<2x4x9xf32>, tensor<1x6x4x4xf32>, tensor<1x6x7x8xf32>, tensor<1x3x5x6x7xf32>) -> ()
  }) {version = 1 : i64, name = "uneven", inputs = ["x1", "w1", "x2", "w2", "b2", "x3", "w3"], input_types = [tensor<2x3x9xf32>, tensor<4x3x3xf32>, tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>, tensor<1x2x5x6x7xf32>, tensor<3x2x2x3x2xf32>], outputs = ["a", "b", "c", "d"], output_types = [tensor<2x4x9xf32>, tensor<1x6x4x4xf32>, tensor<1x6x7x8xf32>, tensor<1x3x5x6x7xf32>], ops = {"onnx.Conv" = 11 : i64, "onnx.Relu" = 14 : i64}} : () -> ()
}) : () -> ()
