// keel::Attention of shapes that kernels take apart (few and many rows, keys of more than a
// block, heads that share, rows that see nothing), and RMSNormalization; device_test.sh compares
// them with the CPU's.
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<2x4x70x64xf32>, %1: tensor<2x4x130x64xf32>, %2: tensor<2x4x130x64xf32>, %3: tensor<2x1x1x130xf32>, %4: tensor<1x6x50x40xf32>, %5: tensor<1x2x77x40xf32>, %6: tensor<1x2x77x72xf32>, %7: tensor<2x1x3x9x6xf32>, %8: tensor<2x1x3x4x6xf32>, %9: tensor<2x1x3x4x5xf32>, %10: tensor<1x1x1x9x4xf32>, %11: tensor<1x8x1x128xf32>, %12: tensor<1x2x200x128xf32>, %13: tensor<1x2x200x160xf32>, %14: tensor<3x5x40xf32>, %15: tensor<40xf32>, %16: tensor<2x3x8x70xf32>, %17: tensor<8x70xf32>, %18: tensor<4x300xf32>, %19: tensor<1xf32>, %20: tensor<2x3x4xf32>, %21: tensor<1x4xf32>):
    %22 = "keel.Attention"(%0, %1, %2, %3) {scale = 1.250000e-01 : f32} : (tensor<2x4x70x64xf32>, tensor<2x4x130x64xf32>, tensor<2x4x130x64xf32>, tensor<2x1x1x130xf32>) -> (tensor<2x4x70x64xf32>)
    %23 = "keel.Attention"(%4, %5, %6) {causal = 1 : i64, scale = 2.000000e-01 : f32, heads_last = 1 : i64} : (tensor<1x6x50x40xf32>, tensor<1x2x77x40xf32>, tensor<1x2x77x72xf32>) -> (tensor<1x50x6x72xf32>)
    %24 = "keel.Attention"(%7, %8, %9, %10) {causal = 1 : i64, nan_as_zero = 1 : i64} : (tensor<2x1x3x9x6xf32>, tensor<2x1x3x4x6xf32>, tensor<2x1x3x4x5xf32>, tensor<1x1x1x9x4xf32>) -> (tensor<2x1x3x9x5xf32>)
    %25 = "keel.Attention"(%11, %12, %13) {scale = 1.000000e-01 : f32} : (tensor<1x8x1x128xf32>, tensor<1x2x200x128xf32>, tensor<1x2x200x160xf32>) -> (tensor<1x8x1x160xf32>)
    %26 = "onnx.RMSNormalization"(%14, %15) : (tensor<3x5x40xf32>, tensor<40xf32>) -> (tensor<3x5x40xf32>)
    %27 = "onnx.RMSNormalization"(%16, %17) {axis = 2 : i64, epsilon = 1.000000e-03 : f32} : (tensor<2x3x8x70xf32>, tensor<8x70xf32>) -> (tensor<2x3x8x70xf32>)
    %28 = "onnx.RMSNormalization"(%18, %19) : (tensor<4x300xf32>, tensor<1xf32>) -> (tensor<4x300xf32>)
    %29 = "onnx.RMSNormalization"(%20, %21) {axis = 1 : i64} : (tensor<2x3x4xf32>, tensor<1x4xf32>) -> (tensor<2x3x4xf32>)
    "keel.return"(%22, %23, %24, %25, %26, %27, %28, %29) : (tensor<2x4x70x64xf32>, tensor<1x50x6x72xf32>, tensor<2x1x3x9x5xf32>, tensor<1x8x1x160xf32>, tensor<3x5x40xf32>, tensor<2x3x8x70xf32>, tensor<4x300xf32>, tensor<2x3x4xf32>) -> ()
  }) {version = 1 : i64, name = "attention", inputs = ["i0", "i1", "i2", "i3", "i4", "i5", "i6", "i7", "i8", "i9", "i10", "i11", "i12", "i13", "i14", "i15", "i16", "i17", "i18", "i19", "i20", "i21"], input_types = [tensor<2x4x70x64xf32>, tensor<2x4x130x64xf32>, tensor<2x4x130x64xf32>, tensor<2x1x1x130xf32>, tensor<1x6x50x40xf32>, tensor<1x2x77x40xf32>, tensor<1x2x77x72xf32>, tensor<2x1x3x9x6xf32>, tensor<2x1x3x4x6xf32>, tensor<2x1x3x4x5xf32>, tensor<1x1x1x9x4xf32>, tensor<1x8x1x128xf32>, tensor<1x2x200x128xf32>, tensor<1x2x200x160xf32>, tensor<3x5x40xf32>, tensor<40xf32>, tensor<2x3x8x70xf32>, tensor<8x70xf32>, tensor<4x300xf32>, tensor<1xf32>, tensor<2x3x4xf32>, tensor<1x4xf32>], outputs = ["o0", "o1", "o2", "o3", "o4", "o5", "o6", "o7"], output_types = [tensor<2x4x70x64xf32>, tensor<1x50x6x72xf32>, tensor<2x1x3x9x5xf32>, tensor<1x8x1x160xf32>, tensor<3x5x40xf32>, tensor<2x3x8x70xf32>, tensor<4x300xf32>, tensor<2x3x4xf32>], ops = {"onnx.RMSNormalization" = 23 : i64}} : () -> ()
}) : () -> ()
