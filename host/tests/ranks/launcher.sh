# For scripts that start ranks, to be sourced: what `launcher`, their first argument, stands for.
#   mpirun.openmpi, mpiexec.mpich, or abi: that of an MPI of the standard ABI, whose bin/mpiexec and
#   lib/libmpi_abi.so.1 lie in the folder KEEL_TEST_MPI_ABI
# It sets `launcher`, its options (`flags`; `loud`: so that it says itself what it has seen), and
# the number of ranks that are `many`. Where there is no such MPI, the script ends with status 77.
if [ "$launcher" = abi ]; then
  [ "${KEEL_TEST_MPI_ABI:-}" ] || { echo "KEEL_TEST_MPI_ABI names no MPI"; exit 77; }
  launcher=$KEEL_TEST_MPI_ABI/bin/mpiexec
  export KEEL_LINK_MODULE=mpi KEEL_MPI_LIBRARY="$KEEL_TEST_MPI_ABI/lib/libmpi_abi.so.1"
fi
command -v "$launcher" >/dev/null || { echo "there is no $launcher"; exit 77; }
case $launcher in
  *openmpi*) many=4 loud="--oversubscribe --allow-run-as-root" flags="$loud --quiet" ;;
  *) many=2 loud='' flags='' ;; # more than cores, MPICH's ranks take milliseconds to meet
esac
# where the build has sanitizers: MPI's memory is known by all of its callers, not by the nearest
# (cmake/lsan.supp); UCX, of MPICH, has signal stacks of its own, and hooks at threads' ends
if [ "${ASAN_OPTIONS:-}${TSAN_OPTIONS:-}" ]; then
  export ASAN_OPTIONS="${ASAN_OPTIONS:-}:fast_unwind_on_malloc=0:use_sigaltstack=0"
  export UCX_MEM_MMAP_HOOK_MODE=none UCX_MEM_EVENTS=n UCX_WARN_UNUSED_ENV_VARS=n
fi
