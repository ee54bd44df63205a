#!/bin/sh
# `keel run` of a program that exchanges values: on devices of one process, and on ranks of MPI.
# usage: ranks_test.sh KEEL SIM
set -u
keel=$1 sim=$2
program=$(dirname "$0")/../data/exchange.mlir
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# expect STATUS TEXT ARGUMENT...: keel run ends so, and says that on one line
expect() {
  want=$1 text=$2
  shift 2
  timeout 60 "$keel" run "$program" "$@" >"$scratch/out" 2>&1
  status=$?
  if [ "$status" -eq "$want" ] && [ "$(grep -c -e "$text" "$scratch/out")" -eq 1 ]; then
    echo "ok: $*"
  else
    echo "FAILED: $*: status $status, not $want, or \"$text\" not once"
    cat "$scratch/out"
    failed=1
  fi
}

expect 2 "give them devices with --devices D,E, or start processes"
expect 2 "is for ranks of MPI (--np N or mpirun);" --exchange-timeout 100
expect 2 "for those of --devices, --timeout limits the run" --devices cpu:0 --exchange-timeout 100
expect 2 "exchange-timeout.*whole number from 1 to 1000000000" --np 2 --exchange-timeout 0
expect 2 "exchange-timeout.*whole number from 1 to 1000000000" --np 2 --exchange-timeout soon
expect 2 "neither --device nor --np" --devices cpu:0 --np 2
expect 2 "up to 64 names of devices" --devices cpu:0,
expect 1 "there is no device \"none:0\"" --devices cpu:0,none:0
expect 1 "this one has 1" --devices cpu:0
[ -f "$sim" ] && {
  expect 0 "^2 devices: 0 exchanges by themselves, 2 by" --plugin "$sim" --devices cpu:0,sim:0 \
    --output "$scratch/devices"
  expect 0 "^output y: f32\[8,8\]" --plugin "$sim" --devices sim:0,cpu:0 --repeat 3
}

# A launcher's variables, which a process inherits, make no rank of one that exchanges nothing: it
# prints and writes as any other, and waits for nobody.
cat >"$scratch/plain.mlir" <<'END'
"builtin.module"() ({
  "keel.program"() ({
  ^bb0(%0: tensor<2xf32>):
    %1 = "onnx.Neg"(%0) : (tensor<2xf32>) -> tensor<2xf32>
    "keel.return"(%1) : (tensor<2xf32>) -> ()
  }) {version = 1 : i64, name = "plain", inputs = ["x"], input_types = [tensor<2xf32>], outputs = ["y"], output_types = [tensor<2xf32>]} : () -> ()
}) : () -> ()
END
exchanging=$program
program=$scratch/plain.mlir
inherit() {
  rm -rf "$scratch/alone"
  for word in "$@"; do export "${word?}"; done
  expect 0 "^output y: f32" --output "$scratch/alone" --trace "$scratch/alone.json"
  [ -s "$scratch/alone/y.npy" ] && [ -s "$scratch/alone.json" ] || {
    echo "FAILED: $*: it wrote nothing"
    failed=1
  }
  for word in "$@"; do unset "${word%%=*}"; done
}
inherit OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=0
inherit OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3
inherit OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0
inherit PMI_SIZE=2 PMI_RANK=1
inherit MPI_LOCALNRANKS=2 PMI_ID=1
inherit SLURM_STEP_NUM_TASKS=2 PMIX_RANK=1
inherit OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1 KEEL_LINK_MODULE=/nowhere.so
export OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1
expect 1 "there is no device \"none:0\"" --device none:0
expect 2 "unknown option" --nonsense
unset OMPI_COMM_WORLD_SIZE OMPI_COMM_WORLD_RANK
program=$exchanging

# by an MPI of the standard ABI, where one is named
[ "${KEEL_TEST_MPI_ABI:-}" ] && {
  timeout 60 env KEEL_LINK_MODULE=mpi KEEL_MPI_LIBRARY="$KEEL_TEST_MPI_ABI/lib/libmpi_abi.so.1" \
    "$KEEL_TEST_MPI_ABI/bin/mpiexec" -n 2 "$keel" run "$program" --output "$scratch/abi" \
    >"$scratch/out" 2>&1
  if [ "$(grep -c "^2 ranks by .*: 2 exchanges" "$scratch/out")" -eq 1 ]; then
    echo "ok: MPI's standard ABI"
  else
    echo "FAILED: MPI's standard ABI"
    cat "$scratch/out"
    failed=1
  fi
}

