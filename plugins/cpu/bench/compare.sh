#!/bin/sh
# The CPU plugin beside the libraries underneath, as ratios in one run.
# usage: sh plugins/cpu/bench/compare.sh [BUILD]    (default: build/release)
set -eu
build=${1:-build/release}
cd "$(dirname "$0")/../../.."
[ -x "$build/bench/raw" ] || {
  echo "$build/bench/raw is not there: build with oneDNN's headers" >&2
  exit 1
}

# both choose for this processor, whatever the environment says of OpenBLAS
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS

echo "MatMul f32, milliseconds; ratio: best library / Keel (1 is as fast)"
for n in 512 1024 2048; do
  for threads in 1 2; do
    raw=$("$build/bench/raw" gemm $n $threads | tail -n 1)
    keel=$(KEEL_THREADS=$threads "$build/bench/matmul" $n)
    awk -v n=$n -v t=$threads -v r="$raw" -v k="$keel" 'BEGIN {
      printf "  %4d  %d thread%s  best library %9.3f  Keel %9.3f  ratio %.3f\n",
        n, t, (t > 1 ? "s" : " "), r, k, r / k }'
  done
done

echo "ResNet-50, batch 1, milliseconds; ratio: Keel / its convolutions alone"
for threads in 1 2; do
  raw=$("$build/bench/raw" convs $threads)
  keel=$(KEEL_THREADS=$threads "$build/samples/resnet50" --repeat 30 |
    sed -n 's/.*best \([0-9.]*\) ms.*/\1/p')
  awk -v t=$threads -v r="$raw" -v k="$keel" 'BEGIN {
    printf "  %d thread%s  oneDNN convolutions %7.2f  Keel %7.2f  ratio %.2f\n",
      t, (t > 1 ? "s" : " "), r, k, k / r }'
done
