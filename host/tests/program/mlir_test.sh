#!/bin/sh
# Every program's text is MLIR: mlir-opt takes it, and what mlir-opt prints of it, in
# either of its forms, is read back as the same program.
# usage: mlir_test.sh KEEL [STEP]: each STEPth of ONNX's cases (8; 1 for all)
set -u
keel=$1
step=${2:-8}
data=/usr/share/libonnx-testdata/data
mlir=
for name in mlir-opt mlir-opt-19; do
  command -v $name >/dev/null && mlir=$name
done
[ -n "$mlir" ] || { echo "mlir-opt is not installed"; exit 77; }
[ -d $data/node ] || { echo "libonnx-testdata is not installed"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 unread=0 at=0

complain() { # what, model
  failed=$((failed + 1))
  echo "$1: $2"
  head -n 2 "$scratch/errors"
}

text() { # from, to
  "$keel" compile "$1" -o "$2" --text >"$scratch/errors" 2>&1
}

for model in "$(dirname "$0")"/../data/*.mlir $data/*/*/model.onnx; do
  at=$((at + 1))
  case $model in
    *.onnx) [ $((at % step)) -eq 0 ] || continue ;;
  esac
  form=
  [ $((at % 2)) -eq 0 ] && form=--mlir-print-op-generic
  text "$model" "$scratch/1.mlir" || { unread=$((unread + 1)); continue; }
  if ! $mlir --allow-unregistered-dialect $form "$scratch/1.mlir" \
      -o "$scratch/2.mlir" 2>"$scratch/errors"; then
    complain "$mlir refuses it" "$model"
  elif ! text "$scratch/2.mlir" "$scratch/3.mlir"; then
    complain "what $mlir prints is not read back" "$model"
  elif ! cmp -s "$scratch/1.mlir" "$scratch/3.mlir"; then
    complain "it is another one behind $mlir" "$model"
  else
    passed=$((passed + 1))
  fi
done
echo "$passed programs went through $mlir, $failed did not; $unread models have" \
  "what Keel has not"
[ $failed -eq 0 ] && [ $passed -gt $((unread)) ]
