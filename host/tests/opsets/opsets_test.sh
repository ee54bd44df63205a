#!/bin/sh
# A libkeel without one of the op sets: it runs other models, and says of the set's ops why it does
# not know them.
# usage: opsets_test.sh KEEL FOLDER SET      FOLDER has that libkeel
set -u
keel=$1 folder=$2 set=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# model TYPE OP TYPE: y = OP(x), OP with its domain
model() {
  cat >"$scratch/model.mlir" <<END
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<$1>):
    %1 = "$2"(%0) : (tensor<$1>) -> tensor<$3>
    "keel.return"(%1) : (tensor<$3>) -> ()
  }) {version = 1 : i64, name = "main", inputs = ["x"], input_types = [tensor<$1>], outputs = ["y"], output_types = [tensor<$3>]} : () -> ()
}) : () -> ()
END
}

run() {
  LD_LIBRARY_PATH="$folder" timeout 60 "$keel" run "$scratch/model.mlir" \
    --plugin "$(dirname "$keel")/../lib/keel/cpu.so" >"$scratch/out" 2>&1
}

case $set in
microsoft) model 3xf32 com.microsoft.QuickGelu 3xf32 ;;
ml) model 3xf32 ai.onnx.ml.Binarizer 3xf32 ;;
pictures) model 3xui8 onnx.ImageDecoder '?x?x?xui8' ;;
ranks) model 3xf32 keel.AllReduce 3xf32 ;;
strings) model 3x!keel.string onnx.StringNormalizer 3x!keel.string ;;
*) echo "there is no op set $set to leave out" && exit 1 ;;
esac
if run || ! grep -q "there is no op .*without the op sets (KEEL_OPSETS) $set;" "$scratch/out"; then
  echo "FAILED: the op of $set is not refused for that reason"
  cat "$scratch/out"
  failed=1
fi
model 3xf32 onnx.Gelu 3xf32
run && grep -q "^output y: f32\[3\]" "$scratch/out" || {
  echo "FAILED: Gelu without $set"
  cat "$scratch/out"
  failed=1
}
[ $failed -ne 0 ] || echo "ok: without $set"
exit $failed
