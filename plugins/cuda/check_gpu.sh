#!/bin/sh
# All that needs a GPU, in one go: builds, then, on cuda:0, the conformance suite, ONNX's
# cases, compute-sanitizer on a part, the benchmark beside the driver API, and ResNet-50.
# usage: sh plugins/cuda/check_gpu.sh [OUT]     OUT: a folder for reports; default: a new one
# Exit status 77 where there is no GPU.
set -u
cd "$(dirname "$0")/../.."
out=${1:-$(mktemp -d)}
mkdir -p "$out"
build=build/release failed=0
command -v nvidia-smi >/dev/null || { echo "there is no NVIDIA driver"; exit 77; }
nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader || exit 77
date -u

cmake --preset release >"$out/build.txt" 2>&1 && cmake --build --preset release >>"$out/build.txt" 2>&1 || {
  tail -n 30 "$out/build.txt"
  exit 1
}
KEEL_LOG=info $build/bin/keel devices >"$out/devices.txt" 2>&1
grep -A 8 '^cuda:0' "$out/devices.txt" || {
  grep cuda "$out/devices.txt"
  exit 1
}

part() { # NAME COMMAND...
  name=$1
  shift
  begin=$(date +%s)
  "$@" >"$out/$name.txt" 2>&1
  code=$?
  echo "$name: $(($(date +%s) - begin)) s, status $code: $(tail -n 1 "$out/$name.txt")"
  [ $code -eq 0 ] || failed=1
}

data=/usr/share/libonnx-testdata/data
part sources $build/tests/cuda_sources
part conformance $build/bin/keel-conformance run $build/lib/keel/cuda.so --out "$out/report" --quiet
for set_ in node pytorch-operator pytorch-converted; do
  [ -d $data/$set_ ] && part "onnx-$set_" $build/bin/keel onnx-test --device cuda:0 --quiet $data/$set_
done
[ -d $data/node ] || echo "libonnx-testdata is not installed: no ONNX cases"

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
for tool in memcheck racecheck; do
  if [ -n "$sanitizer" ]; then
    part $tool "$sanitizer" --tool $tool --error-exitcode 9 $build/tests/families_chain cuda:0 20
  else
    echo "$tool: there is no compute-sanitizer"
  fi
done
part raw $build/bench/cuda_raw
cat "$out/raw.txt"
for model in resnet50; do
  $build/samples/$model --device cuda:0 --repeat 50 >"$out/$model.txt" 2>&1 || failed=1
  tail -n 3 "$out/$model.txt"
done
echo "reports: $out"
exit $failed
