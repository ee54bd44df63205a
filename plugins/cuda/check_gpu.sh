#!/bin/sh
# All that needs a GPU, in one go and under 8 minutes: builds, then, on cuda:0, the conformance
# suite, ONNX's cases, compute-sanitizer on a part, benchmarks beside the driver API and
# cuBLASLt, and ResNet-50 beside PyTorch. The figures are written down in RESULTS.md.
# usage: sh plugins/cuda/check_gpu.sh [OUT]     OUT: a folder for reports; default: a new one
# Exit status 77 where there is no GPU.
set -u
cd "$(dirname "$0")/../.." || exit
out=${1:-$(mktemp -d)}
mkdir -p "$out"
build=build/release failed=0 started=$(date +%s)
command -v nvidia-smi >/dev/null || { echo "there is no NVIDIA driver"; exit 77; }
gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader | head -n 1) || exit 77
echo "$gpu"
date -u

if ! (cmake --preset release && cmake --build --preset release) >"$out/build.txt" 2>&1; then
  tail -n 30 "$out/build.txt"
  exit 1
fi
KEEL_LOG=info $build/bin/keel devices >"$out/devices.txt" 2>&1
grep -A 8 '^cuda:0' "$out/devices.txt" || {
  grep cuda "$out/devices.txt"
  exit 1
}
results=$out/RESULTS.md
{
  echo "# Results on a GPU"
  echo
  echo "Made by \`sh plugins/cuda/check_gpu.sh\`, $(date -u +%Y-%m-%d), commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown)."
  echo
  echo "Device, driver, compute capability: $gpu"
  echo
  echo "| part | seconds | status | last line |"
  echo "| --- | --- | --- | --- |"
} >"$results"

# part NAME COMMAND...: runs it, with its time and its last line
part() {
  name=$1
  shift
  begin=$(date +%s)
  timeout 240 "$@" >"$out/$name.txt" 2>&1
  code=$?
  span=$(($(date +%s) - begin)) last=$(tail -n 1 "$out/$name.txt")
  echo "$name: $span s, status $code: $last"
  echo "| $name | $span | $code | $last |" >>"$results"
  [ $code -eq 0 ] || [ $code -eq 77 ] || failed=1
}

data=/usr/share/libonnx-testdata/data
part sources $build/tests/cuda_sources
part conformance $build/bin/keel-conformance run $build/lib/keel/cuda.so --out "$out/report" --quiet
for set_ in node pytorch-operator pytorch-converted; do
  [ -d $data/$set_ ] && part "onnx-$set_" $build/bin/keel onnx-test --device cuda:0 --quiet $data/$set_
done
[ -d $data/node ] || echo "libonnx-testdata is not installed: no ONNX cases" | tee -a "$results"
# it also meets what a machine's own libraries do
part kernels $build/bin/keel-conformance run $build/lib/keel/cuda.so --quick --quiet --rule 'op.*' \
  --option cublaslt=off --option cudnn=off
part tf32 $build/bin/keel-conformance run $build/lib/keel/cuda.so --quick --quiet --rule 'robust.*' \
  --option tf32=on

# chains beside what the ops give, and what stands behind products beside the CPU
part chains $build/tests/families_chain cuda:0 60
epilogues=plugins/cuda/tests/epilogues.mlir expected=
$build/bin/keel run $epilogues --device cpu:0 --output "$out/epilogues" >"$out/epilogues-cpu.txt" 2>&1
for file in "$out"/epilogues/?.npy; do
  expected="$expected --expect $file"
done
# shellcheck disable=SC2086
part epilogues $build/bin/keel run $epilogues --device cuda:0 --repeat 8 $expected

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
for tool in memcheck racecheck; do
  if [ -n "$sanitizer" ]; then
    part $tool "$sanitizer" --tool $tool --error-exitcode 9 $build/tests/families_chain cuda:0 20
    part $tool-products "$sanitizer" --tool $tool --error-exitcode 9 $build/bin/keel run \
      plugins/cuda/tests/products.mlir --device cuda:0 --repeat 6
  else
    echo "$tool: there is no compute-sanitizer" | tee -a "$results"
  fi
done

# figures NAME COMMAND...: its output goes into the results
figures() {
  name=$1
  shift
  part "$name" "$@"
  cat "$out/$name.txt"
}
figures raw $build/bench/cuda_raw
figures products $build/bench/cuda_products
figures bandwidth $build/bench/cuda_bandwidth
for type in f32 f16; do
  [ $type = f16 ] && option=--f16 || option=
  for way in eager no-replay replay; do
    [ $way = replay ] && how= || how=--$way
    # shellcheck disable=SC2086
    figures resnet50-$type-$way $build/samples/resnet50 --device cuda:0 --repeat 100 $option $how
  done
  # shellcheck disable=SC2086
  part "profile-$type" $build/samples/resnet50 --device cuda:0 --repeat 10 $option --profile
done
figures torch python3 plugins/cuda/bench/torch_resnet50.py 100

# how much of a run nothing runs: kernels' time, by the device's clock, beside a run's
best() { awk '/: best/ { for (i = 1; i < NF; i++) if ($i == "best") print $(i + 1) }' "$out/$1.txt"; }
{
  echo
  echo "## Figures"
  echo
  echo '```'
  for name in raw products bandwidth; do cat "$out/$name.txt"; done
  for type in f32 f16; do
    for way in eager no-replay replay; do
      echo "ResNet-50 $type $way: $(grep ': best' "$out/resnet50-$type-$way.txt")"
    done
    busy=$(awk '/ ms  / { sum += $1 } END { print sum }' "$out/profile-$type.txt")
    echo "$busy $(best "resnet50-$type-replay")" | awk -v type=$type \
      '$1 > 0 && $2 > 0 { printf "ResNet-50 %s replayed: kernels %.3f ms of %.3f ms, idle %.0f %%\n", type, $1, $2, $1 < $2 ? 100 * (1 - $1 / $2) : 0 }'
  done
  cat "$out/torch.txt"
  echo '```'
} >>"$results"
cp "$results" plugins/cuda/RESULTS.md
echo "all: $(($(date +%s) - started)) s, $([ $failed -eq 0 ] && echo 'nothing failed' || echo 'SOME PARTS FAILED'); reports: $out"
exit $failed
