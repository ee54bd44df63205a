#!/bin/sh
# All that needs a GPU, in one go and in some minutes: first the benchmarks, alone (beside the
# driver API, cuBLASLt, PyTorch and JAX), then the conformance suite, then the other checks, side
# by side (ONNX's cases, the bridges' tests, compute-sanitizer on a part, on cuda:0; some of the
# suite on the GPU's OpenCL and Vulkan, where it has them). The figures are written down in OUT/RESULTS.md, what the suite
# says in docs/conformance/cuda.md; RESULTS.md here has what a person made of it.
# usage: sh plugins/cuda/check_gpu.sh [--built] [--checks|--figures] [OUT]
#   --built: build/release is built already; --checks, --figures: only these
#   OUT: a folder for reports; default: a new one
# PART_LIMIT: seconds that a part may take (240). Exit status 77 where there is no GPU.
set -u
cd "$(dirname "$0")/../.." || exit
built=no checks=yes figures=yes
while [ $# -gt 0 ]; do
  case $1 in
  --built) built=yes ;;
  --checks) figures=no ;;
  --figures) checks=no ;;
  --*)
    echo "usage: sh plugins/cuda/check_gpu.sh [--built] [--checks|--figures] [OUT]" >&2
    exit 2
    ;;
  *) break ;;
  esac
  shift
done
out=${1:-$(mktemp -d)}
rm -rf "$out/rows" "$out/failed"
mkdir -p "$out/rows" || exit
build=build/release limit=${PART_LIMIT:-240} started=$(date +%s) data=/usr/share/libonnx-testdata/data
command -v nvidia-smi >/dev/null || { echo "there is no NVIDIA driver"; exit 77; }
gpu=$(nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader | head -n 1) || exit 77
echo "$gpu"
date -u

# NVRTC, cuBLASLt and cuDNN may be there as Python packages only
packages=$(python3 - <<'END' 2>/dev/null
import glob, os, nvidia
print(":".join(sorted(path for base in nvidia.__path__ for path in glob.glob(os.path.join(base, "*", "lib")))))
END
)
LD_LIBRARY_PATH=$PWD/$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}${packages:+:$packages}
export LD_LIBRARY_PATH
export KEEL_LIBRARY="$PWD/$build/lib/libkeel.so" PYTHONPATH="$PWD/host/bridges/python" PYTHONDONTWRITEBYTECODE=1
export KEEL_ORT_LIBRARY="$PWD/$build/lib/keel-bridges/libkeel_onnxruntime.so"
export KEEL_PJRT_LIBRARY="$PWD/$build/lib/keel-bridges/libkeel_pjrt.so"

[ $built = yes ] || (cmake --preset release && cmake --build --preset release) >"$out/build.txt" 2>&1 || {
  tail -n 30 "$out/build.txt"
  exit 1
}
KEEL_LOG=info $build/bin/keel devices --properties >"$out/devices.txt" 2>&1
grep -A 8 '^cuda:0' "$out/devices.txt" || {
  grep cuda "$out/devices.txt"
  exit 1
}

# part NAME COMMAND...: runs it, and writes a row with its time and its last line
part() {
  name=$1
  shift
  begin=$(date +%s)
  timeout "$limit" "$@" >"$out/$name.txt" 2>&1
  code=$?
  span=$(($(date +%s) - begin)) last=$(tail -n 1 "$out/$name.txt" | tr '|' '/' | cut -c 1-160)
  echo "$name: $span s, status $code: $last"
  echo "| $name | $span | $code | $last |" >"$out/rows/$name"
  [ $code -eq 0 ] || [ $code -eq 77 ] || : >"$out/failed"
}

# what memory errors and races there are, in chains and in products
sanitized() {
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null)
  [ -n "$sanitizer" ] || { echo "there is no compute-sanitizer: no $1"; return; }
  part "$1" "$sanitizer" --tool "$1" --error-exitcode 9 $build/tests/families_chain cuda:0 20
  part "$1-products" "$sanitizer" --tool "$1" --error-exitcode 9 $build/bin/keel run \
    plugins/cuda/tests/products.mlir --device cuda:0 --repeat 6
}

# what stands behind products, beside the CPU
epilogues() {
  file=plugins/cuda/tests/epilogues.mlir expected=
  $build/bin/keel run $file --device cpu:0 --output "$out/epilogues" >"$out/epilogues-cpu.txt" 2>&1
  for array in "$out"/epilogues/?.npy; do
    expected="$expected --expect $array"
  done
  # shellcheck disable=SC2086
  part epilogues $build/bin/keel run $file --device cuda:0 --repeat 8 --atol 1e-5 $expected
}

# another way to the same GPU: a third of the suite
another() {
  device=$(awk -v wanted="$1" '/^[^ ]/ { id = $1 } /product.*NVIDIA/ && id ~ "^" wanted ":" { print id; exit }' "$out/devices.txt")
  [ -n "$device" ] || { echo "$1 has no device of NVIDIA's here"; return; }
  part "$1" $build/bin/keel-conformance run "$device" --jobs 2 --quick --quiet --shard 1/3 \
    --out "$out/report/$1"
}

