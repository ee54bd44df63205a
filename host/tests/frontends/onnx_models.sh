#!/bin/sh
# Models that onnx_models.py and onnx_functions.py write: results, and what is refused; and
# functions at random (function_fuzz.py).
# usage: onnx_models.sh KEEL [COUNT [SEED]]     COUNT: of random models (300)
set -u
keel=$1
command -v python3 >/dev/null || { echo "python3 is not installed"; exit 77; }
here=$(dirname "$0")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
for models in onnx_models onnx_functions; do
  python3 "$here/$models.py" "$scratch" || exit 1
done
python3 "$here/function_fuzz.py" "$scratch/random" "${2:-300}" "${3:-1}" || exit 1

run_cases() { # FOLDER HOW...
  folder=$1
  shift
  "$keel" onnx-test "$@" "$folder" >"$scratch/out" 2>&1
  last=$(tail -n 1 "$scratch/out")
  echo "${folder#"$scratch/"} $*: $last"
  case $last in
    *" passed, 0 failed, 0 skipped"*) ;;
    *) grep -v ^pass "$scratch/out"; failed=1 ;;
  esac
}

devices=$("$keel" devices 2>/dev/null | grep '^[a-z]*:0$' | sed 's/^/--device /')
IFS='
'
for how in "" --eager "--through binary" "--through text" $devices; do
  unset IFS
  # shellcheck disable=SC2086
  run_cases "$scratch/cases" $how
done
for how in "" --eager "--through binary" "--through text"; do
  # shellcheck disable=SC2086
  run_cases "$scratch/random/cases" $how
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
"$keel" run "$scratch/cases/later_ir/model.onnx" >"$scratch/out" 2>&1
if ! grep -qF "is of ONNX's IR version 99" "$scratch/out"; then
  echo "FAILED: no warning of a later IR in:"
  cat "$scratch/out"
  failed=1
fi
# by name, on the command line
folder=$scratch/cases/initial_value_before_an_input
data=$folder/test_data_set_0
if ! "$keel" run "$folder/model.onnx" --input "x=$data/input_1.pb" --input "k=$data/input_0.pb" \
  --expect "$data/output_0.pb" >"$scratch/out" 2>&1; then
  echo "FAILED: an initial value is not replaced:"
  cat "$scratch/out"
  failed=1
fi
exit $failed
