#!/bin/sh
# Runs libFuzzer's targets for a short while, with AddressSanitizer and
# UndefinedBehaviorSanitizer: builds the preset fuzz, and starts each target from some of
# ONNX's cases. host/tests/fuzz/long.sh starts from all of them, and runs for hours.
#
# usage: sh cmake/fuzz.sh [SECONDS [TARGET...]]    of each target (30)
#        TARGET: program, value or manifest (all three)
#
# A file that breaks Keel lies in build/fuzz/found; build/fuzz/tests/fuzz_TARGET FILE
# shows it again.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-30}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- program value manifest
data=${KEEL_ONNX_DATA:-/usr/share/libonnx-testdata/data}
sh cmake/ci/build.sh fuzz
corpus=build/fuzz/short
mkdir -p build/fuzz/found $corpus/program $corpus/value $corpus/manifest

for folder in "$data"/simple/*; do
  name=$(basename "$folder")
  cp "$folder/model.onnx" "$corpus/program/$name.onnx"
  input=$folder/test_data_set_0/input_0.pb
  [ ! -e "$input" ] || cp "$input" "$corpus/value/$name.pb"
done
cp host/tests/data/*.keel host/tests/data/*.mlir $corpus/program
echo '{"library": "cpu.so", "name": "cpu"}' >$corpus/manifest/cpu.json

export KEEL_LOG=error VK_ICD_FILENAMES=/none
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1
for target; do
  echo "== $target, $seconds s"
  "build/fuzz/tests/fuzz_$target" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=4096 \
    -print_final_stats=1 -verbosity=0 -artifact_prefix=build/fuzz/found/ "$corpus/$target"
done
echo "nothing found"
