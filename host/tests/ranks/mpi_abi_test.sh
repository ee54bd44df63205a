#!/bin/sh
# The module for MPI's standard ABI, without an MPI: what it says of libraries that it can't use,
# and values of one rank by a library that stands in for one.
# usage: mpi_abi_test.sh LINK_RANKS STANDIN CPU_PLUGIN LIBKEEL
#   STANDIN  the stand-in, X.so; X_poor.so beside it lacks a function
set -u
ranks=$1 standin=$2 libkeel=$4
export CPU_PLUGIN=$3
export KEEL_LINK_MODULE=mpi KEEL_MPI_LIBRARY=
unset KEEL_STANDIN_ABI
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# expect STATUS TEXT VARIABLE=VALUE...: a rank that does $what ends so, and says that
what=values
expect() {
  want=$1 text=$2
  shift 2
  timeout 60 env "$@" "$ranks" $what >"$scratch/out" 2>&1
  status=$?
  if [ $status -eq "$want" ] && grep -q "$text" "$scratch/out"; then
    echo "ok: $* $text"
  else
    echo "FAILED: $* $text: status $status"
    cat "$scratch/out"
    failed=1
  fi
}

refuse() {
  text=$1
  shift
  expect 2 "MPI cannot start: .*$text" "$@"
}

export KEEL_MPI_LIBRARY="$standin"
expect 0 "^1 ranks agree" KEEL_LINK_MODULE=mpi
"$ranks" library | grep -qx "Stand-in 1.0" && echo "ok: its name" || {
  echo "FAILED: the library's name"
  failed=1
}
what=exit
expect 1 "^rank 0: the process exits without leaving the other ranks" KEEL_LINK_MODULE=mpi
what=values
refuse "standin.* has version 2.0 of MPI's standard ABI, and this module is for version 1" \
  KEEL_STANDIN_ABI=2
refuse "standin_poor.* has no MPI_Iprobe" KEEL_MPI_LIBRARY="${standin%.so}_poor.so"
refuse "can't be opened (KEEL_MPI_LIBRARY may name it): /none/libmpi_abi.so.1" \
  KEEL_MPI_LIBRARY=/none/libmpi_abi.so.1
# an older MPI's, where there is one, and one that has nothing of MPI
for library in libmpi.so.40 libmpich.so.12 libm.so.6; do
  ldconfig -p 2>/dev/null | grep -q "$library " || [ $library = libm.so.6 ] || continue
  # MPICH brings UCX, which changes malloc, and leaves memory behind when it is closed
  [ $library = libmpich.so.12 ] && [ "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ] && continue
  refuse "$library is not a library of MPI's standard ABI: it has no MPI_Abi_get_version" \
    KEEL_MPI_LIBRARY=$library
done
ldconfig -p 2>/dev/null | grep -q libmpi_abi || refuse "libmpi_abi.so.1: cannot open" KEEL_MPI_LIBRARY=

# under launchers, of a Keel that was built with this module alone
mkdir -p "$scratch/lib/keel-link"
ln -s "$libkeel" "$scratch/lib/"
ln -s "$(dirname "$libkeel")/keel-link/keel_mpi.so" "$scratch/lib/keel-link/"
export LD_LIBRARY_PATH="$scratch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" KEEL_LINK_MODULE=
expect 0 "^1 ranks agree" OMPI_COMM_WORLD_SIZE=1
expect 0 "^1 ranks agree" PMI_SIZE=1
expect 2 "the launcher has started 2 ranks, and .*sees 1" PMI_SIZE=2
expect 2 "the launcher has started 3 ranks, and .*sees 1" SLURM_STEP_NUM_TASKS=3 PMIX_RANK=0
expect 2 "no launcher of MPI has started this process" SLURM_STEP_NUM_TASKS=3
expect 2 "no launcher of MPI has started this process" SLURM_STEP_NUM_TASKS=1 PMIX_RANK=0
refuse "can't be opened .*; keel_openmpi.so, the module of the launcher's MPI, is not there" \
  OMPI_COMM_WORLD_SIZE=1 KEEL_MPI_LIBRARY=/none/libmpi_abi.so.1
exit $failed
