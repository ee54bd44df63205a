#!/bin/sh
# Models that ranks of MPI share give what each rank alone gives, on each device that there is.
# usage: split_ranks.sh SPLIT_RANKS CPU_PLUGIN [DEVICE=PLUGIN]...
#   Open MPI's mpirun, as four ranks are more than cores
set -u
ranks=$1 cpu=$2
shift 2
command -v mpirun.openmpi >/dev/null || { echo "there is no mpirun.openmpi"; exit 77; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# check COUNT DEVICE PLUGIN...: the same, and a part of the weights for each
check() {
  count=$1
  shift
  timeout 200 mpirun.openmpi --oversubscribe --allow-run-as-root --quiet --bind-to none -n "$count" \
    "$ranks" "$@" >"$scratch/out" 2>&1
  status=$?
  lines=$(grep -c "exchanges, weights" "$scratch/out")
  if [ "$status" -ne 0 ] || [ "$lines" -ne 20 ]; then
    echo "FAILED: $count ranks on $1: status $status, $lines of 20 models"
    cat "$scratch/out"
    failed=1
  elif ! awk -v n="$count" '/by tensor/ && $NF > 1.25 / n {exit 1}' "$scratch/out"; then
    echo "FAILED: $count ranks on $1: a rank has more than its part of the weights"
    cat "$scratch/out"
    failed=1
  else
    echo "ok: $count ranks on $1"
  fi
}

for count in 1 2 4; do
  check $count cpu:0 "$cpu"
done
for other in "$@"; do
  for count in 2 4; do
    check $count "${other%%=*}" "${other#*=}" "$cpu"
  done
done
exit $failed
