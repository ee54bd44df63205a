#!/bin/sh
# A device that silently computes products in TF32, in bf16, or with f16
# accumulators, is caught at every length from 1 to 4096.
# usage: precision_test.sh SUITE SIM
set -u
suite=$1 sim=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
for defect in matmul_tf32 matmul_bf16 matmul_acc_f16; do
  KEEL_SIM=$defect "$suite" run "$sim" --rule op.matmul-bound --op MatMul \
    --dtype f32 --no-reruns --out "$scratch" >/dev/null 2>&1
  for k in 1 2 3 7 16 64 256 1000 1024 4096; do
    grep "k=$k," "$scratch/results.jsonl" | grep -q '"status":"fail"' ||
      { echo "FAILED: $defect passes at k=$k"; failed=1; }
  done
  echo "ok: $defect is caught at each of ten lengths from 1 to 4096"
done
exit $failed
