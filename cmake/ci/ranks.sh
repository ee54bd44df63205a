#!/bin/sh
# Ranks under each MPI that is here, with AddressSanitizer, ThreadSanitizer and valgrind: values of
# 1, 2 and 4 ranks (of MPICH 2), and each fault once. Suppressions are for MPI's libraries alone.
# Not a part of CI, which runs the values with the two sanitizers.
# usage: sh cmake/ci/ranks.sh
set -u
cd "$(dirname "$0")/../.." || exit
export KEEL_LOG=error OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failed=0

build() {
  cmake --preset "$1" >/dev/null && cmake --build --preset "$1" --target link_ranks -- --quiet
}

for preset in asan tsan; do
  build $preset || exit
  ctest --preset $preset -R '^link_test_' || failed=1
  case $preset in
    asan) export ASAN_OPTIONS=detect_leaks=1 LSAN_OPTIONS="suppressions=$PWD/cmake/lsan.supp:print_suppressions=0" ;;
    tsan) export TSAN_OPTIONS="halt_on_error=1:suppressions=$PWD/cmake/tsan.supp" ;;
  esac
  for launcher in mpirun.openmpi mpiexec.mpich; do
    echo "== faults, $preset, $launcher"
    command -v $launcher >/dev/null || continue
    sh host/tests/ranks/link_faults.sh $launcher "$PWD/build/$preset/tests/link_ranks" \
      "$PWD/build/$preset/lib/keel/cpu.so" || failed=1
  done
done

build release || exit
# the plugin's AVX-512 loops are not for valgrind, nor are OpenCL and Vulkan drivers
export KEEL_CPU_ISA=base OCL_ICD_VENDORS=/none VK_ICD_FILENAMES=/none
export CPU_PLUGIN="$PWD/build/release/lib/keel/cpu.so"
for count in 1 2 4; do
  for launcher in "mpirun.openmpi --oversubscribe --quiet" mpiexec.mpich; do
    command -v "${launcher%% *}" >/dev/null || continue
    [ "$count $launcher" != "4 mpiexec.mpich" ] || continue
    echo "== valgrind, $count ranks, $launcher"
    $launcher -n $count valgrind --quiet --error-exitcode=9 --leak-check=full \
      --show-leak-kinds=definite --errors-for-leak-kinds=definite --keep-debuginfo=yes \
      --suppressions=cmake/mpi-valgrind.supp build/release/tests/link_ranks values || failed=1
  done
done
[ $failed -eq 0 ] && echo "ranks are clean"
exit $failed
