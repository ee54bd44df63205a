#!/bin/sh
# Ranks under MPI: their values, and what is refused.
# usage: link_test.sh LAUNCHER LINK_RANKS CPU_PLUGIN
#   LAUNCHER  mpirun.openmpi, mpiexec.mpich, or abi (launcher.sh)
set -u
launcher=$1 ranks=$2
export CPU_PLUGIN=$3
. "$(dirname "$0")/launcher.sh"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# run COUNT WHAT: its output goes to $scratch/out, its status to $status
run() {
  # shellcheck disable=SC2086
  timeout 60 "$launcher" $flags -n "$1" "$ranks" "$2" >"$scratch/out" 2>&1
  status=$?
}

fail() {
  echo "FAILED: $*"
  cat "$scratch/out"
  failed=1
}

for count in 1 2 $many; do
  run "$count" values
  if [ "$status" -ne 0 ] || ! grep -q "^$count ranks agree" "$scratch/out"; then
    fail "values of $count ranks: status $status"
  else
    echo "ok: values of $count ranks"
  fi
done

# without the launcher, and with the module of another MPI; that of the ABI is none by itself
own=${KEEL_LINK_MODULE:-}
unset KEEL_LINK_MODULE
refuse() {
  timeout 60 env "$1" "$ranks" values >"$scratch/out" 2>&1
  [ $? -eq 2 ] && grep -q "$2" "$scratch/out" && echo "ok: $2" || fail "$2"
}
refuse A= "no launcher of MPI has started this process"
refuse KEEL_LINK_MODULE=none "there is no module .*keel_none.so"
refuse KEEL_LINK_MODULE="$CPU_PLUGIN" "is not a link module of version 1"
for other in openmpi mpich; do
  [ -f "$(dirname "$CPU_PLUGIN")/../keel-link/keel_$other.so" ] || continue
  case $launcher in *$other*) continue ;; esac
  # any MPICH's launcher starts ranks of any other
  [ "$own" = mpi ] && [ $other = mpich ] && continue
  export KEEL_LINK_MODULE=$other
  run 2 values
  grep -q "the launcher has started 2 ranks, and .* sees 1" "$scratch/out" && [ $status -ne 0 ] &&
    echo "ok: the launcher of another MPI" || fail "the launcher of another MPI: status $status"
done
exit $failed
