// Resources in nested functions: what resource_test.c runs.
//
// Adds `step` to the variable `times` times, counts each, then, where `add` holds, inserts
// the variable under the count; gives what the variable and the table hold at the end.
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: !keel.resource, %1: !keel.resource, %2: !keel.resource, %3: tensor<i64>, %4: tensor<f32>, %5: tensor<i1>):
    %6 = "keel.constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
    %7 = "keel.VariableRead"(%0) : (!keel.resource) -> !keel.value
    %8:2 = "onnx.Loop"(%3, %6, %7, %0, %1, %4) ({
    ^bb0(%20: tensor<i64>, %21: tensor<i1>, %22: !keel.value, %23: !keel.value, %24: !keel.value, %25: tensor<f32>):
      %26 = "keel.VariableRead"(%23) : (!keel.value) -> !keel.value
      %27 = "onnx.Add"(%26, %25) : (!keel.value, tensor<f32>) -> !keel.value
      %28 = "keel.VariableAssign"(%23, %27) : (!keel.value, !keel.value) -> !keel.value
      %29 = "keel.CounterAdd"(%24) : (!keel.value) -> tensor<i64>
      %30 = "keel.VariableRead"(%23) : (!keel.value) -> !keel.value
      "keel.return"(%21, %30, %29) : (tensor<i1>, !keel.value, tensor<i64>) -> ()
    }) {keel.graphs = [{attribute = "body", captures = 3 : i64, name = "body"}]} : (tensor<i64>, tensor<i1>, !keel.value, !keel.resource, !keel.resource, tensor<f32>) -> (!keel.value, !keel.value)
    %9 = "keel.constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
    %10 = "onnx.If"(%5, %0, %1, %2, %9) ({
    ^bb0(%20: !keel.value, %21: !keel.value, %22: !keel.value, %23: tensor<i64>):
      %24 = "keel.VariableRead"(%20) : (!keel.value) -> !keel.value
      %25 = "keel.CounterAdd"(%21, %23) : (!keel.value, tensor<i64>) -> tensor<i64>
      %26 = "keel.TableInsert"(%22, %25, %24) : (!keel.value, tensor<i64>, !keel.value) -> tensor<i64>
      "keel.return"(%26) : (tensor<i64>) -> ()
    }, {
      %24 = "keel.constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
      "keel.return"(%24) : (tensor<i64>) -> ()
    }) {keel.graphs = [{attribute = "then_branch", captures = 4 : i64, name = "add"}, {attribute = "else_branch", captures = 0 : i64, name = "leave"}]} : (tensor<i1>, !keel.resource, !keel.resource, !keel.resource, tensor<i64>) -> !keel.value
    %11 = "keel.VariableRead"(%0) : (!keel.resource) -> !keel.value
    %12:2 = "keel.TableEntries"(%2) : (!keel.resource) -> (tensor<?xi64>, !keel.value)
    "keel.return"(%8#0, %8#1, %10, %11, %12#0, %12#1) : (!keel.value, !keel.value, !keel.value, !keel.value, tensor<?xi64>, !keel.value) -> ()
  }) {version = 1 : i64, name = "state", inputs = ["sum", "count", "seen", "times", "step", "add"], input_types = [!keel.resource, !keel.resource, !keel.resource, tensor<i64>, tensor<f32>, tensor<i1>], outputs = ["last", "counts", "entries", "now", "keys", "rows"], output_types = [!keel.value, !keel.value, !keel.value, !keel.value, tensor<?xi64>, !keel.value]} : () -> ()
}) : () -> ()
