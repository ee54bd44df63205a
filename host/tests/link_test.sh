#!/bin/sh
# Ranks under MPI: their values, and what happens where something goes wrong: within the time it
# must, with one message that says where the ranks are.
# usage: link_test.sh LAUNCHER LINK_RANKS CPU_PLUGIN
#   LAUNCHER  mpirun.openmpi, mpiexec.mpich, or abi: that of an MPI of the standard ABI, whose
#             bin/mpiexec and lib/libmpi_abi.so.1 lie in the folder KEEL_TEST_MPI_ABI
set -u
launcher=$1 ranks=$2
export CPU_PLUGIN=$3
if [ "$launcher" = abi ]; then
  [ "${KEEL_TEST_MPI_ABI:-}" ] || { echo "KEEL_TEST_MPI_ABI names no MPI"; exit 77; }
  launcher=$KEEL_TEST_MPI_ABI/bin/mpiexec
  export KEEL_LINK_MODULE=mpi KEEL_MPI_LIBRARY="$KEEL_TEST_MPI_ABI/lib/libmpi_abi.so.1"
fi
command -v "$launcher" >/dev/null || { echo "there is no $launcher"; exit 77; }
case $launcher in
  *openmpi*) many=4 flags="--oversubscribe --allow-run-as-root --quiet" ;;
  *) many=2 flags= ;; # more than cores, MPICH's ranks take milliseconds to meet
esac
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

# expect WHAT TEXT [COUNT]: it ends, not well, and says so, once
expect() {
  run "${3:-$many}" "$1"
  said=$(grep -c "$2" "$scratch/out")
  if [ "$status" -eq 0 ] || [ "$status" -eq 124 ] || [ "$said" -ne 1 ]; then
    fail "$1: status $status, and \"$2\" $said times"
  else
    echo "ok: $1"
  fi
}

for count in 1 2 $many; do
  run "$count" values
  if [ "$status" -ne 0 ] || ! grep -q "^$count ranks agree" "$scratch/out"; then
    fail "values of $count ranks: status $status"
  else
    echo "ok: values of $count ranks"
  fi
done

others="ranks 0, 2, 3 wait"
[ "$many" -eq 2 ] && others="rank 0 waits"
expect sleep "after 2 s: $others in #2 AllReduce \"it\"; rank 1 is before #2"
expect stop "after 2 s: $others in #2 AllReduce \"it\"; rank 1 does not answer"
silent="rank 1 is before #1; ranks 2, 3 wait in #1 AllReduce"
[ "$many" -eq 2 ] && silent="rank 1 is before #1"
expect silent "after 2 s: rank 0 waits in Receive from rank 1 (its message 1); $silent"
expect fail "^rank 1: the disk is full; before exchange 1, AllReduce"
expect end "^rank [0-9]*: the file is damaged"
run "$many" die
[ "$status" -ne 0 ] && [ "$status" -ne 124 ] && echo "ok: die" || fail "die: status $status"
run "$many" differ
if [ "$status" -ne 0 ] || [ "$(grep -c 'differ at exchange 2: rank 0 has AllReduce "second" of f32\[4\], and rank 1 has Broadcast' "$scratch/out")" -ne 1 ]; then
  fail "differ: status $status"
else
  echo "ok: differ"
fi

# without the launcher, and with the module of another MPI; that of the ABI is none by itself
own=${KEEL_LINK_MODULE:-}
unset KEEL_LINK_MODULE
refuse() {
  timeout 60 env "$1" "$ranks" values >"$scratch/out" 2>&1
  [ $? -eq 2 ] && grep -q "$2" "$scratch/out" && echo "ok: $2" || fail "$2"
}
refuse A= "no launcher of MPI has started this process"
refuse KEEL_LINK_MODULE=none "there is no module .*keel_none.so"
refuse KEEL_LINK_MODULE="$CPU_PLUGIN" "is no module of version 1"
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