# the frameworks that Python has here, each on cuda:0; status 77 where one is missing
bridges() {
  tests=host/bridges/onnxruntime/tests
  part onnxruntime-cases python3 -W ignore $tests/node_cases.py --device cuda:0
  part onnxruntime-models python3 -W ignore $tests/models.py cuda:0
  part onnxruntime-compiled python3 -W ignore $tests/contexts.py cuda:0
  part onnxruntime-device python3 -W ignore $tests/device.py cuda:0
  part jax env JAX_PLATFORMS=cpu,keel python3 host/bridges/pjrt/tests/test_jax.py cuda:0
  part pytorch env KEEL_TEST_DEVICE=cuda:0 python3 host/bridges/python/tests/test_torch.py Models
}

run_checks() {
  # contexts are made one after the other: more at once makes all slower
  part conformance sh conformance/tests/shipped.sh --jobs 8 --out "$out/report" cuda
  part sources $build/tests/cuda_sources &
  # without the libraries, and with operands of 11 bits
  part kernels $build/bin/keel-conformance run cuda:0 --quick --quiet --rule 'op.*bound' \
    --rule op.quantised --option cublaslt=off --option cudnn=off &
  part tf32 $build/bin/keel-conformance run cuda:0 --quick --quiet --rule 'robust.*' \
    --option tf32=on &
  for set_ in node pytorch-operator pytorch-converted; do
    [ -d $data/$set_ ] && part "onnx-$set_" $build/bin/keel onnx-test --device cuda:0 --quiet $data/$set_ &
  done
  [ -d $data/node ] || echo "libonnx-testdata is not installed: no ONNX cases"
  part chains $build/tests/families_chain cuda:0 60 &
  epilogues &
  bridges &
  for tool in memcheck racecheck; do
    sanitized $tool &
  done
  for plugin in opencl vulkan; do
    another $plugin &
  done
  wait
}

run_figures() {
  part raw $build/bench/cuda_raw
  part products $build/bench/cuda_products
  part bandwidth $build/bench/cuda_bandwidth
  for type in f32 tf32 f16; do
    option=
    [ $type = f16 ] && option=--f16
    [ $type = tf32 ] && option='--option cuda.tf32=on'
    for way in eager no-replay replay; do
      [ $way = replay ] && how= || how=--$way
      # shellcheck disable=SC2086
      part resnet50-$type-$way $build/samples/resnet50 --device cuda:0 --repeat 100 $option $how
    done
    # shellcheck disable=SC2086
    part "profile-$type" $build/samples/resnet50 --device cuda:0 --repeat 10 $option --profile
  done
  part block $build/bench/families_models cuda:0
  part torch python3 plugins/cuda/bench/torch_resnet50.py 100
  part torch-models python3 plugins/cuda/bench/torch_models.py $build/bin/keel
  part jax-models env JAX_PLATFORMS=cuda,keel python3 host/bridges/pjrt/bench/models.py cuda:0 cuda
}

# how much of a run nothing runs: kernels' time, by the device's clock, beside a run's
best() { awk '/: best/ { for (i = 1; i < NF; i++) if ($i == "best") print $(i + 1) }' "$out/$1.txt"; }
print_figures() {
  echo
  echo "## Figures"
  echo
  echo '```'
  for name in raw products bandwidth block; do
    echo "$name:"
    sed 's/^/  /' "$out/$name.txt"
  done
  for type in f32 tf32 f16; do
    for way in eager no-replay replay; do
      echo "ResNet-50 $type $way: $(grep ': best' "$out/resnet50-$type-$way.txt")"
    done
    busy=$(awk '/ ms  / { sum += $1 } END { print sum }' "$out/profile-$type.txt")
    echo "$busy $(best "resnet50-$type-replay")" | awk -v type=$type \
      '$1 > 0 && $2 > 0 { printf "ResNet-50 %s replayed: kernels %.3f ms of %.3f ms, idle %.0f %%\n", type, $1, $2, $1 < $2 ? 100 * (1 - $1 / $2) : 0 }'
  done
  cat "$out/torch.txt" "$out/torch-models.txt" "$out/jax-models.txt"
  echo '```'
}

[ $figures = no ] || run_figures
[ $checks = no ] || run_checks
{
  echo "# Results on a GPU"
  echo
  echo "Made by \`sh plugins/cuda/check_gpu.sh\`, $(date -u +%Y-%m-%d), commit ${COMMIT:-$(git rev-parse --short HEAD 2>/dev/null || echo unknown)}."
  echo
  echo "Device, driver, compute capability: $gpu; $(nproc) processors"
  echo
  echo "| part | seconds | status | last line |"
  echo "| --- | --- | --- | --- |"
  cat "$out"/rows/*
  [ $figures = no ] || print_figures
} >"$out/RESULTS.md"
echo "all: $(($(date +%s) - started)) s, $([ ! -e "$out/failed" ] && echo 'nothing failed' || echo 'SOME PARTS FAILED'); reports: $out"
[ ! -e "$out/failed" ]
