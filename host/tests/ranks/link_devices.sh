#!/bin/sh
# Ranks whose devices exchange among themselves: all of them, those of each machine, and those
# of parts; what their plugin has not, and what happens where a rank does not come.
# usage: link_devices.sh LAUNCHER LINK_RANKS CPU_PLUGIN MODULE MACHINES [SIM_PLUGIN]
#   MODULE    that of the launcher's MPI
#   MACHINES  link_machines.so
set -u
launcher=$1 ranks=$2 module=$4 machines=$5
export CPU_PLUGIN=$3 SIM_PLUGIN="${6:-}"
[ -f "$SIM_PLUGIN" ] || { echo "there is no simulated device"; exit 77; }
command -v "$launcher" >/dev/null || { echo "there is no $launcher"; exit 77; }
case $launcher in
  *openmpi*) many=4 flags="--oversubscribe --allow-run-as-root --quiet" ;;
  *) many=2 flags= ;; # as in link_test.sh
esac
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# expect COUNT WHAT STATUS TEXT: it ends so, in time, and says that once; STATUS not: badly
expect() {
  # shellcheck disable=SC2086
  timeout 60 "$launcher" $flags -n "$1" "$ranks" "$2" >"$scratch/out" 2>&1
  status=$?
  said=$(grep -c "$4" "$scratch/out")
  if [ "$status" -ne 124 ] && [ "$said" -eq 1 ] &&
    case $3 in not) [ "$status" -ne 0 ] ;; *) [ "$status" -eq "$3" ] ;; esac; then
    echo "ok: $2 of $1 ranks: $4"
  else
    echo "FAILED: $2 of $1 ranks: status $status, and \"$4\" $said times"
    cat "$scratch/out"
    failed=1
  fi
}

# shared memory by which simulated devices meet, of processes that end well
left() {
  ls /dev/shm 2>/dev/null | grep -c '^keel-sim-'
}

before=$(left)
export KEEL_LAYERS=validation
expect "$many" values 0 "^$many ranks agree: 23 direct, 0 in levels, 3 in pieces"
unset KEEL_LAYERS
expect 2 beside 0 "kernels ran beside"
if [ "$many" -eq 4 ]; then
  waits='ranks 0, 2, 3 wait in #2 AllReduce'
  expect 4 sleep not "after 2 s: $waits \"it\"; rank 1 is before #2"
  expect 4 asleep not "after 2 s: $waits; rank 1 is before #2"
  expect 4 fail not "^rank 1: the disk is full; before exchange 1, AllReduce"
  # two machines, which do not share all sums evenly
  export KEEL_LINK_MODULE="$machines" KEEL_MACHINES_MODULE="$module"
  expect 4 values 0 "^4 ranks agree: 6 direct, 7 in levels, 3 in pieces"
fi
for _ in 1 2 3; do # another test may be at it
  [ "$(left)" -le "$before" ] && exit $failed
  sleep 1
done
echo "FAILED: shared memory is left"
exit 1