modules=$(dirname "$keel")/../lib/keel-link
[ -f "$modules/keel_openmpi.so" ] || [ -f "$modules/keel_mpich.so" ] || exit $failed
command -v mpirun.openmpi >/dev/null || command -v mpiexec.mpich >/dev/null || exit $failed
expect 0 "^2 ranks by .*: 2 exchanges" --np 2 --output "$scratch/ranks"
expect 0 '"ranks": {"count": 2, ' --np=2 --json
program=$scratch/plain.mlir
expect 0 "has no exchanges: each of 2 ranks runs all of it" --np 2
command -v mpirun.openmpi >/dev/null && {
  timeout 60 mpirun.openmpi --oversubscribe -n 2 "$keel" run "$program" >"$scratch/out" 2>&1
  [ "$(grep -c "^output y: f32" "$scratch/out")" -eq 2 ] || {
    echo "FAILED: two processes that exchange nothing"
    cat "$scratch/out"
    failed=1
  }
  timeout 60 mpirun.openmpi --oversubscribe -n 2 "$keel" run "$exchanging" >"$scratch/out" 2>&1
  [ "$(grep -c "^2 ranks by .*: 2 exchanges" "$scratch/out")" -eq 1 ] || {
    echo "FAILED: two ranks by mpirun"
    cat "$scratch/out"
    failed=1
  }
}
program=$exchanging
[ -f "$sim" ] && {
  expect 0 "under way; 2 from device to device, 0 hierarchical" --np 2 --plugin "$sim" \
    --device sim --output "$scratch/direct"
  cmp "$scratch/direct/y.npy" "$scratch/ranks/y.npy" || {
    echo "FAILED: values that went from device to device are others"
    failed=1
  }
}
expect 1 "this one has 3" --np 3
expect 1 "there is no device \"none:0\"" --np 2 --device none:0
expect 2 "unknown option" --np 2 --nonsense
# shellcheck disable=SC2046
expect 2 "unknown option" --np 2 $(seq -f "--dim n%g=1" 200) --nonsense
expect 2 "whole number from 1 to 65536" --np 0

# end SIGNAL WHICH STATUS SAID [OPTION...]: the oldest of a run's processes (-o), or the newest (-n), which is a
# rank, gets a signal; all end, with that status, and it is said so many times
end() {
  sent=$1 which=$2 want=$3 times=$4
  shift 4
  "$keel" run "$program" --np 2 --repeat 1000000000 --output "$scratch/ended" "$@" \
    >"$scratch/out" 2>&1 &
  parent=$!
  tries=0
  while [ "$(pgrep -cf "run.*$scratch/ended")" -lt 4 ] && [ $((tries += 1)) -lt 100 ]; do
    sleep 0.1
  done
  sleep 1 # ranks have met, and exchange
  pkill "-$sent" "$which" -f "run.*$scratch/ended"
  wait $parent
  status=$?
  tries=0
  while pgrep -f "run.*$scratch/ended" >/dev/null && [ $((tries += 1)) -lt 50 ]; do
    sleep 0.1
  done
  if [ $status -eq "$want" ] && [ "$(grep -c "$said" "$scratch/out")" -eq "$times" ] && [ $tries -lt 50 ]; then
    echo "ok: $sent for the process that is $which"
  else
    echo "FAILED: $sent for the process that is $which: status $status, or not said $times times, or some are left"
    cat "$scratch/out"
    pkill -KILL -f "run.*$scratch/ended"
    failed=1
  fi
}
said="killed by signal 9\|after 0.5 s: rank [01] waits in #.*; rank [01] does not answer"
command -v mpirun.openmpi >/dev/null && {
  end KILL -n 137 1
  end KILL -o 137 0
  end TERM -o 1 0
  end STOP -n 1 1 --exchange-timeout 500
}
# one file of all ranks; time that was not overlapped
expect 0 "ms of exchanges; .* not overlapped by computation" --np 2 \
  --trace "$scratch/trace.json" --profile
python3 "$(dirname "$0")/../base/check_trace.py" "$scratch/trace.json" &&
  grep -q '"rank 1: host"' "$scratch/trace.json" || {
  echo "FAILED: a trace of two ranks"
  failed=1
}
[ -d "$scratch/devices" ] && ! cmp "$scratch/devices/y.npy" "$scratch/ranks/y.npy" && {
  echo "FAILED: ranks and devices give other values"
  failed=1
}
exit $failed
