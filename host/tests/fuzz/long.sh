#!/bin/sh
# Fuzzes for hours: mutants of ONNX's cases under the sanitizers, then libFuzzer's targets,
# each for the same time, in turn, until one finds something.
#
# usage: sh host/tests/fuzz/long.sh [SECONDS]    of each of the nine (600)
#
# What was found lies in build/fuzz/found, with what printed it beside it.
set -eu
cd "$(dirname "$0")/../../.."
seconds=${1:-600}
data=${KEEL_ONNX_DATA:-/usr/share/libonnx-testdata/data}
cmake --preset fuzz
cmake --build --preset fuzz
found=$PWD/build/fuzz/found
corpus=$PWD/build/fuzz/corpus
mkdir -p "$found" "$corpus/program" "$corpus/value" "$corpus/manifest"
export KEEL_LOG=error VK_ICD_FILENAMES=/none
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1

# mutants, a seed after the other, until the time is over
for what in graphs launches binary text ahead artifacts; do
  end=$(($(date +%s) + seconds))
  seed=$(date +%s)
  while [ "$(date +%s)" -lt "$end" ]; do
    echo "$what, seed $seed"
    if ! build/fuzz/tests/fuzz "$what" --seed "$seed" --count 5000 --keep "$found/$what-$seed" \
      >"$found/$what-$seed.log" 2>&1; then
      tail -n 40 "$found/$what-$seed.log"
      echo "found: $found/$what-$seed" >&2
      exit 1
    fi
    tail -n 1 "$found/$what-$seed.log"
    rm -f "$found/$what-$seed" "$found/$what-$seed.log"
    seed=$((seed + 1))
  done
done

# seeds of the corpora: cases, the same in Keel's own forms, values, a manifest
number=0
for folder in "$data"/node/* "$data"/simple/*; do
  number=$((number + 1))
  [ -e "$corpus/program/$number.onnx" ] && continue
  cp "$folder/model.onnx" "$corpus/program/$number.onnx" 2>/dev/null || continue
  build/fuzz/bin/keel compile "$folder/model.onnx" -o "$corpus/program/$number.keel" >/dev/null 2>&1 || :
  build/fuzz/bin/keel compile "$folder/model.onnx" -o "$corpus/program/$number.ahead.keel" \
    --device graph_npu --plugin build/fuzz/samples/graph_npu.so >/dev/null 2>&1 || :
  build/fuzz/bin/keel compile "$folder/model.onnx" --text -o "$corpus/program/$number.mlir" >/dev/null 2>&1 || :
  cp "$folder/test_data_set_0/input_0.pb" "$corpus/value/$number.pb" 2>/dev/null || :
done
cp host/tests/data/stablehlo/*.mlirbc host/tests/data/stablehlo/devices/*.mlirbc "$corpus/program/"
echo '{"library": "cpu.so", "name": "cpu", "options": {"isa": "base"}}' >"$corpus/manifest/cpu.json"
for what in program value manifest; do
  build/fuzz/tests/fuzz_$what -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 \
    -artifact_prefix="$found/" "$corpus/$what"
done
