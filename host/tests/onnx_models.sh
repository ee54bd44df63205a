#!/bin/sh
# What ONNX changed from opset to opset, in models that onnx_models.py writes: results, and
# what is refused.
# usage: onnx_models.sh KEEL
set -u
keel=$1
command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
python3 "$(dirname "$0")/onnx_models.py" "$scratch" || exit 1
devices=$("$keel" devices 2>/dev/null | grep '^[a-z]*:0$' | sed 's/^/--device /')
IFS='
'
for how in "" --eager "--through binary" "--through text" $devices; do
  unset IFS
  # shellcheck disable=SC2086
  "$keel" onnx-test $how "$scratch/cases" >"$scratch/out" 2>&1
  last=$(tail -n 1 "$scratch/out")
  echo "cases${how:+ $how}: $last"
  case $last in
    *" passed, 0 failed, 0 skipped"*) ;;
    *) grep -v ^pass "$scratch/out"; failed=1 ;;
  esac
done
for model in "$scratch"/refused/*.onnx; do
  words=$(cat "${model%.onnx}.txt")
  "$keel" run "$model" >"$scratch/out" 2>&1
  status=$?
  if [ $status -ne 1 ] || ! grep -qF -- "$words" "$scratch/out"; then
    echo "FAILED: $model: status $status (not 1), or no \"$words\" in:"
    cat "$scratch/out"
    failed=1
  fi
done
exit $failed
