#!/bin/sh
# The families' kernels in oclgrind, which checks each access to memory: products with
# and without tiles in local memory. One thread: oclgrind 21.10 is not for more.
# Half of the cases, in the world all (cmake/ci/world.sh).
# usage: oclgrind_test.sh KEEL [--all]     --all: all of ONNX's node cases
set -u
keel=$1
. "$(dirname "$0")/../../../cmake/ci/world.sh"
library=/usr/lib/oclgrind/liboclgrind-rt-icd.so
data=/usr/share/libonnx-testdata/data
[ -f $library ] || { echo "oclgrind is not installed"; exit 77; }
[ -d $data/node ] || { echo "libonnx-testdata is not installed"; exit 77; }
failed=0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
echo $library >"$scratch/oclgrind.icd"
export OCL_ICD_VENDORS="$scratch" KEEL_THREADS=1 KEEL_VISIBLE_DEVICES=cpu,opencl
export XDG_CACHE_HOME="$scratch/cache"

# watched SET FILTER OPTION
watched() {
  "$keel" onnx-test --device opencl:0 --quiet --option "opencl.$3" --filter "$2" \
    "$data/$1" >"$scratch/out" 2>&1 || failed=1
  if grep -E -q 'Invalid (read|write)|invalid memory|data race|FAIL' "$scratch/out"; then
    failed=1
  fi
  [ $failed -eq 0 ] || cat "$scratch/out"
  echo "$1, $3: $(tail -n 2 "$scratch/out" | tr '\n' ' ')"
}
set -f # filters, not files
if [ "${2:-}" = --all ]; then
  watched node '*' tiles=on
else
  for filter in $(some 2 'test_[a-b]*' 'test_[c-e]*'); do
    watched node "$filter" tiles=on
  done
fi
watched node 'test_[gm][ae]*' tiles=off
watched pytorch-converted '*onv*' tiles=off
exit $failed
